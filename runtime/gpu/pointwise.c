/* SPDX-License-Identifier: Apache-2.0
 * pointwise.c - operators that compute every element on its own, as text of kernels: those of moire.Fused
 * (one table, all steps), sums of many, batch normalization that no pass could fold, casts. */
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/lower.h"

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
};

/* Operators that no pass fuses. */
static const struct {
    const char *name, *text;
} others[] = {
    {"Not", "A == 0"},
    {"Sin", "sinf(A)"},
    {"Cos", "cosf(A)"},
    {"Tan", "tanf(A)"},
    {"Sinh", "sinhf(A)"},
    {"Cosh", "coshf(A)"},
    {"Asin", "asinf(A)"},
    {"Acos", "acosf(A)"},
    {"Atan", "atanf(A)"},
    {"Asinh", "asinhf(A)"},
    {"Acosh", "acoshf(A)"},
    {"Atanh", "atanhf(A)"},
    {"Softplus", "A > 20 ? A : log1pf(expf(A))"},
    {"Softsign", "A / (1 + fabsf(A))"},
    {"Mish", "A * tanhf(A > 20 ? A : log1pf(expf(A)))"},
};

/* Only these take integers as they are: the others are written with functions of floats. */
static bool takes_integers(enum mo_fused_op op) {
    return op == MO_FUSED_ADD || op == MO_FUSED_SUB || op == MO_FUSED_MUL || op == MO_FUSED_DIV ||
           (op >= MO_FUSED_EQUAL && op <= MO_FUSED_XOR) || op == MO_FUSED_WHERE || op == MO_FUSED_TO_FLOAT ||
           op == MO_FUSED_TO_BOOL || op == MO_FUSED_NEG;
}

/* The expression with operands by their names. */
static void expand(struct mo_gpu_text *t, const char *text, const char (*names)[16]) {
    for (const char *p = text; *p; p++)
        if (*p >= 'A' && *p <= 'C')
            mo_gpu_printf(t, "%s", names[*p - 'A']);
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
    expand(t, expression[s->op], (const char(*)[16])names);
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
static bool begin(struct mo_lower *l, struct mo_point *p) {
    struct mo_gpu_view in[MO_POINT_INPUTS];
    int order[MO_VIEW_RANK], n = l->node->n_in;
    if (n > MO_FUSED_INPUTS) mo_lower_fail(l, MOIRE_EUNSUPPORTED, "%d inputs are too many for a GPU", n);
    for (int i = 0; i < n && !l->rc; i++)
        in[i] = mo_lower_in(l, i);
    if (l->rc) return false;
    like_largest(l, in, n, order);
    struct mo_gpu_view out = mo_lower_out(l, 0, order);
    mo_point_init(l, p, out);
    for (int i = 0; i < n; i++)
        mo_point_in(p, &in[i]);
    return !l->rc;
}

static bool all_float(const struct mo_point *p) {
    for (int i = 0; i < p->n; i++)
        if (!mo_gpu_value_type(p->in[i].dtype) || strcmp(mo_gpu_value_type(p->in[i].dtype), "float") != 0)
            return false;
    return true;
}

void mo_lower_fused(struct mo_lower *l) {
    struct mo_fused f;
    struct mo_point p;
    if (!mo_fused_read(l->node, &f)) mo_lower_fail(l, MOIRE_EINTERNAL, "no program of pointwise operators");
    if (!begin(l, &p)) return;
    for (int i = 0; i < f.n; i++)
        step_text(&p.body, &f.step[i], f.n_in, i == f.n - 1, i, "float");
    p.flops = f.n * mo_gpu_count(&p.out);
    mo_point_done(l, &p);
}

static int find_step(const struct mo_node *node) {
    for (int i = 0; i < MO_FUSED_COUNT; i++)
        if (!strcmp(mo_fused_name((enum mo_fused_op)i), node->op_type) &&
            !strcmp(mo_fused_domain((enum mo_fused_op)i), node->domain))
            return i;
    return -1;
}

static const char *find_other(const struct mo_node *node) {
    for (size_t i = 0; i < sizeof others / sizeof *others && !*node->domain; i++)
        if (!strcmp(others[i].name, node->op_type)) return others[i].text;
    return NULL;
}

bool mo_gpu_is_step(const struct mo_node *node) {
    return find_step(node) >= 0 || find_other(node);
}

void mo_lower_step(struct mo_lower *l) {
    int found = find_step(l->node);
    const struct mo_fuse *fuse = &l->node->fuse;
    struct mo_point p;
    struct mo_fused_step s = {.arg = {0, 1, 2}, .act = fuse->act, .a = fuse->a, .b = fuse->b};
    if (l->node->n_in > 2 && (found < 0 || mo_fused_operands((enum mo_fused_op)found) < l->node->n_in)) {
        mo_lower_variadic(l);
        return;
    }
    if (!begin(l, &p)) return;
    bool floats = all_float(&p);
    if (!floats && (found < 0 || !takes_integers((enum mo_fused_op)found) || fuse->act != MO_ACT_NONE)) {
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "integers are not supported by this operator on a GPU");
    } else if (found >= 0) {
        s.op = (enum mo_fused_op)found;
        if (!floats) p.type = "long long";
        step_text(&p.body, &s, p.n, true, 0, p.type);
    } else {
        mo_gpu_printf(&p.body, "    r = ");
        expand(&p.body, find_other(l->node), (const char[3][16]){"x0", "x1", "x2"});
        mo_gpu_printf(&p.body, ";\n");
    }
    mo_point_done(l, &p);
}

void mo_lower_variadic(struct mo_lower *l) {
    const char *type = l->node->op_type, *form = "r + ";
    struct mo_point p;
    if (!begin(l, &p)) return;
    if (!all_float(&p))
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "integers are not supported by this operator on a GPU");
    if (!strcmp(type, "Max")) form = "mo_most(r, ";
    if (!strcmp(type, "Min")) form = "mo_least(r, ";
    mo_gpu_printf(&p.body, "    r = x0;\n");
    for (int i = 1; i < p.n; i++)
        mo_gpu_printf(&p.body, "    r = %sx%d%s;\n", form, i, *form == 'm' ? ")" : "");
    if (!strcmp(type, "Mean")) mo_gpu_printf(&p.body, "    r /= %d;\n", p.n);
    mo_point_done(l, &p);
}

void mo_lower_batch_norm(struct mo_lower *l) {
    struct mo_point p;
    struct mo_gpu_view x = mo_lower_in(l, 0);
    int order[MO_VIEW_RANK];
    if (l->rc) return;
    mo_gpu_order_of(&x, order);
    mo_point_init(l, &p, mo_lower_out(l, 0, order));
    mo_point_in(&p, &x);
    for (int i = 1; i < 5; i++) {
        struct mo_gpu_view v = mo_lower_in(l, i); /* [C] as [C,1,...] */
        for (int k = 1; k < x.rank - 1 && !l->rc; k++) {
            v.d[k] = 1;
            v.stride[k] = 0;
            v.rank = k + 1;
        }
        mo_point_in(&p, &v);
    }
    mo_gpu_printf(&p.body, "    r = (x0 - x3) / sqrtf(x4 + ");
    mo_gpu_literal(&p.body, mo_attr_float(l->node, "epsilon", 1e-5f));
    mo_gpu_printf(&p.body, ") * x1 + x2;\n");
    mo_point_done(l, &p);
}

void mo_lower_cast(struct mo_lower *l) {
    struct mo_gpu_view x = mo_lower_in(l, 0);
    int order[MO_VIEW_RANK];
    if (l->rc) return;
    mo_gpu_order_of(&x, order);
    struct mo_gpu_view y = mo_lower_out(l, 0, order);
    mo_lower_copy(l, &x, &y);
}
