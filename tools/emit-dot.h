/* SPDX-License-Identifier: Apache-2.0
 * emit-dot.h - parts of emit-generic.c: what tiles of bytes have beside those of floats. */
#ifndef MO_EMIT_DOT_H
#define MO_EMIT_DOT_H
#include "codegen/emit/emit.h"

enum { MO_DOT_WIDE_PIXEL = 32 }; /* bytes of 16 channels as int16 */

/* One tap of a depthwise tile where a block is several vectors: four columns of a filter row, one vector
 * after the other, since the weights of all and the sums leave too few registers. */
void mo_emit_columns(FILE *out, const struct mo_mac *m);
/* All taps of a tile whose pixels are made int16 first, `steps` pairs of channels a tap: those of the next
 * tap while this one's are multiplied.  Behind the last tap some that were read before are read again. */
void mo_emit_wide_loops(FILE *out, const struct mo_mac *m, int steps);
#endif
