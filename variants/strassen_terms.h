/* SPDX-License-Identifier: Apache-2.0
 * strassen_terms.h - Strassen's product of 2 x 2 blocks by seven products instead of eight, shared by the
 * packing of weights and the generator.
 *
 * Quarters are numbered 0 1 / 2 3 by rows.  With A (activations) halved by pixels and by input channels, B
 * (weights) by input and by output channels:
 *     M[p] = (sum of left[p][q] A[q]) (sum of right[p][q] B[q]),    C[q] = sum of out[q][p] M[p].
 * V. Strassen, "Gaussian elimination is not optimal", 1969.  Rounding errors are relative to the largest
 * element of an operand, not to each sum: N. Higham, "Accuracy and Stability of Numerical Algorithms", 23. */
#ifndef MO_STRASSEN_H
#define MO_STRASSEN_H
#include <stdint.h>
#include "variants/kernel.h"

enum { MO_STRASSEN = 7 }; /* products */

struct mo_strassen_table {
    int8_t left[MO_STRASSEN][4], right[MO_STRASSEN][4], out[4][MO_STRASSEN];
};
extern const struct mo_strassen_table mo_strassen_table;

/* Blocks of 16 channels in the first half of `blocks`; the second may have one fewer. */
static inline int64_t mo_strassen_half(int64_t blocks) {
    return (blocks + 1) / 2;
}

/* Blocks of output channels side by side in a panel of packed weights; 0: another packing. */
static inline int mo_strassen_panel(int packing) {
    return packing == MO_PACK_STRASSEN    ? 1
           : packing == MO_PACK_STRASSEN2 ? 2
           : packing == MO_PACK_STRASSEN4 ? 4
                                          : 0;
}
#endif
