/* SPDX-License-Identifier: Apache-2.0
 * simd.h - the built-in kernels that are not convolutions: one C source, compiled once for every ISA level.
 *
 * Files here are compiled with -DMO_ISA_LEVEL=<base|avx2|avx512> and the matching -march; each defines
 * kernels named mo_simd_<kernel>_<level>.  simd_table.c collects one level's kernels; binders in
 * variants/generic choose a table at load time.  Loops over 16 lanes are plain C that gcc and clang turn into
 * vectors. */
#ifndef MO_SIMD_H
#define MO_SIMD_H
#include "runtime/ops/op_parts.h"
#include "variants/kernel.h"
#include "variants/requant.h"

/* Every kernel of a table.  Adding one = a row here, its function, its binder. */
#define MO_SIMD_KERNELS(X)                                                                                   \
    X(gemm)                                                                                                  \
    X(matmul)                                                                                                \
    X(attention)                                                                                             \
    X(attention_few)                                                                                         \
    X(attention_halves)                                                                                      \
    X(recurrent)                                                                                             \
    X(unary)                                                                                                 \
    X(fused)                                                                                                 \
    X(binary)                                                                                                \
    X(affine)                                                                                                \
    X(attention_bytes)                                                                                       \
    X(softmax)                                                                                               \
    X(layernorm)                                                                                             \
    X(rotate)                                                                                                \
    X(instance)                                                                                              \
    X(reduce)                                                                                                \
    X(pool)                                                                                                  \
    X(reorder)                                                                                               \
    X(copy)                                                                                                  \
    X(concat)                                                                                                \
    X(resize)                                                                                                \
    X(lrn)                                                                                                   \
    X(winograd)                                                                                              \
    X(winograd_bytes)                                                                                        \
    X(enter_bytes)                                                                                           \
    X(sum_bytes)                                                                                             \
    X(scale_bytes)                                                                                           \
    X(lookup)                                                                                                \
    X(pool_halves)                                                                                           \
    X(pool_bytes)                                                                                            \
    X(mean_bytes)                                                                                            \
    X(tap_sum)                                                                                               \
    X(frames)                                                                                                \
    X(deconv_narrow)                                                                                         \
    X(deconv)

/* Beside the kernels, what the walk of a convolution calls, and operators by parts. */
struct mo_simd_table {
    mo_requantize_fn *requantize;
    mo_write_floats_fn *write_floats;
    mo_widen_fn *widen;
    mo_copy_pixels_fn *copy_pixels;
    mo_round_kernel *recurrent_round;
    mo_parts_fn *roi_align;
#define MO_SIMD_FIELD(name) mo_kernel *name;
    MO_SIMD_KERNELS(MO_SIMD_FIELD)
#undef MO_SIMD_FIELD
};

/* The table of a level; levels this build does not have fall back to the next lower one. */
const struct mo_simd_table *mo_simd_of(enum mo_isa isa);

#ifdef MO_ISA_LEVEL
#define MO_SIMD_PASTE(name, level) mo_simd_##name##_##level
#define MO_SIMD_NAME(name, level)  MO_SIMD_PASTE(name, level)
#define MO_SIMD(name)              MO_SIMD_NAME(name, MO_ISA_LEVEL)
#define MO_SIMD_DECLARE(name)      mo_kernel MO_SIMD(name);
MO_SIMD_KERNELS(MO_SIMD_DECLARE)
mo_requantize_fn MO_SIMD(requantize);
mo_write_floats_fn MO_SIMD(write_floats);
mo_widen_fn MO_SIMD(widen);
mo_copy_pixels_fn MO_SIMD(copy_pixels);
mo_round_kernel MO_SIMD(recurrent_round);
mo_parts_fn MO_SIMD(roi_align);
#undef MO_SIMD_DECLARE
#endif
#endif
