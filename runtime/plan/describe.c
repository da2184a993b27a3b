/* SPDX-License-Identifier: Apache-2.0
 * describe.c - layers in words; see describe.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "runtime/ops/op.h"
#include "runtime/plan/describe.h"

const char *mo_act_text(enum mo_act act) {
    static const char *const names[MO_ACT_COUNT] = {"",         "relu",   "clip", "leaky", "sigmoid", "silu",
                                                    "hsigmoid", "hswish", "tanh", "gelu",  "gelutanh"};
    return act >= 0 && act < MO_ACT_COUNT ? names[act] : "";
}

int64_t mo_step_macs(const struct mo_step *step) {
    static const char *const products[] = {"Conv", "ConvTranspose", "MatMul", "Gemm", "Attention"};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (!strcmp(step->node->op_type, products[i])) return step->flops / 2;
    return 0;
}

struct text {
    char *at;
    size_t left;
};

static void put(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct text *t, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(t->at, t->left, format, ap);
    va_end(ap);
    size_t used = n < 0 ? 0 : (size_t)n < t->left ? (size_t)n : t->left - 1;
    t->at += used;
    t->left -= used;
}

/* "3x3", from the kernel_shape attribute or the weights. */
static void put_window(struct text *t, const struct mo_graph *g, const struct mo_node *node) {
    int64_t k[MOIRE_MAX_RANK], s[MOIRE_MAX_RANK];
    int n = mo_attr_ints(node, "kernel_shape", k, MOIRE_MAX_RANK);
    const struct mo_tensor *w = node->n_in > 1 && node->in[1] >= 0 ? g->tensors[node->in[1]] : NULL;
    if (n < 1 && !strncmp(node->op_type, "Conv", 4) && w)
        for (n = 0; n + 2 < w->shape.rank; n++)
            k[n] = w->shape.d[2 + n];
    for (int i = 0; i < n && i < MOIRE_MAX_RANK; i++)
        put(t, "%s%lld", i ? "x" : " ", (long long)k[i]);
    if (mo_attr_ints(node, "strides", s, MOIRE_MAX_RANK) > 0 && s[0] != 1) put(t, "/%lld", (long long)s[0]);
    int64_t group = mo_attr_int(node, "group", 1);
    if (group > 1) put(t, " g%lld", (long long)group);
}

/* Operator names reach this point only when they are in the operator table, so they are our own text. */
void mo_layer_text(const struct mo_graph *g, const struct mo_node *node, char *out, size_t n) {
    struct text t = {out, n};
    out[0] = 0;
    bool bare = !strcmp(node->op_type, "Activation");
    put(&t, "%s", bare ? mo_act_text(node->fuse.act) : node->op->name);
    put_window(&t, g, node);
    if (node->fuse.gated) put(&t, " gated");
    if (node->fuse.residual >= 0 && !node->fuse.residual_last) put(&t, " +add");
    if (node->fuse.act != MO_ACT_NONE && !bare) put(&t, " +%s", mo_act_text(node->fuse.act));
    if (node->fuse.residual >= 0 && node->fuse.residual_last) put(&t, " +add");
}
