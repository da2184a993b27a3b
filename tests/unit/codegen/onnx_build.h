/* SPDX-License-Identifier: Apache-2.0
 * onnx_build.h - small ONNX models for tests, built with the messages that the importer reads.
 *
 *   struct ob *b = ob_create(13);
 *   ob_input(b, "x", MOIRE_F32, "1,3,N,N");
 *   ob_random(b, "w", "8,3,3,3");
 *   ob_node(b, "Conv", "x w", "y");
 *   ob_ints(b, "pads", "1,1,1,1");          (of the last node)
 *   ob_output(b, "y");
 *   const uint8_t *bytes = ob_pack(b, &n);
 *   ob_destroy(b);
 *
 * Running out of memory aborts: these are tests. */
#ifndef MO_ONNX_BUILD_H
#define MO_ONNX_BUILD_H
#include "onnx.pb-c.h"
#include "runtime/graph/graph.h"

enum { OB_MAX = 256 };

struct ob {
    struct mo_env env;
    struct mo_region *region;
    uint64_t seed; /* of ob_random() */
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    Onnx__OperatorSetIdProto *opsets[8];
    Onnx__NodeProto *nodes[OB_MAX];
    Onnx__TensorProto *tensors[OB_MAX];
    Onnx__ValueInfoProto *inputs[OB_MAX], *outputs[OB_MAX];
};

struct ob *ob_create(int opset);
void ob_destroy(struct ob *b);
void *ob_alloc(struct ob *b, size_t bytes);
char *ob_text(struct ob *b, const char *s);

void ob_opset(struct ob *b, const char *domain, int version);
/* shape: "1,3,N,?": numbers, symbols; "" is a scalar, NULL an unknown rank. */
Onnx__ValueInfoProto *ob_input(struct ob *b, const char *name, int dtype, const char *shape);
/* What a Loop gives its body before the state: the number of the trip "i", and the condition "was". */
void ob_loop_inputs(struct ob *body);
Onnx__ValueInfoProto *ob_output(struct ob *b, const char *name);
/* Initializers: raw fp32 from values, fp32 in [-1, 1) from the seed, int64 from text "1,2,3". */
Onnx__TensorProto *ob_floats(struct ob *b, const char *name, const char *shape, const float *values);
Onnx__TensorProto *ob_random(struct ob *b, const char *name, const char *shape);
Onnx__TensorProto *ob_scalar(struct ob *b, const char *name, float value);
Onnx__TensorProto *ob_int64s(struct ob *b, const char *name, const char *values);
/* A constant of another type, as a Cast of one of int64: folded at load. */
void ob_integers(struct ob *b, const char *name, const char *values, moire_dtype type);

/* Inputs and outputs as words; "-" is an absent optional one. */
Onnx__NodeProto *ob_node(struct ob *b, const char *op, const char *inputs, const char *outputs);
/* Attributes of the last node. */
Onnx__AttributeProto *ob_attr(struct ob *b, const char *name, int type);
void ob_int(struct ob *b, const char *name, int64_t value);
void ob_float(struct ob *b, const char *name, float value);
/* Attribute `value`: a tensor of this number. */
void ob_value(struct ob *b, float value);
void ob_string(struct ob *b, const char *name, const char *value);
void ob_ints(struct ob *b, const char *name, const char *values);
/* A body of the last node: the graph of another model, which must live until this one is packed. */
void ob_body(struct ob *b, const char *name, struct ob *body);
uint8_t *ob_pack(struct ob *b, size_t *n); /* lives as long as b */
/* Writes the packed model over a file. */
bool ob_save(struct ob *b, const char *path);
/* A BatchNormalization with constants of its own, for so many channels. */
void ob_batch_norm(struct ob *b, const char *in, const char *out, const char *channels);
#endif
