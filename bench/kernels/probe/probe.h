/* SPDX-License-Identifier: Apache-2.0
 * probe.h - the inner loops whose speed is a machine's ceiling: one C source, compiled once for every ISA
 * level like variants/simd.  They know nothing of clocks or threads; bench/kernels/ceiling.c times them. */
#ifndef MO_BENCH_PROBE_H
#define MO_BENCH_PROBE_H
#include "variants/kernel.h"

/* The register tiles of a convolution's inner loop, on operands that stay in L1. */
enum mo_probe_form {
    MO_PROBE_PAIRED, /* 2 vectors of output channels x pixels: every broadcast is loaded once, used twice */
    MO_PROBE_FOLDED, /* 1 vector x twice the pixels: every multiply-add loads its own broadcast operand */
    MO_PROBE_FORMS
};

enum { MO_PROBE_DEPTH = 64 /* input channels of the tile */, MO_PROBE_FLOATS = 4096 /* of each operand */ };

struct mo_probe {
    int lanes, pixels[MO_PROBE_FORMS]; /* tile: pixels x (2 or 1) vectors */
    /* `rounds` times through the tile's multiply-adds, 2 * vectors * lanes * pixels * MO_PROBE_DEPTH flops
     * each.  w, x: MO_PROBE_FLOATS floats, 64-byte aligned.  Returns a value that depends on all of it. */
    float (*tile[MO_PROBE_FORMS])(const float *w, const float *x, int64_t rounds);
    /* Sum of n floats, n a multiple of 128: reads only. */
    float (*read)(const float *from, int64_t n);
    void (*copy)(float *to, const float *from, int64_t n);
};

/* The loops of a level; levels this build does not have fall back to the next lower one. */
const struct mo_probe *mo_probe_of(enum mo_isa isa);
#endif
