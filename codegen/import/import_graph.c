/* SPDX-License-Identifier: Apache-2.0
 * import_graph.c - from an unpacked GraphProto to a graph.
 *
 * Order: initializers, inputs, the outputs of all nodes (so that nodes may come in any order), nodes,
 * graph outputs; then a topological sort, which finds cycles.  Names are looked up in one map; a name defined
 * twice breaks ONNX's single-assignment rule and is refused. */
#include <stdio.h>
#include <string.h>
#include "codegen/import/import.h"
#include "codegen/import/import_contrib.h"
#include "runtime/ops/op.h"

static int out_of_memory(const struct mo_import *im) {
    int64_t tensors = im->graph->n_tensors, nodes = im->graph->n_nodes;
    const struct mo_limits *limits = &im->env->limits;
    if (tensors >= limits->tensors)
        return mo_fail(im->err, MOIRE_ELIMIT, "the model has more tensors than the limit tensors (%lld)",
                       (long long)limits->tensors);
    if (nodes >= limits->nodes)
        return mo_fail(im->err, MOIRE_ELIMIT, "the model has more nodes than the limit nodes (%lld)",
                       (long long)limits->nodes);
    return mo_fail(im->err, MOIRE_ENOMEM, "out of memory importing the model");
}

/* --- tensors ------------------------------------------------------------------------------------------- */

static int define(struct mo_import *im, const char *name, int id, const char *what) {
    int rc = mo_names_add(im->names, name, id);
    if (rc == 1)
        return mo_fail(
            im->err, MOIRE_EFORMAT,
            "%s: the name is already defined by another tensor; every tensor must be assigned once", what);
    return rc ? out_of_memory(im) : MOIRE_OK;
}

static int add_constant(struct mo_import *im, const char *name, const struct mo_value *value,
                        const char *what) {
    struct mo_tensor *t = mo_graph_add_tensor(im->graph, name, value->dtype, &value->shape);
    if (!t) return out_of_memory(im);
    t->data = value->data;
    return define(im, t->name, t->id, what);
}

static int read_initializers(struct mo_import *im, const Onnx__GraphProto *graph) {
    if (graph->n_sparse_initializer)
        return mo_fail(im->err, MOIRE_EUNSUPPORTED,
                       "sparse initializers are not supported; store them dense");
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const Onnx__TensorProto *t = graph->initializer[i];
        char what[200];
        snprintf(what, sizeof what, "initializer '%.100s'", mo_proto_text(t->name));
        if (!t->name || !*t->name) return mo_fail(im->err, MOIRE_EFORMAT, "initializer %zu has no name", i);
        struct mo_value value;
        int rc = mo_read_tensor(im, t, what, &value);
        if (!rc) rc = add_constant(im, t->name, &value, what);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

/* Type and shape as declared; a dimension without a value becomes -1 and its symbol goes to *symbols. */
static int read_shape(const struct mo_import *im, const Onnx__TensorShapeProto *proto, const char *what,
                      struct mo_shape *shape, struct mo_symbols *symbols) {
    *shape = (struct mo_shape){.rank = -1};
    if (!proto) return MOIRE_OK;
    if (proto->n_dim > MOIRE_MAX_RANK)
        return mo_fail(im->err, MOIRE_ELIMIT, "%s has rank %zu; at most %d is supported", what, proto->n_dim,
                       MOIRE_MAX_RANK);
    shape->rank = (int)proto->n_dim;
    for (int i = 0; i < shape->rank; i++) {
        const Onnx__TensorShapeProto__Dimension *d = proto->dim[i];
        bool has_value = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        bool has_name = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        shape->d[i] = has_value && d->dim_value >= 0 ? d->dim_value : -1;
        /* "?" is how some exporters write "unknown": two of them need not be equal */
        if (has_name && symbols && d->dim_param && *d->dim_param && strcmp(d->dim_param, "?"))
            symbols->dim[i] = d->dim_param;
    }
    return MOIRE_OK;
}

static bool is_bundle(const Onnx__TypeProto *type) {
    return type && (type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE ||
                    type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE);
}

static int read_input(struct mo_import *im, const Onnx__ValueInfoProto *info) {
    char what[200];
    snprintf(what, sizeof what, "input '%.100s'", mo_proto_text(info->name));
    if (!info->name || !*info->name) return mo_fail(im->err, MOIRE_EFORMAT, "a graph input has no name");
    bool dense = info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
                 info->type->tensor_type;
    moire_dtype dtype = dense ? (moire_dtype)info->type->tensor_type->elem_type : MOIRE_NONE;
    if (!mo_dtype_bytes(dtype)) dtype = MOIRE_STRING; /* refused when read, or at the end */
    if (im->around && !dense) dtype = MOIRE_NONE;     /* of a body: that of what it is given */
    const bool bundle = !im->around && im->bundles && is_bundle(info->type);
    struct mo_shape shape;
    int rc = read_shape(im, dense ? info->type->tensor_type->shape : NULL, what, &shape,
                        &im->symbols[im->graph->n_inputs]);
    if (rc) return rc;
    if (bundle) dtype = MO_BUNDLE, shape = (struct mo_shape){.rank = 1, .d = {-1}};
    struct mo_tensor *t = mo_graph_add_tensor(im->graph, info->name, dtype, &shape);
    if (!t) return out_of_memory(im);
    t->is_input = true;
    im->graph->inputs[im->graph->n_inputs++] = t->id;
    return define(im, t->name, t->id, what);
}

/* An input of a type that is not supported, which no node reads. */
static int check_inputs(const struct mo_import *im) {
    for (int i = 0; i < im->graph->n_inputs; i++) {
        const struct mo_tensor *t = im->graph->tensors[im->graph->inputs[i]];
        if (t->dtype == MOIRE_STRING)
            return mo_fail(im->err, MOIRE_EUNSUPPORTED, "input '%.100s' is not a dense tensor of numbers",
                           t->name);
    }
    return MOIRE_OK;
}

/* Models of IR version 3 list their initializers among the inputs; those are constants. */
static int read_inputs(struct mo_import *im, const Onnx__GraphProto *graph) {
    im->graph->inputs = mo_region_array(im->graph->region, graph->n_input + 1, sizeof(int));
    im->symbols = mo_region_array(im->tmp, graph->n_input + 1, sizeof *im->symbols);
    if (!im->graph->inputs || !im->symbols) return out_of_memory(im);
    for (size_t i = 0; i < graph->n_input; i++) {
        int known = graph->input[i]->name ? mo_names_find(im->names, graph->input[i]->name) : -1;
        if (known >= 0 && !im->graph->tensors[known]->is_input) continue;
        int rc = read_input(im, graph->input[i]);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

/* Declared element types serve where inference cannot tell (data-dependent shapes). */
static void read_declared_types(struct mo_import *im, Onnx__ValueInfoProto **infos, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const Onnx__ValueInfoProto *info = infos[i];
        int id = info->name ? mo_names_find(im->names, info->name) : -1;
        if (id < 0 || im->graph->tensors[id]->dtype != MOIRE_NONE) continue;
        if (is_bundle(info->type)) im->graph->tensors[id]->dtype = MO_BUNDLE;
        if (info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
            info->type->tensor_type && mo_dtype_bytes((moire_dtype)info->type->tensor_type->elem_type))
            im->graph->tensors[id]->dtype = (moire_dtype)info->type->tensor_type->elem_type;
    }
}

/* --- nodes --------------------------------------------------------------------------------------------- */

/* Many exporters leave nodes without a name: their first output tells which one is meant. */
static const char *node_name(const Onnx__NodeProto *p) {
    const char *name = mo_proto_text(p->name);
    for (size_t k = 0; !*name && k < p->n_output; k++)
        name = mo_proto_text(p->output[k]);
    return name;
}

int mo_import_node_fail(const struct mo_import *im, size_t index, const Onnx__NodeProto *p, int code,
                        const char *problem, const char *name) {
    return mo_fail(im->err, code, "node %zu '%.100s' (%.60s): %s%s%.100s%s", index, node_name(p),
                   mo_proto_text(p->op_type), problem, name ? " '" : "", name ? name : "", name ? "'" : "");
}

/* Gives the node's already defined output its contents and drops the node. */
static int import_constant(struct mo_import *im, struct mo_node *node, size_t index,
                           const Onnx__NodeProto *p) {
    struct mo_value value;
    int rc = mo_constant_value(im, node, &value);
    if (rc) return rc;
    if (value.dtype == MOIRE_NONE)
        return mo_import_node_fail(
            im, index, p, MOIRE_EUNSUPPORTED,
            "needs exactly one dense value attribute (sparse constants are not supported)", NULL);
    if (node->n_out != 1 || node->out[0] < 0)
        return mo_import_node_fail(im, index, p, MOIRE_EFORMAT, "must have one output: output 0 is required",
                                   NULL);
    struct mo_tensor *t = im->graph->tensors[node->out[0]];
    t->dtype = value.dtype;
    t->shape = value.shape;
    t->data = value.data;
    node->dead = true;
    return MOIRE_OK;
}

static int find_operator(struct mo_import *im, struct mo_node *node, size_t index, const Onnx__NodeProto *p) {
    char problem[200];
    int version = mo_import_opset(im, node->domain);
    node->opset = p->domain == mo_contrib_domain ? MO_OPSET_MAX : *node->domain ? version : im->graph->opset;
    node->op = mo_op_find(node->op_type, node->domain);
    const struct mo_op *op = node->op;
    /* what the passes make is no part of ONNX: only they keep to what its kernels rely on */
    if (!strcmp(node->domain, "moire")) op = NULL;
    if (!op) {
        snprintf(problem, sizeof problem,
                 "operator not supported (domain '%.60s'); write it in operators of ONNX when you export the "
                 "model",
                 *node->domain ? node->domain : "ai.onnx");
        return mo_import_node_fail(im, index, p, MOIRE_EUNSUPPORTED, problem, NULL);
    }
    if (version < 0) {
        snprintf(problem, sizeof problem, "domain '%.60s' is missing from opset_import",
                 *node->domain ? node->domain : "ai.onnx");
        return mo_import_node_fail(im, index, p, MOIRE_EFORMAT, problem, NULL);
    }
    if (node->opset < op->min_opset) {
        snprintf(problem, sizeof problem, "operator needs opset %d or newer, the model imports %d",
                 op->min_opset, node->opset);
        return mo_import_node_fail(im, index, p, MOIRE_EUNSUPPORTED, problem, NULL);
    }
    return MOIRE_OK;
}

/* Operands that ONNX lets a model leave out, in one form: none at the end of a list, and a tensor that nobody
 * reads for an output that is one of any number, because the sizes of the others count on it. */
static int settle_operands(struct mo_import *im, struct mo_node *node, size_t index,
                           const Onnx__NodeProto *p) {
    char problem[200];
    if (!mo_op_has_operands(node, problem, sizeof problem))
        return mo_import_node_fail(im, index, p, MOIRE_EFORMAT, problem, NULL);
    while (node->n_in > 0 && node->in[node->n_in - 1] < 0)
        node->n_in--;
    for (int k = 0; k < node->n_out; k++) {
        if (node->out[k] >= 0 || !mo_op_is_listed(node->op, k)) continue;
        struct mo_tensor *t = mo_graph_add_tensor(im->graph, "", MOIRE_NONE, NULL);
        if (!t) return out_of_memory(im);
        node->out[k] = t->id;
    }
    while (node->n_out > 0 && node->out[node->n_out - 1] < 0)
        node->n_out--;
    return MOIRE_OK;
}

static int resolve_inputs(struct mo_import *im, struct mo_node *node, size_t index,
                          const Onnx__NodeProto *p) {
    for (int k = 0; k < node->n_in; k++) {
        const char *name = mo_proto_text(p->input[k]);
        if (!*name) continue;
        node->in[k] = mo_import_find(im, name);
        if (node->in[k] == MOIRE_ENOMEM) return out_of_memory(im);
        if (node->in[k] < 0)
            return mo_import_node_fail(im, index, p, MOIRE_EFORMAT,
                                       "reads a tensor that no input, initializer or node defines:", name);
        if (im->graph->tensors[node->in[k]]->dtype == MOIRE_STRING)
            return mo_import_node_fail(
                im, index, p, MOIRE_EUNSUPPORTED,
                "reads a tensor of a type that is not supported (strings, complex numbers, sequences, "
                "maps, optionals, sparse):",
                name);
    }
    return MOIRE_OK;
}

int mo_import_find(struct mo_import *im, const char *name) {
    int id = mo_names_find(im->names, name);
    if (id >= 0 || !im->around) return id;
    id = mo_import_find(im->around, name);
    return id < 0 ? id : mo_import_capture(im, id, name);
}

/* The node and its outputs; inputs are resolved when all nodes have defined theirs. */
static int declare_node(struct mo_import *im, size_t index, const Onnx__NodeProto *p) {
    char what[300];
    snprintf(what, sizeof what, "node %zu '%.100s' (%.60s)", index, node_name(p), mo_proto_text(p->op_type));
    if (!p->op_type || !*p->op_type) return mo_fail(im->err, MOIRE_EFORMAT, "%s has no operator type", what);
    if (p->n_input > 1 << 20 || p->n_output > 1 << 20)
        return mo_fail(im->err, MOIRE_ELIMIT, "%s has more than a million inputs or outputs", what);
    struct mo_node *node = mo_graph_add_node(im->graph, node_name(p), p->op_type, mo_proto_domain(p->domain),
                                             (int)p->n_input, (int)p->n_output);
    if (!node) return out_of_memory(im);
    for (int k = 0; k < node->n_out; k++) {
        const char *name = mo_proto_text(p->output[k]);
        if (!*name) continue;
        struct mo_tensor *t = mo_graph_add_tensor(im->graph, name, MOIRE_NONE, NULL);
        if (!t) return out_of_memory(im);
        char out_what[420];
        snprintf(out_what, sizeof out_what, "%s, output '%.100s'", what, name);
        int rc = define(im, t->name, t->id, out_what);
        if (rc) return rc;
        node->out[k] = t->id;
    }
    return mo_read_attributes(im, p, node);
}

static int read_nodes(struct mo_import *im, const Onnx__GraphProto *graph) {
    for (size_t i = 0; i < graph->n_node; i++) {
        int rc = declare_node(im, i, graph->node[i]);
        if (rc) return rc;
        struct mo_node *node = im->graph->nodes[i];
        if (!strcmp(node->op_type, "Constant") && !*node->domain)
            rc = import_constant(im, node, i, graph->node[i]);
        if (rc) return rc;
    }
    for (size_t i = 0; i < graph->n_node; i++) {
        struct mo_node *node = im->graph->nodes[i];
        if (node->dead) continue;
        int rc = find_operator(im, node, i, graph->node[i]);
        if (!rc) rc = resolve_inputs(im, node, i, graph->node[i]);
        if (!rc && node->op->flags & MO_OP_BODIES) rc = mo_import_settle_control(im, node, i, graph->node[i]);
        if (!rc) rc = settle_operands(im, node, i, graph->node[i]);
        if (!rc && node->op->flags & MO_OP_BODIES) rc = mo_import_bodies(im, node, i, graph->node[i]);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

/* --- the whole ----------------------------------------------------------------------------------------- */

static int read_outputs(struct mo_import *im, const Onnx__GraphProto *graph) {
    if (!graph->n_output) return mo_fail(im->err, MOIRE_EFORMAT, "the graph has no outputs");
    im->graph->outputs = mo_region_array(im->graph->region, graph->n_output, sizeof(int));
    if (!im->graph->outputs) return out_of_memory(im);
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = mo_proto_text(graph->output[i]->name);
        int id = mo_import_find(im, name);
        if (id == MOIRE_ENOMEM) return out_of_memory(im);
        if (id < 0)
            return mo_fail(im->err, MOIRE_EFORMAT,
                           "graph output '%.100s' is not defined by any node, input or "
                           "initializer",
                           name);
        if (im->graph->tensors[id]->dtype == MOIRE_STRING)
            return mo_fail(im->err, MOIRE_EUNSUPPORTED, "graph output '%.100s' is a string tensor", name);
        if (im->graph->tensors[id]->dtype == MO_BUNDLE && !im->bundles && !im->around)
            return mo_fail(im->err, MOIRE_EUNSUPPORTED,
                           "graph output '%.100s' is a sequence or an optional; end the model with tensors "
                           "(ConcatFromSequence, OptionalGetElement)",
                           name);
        im->graph->tensors[id]->is_output = true;
        im->graph->outputs[im->graph->n_outputs++] = id;
    }
    return MOIRE_OK;
}

int mo_import_graph(struct mo_import *im, const Onnx__GraphProto *graph) {
    im->graph->name = mo_proto_text(graph->name);
    im->names = mo_names_create(im->env, im->tmp, (int64_t)(graph->n_initializer + graph->n_node));
    if (!im->names) return out_of_memory(im);
    int rc = read_initializers(im, graph);
    if (!rc) rc = read_inputs(im, graph);
    if (!rc) rc = read_nodes(im, graph);
    if (!rc) read_declared_types(im, graph->value_info, graph->n_value_info);
    if (!rc) read_declared_types(im, graph->output, graph->n_output);
    if (!rc) rc = read_outputs(im, graph);
    if (!rc) rc = check_inputs(im);
    return rc ? rc : mo_graph_sort(im->graph, im->err);
}
