/* SPDX-License-Identifier: Apache-2.0
 * import_contrib.c - see import_contrib.h.  A row an operator; what a row cannot write (an activation that it
 * does not know, an output that no operator of ONNX gives) stays, and is refused by its name.
 *
 * Source of what they compute: the operators' documentation of ONNX Runtime (ContribOperators). */
#include "codegen/import/import_contrib.h"

#include <stdio.h>
#include <string.h>

const char mo_contrib_domain[] = "ai.onnx";

/* --- pieces --------------------------------------------------------------------------------------------- */

static void *room(struct mo_contrib *c, size_t bytes) {
    void *p = mo_region_alloc(c->region, bytes);
    c->no_memory = c->no_memory || !p;
    return p;
}

static const char *input(const struct mo_contrib *c, size_t k) {
    return k < c->node->n_input ? mo_proto_text(c->node->input[k]) : "";
}

static const char *output(const struct mo_contrib *c, size_t k) {
    return k < c->node->n_output ? mo_proto_text(c->node->output[k]) : "";
}

/* A tensor between the nodes that are made. */
static const char *between(struct mo_contrib *c, const char *name) {
    const size_t n = strlen(c->prefix) + strlen(name) + 1;
    char *s = room(c, n);
    if (s) snprintf(s, n, "%s%s", c->prefix, name);
    return s ? s : "";
}

/* y = op(a, b, x); "" from the end on are left out.  NULL: out of memory. */
static Onnx__NodeProto *add(struct mo_contrib *c, const char *op, const char *a, const char *b, const char *x,
                            const char *y) {
    enum { IN = 3, OUT = 3 };
    Onnx__NodeProto *node = room(c, sizeof *node);
    char **names = node ? room(c, (IN + OUT) * sizeof *names) : NULL;
    if (!names) return NULL;
    onnx__node_proto__init(node);
    names[0] = (char *)a, names[1] = (char *)b, names[2] = (char *)x, names[IN] = (char *)y;
    node->n_input = *x ? 3 : *b ? 2 : *a ? 1 : 0;
    node->n_output = 1;
    node->input = names;
    node->output = names + IN;
    node->op_type = (char *)op;
    node->domain = (char *)mo_contrib_domain;
    node->name = c->node->name;
    return c->out[c->n++] = node;
}

/* Room for one more attribute of a node; NULL: out of memory. */
static Onnx__AttributeProto *attribute(struct mo_contrib *c, Onnx__NodeProto *node, const char *name) {
    Onnx__AttributeProto *a = node ? room(c, sizeof *a) : NULL;
    Onnx__AttributeProto **wider = a ? room(c, (node->n_attribute + 1) * sizeof *wider) : NULL;
    if (!wider) return NULL;
    for (size_t i = 0; i < node->n_attribute; i++)
        wider[i] = node->attribute[i];
    onnx__attribute_proto__init(a);
    a->name = (char *)name;
    a->has_type = 1;
    wider[node->n_attribute++] = a;
    node->attribute = wider;
    return a;
}

static void set_float(struct mo_contrib *c, Onnx__NodeProto *node, const char *name, float value) {
    Onnx__AttributeProto *a = attribute(c, node, name);
    if (!a) return;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
    a->has_f = 1;
    a->f = value;
}

static void set_text(struct mo_contrib *c, Onnx__NodeProto *node, const char *name, const char *value) {
    Onnx__AttributeProto *a = attribute(c, node, name);
    if (!a) return;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
    a->has_s = 1;
    a->s = (ProtobufCBinaryData){strlen(value), (uint8_t *)value};
}

static const Onnx__AttributeProto *own(const struct mo_contrib *c, const char *name) {
    for (size_t i = 0; i < c->node->n_attribute; i++)
        if (!strcmp(mo_proto_text(c->node->attribute[i]->name), name)) return c->node->attribute[i];
    return NULL;
}

static float own_float(const struct mo_contrib *c, const char *name, float fallback) {
    const Onnx__AttributeProto *a = own(c, name);
    return a && a->has_f ? a->f : fallback;
}

static int64_t own_int(const struct mo_contrib *c, const char *name, int64_t fallback) {
    const Onnx__AttributeProto *a = own(c, name);
    return a && a->has_i ? a->i : fallback;
}

static const char *constant(struct mo_contrib *c, const char *name, float value) {
    const char *y = between(c, name);
    set_float(c, add(c, "Constant", "", "", "", y), "value_float", value);
    return y;
}

/* --- activations of fused operators --------------------------------------------------------------------- */

/* `params` are a list of one attribute, or attributes with a suffix each. */
static float param(const struct mo_contrib *c, size_t k, float fallback) {
    static const char *const names[] = {"activation_alpha", "activation_beta"};
    const Onnx__AttributeProto *a = own(c, "activation_params");
    return a ? (k < a->n_floats ? a->floats[k] : fallback) : own_float(c, names[k], fallback);
}

/* The activation's name as an operator; "": none; NULL: one that is not known here. */
static const char *activation(const struct mo_contrib *c) {
    static const char *const known[] = {"Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Clip"};
    const Onnx__AttributeProto *a = own(c, "activation");
    if (!a || !a->has_s || !a->s.len) return "";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (a->s.len == strlen(known[i]) && !memcmp(a->s.data, known[i], a->s.len)) return known[i];
    return NULL;
}

static void activate(struct mo_contrib *c, const char *op, const char *x, const char *y) {
    if (!strcmp(op, "Clip")) {
        const char *lo = constant(c, "lo", param(c, 0, 0)), *hi = constant(c, "hi", param(c, 1, 0));
        add(c, op, x, lo, hi, y);
        return;
    }
    Onnx__NodeProto *node = add(c, op, x, "", "", y);
    if (!strcmp(op, "LeakyRelu")) set_float(c, node, "alpha", param(c, 0, 0.01F));
    if (strcmp(op, "HardSigmoid") != 0) return;
    set_float(c, node, "alpha", param(c, 0, 0.2F));
    set_float(c, node, "beta", param(c, 1, 0.5F));
}

/* The node's own attributes, but those of the activation. */
static void keep_attributes(struct mo_contrib *c, Onnx__NodeProto *to) {
    for (size_t i = 0; i < c->node->n_attribute; i++) {
        const char *name = mo_proto_text(c->node->attribute[i]->name);
        Onnx__AttributeProto *a = strncmp(name, "activation", 10) != 0 ? attribute(c, to, name) : NULL;
        if (a) *a = *c->node->attribute[i];
    }
}

/* --- operators ------------------------------------------------------------------------------------------ */

/* An operand that may be left out is added first. */
static const char *biased(struct mo_contrib *c) {
    if (!*input(c, 1)) return input(c, 0);
    const char *sum = between(c, "sum");
    add(c, "Add", input(c, 0), input(c, 1), "", sum);
    return sum;
}

static void gelu(struct mo_contrib *c) {
    const char *x = biased(c);
    add(c, "Gelu", x, "", "", output(c, 0));
}

static void fast_gelu(struct mo_contrib *c) {
    const char *x = biased(c);
    set_text(c, add(c, "Gelu", x, "", "", output(c, 0)), "approximate", "tanh");
}

static void quick_gelu(struct mo_contrib *c) {
    const float alpha = own_float(c, "alpha", 1.702F);
    const char *x = alpha == 1 ? input(c, 0) : between(c, "scaled"), *s = between(c, "sigmoid");
    if (alpha != 1) {
        const char *factor = constant(c, "alpha", alpha);
        add(c, "Mul", input(c, 0), factor, "", x);
    }
    add(c, "Sigmoid", x, "", "", s);
    add(c, "Mul", input(c, 0), s, "", output(c, 0));
}

/* An operand of a product in letters of Einsum.  transBatch: its first dimension is behind the batch's. */
static void put_letters(const struct mo_contrib *c, const char *trans, const char *batch, const char *letters,
                        char *out) {
    const bool swaps = own_int(c, trans, 0);
    const char first = letters[swaps], last = letters[!swaps];
    if (own_int(c, batch, 0))
        snprintf(out, 8, "%c...%c", first, last);
    else
        snprintf(out, 8, "...%c%c", first, last);
}

/* Transposed operands by Einsum: their rank is not known yet. */
static void fused_matmul(struct mo_contrib *c) {
    const float alpha = own_float(c, "alpha", 1);
    const char *y = alpha == 1 ? output(c, 0) : between(c, "product");
    char a[8], b[8];
    put_letters(c, "transA", "transBatchA", "ij", a);
    put_letters(c, "transB", "transBatchB", "jk", b);
    const bool plain = !strcmp(a, "...ij") && !strcmp(b, "...jk");
    char *equation = room(c, 32);
    if (!equation) return;
    snprintf(equation, 32, "%s,%s->...ik", a, b);
    Onnx__NodeProto *node = add(c, plain ? "MatMul" : "Einsum", input(c, 0), input(c, 1), "", y);
    if (!plain) set_text(c, node, "equation", equation);
    if (alpha == 1) return;
    const char *factor = constant(c, "alpha", alpha);
    add(c, "Mul", y, factor, "", output(c, 0));
}

static void fused_gemm(struct mo_contrib *c) {
    const char *act = activation(c);
    if (!act) return;
    const char *y = *act ? between(c, "sum") : output(c, 0);
    keep_attributes(c, add(c, "Gemm", input(c, 0), input(c, 1), input(c, 2), y));
    if (*act) activate(c, act, y, output(c, 0));
}

/* Convolution, a residual, an activation; with a Clip, which needs two constants, no residual. */
static void fused_conv(struct mo_contrib *c) {
    const char *act = activation(c);
    if (!act || (*input(c, 3) && !strcmp(act, "Clip"))) return;
    const char *y = *act || *input(c, 3) ? between(c, "sum") : output(c, 0);
    keep_attributes(c, add(c, "Conv", input(c, 0), input(c, 1), input(c, 2), y));
    if (*input(c, 3)) {
        const char *with = *act ? between(c, "with") : output(c, 0);
        add(c, "Add", y, input(c, 3), "", with);
        y = with;
    }
    if (*act) activate(c, act, y, output(c, 0));
}

static void more_outputs(struct mo_contrib *c, Onnx__NodeProto *node) {
    for (size_t k = 1; node && k < 3 && k < c->node->n_output; k++)
        node->output[node->n_output++] = (char *)output(c, k);
}

/* The sum that is normalized, which is an output, too. */
static const char *skip_sum(struct mo_contrib *c, const char *bias) {
    const char *sum = *output(c, 3) ? output(c, 3) : between(c, "sum");
    const char *first = *bias ? between(c, "first") : sum;
    add(c, "Add", input(c, 0), input(c, 1), "", first);
    if (*bias) add(c, "Add", first, bias, "", sum);
    return sum;
}

static void skip_layer_norm(struct mo_contrib *c) {
    const char *sum = skip_sum(c, input(c, 4));
    Onnx__NodeProto *node = add(c, "LayerNormalization", sum, input(c, 2), input(c, 3), output(c, 0));
    set_float(c, node, "epsilon", own_float(c, "epsilon", 1e-12F));
    more_outputs(c, node);
}

static void skip_rms_norm(struct mo_contrib *c) {
    if (*output(c, 1) || *output(c, 2)) return;
    const char *sum = skip_sum(c, input(c, 3));
    set_float(c, add(c, "RMSNormalization", sum, input(c, 2), "", output(c, 0)), "epsilon",
              own_float(c, "epsilon", 1e-12F));
}

static void rms_norm(struct mo_contrib *c) {
    if (*output(c, 1)) return;
    keep_attributes(c, add(c, "RMSNormalization", input(c, 0), input(c, 1), "", output(c, 0)));
}

static void layer_norm(struct mo_contrib *c) {
    Onnx__NodeProto *node = add(c, "LayerNormalization", input(c, 0), input(c, 1), input(c, 2), output(c, 0));
    if (node) keep_attributes(c, node);
    more_outputs(c, node);
}

/* The last two are in ONNX's own domain, which has one of them from a version on. */
static const struct row {
    const char *op, *domain;
    int before;
    void (*write)(struct mo_contrib *c);
} rows[] = {
    {"Gelu", "com.microsoft", MO_OPSET_MAX + 1, gelu},
    {"BiasGelu", "com.microsoft", MO_OPSET_MAX + 1, gelu},
    {"FastGelu", "com.microsoft", MO_OPSET_MAX + 1, fast_gelu},
    {"QuickGelu", "com.microsoft", MO_OPSET_MAX + 1, quick_gelu},
    {"FusedMatMul", "com.microsoft", MO_OPSET_MAX + 1, fused_matmul},
    {"FusedGemm", "com.microsoft", MO_OPSET_MAX + 1, fused_gemm},
    {"FusedConv", "com.microsoft", MO_OPSET_MAX + 1, fused_conv},
    {"SkipLayerNormalization", "com.microsoft", MO_OPSET_MAX + 1, skip_layer_norm},
    {"SkipSimplifiedLayerNormalization", "com.microsoft", MO_OPSET_MAX + 1, skip_rms_norm},
    {"SimplifiedLayerNormalization", "", MO_OPSET_MAX + 1, rms_norm},
    {"LayerNormalization", "", 17, layer_norm},
};

bool mo_contrib_write(struct mo_contrib *c) {
    c->n = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(mo_proto_text(c->node->op_type), rows[i].op) && c->opset < rows[i].before &&
            !strcmp(mo_proto_domain(c->node->domain), rows[i].domain)) {
            rows[i].write(c);
            break;
        }
    return !c->no_memory;
}
