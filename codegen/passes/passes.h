/* SPDX-License-Identifier: Apache-2.0
 * passes.h - graph passes: each takes a valid graph (shapes inferred) and leaves a valid, equal one.
 *
 * A pass may leave dead nodes and a stale index behind; mo_run_passes() sorts, compacts and checks after
 * each.  Adding a pass = one file + one row in passes.c.
 *
 * Operators of domain "moire", made only by passes (references in runtime/ops/moire/moire_ops.c):
 *   MatMul      A [..,M,K], B [K,N] or [..,K,N] with the leading dimensions of A, optional bias [N];
 *               fused epilogue.  Every Gemm and most MatMuls become this.
 *   Activation  y = act(x), act in node->fuse.  Every activation that was not fused becomes this.
 *   Attention   softmax(scale Q K^T + mask) V; heads before or behind the rows
 * (runtime/ops/moire/attention.c). QAttention  the same of 8-bit numbers, with its conversions
 * (runtime/ops/moire/attention.c). RNN, GRU, LSTM  the operators of ONNX behind the product of their inputs
 * (runtime/ops/recurrent.c); Lengths checks what they are told of sequences. Fused       a tree of pointwise
 * operators (runtime/ops/moire/fused.h). QConv       a convolution of 8-bit numbers with its conversions
 * (runtime/ops/moire/qconv.h). Frames      windows over the frames of clips (runtime/ops/moire/frames.h).
 *   TapSum      the columns of a filter, moved and added up (runtime/ops/moire/tap_sum.h).
 *   ScatterElements  of ONNX by indices that broadcast to a shape, its fourth operand (runtime/ops/gather.c).
 *   Region      layers of its body, planned when their shapes are known (runtime/ops/moire/region.c).
 *   Reorder     y = x in another layout. */
#ifndef MO_PASSES_H
#define MO_PASSES_H
#include "codegen/frontend.h"
#include "runtime/graph/content.h"
#include "variants/packed.h"

typedef int mo_pass_fn(struct mo_graph *g, moire_error *err);

/* All passes in order; those of this machine's kernels are skipped when options->no_layout, those for
 * 8-bit numbers without graph->keeps_small. */
int mo_run_passes(struct mo_graph *g, const struct mo_frontend_options *options, moire_error *err);

/* pass_dead.c: drops nodes that nobody reads, and absent trailing outputs of the others. */
mo_pass_fn mo_pass_dead;
/* pass_identity.c: drops nodes that change nothing. */
mo_pass_fn mo_pass_identity;
/* pass_qoperators.c: operators on small integers become float32 layers between conversions. */
mo_pass_fn mo_pass_qoperators;
/* pass_shared_quantizers.c: a tensor of small integers is dequantized once. */
mo_pass_fn mo_pass_shared_quantizers;
/* pass_unsigned.c: activations of int8 become uint8. */
mo_pass_fn mo_pass_unsigned;
/* pass_qmoves.c: what only moves numbers moves those of 8 bits. */
mo_pass_fn mo_pass_quantized_moves;
/* pass_small_weights.c: constants of 8 bits become float32, but for filters that may stay. */
mo_pass_fn mo_pass_small_weights;
/* pass_scatter.c: indices that an Expand repeats are scattered by as they were before. */
mo_pass_fn mo_pass_scatter;
/* pass_regions.c: products whose shapes are known only at run time go into bodies of moire.Region. */
mo_pass_fn mo_pass_regions;
/* pass_qconv.c: convolutions between conversions become moire.QConv. */
mo_pass_fn mo_pass_qconv;
/* pass_pads.c: makes auto_pad explicit; takes Pad nodes into the conv or pool that follows. */
mo_pass_fn mo_pass_explicit_pads;
mo_pass_fn mo_pass_absorb_pad;
/* pass_taps.c: rows and columns of a filter that only meet padding are cut off. */
mo_pass_fn mo_pass_taps;
/* pass_prefix.c: a Concat of what another one joins already takes that one's output. */
mo_pass_fn mo_pass_prefix;
/* pass_einsum.c: Einsum of two operands becomes MatMul. */
mo_pass_fn mo_pass_einsum;
/* pass_norm.c: layer normalization in single steps becomes LayerNormalization. */
mo_pass_fn mo_pass_norm;
/* pass_rotary.c: positions are looked up before they turn what they turn. */
mo_pass_fn mo_pass_rotary;
/* pass_scaled_attention.c: ONNX's Attention becomes moire.Attention. */
mo_pass_fn mo_pass_scaled_attention;
/* pass_attention.c: attention in single steps becomes moire.Attention. */
mo_pass_fn mo_pass_attention;
/* pass_gate.c: x + x * s becomes x * (s + 1). */
mo_pass_fn mo_pass_gate;
/* pass_matmul.c: Gemm and MatMul become moire.MatMul. */
mo_pass_fn mo_pass_matmul;
/* alpha * op(B) as a new constant [k,n], of a constant that holds so many numbers. */
struct mo_tensor *mo_right_operand(struct mo_graph *g, const struct mo_tensor *b, int64_t k, int64_t n,
                                   bool transposed, float alpha);
/* pass_affine.c: batch-norm and per-channel scale and shift go into weights and bias. */
mo_pass_fn mo_pass_affine;
/* pass_activation.c: every form of an activation becomes moire.Activation. */
mo_pass_fn mo_pass_activation;
/* pass_fuse.c: activations and residual adds go into the epilogue of what they follow. */
mo_pass_fn mo_pass_fuse;
/* pass_heads.c: attention takes its heads out of the tensor in which they lie. */
mo_pass_fn mo_pass_heads;
/* pass_projections.c: query, key and value of one tensor come from one product. */
mo_pass_fn mo_pass_projections;
/* pass_carry.c: scales and shifts that come after an activation. */
mo_pass_fn mo_pass_carry;
/* pass_images.c: convolutions over one or three dimensions become those over images. */
mo_pass_fn mo_pass_images;
/* pass_thin.c: of convolutions with few outputs the columns of the filter become outputs. */
mo_pass_fn mo_pass_thin;
/* pass_excite.c: the scale of squeeze and excite goes into the 1x1 convolution behind it. */
mo_pass_fn mo_pass_excite;
/* pass_own_quantizers.c: every pointwise reader of a dequantized tensor dequantizes it itself. */
mo_pass_fn mo_pass_own_quantizers;
/* pass_pointwise.c: trees of pointwise operators become moire.Fused. */
mo_pass_fn mo_pass_pointwise;
/* Whether the node can be part of one. */
bool mo_is_pointwise(const struct mo_graph *g, const struct mo_node *node);
/* pass_recurrent.c: RNN, GRU and LSTM become a moire.MatMul and the recurrence behind it. */
mo_pass_fn mo_pass_recurrent;
/* pass_pick.c: a Gather of one known place becomes a Slice and a Reshape. */
mo_pass_fn mo_pass_pick;
/* pass_layout.c: which tensors are MO_C16, and the Reorders between. */
mo_pass_fn mo_pass_layout;
/* pass_alias.c: views share storage with their input; concat inputs lie in the output. */
mo_pass_fn mo_pass_view;
mo_pass_fn mo_pass_concat;
/* pass_halves.c: tensors that only kernels of bfloat16 read are that in memory. */
mo_pass_fn mo_pass_halves;
/* pass_layer.c: a graph without layers gets one. */
mo_pass_fn mo_pass_layer;

/* --- util.c: what passes share ------------------------------------------------------------------------- */
/* The node is operator `op` of the default domain / of domain "moire". */
bool mo_is(const struct mo_node *node, const char *op);
bool mo_is_moire(const struct mo_node *node, const char *op);
/* Producer of a tensor, NULL for inputs and constants. */
struct mo_node *mo_producer(const struct mo_graph *g, int tensor);
/* A static fp32 tensor. */
bool mo_is_f32(const struct mo_tensor *t);
/* A static tensor of 8-bit numbers. */
bool mo_is_bytes(const struct mo_tensor *t);
/* The value of a constant with one fp32 element. */
bool mo_scalar(const struct mo_graph *g, int tensor, float *out);
/* Expands a constant that broadcasts along `axis` of shape `to` only (all others 1) into out[to->d[axis]]. */
bool mo_per_channel(const struct mo_tensor *t, const struct mo_shape *to, int axis, float *out);
/* Turns a node into operator `op` of domain "moire" with n_in inputs (the first ones are kept). */
int mo_become(struct mo_graph *g, struct mo_node *node, const char *op, int n_in, moire_error *err);
/* A constant made of the weights `from`: zeroed memory for the caller to fill; or, where these are elided,
 * one that is elided likewise, and there is nothing to fill (mo_packed_elided()).  `content` is its number.
 */
struct mo_tensor *mo_derive_constant(struct mo_graph *g, const struct mo_tensor *from, const char *name,
                                     const struct mo_shape *shape, uint64_t content);
/* One reader of constant `id` is gone; its memory is given back with the last.  Large models would otherwise
 * be in memory once more for every pass that rewrites weights. */
void mo_drop_constant(struct mo_graph *g, int id);
/* Readers of tensor `old` read `instead`; how many times they do. */
int mo_read_instead(struct mo_graph *g, int old, int instead);
/* A new node of the default domain from one tensor to another, called like what it makes; NULL: no memory. */
struct mo_node *mo_add_node(struct mo_graph *g, const char *op, int n_in, int from, int to);
/* A Reshape into the shape that `to` has; a Transpose. */
int mo_add_reshape(struct mo_graph *g, int from, int to, moire_error *err);
int mo_add_transpose(struct mo_graph *g, int from, int to, const int64_t *perm, moire_error *err);
/* An attribute of exactly `want` integers, which are all `fallback` where it is absent. */
bool mo_ints_or(const struct mo_node *node, const char *name, int64_t fallback, int64_t *out, int want);
/* Sets or adds an attribute. */
int mo_set_ints(struct mo_graph *g, struct mo_node *node, const char *name, const int64_t *values, int n,
                moire_error *err);
int mo_set_int(struct mo_graph *g, struct mo_node *node, const char *name, int64_t value, moire_error *err);
int mo_set_float(struct mo_graph *g, struct mo_node *node, const char *name, float value, moire_error *err);
int mo_set_string(struct mo_graph *g, struct mo_node *node, const char *name, const char *value,
                  moire_error *err);
int mo_no_memory(moire_error *err);
#endif
