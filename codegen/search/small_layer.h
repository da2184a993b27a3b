/* SPDX-License-Identifier: Apache-2.0
 * small_layer.h - layers of 8-bit numbers (moire.QConv, QMatMul) in the harness: data that uses the whole
 * range of their types, and what they must compute.
 *
 * Sums of products are whole numbers and exact; what is rounded is a value between two steps of the output.
 * A kernel may take either of the two where the value is as near to both as its float32 arithmetic can tell.
 */
#ifndef MO_SMALL_LAYER_H
#define MO_SMALL_LAYER_H
#include "codegen/search/harness.h"
#include "runtime/ops/moire/qconv.h"

/* Random weights, and factors and biases by which sums of random inputs spread over the output's range. */
void mo_small_constants(struct mo_harness *h);
/* n bytes of an input: random, or mostly the ends of the range and the zero point. */
void mo_small_fill(const struct mo_harness *h, enum mo_trial_data dataset, uint64_t seed, uint8_t *to,
                   int64_t n);
/* The output at a flat index, and at that of rank 4, before it is rounded to a step, in steps, within the
 * type's range; of floats as it is.  *allowed: how far a kernel may be from that.  False: this layer has no
 * such layout. */
bool mo_small_oracle(const struct mo_harness *h, int64_t flat, const int64_t at[4], double *want,
                     double *allowed);
#endif
