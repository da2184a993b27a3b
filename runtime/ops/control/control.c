/* SPDX-License-Identifier: Apache-2.0
 * control.c - If and Loop: operators whose work is a graph of their own, run once, many times or not at all.
 *
 * What a body reads of the graph around it are further inputs of the node, handed to every run.  A Loop keeps
 * two sets of its state, that of the last trip and that of the next, and appends a slice to every scan output
 * in each trip.  All slices of one output have one shape; without a trip there is none, and the output is
 * empty with the shape that inference has found, if it has. */
#include <string.h>
#include "runtime/ops/control/body.h"
#include "runtime/ops/control/stack.h"
#include "runtime/ops/util.h"

static int infer_later(const struct mo_op_ctx *ctx) {
    (void)ctx;
    return MO_NEED_DATA;
}

static int read_flag(const struct mo_op_ctx *ctx, const struct mo_value *v, const char *what, bool *out) {
    if (v->dtype != MOIRE_BOOL || mo_shape_count(&v->shape) != 1)
        return mo_op_fail(ctx, MOIRE_EINVAL, "%s must be one bool", what);
    *out = *(const uint8_t *)v->data != 0;
    return MOIRE_OK;
}

/* --- If ------------------------------------------------------------------------------------------------- */

static int make_if(const struct mo_op_ctx *ctx) {
    bool taken = false;
    int rc = read_flag(ctx, &ctx->in[0], "the condition (input 0)", &taken);
    const struct mo_graph *body = rc ? NULL : mo_node_body(ctx->node, taken ? "then_branch" : "else_branch");
    if (rc) return rc;
    if (!body || body->n_outputs != ctx->n_out || mo_own_inputs(ctx, body) != 1)
        return mo_op_fail(ctx, MOIRE_EINTERNAL, "its branch does not fit");
    return mo_body_run(ctx, body, ctx->in + 1, ctx->out);
}

static int run_if(const struct mo_op_ctx *ctx) {
    return mo_make_counted(ctx, make_if);
}

/* --- Loop ----------------------------------------------------------------------------------------------- */

struct loop {
    const struct mo_op_ctx *ctx;
    const struct mo_graph *body;
    int n_state, n_scan;
    int64_t trips, at; /* most, and the trip that runs */
    bool goes_on;
    uint8_t flag;         /* goes_on, as the body reads it */
    struct mo_value *in;  /* of the body: trip, condition, state, captured */
    struct mo_value *out; /* of the body: condition, state, slices */
    bool owns_state;      /* in[2..] are ours to free: not before the first trip has ended */
    struct mo_stack *scan;
};

static int describe_loop(const struct mo_op_ctx *ctx, struct loop *l) {
    l->body = mo_node_body(ctx->node, "body");
    l->ctx = ctx;
    l->n_state = l->body ? mo_own_inputs(ctx, l->body) - 2 : -1;
    l->n_scan = ctx->n_out - l->n_state;
    if (l->n_state < 0 || l->n_scan < 0 || l->body->n_inputs != ctx->n_in ||
        l->body->n_outputs != 1 + ctx->n_out)
        return mo_op_fail(ctx, MOIRE_EINTERNAL, "its body does not fit");
    const struct mo_value *trips = &ctx->in[0];
    if (trips->dtype != MOIRE_I64 || mo_shape_count(&trips->shape) != 1)
        return mo_op_fail(ctx, MOIRE_EINVAL, "the number of trips (input 0) must be one int64");
    l->trips = mo_load_int(trips, 0);
    return read_flag(ctx, &ctx->in[1], "the condition (input 1)", &l->goes_on);
}

static int begin_loop(struct loop *l) {
    const struct mo_env *env = l->ctx->env;
    l->in = mo_alloc(env, ((size_t)l->body->n_inputs + 1) * sizeof *l->in);
    l->out = mo_alloc(env, ((size_t)l->body->n_outputs + 1) * sizeof *l->out);
    l->scan = mo_alloc(env, ((size_t)l->n_scan + 1) * sizeof *l->scan);
    if (!l->in || !l->out || !l->scan) return mo_op_fail(l->ctx, MOIRE_ENOMEM, "out of memory");
    memcpy(l->in, l->ctx->in, (size_t)l->ctx->n_in * sizeof *l->in);
    l->in[0] = (struct mo_value){.dtype = MOIRE_I64, .data = &l->at};
    l->in[1] = (struct mo_value){.dtype = MOIRE_BOOL, .data = &l->flag};
    return MOIRE_OK;
}

static void drop_state(struct loop *l) {
    if (l->owns_state) mo_values_free(l->ctx->env, l->in + 2, l->n_state);
    l->owns_state = false;
}

static int trip(struct loop *l) {
    const struct mo_op_ctx *ctx = l->ctx;
    l->flag = l->goes_on;
    int rc = mo_body_run(ctx, l->body, l->in, l->out);
    if (!rc) rc = read_flag(ctx, &l->out[0], "the condition that the body computes", &l->goes_on);
    for (int i = 0; i < l->n_scan && !rc; i++)
        rc = mo_stack_append(ctx, &l->scan[i], &l->out[1 + l->n_state + i], i);
    if (!rc) {
        drop_state(l);
        memcpy(l->in + 2, l->out + 1, (size_t)l->n_state * sizeof *l->in);
        l->owns_state = true;
        memset(l->out + 1, 0, (size_t)l->n_state * sizeof *l->out);
    }
    mo_values_free(ctx->env, l->out, l->body->n_outputs);
    return rc;
}

static int end_loop(struct loop *l) {
    const struct mo_op_ctx *ctx = l->ctx;
    int rc = MOIRE_OK;
    for (int i = 0; i < l->n_state && !rc; i++) {
        if (l->owns_state)
            ctx->out[i] = l->in[2 + i];
        else
            rc = mo_value_copy(ctx, &l->in[2 + i], &ctx->out[i]);
    }
    l->owns_state = false;
    for (int i = 0; i < l->n_scan && !rc; i++) {
        const struct mo_tensor *slice = l->body->tensors[l->body->outputs[1 + l->n_state + i]];
        rc = mo_stack_finish(ctx, &l->scan[i], slice, i, &ctx->out[l->n_state + i]);
    }
    return rc;
}

static int make_loop(const struct mo_op_ctx *ctx) {
    struct loop l = {.n_state = 0};
    int rc = describe_loop(ctx, &l);
    if (!rc) rc = begin_loop(&l);
    for (; !rc && l.at < l.trips && l.goes_on; l.at++)
        rc = trip(&l);
    if (!rc) rc = end_loop(&l);
    drop_state(&l);
    for (int i = 0; l.scan && i < l.n_scan; i++)
        mo_free(ctx->env, l.scan[i].data);
    mo_free(ctx->env, l.in);
    mo_free(ctx->env, l.out);
    mo_free(ctx->env, l.scan);
    return rc;
}

static int run_loop(const struct mo_op_ctx *ctx) {
    return mo_make_counted(ctx, make_loop);
}

const struct mo_op mo_ops_control[] = {
    {"If", "", 1, 1, -1, 1, -1, infer_later, run_if, MO_OP_BODIES | MO_OP_MAKES},
    {"Loop", "", 1, 2, -1, 1, -1, infer_later, run_loop, MO_OP_BODIES | MO_OP_MAKES},
    {0},
};
