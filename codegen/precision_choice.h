/* SPDX-License-Identifier: Apache-2.0
 * precision_choice.h - how far a precision's answers are from those of float32, and which precision is to be
 * used: pure functions of outputs, times and differences.  codegen/settle_precision.h measures them. */
#ifndef MO_PRECISION_CHOICE_H
#define MO_PRECISION_CHOICE_H
#include <stdbool.h>
#include "moire.h"

/* What is known of one output after runs on some inputs; zeroed at first. */
struct mo_output_gap {
    bool begun, floats;
    bool apart;           /* of another type or shape, or finite in one precision only */
    double low, high;     /* of the finite numbers of float32 */
    double largest;       /* difference of two finite numbers */
    int64_t n, n_unequal; /* elements */
};
/* Adds one run: the output in float32, and in the other precision. */
void mo_output_gap_add(struct mo_output_gap *gap, const moire_tensor *want, const moire_tensor *got);
/* Of floats the largest difference in parts of the range, of integers the share of elements that are not
 * equal; infinite where outputs are apart or nothing can be said: a float output with no range. */
double mo_output_gap_of(const struct mo_output_gap *gap);

struct mo_precision_trial {
    enum moire_precision precision;
    double fp32_ns, ns; /* the least of runs that took turns */
    double difference;  /* the largest of all outputs */
    bool exempt;        /* its difference does not matter: it computes what the model says */
};
/* The fastest one that is within the tolerance and at least 3 % faster than float32; -1: none, float32 it is.
 */
int mo_precision_choose(const struct mo_precision_trial *trial, int n, double tolerance);
/* "bf16, 2.9 times as fast as fp32, differs by 0.31 % of the range (allowed 1 %)"; for -1 "fp32", and why
 * each trial was not taken. */
void mo_precision_say(const struct mo_precision_trial *trial, int n, double tolerance, char *out,
                      size_t room);
#endif
