/* SPDX-License-Identifier: Apache-2.0
 * prelude.c - the table of instruction sets and what every emitted file begins with.
 *
 * The asm templates are opaque to the compiler's optimizers: with plain expressions gcc hoists loads and
 * broadcasts until it runs out of registers and spills. */
#include "codegen/emit/emit.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>

static void emit_types(FILE *out, const struct mo_emit_isa *isa) {
    int bytes = isa->lanes * 4;
    fprintf(out,
            "typedef __INT64_TYPE__ i64;\n"
            "typedef float v __attribute__((vector_size(%d)));\n"
            "typedef int vi __attribute__((vector_size(%d)));\n"
            "typedef float vu __attribute__((vector_size(%d), aligned(4), may_alias));\n"
            "typedef float f32 __attribute__((may_alias));\n"
            "#define INLINE static inline __attribute__((always_inline, unused))\n\n"
            "INLINE v load(const char *p) { return *(const vu *)p; }\n"
            "INLINE void store(char *p, v x) { *(vu *)p = x; }\n"
            "INLINE v splat(float x) { return (v){",
            bytes, bytes, bytes);
    for (int i = 0; i < isa->lanes; i++)
        fprintf(out, "%sx", i ? ", " : "");
    fputs("}; }\n", out);
}

static void emit_folds(FILE *out, const struct mo_emit_isa *isa) {
    fprintf(out,
            "INLINE v mac_fold(v a, v w, const char *p) {\n"
            "    __asm__(\"vfmadd231ps %%1%%{1to%d%%}, %%2, %%0\" : \"+%s\"(a) : \"m\"(*(const f32 *)p), "
            "\"%s\"(w));\n"
            "    return a;\n}\n",
            isa->lanes, isa->constraint, isa->constraint);
}

static void emit_x86(FILE *out, const struct mo_emit_isa *isa) {
    const char *c = isa->constraint;
    fprintf(out,
            "INLINE v mac(v a, v w, v x) {\n"
            "    __asm__(\"vfmadd231ps %%1, %%2, %%0\" : \"+%s\"(a) : \"%s\"(w), \"%s\"(x));\n"
            "    return a;\n}\n"
            "INLINE v mac_load(v a, v w, const char *p) {\n"
            "    __asm__(\"vfmadd231ps %%1, %%2, %%0\" : \"+%s\"(a) : \"m\"(*(const vu *)p), \"%s\"(w));\n"
            "    return a;\n}\n"
            "INLINE v broadcast(const char *p) {\n"
            "    v x;\n"
            "    __asm__(\"vbroadcastss %%1, %%0\" : \"=%s\"(x) : \"m\"(*(const f32 *)p));\n"
            "    return x;\n}\n"
            "/* x when either is NaN */\n"
            "INLINE v vmax(v lo, v x) {\n"
            "    v r;\n"
            "    __asm__(\"vmaxps %%2, %%1, %%0\" : \"=%s\"(r) : \"%s\"(lo), \"%s\"(x));\n"
            "    return r;\n}\n"
            "INLINE v vmin(v hi, v x) {\n"
            "    v r;\n"
            "    __asm__(\"vminps %%2, %%1, %%0\" : \"=%s\"(r) : \"%s\"(hi), \"%s\"(x));\n"
            "    return r;\n}\n",
            c, c, c, c, c, c, c, c, c, c, c, c);
    if (isa->folds) emit_folds(out, isa);
    if (isa->lanes == 16)
        fputs("/* the lower half; the upper one becomes zero */\n"
              "INLINE v mac_half(v a, v w, v x) {\n"
              "    __asm__(\"vfmadd231ps %t1, %t2, %t0\" : \"+v\"(a) : \"v\"(w), \"v\"(x));\n"
              "    return a;\n}\n"
              "INLINE v mac_fold_half(v a, v w, const char *p) {\n"
              "    __asm__(\"vfmadd231ps %1%{1to8%}, %t2, %t0\" : \"+v\"(a) : \"m\"(*(const f32 *)p), "
              "\"v\"(w));\n"
              "    return a;\n}\n",
              out);
    fprintf(out,
            "/* 1 / x for normal x, by the estimate and a Newton step */\n"
            "INLINE v vrecip(v x) {\n"
            "    v r;\n"
            "    __asm__(\"%s %%1, %%0\" : \"=%s\"(r) : \"%s\"(x));\n"
            "    return mac(r, r, splat(1.0f) - x * r);\n}\n",
            isa->rcp, c, c);
}

static void emit_plain(FILE *out, const struct mo_emit_isa *isa) {
    (void)isa;
    fputs("INLINE v mac(v a, v w, v x) { return a + w * x; }\n"
          "INLINE v mac_load(v a, v w, const char *p) { return a + w * load(p); }\n"
          "INLINE v broadcast(const char *p) { return splat(*(const f32 *)p); }\n"
          "INLINE v vrecip(v x) { return splat(1.0f) / x; }\n"
          "/* x when either is NaN */\n"
          "INLINE v vmax(v lo, v x) { vi m = lo > x; return (v)(((vi)lo & m) | ((vi)x & ~m)); }\n"
          "INLINE v vmin(v hi, v x) { vi m = hi < x; return (v)(((vi)hi & m) | ((vi)x & ~m)); }\n",
          out);
}

static void emit_neon(FILE *out, const struct mo_emit_isa *isa) {
    for (int lane = -1; lane < isa->lanes; lane++) {
        char name[24] = "", operand[24] = "%2.4s";
        if (lane >= 0) {
            snprintf(name, sizeof name, "_lane%d", lane);
            snprintf(operand, sizeof operand, "%%2.s[%d]", lane);
        }
        fprintf(out,
                "INLINE v mac%s(v a, v w, v x) {\n"
                "    __asm__(\"fmla %%0.4s, %%1.4s, %s\" : \"+w\"(a) : \"w\"(w), \"w\"(x));\n"
                "    return a;\n}\n",
                name, operand);
    }
    fputs("INLINE v mac_load(v a, v w, const char *p) { return mac(a, w, load(p)); }\n"
          "INLINE v broadcast(const char *p) {\n"
          "    v x;\n"
          "    __asm__(\"ld1r {%0.4s}, %1\" : \"=w\"(x) : \"Q\"(*(const f32 *)p));\n"
          "    return x;\n}\n"
          "INLINE v vrecip(v x) { return splat(1.0f) / x; }\n"
          "/* NaN when either is NaN */\n"
          "INLINE v vmax(v lo, v x) {\n"
          "    v r;\n"
          "    __asm__(\"fmax %0.4s, %1.4s, %2.4s\" : \"=w\"(r) : \"w\"(lo), \"w\"(x));\n"
          "    return r;\n}\n"
          "INLINE v vmin(v hi, v x) {\n"
          "    v r;\n"
          "    __asm__(\"fmin %0.4s, %1.4s, %2.4s\" : \"=w\"(r) : \"w\"(hi), \"w\"(x));\n"
          "    return r;\n}\n",
          out);
}

static const struct mo_emit_isa isas[MO_ISA_COUNT] = {
    [MO_ISA_BASE] =
        {.name = "base", .lanes = 4, .regs = 16, .vectors = 4, .max_acc = 12, .arithmetic = emit_plain},
    [MO_ISA_AVX2] = {.name = "avx2",
                     .lanes = 8,
                     .regs = 16,
                     .vectors = 2,
                     .max_acc = 12,
                     .permutes = true,
                     .constraint = "x",
                     .rcp = "vrcpps",
                     .own = "prefetchw",
                     .arithmetic = emit_x86},
    [MO_ISA_AVX512] = {.name = "avx512",
                       .lanes = 16,
                       .regs = 32,
                       .vectors = 1,
                       .max_acc = 28,
                       .folds = true,
                       .permutes = true,
                       .constraint = "v",
                       .rcp = "vrcp14ps",
                       .own = "prefetchw",
                       .arithmetic = emit_x86},
    [MO_ISA_NEON] = {.name = "neon",
                     .lanes = 4,
                     .regs = 32,
                     .vectors = 4,
                     .max_acc = 20,
                     .by_lane = true,
                     .constraint = "w",
                     .arithmetic = emit_neon},
};

const struct mo_emit_isa *mo_emit_isa(enum mo_isa isa) {
    return &isas[isa];
}

const struct mo_emit_isa *mo_emit_isa_halves(enum mo_isa isa) {
    static const struct mo_emit_isa halves = {.name = "avx512",
                                              .lanes = 8,
                                              .regs = 32,
                                              .vectors = 2,
                                              .max_acc = 28,
                                              .folds = true,
                                              .permutes = true,
                                              .constraint = "v",
                                              .rcp = "vrcp14ps",
                                              .own = "prefetchw",
                                              .arithmetic = emit_x86};
    return isa == MO_ISA_AVX512 ? &halves : NULL;
}

void mo_emit_vectors(FILE *out, const struct mo_emit_isa *isa) {
    emit_types(out, isa);
    isa->arithmetic(out, isa);
}

void mo_emit_prelude(FILE *out, const struct mo_emit_isa *isa) {
    mo_emit_vectors(out, isa);
    fputs(
        "INLINE v load_part(const char *p, int n) {\n"
        "    v x = {0};\n    for (int i = 0; i < n; i++) x[i] = ((const f32 *)p)[i];\n    return x;\n}\n"
        "INLINE void store_part(char *p, v x, int n) { for (int i = 0; i < n; i++) ((f32 *)p)[i] = x[i]; }\n"
        "INLINE v vselect(vi m, v a, v b) { return (v)(((vi)a & m) | ((vi)b & ~m)); }\n"
        "INLINE v vrelu(v x) { return vmax(splat(0.0f), x); }\n\n",
        out);
}

void mo_emit_named(FILE *out, const char *format, ...) {
    char name[64];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    fprintf(out, "#define %s NAMED(%s)\n", name, name);
}

/* Functions are called after their layer, moire_conv_..._tile_b1_r0_c0, for whoever looks with a profiler.
 * run() has no #define, since a field of the descriptor has its name. */
void mo_emit_names(FILE *out, const char *signature) {
    static const char *const usual[] = {"input",    "input_edge",   "input_one", "input_block", "output",
                                        "spans_of", "output_tiles", "multiply",  "unit",        "pack",
                                        "gate",     "gate_rows",    "finish",    "copy_rows"};
    fputs("#define NAMED(f) moire_", out);
    for (const char *s = signature; *s; s++)
        fputc(isalnum((unsigned char)*s) ? *s : '_', out);
    fputs("_##f\n", out);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        mo_emit_named(out, "%s", usual[i]);
    fputc('\n', out);
}

void mo_emit_gate(FILE *out, const struct mo_emit_isa *isa) {
    fputs("static void gate_rows(char *to, const char *from, const char *factors, i64 n) {\n"
          "    for (i64 k = 0; k < n; k++) {\n"
          "        const v factor = broadcast(factors + k * 4);\n",
          out);
    for (int i = 0; i < isa->vectors; i++)
        fprintf(out, "        store(to + k * 64 + %d, load(from + k * 64 + %d) * factor);\n",
                i * isa->lanes * 4, i * isa->lanes * 4);
    fputs("    }\n}\n\n", out);
}

void mo_emit_own(FILE *out, const struct mo_emit_isa *isa) {
    if (isa->own)
        fprintf(out, "INLINE void own(char *p) { __asm__ volatile(\"%s %%0\" : : \"m\"(*p)); }\n", isa->own);
    else
        fputs("INLINE void own(char *p) { __builtin_prefetch(p, 1); }\n", out);
}

void mo_emit_float(FILE *out, float x) {
    if (isnan(x))
        fputs("__builtin_nanf(\"\")", out);
    else if (isinf(x))
        fputs(x < 0 ? "-__builtin_inff()" : "__builtin_inff()", out);
    else
        fprintf(out, "%af", (double)x);
}

void mo_emit_abi(FILE *out) {
    fprintf(out,
            "struct mo_kargs {\n"
            "    const void *in[%d];\n"
            "    void *out[%d];\n"
            "    i64 in_image[%d], out_image[%d];\n"
            "    const void *weights;\n"
            "    const float *bias;\n"
            "    const void *residual;\n"
            "    i64 residual_image;\n"
            "    const void *params;\n"
            "};\n"
            "struct mo_variant {\n"
            "    int abi, packing;\n"
            "    i64 units, scratch_bytes, parallelism_milli, block_bytes, l3_bytes, flops_executed;\n"
            "    i64 mixes;\n"
            "    void (*run)(const struct mo_kargs *, i64, i64, void *);\n"
            "    const char *name;\n"
            "};\n\n",
            MO_KERNEL_IN, MO_KERNEL_OUT, MO_KERNEL_IN, MO_KERNEL_OUT);
}
