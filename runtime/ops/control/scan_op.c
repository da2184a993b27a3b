/* SPDX-License-Identifier: Apache-2.0
 * scan_op.c - Scan: a body over the slices of its inputs, along any axis and in either direction, with state.
 *
 * Before opset 9 the first axis of every operand is a batch: each of its members is scanned by itself, and
 * the results are stacked. */
#include <string.h>
#include "runtime/ops/control/body.h"
#include "runtime/ops/control/stack.h"
#include "runtime/ops/util.h"

struct scan {
    const struct mo_op_ctx *ctx;
    const struct mo_graph *body;
    int n_state, n_in, n_out; /* scanned inputs and outputs, state aside */
    int64_t length;
    struct mo_value *given; /* state and whole scanned inputs */
    struct mo_value *in;    /* of the body */
    struct mo_value *out;   /* of the body */
    struct mo_value *made;  /* state and whole scanned outputs */
    int64_t *in_axis, *in_back, *out_axis, *out_back;
    bool owns_state;
};

static int no_memory(const struct mo_op_ctx *ctx) {
    mo_op_fail(ctx, MOIRE_ENOMEM, "out of memory");
    return MOIRE_ENOMEM;
}

static int infer_later(const struct mo_op_ctx *ctx) {
    (void)ctx;
    return MO_NEED_DATA;
}

/* An attribute with a number for each of n operands; all 0 when it is not there. */
static int read_numbers(const struct mo_op_ctx *ctx, const char *name, int64_t *out, int n) {
    int64_t *read = mo_scratch(ctx, n, sizeof *read);
    if (!read) return MOIRE_ENOMEM;
    const int have = mo_attr_ints(ctx->node, name, read, n);
    const bool fits = have < 0 || have == n;
    for (int i = 0; i < n && fits && have > 0; i++)
        out[i] = read[i];
    mo_free(ctx->env, read);
    return fits ? MOIRE_OK : mo_op_fail(ctx, MOIRE_EINVAL, "%s has %d numbers, it needs %d", name, have, n);
}

static int describe(const struct mo_op_ctx *ctx, struct scan *s) {
    s->ctx = ctx;
    s->body = mo_node_body(ctx->node, "body");
    const int64_t n_scanned = mo_attr_int(ctx->node, "num_scan_inputs", 0);
    const int own = s->body ? mo_own_inputs(ctx, s->body) : 0;
    if (n_scanned < 1 || n_scanned > own)
        return mo_op_fail(ctx, MOIRE_EINVAL, "num_scan_inputs is %lld, of %d inputs", (long long)n_scanned,
                          own);
    s->n_in = (int)n_scanned;
    s->n_state = own - s->n_in;
    s->n_out = ctx->n_out - s->n_state;
    if (s->n_out < 0 || s->body->n_inputs != ctx->n_in || s->body->n_outputs != ctx->n_out)
        return mo_op_fail(ctx, MOIRE_EINVAL, "%d outputs are too few for a state of %d values", ctx->n_out,
                          s->n_state);
    return MOIRE_OK;
}

static int read_directions(struct scan *s) {
    const struct mo_op_ctx *ctx = s->ctx;
    const bool old = ctx->node->opset < 9;
    const size_t n = (size_t)(s->n_in + s->n_out) + 1;
    s->in_axis = mo_alloc(ctx->env, 4 * n * sizeof *s->in_axis);
    if (!s->in_axis) return no_memory(ctx);
    s->in_back = s->in_axis + n, s->out_axis = s->in_back + n, s->out_back = s->out_axis + n;
    if (old) return read_numbers(ctx, "directions", s->in_back, s->n_in);
    int rc = read_numbers(ctx, "scan_input_axes", s->in_axis, s->n_in);
    if (!rc) rc = read_numbers(ctx, "scan_input_directions", s->in_back, s->n_in);
    if (!rc) rc = read_numbers(ctx, "scan_output_axes", s->out_axis, s->n_out);
    return rc ? rc : read_numbers(ctx, "scan_output_directions", s->out_back, s->n_out);
}

static int begin(struct scan *s) {
    const struct mo_env *env = s->ctx->env;
    const size_t n_in = (size_t)s->body->n_inputs + 1, n_out = (size_t)s->body->n_outputs + 1;
    s->given = mo_alloc(env, n_in * sizeof *s->given);
    s->in = mo_alloc(env, n_in * sizeof *s->in);
    s->out = mo_alloc(env, n_out * sizeof *s->out);
    s->made = mo_alloc(env, n_out * sizeof *s->made);
    if (!s->given || !s->in || !s->out || !s->made) return no_memory(s->ctx);
    return read_directions(s);
}

static void drop_state(struct scan *s) {
    if (s->owns_state) mo_values_free(s->ctx->env, s->in, s->n_state);
    s->owns_state = false;
}

static void drop_slices(struct scan *s) {
    if (s->in) mo_values_free(s->ctx->env, s->in + s->n_state, s->n_in);
}

/* --- slices --------------------------------------------------------------------------------------------- */

/* Elements `at` along `axis` of the whole, to or from a slice without that axis. */
static void move_slice(const struct mo_value *whole, int axis, int64_t at, const struct mo_value *slice,
                       bool out) {
    const int64_t size = (int64_t)mo_dtype_bytes(whole->dtype), along = whole->shape.d[axis];
    const int64_t before = mo_extent(&whole->shape, 0, axis);
    const int64_t row = mo_extent(&whole->shape, axis + 1, whole->shape.rank) * size;
    for (int64_t i = 0; i < before && row; i++) {
        char *there = (char *)whole->data + (i * along + at) * row, *here = (char *)slice->data + i * row;
        memcpy(out ? there : here, out ? here : there, (size_t)row);
    }
}

static int take_slice(struct scan *s, int i, int64_t at) {
    const struct mo_value *whole = &s->given[s->n_state + i];
    struct mo_value *slice = &s->in[s->n_state + i];
    const int axis = (int)s->in_axis[i];
    *slice = (struct mo_value){.dtype = whole->dtype, .shape = {.rank = whole->shape.rank - 1}};
    for (int d = 0; d < slice->shape.rank; d++)
        slice->shape.d[d] = whole->shape.d[d < axis ? d : d + 1];
    int rc = mo_value_allocate(s->ctx, slice);
    if (!rc) move_slice(whole, axis, s->in_back[i] ? s->length - 1 - at : at, slice, false);
    return rc;
}

/* Makes room for the whole output when its first slice is there. */
static int begin_output(struct scan *s, int i, const struct mo_value *slice) {
    struct mo_value *whole = &s->made[s->n_state + i];
    if (slice->dtype == MO_BUNDLE)
        return mo_op_fail(s->ctx, MOIRE_EINVAL, "scan output %d is a sequence or an optional, no tensor", i);
    *whole = (struct mo_value){.dtype = slice->dtype, .shape = {.rank = slice->shape.rank + 1}};
    if (whole->shape.rank > MOIRE_MAX_RANK)
        return mo_op_fail(s->ctx, MOIRE_ELIMIT, "scan output %d would have rank %d", i, whole->shape.rank);
    const int axis = mo_axis(s->ctx, s->out_axis[i], whole->shape.rank);
    if (axis < 0) return MOIRE_EINVAL;
    s->out_axis[i] = axis;
    for (int d = 0; d < whole->shape.rank; d++)
        whole->shape.d[d] = d == axis ? s->length : slice->shape.d[d < axis ? d : d - 1];
    return mo_value_allocate(s->ctx, whole);
}

static int put_slice(struct scan *s, int i, int64_t at) {
    const struct mo_value *slice = &s->out[s->n_state + i];
    struct mo_value *whole = &s->made[s->n_state + i];
    int rc = whole->data ? MOIRE_OK : begin_output(s, i, slice);
    if (rc) return rc;
    const int axis = (int)s->out_axis[i];
    bool same = slice->dtype == whole->dtype && slice->shape.rank == whole->shape.rank - 1;
    for (int d = 0; d < slice->shape.rank && same; d++)
        same = slice->shape.d[d] == whole->shape.d[d < axis ? d : d + 1];
    if (!same)
        return mo_op_fail(s->ctx, MOIRE_ESHAPE, "slice %lld of scan output %d has another shape or type",
                          (long long)at, i);
    move_slice(whole, axis, s->out_back[i] ? s->length - 1 - at : at, slice, true);
    return MOIRE_OK;
}

/* --- one sequence --------------------------------------------------------------------------------------- */

static int check_inputs(struct scan *s) {
    for (int i = 0; i < s->n_in; i++) {
        const struct mo_value *whole = &s->given[s->n_state + i];
        const int axis = mo_axis(s->ctx, s->in_axis[i], whole->shape.rank);
        if (axis < 0) return MOIRE_EINVAL;
        if (whole->dtype == MO_BUNDLE)
            return mo_op_fail(s->ctx, MOIRE_EINVAL, "scan input %d is a sequence or an optional, no tensor",
                              i);
        s->in_axis[i] = axis;
        if (i == 0) s->length = whole->shape.d[axis];
        if (whole->shape.d[axis] != s->length)
            return mo_op_fail(s->ctx, MOIRE_ESHAPE, "scan input %d has %lld slices, the first has %lld", i,
                              (long long)whole->shape.d[axis], (long long)s->length);
    }
    return MOIRE_OK;
}

static int step(struct scan *s, int64_t at) {
    int rc = MOIRE_OK;
    for (int i = 0; i < s->n_in && !rc; i++)
        rc = take_slice(s, i, at);
    if (!rc) rc = mo_body_run(s->ctx, s->body, s->in, s->out);
    for (int i = 0; i < s->n_out && !rc; i++)
        rc = put_slice(s, i, at);
    if (!rc) {
        drop_state(s);
        memcpy(s->in, s->out, (size_t)s->n_state * sizeof *s->in);
        memset(s->out, 0, (size_t)s->n_state * sizeof *s->out);
        s->owns_state = true;
    }
    mo_values_free(s->ctx->env, s->out, s->body->n_outputs);
    drop_slices(s);
    return rc;
}

/* Outputs of no slices. */
static int finish_empty(struct scan *s) {
    int rc = MOIRE_OK;
    for (int i = 0; i < s->n_out && !rc; i++) {
        const struct mo_tensor *t = s->body->tensors[s->body->outputs[s->n_state + i]];
        struct mo_value slice = {.dtype = t->dtype};
        if (!mo_dtype_bytes(t->dtype))
            return mo_op_fail(s->ctx, MOIRE_EUNSUPPORTED,
                              "scan output %d has no slice, and the file does not declare its type", i);
        if (mo_shape_count(&t->shape) >= 0) slice.shape = t->shape;
        if (!s->made[s->n_state + i].data) rc = begin_output(s, i, &slice);
    }
    return rc;
}

/* From `given` to `made`, whose memory is the caller's. */
static int scan_one(struct scan *s) {
    int rc = check_inputs(s);
    memcpy(s->in, s->given, (size_t)s->n_state * sizeof *s->in);
    for (int64_t at = 0; at < s->length && !rc; at++)
        rc = step(s, at);
    for (int i = 0; i < s->n_state && !rc; i++) {
        if (s->owns_state)
            s->made[i] = s->in[i];
        else
            rc = mo_value_copy(s->ctx, &s->in[i], &s->made[i]);
    }
    if (!rc) s->owns_state = false;
    drop_state(s);
    return rc ? rc : finish_empty(s);
}

/* --- batches -------------------------------------------------------------------------------------------- */

/* Member b of a value whose first axis is a batch. */
static int member(const struct mo_op_ctx *ctx, const struct mo_value *v, int64_t b, int64_t of,
                  struct mo_value *out) {
    if (v->shape.rank < 1 || v->shape.d[0] != of)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "all operands must have the same batch as their first axis");
    *out = (struct mo_value){.dtype = v->dtype, .shape = {.rank = v->shape.rank - 1}};
    for (int d = 0; d < out->shape.rank; d++)
        out->shape.d[d] = v->shape.d[d + 1];
    out->data = (char *)v->data + b * mo_value_bytes(out);
    return MOIRE_OK;
}

static int scan_batch(struct scan *s) {
    const struct mo_op_ctx *ctx = s->ctx;
    struct mo_stack *stacks = mo_alloc(ctx->env, ((size_t)ctx->n_out + 1) * sizeof *stacks);
    const int64_t batch = ctx->in[0].shape.rank > 0 ? ctx->in[0].shape.d[0] : 0;
    int rc = stacks ? MOIRE_OK : no_memory(ctx);
    if (!rc && batch < 1) rc = mo_op_fail(ctx, MOIRE_ESHAPE, "a batch of none is not supported");
    for (int64_t b = 0; b < batch && !rc; b++) {
        for (int i = 0; i < s->n_state + s->n_in && !rc; i++)
            rc = member(ctx, &ctx->in[i], b, batch, &s->given[i]);
        if (!rc) rc = scan_one(s);
        for (int i = 0; i < ctx->n_out && !rc; i++)
            rc = mo_stack_append(ctx, &stacks[i], &s->made[i], i);
        mo_values_free(ctx->env, s->made, ctx->n_out);
    }
    for (int i = 0; i < ctx->n_out && !rc; i++)
        rc = mo_stack_finish(ctx, &stacks[i], s->body->tensors[s->body->outputs[i]], i, &ctx->out[i]);
    for (int i = 0; stacks && i < ctx->n_out; i++)
        mo_free(ctx->env, stacks[i].data);
    mo_free(ctx->env, stacks);
    return rc;
}

static int make_scan(const struct mo_op_ctx *ctx) {
    struct scan s = {.n_in = 0};
    int rc = describe(ctx, &s);
    if (!rc) rc = begin(&s);
    if (!rc) {
        memcpy(s.in, ctx->in, (size_t)ctx->n_in * sizeof *s.in); /* captured values are the last */
        memset(s.in + s.n_state, 0, (size_t)s.n_in * sizeof *s.in);
        memcpy(s.given, ctx->in, (size_t)ctx->n_in * sizeof *s.given);
        rc = ctx->node->opset < 9 ? scan_batch(&s) : scan_one(&s);
        if (ctx->node->opset >= 9) {
            memcpy(ctx->out, s.made, (size_t)ctx->n_out * sizeof *s.made);
            memset(s.made, 0, (size_t)ctx->n_out * sizeof *s.made);
        }
    }
    if (s.made) mo_values_free(ctx->env, s.made, ctx->n_out);
    mo_free(ctx->env, s.given);
    mo_free(ctx->env, s.in);
    mo_free(ctx->env, s.out);
    mo_free(ctx->env, s.made);
    mo_free(ctx->env, s.in_axis);
    return rc;
}

static int run_scan(const struct mo_op_ctx *ctx) {
    return mo_make_counted(ctx, make_scan);
}

const struct mo_op mo_ops_scan_op[] = {
    {"Scan", "", 8, 1, -1, 1, -1, infer_later, run_scan, MO_OP_BODIES | MO_OP_MAKES},
    {0},
};
