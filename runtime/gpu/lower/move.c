/* SPDX-License-Identifier: Apache-2.0
 * move.c - operators that only move elements: most are other views of the same memory. */
#include <string.h>
#include "runtime/gpu/lower/lower.h"

/* Numbers of a constant input, or of an attribute in older operators; -1: not given. */
static int numbers(struct mo_lower *l, int input, const char *attribute, int64_t out[MOIRE_MAX_RANK * 2]) {
    struct mo_value in[8];
    struct mo_op_ctx ctx = mo_lower_ctx(l, in, 8);
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
    const bool drops = !strcmp(l->node->op_type, "Dropout") && mo_lower_has(l, 2);
    if (drops && !l->graph->tensors[l->node->in[2]]->data) /* a constant was looked at when it was loaded */
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "training mode is not supported on a GPU");
    if (l->rc) return;
    const struct mo_shape *s = &l->graph->tensors[l->node->out[0]]->shape;
    if (!mo_gpu_reshape(&x, s->rank, s->d, &y)) {
        x = mo_lower_ordered(l, x, NULL, x.dtype);
        if (!l->rc && !mo_gpu_reshape(&x, s->rank, s->d, &y))
            mo_lower_fail(l, MOIRE_EINTERNAL, "no view of that shape");
    }
    mo_lower_set(l, 0, y);
    if (l->node->n_out < 2 || l->node->out[1] < 0 || l->rc) return;
    struct mo_elementwise p; /* the mask of a Dropout, which keeps everything */
    mo_elementwise_init(l, &p, mo_lower_out(l, 1, NULL));
    mo_gpu_printf(&p.body, "    r = 1;\n");
    mo_elementwise_done(l, &p);
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

void mo_lower_split(struct mo_lower *l) {
    struct mo_gpu_view x = mo_lower_in(l, 0);
    int64_t at = 0;
    if (l->rc) return;
    int axis = mo_lower_axis(l, 0, x.rank);
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

/* Each input is copied to its slice of the result. */
void mo_lower_concat(struct mo_lower *l) {
    const struct mo_gpu_view first = mo_lower_in(l, 0), y = mo_lower_out_like(l, 0, &first);
    int64_t at = 0;
    if (l->rc) return;
    const int axis = mo_lower_axis(l, 1, first.rank);
    for (int i = 0; i < l->node->n_in; i++) {
        const struct mo_gpu_view x = mo_lower_in(l, i);
        if (l->rc) return;
        const struct mo_gpu_view part = mo_gpu_slice(&y, axis, at, x.d[axis], 1);
        mo_lower_copy(l, &x, &part);
        at += x.d[axis];
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

/* "q<axis>": where the input's coordinate is that fills the output's; `inside` goes to 0 in constant padding.
 */
static void pad_axis(struct mo_gpu_text *t, int axis, int64_t begin, int64_t n, const char *mode) {
    const long long last = (long long)n - 1, twice = last > 0 ? 2 * last : 1;
    mo_gpu_printf(t, "    int q%d = o%d - (%lld);\n", axis, axis, (long long)begin);
    if (*mode == 'r') /* reflect: a zigzag of period 2 (n - 1) */
        mo_gpu_printf(t, "    q%d = (q%d %% %lld + %lld) %% %lld;\n    if (q%d > %lld) q%d = %lld - q%d;\n",
                      axis, axis, twice, twice, twice, axis, last, axis, twice, axis);
    else if (*mode == 'w')
        mo_gpu_printf(t, "    q%d = (q%d %% %lld + %lld) %% %lld;\n", axis, axis, last + 1, last + 1,
                      last + 1);
    else if (*mode == 'e')
        mo_gpu_printf(t, "    q%d = q%d < 0 ? 0 : q%d > %lld ? %lld : q%d;\n", axis, axis, axis, last, last,
                      axis);
    else
        mo_gpu_printf(t, "    if (q%d < 0 || q%d > %lld) inside = q%d = 0;\n", axis, axis, last, axis);
}

void mo_lower_pad(struct mo_lower *l) {
    static const char *const names[] = {"q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7"};
    const char *mode = mo_attr_string(l->node, "mode", "constant"), *at[MO_VIEW_RANK];
    int64_t pads[16], axes[16];
    struct mo_gpu_view x = mo_lower_in(l, 0), value;
    struct mo_each e;
    if (l->rc) return;
    int n = numbers(l, 1, mo_attr_find(l->node, "pads") ? "pads" : "paddings", pads),
        n_axes = numbers(l, 3, NULL, axes), each = n_axes >= 0 ? n_axes : x.rank;
    if (n != 2 * each)
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "only padding by known amounts is supported on a GPU");
    if (l->rc) return;
    const struct mo_gpu_view y = mo_lower_out_like(l, 0, &x);
    mo_each_init(l, &e, &y);
    mo_each_arg(&e, &x, false);
    const bool given = *mode == 'c' && mo_lower_has(l, 2);
    if (given) value = mo_lower_in(l, 2);
    if (given) mo_each_arg(&e, &value, false);
    e.out = mo_each_arg(&e, &y, true);
    memcpy(at, mo_each_here, sizeof at);
    mo_gpu_printf(&e.body, "    int inside = 1;\n");
    for (int i = 0; i < each && !l->rc; i++) {
        const int axis = n_axes >= 0 ? (int)(axes[i] < 0 ? axes[i] + x.rank : axes[i]) : i;
        if (!pads[i] && !pads[i + each]) continue;
        pad_axis(&e.body, axis, pads[i], x.d[axis], mode);
        at[axis] = names[axis];
    }
    mo_each_text(&e, "    $0 r = ");
    mo_each_value(&e, 0, at);
    mo_each_text(&e, given ? ";\n    if (!inside) r = @1(0)" : ";\n    if (!inside) r = ");
    if (!given) mo_gpu_literal(&e.body, mo_attr_float(l->node, "value", 0));
    mo_each_text(&e, ";\n");
    e.flops = 0;
    mo_each_close(l, &e, "r");
}

/* Gather and GatherElements: an element of the data at the axis' index.  One out of range, an error on cores,
 * is taken as the nearest that exists: a kernel cannot fail, and reads nothing beyond its operands. */
void mo_lower_gather(struct mo_lower *l) {
    const bool elements = !strcmp(l->node->op_type, "GatherElements");
    const struct mo_tensor *t = l->graph->tensors[l->node->in[0]];
    const struct mo_gpu_view x = t->data && !l->rc
                                     ? mo_lower_weight(l, t->id, MO_FORM_AS_IS, mo_lower_dtype(l, t->dtype))
                                     : mo_lower_in(l, 0),
                             index = mo_lower_in(l, 1), y = mo_lower_out(l, 0, NULL);
    const char *at[MO_VIEW_RANK];
    struct mo_each e;
    if (l->rc) return;
    const int axis = mo_lower_axis(l, 0, x.rank), more = elements ? 0 : index.rank - 1;
    mo_each_init(l, &e, &y);
    mo_each_arg(&e, &x, false);
    mo_each_arg(&e, &index, false);
    e.out = mo_each_arg(&e, &y, true);
    for (int i = 0; i < x.rank; i++)
        at[i] = i == axis ? "j" : mo_each_here[i < axis ? i : i + more];
    mo_each_text(&e, "    long long j = ");
    mo_each_value(&e, 1, mo_each_here + (elements ? 0 : axis));
    mo_each_text(&e,
                 ";\n    if (j < 0) j += %lld;\n    j = j < 0 ? 0 : j >= %lld ? %lld : j;\n    const $0 v = ",
                 (long long)x.d[axis], (long long)x.d[axis], (long long)x.d[axis] - 1);
    mo_each_value(&e, 0, at);
    mo_each_text(&e, ";\n");
    mo_each_close(l, &e, "v");
}

/* --- rows ----------------------------------------------------------------------------------------------- */

void mo_lower_softmax(struct mo_lower *l) {
    struct mo_gpu_view x = mo_lower_in(l, 0), y;
    struct mo_row row = {.kind = strcmp(l->node->op_type, "LogSoftmax") ? MO_ROW_SOFTMAX : MO_ROW_LOG_SOFTMAX,
                         .factor = 1};
    bool flat = l->node->opset < 13;
    int perm[MO_VIEW_RANK];
    if (l->rc) return;
    y = mo_lower_out(l, 0, NULL);
    int axis = mo_lower_axis(l, flat ? 1 : -1, x.rank);
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
    row.axis = instance ? 2 : mo_lower_axis(l, -1, x.rank);
    for (int i = 1; i < 3; i++) {
        struct mo_gpu_view v;
        if (!mo_lower_has(l, i)) continue;
        v = mo_lower_in(l, i);
        if (instance) v = mo_gpu_by_channel(v, x.rank);
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
