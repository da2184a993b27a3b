/* SPDX-License-Identifier: Apache-2.0
 * gather_topk.c - operators that read or write by index, and those that compare along an axis.
 *
 * A thread an element of the output (of the input for TopK, which scatters).  An index out of range, an error
 * on cores, is taken as the nearest that exists: a kernel cannot fail, and reads nothing beyond its operands.
 */
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/lower/lower.h"

/* Coordinates of a view: those of the thread but one. */
struct coordinates {
    const char *at[MO_VIEW_RANK];
};

static struct coordinates with(int axis, const char *name) {
    struct coordinates c;
    memcpy(c.at, mo_each_here, sizeof c.at);
    c.at[axis] = name;
    return c;
}

static void clamp_index(struct mo_each *e, const char *name, int64_t n) {
    mo_each_text(e, "    if (%s < 0) %s += %lld;\n    %s = %s < 0 ? 0 : %s >= %lld ? %lld : %s;\n", name,
                 name, (long long)n, name, name, name, (long long)n, (long long)n - 1, name);
}

/* --- comparing along an axis ---------------------------------------------------------------------------- */

/* A thread counts the elements that come before its own: equal ones by position, NaN as the largest. */
void mo_lower_topk(struct mo_lower *l) {
    const bool largest = mo_attr_int(l->node, "largest", 1) != 0;
    struct mo_gpu_view x = mo_lower_in(l, 0), y, at;
    const bool indices = l->node->n_out > 1 && l->node->out[1] >= 0;
    struct mo_each e;
    y = mo_lower_out_like(l, 0, &x);
    if (indices) at = mo_lower_out_like(l, 1, &x);
    if (l->rc) return;
    const int axis = mo_lower_axis(l, -1, x.rank);
    mo_each_init(l, &e, &x);
    mo_each_arg(&e, &x, false);
    const int out = mo_each_arg(&e, &y, true), places = indices ? mo_each_arg(&e, &at, true) : -1;
    mo_each_text(&e,
                 "    const $0 v = @0;\n    int rank = 0;\n"
                 "    for (int j = 0; j < %lld; j++) {\n"
                 "    const $0 u = @0{%d:j};\n"
                 "    const int odd = u != u || v != v;\n"
                 "    rank += odd ? (u != u && v != v ? j < o%d : (u != u) == %d)\n"
                 "                : u == v ? j < o%d : u %c v;\n    }\n    if (rank >= %lld) return;\n",
                 (long long)x.d[axis], axis, axis, largest, axis, largest ? '>' : '<', (long long)y.d[axis]);
    mo_each_store(&e, out, with(axis, "rank").at, "v");
    if (indices) mo_each_store(&e, places, with(axis, "rank").at, mo_each_here[axis]);
    e.flops = mo_gpu_count(&x) * x.d[axis];
    mo_each_done(l, &e);
}

void mo_lower_arg(struct mo_lower *l) {
    const bool least = !strcmp(l->node->op_type, "ArgMin"),
               last = mo_attr_int(l->node, "select_last_index", 0) != 0;
    struct mo_gpu_view x = mo_lower_in(l, 0), y = {.rank = -1}, kept;
    int64_t d[MO_VIEW_RANK];
    struct mo_each e;
    if (!l->rc) y = mo_lower_out(l, 0, NULL);
    if (l->rc) return;
    const int axis = mo_lower_axis(l, 0, x.rank);
    memcpy(d, x.d, sizeof d);
    d[axis] = 1;
    mo_gpu_reshape(&y, x.rank, d, &kept);
    mo_each_init(l, &e, &kept);
    mo_each_arg(&e, &x, false);
    e.out = mo_each_arg(&e, &kept, true);
    mo_each_text(&e,
                 "    int best = 0;\n    $0 top = @0{%d:0};\n"
                 "    for (int j = 1; j < %lld; j++) {\n"
                 "    const $0 v = @0{%d:j};\n"
                 "    if (v %c%s top) {\n        best = j;\n        top = v;\n    }\n    }\n",
                 axis, (long long)x.d[axis], axis, least ? '<' : '>', last ? "=" : "");
    e.flops = mo_gpu_count(&x);
    mo_each_close(l, &e, "best");
}

void mo_lower_cumsum(struct mo_lower *l) {
    const struct mo_tensor *at = l->graph->tensors[l->node->in[1]];
    const char *self = mo_attr_int(l->node, "exclusive", 0) ? "" : "=";
    const bool reverse = mo_attr_int(l->node, "reverse", 0) != 0;
    struct mo_each e;
    if (!at->data) mo_lower_fail(l, MOIRE_EUNSUPPORTED, "input 1 must be constant on a GPU");
    if (!mo_each_open(l, &e, 1, 0)) return;
    const struct mo_gpu_view *x = &e.arg[0];
    struct mo_value axes = mo_tensor_value(at);
    int axis = (int)mo_load_int(&axes, 0);
    if (axis < 0) axis += x->rank;
    mo_each_text(&e, "    $0 s = 0;\n");
    if (reverse)
        mo_each_text(&e, "    for (int j = %lld; j >%s o%d; j--) s += @0{%d:j};\n", (long long)x->d[axis] - 1,
                     self, axis, axis);
    else
        mo_each_text(&e, "    for (int j = 0; j <%s o%d; j++) s += @0{%d:j};\n", self, axis, axis);
    e.flops = mo_gpu_count(x) * x->d[axis] / 2;
    mo_each_close(l, &e, "s");
}

/* --- reading by index ----------------------------------------------------------------------------------- */

void mo_lower_gather_elements(struct mo_lower *l) {
    struct mo_each e;
    if (!mo_each_open(l, &e, 2, 1)) return;
    const int axis = mo_lower_axis(l, 0, e.arg[0].rank);
    mo_each_text(&e, "    long long j = @1;\n");
    clamp_index(&e, "j", e.arg[0].d[axis]);
    mo_each_text(&e, "    const $0 v = @0{%d:j};\n", axis);
    mo_each_close(l, &e, "v");
}

/* The indices of a tuple: j0, j1, ..., read from operand k at coordinates `at`, whose last is the place in
 * the tuple; bounded by dimensions `first`, ... of d. */
static void tuple_text(struct mo_each *e, int k, struct coordinates at, int64_t width, const int64_t *d) {
    char place[8], name[8];
    at.at[e->arg[k].rank - 1] = place;
    for (int64_t i = 0; i < width; i++) {
        snprintf(place, sizeof place, "%d", (int)i);
        snprintf(name, sizeof name, "j%d", (int)i);
        mo_each_text(e, "    long long %s = ", name);
        mo_each_value(e, k, at.at);
        mo_each_text(e, ";\n");
        clamp_index(e, name, d[i]);
    }
}

/* --- writing by index ----------------------------------------------------------------------------------- */

/* r takes u as the node's `reduction` says. */
static const char *reduce_text(const struct mo_lower *l) {
    const char *how = mo_attr_string(l->node, "reduction", "none");
    return !strcmp(how, "add")   ? "r = r + u"
           : !strcmp(how, "mul") ? "r = r * u"
           : !strcmp(how, "min") ? "r = u < r ? u : r"
           : !strcmp(how, "max") ? "r = u > r ? u : r"
                                 : "r = u";
}

/* An element looks for the updates that name it, in their order: no race, and the same answer every time. For
 * large numbers of both it would take for ever. */
void mo_lower_scatter_nd(struct mo_lower *l) {
    enum { MOST = 1 << 30 };
    struct mo_gpu_view x = mo_lower_in(l, 0), index = mo_lower_in(l, 1), update = mo_lower_in(l, 2),
                       y = mo_lower_out_like(l, 0, &x), tuples, slices;
    struct mo_each e;
    int64_t d[MO_VIEW_RANK] = {1};
    if (l->rc) return;
    index = mo_lower_ordered(l, index, NULL, index.dtype);
    update = mo_lower_ordered(l, update, NULL, update.dtype);
    const int64_t width = index.d[index.rank - 1], n = mo_gpu_count(&index) / width;
    if (n * mo_gpu_count(&y) > MOST)
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "%lld updates of %lld elements are too many for a GPU",
                      (long long)n, (long long)mo_gpu_count(&y));
    struct coordinates from = with(0, "j");
    d[0] = n;
    for (int i = (int)width; i < x.rank; i++) {
        d[1 + i - width] = x.d[i];
        from.at[1 + i - width] = mo_each_here[i];
    }
    if (l->rc || !mo_gpu_reshape(&index, 2, (int64_t[]){n, width}, &tuples) ||
        !mo_gpu_reshape(&update, 1 + x.rank - (int)width, d, &slices))
        return;
    mo_each_init(l, &e, &y);
    mo_each_arg(&e, &x, false);
    mo_each_arg(&e, &tuples, false);
    mo_each_arg(&e, &slices, false);
    e.out = mo_each_arg(&e, &y, true);
    mo_each_text(&e, "    $0 r = @0;\n    for (int j = 0; j < %lld; j++) {\n", (long long)n);
    tuple_text(&e, 1, with(0, "j"), width, x.d);
    for (int i = 0; i < width; i++)
        mo_each_text(&e, "    if (j%d != o%d) continue;\n", i, i);
    mo_each_declare(&e, "u", 2, from.at);
    mo_each_text(&e, "        %s;\n    }\n", reduce_text(l));
    e.flops = mo_gpu_count(&y) * n;
    mo_each_close(l, &e, "r");
}
