/* SPDX-License-Identifier: Apache-2.0
 * onnx_edit.c - see onnx_edit.h. */
#include "codegen/quantize/onnx_edit.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { IR_WITHOUT_INPUTS = 4 /* from then on initializers need not be inputs */, NOT_INDEXED = INT_MAX };

int mo_edit_fail(struct mo_edit *e, int code, const char *format, ...) {
    char text[400];
    va_list args;
    if (e->rc) return e->rc;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return e->rc = mo_fail(e->err, code, "%s", text);
}

void *mo_edit_memory(struct mo_edit *e, size_t bytes) {
    void *p = e->rc ? NULL : mo_region_alloc(e->region, bytes + 1);
    if (!p) mo_edit_fail(e, MOIRE_ENOMEM, "out of memory");
    return p;
}

char *mo_edit_text(struct mo_edit *e, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = mo_edit_memory(e, n < 0 ? 1 : (size_t)n + 1);
    if (!text) return "";
    va_start(args, format);
    vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    return text;
}

/* --- looking up --- */

static int value_id(struct mo_edit *e, const char *name) {
    if (!name || !*name || e->rc) return -1;
    int id = mo_names_find(e->names, name);
    if (id >= 0) return id;
    if (mo_names_add(e->names, name, e->n_values) < 0)
        return mo_edit_fail(e, MOIRE_ENOMEM, "out of memory"), -1;
    e->values[e->n_values] = (struct mo_edit_value){.name = name, .producer = -1, .last_use = -1};
    return e->n_values++;
}

/* What the bodies of a node read may be tensors of the main graph. */
static void mark_bodies(struct mo_edit *e, const Onnx__NodeProto *node) {
    for (size_t a = 0; a < node->n_attribute; a++) {
        const Onnx__AttributeProto *at = node->attribute[a];
        for (size_t k = 0; k < at->n_graphs + (at->g != NULL); k++) {
            const Onnx__GraphProto *body = k < at->n_graphs ? at->graphs[k] : at->g;
            for (size_t i = 0; i < body->n_node; i++) {
                for (size_t j = 0; j < body->node[i]->n_input; j++) {
                    int id = mo_names_find(e->names, body->node[i]->input[j]);
                    if (id >= 0) e->values[id].outside = true;
                }
                mark_bodies(e, body->node[i]);
            }
            for (size_t i = 0; i < body->n_output; i++) {
                const char *name = body->output[i]->name;
                int id = name ? mo_names_find(e->names, name) : -1;
                if (id >= 0) e->values[id].outside = true;
            }
        }
    }
}

static size_t count_names(const Onnx__GraphProto *g) {
    size_t n = g->n_input + g->n_initializer + g->n_output;
    for (size_t i = 0; i < g->n_node; i++)
        n += g->node[i]->n_input + g->node[i]->n_output;
    return n;
}

void mo_edit_index(struct mo_edit *e) {
    const Onnx__GraphProto *g = e->graph;
    size_t most = count_names(g);
    e->n_values = 0;
    e->values = mo_edit_memory(e, most * sizeof *e->values);
    e->names = e->rc ? NULL : mo_names_create(e->env, e->region, (int64_t)most);
    if (!e->names) mo_edit_fail(e, MOIRE_ENOMEM, "out of memory");
    for (size_t i = 0; !e->rc && i < g->n_input; i++)
        value_id(e, g->input[i]->name);
    for (size_t i = 0; !e->rc && i < g->n_initializer; i++) {
        int id = value_id(e, g->initializer[i]->name);
        if (id >= 0) e->values[id].constant = g->initializer[i];
    }
    for (size_t i = 0; !e->rc && i < g->n_node; i++) {
        const Onnx__NodeProto *node = g->node[i];
        for (size_t k = 0; k < node->n_input + node->n_output; k++) {
            bool in = k < node->n_input;
            int id = value_id(e, in ? node->input[k] : node->output[k - node->n_input]);
            if (id < 0) continue;
            if (in) e->values[id].n_uses++, e->values[id].last_use = (int)i;
            if (!in) e->values[id].producer = (int)i;
        }
    }
    for (size_t i = 0; !e->rc && i < g->n_output; i++) {
        int id = value_id(e, g->output[i]->name);
        if (id >= 0) e->values[id].outside = true;
    }
    for (size_t i = 0; !e->rc && i < g->n_node; i++)
        mark_bodies(e, g->node[i]);
}

struct mo_edit_value *mo_edit_value(const struct mo_edit *e, const char *name) {
    int id = e->rc || !name || !*name ? -1 : mo_names_find(e->names, name);
    return id < 0 || id >= e->n_values ? NULL : &e->values[id];
}

const char *mo_edit_input(const Onnx__NodeProto *node, size_t i) {
    return i < node->n_input && node->input[i] ? node->input[i] : "";
}

bool mo_edit_is(const Onnx__NodeProto *node, const char *op) {
    bool ours = !node->domain || !*node->domain || !strcmp(node->domain, "ai.onnx");
    return ours && node->op_type && !strcmp(node->op_type, op);
}

Onnx__AttributeProto *mo_edit_attribute(const Onnx__NodeProto *node, const char *name) {
    for (size_t i = 0; i < node->n_attribute; i++)
        if (node->attribute[i]->name && !strcmp(node->attribute[i]->name, name)) return node->attribute[i];
    return NULL;
}

int64_t mo_edit_int(const Onnx__NodeProto *node, const char *name, int64_t fallback) {
    const Onnx__AttributeProto *a = mo_edit_attribute(node, name);
    return a ? a->i : fallback;
}

float mo_edit_float(const Onnx__NodeProto *node, const char *name, float fallback) {
    const Onnx__AttributeProto *a = mo_edit_attribute(node, name);
    return a ? a->f : fallback;
}

float *mo_edit_floats(struct mo_edit *e, const char *name, int64_t *n) {
    const struct mo_edit_value *v = mo_edit_value(e, name);
    if (!v || !v->constant || v->constant->data_type != MOIRE_F32 || v->producer >= 0) return NULL;
    *n = (int64_t)(v->constant->raw_data.len / sizeof(float));
    return (float *)(void *)v->constant->raw_data.data;
}

/* --- making --- */

const char *mo_edit_fresh(struct mo_edit *e, const char *stem) {
    const char *name = mo_edit_text(e, "%s", stem);
    for (int k = 1; !e->rc && mo_names_find(e->names, name) >= 0; k++)
        name = mo_edit_text(e, "%s_%d", stem, k);
    if (!e->rc && mo_names_add(e->names, name, NOT_INDEXED) < 0)
        mo_edit_fail(e, MOIRE_ENOMEM, "out of memory");
    return name;
}

static void add_initializer(struct mo_edit *e, Onnx__TensorProto *t) {
    Onnx__GraphProto *g = e->graph;
    if (g->n_initializer >= e->initializer_room) {
        size_t room = 2 * g->n_initializer + 64;
        Onnx__TensorProto **list = mo_edit_memory(e, room * sizeof(void *));
        if (!list) return;
        e->initializer_room = room;
        if (g->n_initializer) memcpy(list, g->initializer, g->n_initializer * sizeof(void *));
        g->initializer = list;
    }
    g->initializer[g->n_initializer++] = t;
}

const char *mo_edit_constant(struct mo_edit *e, const char *stem, moire_dtype dtype, const int64_t *dims,
                             int rank, void **data) {
    const char *name = mo_edit_fresh(e, stem);
    Onnx__TensorProto *t = mo_edit_memory(e, sizeof *t);
    int64_t *shape = mo_edit_memory(e, (size_t)rank * sizeof *shape);
    size_t n = mo_dtype_bytes(dtype);
    for (int i = 0; i < rank; i++)
        n *= (size_t)dims[i];
    *data = mo_edit_memory(e, n);
    if (e->rc) return "";
    onnx__tensor_proto__init(t);
    if (rank) memcpy(shape, dims, (size_t)rank * sizeof *shape);
    t->n_dims = (size_t)rank;
    t->dims = shape;
    t->has_data_type = t->has_raw_data = 1;
    t->data_type = (int32_t)dtype;
    t->name = (char *)name;
    t->raw_data = (ProtobufCBinaryData){.len = n, .data = *data};
    add_initializer(e, t);
    return name;
}

Onnx__NodeProto *mo_edit_node(struct mo_edit *e, const char *op, const char *stem, int n_in,
                              const char *const *in, const char *out) {
    Onnx__NodeProto *node = mo_edit_memory(e, sizeof *node);
    char **list = mo_edit_memory(e, ((size_t)n_in + 1) * sizeof *list);
    if (e->rc) return NULL;
    onnx__node_proto__init(node);
    for (int i = 0; i < n_in; i++)
        list[i] = (char *)in[i];
    list[n_in] = (char *)out;
    node->n_input = (size_t)n_in;
    node->input = list;
    node->n_output = 1;
    node->output = list + n_in;
    node->op_type = (char *)op;
    node->name = (char *)mo_edit_text(e, "%s", stem);
    return node;
}

void mo_edit_set_int(struct mo_edit *e, Onnx__NodeProto *node, const char *name, int64_t value) {
    Onnx__AttributeProto *a = e->rc ? NULL : mo_edit_attribute(node, name);
    if (!a && (a = mo_edit_memory(e, sizeof *a))) {
        Onnx__AttributeProto **list = mo_edit_memory(e, (node->n_attribute + 1) * sizeof(void *));
        if (!list) return;
        onnx__attribute_proto__init(a);
        a->name = (char *)name;
        if (node->n_attribute) memcpy(list, node->attribute, node->n_attribute * sizeof(void *));
        list[node->n_attribute++] = a;
        node->attribute = list;
    }
    if (!a) return;
    a->has_type = a->has_i = 1;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    a->i = value;
}

void mo_edit_drop_attribute(Onnx__NodeProto *node, const char *name) {
    size_t kept = 0;
    for (size_t i = 0; i < node->n_attribute; i++)
        if (strcmp(node->attribute[i]->name, name)) node->attribute[kept++] = node->attribute[i];
    node->n_attribute = kept;
}

void mo_edit_set_input(struct mo_edit *e, Onnx__NodeProto *node, size_t i, const char *name) {
    size_t n = node->n_input > i ? node->n_input : i + 1;
    char **list = e->rc ? NULL : mo_edit_memory(e, n * sizeof *list);
    if (!list) return;
    for (size_t k = 0; k < n; k++)
        list[k] = k < node->n_input ? node->input[k] : "";
    list[i] = (char *)name;
    node->input = list;
    node->n_input = n;
}

void mo_edit_push(struct mo_edit *e, struct mo_edit_nodes *list, Onnx__NodeProto *node) {
    if (e->rc || !node) return;
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        Onnx__NodeProto **at = mo_edit_memory(e, room * sizeof *at);
        if (!at) return;
        if (list->n) memcpy(at, list->at, list->n * sizeof *at);
        list->at = at;
        list->room = room;
    }
    list->at[list->n++] = node;
}

void mo_edit_replace(struct mo_edit *e, const struct mo_edit_nodes *list) {
    if (e->rc) return;
    e->graph->node = list->at;
    e->graph->n_node = list->n;
    mo_edit_index(e);
}

int mo_edit_pack(struct mo_edit *e, uint8_t **bytes, size_t *n) {
    *bytes = NULL;
    if (e->rc) return e->rc;
    *n = onnx__model_proto__get_packed_size(e->model);
    if (*n > INT32_MAX)
        return mo_edit_fail(e, MOIRE_ELIMIT, "the model is larger than the 2 GB of one protobuf file");
    *bytes = mo_alloc(e->env, *n + 1);
    if (!*bytes) return mo_edit_fail(e, MOIRE_ENOMEM, "out of memory packing the model");
    onnx__model_proto__pack(e->model, *bytes);
    return MOIRE_OK;
}

/* --- reading --- */

/* Contents in one form: raw bytes, within the model. */
static void make_raw(struct mo_edit *e, Onnx__TensorProto *t) {
    char what[120];
    struct mo_value value;
    if (t->data_type == MOIRE_STRING || e->rc) return;
    snprintf(what, sizeof what, "initializer '%.90s'", t->name ? t->name : "");
    struct mo_import im = {.env = e->env, .graph = e->store, .folder = e->folder, .err = e->err};
    e->rc = mo_read_tensor(&im, t, what, &value);
    if (e->rc) return;
    t->n_float_data = t->n_int32_data = t->n_int64_data = t->n_double_data = t->n_uint64_data = 0;
    t->n_external_data = 0;
    t->has_data_location = 0;
    t->has_raw_data = 1;
    t->raw_data = (ProtobufCBinaryData){
        .len = (size_t)mo_shape_count(&value.shape) * mo_dtype_bytes(value.dtype), .data = value.data};
}

/* A Constant node that holds a tensor becomes an initializer. */
static void lift_constants(struct mo_edit *e) {
    struct mo_edit_nodes kept = {0};
    for (size_t i = 0; i < e->graph->n_node && !e->rc; i++) {
        Onnx__NodeProto *node = e->graph->node[i];
        Onnx__AttributeProto *a = mo_edit_is(node, "Constant") ? mo_edit_attribute(node, "value") : NULL;
        if (!a || !a->t || node->n_output != 1) {
            mo_edit_push(e, &kept, node);
            continue;
        }
        a->t->name = node->output[0];
        add_initializer(e, a->t);
    }
    e->graph->node = kept.at;
    e->graph->n_node = kept.n;
}

static void give(char **text) {
    if (!*text) *text = "";
}

/* What the file leaves out is an empty text. */
static void give_names(Onnx__GraphProto *g) {
    for (size_t i = 0; i < g->n_input; i++)
        give(&g->input[i]->name);
    for (size_t i = 0; i < g->n_output; i++)
        give(&g->output[i]->name);
    for (size_t i = 0; i < g->n_initializer; i++)
        give(&g->initializer[i]->name);
    for (size_t i = 0; i < g->n_node; i++) {
        give(&g->node[i]->name);
        give(&g->node[i]->op_type);
        for (size_t a = 0; a < g->node[i]->n_attribute; a++)
            give(&g->node[i]->attribute[a]->name);
    }
}

static void own_inputs(struct mo_edit *e) {
    Onnx__GraphProto *g = e->graph;
    size_t kept = 0;
    for (size_t i = 0; i < g->n_input && !e->rc; i++) {
        const struct mo_edit_value *v = mo_edit_value(e, g->input[i]->name);
        if (!v || !v->constant) g->input[kept++] = g->input[i];
    }
    g->n_input = kept;
    if (e->model->ir_version < IR_WITHOUT_INPUTS) e->model->ir_version = IR_WITHOUT_INPUTS;
}

int mo_edit_open(const struct mo_env *env, const char *path, struct mo_edit *out, moire_error *err) {
    uint8_t *bytes = NULL;
    size_t n = 0;
    *out = (struct mo_edit){.env = env, .err = err};
    out->store = mo_graph_create(env);
    if (!out->store) return out->rc = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    out->region = out->store->region;
    out->rc = mo_read_file(env, path, &bytes, &n, err);
    if (!out->rc) out->rc = mo_unpack_model(env, out->region, bytes, n, &out->model, err);
    mo_free(env, bytes);
    if (!out->rc && !out->model->graph) mo_edit_fail(out, MOIRE_EFORMAT, "the model has no graph");
    if (out->rc) return mo_fail_context(err, out->rc, "%.150s", path);
    out->graph = out->model->graph;
    const char *slash = strrchr(path, '/');
    out->folder = slash ? mo_edit_text(out, "%.*s", slash == path ? 1 : (int)(slash - path), path) : ".";
    give_names(out->graph);
    lift_constants(out);
    for (size_t i = 0; !out->rc && i < out->graph->n_initializer; i++)
        make_raw(out, out->graph->initializer[i]);
    mo_edit_index(out);
    own_inputs(out);
    return out->rc ? mo_fail_context(err, out->rc, "%.150s", path) : MOIRE_OK;
}

void mo_edit_close(struct mo_edit *e) {
    mo_graph_destroy(e->store);
    e->store = NULL;
}
