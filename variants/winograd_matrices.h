/* SPDX-License-Identifier: Apache-2.0
 * winograd_matrices.h - the matrices of Winograd's minimal filtering F(m x m, r x r), shared by the packing
 * of weights, the built-in kernels and the generator.
 *
 * At stride 1, for a tile of alpha x alpha input pixels d (alpha = m + r - 1) and a filter g of r x r, r = 3
 * or 5: Y = AT [ (G g G^T) . (BT d BT^T) ] AT^T      (. element by element, summed over input channels) gives
 * the m x m outputs.  The matrices follow from alpha interpolation points (Toom-Cook, transposed): with M(x)
 * the product of all x - p_k and N_i the product of p_i - p_k, k != i, G[i][j] = p_i^j / N_i,  BT[i] =
 * coefficients of M(x) / (x - p_i),  AT[k][i] = p_i^k. The last point may be at infinity, outside of these
 * products: then the last row of G is (0 .. 0 1), of BT the coefficients of M, the last column of AT (0 .. 0
 * 1).
 *
 * Points: 0 and pairs +-p (rows 2k+1 and 2k+2, whose even and odd coefficients are shared); that is an odd
 * number of them, so an even alpha takes the point at infinity, too, and an odd one does not: all its rows
 * but one are pairs.  Their sizes are those of the smallest error found by search over random layers
 * (Barabasz et al. 2020 do the same); for m = 4, 1/sqrt 2 and sqrt 2.  Error, rms and largest, in units of
 * 1e-6 of the outputs' rms (128 channels, ReLU-like input):
 *     m          2          3          4          5          6          7
 *     error   0.3, 2     0.5, 3     0.9, 6      2, 17      4, 50      9, 140
 * The bound that every kernel keeps is 100: m = 7 is not offered.  Filters of 5 x 5 take the points of the
 * same alpha: errors for m = 2, 3, 4 are as of m + 2 above.
 *
 * At stride 2 the outputs are the sum of two filters of stride 1 in each direction: taps 0 and 2 over even
 * pixels, F(m, 2) with m + 1 points, and tap 1 over odd pixels, m products as they are.  All are one
 * transform of alpha = 2 m + 1 pixels (Yepez and Ko 2020): of the 36 multiplications that 2 x 2 outputs take
 * m = 4 leaves 20.  Odd rows
 * of G are all (0 1 0): filters have (m + 2)^2 different values for (2 m + 1)^2 products, and are packed so.
 *
 * Fewer outputs than m, in the last tiles of an image whose extent m does not divide, take fewer points: some
 * of the same ones, so that the same filters serve.  Their 1 / N_i is another; AT has the ratio.  Of the
 * pairs those stay whose product is nearest to 1: errors are then below those of whole tiles (measured in
 * the same units: 0.3 to 3 and 1 to 27 for m = 6, 0.3 to 1.3 and 1 to 13 for m = 5).
 *
 * Half-transformed filters are packed as G g and become U = (G g) G^T in the kernel's registers: alpha * 3
 * values in place of alpha^2.  Two columns of U whose points are +p and -p are (h0 + p^2 h2) +- p h1, where
 * the h are a row of G g, when G's rows are the bare powers of their points; what they lack, 1 / N_i, the
 * columns of AT have instead.
 *
 * Filters of one row or one column, of 3, 5 or 7 taps, are transformed along it only: F(m, r) has m + r - 1
 * products for m outputs, packed as G g, the same for rows and columns.  Errors are those of one dimension,
 * so that more points keep the bound than in two.  In the units above, filters of 3, 5, 7 taps:
 *     points     6          8          10         12
 *     error      0.5, 3     1.1, 7     2.4, 27    5.4, 46 */
#ifndef MO_WINOGRAD_H
#define MO_WINOGRAD_H
#include "variants/kernel.h"

enum { MO_WINO_LEAST = 2, MO_WINO_M = 8 };                         /* least and largest m */
enum { MO_WINO_TAPS = 7, MO_WINO_STRIDE = 2, MO_WINO_ALPHA = 12 }; /* largest */

/* Transformed filters are packed only up to this size; larger ones are transformed by the kernel, from the
 * packing that the direct kernels read.  Packed, they are 5 to 50 % faster for a model alone, the more the
 * fewer tiles use them, but up to 4 times larger, and models that take turns read all of them from memory
 * each time: with this limit six models together hold less than their weights once and a half. */
enum { MO_WINO_PACKED_BYTES = 4 << 20 };

struct mo_winograd {
    int m, taps, stride, alpha; /* taps: r; alpha = (m - 1) * stride + r */
    int points;                 /* rows of BT and columns of AT that have one; after them come odd pixels */
    int lines;                  /* rows of G that differ: alpha, or points and one for all odd pixels */
    bool infinity;              /* the last point is */
    bool half;                  /* filters are half transformed; g and at are scaled as said above */
    bool line;                  /* in one dimension, filters have one row or one column */
    int of[MO_WINO_ALPHA];      /* rows of g in the packing; other than 0, 1 .. for a tail only */
    double point[MO_WINO_ALPHA];
    double g[MO_WINO_ALPHA][MO_WINO_TAPS];
    double bt[MO_WINO_ALPHA][MO_WINO_ALPHA];
    double at[MO_WINO_M][MO_WINO_ALPHA];
};
/* The packing of filters for F(m x m, taps x taps) at a stride, MO_PACK_NONE where there is none:
 * [OC/16][lines^2][IC/16][16 ic][16 oc], or half transformed [OC/16][alpha][IC/16][16 ic][taps][16 oc]. */
enum mo_packing mo_winograd_packing(int m, int taps, int stride, bool half);
/* The same of F(m, taps) at stride 1, of filters of one row or column: [OC/16][alpha][IC/16][16 ic][16 oc].
 */
enum mo_packing mo_winograd_line(int m, int taps);
/* Floats of a filter as a packing has it. */
static inline int mo_winograd_floats(const struct mo_winograd *w) {
    return w->line ? w->lines : w->lines * (w->half ? w->taps : w->lines);
}
/* The other dimension of filters of one row or column: everything is as it is. */
void mo_winograd_identity(struct mo_winograd *out);
/* The matrices of a packing; false where it is none of Winograd's. */
bool mo_winograd_of(enum mo_packing packing, struct mo_winograd *out);
/* The matrices that give m < full->m outputs, one dimension of a tile that the image's end cuts short, from
 * the filters of `full`: at some of its points, so that alpha is smaller and of[] says which products are
 * left.  False where full's points have no such set: an even number of points needs the one at infinity. */
bool mo_winograd_tail(const struct mo_winograd *full, int m, struct mo_winograd *out);
#endif
