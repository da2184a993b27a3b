/* SPDX-License-Identifier: Apache-2.0
 * algebra.c - Einsum.
 *
 * Two operands that share summed labels are matrices to a library: labels of both and the output count the
 * matrices, those of one and the output are rows or columns.  Everything else is left to cores. */
#include "runtime/gpu/lower/lower.h"
#include "runtime/ops/einsum.h"

struct labels {
    int n, of[MO_EINSUM_LABELS];
};

enum { COUNT, ROWS, COLUMNS, SUMMED, GROUPS };

/* The operand's axis of that label: -1 it has none (an axis of extent 1 that broadcasts is none), -2 it has
 * several. */
static int axis_of(const struct mo_einsum *e, int operand, const struct mo_gpu_view *v, int label) {
    int axis = -1;
    for (int k = 0; k < v->rank; k++)
        if (e->axis[operand][k] == label && v->d[k] == e->size[label]) axis = axis == -1 ? k : -2;
    return axis;
}

/* Sorts labels into groups; false when the node is no product of matrices. */
static bool sort_labels(const struct mo_einsum *e, const struct mo_gpu_view *in, struct labels *group) {
    for (int i = 0; i < e->n_labels; i++) {
        const int a = axis_of(e, 0, &in[0], i), b = axis_of(e, 1, &in[1], i);
        const bool out = i < e->n_out;
        if (a == -2 || b == -2 || (!out && (a < 0 || b < 0))) return false;
        struct labels *g = &group[!out ? SUMMED : a < 0 ? COLUMNS : b < 0 ? ROWS : COUNT];
        g->of[g->n++] = i;
    }
    return group[SUMMED].n > 0;
}

/* Appends the operand's axes of a group; their product. */
static int64_t take_axes(const struct mo_einsum *e, int operand, const struct mo_gpu_view *v,
                         const struct labels *group, struct mo_gpu_view *out) {
    int64_t n = 1;
    for (int i = 0; i < group->n; i++) {
        const int axis = axis_of(e, operand, v, group->of[i]);
        out->d[out->rank] = v->d[axis];
        out->stride[out->rank++] = v->stride[axis];
        n *= v->d[axis];
    }
    return n;
}

/* An operand as [count][..][..] in the order of three groups. */
static struct mo_gpu_view matrices_of(struct mo_lower *l, const struct mo_einsum *e, int operand,
                                      const struct mo_gpu_view *v, const struct labels *group,
                                      const int (*order)[3]) {
    struct mo_gpu_view all = {.place = v->place, .dtype = v->dtype}, flat;
    int64_t d[3];
    for (int i = 0; i < 3; i++)
        d[i] = take_axes(e, operand, v, &group[(*order)[i]], &all);
    if (mo_gpu_reshape(&all, 3, d, &flat)) return flat;
    all = mo_lower_ordered(l, all, NULL, l->storage);
    if (!l->rc) mo_gpu_reshape(&all, 3, d, &flat);
    return flat;
}

static void as_product(struct mo_lower *l, const struct mo_einsum *e, const struct mo_gpu_view *in,
                       const struct labels *group) {
    static const int left[3] = {COUNT, ROWS, SUMMED}, right[3] = {COUNT, SUMMED, COLUMNS};
    static const struct mo_fuse none = {.residual = -1};
    struct mo_gpu_view a = matrices_of(l, e, 0, &in[0], group, &left),
                       b = matrices_of(l, e, 1, &in[1], group, &right), y;
    int64_t d[MO_VIEW_RANK];
    int perm[MO_VIEW_RANK], n = 0;
    if (l->rc) return;
    for (int g = COUNT; g < SUMMED; g++)
        for (int i = 0; i < group[g].n; i++) {
            perm[group[g].of[i]] = n;
            d[n++] = e->size[group[g].of[i]];
        }
    struct mo_gpu_gemm g = {.count = a.d[0], .m = a.d[1], .n = b.d[2], .k = a.d[2], .alpha = 1};
    g.a = mo_lower_operand(l, a, NULL);
    g.b = mo_lower_operand(l, b, &g.transposed);
    y = mo_lower_new(l, l->storage, n, d, NULL);
    if (l->rc) return;
    g.d = (struct mo_gpu_matrix){.at = y.place, .row = g.n, .step = g.count > 1 ? g.m * g.n : 0};
    mo_lower_gemm(l, &g, &y, NULL, &none);
    mo_lower_set(l, 0, mo_gpu_permute(&y, perm));
}

void mo_lower_einsum(struct mo_lower *l) {
    struct mo_value value[2];
    struct mo_gpu_view in[2];
    struct labels group[GROUPS] = {{0}};
    const struct mo_op_ctx ctx = mo_lower_ctx(l, value, 2);
    struct mo_einsum e;
    bool product = l->node->n_in == 2 && value[0].dtype == MOIRE_F32;
    if (product) l->rc = mo_einsum_describe(&ctx, &e);
    for (int i = 0; i < 2 && product && !l->rc; i++)
        in[i] = mo_lower_stored(l, i);
    if (l->rc) return;
    product = product && sort_labels(&e, in, group);
    if (product)
        as_product(l, &e, in, group);
    else
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "only products of matrices are supported on a GPU");
}
