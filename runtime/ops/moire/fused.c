/* SPDX-License-Identifier: Apache-2.0
 * fused.c - moire.Fused, made by graph passes only: its reference asks the plain operators, step by step. */
#include "runtime/ops/moire/fused.h"

#include <string.h>
#include "runtime/ops/util.h"

static const struct {
    const char *name, *domain;
    int operands;
} rows[MO_FUSED_COUNT] = {
#define ROW(id, name, domain, operands) {name, domain, operands},
    MO_FUSED_OPS(ROW)
#undef ROW
};

const char *mo_fused_name(enum mo_fused_op op) {
    return rows[op].name;
}

const char *mo_fused_domain(enum mo_fused_op op) {
    return rows[op].domain;
}

int mo_fused_operands(enum mo_fused_op op) {
    return rows[op].operands;
}

bool mo_fused_read(const struct mo_node *node, struct mo_fused *out) {
    const struct mo_attr *program = mo_attr_find(node, "program"), *params = mo_attr_find(node, "params");
    if (!program || !params || program->type != MO_ATTR_INTS || params->type != MO_ATTR_FLOATS) return false;
    out->n_in = node->n_in;
    out->n = program->n / MO_FUSED_INTS;
    if (out->n < 1 || out->n > MO_FUSED_STEPS || program->n != out->n * MO_FUSED_INTS ||
        params->n != 2 * out->n)
        return false;
    for (int i = 0; i < out->n; i++) {
        const int64_t *p = program->ints + (size_t)i * MO_FUSED_INTS;
        struct mo_fused_step *step = &out->step[i];
        if (p[0] < 0 || p[0] >= MO_FUSED_COUNT || p[4] < 0 || p[4] >= MO_ACT_COUNT) return false;
        *step = (struct mo_fused_step){.op = (enum mo_fused_op)p[0],
                                       .act = (enum mo_act)p[4],
                                       .a = params->floats[2 * i],
                                       .b = params->floats[2 * i + 1]};
        for (int k = 0; k < 3; k++) {
            if (k < rows[step->op].operands && (p[1 + k] < 0 || p[1 + k] >= node->n_in + i)) return false;
            step->arg[k] = k < rows[step->op].operands ? (int)p[1 + k] : -1;
        }
    }
    return true;
}

/* The operands of a quantizing step as its operator takes them: the value, the scale, the zero point. */
struct quantizing {
    float scale;
    uint8_t zero;
    struct mo_value in[3];
};

static const struct mo_value *quantizing_operands(const struct mo_fused_step *step, const struct mo_value *x,
                                                  struct quantizing *q) {
    moire_dtype type = step->op == MO_FUSED_DEQUANTIZE ? x->dtype : mo_fused_quantized(step->op);
    q->scale = step->a;
    q->zero = (uint8_t)(int)step->b; /* of either sign: as its bits are */
    q->in[0] = *x;
    q->in[1] = (struct mo_value){.dtype = MOIRE_F32, .data = &q->scale};
    q->in[2] = (struct mo_value){.dtype = type, .data = &q->zero};
    return q->in;
}

/* Calls one plain operator: what mo_op_infer() or the operator's run does, by `run`. */
static int call(const struct mo_op_ctx *ctx, const struct mo_fused_step *step, const struct mo_value *in,
                struct mo_value *out, bool run) {
    struct mo_attr to = {
        .name = "to", .type = MO_ATTR_INT, .i = step->op == MO_FUSED_TO_BOOL ? MOIRE_BOOL : MOIRE_F32};
    struct mo_node node = *ctx->node;
    node.op_type = rows[step->op].name;
    node.domain = rows[step->op].domain;
    node.op = mo_op_find(node.op_type, node.domain);
    node.opset = 13;
    struct quantizing q;
    if (mo_fused_quantizes(step->op)) in = quantizing_operands(step, in, &q);
    node.n_in = mo_fused_quantizes(step->op) ? 3 : rows[step->op].operands;
    node.n_out = 1;
    node.fuse = (struct mo_fuse){.act = step->act, .a = step->a, .b = step->b, .residual = -1};
    node.attrs = &to;
    node.n_attrs = 1;
    struct mo_op_ctx inner = {
        .node = &node, .env = ctx->env, .n_in = node.n_in, .n_out = 1, .in = in, .out = out, .err = ctx->err};
    if (!node.op) return mo_op_fail(ctx, MOIRE_EINTERNAL, "no operator %s", node.op_type);
    return run ? node.op->run(&inner) : mo_op_infer(&inner);
}

/* Types, shapes and, with `run`, contents of all values; the last goes to the output. */
static int evaluate(const struct mo_op_ctx *ctx, const struct mo_fused *f, struct mo_value *value, bool run) {
    int rc = MOIRE_OK;
    for (int i = 0; i < f->n_in; i++)
        value[i] = ctx->in[i];
    for (int i = 0; !rc && i < f->n; i++) {
        struct mo_value in[3] = {{0}}, *out = &value[f->n_in + i];
        bool last = i == f->n - 1;
        for (int k = 0; k < 3; k++)
            if (f->step[i].arg[k] >= 0) in[k] = value[f->step[i].arg[k]];
        *out = (struct mo_value){0};
        rc = call(ctx, &f->step[i], in, out, false);
        if (rc || !run) continue;
        out->data =
            last ? ctx->out[0].data : mo_scratch(ctx, mo_count(out), (int64_t)mo_dtype_bytes(out->dtype));
        rc = out->data ? call(ctx, &f->step[i], in, out, true) : MOIRE_ENOMEM;
    }
    return rc;
}

static int infer_fused(const struct mo_op_ctx *ctx) {
    struct mo_fused f;
    struct mo_value value[MO_FUSED_INPUTS + MO_FUSED_STEPS];
    if (ctx->n_in > MO_FUSED_INPUTS || !mo_fused_read(ctx->node, &f))
        return mo_op_fail(ctx, MOIRE_EINVAL, "this is no program of pointwise operators");
    int rc = evaluate(ctx, &f, value, false);
    const struct mo_value *y = &value[f.n_in + f.n - 1];
    return rc ? rc : mo_set_out(ctx, 0, y->dtype, &y->shape);
}

static int run_fused(const struct mo_op_ctx *ctx) {
    struct mo_fused f;
    struct mo_value value[MO_FUSED_INPUTS + MO_FUSED_STEPS] = {{0}};
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    if (ctx->n_in > MO_FUSED_INPUTS || !mo_fused_read(ctx->node, &f))
        return mo_op_fail(ctx, MOIRE_EINVAL, "this is no program of pointwise operators");
    int rc = evaluate(ctx, &f, value, true);
    for (int i = 0; i < f.n - 1; i++)
        mo_free(ctx->env, value[f.n_in + i].data);
    return rc;
}

const struct mo_op mo_ops_fused[] = {
    {"Fused", "moire", 1, 1, MO_FUSED_INPUTS, 1, 1, infer_fused, run_fused, 0},
    {0},
};
