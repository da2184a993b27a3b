/* SPDX-License-Identifier: Apache-2.0
 * region.c - moire.Region: layers whose shapes are known only at run time, as a body (codegen/passes/
 * pass_regions.c).
 *
 * Whoever has a host lets it run the body by a plan for the shapes at hand; else, or where it has none, the
 * references do.  Errors are those of the body's layers and name these: nobody but us knows of the region. */
#include "runtime/ops/control/body.h"
#include "runtime/ops/interpret.h"
#include "runtime/ops/util.h"

static int infer_later(const struct mo_op_ctx *ctx) {
    (void)ctx;
    return MO_NEED_DATA;
}

static int make(const struct mo_op_ctx *ctx) {
    const struct mo_graph *body = mo_node_body(ctx->node, "body");
    if (!body || body->n_inputs != ctx->n_in || body->n_outputs != ctx->n_out)
        return mo_op_fail(ctx, MOIRE_EINTERNAL, "its body does not fit");
    if (mo_body_unwanted(ctx->host)) return mo_body_cancelled(ctx);
    const int rc =
        ctx->host->run ? ctx->host->run(ctx->host->self, ctx, body, ctx->in, ctx->out) : MO_NEED_DATA;
    return rc == MO_NEED_DATA ? mo_interpret_body(body, ctx->in, ctx->host, ctx->out, ctx->err) : rc;
}

static int run(const struct mo_op_ctx *ctx) {
    return mo_make_counted(ctx, make);
}

const struct mo_op mo_ops_region[] = {
    {"Region", "moire", 1, 0, -1, 1, -1, infer_later, run, MO_OP_BODIES | MO_OP_MAKES},
    {0},
};
