/* SPDX-License-Identifier: Apache-2.0
 * describe.c - layers in words; see describe.h. */
#include <string.h>
#include "runtime/base/text.h"
#include "runtime/ops/op.h"
#include "runtime/plan/describe.h"
#include "runtime/plan/plan_impl.h"

const char *mo_act_text(enum mo_act act) {
    static const char *const names[MO_ACT_COUNT] = {
        [MO_ACT_NONE] = "",
        [MO_ACT_RELU] = "relu",
        [MO_ACT_CLIP] = "clip",
        [MO_ACT_LEAKY] = "leaky",
        [MO_ACT_SIGMOID] = "sigmoid",
        [MO_ACT_SILU] = "silu",
        [MO_ACT_HSIGMOID] = "hsigmoid",
        [MO_ACT_HSWISH] = "hswish",
        [MO_ACT_TANH] = "tanh",
        [MO_ACT_GELU] = "gelu",
        [MO_ACT_GELU_TANH] = "gelutanh",
    };
    return act >= 0 && act < MO_ACT_COUNT ? names[act] : "";
}

int64_t mo_step_macs(const struct mo_step *step) {
    return mo_plan_multiplies(step->node) ? step->flops / 2 : 0;
}

/* "3x3", from the kernel_shape attribute or the weights. */
static void put_window(struct mo_text *t, const struct mo_graph *g, const struct mo_node *node) {
    int64_t k[MOIRE_MAX_RANK], s[MOIRE_MAX_RANK];
    int n = mo_attr_ints(node, "kernel_shape", k, MOIRE_MAX_RANK);
    const struct mo_tensor *w = mo_node_in(g, node, 1);
    bool conv = !strncmp(node->op_type, "Conv", 4) || !strcmp(node->op_type, "QConv");
    if (n < 1 && conv && w)
        for (n = 0; n + 2 < w->shape.rank; n++)
            k[n] = w->shape.d[2 + n];
    for (int i = 0; i < n && i < MOIRE_MAX_RANK; i++)
        mo_text_put(t, "%s%lld", i ? "x" : " ", (long long)k[i]);
    if (mo_attr_ints(node, "strides", s, MOIRE_MAX_RANK) > 0 && s[0] != 1)
        mo_text_put(t, "/%lld", (long long)s[0]);
    int64_t group = mo_attr_int(node, "group", 1);
    if (group > 1) mo_text_put(t, " g%lld", (long long)group);
}

/* Operator names reach this point only when they are in the operator table, so they are our own text. */
void mo_layer_text(const struct mo_graph *g, const struct mo_node *node, char *out, size_t n) {
    struct mo_text t = mo_text_in(out, n);
    bool bare = !strcmp(node->op_type, "Activation");
    mo_text_put(&t, "%s", bare ? mo_act_text(node->fuse.act) : node->op->name);
    put_window(&t, g, node);
    if (node->fuse.gated) mo_text_put(&t, " gated");
    if (node->fuse.residual >= 0 && !node->fuse.residual_last) mo_text_put(&t, " +add");
    if (node->fuse.act != MO_ACT_NONE && !bare) mo_text_put(&t, " +%s", mo_act_text(node->fuse.act));
    if (node->fuse.residual >= 0 && node->fuse.residual_last) mo_text_put(&t, " +add");
}
