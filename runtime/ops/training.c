/* SPDX-License-Identifier: Apache-2.0
 * training.c - steps of optimizers (ai.onnx.preview.training): Adagrad, Adam and Momentum.
 *
 * Operands are the rate R, the number of steps T, then n tensors each of parameters, gradients and states;
 * the results are n each of new parameters and new states.  Float32 and float64, computed in double. */
#include <math.h>
#include <string.h>
#include "runtime/ops/util.h"

enum { MOST_STATES = 2 };

/* One element: parameter and states are replaced. */
struct rule {
    double rate, norm, alpha, beta, epsilon, post, correction;
    bool nesterov, begun; /* begun: T > 0 */
};

static double adagrad(const struct rule *r, double x, double g, double *state) {
    g += r->norm * x;
    state[0] += g * g;
    return x - r->rate * g / (sqrt(state[0]) + r->epsilon);
}

static double adam(const struct rule *r, double x, double g, double *state) {
    g += r->norm * x;
    state[0] = r->alpha * state[0] + (1 - r->alpha) * g;
    state[1] = r->beta * state[1] + (1 - r->beta) * g * g;
    x -= r->rate * r->correction * state[0] / (sqrt(state[1]) + r->epsilon);
    return (1 - r->post) * x;
}

static double momentum(const struct rule *r, double x, double g, double *state) {
    g += r->norm * x;
    state[0] = r->alpha * state[0] + (r->begun ? r->beta : 1) * g;
    return x - r->rate * (r->nesterov ? g + r->alpha * state[0] : state[0]);
}

static bool is(const struct mo_op_ctx *ctx, const char *op) {
    return !strcmp(ctx->node->op_type, op);
}

static int states_of(const struct mo_op_ctx *ctx) {
    return is(ctx, "Adam") ? 2 : 1;
}

/* Tensors of parameters: R and T, then parameters, gradients and states. */
static int tensors_of(const struct mo_op_ctx *ctx) {
    return (ctx->n_in - 2) / (2 + states_of(ctx));
}

static int infer_training(const struct mo_op_ctx *ctx) {
    const int states = states_of(ctx), n = tensors_of(ctx);
    if (n < 1 || ctx->n_in != 2 + n * (2 + states) || ctx->n_out != n * (1 + states))
        return mo_op_fail(ctx, MOIRE_EINVAL, "%d inputs and %d outputs do not belong together", ctx->n_in,
                          ctx->n_out);
    for (int i = 0; i < ctx->n_in; i++) {
        int rc = mo_check_type(ctx, i, i == 1 ? MO_TYPE(MOIRE_I64) : MO_FLOATS);
        if (rc) return rc;
        if (i < 2 && mo_shape_count(&ctx->in[i].shape) != 1)
            return mo_op_fail(ctx, MOIRE_ESHAPE, "input %d must be one number", i);
        if (i >= 2 && !mo_shape_equal(&ctx->in[i].shape, &ctx->in[2 + (i - 2) % n].shape))
            return mo_op_fail(ctx, MOIRE_ESHAPE, "input %d has not the shape of its parameters", i);
    }
    for (int k = 0; k < ctx->n_out; k++) {
        const struct mo_value *like = &ctx->in[k < n ? 2 + k : 2 + n + k];
        int rc = mo_set_out(ctx, k, like->dtype, &like->shape);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

static void read_rule(const struct mo_op_ctx *ctx, struct rule *r) {
    const struct mo_node *node = ctx->node;
    const double steps = mo_load(&ctx->in[1], 0);
    *r = (struct rule){.rate = mo_load(&ctx->in[0], 0), .begun = steps > 0, .correction = 1};
    r->norm = (double)mo_attr_float(node, "norm_coefficient", 0);
    r->alpha = (double)mo_attr_float(node, "alpha", 0.9f);
    r->beta = (double)mo_attr_float(node, "beta", 0.999f);
    r->epsilon = (double)mo_attr_float(node, "epsilon", 1e-6f);
    r->post = (double)mo_attr_float(node, "norm_coefficient_post", 0);
    r->nesterov = !strcmp(mo_attr_string(node, "mode", "standard"), "nesterov");
    if (is(ctx, "Adagrad")) r->rate /= 1 + steps * (double)mo_attr_float(node, "decay_factor", 0);
    if (is(ctx, "Adam") && r->begun)
        r->correction = sqrt(1 - pow(r->beta, steps)) / (1 - pow(r->alpha, steps));
}

static void step_tensor(const struct mo_op_ctx *ctx, const struct rule *r, int k, int n) {
    const int states = states_of(ctx);
    for (int64_t i = 0; i < mo_count(&ctx->in[2 + k]); i++) {
        double state[MOST_STATES] = {0}, x = mo_load(&ctx->in[2 + k], i), g = mo_load(&ctx->in[2 + n + k], i);
        for (int s = 0; s < states; s++)
            state[s] = mo_load(&ctx->in[2 + (2 + s) * n + k], i);
        x = is(ctx, "Adagrad") ? adagrad(r, x, g, state)
            : is(ctx, "Adam")  ? adam(r, x, g, state)
                               : momentum(r, x, g, state);
        if (mo_wanted(ctx, k)) mo_store(&ctx->out[k], i, x);
        for (int s = 0; s < states; s++)
            if (mo_wanted(ctx, (1 + s) * n + k)) mo_store(&ctx->out[(1 + s) * n + k], i, state[s]);
    }
}

static int run_training(const struct mo_op_ctx *ctx) {
    struct rule r;
    read_rule(ctx, &r);
    for (int k = 0; k < tensors_of(ctx); k++)
        step_tensor(ctx, &r, k, tensors_of(ctx));
    return MOIRE_OK;
}

#define TRAINING "ai.onnx.preview.training"
const struct mo_op mo_ops_training[] = {
    {"Adagrad", TRAINING, 1, 5, -1, 2, -1, infer_training, run_training, 0},
    {"Adam", TRAINING, 1, 6, -1, 3, -1, infer_training, run_training, 0},
    {"Momentum", TRAINING, 1, 5, -1, 2, -1, infer_training, run_training, 0},
    {0},
};
