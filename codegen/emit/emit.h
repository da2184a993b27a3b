/* SPDX-License-Identifier: Apache-2.0
 * emit.h - small text emitters shared by the kernel families and by the built-in generic kernels.
 *
 * Everything they write is header-free C: GNU vector extensions, and but for the portable level one asm
 * template each for the FMA, the broadcast, the minimum and the maximum.  One row describes an instruction
 * set; nothing else knows it, and what is written never depends on the machine that writes.
 *
 * Names in the emitted text: `v` a vector of floats, `vi` of ints; accumulators a<r>_<t> (vector r of the
 * output channels, pixel t), weights w<r> read from the stream of block b at q<b>, pixels read from x<row>.
 * Named scalars, never arrays: compilers turn arrays into registers too late. */
#ifndef MO_EMIT_H
#define MO_EMIT_H
#include <stdio.h>
#include "variants/kernel.h"

struct mo_emit_isa {
    const char *name;
    int lanes;              /* floats of a vector */
    int regs;               /* vector registers */
    int vectors;            /* vectors of a block of 16 channels = 16 / lanes */
    int max_acc;            /* accumulators that fit beside weights and broadcast */
    bool folds;             /* an FMA can broadcast its memory operand */
    bool by_lane;           /* an FMA can take one lane of a register for all of its own */
    bool permutes;          /* lanes of a table can be looked up by the lanes of a register */
    const char *rcp;        /* x86: instruction that estimates a reciprocal */
    const char *own;        /* instruction that fetches a line to write it; NULL: the compiler's prefetch */
    bool pairs;             /* of a set of bytes: products are of int16, two at a time */
    bool flips;             /* of a set of bytes: products are of signed ones, see prelude_neon_dot.c */
    const char *extension;  /* aarch64: what its instructions need beside the level's */
    const char *constraint; /* of an asm register operand; NULL: no asm, plain C */
    void (*arithmetic)(FILE *out, const struct mo_emit_isa *isa); /* mac() to vmin(), as text */
};
const struct mo_emit_isa *mo_emit_isa(enum mo_isa isa);
/* The same instructions on vectors of half the width; NULL: there is no such form.  Cores that do 512 bits in
 * two steps lose nothing by it, and no half of a vector is spent on padding. */
const struct mo_emit_isa *mo_emit_isa_halves(enum mo_isa isa);

/* A set that multiplies bytes and adds in int32, by name; NULL: no such set.  It has mac(), broadcast() and
 * pack() only: a "channel" of struct mo_mac is four of them, 4 bytes of a pixel; where x is a vector it is
 * four pixels of 16 channels each, by mac_load(), or where a block is several vectors by columns(), of the
 * channels of one, or of all by turn() where these are four.  With `pairs` it is two instead of four, of
 * pixels that widen() made int16.  With `flips` pixels are read by pixel() or made signed by flip(), and sums
 * start from what start_sums() makes. */
const struct mo_emit_isa *mo_emit_isa_dot(const char *name);
/* The same by number; NULL: MO_DOT_NONE. */
const struct mo_emit_isa *mo_emit_isa_of_dot(enum mo_dot dot);
/* The arithmetic of those of aarch64; and the first and last lines of a file, where its set needs any. */
void mo_emit_neon_dot(FILE *out, const struct mo_emit_isa *isa);
void mo_emit_set_begin(FILE *out, const struct mo_emit_isa *isa);
void mo_emit_set_end(FILE *out, const struct mo_emit_isa *isa);

/* Types, loads, stores, and the arithmetic of the set; without what mo_emit_prelude() adds for floats. */
void mo_emit_vectors(FILE *out, const struct mo_emit_isa *isa);
/* Types, loads, stores, mac(), mac_load(), mac_fold(), mac_lane<i>() and the half-wide
 * mac_half() and mac_fold_half() where the set has them, broadcast(), vmax(), vmin(). */
void mo_emit_prelude(FILE *out, const struct mo_emit_isa *isa);
/* NAMED(f), which names a function after the layer, moire_conv_f32_n1_..._tile_b1_r0_c0, for whoever looks
 * with a profiler; and the functions that many families have under these names. */
void mo_emit_names(FILE *out, const char *signature);
/* The same for the function of that name that is emitted next, and for its calls. */
void mo_emit_named(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The inline function `v <name>(v x, float a, float b)`. */
void mo_emit_activation(FILE *out, enum mo_act act, const char *name);
/* vexp(), vsigmoid(): needed before SIGMOID, SILU, TANH and GELU. */
void mo_emit_exp(FILE *out, const struct mo_emit_isa *isa);
bool mo_emit_act_needs_exp(enum mo_act act);
/* own(p): the line at p will be written. */
void mo_emit_own(FILE *out, const struct mo_emit_isa *isa);
/* struct mo_kargs and struct mo_variant as text, the same layout as variants/kernel.h. */
void mo_emit_abi(FILE *out);
/* struct mo_small_args and struct mo_tile_pack likewise (variants/small_args.h). */
void mo_emit_small_abi(FILE *out);
/* gate_rows(to, from, factors, n): n rows of 16 weights, each times its factor. */
void mo_emit_gate(FILE *out, const struct mo_emit_isa *isa);
/* A float as an exact C constant. */
void mo_emit_float(FILE *out, float x);

/* A multiply-accumulate tile: r vectors of output channels by t pixels. */
struct mo_mac {
    const struct mo_emit_isa *isa;
    int blocks;        /* blocks of 16 output channels */
    int rows, cols;    /* pixels */
    long px;           /* bytes from a pixel to the next in its row; 0 = run-time variable `px` */
    const char *ahead; /* text: bytes ahead at which weights are prefetched; NULL = not */
    bool panel;        /* weights of a channel lie side by side, those of all blocks at q0 */
    bool ahead_far; /* they are prefetched to the second cache only: the first has no room until they are used
                     */
    bool fold;      /* pixels are broadcast by the FMA itself; needs isa->folds */
    int used;       /* channels of the last block that exist; 0 = all 16: no FMA is spent on the others */
    bool vector_x;  /* depthwise: a pixel is a vector, not a broadcast scalar */
    bool fills;     /* pixels outside the image are the vector z_: no step leaves them out */
};
int mo_mac_vectors(const struct mo_mac *m);
/* The first ones, which take FMAs: those after them are padding and keep their start values. */
int mo_mac_active(const struct mo_mac *m);
/* Whether `vectors` of output channels by `pixels` fit the registers, beside one weight vector for each of
 * the tile's and what holds pixels. */
bool mo_mac_fits(const struct mo_emit_isa *isa, int64_t vectors, int64_t pixels);
/* "v a0_0, a0_1, ...;" */
void mo_mac_declare(FILE *out, const struct mo_mac *m, int indent);
/* All accumulators of vector r start from the expression's value, e.g. "load(b + 16)". */
void mo_mac_start(FILE *out, const struct mo_mac *m, int indent, const char *bias);
/* All accumulators start from zero. */
void mo_mac_zero(FILE *out, const struct mo_mac *m, int indent);
/* Beginning and end of a function that has x0, q0 and m: the variables, with the weights of block b at q0 + b
 * x `apart` (without `panel`), accumulators at zero; then these to m, 64 bytes a pixel, blocks `apart`. */
void mo_mac_open_product(FILE *out, const struct mo_mac *m, int64_t apart);
void mo_mac_close_product(FILE *out, const struct mo_mac *m, int64_t apart);
/* "if (a->pack) {": bytes of every accumulator of a set of bytes, four of them a time, and "} else {".  `a`
 * points to what has factor, shift and pack; their places are y, blocks, rows and pixels of it so far apart
 * (text); y_pixel NULL: 16 bytes. */
void mo_mac_pack(FILE *out, const struct mo_mac *m, const char *y_block, const char *y_row,
                 const char *y_pixel);
/* One step: weights of every block b from `q<b> + woff`, pixels of row i from `x<i> + xoff`; only pixels t
 * whose bit is set in `mask`. */
void mo_mac_step(FILE *out, const struct mo_mac *m, int indent, long woff, long xoff, uint64_t mask);
/* Steps of the n channels that follow each other from q<b> and x<i> on; by fours of them where lanes of a
 * pixel's vector are the FMA's operands. */
void mo_mac_channels(FILE *out, const struct mo_mac *m, int indent, int n, uint64_t mask);

/* The taps of one filter row of a depthwise tile (vector_x): stride and dilation in inputs, bytes from an
 * input and from a tap's weights to the next, and by tap the pixels that see it. */
struct mo_mac_taps {
    int n, stride, dilation;
    long input, weight;
    const uint64_t *mask;
};
/* All of them, weights at q0: every input vector is loaded once and used by all its taps, whose weights stay
 * in registers.  A load for each multiply-add would keep the load ports as busy as the multipliers. */
void mo_mac_row(FILE *out, const struct mo_mac *m, int indent, const struct mo_mac_taps *taps);
/* The registers suffice for that, beside the tile, the input and `others`. */
bool mo_mac_row_fits(const struct mo_mac *m, int taps, int others);
#endif
