/* SPDX-License-Identifier: Apache-2.0
 * move.c - operators that only move elements: most are other views of the same memory. */
#include <string.h>
#include "runtime/gpu/lower.h"

/* The inputs as operators see them, for mo_read_ints() and its like. */
static struct mo_op_ctx context(struct mo_lower *l, struct mo_value in[8]) {
    struct mo_op_ctx ctx = {.node = l->node, .env = l->env, .in = in, .err = l->err};
    ctx.n_in = l->node->n_in < 8 ? l->node->n_in : 8;
    for (int i = 0; i < ctx.n_in; i++)
        in[i] = l->node->in[i] >= 0 ? mo_tensor_value(l->graph->tensors[l->node->in[i]])
                                    : (struct mo_value){.dtype = MOIRE_NONE};
    return ctx;
}

/* Numbers of a constant input, or of an attribute in older operators; -1: not given. */
static int numbers(struct mo_lower *l, int input, const char *attribute, int64_t out[MOIRE_MAX_RANK * 2]) {
    struct mo_value in[8];
    struct mo_op_ctx ctx = context(l, in);
    bool need = false;
    if (!mo_lower_has(l, input))
        return attribute ? mo_attr_ints(l->node, attribute, out, MOIRE_MAX_RANK * 2) : -1;
    int n = mo_read_ints(&ctx, input, out, MOIRE_MAX_RANK * 2, &need);
    if (need) mo_lower_fail(l, MOIRE_EUNSUPPORTED, "input %d must be constant on a GPU", input);
    if (n < 0 && !l->rc) l->rc = n;
    return l->rc ? -1 : n;
}

void mo_lower_view(struct mo_lower *l) {
    struct mo_gpu_view x = mo_lower_in(l, 0), y;
    if (l->rc) return;
    const struct mo_shape *s = &l->graph->tensors[l->node->out[0]]->shape;
    if (!mo_gpu_reshape(&x, s->rank, s->d, &y)) {
        x = mo_lower_ordered(l, x, NULL, x.dtype);
        if (!l->rc && !mo_gpu_reshape(&x, s->rank, s->d, &y))
            mo_lower_fail(l, MOIRE_EINTERNAL, "no view of that shape");
    }
    mo_lower_set(l, 0, y);
}

void mo_lower_transpose(struct mo_lower *l) {
    struct mo_gpu_view x = mo_lower_in(l, 0);
    int64_t given[MOIRE_MAX_RANK];
    int perm[MOIRE_MAX_RANK], n = mo_attr_ints(l->node, "perm", given, MOIRE_MAX_RANK);
    if (l->rc) return;
    for (int i = 0; i < x.rank; i++)
        perm[i] = n == x.rank ? (int)given[i] : x.rank - 1 - i;
    mo_lower_set(l, 0, mo_gpu_permute(&x, perm));
}

static int axis_of(const struct mo_lower *l, int64_t fallback, int rank) {
    int64_t axis = mo_attr_int(l->node, "axis", fallback);
    return (int)(axis < 0 ? axis + rank : axis);
}

void mo_lower_concat(struct mo_lower *l) {
    struct mo_gpu_view first = mo_lower_in(l, 0);
    int order[MO_VIEW_RANK];
    int64_t at = 0;
    if (l->rc) return;
    mo_gpu_order_of(&first, order);
    struct mo_gpu_view y = mo_lower_out(l, 0, order);
    int axis = axis_of(l, 1, y.rank);
    for (int i = 0; i < l->node->n_in && !l->rc; i++) {
        struct mo_gpu_view x = mo_lower_in(l, i), part;
        if (l->rc) return;
        part = mo_gpu_slice(&y, axis, at, x.d[axis], 1);
        at += x.d[axis];
        mo_lower_copy(l, &x, &part);
    }
}

void mo_lower_split(struct mo_lower *l) {
    struct mo_gpu_view x = mo_lower_in(l, 0);
    int64_t at = 0;
    if (l->rc) return;
    int axis = axis_of(l, 0, x.rank);
    for (int i = 0; i < l->node->n_out; i++) {
        if (l->node->out[i] < 0) {
            mo_lower_fail(l, MOIRE_EUNSUPPORTED, "an output that is left out is not supported on a GPU");
            return;
        }
        int64_t n = l->graph->tensors[l->node->out[i]]->shape.d[axis];
        mo_lower_set(l, i, mo_gpu_slice(&x, axis, at, n, 1));
        at += n;
    }
}

void mo_lower_slice(struct mo_lower *l) {
    int64_t starts[16], axes[16], steps[16];
    struct mo_gpu_view x = mo_lower_in(l, 0);
    if (l->rc) return;
    int n = numbers(l, 1, "starts", starts), n_axes = numbers(l, 3, "axes", axes),
        n_steps = numbers(l, 4, NULL, steps);
    const struct mo_shape *s = &l->graph->tensors[l->node->out[0]]->shape;
    for (int i = 0; i < n && !l->rc; i++) {
        int64_t axis = n_axes == n ? axes[i] : i, step = n_steps == n ? steps[i] : 1, start = starts[i];
        if (axis < 0) axis += x.rank;
        int64_t d = x.d[axis], top = step < 0 ? d - 1 : d;
        if (start < 0) start += d;
        start = start < 0 ? 0 : start > top ? top : start;
        x = mo_gpu_slice(&x, (int)axis, start, s->d[axis], step);
    }
    mo_lower_set(l, 0, x);
}

void mo_lower_expand(struct mo_lower *l) {
    struct mo_gpu_view x = mo_lower_in(l, 0);
    const struct mo_shape *s = &l->graph->tensors[l->node->out[0]]->shape;
    if (!l->rc) mo_lower_set(l, 0, mo_gpu_broadcast(&x, s->rank, s->d));
}

/* The output full of the padding's value, then the input in its middle. */
void mo_lower_pad(struct mo_lower *l) {
    int64_t pads[16], axes[16];
    struct mo_gpu_view x = mo_lower_in(l, 0);
    struct mo_point p;
    int order[MO_VIEW_RANK];
    if (l->rc) return;
    int n = numbers(l, 1, "pads", pads), n_axes = numbers(l, 3, NULL, axes);
    int each = n_axes >= 0 ? n_axes : x.rank;
    bool fits = n == 2 * each && !strcmp(mo_attr_string(l->node, "mode", "constant"), "constant");
    for (int i = 0; i < n; i++)
        fits = fits && pads[i] >= 0;
    if (!fits)
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "only constant padding by known amounts is supported on a GPU");
    if (l->rc) return;
    mo_gpu_order_of(&x, order);
    struct mo_gpu_view y = mo_lower_out(l, 0, order), inner = y;
    mo_point_init(l, &p, y);
    if (mo_lower_has(l, 2)) {
        struct mo_gpu_view value = mo_lower_in(l, 2);
        mo_point_in(&p, &value);
        mo_gpu_printf(&p.body, "    r = x0;\n");
    } else {
        mo_gpu_printf(&p.body, "    r = ");
        mo_gpu_literal(&p.body, mo_attr_float(l->node, "value", 0));
        mo_gpu_printf(&p.body, ";\n");
    }
    mo_point_done(l, &p);
    for (int i = 0; i < each && !l->rc; i++) {
        int axis = n_axes >= 0 ? (int)(axes[i] < 0 ? axes[i] + x.rank : axes[i]) : i;
        inner = mo_gpu_slice(&inner, axis, pads[i], x.d[axis], 1);
    }
    mo_lower_copy(l, &x, &inner);
}

void mo_lower_gather(struct mo_lower *l) {
    const struct mo_tensor *t = l->graph->tensors[l->node->in[0]];
    struct mo_gpu_view x =
        t->data ? mo_lower_weight(l, t->id, MO_FORM_AS_IS, mo_lower_dtype(l, t->dtype)) : mo_lower_in(l, 0);
    struct mo_gpu_view index = mo_lower_in(l, 1), data = x;
    struct mo_point p;
    if (l->rc) return;
    int axis = axis_of(l, 0, x.rank), q = index.rank;
    /* data: the axes before, a step of 0 for every axis of the indices, the axes behind */
    data.rank = x.rank - 1 + q;
    for (int i = 0; i < data.rank; i++) {
        int from = i < axis ? i : i - q + 1;
        bool inside = i >= axis && i < axis + q;
        data.d[i] = inside ? index.d[i - axis] : x.d[from];
        data.stride[i] = inside ? 0 : x.stride[from];
    }
    for (int i = 0; i < x.rank - 1 - axis; i++) { /* indices do not change along the axes behind */
        index.d[q + i] = 1;
        index.stride[q + i] = 0;
        index.rank++;
    }
    mo_point_init(l, &p, mo_lower_out(l, 0, NULL));
    p.type = mo_gpu_value_type(x.dtype) ? mo_gpu_value_type(x.dtype) : "float";
    mo_point_in(&p, &data);
    mo_point_in(&p, &index);
    p.index = 1;
    p.step = x.stride[axis];
    p.rows = x.d[axis];
    mo_gpu_printf(&p.body, "    r = x0;\n");
    mo_point_done(l, &p);
}

/* --- rows ------------------------------------------------------------------------------------------------
 */

void mo_lower_softmax(struct mo_lower *l) {
    struct mo_gpu_view x = mo_lower_in(l, 0), y;
    struct mo_row row = {.kind = strcmp(l->node->op_type, "LogSoftmax") ? MO_ROW_SOFTMAX : MO_ROW_LOG_SOFTMAX,
                         .factor = 1};
    bool flat = l->node->opset < 13;
    int perm[MO_VIEW_RANK];
    if (l->rc) return;
    y = mo_lower_out(l, 0, NULL);
    int axis = axis_of(l, flat ? 1 : -1, x.rank);
    for (int i = 0, k = 0; i < x.rank && !flat; i++) /* the axis becomes the last */
        perm[i == axis ? x.rank - 1 : k++] = i;
    row.axis = flat ? axis : x.rank - 1;
    row.x = flat ? x : mo_gpu_permute(&x, perm);
    row.out = flat ? y : mo_gpu_permute(&y, perm);
    mo_lower_row(l, &row);
}

/* Layer, RMS and instance normalization: they differ in which axes make a row and where the scale lies. */
void mo_lower_norm(struct mo_lower *l) {
    const char *type = l->node->op_type;
    bool instance = !strcmp(type, "InstanceNormalization");
    struct mo_gpu_view x = mo_lower_in(l, 0);
    struct mo_row row = {
        .kind = strcmp(type, "RMSNormalization") ? MO_ROW_NORM : MO_ROW_RMS, .x = x, .factor = 1};
    if (l->node->n_out > 1)
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "mean and deviation as outputs are not supported on a GPU");
    if (l->rc) return;
    row.epsilon = mo_attr_float(l->node, "epsilon", 1e-5f);
    row.axis = instance ? 2 : axis_of(l, -1, x.rank);
    for (int i = 1; i < 3; i++) {
        struct mo_gpu_view v;
        if (!mo_lower_has(l, i)) continue;
        v = mo_lower_in(l, i);
        for (int k = 1; k < x.rank - 1 && instance; k++) {
            v.d[k] = 1;
            v.stride[k] = 0;
            v.rank = k + 1;
        }
        *(i == 1 ? &row.scale : &row.shift) = mo_gpu_broadcast(&v, x.rank, x.d);
    }
    row.out = mo_lower_out(l, 0, NULL);
    mo_lower_row(l, &row);
}

void mo_lower_reduction(struct mo_lower *l) {
    struct mo_gpu_view x = mo_lower_in(l, 0), y, kept;
    int64_t list[16], d[MO_VIEW_RANK];
    bool axes[MO_VIEW_RANK] = {false};
    if (l->rc) return;
    int n = numbers(l, 1, "axes", list);
    bool all = n <= 0 && !mo_attr_int(l->node, "noop_with_empty_axes", 0);
    for (int i = 0; i < n; i++)
        axes[list[i] < 0 ? list[i] + x.rank : list[i]] = true;
    for (int i = 0; i < x.rank; i++) {
        axes[i] = axes[i] || all;
        d[i] = axes[i] ? 1 : x.d[i];
    }
    y = mo_lower_out(l, 0, NULL);
    if (!l->rc && mo_gpu_reshape(&y, x.rank, d, &kept)) mo_lower_reduce(l, l->node->op_type, &x, axes, &kept);
}
