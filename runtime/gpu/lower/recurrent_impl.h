/* SPDX-License-Identifier: Apache-2.0
 * recurrent_impl.h - what the two files of recurrent layers share: operands by name, and the text of a cell.
 */
#ifndef MO_GPU_RECURRENT_IMPL_H
#define MO_GPU_RECURRENT_IMPL_H
#include "runtime/gpu/lower/lower.h"
#include "runtime/ops/recurrent.h"

/* What kernels read and write, by the coordinates that follow: d direction, b sequence, t time, j unit, g
 * gate and unit. */
enum mo_part {
    MO_PART_STEP,      /* 0 */
    MO_PART_INPUTS,    /* t, b, d, g: the inputs' products */
    MO_PART_WEIGHTS,   /* d, g, j */
    MO_PART_BIAS,      /* d, g (of the inputs' products, then of the states') */
    MO_PART_INITIAL_H, /* d, b, j */
    MO_PART_INITIAL_C,
    MO_PART_STATE_H,
    MO_PART_STATE_C,
    MO_PART_OPERAND, /* the state as the product reads it */
    MO_PART_SUMS,    /* d, b, g: the state's products */
    MO_PART_ALL_H,   /* t, d, b, j */
    MO_PART_LAST_H,  /* d, b, j */
    MO_PART_LAST_C,
    MO_PARTS
};

struct mo_recurrent_job {
    struct mo_lower *l;
    struct mo_recurrent r;
    bool looped;
    struct mo_gpu_view part[MO_PARTS];
    struct mo_each e;
    int at[MO_PARTS]; /* operand of e, -1: not yet */
};

/* The part is there. */
bool mo_recurrent_has(const struct mo_recurrent_job *j, enum mo_part part);
/* A new kernel; a thread an element of `over` unless the caller says otherwise. */
void mo_recurrent_begin(struct mo_recurrent_job *j, const struct mo_gpu_view *over);
/* Appends the value of a part at these coordinates, or the statement that stores one there if it is wanted.
 */
void mo_recurrent_value(struct mo_recurrent_job *j, enum mo_part part, const char *const *at);
void mo_recurrent_store(struct mo_recurrent_job *j, enum mo_part part, const char *const *at,
                        const char *what);
#define MO_AT(...) ((const char *const[MO_VIEW_RANK]){__VA_ARGS__})
/* Statements over o0, o1, o2 and `when` that make the next state: `next`, and an LSTM's `next_c`. */
void mo_recurrent_cell(struct mo_recurrent_job *j);
/* when, the time of step `step`. */
void mo_recurrent_time(struct mo_recurrent_job *j);
#endif
