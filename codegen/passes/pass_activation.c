/* SPDX-License-Identifier: Apache-2.0
 * pass_activation.c - every form of an activation becomes one moire.Activation node.
 *
 * Simple operators are read from a table of functions.  Products are taken apart: the tree of Mul and
 * Div-by-constant above a root is flattened into a scalar and at most two other factors, and then
 *   Clip(x+b, 0, M) / M           is a hard sigmoid,      x times it a hard swish (ReLU6 and HardSigmoid
 * forms), x * Sigmoid(x) is SiLU, x * (1 + Erf(x/sqrt 2)) / 2 is GELU and so is its Tanh form, in whatever
 * order the exporter multiplied.  Nodes that are left without a reader die in the next pass. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "codegen/passes/passes.h"

struct activation {
    enum mo_act act;
    float a, b;
    int x; /* tensor it is applied to */
};

static bool near(float a, float b) {
    return fabsf(a - b) <= 1e-4f * fabsf(b);
}

/* --- one operator -------------------------------------------------------------------------------------- */

/* Bounds of Clip: attributes before opset 11, constant inputs since. */
static bool clip_bounds(const struct mo_graph *g, const struct mo_node *node, struct activation *out) {
    out->act = MO_ACT_CLIP;
    out->a = mo_attr_float(node, "min", -FLT_MAX);
    out->b = mo_attr_float(node, "max", FLT_MAX);
    if (mo_node_in(g, node, 1) && !mo_scalar(g, node->in[1], &out->a)) return false;
    if (mo_node_in(g, node, 2) && !mo_scalar(g, node->in[2], &out->b)) return false;
    if (!(out->a <= out->b)) return false; /* crossed bounds have an order of their own */
    if (out->a == 0 && out->b >= FLT_MAX) *out = (struct activation){.act = MO_ACT_RELU};
    return true;
}

static bool simple(const struct mo_graph *g, const struct mo_node *node, struct activation *out) {
    *out = (struct activation){.act = MO_ACT_NONE};
    if (mo_is(node, "Relu")) out->act = MO_ACT_RELU;
    if (mo_is(node, "Sigmoid")) out->act = MO_ACT_SIGMOID;
    if (mo_is(node, "Tanh")) out->act = MO_ACT_TANH;
    if (mo_is(node, "HardSwish")) *out = (struct activation){.act = MO_ACT_HSWISH, .a = 1.0f / 6, .b = 0.5f};
    if (mo_is(node, "LeakyRelu"))
        *out = (struct activation){.act = MO_ACT_LEAKY, .a = mo_attr_float(node, "alpha", 0.01f)};
    if (mo_is(node, "HardSigmoid"))
        *out = (struct activation){.act = MO_ACT_HSIGMOID,
                                   .a = mo_attr_float(node, "alpha", 0.2f),
                                   .b = mo_attr_float(node, "beta", 0.5f)};
    if (mo_is(node, "Gelu"))
        out->act =
            strcmp(mo_attr_string(node, "approximate", "none"), "tanh") ? MO_ACT_GELU : MO_ACT_GELU_TANH;
    if (mo_is(node, "Clip") && !clip_bounds(g, node, out)) return false;
    if (mo_is(node, "PRelu") && mo_scalar(g, node->in[1], &out->a)) out->act = MO_ACT_LEAKY;
    out->x = node->in[0];
    return out->act != MO_ACT_NONE;
}

/* --- products ------------------------------------------------------------------------------------------ */

enum { MAX_LEAVES = 2, MAX_DEPTH = 4 };

struct product {
    float scale;
    int n, leaf[MAX_LEAVES];
};

/* One Mul or Div node: *c gets a constant factor and *rest the other operand; or two operands, no constant.
 */
static bool split(const struct mo_graph *g, const struct mo_node *node, float *c, int operand[2], int *n) {
    *c = 1;
    *n = 1;
    if (!node || node->n_in != 2 || node->fuse.act != MO_ACT_NONE) return false;
    if (mo_is(node, "Div")) {
        operand[0] = node->in[0];
        if (!mo_scalar(g, node->in[1], c) || *c == 0) return false;
        *c = 1 / *c;
        return true;
    }
    if (!mo_is(node, "Mul")) return false;
    for (int k = 0; k < 2; k++) {
        operand[0] = node->in[1 - k];
        if (mo_scalar(g, node->in[k], c)) return true;
    }
    operand[0] = node->in[0];
    operand[1] = node->in[1];
    *n = 2;
    return true;
}

/* Flattens the product above `root`; inner nodes must have no other reader. */
static bool flatten(const struct mo_graph *g, const struct mo_node *root, struct product *p) {
    int queue[2 * MAX_DEPTH], at = 0, n = 0, k;
    float c;
    *p = (struct product){.scale = 1};
    int operand[2];
    if (!split(g, root, &c, operand, &k)) return false;
    p->scale *= c;
    for (int i = 0; i < k; i++)
        queue[n++] = operand[i];
    for (; at < n; at++) {
        const struct mo_node *inner = mo_producer(g, queue[at]);
        bool room = n + 2 <= (int)(sizeof queue / sizeof *queue);
        if (room && g->tensors[queue[at]]->n_uses == 1 && split(g, inner, &c, operand, &k)) {
            p->scale *= c;
            for (int i = 0; i < k; i++)
                queue[n++] = operand[i];
        } else if (p->n < MAX_LEAVES) {
            p->leaf[p->n++] = queue[at];
        } else {
            return false;
        }
    }
    return true;
}

/* The operand of an Add with a scalar constant. */
static bool add_constant(const struct mo_graph *g, int tensor, int *x, float *c) {
    const struct mo_node *node = mo_producer(g, tensor);
    if (!mo_is(node, "Add") || node->n_in != 2 || node->fuse.act != MO_ACT_NONE) return false;
    for (int k = 0; k < 2; k++) {
        *x = node->in[1 - k];
        if (mo_scalar(g, node->in[k], c)) return true;
    }
    return false;
}

/* Clip(x + b, 0, M): M and b and x. */
static bool shifted_clip(const struct mo_graph *g, int tensor, int *x, float *b, float *top) {
    const struct mo_node *node = mo_producer(g, tensor);
    if (!mo_is_moire(node, "Activation") || node->fuse.act != MO_ACT_CLIP || node->fuse.a != 0) return false;
    *top = node->fuse.b;
    return *top > 0 && *top < FLT_MAX && add_constant(g, node->in[0], x, b);
}

/* 1 + Erf(x / sqrt 2) */
static bool erf_term(const struct mo_graph *g, int tensor, int *x) {
    float one, c;
    int erf_out, operand[2], n;
    if (!add_constant(g, tensor, &erf_out, &one) || one != 1) return false;
    const struct mo_node *erf_node = mo_producer(g, erf_out);
    if (!mo_is(erf_node, "Erf") || !split(g, mo_producer(g, erf_node->in[0]), &c, operand, &n)) return false;
    *x = operand[0];
    return n == 1 && near(c, 0.70710678f);
}

static bool is_cube(const struct mo_graph *g, int tensor, int x) {
    const struct mo_node *node = mo_producer(g, tensor);
    float three;
    if (mo_is(node, "Pow")) return node->in[0] == x && mo_scalar(g, node->in[1], &three) && three == 3;
    for (int k = 0; k < 2 && mo_is(node, "Mul"); k++) {
        const struct mo_node *square = mo_producer(g, node->in[1 - k]);
        if (node->in[k] == x && mo_is(square, "Mul") && square->in[0] == x && square->in[1] == x) return true;
    }
    return false;
}

/* 1 + Tanh(sqrt(2/pi) (x + 0.044715 x^3)) */
static bool tanh_term(const struct mo_graph *g, int tensor, int *x) {
    float one, c;
    int below, operand[2], n;
    if (!add_constant(g, tensor, &below, &one) || one != 1) return false;
    const struct mo_node *node = mo_producer(g, below);
    if (!mo_is_moire(node, "Activation") || node->fuse.act != MO_ACT_TANH) return false;
    if (!split(g, mo_producer(g, node->in[0]), &c, operand, &n) || n != 1 || !near(c, 0.79788456f))
        return false;
    node = mo_producer(g, operand[0]);
    for (int k = 0; k < 2 && mo_is(node, "Add"); k++) {
        *x = node->in[k];
        if (split(g, mo_producer(g, node->in[1 - k]), &c, operand, &n) && n == 1 && near(c, 0.044715f) &&
            is_cube(g, operand[0], *x))
            return true;
    }
    return false;
}

/* leaf is f(x) such that scale * x * leaf is an activation of x. */
static bool gate(const struct mo_graph *g, float scale, int x, int leaf, struct activation *out) {
    const struct mo_node *node = mo_producer(g, leaf);
    int of;
    float b, top;
    out->x = x;
    if (mo_is_moire(node, "Activation") && node->in[0] == x && scale == 1) {
        out->act = node->fuse.act == MO_ACT_SIGMOID    ? MO_ACT_SILU
                   : node->fuse.act == MO_ACT_HSIGMOID ? MO_ACT_HSWISH
                                                       : MO_ACT_NONE;
        out->a = node->fuse.a;
        out->b = node->fuse.b;
        return out->act != MO_ACT_NONE;
    }
    if (shifted_clip(g, leaf, &of, &b, &top) && of == x && near(scale * top, 1)) {
        *out = (struct activation){.act = MO_ACT_HSWISH, .a = 1 / top, .b = b / top, .x = x};
        return true;
    }
    if (erf_term(g, leaf, &of) && of == x && near(scale, 0.5f)) {
        out->act = MO_ACT_GELU;
        return true;
    }
    if (tanh_term(g, leaf, &of) && of == x && near(scale, 0.5f)) {
        out->act = MO_ACT_GELU_TANH;
        return true;
    }
    return false;
}

static bool product_form(const struct mo_graph *g, const struct mo_node *node, struct activation *out) {
    struct product p;
    float b, top;
    int x;
    *out = (struct activation){.act = MO_ACT_NONE};
    if (!flatten(g, node, &p)) return false;
    if (p.n == 1 && shifted_clip(g, p.leaf[0], &x, &b, &top) && near(p.scale * top, 1)) {
        *out = (struct activation){.act = MO_ACT_HSIGMOID, .a = 1 / top, .b = b / top, .x = x};
        return true;
    }
    if (p.n != 2) return false;
    return gate(g, p.scale, p.leaf[0], p.leaf[1], out) || gate(g, p.scale, p.leaf[1], p.leaf[0], out);
}

/* --- the pass ------------------------------------------------------------------------------------------ */

int mo_pass_activation(struct mo_graph *g, moire_error *err) {
    for (int i = 0; i < g->n_nodes; i++) {
        struct mo_node *node = g->nodes[i];
        struct activation act;
        if (node->dead || *node->domain || node->n_out != 1 || node->n_in < 1 || node->in[0] < 0) continue;
        const struct mo_tensor *y = g->tensors[node->out[0]];
        if (!mo_is_f32(y) || node->fuse.act != MO_ACT_NONE) continue;
        if (!simple(g, node, &act) && !product_form(g, node, &act)) continue;
        const struct mo_tensor *x = g->tensors[act.x];
        if (!mo_is_f32(x) || !mo_shape_equal(&x->shape, &y->shape)) continue;
        for (int k = 0; k < node->n_in; k++)
            if (node->in[k] >= 0) g->tensors[node->in[k]]->n_uses--;
        g->tensors[act.x]->n_uses++;
        node->in[0] = act.x;
        int rc = mo_become(g, node, "Activation", 1, err);
        if (rc) return rc;
        node->fuse.act = act.act;
        node->fuse.a = act.a;
        node->fuse.b = act.b;
    }
    return MOIRE_OK;
}
