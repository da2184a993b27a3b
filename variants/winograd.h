/* SPDX-License-Identifier: Apache-2.0
 * winograd.h - the matrices of Winograd's minimal filtering F(m x m, 3 x 3), shared by the packing of
 * weights, the built-in kernels and the generator.
 *
 * For a tile of alpha x alpha input pixels d (alpha = m + 2) and a filter g of 3 x 3:
 *     Y = AT [ (G g G^T) . (BT d BT^T) ] AT^T      (. element by element, summed over input channels)
 * gives the m x m outputs.  The matrices follow from alpha - 1 interpolation points and the point at infinity
 * (Toom-Cook, transposed): with M(x) the product of all x - p_k and N_i the product of p_i - p_k, k != i,
 *     G[i][j] = p_i^j / N_i,  BT[i] = coefficients of M(x) / (x - p_i),  AT[k][i] = p_i^k;
 * the last row of G is (0 0 1), of BT the coefficients of M, the last column of AT (0 .. 0 1).
 *
 * Points: 0 and pairs +-p (rows 2k+1 and 2k+2, whose even and odd coefficients are shared), for m = 4 the
 * pairs of 1/sqrt 2 and sqrt 2: they keep products near 1 and give about half the error of 1 and 2. */
#ifndef MO_WINOGRAD_H
#define MO_WINOGRAD_H
#include "variants/kernel.h"

enum { MO_WINO_M = 4, MO_WINO_ALPHA = MO_WINO_M + 2 }; /* largest */

/* Transformed filters are packed only up to this size; larger ones are transformed by the kernel, from the
 * packing that the direct kernels read.  Packed, they are 5 to 50 % faster for a model alone, the more the
 * fewer tiles use them, but up to 4 times larger, and models that take turns read all of them from memory
 * each time: with this limit six models together hold less than their weights once and a half. */
enum { MO_WINO_PACKED_BYTES = 4 << 20 };

struct mo_winograd {
    int m, alpha;
    double g[MO_WINO_ALPHA][3];
    double bt[MO_WINO_ALPHA][MO_WINO_ALPHA];
    double at[MO_WINO_M][MO_WINO_ALPHA];
};
/* MO_PACK_WINO43 (m = 4) or MO_PACK_WINO23 (m = 2); false for another packing. */
bool mo_winograd_of(enum mo_packing packing, struct mo_winograd *out);
#endif
