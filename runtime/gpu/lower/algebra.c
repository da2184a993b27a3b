/* SPDX-License-Identifier: Apache-2.0
 * algebra.c - Einsum and determinants.
 *
 * Two operands of an Einsum that share summed labels are matrices to a library: labels of both and the output
 * count the matrices, those of one and the output are rows or columns.  Everything else is a kernel with a
 * thread an element and a loop a summed label. */
#include <stdio.h>
#include <string.h>
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

static void as_loops(struct mo_lower *l, const struct mo_einsum *e, const struct mo_gpu_view *in, int n) {
    char name[MO_EINSUM_LABELS][8];
    const char *at[MO_VIEW_RANK];
    struct mo_gpu_view y = mo_lower_out(l, 0, NULL);
    struct mo_each k;
    if (l->rc) return;
    mo_each_init(l, &k, &y);
    for (int i = 0; i < n; i++)
        mo_each_arg(&k, &in[i], false);
    const int out = mo_each_arg(&k, &y, true);
    mo_gpu_printf(&k.body, "    %s r = 0;\n", mo_each_type(&k, 0));
    for (int i = 0; i < e->n_labels; i++) {
        snprintf(name[i], sizeof name[i], i < e->n_out ? "o%d" : "s%d", i);
        if (i < e->n_out) continue;
        mo_gpu_printf(&k.body, "    for (int s%d = 0; s%d < %lld; s%d++)\n", i, i, (long long)e->size[i], i);
        k.flops *= e->size[i];
    }
    mo_gpu_printf(&k.body, "    r += (%s)1", mo_each_type(&k, 0));
    for (int i = 0; i < n; i++) {
        for (int axis = 0; axis < in[i].rank; axis++)
            at[axis] = name[e->axis[i][axis]];
        mo_gpu_printf(&k.body, " * ");
        mo_each_value(&k, i, at);
    }
    mo_gpu_printf(&k.body, ";\n");
    mo_each_store(&k, out, mo_each_here, "r");
    mo_each_done(l, &k);
}

void mo_lower_einsum(struct mo_lower *l) {
    struct mo_value value[MO_EINSUM_OPERANDS];
    struct mo_gpu_view in[MO_EINSUM_OPERANDS];
    struct labels group[GROUPS] = {{0}};
    const struct mo_op_ctx ctx = mo_lower_ctx(l, value, MO_EINSUM_OPERANDS);
    struct mo_einsum e;
    if (l->node->n_in > MO_EINSUM_OPERANDS)
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "%d inputs are too many for a GPU", l->node->n_in);
    if (!l->rc) l->rc = mo_einsum_describe(&ctx, &e);
    for (int i = 0; i < ctx.n_in && !l->rc; i++)
        in[i] = value[i].dtype == MOIRE_F32 ? mo_lower_stored(l, i) : mo_lower_in(l, i);
    if (l->rc) return;
    if (ctx.n_in == 2 && value[0].dtype == MOIRE_F32 && sort_labels(&e, in, group))
        as_product(l, &e, in, group);
    else
        as_loops(l, &e, in, ctx.n_in);
}

/* A thread a matrix: elimination with pivots, in memory of its own. */
void mo_lower_det(struct mo_lower *l) {
    struct mo_gpu_view x = mo_lower_in(l, 0), y = {.rank = -1}, from, to, work;
    struct mo_each e;
    if (!l->rc) y = mo_lower_out(l, 0, NULL);
    if (l->rc) return;
    const int64_t n = x.d[x.rank - 1], count = mo_gpu_count(&y), d[3] = {count, n, n};
    x = mo_lower_ordered(l, x, NULL, x.dtype);
    work = mo_lower_new(l, MOIRE_F64, 3, d, NULL);
    if (l->rc || !mo_gpu_reshape(&x, 3, d, &from) || !mo_gpu_reshape(&y, 1, d, &to)) return;
    mo_each_init(l, &e, &to);
    mo_each_arg(&e, &work, true);
    mo_each_arg(&e, &from, false);
    const int out = mo_each_arg(&e, &to, true);
    mo_each_text(&e,
                 "    const int n = %lld;\n    double *m = a0 + (long long)o0 * n * n;\n"
                 "    for (int r = 0; r < n; r++) for (int c = 0; c < n; c++) m[r * n + c] = @1(o0, r, c);\n",
                 (long long)n);
    mo_gpu_printf(&e.body, "    double det = 1;\n"
                           "    for (int c = 0; c < n; c++) {\n"
                           "        int pivot = c;\n"
                           "        for (int r = c + 1; r < n; r++)\n"
                           "            if (fabs(m[r * n + c]) > fabs(m[pivot * n + c])) pivot = r;\n"
                           "        if (pivot != c) det = -det;\n"
                           "        for (int k = 0; k < n; k++) {\n"
                           "            const double swap = m[c * n + k];\n"
                           "            m[c * n + k] = m[pivot * n + k];\n"
                           "            m[pivot * n + k] = swap;\n"
                           "        }\n"
                           "        const double top = m[c * n + c];\n"
                           "        det = top == 0 ? 0 : det * top;\n"
                           "        for (int r = c + 1; r < n && top != 0; r++) {\n"
                           "            const double factor = m[r * n + c] / top;\n"
                           "            for (int k = c; k < n; k++) m[r * n + k] -= factor * m[c * n + k];\n"
                           "        }\n"
                           "    }\n");
    mo_each_store(&e, out, mo_each_here, "det");
    e.flops = count * n * n * n;
    mo_each_done(l, &e);
}
