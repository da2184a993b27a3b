/* SPDX-License-Identifier: Apache-2.0
 * prelude_dot.c - the table of sets that multiply bytes, and their arithmetic: vectors are of floats in name
 * only.
 *
 * AVX2 has an instruction for products of bytes, too, but it saturates sums of two at 16 bits.  So its row
 * multiplies numbers of 16 bits, two at a time, which is exact: weights are packed so, and pixels are widened
 * to a buffer, a tap ahead of its products.  NEON's arithmetic is in prelude_neon_dot.c. */
#include "codegen/emit/emit.h"

#include <string.h>

/* Whole numbers of sums: bytes of as many pixels as four vectors hold.  Constants are operands in memory:
 * accumulators fill the registers. */
static void emit_pack(FILE *out, const struct mo_emit_isa *isa) {
    static const char *const two[][2] = {{"narrow", "vpackssdw"}, {"bytes", "vpackuswb"}};
    static const char *const with[][2] = {
        {"shifted", "vpaddsw"}, {"at_least", "vpmaxub"}, {"at_most", "vpminub"}};
    const char *c = isa->constraint;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        fprintf(out,
                "INLINE v %s(v a, v b) {\n"
                "    v x;\n    __asm__(\"%s %%2, %%1, %%0\" : \"=%s\"(x) : \"%s\"(a), \"%s\"(b));\n"
                "    return x;\n}\n",
                two[i][0], two[i][1], c, c, c);
    for (size_t i = 0; i < sizeof with / sizeof *with; i++)
        fprintf(out,
                "INLINE v %s(v a, const void *p) {\n"
                "    __asm__(\"%s %%1, %%0, %%0\" : \"+%s\"(a) : \"m\"(*(const vu *)p));\n"
                "    return a;\n}\n",
                with[i][0], with[i][1], c);
    fprintf(out,
            "INLINE v whole(v a, const char *f, const char *b) {\n"
            "    v x = __builtin_convertvector((vi)a, v) * load(f) + load(b);\n"
            "    __asm__(\"vcvtps2dq %%0, %%0\" : \"+%s\"(x));\n"
            "    return x;\n}\n",
            c);
    if (isa->vectors == 1)
        fputs("typedef float half __attribute__((vector_size(32), aligned(4), may_alias));\n", out);
    fprintf(out,
            "typedef float quarter __attribute__((vector_size(16), aligned(4), may_alias));\n"
            "/* Stores are plain C, so that MemorySanitizer sees them. */\n"
            "INLINE v packed(v a, v b, v c, v d, const struct mo_tile_pack *p) {\n"
            "    v x = bytes(shifted(narrow(a, b), p->zero), shifted(narrow(c, d), p->zero));\n"
            "    x = at_most(at_least(x, p->lo), p->hi);\n"
            "    __asm__(\"vpermd %%0, %%1, %%0\" : \"+%s\"(x) : \"%s\"(load((const char *)across)));\n"
            "    return x;\n}\n"
            "INLINE void pack(char *y, v a, v b, v c, v d, const struct mo_tile_pack *p, int pixels) {\n"
            "    v x = packed(a, b, c, d, p);\n"
            "    if (pixels == %d) store(y, x);\n",
            c, c, 4 / isa->vectors);
    if (isa->vectors == 1)
        fputs("    if (pixels == 2 || pixels == 3)\n"
              "        *(half *)y = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7);\n"
              "    if (pixels == 3) *(quarter *)(y + 32) = __builtin_shufflevector(x, x, 8, 9, 10, 11);\n",
              out);
    fputs("    if (pixels == 1) *(quarter *)y = __builtin_shufflevector(x, x, 0, 1, 2, 3);\n"
          "}\n",
          out);
    fputs("/* Pixels that lie apart. */\n"
          "INLINE void pack_apart(char *y, i64 row, v a, v b, v c, v d, const struct mo_tile_pack *p,\n"
          "                       int pixels) {\n"
          "    v x = packed(a, b, c, d, p);\n",
          out);
    for (int k = 0; k < 4 / isa->vectors; k++)
        fprintf(out,
                "    if (pixels > %d)\n"
                "        *(quarter *)(y + %d * row) = __builtin_shufflevector(x, x, %d, %d, %d, %d);\n",
                k, k, 4 * k, 4 * k + 1, 4 * k + 2, 4 * k + 3);
    fputs("}\n", out);
}

static void emit_broadcast(FILE *out, const char *constraint) {
    fprintf(out,
            "INLINE v broadcast(const char *p) {\n"
            "    v x;\n"
            "    __asm__(\"vbroadcastss %%1, %%0\" : \"=%s\"(x) : \"m\"(*(const f32 *)p));\n"
            "    return x;\n}\n",
            constraint);
}

/* Four products of unsigned bytes of x and signed bytes of w are added to each int32 of a. */
static void emit_vnni(FILE *out, const struct mo_emit_isa *isa) {
    fputs("INLINE v mac(v a, v w, v x) {\n"
          "    __asm__(\"vpdpbusd %1, %2, %0\" : \"+v\"(a) : \"v\"(w), \"v\"(x));\n"
          "    return a;\n}\n",
          out);
    emit_broadcast(out, isa->constraint);
    fputs("static const int across[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};\n"
          "static const int within[16] = {0x0c080400, 0x0d090501, 0x0e0a0602, 0x0f0b0703, 0x0c080400, "
          "0x0d090501,\n"
          "    0x0e0a0602, 0x0f0b0703, 0x0c080400, 0x0d090501, 0x0e0a0602, 0x0f0b0703, 0x0c080400, "
          "0x0d090501,\n"
          "    0x0e0a0602, 0x0f0b0703};\n"
          "/* x: four pixels of 16 bytes, by channel */\n"
          "INLINE v columns(const char *p) {\n"
          "    v x;\n"
          "    __asm__(\"vpermd %2, %1, %0\" : \"=v\"(x) : \"v\"(load((const char *)across)), "
          "\"m\"(*(const vu *)p));\n"
          "    __asm__(\"vpshufb %1, %0, %0\" : \"+v\"(x) : \"v\"(load((const char *)within)));\n"
          "    return x;\n}\n"
          "INLINE v mac_load(v a, v w, const char *p) { return mac(a, w, columns(p)); }\n",
          out);
    emit_pack(out, isa);
}

/* What sets of 256 bits have besides mac(): eight channels of a pixel in both halves, and of two pixels by
 * channel. */
static void emit_columns(FILE *out) {
    fputs("static const int across[8] = {0, 4, 1, 5, 2, 6, 3, 7};\n"
          "typedef i64 eight __attribute__((aligned(1), may_alias));\n"
          "INLINE v twice(const char *p) {\n"
          "    v x;\n"
          "    __asm__(\"vpbroadcastq %1, %0\" : \"=x\"(x) : \"m\"(*(const eight *)p));\n"
          "    return x;\n}\n"
          "INLINE v two_columns(const char *p) {\n"
          "    v x = twice(p);\n"
          "    __asm__(\"vpunpcklbw %1, %0, %0\" : \"+x\"(x) : \"x\"(twice(p + 16)));\n"
          "    return x;\n}\n",
          out);
}

/* The same arithmetic as AVX512 VNNI's in half the width. */
static void emit_avx_vnni(FILE *out, const struct mo_emit_isa *isa) {
    fputs("INLINE v mac(v a, v w, v x) {\n"
          "    __asm__(\"%{vex%} vpdpbusd %1, %2, %0\" : \"+x\"(a) : \"x\"(w), \"x\"(x));\n"
          "    return a;\n}\n",
          out);
    emit_broadcast(out, isa->constraint);
    emit_columns(out);
    fputs("/* Eight channels of four pixels, by channel. */\n"
          "INLINE v columns(const char *p) {\n"
          "    v a = two_columns(p), b = two_columns(p + 32), x;\n"
          "    __asm__(\"vpunpcklwd %2, %1, %0\" : \"=x\"(x) : \"x\"(a), \"x\"(b));\n"
          "    __asm__(\"vpunpckhwd %1, %0, %0\" : \"+x\"(a) : \"x\"(b));\n"
          "    __asm__(\"vpblendd $0xf0, %1, %0, %0\" : \"+x\"(x) : \"x\"(a));\n"
          "    return x;\n}\n",
          out);
    emit_pack(out, isa);
}

/* Two products of int16 are added to each int32 of a. */
static void emit_pairs(FILE *out, const struct mo_emit_isa *isa) {
    fputs("INLINE v mac(v a, v w, v x) {\n"
          "    v product;\n"
          "    __asm__(\"vpmaddwd %2, %3, %1\\n\\tvpaddd %1, %0, %0\" : \"+x\"(a), \"=&x\"(product) : "
          "\"x\"(w), \"x\"(x));\n"
          "    return a;\n}\n",
          out);
    emit_broadcast(out, isa->constraint);
    emit_columns(out);
    fputs(
        "/* The first eight bytes of the lower half and the last eight of the upper one, as numbers of 16 "
        "bits. */\n"
        "static const unsigned char apart[32] = {0, 128, 1, 128, 2, 128, 3, 128, 4, 128, 5, 128, 6, 128, 7,\n"
        "    128, 8, 128, 9, 128, 10, 128, 11, 128, 12, 128, 13, 128, 14, 128, 15, 128};\n"
        "INLINE v spread(v x) {\n"
        "    __asm__(\"vpshufb %1, %0, %0\" : \"+x\"(x) : \"m\"(*(const vu *)apart));\n"
        "    return x;\n}\n"
        "/* Eight channels of two pixels, by channel. */\n"
        "INLINE v columns(const char *p) { return spread(two_columns(p)); }\n"
        "typedef float pixel __attribute__((vector_size(16), aligned(1), may_alias));\n"
        "/* The 16 channels of a pixel as int16. */\n"
        "INLINE void widen(char *to, const char *p) {\n"
        "    v x;\n"
        "    __asm__(\"vbroadcasti128 %1, %0\" : \"=x\"(x) : \"m\"(*(const pixel *)p));\n"
        "    store(to, spread(x));\n}\n",
        out);
    emit_pack(out, isa);
}

void mo_emit_small_abi(FILE *out) {
    fputs("struct mo_tile_pack {\n    short zero[32];\n    unsigned char lo[64], hi[64];\n};\n"
          "struct mo_small_args {\n"
          "    const float *factor, *shift;\n"
          "    const struct mo_tile_pack *pack;\n"
          "    const void *requant;\n"
          "    void (*requantize)(const void *, const void *, const float *, const float *,\n"
          "                       __INT64_TYPE__, char *, __INT64_TYPE__);\n"
          "    unsigned char zero[64];\n"
          "};\n",
          out);
}

void mo_mac_pack(FILE *out, const struct mo_mac *m, const char *y_block, const char *y_row,
                 const char *y_pixel) {
    int vectors = m->isa->vectors, pixels = 4 / vectors;
    fputs("    if (a->pack) {\n"
          "        const char *f = (const char *)a->factor, *s = (const char *)a->shift;\n",
          out);
    for (int b = 0; b < m->blocks; b++)
        for (int row = 0; row < m->rows; row++)
            for (int col = 0; col < m->cols; col += pixels) {
                int n = m->cols - col < pixels ? m->cols - col : pixels;
                fprintf(out, "        pack%s(y + %d * %s + %d * %s + %d", y_pixel ? "_apart" : "", b, y_block,
                        row, y_row, y_pixel ? col : col * 16);
                if (y_pixel) fprintf(out, " * %s, %s", y_pixel, y_pixel);
                for (int k = 0; k < 4; k++) {
                    int r = b * vectors + k % vectors, pixel = k / vectors < n ? k / vectors : 0;
                    fprintf(out, ", whole(a%d_%d, f + %d, s + %d)", r, row * m->cols + col + pixel,
                            r * m->isa->lanes * 4, r * m->isa->lanes * 4);
                }
                fprintf(out, ", a->pack, %d);\n", n);
            }
    fputs("    } else {\n", out);
}

const struct mo_emit_isa *mo_emit_isa_of_dot(enum mo_dot dot) {
    static const char *const names[MO_DOT_COUNT] = {[MO_DOT_AVX512_VNNI] = "avx512vnni",
                                                    [MO_DOT_AVX_VNNI] = "avxvnni",
                                                    [MO_DOT_AVX2] = "avx2pairs",
                                                    [MO_DOT_NEON] = "neondot",
                                                    [MO_DOT_NEON_I8MM] = "neoni8mm"};
    return names[dot] ? mo_emit_isa_dot(names[dot]) : NULL;
}

const struct mo_emit_isa *mo_emit_isa_dot(const char *name) {
    static const struct mo_emit_isa sets[] = {{.name = "avx512vnni",
                                               .lanes = 16,
                                               .regs = 32,
                                               .vectors = 1,
                                               .max_acc = 28,
                                               .constraint = "v",
                                               .arithmetic = emit_vnni},
                                              {.name = "avxvnni",
                                               .lanes = 8,
                                               .regs = 16,
                                               .vectors = 2,
                                               .max_acc = 12,
                                               .constraint = "x",
                                               .arithmetic = emit_avx_vnni},
                                              {.name = "avx2pairs",
                                               .lanes = 8,
                                               .regs = 16,
                                               .vectors = 2,
                                               .max_acc = 12,
                                               .pairs = true,
                                               .constraint = "x",
                                               .arithmetic = emit_pairs},
                                              {.name = "neondot",
                                               .lanes = 4,
                                               .regs = 32,
                                               .vectors = 4,
                                               .max_acc = 20,
                                               .by_lane = true,
                                               .flips = true,
                                               .extension = "dotprod",
                                               .constraint = "w",
                                               .arithmetic = mo_emit_neon_dot},
                                              {.name = "neoni8mm",
                                               .lanes = 4,
                                               .regs = 32,
                                               .vectors = 4,
                                               .max_acc = 20,
                                               .by_lane = true,
                                               .extension = "i8mm",
                                               .constraint = "w",
                                               .arithmetic = mo_emit_neon_dot}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (!strcmp(name, sets[i].name)) return &sets[i];
    return NULL;
}
