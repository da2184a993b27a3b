/* SPDX-License-Identifier: Apache-2.0
 * body.c - see body.h. */
#include "runtime/ops/control/body.h"

#include <string.h>
#include "runtime/ops/interpret.h"

int64_t mo_value_bytes(const struct mo_value *v) {
    int64_t count = mo_shape_count(&v->shape), bytes;
    if (count < 0 || __builtin_mul_overflow(count, (int64_t)mo_dtype_bytes(v->dtype), &bytes)) return -1;
    return bytes;
}

int mo_value_allocate(const struct mo_op_ctx *ctx, struct mo_value *v) {
    const int64_t bytes = mo_value_bytes(v);
    v->data = NULL;
    if (bytes < 0 || bytes > ctx->env->limits.tensor_bytes)
        return mo_op_fail(ctx, MOIRE_ELIMIT, "a value is over the limit tensor_bytes");
    v->data = mo_alloc(ctx->env, (size_t)bytes + 64);
    return v->data ? MOIRE_OK : mo_op_fail(ctx, MOIRE_ENOMEM, "out of memory");
}

int mo_value_copy(const struct mo_op_ctx *ctx, const struct mo_value *from, struct mo_value *to) {
    *to = *from;
    int rc = mo_value_allocate(ctx, to);
    const int64_t bytes = rc ? 0 : mo_value_bytes(from);
    if (bytes > 0 && to->data) memcpy(to->data, from->data, (size_t)bytes);
    return rc;
}

void mo_values_free(const struct mo_env *env, struct mo_value *v, int n) {
    for (int i = 0; v && i < n; i++) {
        mo_free(env, v[i].data);
        v[i].data = NULL;
    }
}

int mo_own_inputs(const struct mo_op_ctx *ctx, const struct mo_graph *body) {
    return ctx->n_in - body->n_captured;
}

bool mo_body_unwanted(const struct mo_body_host *host) {
    return host->unwanted && atomic_load_explicit(host->unwanted, memory_order_relaxed);
}

int mo_body_cancelled(const struct mo_op_ctx *ctx) {
    return mo_op_fail(ctx, MOIRE_ECANCELLED, "the query has been answered, so its bodies run no more");
}

int mo_body_run(const struct mo_op_ctx *ctx, const struct mo_graph *body, const struct mo_value *in,
                struct mo_value *out) {
    if (mo_body_unwanted(ctx->host)) return mo_body_cancelled(ctx);
    if (--*ctx->host->left < 0)
        return mo_op_fail(ctx, MOIRE_ELIMIT,
                          "its body would run more often than the limit loop_trips (%lld) allows; does the "
                          "loop end?",
                          (long long)ctx->env->limits.loop_trips);
    int rc = ctx->host->run ? ctx->host->run(ctx->host->self, ctx, body, in, out) : MO_NEED_DATA;
    if (rc != MO_NEED_DATA) return rc;
    rc = mo_interpret_body(body, in, ctx->host, out, ctx->err);
    return rc ? mo_fail_context(ctx->err, rc, "node '%.64s' (%.40s)", ctx->node->name, ctx->node->op_type)
              : MOIRE_OK;
}

int mo_make_counted(const struct mo_op_ctx *ctx, int (*make)(const struct mo_op_ctx *ctx)) {
    int64_t left = ctx->env->limits.loop_trips;
    struct mo_body_host host = {.left = &left};
    struct mo_op_ctx counted = *ctx;
    if (ctx->host) host = *ctx->host;
    if (!host.left) host.left = &left;
    counted.host = &host;
    return make(&counted);
}

/* A value of a made output goes where the caller wants it. */
static int deliver(const struct mo_op_ctx *ctx, int k, const struct mo_value *made) {
    const struct mo_value *out = &ctx->out[k];
    if (!out->data) return MOIRE_OK;
    if (made->dtype != out->dtype || !mo_shape_equal(&made->shape, &out->shape))
        return mo_op_fail(ctx, MOIRE_EFAILED, "output %d has not the type and shape that were foreseen", k);
    const int64_t bytes = mo_value_bytes(made);
    if (bytes) memcpy(out->data, made->data, (size_t)bytes);
    return MOIRE_OK;
}

int mo_run_made(const struct mo_op_ctx *ctx) {
    struct mo_op_ctx into = *ctx;
    if (!(ctx->node->op->flags & MO_OP_MAKES)) return ctx->node->op->run(ctx);
    into.out = mo_alloc(ctx->env, ((size_t)ctx->n_out + 1) * sizeof *into.out);
    if (!into.out) return mo_op_fail(ctx, MOIRE_ENOMEM, "out of memory");
    int rc = ctx->node->op->run(&into);
    for (int k = 0; k < ctx->n_out && !rc; k++)
        rc = deliver(ctx, k, &into.out[k]);
    mo_values_free(ctx->env, into.out, ctx->n_out);
    mo_free(ctx->env, into.out);
    return rc;
}
