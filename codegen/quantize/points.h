/* SPDX-License-Identifier: Apache-2.0
 * points.h - which nodes of a model compute with 8-bit numbers, and between which tensors are thus converted.
 *
 * A *layer* is a convolution or a product whose weights are constants.  A *point* is a tensor that gets a
 * QuantizeLinear and a DequantizeLinear: what a layer reads; what a convolution leaves behind its activation,
 * when another layer will read it; and what lies between, so that whole parts of a network stay in 8 bits.
 * Between a layer and its activation there is none.  What leads to no layer stays float32: the last layer's
 * result, and the sums that transformers carry from block to block. */
#ifndef MO_QUANTIZE_POINTS_H
#define MO_QUANTIZE_POINTS_H
#include "codegen/quantize/onnx_edit.h"

struct mo_qlayer {
    int node;        /* place in graph->node */
    bool rows;       /* a product: Gemm or MatMul */
    int axis;        /* of the weights, along which outputs lie */
    bool on;         /* to be quantized */
    const char *why; /* when it is not: in a few words */
    double error;    /* of the model's outputs when only this layer is quantized; -1: not known */
};

struct mo_qlayers {
    int n;
    struct mo_qlayer *at;
};

/* Lists layers, all on. */
int mo_layers_find(struct mo_edit *e, struct mo_qlayers *out);
/* The layer of that name, or the one whose output is called so; NULL. */
struct mo_qlayer *mo_layer_named(const struct mo_edit *e, const struct mo_qlayers *layers, const char *name);

/* Arrays by value (struct mo_edit). */
struct mo_points {
    int n;
    bool *is;     /* a point */
    bool *within; /* made by a layer or by a node on bytes: all that read it read the converted one */
    int *tie;     /* points with one scale: the first of them, or itself */
};

/* Points for the layers that are on.  portable: also between convolutions and activations other than Relu and
 * Clip, as ONNX Runtime wants it. */
int mo_points_find(struct mo_edit *e, const struct mo_qlayers *layers, bool portable, struct mo_points *out);
/* Points of inputs and output of concatenations get one scale where `fits` says so of two of them. */
void mo_points_tie_concats(struct mo_edit *e, struct mo_points *points, bool (*fits)(void *ctx, int a, int b),
                           void *ctx);
/* Node `at` reads its input `name` as bytes: it is a layer that is on, or its result is a point, too. */
bool mo_points_reads_bytes(const struct mo_edit *e, const struct mo_points *points,
                           const struct mo_qlayers *layers, int at);
#endif
