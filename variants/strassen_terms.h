/* SPDX-License-Identifier: Apache-2.0
 * strassen_terms.h - products of block matrices by fewer products of blocks, shared by the packing of weights
 * and the generator.
 *
 * A (activations) is cut into 2 x depth blocks, by pixels and by input channels, B (weights) into depth x
 * columns, by input and by output channels; blocks are numbered by rows.  Then
 *     M[p] = (sum of left[p][q] A[q]) (sum of right[p][q] B[q]),    C[q] = sum of out[q][p] M[p].
 * Two schemes: 7 products instead of 8 of 2 x 2 by 2 x 2 (V. Strassen, "Gaussian elimination is not optimal",
 * 1969), and 26 instead of 32 of 2 x 4 by 4 x 4, as few as J. Hopcroft and L. Kerr show to be enough ("On
 * minimizing the number of multiplications necessary for matrix multiplication", 1971).  The coefficients of
 * the second were found by a random walk from the definition's 32 products (M. Kauers and J. Moosbauer, "Flip
 * graphs for matrix multiplication", 2022); a test multiplies both out.
 *
 * Rounding errors are relative to the largest element of an operand, not to each sum: N. Higham, "Accuracy
 * and Stability of Numerical Algorithms", 23. */
#ifndef MO_STRASSEN_H
#define MO_STRASSEN_H
#include <stdint.h>
#include "variants/kernel.h"

enum { MO_STRASSEN_SCHEMES = 2, MO_STRASSEN_PRODUCTS = 26, MO_STRASSEN_DEPTH = 4, MO_STRASSEN_COLUMNS = 4 };

struct mo_strassen_scheme {
    const char *name; /* "2x2x2": pixels, input and output channels */
    int depth, columns, products;
    int8_t left[MO_STRASSEN_PRODUCTS][2 * MO_STRASSEN_DEPTH];
    int8_t right[MO_STRASSEN_PRODUCTS][MO_STRASSEN_DEPTH * MO_STRASSEN_COLUMNS];
    int8_t out[2 * MO_STRASSEN_COLUMNS][MO_STRASSEN_PRODUCTS];
};
extern const struct mo_strassen_scheme mo_strassen_schemes[MO_STRASSEN_SCHEMES];

/* What a packing holds: combinations of a scheme, for `panel` blocks of output channels side by side. */
struct mo_strassen_packing {
    const struct mo_strassen_scheme *scheme;
    int panel;
};
/* False for a packing of another kind. */
bool mo_strassen_of(enum mo_packing packing, struct mo_strassen_packing *out);
/* The packing of a scheme (by index) with such panels; MO_PACK_NONE: there is none. */
enum mo_packing mo_strassen_packing(int scheme, int panel);

/* Blocks of 16 channels in the first of so many parts; the last ones may have fewer, or none. */
static inline int64_t mo_strassen_blocks(int64_t blocks, int parts) {
    return (blocks + parts - 1) / parts;
}
#endif
