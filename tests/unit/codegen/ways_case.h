/* SPDX-License-Identifier: Apache-2.0
 * ways_case.h - a small model that runs as its operators say, and after the graph passes by the reference and
 * by the kernels of every instruction set, with and without layers of 8-bit numbers, and with the model of a
 * matrix unit: what tests of passes compare. */
#ifndef MO_WAYS_CASE_H
#define MO_WAYS_CASE_H
#include "codegen/frontend.h"
#include "tests/unit/codegen/onnx_build.h"

/* The model as a graph of the caller's; one that does not parse fails the test. */
struct mo_graph *ways_graph(struct ob *b, bool passes, bool layout);
struct mo_graph *ways_graph_of(struct ob *b, const struct mo_frontend_options *options);
/* Layers of an operator. */
int ways_count(const struct mo_graph *g, const char *op);
/* Names the operators of its layers on standard error. */
void ways_show(const struct mo_graph *g);
/* Inputs of float32 for the model, drawn from 255 multiples of `step` around 0; memory of the model's.  How
 * many there are. */
int ways_inputs(struct ob *b, float step, moire_tensor *in);
/* How many of two tensors' differences count, said on standard error. */
typedef int ways_differ(const char *what, const moire_tensor *got, const moire_tensor *want);
/* How far element i lies from what it should be, in what is allowed: a step of 8-bit numbers, rounding of
 * floats, nothing of int32. */
double ways_distance(const moire_tensor *got, const moire_tensor *want, size_t i);
/* The sum over all ways and outputs, on random inputs; `special`: among them infinities, NaN, denormals. */
int ways_check(struct ob *b, const char *name, bool special, ways_differ *differ);
/* For float32: every element within what rounding allows; within 2e-5 of the largest one, for layers on
 * layers whose sums may be near 0. */
ways_differ ways_near, ways_near_largest;
/* Loading the model fails without a leak when the k-th allocation does, for every k. */
void ways_without_memory(struct ob *b);
#endif
