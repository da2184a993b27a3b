/* SPDX-License-Identifier: Apache-2.0
 * onnx_edit.h - an ONNX model that is rewritten: read into messages, looked up by name, changed, packed.
 *
 * What nobody touches stays as the file has it: names, attributes, symbolic shapes, metadata, subgraphs.  All
 * memory belongs to one region.  The first error sticks: later calls do nothing, and whoever asks at the end
 * sees its code.  Values (tensors by name) and their readers are found in an index, which is stale after
 * nodes or initializers changed until mo_edit_index(). */
#ifndef MO_ONNX_EDIT_H
#define MO_ONNX_EDIT_H
#include "codegen/import/import.h"

/* A tensor of the main graph, by name. */
struct mo_edit_value {
    const char *name;
    int producer;         /* place in graph->node, or -1 */
    int n_uses, last_use; /* inputs of nodes of the main graph that name it; the last such node, or -1 */
    bool outside;         /* also a graph output, or read within a subgraph */
    Onnx__TensorProto *constant;
};

struct mo_edit {
    const struct mo_env *env;
    struct mo_graph *store; /* owns the region */
    struct mo_region *region;
    Onnx__ModelProto *model;
    Onnx__GraphProto *graph;
    const char *folder; /* where external data lies */
    struct mo_names *names;
    int n_values;
    struct mo_edit_value *values;
    size_t initializer_room;
    int rc;
    moire_error *err;
};

/* Reads a file: external data comes in, Constant nodes become initializers, initializers are no inputs.
 * Ends with mo_edit_close() also after an error. */
int mo_edit_open(const struct mo_env *env, const char *path, struct mo_edit *out, moire_error *err);
void mo_edit_close(struct mo_edit *e);
int mo_edit_fail(struct mo_edit *e, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

void mo_edit_index(struct mo_edit *e);
/* NULL: no such tensor, or the name is empty. */
struct mo_edit_value *mo_edit_value(const struct mo_edit *e, const char *name);
/* Input `i` of a node, "" where it is not given. */
const char *mo_edit_input(const Onnx__NodeProto *node, size_t i);
bool mo_edit_is(const Onnx__NodeProto *node, const char *op); /* of the default domain */
/* The contents of a float32 constant and their number; NULL: it is something else. */
float *mo_edit_floats(struct mo_edit *e, const char *name, int64_t *n);
int64_t mo_edit_int(const Onnx__NodeProto *node, const char *name, int64_t fallback);
float mo_edit_float(const Onnx__NodeProto *node, const char *name, float fallback);
Onnx__AttributeProto *mo_edit_attribute(const Onnx__NodeProto *node, const char *name); /* NULL: none */

/* --- making ------------------------------------------------------------------------------------------------
 * They return "" or NULL after an error. */
void *mo_edit_memory(struct mo_edit *e, size_t bytes);
char *mo_edit_text(struct mo_edit *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* `stem`, or with a number behind where that name is taken. */
const char *mo_edit_fresh(struct mo_edit *e, const char *stem);
/* A new initializer with zeroed contents in *data. */
const char *mo_edit_constant(struct mo_edit *e, const char *stem, moire_dtype dtype, const int64_t *dims,
                             int rank, void **data);
/* A new node with one output, in no list yet. */
Onnx__NodeProto *mo_edit_node(struct mo_edit *e, const char *op, const char *stem, int n_in,
                              const char *const *in, const char *out);
void mo_edit_set_int(struct mo_edit *e, Onnx__NodeProto *node, const char *name, int64_t value);
void mo_edit_drop_attribute(Onnx__NodeProto *node, const char *name);
/* Puts `name` at input `i`, with empty ones before it where the node has fewer. */
void mo_edit_set_input(struct mo_edit *e, Onnx__NodeProto *node, size_t i, const char *name);

/* A list of nodes that takes the place of the graph's. */
struct mo_edit_nodes {
    size_t n, room;
    Onnx__NodeProto **at;
};
void mo_edit_push(struct mo_edit *e, struct mo_edit_nodes *list, Onnx__NodeProto *node);
void mo_edit_replace(struct mo_edit *e, const struct mo_edit_nodes *list); /* and indexes */

/* The model as bytes, for mo_free(). */
int mo_edit_pack(struct mo_edit *e, uint8_t **bytes, size_t *n);
#endif
