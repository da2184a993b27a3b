/* SPDX-License-Identifier: Apache-2.0
 * recurrent.h - what RNN, GRU and LSTM read, for whoever runs them: the reference, the binder of their
 * kernel, and programs for GPUs.
 *
 * Gates lie as in the operators' weights: RNN one; GRU update, reset, hidden; LSTM input, output, forget,
 * cell. */
#ifndef MO_OPS_RECURRENT_H
#define MO_OPS_RECURRENT_H
#include "runtime/ops/util.h"

enum { /* inputs */
       MO_RECURRENT_X,
       MO_RECURRENT_W,
       MO_RECURRENT_R,
       MO_RECURRENT_BIAS,
       MO_RECURRENT_LENGTHS,
       MO_RECURRENT_INITIAL_H,
       MO_RECURRENT_INITIAL_C,
       MO_RECURRENT_PEEPHOLES,
       MO_RECURRENT_INPUTS
};
enum { MO_RECURRENT_Y, MO_RECURRENT_Y_H, MO_RECURRENT_Y_C }; /* outputs */
enum { MO_RECURRENT_ACTS = 3, MO_RECURRENT_DIRECTIONS = 2 };

enum mo_cell { MO_CELL_RNN, MO_CELL_GRU, MO_CELL_LSTM };

struct mo_recurrent_act {
    const char *name; /* as in the attribute */
    double (*f)(double x, double a, double b);
    int parameters; /* how many of a, b it takes from the attributes */
    double a, b;
    enum mo_act fused; /* the same among those of fused epilogues; MO_ACT_NONE: it is none of them */
};

struct mo_recurrent {
    enum mo_cell cell;
    bool stepped;    /* of domain "moire": X has the products with W and the biases */
    int r;           /* which input R is */
    int gates, acts; /* activations of a direction */
    int64_t seq, batch, in, hidden;
    int directions;
    bool batch_first, before_reset, input_forget, reverse; /* reverse: the only direction is backwards */
    double clip;                                           /* INFINITY: none */
    struct mo_recurrent_act act[MO_RECURRENT_DIRECTIONS][MO_RECURRENT_ACTS];
};

/* Reads attributes and shapes of a node whose x and R have their ranks; 0 or an error. */
int mo_recurrent_describe(const struct mo_op_ctx *ctx, struct mo_recurrent *out);
/* The same of a node of a graph; false where shapes are not known or attributes are wrong. */
bool mo_recurrent_of(const struct mo_graph *g, const struct mo_node *node, struct mo_recurrent *out);
/* The length of sequence b is none below 0 or beyond `most`; 0 or an error. */
int mo_recurrent_check_length(const struct mo_op_ctx *ctx, int64_t length, int64_t most, int64_t b);
/* Every activation of the node has its `fused`. */
bool mo_recurrent_is_fused(const struct mo_node *node);
/* NULL: none has this name. */
const struct mo_recurrent_act *mo_recurrent_act_of(const char *name);
#endif
