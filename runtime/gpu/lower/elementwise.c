/* SPDX-License-Identifier: Apache-2.0
 * elementwise.c - operators that compute every element on its own, as text of kernels: those of moire.Fused
 * (one table, all steps), those of formulas.c, sums of many, batch normalization that no pass could fold,
 * casts. */
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/lower/lower.h"

/* Expressions over operands A, B, C. */
static const char *const expression[MO_FUSED_COUNT] = {
    [MO_FUSED_ADD] = "A + B",
    [MO_FUSED_SUB] = "A - B",
    [MO_FUSED_MUL] = "A * B",
    [MO_FUSED_DIV] = "A / B",
    [MO_FUSED_MIN] = "mo_least(A, B)",
    [MO_FUSED_MAX] = "mo_most(A, B)",
    [MO_FUSED_POW] = "powf(A, B)",
    [MO_FUSED_EQUAL] = "A == B",
    [MO_FUSED_LESS] = "A < B",
    [MO_FUSED_LESS_EQUAL] = "A <= B",
    [MO_FUSED_GREATER] = "A > B",
    [MO_FUSED_GREATER_EQUAL] = "A >= B",
    [MO_FUSED_AND] = "A != 0 && B != 0",
    [MO_FUSED_OR] = "A != 0 || B != 0",
    [MO_FUSED_XOR] = "(A != 0) != (B != 0)",
    [MO_FUSED_NOT] = "A == 0",
    [MO_FUSED_IS_NAN] = "A != A",
    [MO_FUSED_WHERE] = "A != 0 ? B : C",
    [MO_FUSED_TO_FLOAT] = "A",
    [MO_FUSED_TO_BOOL] = "A != 0",
    [MO_FUSED_ACTIVATION] = "A",
    [MO_FUSED_ABS] = "fabsf(A)",
    [MO_FUSED_NEG] = "-A",
    [MO_FUSED_SQRT] = "sqrtf(A)",
    [MO_FUSED_RECIPROCAL] = "1 / A",
    [MO_FUSED_EXP] = "expf(A)",
    [MO_FUSED_LOG] = "logf(A)",
    [MO_FUSED_ERF] = "erff(A)",
    [MO_FUSED_FLOOR] = "floorf(A)",
    [MO_FUSED_CEIL] = "ceilf(A)",
    [MO_FUSED_ROUND] = "rintf(A)",
    [MO_FUSED_SIGN] = "mo_sign(A)",
    [MO_FUSED_DEQUANTIZE] = "(A - Q) * P",
    [MO_FUSED_QUANTIZE_U8] = "mo_quantized(A, P, Q, 0, 255)",
    [MO_FUSED_QUANTIZE_I8] = "mo_quantized(A, P, Q, -128, 127)",
};

/* What an operator of integers is where that is not its expression for floats; NULL: the same. */
static const char *const of_integers[MO_FUSED_COUNT] = {
    [MO_FUSED_DIV] = "B == 0 ? 0 : A / B", [MO_FUSED_MIN] = "A < B ? A : B",
    [MO_FUSED_MAX] = "A > B ? A : B",      [MO_FUSED_POW] = "pow((double)(A), (double)(B))",
    [MO_FUSED_ABS] = "A < 0 ? -A : A",     [MO_FUSED_SIGN] = "(A > 0) - (A < 0)",
};

/* Only these take integers: the others are written with functions of floats. */
static bool takes_integers(enum mo_fused_op op) {
    return of_integers[op] || op == MO_FUSED_ADD || op == MO_FUSED_SUB || op == MO_FUSED_MUL ||
           (op >= MO_FUSED_EQUAL && op <= MO_FUSED_XOR) || op == MO_FUSED_WHERE || op == MO_FUSED_TO_FLOAT ||
           op == MO_FUSED_TO_BOOL || op == MO_FUSED_NEG;
}

/* The expression with operands by their names, and attributes P and Q. */
static void expand(struct mo_gpu_text *t, const char *text, const char (*names)[16], const float *pq) {
    for (const char *p = text; *p; p++)
        if (*p >= 'A' && *p <= 'C')
            mo_gpu_printf(t, "%s", names[*p - 'A']);
        else if (*p == 'P' || *p == 'Q')
            mo_gpu_literal(t, pq[*p - 'P']);
        else
            mo_gpu_printf(t, "%c", *p);
}

static void step_text(struct mo_gpu_text *t, const struct mo_fused_step *s, int n_in, bool last, int number,
                      const char *type) {
    char names[3][16];
    for (int k = 0; k < 3; k++)
        snprintf(names[k], sizeof names[k], s->arg[k] < n_in ? "x%d" : "v%d",
                 s->arg[k] < n_in ? s->arg[k] : s->arg[k] - n_in);
    mo_gpu_printf(t, "    ");
    if (!last || s->act != MO_ACT_NONE) mo_gpu_printf(t, "%s v%d;\n    { %s r = ", type, number, type);
    if (last && s->act == MO_ACT_NONE) mo_gpu_printf(t, "r = ");
    const char *own = strcmp(type, "float") != 0 ? of_integers[s->op] : NULL;
    expand(t, own ? own : expression[s->op], (const char(*)[16])names, (const float[2]){s->a, s->b});
    mo_gpu_printf(t, ";\n    ");
    if (last && s->act == MO_ACT_NONE) return;
    mo_gpu_act_text(t, s->act, s->a, s->b);
    mo_gpu_printf(t, "    v%d = r; }\n", number);
    if (last) mo_gpu_printf(t, "    r = v%d;\n", number);
}

/* The view with the most elements among the inputs: the output lies as it does. */
static void like_largest(struct mo_lower *l, const struct mo_gpu_view *in, int n, int order[MO_VIEW_RANK]) {
    const struct mo_tensor *t = l->graph->tensors[l->node->out[0]];
    int best = -1;
    for (int i = 0; i < n; i++)
        if (in[i].rank == t->shape.rank && mo_gpu_count(&in[i]) == mo_shape_count(&t->shape) &&
            (best < 0 || in[best].place.space == MO_GPU_WEIGHT))
            best = i;
    for (int i = 0; i < t->shape.rank; i++)
        order[i] = i;
    if (best >= 0) mo_gpu_order_of(&in[best], order);
}

/* Reads all inputs and makes the output; the caller writes the body. */
static bool begin(struct mo_lower *l, struct mo_elementwise *p) {
    struct mo_gpu_view in[MO_ELEMENTWISE_INPUTS];
    int order[MO_VIEW_RANK], n = l->node->n_in;
    if (n > MO_FUSED_INPUTS) mo_lower_fail(l, MOIRE_EUNSUPPORTED, "%d inputs are too many for a GPU", n);
    for (int i = 0; i < n && !l->rc; i++)
        in[i] = mo_lower_in(l, i);
    if (l->rc) return false;
    like_largest(l, in, n, order);
    struct mo_gpu_view out = mo_lower_out(l, 0, order);
    mo_elementwise_init(l, p, out);
    for (int i = 0; i < n; i++)
        mo_elementwise_in(p, &in[i]);
    return !l->rc;
}

static bool all_float(const struct mo_elementwise *p) {
    for (int i = 0; i < p->n; i++)
        if (!mo_gpu_is_float(p->in[i].dtype)) return false;
    return true;
}

void mo_lower_fused(struct mo_lower *l) {
    struct mo_fused f;
    struct mo_elementwise p;
    if (!mo_fused_read(l->node, &f)) mo_lower_fail(l, MOIRE_EINTERNAL, "no program of pointwise operators");
    if (!begin(l, &p)) return;
    for (int i = 0; i < f.n; i++)
        step_text(&p.body, &f.step[i], f.n_in, i == f.n - 1, i, "float");
    p.flops = f.n * mo_gpu_count(&p.out);
    mo_elementwise_done(l, &p);
}

/* To 8 bits and back with one constant scale; which of the quantizers that is. */
static bool quantizer_of(const struct mo_lower *l, struct mo_fused_step *s) {
    const bool back = !strcmp(l->node->op_type, "DequantizeLinear");
    const int small = back ? l->node->in[0] : l->node->out[0];
    struct mo_value in[3];
    const struct mo_op_ctx ctx = mo_lower_ctx(l, in, 3);
    for (int i = 1; i < ctx.n_in; i++)
        if (in[i].dtype != MOIRE_NONE && (!in[i].data || mo_count(&in[i]) != 1)) return false;
    const bool zero = ctx.n_in > 2 && in[2].dtype != MOIRE_NONE;
    const moire_dtype type = l->graph->tensors[small]->dtype;
    s->op = back ? MO_FUSED_DEQUANTIZE : type == MOIRE_I8 ? MO_FUSED_QUANTIZE_I8 : MO_FUSED_QUANTIZE_U8;
    s->a = (float)mo_load(&in[1], 0);
    s->b = zero ? (float)mo_load(&in[2], 0) : 0;
    return type == MOIRE_I8 || type == MOIRE_U8;
}

void mo_lower_quantize(struct mo_lower *l) {
    struct mo_fused_step s = {.arg = {0}};
    struct mo_gpu_view x = mo_lower_in(l, 0);
    struct mo_elementwise p;
    if (!l->rc && !quantizer_of(l, &s))
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "only one constant scale and 8 bits are supported on a GPU");
    if (l->rc) return;
    mo_elementwise_init(l, &p, mo_lower_out_like(l, 0, &x));
    mo_elementwise_in(&p, &x);
    step_text(&p.body, &s, 1, true, 0, "float");
    mo_elementwise_done(l, &p);
}

static int find_step(const struct mo_node *node) {
    for (int i = 0; i < MO_FUSED_COUNT && !mo_fused_quantizes((enum mo_fused_op)i); i++)
        if (!strcmp(mo_fused_name((enum mo_fused_op)i), node->op_type) &&
            !strcmp(mo_fused_domain((enum mo_fused_op)i), node->domain))
            return i;
    return -1;
}

bool mo_gpu_is_step(const struct mo_node *node) {
    return find_step(node) >= 0 || mo_gpu_has_formula(node);
}

/* The type in which values meet: the widest of the operands'. */
static const char *common_type(const struct mo_elementwise *p) {
    static const char *const order[] = {"float", "long long", "unsigned long long", "double"};
    int widest = 0;
    for (int i = 0; i < p->n; i++)
        for (int k = 1; k < 4; k++) {
            const char *type = mo_gpu_value_type(p->in[i].dtype);
            if (!strcmp(type, order[k]) && k > widest) widest = k;
        }
    return order[widest];
}

/* A formula whose operands may be integers, but not double: its functions are those of float. */
static void formula_step(struct mo_lower *l, struct mo_elementwise *p) {
    float pq[2];
    const bool floats = all_float(p);
    const char *text = mo_gpu_formula(l->node, !floats, &pq[0], &pq[1]);
    if (!text || !strcmp(p->type, "double"))
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "%s is not supported by this operator on a GPU",
                      mo_dtype_name(p->in[0].dtype));
    if (l->rc) return;
    mo_gpu_printf(&p->body, "    r = ");
    expand(&p->body, text, (const char[3][16]){"x0", "x1", "x2"}, pq);
    mo_gpu_printf(&p->body, ";\n");
}

void mo_lower_step(struct mo_lower *l) {
    int found = find_step(l->node);
    const struct mo_fuse *fuse = &l->node->fuse;
    struct mo_elementwise p;
    struct mo_fused_step s = {.arg = {0, 1, 2}, .act = fuse->act, .a = fuse->a, .b = fuse->b};
    if (found >= 0 && mo_fused_operands((enum mo_fused_op)found) != l->node->n_in) {
        mo_lower_variadic(l);
        return;
    }
    if (!begin(l, &p)) return;
    p.type = common_type(&p);
    s.op = found < 0 ? MO_FUSED_ADD : (enum mo_fused_op)found;
    bool floats = all_float(&p), power = found == MO_FUSED_POW;
    if (power && mo_gpu_is_float(p.in[0].dtype)) p.type = "float"; /* of an integer */
    if (found < 0)
        formula_step(l, &p);
    else if (strcmp(p.type, "float") != 0 && (!takes_integers((enum mo_fused_op)found) || fuse->act))
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "%s is not supported by this operator on a GPU",
                      mo_dtype_name(p.in[floats ? 0 : p.n - 1].dtype));
    else
        step_text(&p.body, &s, p.n, true, 0, p.type);
    mo_elementwise_done(l, &p);
}

void mo_lower_variadic(struct mo_lower *l) {
    const char *type = l->node->op_type, *op = !strcmp(type, "Max") ? ">" : !strcmp(type, "Min") ? "<" : NULL;
    struct mo_elementwise p;
    if (!begin(l, &p)) return;
    p.type = common_type(&p);
    if (!op && strcmp(type, "Sum") != 0 && strcmp(type, "Mean") != 0)
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "%d inputs are not supported on a GPU", l->node->n_in);
    mo_gpu_printf(&p.body, "    r = x0;\n");
    for (int i = 1; i < p.n; i++)
        if (op)
            mo_gpu_printf(&p.body, "    r = r %s x%d || r != r ? r : x%d;\n", op, i, i);
        else
            mo_gpu_printf(&p.body, "    r = r + x%d;\n", i);
    if (!strcmp(type, "Mean")) mo_gpu_printf(&p.body, "    r /= %d;\n", p.n);
    mo_elementwise_done(l, &p);
}

void mo_lower_batch_norm(struct mo_lower *l) {
    struct mo_elementwise p;
    struct mo_gpu_view x = mo_lower_in(l, 0);
    bool old = l->node->opset < 7 && !mo_attr_int(l->node, "is_test", 0);
    if (old || mo_attr_int(l->node, "training_mode", 0) || l->node->n_out > 1)
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "training mode is not supported on a GPU");
    if (l->rc) return;
    mo_elementwise_init(l, &p, mo_lower_out_like(l, 0, &x));
    mo_elementwise_in(&p, &x);
    for (int i = 1; i < 5; i++) {
        struct mo_gpu_view v = mo_lower_in(l, i);
        if (!l->rc) v = mo_gpu_by_channel(v, x.rank);
        mo_elementwise_in(&p, &v);
    }
    mo_gpu_printf(&p.body, "    r = (x0 - x3) / sqrtf(x4 + ");
    mo_gpu_literal(&p.body, mo_attr_float(l->node, "epsilon", 1e-5f));
    mo_gpu_printf(&p.body, ") * x1 + x2;\n");
    mo_elementwise_done(l, &p);
}

void mo_lower_cast(struct mo_lower *l) {
    struct mo_gpu_view x = mo_lower_in(l, 0);
    if (l->rc) return;
    struct mo_gpu_view y = mo_lower_out_like(l, 0, &x);
    mo_lower_copy(l, &x, &y);
}
