/* SPDX-License-Identifier: Apache-2.0
 * upgrade.c - see upgrade.h.
 *
 * Between versions 7 and 13 some operators came to take as inputs what had been attributes, the softmaxes
 * stopped flattening, Upsample became Resize and Scatter ScatterElements.  One row below for each. */
#include "codegen/quantize/upgrade.h"

#include <string.h>

enum { OLDEST = 7, IR_VERSION = 7 /* goes with version 13 */ };

/* What a node is made of while it is rewritten: nodes may go before and behind it. */
struct work {
    struct mo_edit *e;
    struct mo_edit_nodes nodes;
    const struct mo_graph *shapes;
};

static const char *of_ints(struct mo_edit *e, const char *stem, const int64_t *values, size_t n,
                           bool scalar) {
    void *data;
    int64_t dims = (int64_t)n;
    const char *name = mo_edit_constant(e, stem, MOIRE_I64, &dims, !scalar, &data);
    if (data && n) memcpy(data, values, n * sizeof *values);
    return name;
}

/* The attribute becomes input `i`. */
static void move_ints(struct mo_edit *e, Onnx__NodeProto *node, const char *name, size_t i) {
    const Onnx__AttributeProto *a = mo_edit_attribute(node, name);
    if (!a) return;
    mo_edit_set_input(e, node, i,
                      of_ints(e, mo_edit_text(e, "%s_%s", node->output[0], name), a->ints, a->n_ints, false));
    mo_edit_drop_attribute(node, name);
}

static void move_float(struct mo_edit *e, Onnx__NodeProto *node, const char *name, size_t i) {
    const Onnx__AttributeProto *a = mo_edit_attribute(node, name);
    void *data;
    if (!a) return;
    const char *value =
        mo_edit_constant(e, mo_edit_text(e, "%s_%s", node->output[0], name), MOIRE_F32, NULL, 0, &data);
    if (data) memcpy(data, &a->f, sizeof a->f);
    mo_edit_set_input(e, node, i, value);
    mo_edit_drop_attribute(node, name);
}

static void set_text(struct mo_edit *e, Onnx__NodeProto *node, const char *name, const char *value) {
    mo_edit_set_int(e, node, name, 0);
    Onnx__AttributeProto *a = mo_edit_attribute(node, name);
    char *text = mo_edit_text(e, "%s", value);
    if (!a || e->rc) return;
    a->has_i = 0;
    a->has_s = 1;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
    a->s = (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)text};
}

static void axes(struct work *w, Onnx__NodeProto *node) {
    move_ints(w->e, node, "axes", 1);
    mo_edit_push(w->e, &w->nodes, node);
}

static void split(struct work *w, Onnx__NodeProto *node) {
    move_ints(w->e, node, "split", 1);
    mo_edit_push(w->e, &w->nodes, node);
}

static void slice(struct work *w, Onnx__NodeProto *node) {
    static const char *const names[] = {"starts", "ends", "axes"};
    for (size_t i = 0; i < 3; i++)
        move_ints(w->e, node, names[i], i + 1);
    mo_edit_push(w->e, &w->nodes, node);
}

static void clip(struct work *w, Onnx__NodeProto *node) {
    move_float(w->e, node, "min", 1);
    move_float(w->e, node, "max", 2);
    mo_edit_push(w->e, &w->nodes, node);
}

static void pad(struct work *w, Onnx__NodeProto *node) {
    move_ints(w->e, node, "pads", 1);
    move_float(w->e, node, "value", 2);
    mo_edit_push(w->e, &w->nodes, node);
}

static void dropout(struct work *w, Onnx__NodeProto *node) {
    mo_edit_drop_attribute(node, "ratio");
    mo_edit_push(w->e, &w->nodes, node);
}

static void norm(struct work *w, Onnx__NodeProto *node) {
    if (!mo_edit_int(node, "spatial", 1))
        mo_edit_fail(w->e, MOIRE_EUNSUPPORTED,
                     "node '%.100s' (BatchNormalization): spatial = 0 is not supported", node->name);
    mo_edit_drop_attribute(node, "spatial");
    mo_edit_push(w->e, &w->nodes, node);
}

static void top_k(struct work *w, Onnx__NodeProto *node) {
    const Onnx__AttributeProto *a = mo_edit_attribute(node, "k");
    if (a) {
        mo_edit_set_input(w->e, node, 1,
                          of_ints(w->e, mo_edit_text(w->e, "%s_k", node->output[0]), &a->i, 1, false));
        mo_edit_drop_attribute(node, "k");
    }
    mo_edit_push(w->e, &w->nodes, node);
}

static void scatter(struct work *w, Onnx__NodeProto *node) {
    node->op_type = "ScatterElements";
    mo_edit_push(w->e, &w->nodes, node);
}

/* What Upsample, and Resize before version 11, did without saying. */
static void resize(struct work *w, Onnx__NodeProto *node) {
    const char *scales = mo_edit_input(node, 1);
    node->op_type = "Resize";
    mo_edit_set_input(w->e, node, 2, scales);
    if (!w->e->rc) node->input[1] = "";
    set_text(w->e, node, "coordinate_transformation_mode", "asymmetric");
    set_text(w->e, node, "nearest_mode", "floor");
    mo_edit_push(w->e, &w->nodes, node);
}

/* Over all dimensions from `axis` on, as if they were one. */
static void softmax(struct work *w, Onnx__NodeProto *node) {
    struct mo_edit *e = w->e;
    int64_t axis = mo_edit_int(node, "axis", 1);
    int rank = -1;
    for (int i = 0; w->shapes && i < w->shapes->n_tensors; i++)
        if (!strcmp(w->shapes->tensors[i]->name, node->input[0])) rank = w->shapes->tensors[i]->shape.rank;
    mo_edit_set_int(e, node, "axis", -1);
    if (axis == -1 || axis == rank - 1) {
        mo_edit_push(e, &w->nodes, node);
        return;
    }
    const char *stem = node->output[0], *x = node->input[0];
    const char *flat = mo_edit_fresh(e, mo_edit_text(e, "%s_flat", stem)),
               *shares = mo_edit_fresh(e, mo_edit_text(e, "%s_shares", stem)),
               *shape = mo_edit_fresh(e, mo_edit_text(e, "%s_shape", stem));
    Onnx__NodeProto *flatten = mo_edit_node(e, "Flatten", flat, 1, &x, flat);
    if (!flatten) return;
    mo_edit_set_int(e, flatten, "axis", axis);
    const char *back[] = {shares, shape};
    mo_edit_push(e, &w->nodes, flatten);
    mo_edit_push(e, &w->nodes, mo_edit_node(e, node->op_type, shares, 1, &flat, shares));
    if (!e->rc) mo_edit_set_int(e, w->nodes.at[w->nodes.n - 1], "axis", -1);
    mo_edit_push(e, &w->nodes, mo_edit_node(e, "Shape", shape, 1, &x, shape));
    mo_edit_push(e, &w->nodes, mo_edit_node(e, "Reshape", node->name, 2, back, stem));
}

static const struct row {
    const char *op;
    int until; /* the version that brought the form of today */
    void (*rewrite)(struct work *w, Onnx__NodeProto *node);
} rows[] = {
    {"BatchNormalization", 9, norm}, {"Clip", 11, clip},   {"Dropout", 12, dropout}, {"Hardmax", 13, softmax},
    {"LogSoftmax", 13, softmax},     {"Pad", 11, pad},     {"ReduceSum", 13, axes},  {"Resize", 11, resize},
    {"Scatter", 11, scatter},        {"Slice", 10, slice}, {"Softmax", 13, softmax}, {"Split", 13, split},
    {"Squeeze", 13, axes},           {"TopK", 10, top_k},  {"Unsqueeze", 13, axes},  {"Upsample", 10, resize},
};

static void rewrite(struct work *w, Onnx__NodeProto *node, int64_t version) {
    for (size_t a = 0; a < node->n_attribute; a++)
        if (node->attribute[a]->g || node->attribute[a]->n_graphs)
            mo_edit_fail(
                w->e, MOIRE_EUNSUPPORTED,
                "node '%.100s' (%.60s) has a body, and the model is of operator version %lld: bring it to "
                "version %d first, for example with onnx.version_converter",
                node->name, node->op_type, (long long)version, MO_QUANTIZE_OPSET);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool whole = node->n_input && node->n_output;
        if (version >= rows[i].until || !mo_edit_is(node, rows[i].op) || !whole) continue;
        rows[i].rewrite(w, node);
        return;
    }
    mo_edit_push(w->e, &w->nodes, node);
}

int mo_upgrade(struct mo_edit *e, const struct mo_graph *shapes) {
    Onnx__OperatorSetIdProto *set = NULL;
    for (size_t i = 0; i < e->model->n_opset_import; i++) {
        Onnx__OperatorSetIdProto *s = e->model->opset_import[i];
        if (!s->domain || !*s->domain || !strcmp(s->domain, "ai.onnx")) set = s;
    }
    if (e->rc || (set && set->version >= MO_QUANTIZE_OPSET)) return e->rc;
    if (!set || set->version < OLDEST)
        return mo_edit_fail(
            e, MOIRE_EUNSUPPORTED,
            "the model is of operator version %lld; quantizing needs %d: bring it to %d, for example "
            "with onnx.version_converter",
            set ? (long long)set->version : 1LL, OLDEST, MO_QUANTIZE_OPSET);
    struct work w = {.e = e, .shapes = shapes};
    for (size_t i = 0; i < e->graph->n_node && !e->rc; i++)
        rewrite(&w, e->graph->node[i], set->version);
    set->version = MO_QUANTIZE_OPSET;
    if (e->model->ir_version < IR_VERSION) e->model->ir_version = IR_VERSION;
    mo_edit_replace(e, &w.nodes);
    return e->rc;
}
