/* SPDX-License-Identifier: Apache-2.0
 * recurrent.h - what RNN, GRU and LSTM read, for whoever runs them: the reference, and programs for GPUs.
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
};

struct mo_recurrent {
    enum mo_cell cell;
    int gates, acts; /* activations of a direction */
    int64_t seq, batch, in, hidden;
    int directions;
    bool batch_first, before_reset, input_forget, reverse; /* reverse: the only direction is backwards */
    double clip;                                           /* INFINITY: none */
    struct mo_recurrent_act act[MO_RECURRENT_DIRECTIONS][MO_RECURRENT_ACTS];
};

/* Reads attributes and shapes of a node whose x and R have their ranks; 0 or an error. */
int mo_recurrent_describe(const struct mo_op_ctx *ctx, struct mo_recurrent *out);
#endif
