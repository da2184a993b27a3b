/* SPDX-License-Identifier: Apache-2.0
 * optional.c - optionals, and SequenceMap, which runs a body for each element of its sequences. */
#include <string.h>
#include "runtime/ops/control/body.h"
#include "runtime/ops/control/bundle.h"
#include "runtime/ops/util.h"

static int infer_later(const struct mo_op_ctx *ctx) {
    (void)ctx;
    return MO_NEED_DATA;
}

/* --- optionals ------------------------------------------------------------------------------------------ */

static int run_optional(const struct mo_op_ctx *ctx) {
    const bool given = mo_given(ctx, 0);
    int rc = mo_bundle_make(ctx->env, MO_OPTIONAL, given ? ctx->in[0].dtype : MOIRE_NONE, ctx->in, given,
                            &ctx->out[0], ctx->err);
    return rc ? mo_fail_context(ctx->err, rc, "node '%.64s' (Optional)", ctx->node->name) : MOIRE_OK;
}

static int infer_has(const struct mo_op_ctx *ctx) {
    const struct mo_shape scalar = {.rank = 0};
    return mo_set_out(ctx, 0, MOIRE_BOOL, &scalar);
}

/* What is no optional is there. */
static int run_has(const struct mo_op_ctx *ctx) {
    if (mo_wanted(ctx, 0))
        mo_store_int(&ctx->out[0], 0, mo_given(ctx, 0) && mo_bundle_count(&ctx->in[0], MO_OPTIONAL) != 0);
    return MOIRE_OK;
}

static int run_get(const struct mo_op_ctx *ctx) {
    const int64_t n = mo_bundle_count(&ctx->in[0], MO_OPTIONAL);
    if (!n) return mo_op_fail(ctx, MOIRE_EINVAL, "the optional is empty");
    const struct mo_value item = n < 0 ? ctx->in[0] : mo_bundle_at(&ctx->in[0], 0);
    return mo_value_copy(ctx, &item, &ctx->out[0]);
}

/* --- SequenceMap ---------------------------------------------------------------------------------------- */

struct map {
    const struct mo_op_ctx *ctx;
    const struct mo_graph *body;
    int own;
    int64_t n;             /* elements of each sequence */
    struct mo_value *in;   /* of the body */
    struct mo_value *made; /* [n][outputs] */
};

static int describe(const struct mo_op_ctx *ctx, struct map *m) {
    *m = (struct map){.ctx = ctx, .body = mo_node_body(ctx->node, "body")};
    m->own = m->body ? mo_own_inputs(ctx, m->body) : 0;
    m->n = mo_bundle_count(&ctx->in[0], MO_SEQUENCE);
    if (m->own < 1 || m->body->n_inputs != ctx->n_in || m->body->n_outputs != ctx->n_out)
        return mo_op_fail(ctx, MOIRE_EINTERNAL, "its body does not fit");
    if (m->n < 0) return mo_op_fail(ctx, MOIRE_EINVAL, "input 0 is no sequence");
    for (int i = 1; i < m->own; i++) {
        const int64_t n = mo_bundle_count(&ctx->in[i], MO_SEQUENCE);
        if (n >= 0 && n != m->n)
            return mo_op_fail(ctx, MOIRE_EINVAL, "sequence %d has %lld elements, the first has %lld", i,
                              (long long)n, (long long)m->n);
    }
    return MOIRE_OK;
}

static int map_all(struct map *m) {
    const struct mo_op_ctx *ctx = m->ctx;
    const int64_t outputs = ctx->n_out;
    int rc = MOIRE_OK;
    memcpy(m->in, ctx->in, (size_t)ctx->n_in * sizeof *m->in);
    for (int64_t k = 0; k < m->n && !rc; k++) {
        for (int i = 0; i < m->own; i++)
            if (mo_bundle_count(&ctx->in[i], MO_SEQUENCE) >= 0) m->in[i] = mo_bundle_at(&ctx->in[i], k);
        rc = mo_body_run(ctx, m->body, m->in, m->made + k * outputs);
    }
    struct mo_value *items = rc ? NULL : mo_scratch(ctx, m->n, sizeof *items);
    if (!items) return rc ? rc : MOIRE_ENOMEM;
    for (int o = 0; o < outputs && !rc; o++) {
        for (int64_t k = 0; k < m->n; k++)
            items[k] = m->made[k * outputs + o];
        const moire_dtype type = m->n ? items[0].dtype : m->body->tensors[m->body->outputs[o]]->dtype;
        rc = mo_bundle_make(ctx->env, MO_SEQUENCE, type, items, m->n, &ctx->out[o], ctx->err);
    }
    mo_free(ctx->env, items);
    return rc;
}

static int make_map(const struct mo_op_ctx *ctx) {
    struct map m;
    int64_t all;
    int rc = describe(ctx, &m);
    if (rc) return rc;
    if (__builtin_mul_overflow(m.n, (int64_t)ctx->n_out, &all))
        return mo_op_fail(ctx, MOIRE_ELIMIT, "too many elements");
    m.in = mo_scratch(ctx, ctx->n_in, sizeof *m.in);
    m.made = mo_scratch(ctx, all, sizeof *m.made);
    rc = MOIRE_ENOMEM;
    if (m.in && m.made) {
        memset(m.made, 0, (size_t)all * sizeof *m.made);
        rc = map_all(&m);
        mo_values_free(ctx->env, m.made, (int)all);
    }
    mo_free(ctx->env, m.in);
    mo_free(ctx->env, m.made);
    return rc;
}

static int run_map(const struct mo_op_ctx *ctx) {
    return mo_make_counted(ctx, make_map);
}

const struct mo_op mo_ops_optional[] = {
    {"Optional", "", 15, 0, 1, 1, 1, infer_later, run_optional, MO_OP_MAKES},
    {"OptionalHasElement", "", 15, 0, 1, 1, 1, infer_has, run_has, MO_OP_BUNDLES},
    {"OptionalGetElement", "", 15, 1, 1, 1, 1, infer_later, run_get, MO_OP_MAKES},
    {"SequenceMap", "", 17, 1, -1, 1, -1, infer_later, run_map, MO_OP_BODIES | MO_OP_MAKES},
    {0},
};
