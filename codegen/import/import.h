/* SPDX-License-Identifier: Apache-2.0
 * import.h - inside the ONNX importer: bytes -> checked messages -> graph.
 *
 * The bytes are untrusted.  import_wire.c walks them once and refuses what is malformed, too deep or too
 * long, with the byte offset; only then does protobuf-c unpack them, into memory of the graph's region and
 * under a bound. Everything the graph points to lives in that region, so a failed import is undone by
 * destroying the graph. */
#ifndef MO_IMPORT_H
#define MO_IMPORT_H
#include <string.h>
#include "onnx.pb-c.h"
#include "runtime/graph/graph.h"

/* Versions of the default domain that are read.  Each operator's row says from which version on it is known;
 * what changed for many at once in version 7 (broadcasting by attribute) is settled by
 * codegen/old_broadcast.c. */
enum { MO_OPSET_MIN = 1, MO_OPSET_BROADCAST = 7, MO_OPSET_MAX = 28 };

/* Name of a symbolic dimension ("N", "seq") of a graph input, NULL where the dimension has none. */
struct mo_symbols {
    const char *dim[MOIRE_MAX_RANK];
};

struct mo_import {
    const struct mo_env *env;
    struct mo_import *around;     /* of a body: the graph with the node that has it; NULL: the model's own */
    struct mo_captured *captured; /* of a body: what the node's bodies read of the graph around them */
    struct mo_graph *graph;
    struct mo_region *tmp;  /* lives until the import ends */
    struct mo_names *names; /* tensor name -> id */
    const Onnx__ModelProto *model;
    bool bundles;               /* inputs and outputs of the model may be sequences and optionals */
    const char *folder;         /* where external data lies; NULL: refuse it */
    struct mo_symbols *symbols; /* one for each graph input; in `tmp` */
    moire_error *err;
};

/* import_names.c: a map from names to ids; names are not copied. */
struct mo_names;
struct mo_names *mo_names_create(const struct mo_env *env, struct mo_region *region, int64_t expected);
/* 0: added; 1: the name is there already; MOIRE_ENOMEM. */
int mo_names_add(struct mo_names *names, const char *name, int id);
int mo_names_find(const struct mo_names *names, const char *name); /* -1: not there */

/* import_wire.c */
int mo_wire_check(const struct mo_limits *limits, const ProtobufCMessageDescriptor *root,
                  const uint8_t *bytes, size_t n, moire_error *err);

/* import_file.c: a whole regular file into memory that the caller frees with mo_free(). */
int mo_read_file(const struct mo_env *env, const char *path, uint8_t **bytes, size_t *n, moire_error *err);
/* Bytes of an external tensor into `out`; location, offset and length come from the message. */
int mo_read_external(const struct mo_import *im, const Onnx__TensorProto *tensor, const char *what, void *out,
                     int64_t bytes);

/* ../frontend.c: checks the bytes and unpacks them into the region, which owns all of the message. */
int mo_unpack_model(const struct mo_env *env, struct mo_region *region, const void *bytes, size_t n,
                    Onnx__ModelProto **model, moire_error *err);
/* The same of one attribute. */
int mo_unpack_attribute(const struct mo_env *env, struct mo_region *region, const void *bytes, size_t n,
                        Onnx__AttributeProto **attribute, moire_error *err);

/* import_tensor.c: the one function that reads tensors.  Strings give dtype MOIRE_STRING and no data.
 * `what` names the owner for messages, e.g. "initializer 'w'". */
int mo_read_tensor(const struct mo_import *im, const Onnx__TensorProto *tensor, const char *what,
                   struct mo_value *out);

/* import_types.c: what an attribute of this name must be ("an integer"); NULL when it is, or for names that
 * no operator reads. */
const char *mo_attr_type_wanted(const struct mo_attr *attr);

/* import_attr.c */
int mo_read_attributes(const struct mo_import *im, const Onnx__NodeProto *proto, struct mo_node *node);
/* The value of a Constant node, whichever of its forms is used; dtype MOIRE_NONE: none that is read. */
int mo_constant_value(const struct mo_import *im, const struct mo_node *node, struct mo_value *out);

static inline const char *mo_proto_text(const char *s) {
    return s ? s : "";
}

/* "ai.onnx" is the long name of the default domain. */
static inline const char *mo_proto_domain(const char *s) {
    return !s || !strcmp(s, "ai.onnx") ? "" : s;
}

/* import_model.c: fills im->graph and im->symbols from im->model. */
int mo_import_model(struct mo_import *im);
/* The version of a domain's operators that the model imports; 0: none that can be; -1: it imports none. */
int mo_import_opset(const struct mo_import *im, const char *domain);

/* import_functions.c: a copy of the graph with the bodies of the model's functions in place of their calls,
 * and operators of ONNX in place of some of ONNX Runtime's own (import_contrib.h). */
int mo_import_functions(struct mo_import *im, const Onnx__GraphProto **graph);

/* import_graph.c: a graph of the model, into im->graph; im->names is empty. */
int mo_import_graph(struct mo_import *im, const Onnx__GraphProto *graph);
/* The tensor that a name stands for in a graph, or around a body; -1: none; MOIRE_ENOMEM. */
int mo_import_find(struct mo_import *im, const char *name);
/* An error that names a node of the file. */
int mo_import_node_fail(const struct mo_import *im, size_t index, const Onnx__NodeProto *p, int code,
                        const char *problem, const char *name);

/* import_body.c: operators with bodies. */
/* Operands that may be left out get the values that they then stand for. */
int mo_import_settle_control(struct mo_import *im, struct mo_node *node, size_t index,
                             const Onnx__NodeProto *p);
/* Reads the bodies, whose captured values become further inputs of the node. */
int mo_import_bodies(struct mo_import *im, struct mo_node *node, size_t index, const Onnx__NodeProto *p);
/* Tensor `outer` of the graph around a body, as the body sees it; MOIRE_ENOMEM. */
int mo_import_capture(struct mo_import *im, int outer, const char *name);
#endif
