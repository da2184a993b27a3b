/* SPDX-License-Identifier: Apache-2.0
 * gather_topk.c - operators that read or write by index, and those that compare along an axis.
 *
 * A thread an element of the output (of the input for TopK and MaxUnpool, which scatter).  An index out of
 * range, an error on cores, is taken as the nearest that exists: a kernel cannot fail, and reads nothing
 * beyond its operands. */
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

/* "const T name = ...;" */
static void declare(struct mo_each *e, const char *name, int k, const char *const *at) {
    mo_gpu_printf(&e->body, "    const %s %s = ", mo_each_type(e, k), name);
    mo_each_value(e, k, at);
    mo_gpu_printf(&e->body, ";\n");
}

/* A new output that lies like input 0. */
static struct mo_gpu_view out_like(struct mo_lower *l, int k, const struct mo_gpu_view *x) {
    int order[MO_VIEW_RANK];
    if (l->rc) return (struct mo_gpu_view){.rank = -1};
    mo_gpu_order_of(x, order);
    return mo_lower_out(l, k, order);
}

static void clamp_index(struct mo_gpu_text *t, const char *name, int64_t n) {
    mo_gpu_printf(t, "    if (%s < 0) %s += %lld;\n    %s = %s < 0 ? 0 : %s >= %lld ? %lld : %s;\n", name,
                  name, (long long)n, name, name, name, (long long)n, (long long)n - 1, name);
}

/* --- comparing along an axis ---------------------------------------------------------------------------- */

/* A thread counts the elements that come before its own: equal ones by position, NaN as the largest. */
void mo_lower_topk(struct mo_lower *l) {
    const bool largest = mo_attr_int(l->node, "largest", 1) != 0;
    struct mo_gpu_view x = mo_lower_in(l, 0), y, at;
    const bool indices = l->node->n_out > 1 && l->node->out[1] >= 0;
    struct mo_each e;
    y = out_like(l, 0, &x);
    if (indices) at = out_like(l, 1, &x);
    if (l->rc) return;
    const int axis = mo_lower_axis(l, -1, x.rank);
    mo_each_init(l, &e, &x);
    mo_each_arg(&e, &x, false);
    const int out = mo_each_arg(&e, &y, true), places = indices ? mo_each_arg(&e, &at, true) : -1;
    declare(&e, "v", 0, mo_each_here);
    mo_gpu_printf(&e.body, "    int rank = 0;\n    for (int j = 0; j < %lld; j++) {\n", (long long)x.d[axis]);
    declare(&e, "u", 0, with(axis, "j").at);
    mo_gpu_printf(&e.body,
                  "    const int odd = u != u || v != v;\n"
                  "    rank += odd ? (u != u && v != v ? j < o%d : (u != u) == %d)\n"
                  "                : u == v ? j < o%d : u %c v;\n    }\n    if (rank >= %lld) return;\n",
                  axis, largest, axis, largest ? '>' : '<', (long long)y.d[axis]);
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
    for (int i = 0; i < x.rank; i++)
        d[i] = i == axis ? 1 : x.d[i];
    mo_gpu_reshape(&y, x.rank, d, &kept);
    mo_each_init(l, &e, &kept);
    mo_each_arg(&e, &x, false);
    const int out = mo_each_arg(&e, &kept, true);
    mo_gpu_printf(&e.body, "    int best = 0;\n    %s top = ", mo_each_type(&e, 0));
    mo_each_value(&e, 0, with(axis, "0").at);
    mo_gpu_printf(&e.body, ";\n    for (int j = 1; j < %lld; j++) {\n", (long long)x.d[axis]);
    declare(&e, "v", 0, with(axis, "j").at);
    mo_gpu_printf(&e.body, "    if (v %c%s top) {\n        best = j;\n        top = v;\n    }\n    }\n",
                  least ? '<' : '>', last ? "=" : "");
    mo_each_store(&e, out, mo_each_here, "best");
    e.flops = mo_gpu_count(&x);
    mo_each_done(l, &e);
}

/* Hardmax: 1 where the greatest element along the axis first stands, else 0.  Before opset 13 the rows go
 * over all axes from that one on. */
void mo_lower_hardmax(struct mo_lower *l) {
    struct mo_gpu_view x = mo_lower_in(l, 0), y = out_like(l, 0, &x), rows;
    const bool flat = l->node->opset < 13;
    struct mo_each e;
    if (l->rc) return;
    int axis = mo_lower_axis(l, flat ? 1 : -1, x.rank);
    if (flat) {
        int64_t d[2] = {1, 1};
        for (int i = 0; i < x.rank; i++)
            d[i >= axis] *= x.d[i];
        x = mo_lower_ordered(l, x, NULL, x.dtype);
        y = mo_lower_out(l, 0, NULL);
        if (l->rc || !mo_gpu_reshape(&x, 2, d, &rows)) return;
        x = rows;
        if (!mo_gpu_reshape(&y, 2, d, &rows)) return;
        y = rows;
        axis = 1;
    }
    mo_each_init(l, &e, &y);
    mo_each_arg(&e, &x, false);
    const int out = mo_each_arg(&e, &y, true);
    declare(&e, "v", 0, mo_each_here);
    mo_gpu_printf(&e.body, "    int first = 1;\n    for (int j = 0; j < %lld; j++) {\n",
                  (long long)x.d[axis]);
    declare(&e, "u", 0, with(axis, "j").at);
    mo_gpu_printf(&e.body, "    if (j < o%d ? u >= v : u > v) first = 0;\n    }\n", axis);
    mo_each_store(&e, out, mo_each_here, "first");
    mo_each_done(l, &e);
}

void mo_lower_cumsum(struct mo_lower *l) {
    const struct mo_tensor *at = l->graph->tensors[l->node->in[1]];
    const bool exclusive = mo_attr_int(l->node, "exclusive", 0) != 0,
               reverse = mo_attr_int(l->node, "reverse", 0) != 0;
    struct mo_gpu_view x = mo_lower_in(l, 0), y = out_like(l, 0, &x);
    struct mo_each e;
    if (!at->data) mo_lower_fail(l, MOIRE_EUNSUPPORTED, "input 1 must be constant on a GPU");
    if (l->rc) return;
    struct mo_value axes = mo_tensor_value(at);
    int64_t axis = mo_load_int(&axes, 0);
    if (axis < 0) axis += x.rank;
    mo_each_init(l, &e, &y);
    mo_each_arg(&e, &x, false);
    const int out = mo_each_arg(&e, &y, true);
    mo_gpu_printf(&e.body, "    %s s = 0;\n", mo_each_type(&e, 0));
    if (reverse)
        mo_gpu_printf(&e.body, "    for (int j = %lld; j >%s o%d; j--) s += ", (long long)x.d[axis] - 1,
                      exclusive ? "" : "=", (int)axis);
    else
        mo_gpu_printf(&e.body, "    for (int j = 0; j <%s o%d; j++) s += ", exclusive ? "" : "=", (int)axis);
    mo_each_value(&e, 0, with((int)axis, "j").at);
    mo_gpu_printf(&e.body, ";\n");
    mo_each_store(&e, out, mo_each_here, "s");
    e.flops = mo_gpu_count(&x) * x.d[axis] / 2;
    mo_each_done(l, &e);
}

/* --- reading by index ----------------------------------------------------------------------------------- */

void mo_lower_gather_elements(struct mo_lower *l) {
    struct mo_gpu_view x = mo_lower_in(l, 0), index = mo_lower_in(l, 1), y = out_like(l, 0, &index);
    struct mo_each e;
    if (l->rc) return;
    const int axis = mo_lower_axis(l, 0, x.rank);
    mo_each_init(l, &e, &y);
    mo_each_arg(&e, &x, false);
    mo_each_arg(&e, &index, false);
    const int out = mo_each_arg(&e, &y, true);
    mo_gpu_printf(&e.body, "    long long j = ");
    mo_each_value(&e, 1, mo_each_here);
    mo_gpu_printf(&e.body, ";\n");
    clamp_index(&e.body, "j", x.d[axis]);
    declare(&e, "v", 0, with(axis, "j").at);
    mo_each_store(&e, out, mo_each_here, "v");
    mo_each_done(l, &e);
}

/* The indices of a tuple: j0, j1, ..., read from operand k at coordinates `at`, whose last is the place in
 * the tuple; bounded by dimensions `first`, ... of d. */
static void tuple_text(struct mo_each *e, int k, struct coordinates at, int64_t width, const int64_t *d) {
    char place[8], name[8];
    for (int64_t i = 0; i < width; i++) {
        snprintf(place, sizeof place, "%d", (int)i);
        snprintf(name, sizeof name, "j%d", (int)i);
        at.at[e->arg[k].rank - 1] = place;
        mo_gpu_printf(&e->body, "    long long %s = ", name);
        mo_each_value(e, k, at.at);
        mo_gpu_printf(&e->body, ";\n");
        clamp_index(&e->body, name, d[i]);
    }
}

void mo_lower_gather_nd(struct mo_lower *l) {
    static const char *const tuple[] = {"j0", "j1", "j2", "j3", "j4", "j5", "j6", "j7"};
    struct mo_gpu_view x = mo_lower_in(l, 0), index = mo_lower_in(l, 1), y = {.rank = -1};
    struct coordinates from = with(0, "o0");
    struct mo_each e;
    if (!l->rc) y = mo_lower_out(l, 0, NULL);
    if (l->rc) return;
    const int batch = (int)mo_attr_int(l->node, "batch_dims", 0), lead = index.rank - 1;
    const int width = (int)index.d[lead];
    for (int i = 0; i < width; i++)
        from.at[batch + i] = tuple[i];
    for (int i = batch + width; i < x.rank; i++)
        from.at[i] = mo_each_here[lead + i - batch - width];
    mo_each_init(l, &e, &y);
    mo_each_arg(&e, &x, false);
    mo_each_arg(&e, &index, false);
    const int out = mo_each_arg(&e, &y, true);
    tuple_text(&e, 1, with(0, "o0"), width, x.d + batch);
    declare(&e, "v", 0, from.at);
    mo_each_store(&e, out, mo_each_here, "v");
    mo_each_done(l, &e);
}

void mo_lower_one_hot(struct mo_lower *l) {
    struct mo_gpu_view index = mo_lower_in(l, 0), values = mo_lower_in(l, 2), y = {.rank = -1};
    struct coordinates from = with(0, "o0");
    struct mo_each e;
    if (!l->rc) y = mo_lower_out(l, 0, NULL);
    if (l->rc) return;
    const int axis = mo_lower_axis(l, -1, y.rank);
    for (int i = 0; i < index.rank; i++)
        from.at[i] = mo_each_here[i < axis ? i : i + 1];
    mo_each_init(l, &e, &y);
    mo_each_arg(&e, &index, false);
    mo_each_arg(&e, &values, false);
    const int out = mo_each_arg(&e, &y, true);
    mo_gpu_printf(&e.body, "    long long j = (long long)");
    mo_each_value(&e, 0, from.at);
    mo_gpu_printf(&e.body, ";\n    if (j < 0) j += %lld;\n", (long long)y.d[axis]);
    mo_gpu_printf(&e.body, "    const int hit = j == o%d;\n", axis);
    declare(&e, "v", 1, (const char *const[]){"hit"});
    mo_each_store(&e, out, mo_each_here, "v");
    mo_each_done(l, &e);
}

void mo_lower_reverse_sequence(struct mo_lower *l) {
    const int time = (int)mo_attr_int(l->node, "time_axis", 0);
    struct mo_gpu_view x = mo_lower_in(l, 0), length = mo_lower_in(l, 1), y = out_like(l, 0, &x);
    struct mo_each e;
    if (l->rc) return;
    mo_each_init(l, &e, &y);
    mo_each_arg(&e, &x, false);
    mo_each_arg(&e, &length, false);
    const int out = mo_each_arg(&e, &y, true);
    declare(&e, "n", 1, (const char *const[]){mo_each_here[1 - time]});
    mo_gpu_printf(&e.body, "    long long j = o%d < n ? n - 1 - o%d : o%d;\n", time, time, time);
    clamp_index(&e.body, "j", x.d[time]);
    declare(&e, "v", 0, with(time, "j").at);
    mo_each_store(&e, out, mo_each_here, "v");
    mo_each_done(l, &e);
}

/* --- writing by index ----------------------------------------------------------------------------------- */

/* r takes u as the node's `reduction` says. */
static void reduce_text(struct mo_lower *l, struct mo_gpu_text *t) {
    const char *how = mo_attr_string(l->node, "reduction", "none");
    mo_gpu_printf(t, !strcmp(how, "add")   ? "        r = r + u;\n"
                     : !strcmp(how, "mul") ? "        r = r * u;\n"
                     : !strcmp(how, "min") ? "        r = u < r ? u : r;\n"
                     : !strcmp(how, "max") ? "        r = u > r ? u : r;\n"
                                           : "        r = u;\n");
}

/* An element looks for the updates along the axis that name it, in their order: no race, and the same answer
 * every time. */
void mo_lower_scatter_elements(struct mo_lower *l) {
    struct mo_gpu_view x = mo_lower_in(l, 0), index = mo_lower_in(l, 1), update = mo_lower_in(l, 2),
                       y = out_like(l, 0, &x);
    struct mo_each e;
    if (l->rc) return;
    const int axis = mo_lower_axis(l, 0, x.rank);
    mo_each_init(l, &e, &y);
    mo_each_arg(&e, &x, false);
    mo_each_arg(&e, &index, false);
    mo_each_arg(&e, &update, false);
    const int out = mo_each_arg(&e, &y, true);
    mo_gpu_printf(&e.body, "    %s r = ", mo_each_type(&e, 0));
    mo_each_value(&e, 0, mo_each_here);
    mo_gpu_printf(&e.body, ";\n    int inside = 1;\n");
    for (int i = 0; i < x.rank; i++)
        if (i != axis && index.d[i] < x.d[i])
            mo_gpu_printf(&e.body, "    if (o%d >= %lld) inside = 0;\n", i, (long long)index.d[i]);
    mo_gpu_printf(&e.body, "    for (int j = 0; inside && j < %lld; j++) {\n    long long to = ",
                  (long long)index.d[axis]);
    mo_each_value(&e, 1, with(axis, "j").at);
    mo_gpu_printf(&e.body, ";\n    if (to < 0) to += %lld;\n    if (to != o%d) continue;\n",
                  (long long)x.d[axis], axis);
    declare(&e, "u", 2, with(axis, "j").at);
    reduce_text(l, &e.body);
    mo_gpu_printf(&e.body, "    }\n");
    mo_each_store(&e, out, mo_each_here, "r");
    e.flops = mo_gpu_count(&y) * index.d[axis];
    mo_each_done(l, &e);
}

/* The same over all tuples; for large numbers of both it would take for ever. */
void mo_lower_scatter_nd(struct mo_lower *l) {
    enum { MOST = 1 << 30 };
    struct mo_gpu_view x = mo_lower_in(l, 0), index = mo_lower_in(l, 1), update = mo_lower_in(l, 2),
                       y = out_like(l, 0, &x), tuples, slices;
    struct mo_each e;
    int64_t d[MO_VIEW_RANK] = {1};
    if (l->rc) return;
    index = mo_lower_ordered(l, index, NULL, index.dtype);
    update = mo_lower_ordered(l, update, NULL, update.dtype);
    const int64_t width = index.d[index.rank - 1], n = mo_gpu_count(&index) / width;
    if (n * mo_gpu_count(&y) > MOST)
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "%lld updates of %lld elements are too many for a GPU",
                      (long long)n, (long long)mo_gpu_count(&y));
    d[0] = n;
    for (int i = (int)width; i < x.rank; i++)
        d[1 + i - width] = x.d[i];
    if (l->rc || !mo_gpu_reshape(&index, 2, (int64_t[]){n, width}, &tuples) ||
        !mo_gpu_reshape(&update, 1 + x.rank - (int)width, d, &slices))
        return;
    struct coordinates from = with(0, "j");
    for (int i = (int)width; i < x.rank; i++)
        from.at[1 + i - width] = mo_each_here[i];
    mo_each_init(l, &e, &y);
    mo_each_arg(&e, &x, false);
    mo_each_arg(&e, &tuples, false);
    mo_each_arg(&e, &slices, false);
    const int out = mo_each_arg(&e, &y, true);
    mo_gpu_printf(&e.body, "    %s r = ", mo_each_type(&e, 0));
    mo_each_value(&e, 0, mo_each_here);
    mo_gpu_printf(&e.body, ";\n    for (int j = 0; j < %lld; j++) {\n", (long long)n);
    tuple_text(&e, 1, with(0, "j"), width, x.d);
    for (int i = 0; i < width; i++)
        mo_gpu_printf(&e.body, "    if (j%d != o%d) continue;\n", i, i);
    declare(&e, "u", 2, from.at);
    reduce_text(l, &e.body);
    mo_gpu_printf(&e.body, "    }\n");
    mo_each_store(&e, out, mo_each_here, "r");
    e.flops = mo_gpu_count(&y) * n;
    mo_each_done(l, &e);
}

/* Zeros, and then every value to the place that its index names in the shape without `output_shape`. */
void mo_lower_unpool(struct mo_lower *l) {
    static const char *const names[] = {"j0", "j1", "j2", "j3", "j4", "j5", "j6", "j7"};
    struct mo_value in[3];
    const struct mo_op_ctx ctx = mo_lower_ctx(l, in, 3);
    struct mo_gpu_view x = mo_lower_in(l, 0), index = mo_lower_in(l, 1), y = {.rank = -1};
    struct mo_shape natural;
    struct mo_elementwise zero;
    struct mo_each e;
    if (!l->rc) l->rc = mo_unpool_shape(&ctx, &natural);
    if (!l->rc) y = mo_lower_out(l, 0, NULL);
    if (l->rc) return;
    mo_elementwise_init(l, &zero, y);
    mo_gpu_printf(&zero.body, "    r = 0;\n");
    mo_elementwise_done(l, &zero);
    mo_each_init(l, &e, &x);
    mo_each_arg(&e, &x, false);
    mo_each_arg(&e, &index, false);
    const int out = mo_each_arg(&e, &y, true);
    mo_gpu_printf(&e.body, "    long long at = ");
    mo_each_value(&e, 1, mo_each_here);
    const long long last = (long long)mo_shape_count(&natural) - 1;
    mo_gpu_printf(&e.body, ";\n    at = at < 0 ? 0 : at > %lld ? %lld : at;\n", last, last);
    for (int i = natural.rank - 1; i >= 0; i--)
        mo_gpu_printf(&e.body, "    const int j%d = (int)(at %% %lld);\n    at /= %lld;\n", i,
                      (long long)natural.d[i], (long long)natural.d[i]);
    declare(&e, "v", 0, mo_each_here);
    mo_each_store(&e, out, names, "v");
    mo_each_done(l, &e);
}
