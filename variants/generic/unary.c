/* SPDX-License-Identifier: Apache-2.0
 * unary.c - binds elementwise functions and standalone batch normalization. */
#include <math.h>
#include <string.h>
#include "variants/generic/bind.h"

/* Operators by name.  `finite`: finite lanes stay finite, so the padding of MO_C16 may be computed too.
 * a, b: attribute names with defaults for the function's parameters. */
static const struct {
    const char *op_type;
    int function;
    bool finite;
    const char *a;
    float a_value;
    const char *b;
    float b_value;
} functions[] = {
    {"Relu", MO_ACT_RELU, true, NULL, 0, NULL, 0},
    {"LeakyRelu", MO_ACT_LEAKY, true, "alpha", 0.01f, NULL, 0},
    {"Sigmoid", MO_ACT_SIGMOID, true, NULL, 0, NULL, 0},
    {"HardSigmoid", MO_ACT_HSIGMOID, true, "alpha", 0.2f, "beta", 0.5f},
    {"HardSwish", MO_ACT_HSWISH, true, NULL, 1.0f / 6.0f, NULL, 0.5f},
    {"Tanh", MO_ACT_TANH, true, NULL, 0, NULL, 0},
    {"Gelu", MO_ACT_GELU, true, NULL, 0, NULL, 0},
    {"Silu", MO_ACT_SILU, true, NULL, 0, NULL, 0},
    {"Exp", MO_UNARY_EXP, true, NULL, 0, NULL, 0},
    {"Erf", MO_UNARY_ERF, true, NULL, 0, NULL, 0},
    {"Abs", MO_UNARY_ABS, true, NULL, 0, NULL, 0},
    {"Neg", MO_UNARY_NEG, true, NULL, 0, NULL, 0},
    {"Sqrt", MO_UNARY_SQRT, false, NULL, 0, NULL, 0},
    {"Reciprocal", MO_UNARY_RECIPROCAL, false, NULL, 0, NULL, 0},
    {"Identity", MO_UNARY_COPY, true, NULL, 0, NULL, 0},
    {"Dropout", MO_UNARY_COPY, true, NULL, 0, NULL, 0},
    {"Clip", MO_ACT_CLIP, true, NULL, 0, NULL, 0},
};

/* Bounds of Clip: attributes before opset 11, constant inputs since; false when an input is no constant. */
static bool clip_bounds(const struct mo_graph *g, const struct mo_node *node, float *low, float *high) {
    *low = mo_attr_float(node, "min", -INFINITY);
    *high = mo_attr_float(node, "max", INFINITY);
    for (int i = 1; i <= 2; i++) {
        const struct mo_tensor *t = mo_node_in(g, node, i);
        if (!t) continue;
        if (!t->data || t->dtype != MOIRE_F32 || mo_shape_count(&t->shape) != 1) return false;
        *(i == 1 ? low : high) = *(const float *)t->data;
    }
    return true;
}

static bool find(const struct mo_graph *g, const struct mo_node *node, struct mo_unary_params *p,
                 bool *finite) {
    bool ours = !strcmp(node->domain, "moire");
    if (mo_node_is_ours(node, "Activation")) {
        *p = (struct mo_unary_params){.function = node->fuse.act, .a = node->fuse.a, .b = node->fuse.b};
        *finite = true;
        return true;
    }
    if ((node->domain[0] && !ours) || node->fuse.act != MO_ACT_NONE) return false;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(functions[i].op_type, node->op_type)) continue;
        if (!strcmp(node->op_type, "Dropout") && mo_node_in(g, node, 2)) return false; /* training, perhaps */
        p->function = functions[i].function;
        p->a =
            functions[i].a ? mo_attr_float(node, functions[i].a, functions[i].a_value) : functions[i].a_value;
        p->b =
            functions[i].b ? mo_attr_float(node, functions[i].b, functions[i].b_value) : functions[i].b_value;
        if (!strcmp(node->op_type, "Gelu") && !strcmp(mo_attr_string(node, "approximate", "none"), "tanh"))
            p->function = MO_ACT_GELU_TANH;
        *finite = functions[i].finite;
        return p->function != MO_ACT_CLIP || clip_bounds(g, node, &p->a, &p->b);
    }
    return false;
}

static unsigned unary_layouts(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    struct mo_unary_params p;
    bool finite;
    if (!mo_f32(x) || !mo_f32(y) || node->fuse.residual >= 0) return 0;
    if (!mo_shape_equal(&x->shape, &y->shape) || mo_node_out(g, node, 1) || !find(g, node, &p, &finite))
        return 0;
    return MO_CAN_PLAIN | (finite && x->shape.rank >= 3 ? MO_CAN_C16 : 0);
}

static int unary_bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                      moire_error *err) {
    const struct mo_graph *g = binder->graph;
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    struct mo_unary_params p = {0};
    bool finite;
    if (x->layout != y->layout || !find(g, node, &p, &finite) || (x->layout == MO_C16 && !finite))
        return MOIRE_EUNSUPPORTED;
    p.padding = mo_padding_of(y);
    bool dense = mo_dense(g, x) && mo_dense(g, y) && !p.padding.used;
    p.images = dense || x->shape.rank < 1 ? 1 : x->shape.d[0];
    p.count = (dense ? mo_tensor_bytes(x) : mo_tensor_image_bytes(x)) / 4;
    p.chunks = (p.count + MO_CHUNK - 1) / MO_CHUNK;
    return mo_bound(step, mo_simd_of(binder->isa)->unary, "unary", mo_keep(binder, &p, sizeof p),
                    p.images * p.chunks, err);
}

const struct mo_family mo_family_unary = {"unary", unary_layouts, unary_bind};

static unsigned affine_layouts(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(g, node, 0);
    if (!mo_node_is(node, "BatchNormalization") || node->fuse.residual >= 0) return 0;
    if (!mo_f32(x) || !mo_f32(mo_node_out(g, node, 0)) || x->shape.rank < 2) return 0;
    for (int i = 1; i < 5; i++) {
        const struct mo_tensor *t = mo_node_in(g, node, i);
        if (!mo_f32(t) || !t->data || mo_shape_count(&t->shape) != x->shape.d[1]) return 0;
    }
    for (int i = 1; i < node->n_out; i++)
        if (mo_node_out(g, node, i)) return 0;
    return mo_attr_int(node, "training_mode", 0) ? 0 : MO_CAN_PLAIN | (x->shape.rank >= 3 ? MO_CAN_C16 : 0);
}

static int affine_bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                       moire_error *err) {
    const struct mo_graph *g = binder->graph;
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    const float *scale = mo_node_in(g, node, 1)->data, *bias = mo_node_in(g, node, 2)->data;
    const float *mean = mo_node_in(g, node, 3)->data, *variance = mo_node_in(g, node, 4)->data;
    int64_t channels = x->shape.d[1];
    if (x->layout != y->layout) return MOIRE_EUNSUPPORTED;
    float *s = mo_keep_padded(binder, NULL, channels, 0.0f),
          *t = mo_keep_padded(binder, NULL, channels, 0.0f);
    if (!s || !t) return mo_fail(err, MOIRE_ENOMEM, "out of memory while binding node '%s'", node->name);
    float epsilon = mo_attr_float(node, "epsilon", 1e-5f);
    for (int64_t c = 0; c < channels; c++) {
        s[c] = (float)(scale[c] / sqrt((double)variance[c] + epsilon));
        t[c] = (float)(bias[c] - (double)mean[c] * s[c]);
    }
    struct mo_affine_params p = {.scale = s, .shift = t, .channels = channels, .fuse = node->fuse};
    p.area = mo_span(x, 2, x->shape.rank);
    p.lanes = x->layout == MO_C16 ? 16 : 1;
    return mo_bound(step, mo_simd_of(binder->isa)->affine, "affine", mo_keep(binder, &p, sizeof p),
                    x->shape.d[0] * ((channels + p.lanes - 1) / p.lanes), err);
}

const struct mo_family mo_family_affine = {"affine", affine_layouts, affine_bind};
