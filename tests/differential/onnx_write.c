/* SPDX-License-Identifier: Apache-2.0
 * onnx_write.c - from a graph to ONNX messages, as small as the importer and ONNX Runtime take them. */
#include "tests/differential/onnx_write.h"

#include <stdlib.h>
#include <string.h>
#include "onnx.pb-c.h"

struct writer {
    const struct dt_part *part;
    struct mo_region *region;
    bool *made, *read; /* of every tensor: by a kept node */
    Onnx__GraphProto graph;
};

static void *get(struct writer *w, size_t count, size_t size) {
    void *p = mo_region_array(w->region, count + 1, size);
    if (!p) abort();
    return p;
}

static char *text(struct writer *w, const char *s) {
    char *copy = mo_region_string(w->region, s, strlen(s));
    if (!copy) abort();
    return copy;
}

static bool kept(const struct writer *w, int node) {
    return (!w->part->keep || w->part->keep[node]) && !w->part->g->nodes[node]->dead;
}

static Onnx__TensorProto *tensor(struct writer *w, const char *name, const struct mo_value *v) {
    Onnx__TensorProto *t = get(w, 1, sizeof *t);
    onnx__tensor_proto__init(t);
    t->name = text(w, name);
    t->has_data_type = 1;
    t->data_type = (int32_t)v->dtype;
    t->n_dims = (size_t)v->shape.rank;
    t->dims = get(w, t->n_dims, sizeof *t->dims);
    memcpy(t->dims, v->shape.d, t->n_dims * sizeof *t->dims);
    t->has_raw_data = 1;
    t->raw_data.len = (size_t)mo_shape_count(&v->shape) * mo_dtype_bytes(v->dtype);
    t->raw_data.data = v->data;
    return t;
}

static Onnx__ValueInfoProto *port(struct writer *w, const struct mo_tensor *t, bool shaped) {
    Onnx__ValueInfoProto *info = get(w, 1, sizeof *info);
    Onnx__TypeProto *type = get(w, 1, sizeof *type);
    Onnx__TypeProto__Tensor *is = get(w, 1, sizeof *is);
    onnx__value_info_proto__init(info);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(is);
    info->name = text(w, t->name);
    info->type = type;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = is;
    is->has_elem_type = 1;
    is->elem_type = (int32_t)t->dtype;
    if (!shaped) return info;
    Onnx__TensorShapeProto *shape = is->shape = get(w, 1, sizeof *shape);
    onnx__tensor_shape_proto__init(shape);
    shape->n_dim = (size_t)t->shape.rank;
    shape->dim = get(w, shape->n_dim, sizeof *shape->dim);
    for (int i = 0; i < t->shape.rank; i++) {
        Onnx__TensorShapeProto__Dimension *d = shape->dim[i] = get(w, 1, sizeof *d);
        onnx__tensor_shape_proto__dimension__init(d);
        d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        d->dim_value = t->shape.d[i];
    }
    return info;
}

static Onnx__AttributeProto *attribute(struct writer *w, const struct mo_attr *from) {
    static const int types[] = {
        [MO_ATTR_INT] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT,
        [MO_ATTR_FLOAT] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT,
        [MO_ATTR_STRING] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING,
        [MO_ATTR_TENSOR] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR,
        [MO_ATTR_INTS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS,
        [MO_ATTR_FLOATS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS,
    };
    if (from->type == MO_ATTR_GRAPH || from->type > MO_ATTR_FLOATS) abort(); /* no kind makes these */
    Onnx__AttributeProto *a = get(w, 1, sizeof *a);
    onnx__attribute_proto__init(a);
    a->name = text(w, from->name);
    a->has_type = 1;
    a->type = (Onnx__AttributeProto__AttributeType)types[from->type];
    a->has_i = from->type == MO_ATTR_INT;
    a->i = from->i;
    a->has_f = from->type == MO_ATTR_FLOAT;
    a->f = from->f;
    if ((a->has_s = from->type == MO_ATTR_STRING)) {
        a->s.data = (uint8_t *)text(w, from->s);
        a->s.len = strlen(from->s);
    }
    if (from->type == MO_ATTR_TENSOR) a->t = tensor(w, "", &from->tensor);
    if (from->type == MO_ATTR_INTS) {
        a->n_ints = (size_t)from->n;
        a->ints = get(w, a->n_ints, sizeof *a->ints);
        memcpy(a->ints, from->ints, a->n_ints * sizeof *a->ints);
    }
    if (from->type == MO_ATTR_FLOATS) {
        a->n_floats = (size_t)from->n;
        a->floats = get(w, a->n_floats, sizeof *a->floats);
        memcpy(a->floats, from->floats, a->n_floats * sizeof *a->floats);
    }
    return a;
}

static char **names(struct writer *w, int n, const int *ids) {
    char **list = get(w, (size_t)n, sizeof *list);
    for (int i = 0; i < n; i++)
        list[i] = text(w, ids[i] < 0 ? "" : w->part->g->tensors[ids[i]]->name);
    return list;
}

static Onnx__NodeProto *node(struct writer *w, const struct mo_node *from) {
    Onnx__NodeProto *n = get(w, 1, sizeof *n);
    onnx__node_proto__init(n);
    n->name = text(w, from->name);
    n->op_type = text(w, from->op_type);
    n->n_input = (size_t)from->n_in;
    n->input = names(w, from->n_in, from->in);
    n->n_output = (size_t)from->n_out;
    n->output = names(w, from->n_out, from->out);
    n->attribute = get(w, (size_t)from->n_attrs, sizeof *n->attribute);
    for (int i = 0; i < from->n_attrs; i++)
        n->attribute[n->n_attribute++] = attribute(w, &from->attrs[i]);
    return n;
}

static void put_nodes(struct writer *w) {
    const struct mo_graph *g = w->part->g;
    w->graph.node = get(w, (size_t)g->n_nodes, sizeof *w->graph.node);
    for (int k = 0; k < g->n_nodes; k++) {
        const struct mo_node *from = g->nodes[k];
        if (!kept(w, k)) continue;
        w->graph.node[w->graph.n_node++] = node(w, from);
        for (int i = 0; i < from->n_in; i++)
            if (from->in[i] >= 0) w->read[from->in[i]] = true;
        for (int i = 0; i < from->n_out; i++)
            if (from->out[i] >= 0) w->made[from->out[i]] = true;
    }
}

static void put_ports(struct writer *w) {
    const struct mo_graph *g = w->part->g;
    w->graph.initializer = get(w, (size_t)g->n_tensors, sizeof *w->graph.initializer);
    w->graph.input = get(w, (size_t)g->n_tensors, sizeof *w->graph.input);
    for (int i = 0; i < g->n_tensors; i++) {
        const struct mo_tensor *t = g->tensors[i];
        struct mo_value v = mo_tensor_value(t);
        if (w->made[i] || !(w->read[i] || (t->is_input && !w->part->keep))) continue;
        if (t->data)
            w->graph.initializer[w->graph.n_initializer++] = tensor(w, t->name, &v);
        else
            w->graph.input[w->graph.n_input++] = port(w, t, true);
    }
    w->graph.output = get(w, (size_t)w->part->n_outputs, sizeof *w->graph.output);
    for (int i = 0; i < w->part->n_outputs; i++)
        w->graph.output[w->graph.n_output++] = port(w, g->tensors[w->part->outputs[i]], false);
}

const uint8_t *dt_write_onnx(const struct dt_part *part, struct mo_region *region, size_t *n) {
    struct writer w = {.part = part, .region = region};
    Onnx__ModelProto model;
    Onnx__OperatorSetIdProto opset, *opsets = &opset;
    onnx__model_proto__init(&model);
    onnx__graph_proto__init(&w.graph);
    onnx__operator_set_id_proto__init(&opset);
    w.made = get(&w, (size_t)part->g->n_tensors, sizeof *w.made);
    w.read = get(&w, (size_t)part->g->n_tensors, sizeof *w.read);
    w.graph.name = text(&w, "differential");
    put_nodes(&w);
    put_ports(&w);
    opset.domain = text(&w, "");
    opset.has_version = 1;
    opset.version = part->g->opset;
    model.has_ir_version = 1;
    model.ir_version = 8;
    model.n_opset_import = 1;
    model.opset_import = &opsets;
    model.graph = &w.graph;
    *n = onnx__model_proto__get_packed_size(&model);
    uint8_t *bytes = get(&w, *n, 1);
    onnx__model_proto__pack(&model, bytes);
    return bytes;
}
