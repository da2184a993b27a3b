/* SPDX-License-Identifier: Apache-2.0
 * prelude_neon_dot.c - the arithmetic of aarch64's sets that multiply bytes.
 *
 * `sdot` multiplies signed bytes only.  Pixels are unsigned, so its set takes 128 off each (the highest bit
 * is flipped) and starts sums at 128 times the sum of the weights, which lies behind these in memory: what
 * pads hold is then a factor like any other, and no tap may be left out.  I8MM has products of unsigned by
 * signed bytes and needs none of that.
 *
 * A file asks compilers for the extension by itself, so that no flag is needed for it. */
#include "codegen/emit/emit.h"

/* Four products are added to each int32 of a: of x's lanes, or of one of them for all. */
static void emit_products(FILE *out, const struct mo_emit_isa *isa) {
    fprintf(out,
            "INLINE v mac(v a, v w, v x) {\n"
            "    __asm__(\"%s\" : \"+w\"(a) : \"w\"(w), \"w\"(x));\n"
            "    return a;\n}\n",
            isa->flips ? "sdot %0.4s, %1.16b, %2.16b" : "usdot %0.4s, %2.16b, %1.16b");
    for (int lane = 0; lane < isa->lanes; lane++)
        fprintf(out,
                "INLINE v mac_lane%d(v a, v w, v x) {\n"
                "    __asm__(\"%s %%0.4s, %%1.16b, %%2.4b[%d]\" : \"+w\"(a) : \"w\"(w), \"w\"(x));\n"
                "    return a;\n}\n",
                lane, isa->flips ? "sdot" : "sudot", lane);
}

static void emit_pixels(FILE *out, const struct mo_emit_isa *isa) {
    if (isa->flips)
        fputs("/* Unsigned bytes less 128. */\n"
              "INLINE v flip(v x) { return (v)((vi)x ^ (int)0x80808080); }\n"
              "INLINE v pixel(const char *p) { return flip(load(p)); }\n"
              "/* 128 times the sums of weights are added to what sums of unsigned pixels start from. */\n"
              "INLINE void start_sums(char *to, const char *bias, const char *sums, i64 blocks) {\n"
              "    for (i64 i = 0; i < blocks * 64; i += sizeof(v))\n"
              "        store(to + i, (v)((vi)load(bias + i) + ((vi)load(sums + i) << 7)));\n}\n",
              out);
    fprintf(out,
            "INLINE v broadcast(const char *p) {\n"
            "    v x;\n"
            "    __asm__(\"ld1r {%%0.4s}, %%1\" : \"=w\"(x) : \"Q\"(*(const f32 *)p));\n"
            "    return %s;\n}\n",
            isa->flips ? "flip(x)" : "x");
    for (int high = 0; high < 2; high++)
        fprintf(out,
                "INLINE v zip%d(v a, v b) {\n"
                "    __asm__(\"zip%d %%0.16b, %%0.16b, %%1.16b\" : \"+w\"(a) : \"w\"(b));\n"
                "    return a;\n}\n",
                high + 1, high + 1);
    fputs("/* Four pixels of 16 bytes, by channel. */\n"
          "INLINE void turn(const char *p, v *x0, v *x1, v *x2, v *x3) {\n"
          "    const v a = load(p), b = load(p + 16), c = load(p + 32), d = load(p + 48);\n"
          "    const v even = zip1(a, c), odd = zip1(b, d), even_high = zip2(a, c), odd_high = zip2(b, d);\n"
          "    *x0 = zip1(even, odd), *x1 = zip2(even, odd);\n"
          "    *x2 = zip1(even_high, odd_high), *x3 = zip2(even_high, odd_high);\n}\n",
          out);
}

/* The 16 bytes of a pixel, of four vectors of sums. */
static void emit_pack(FILE *out) {
    fputs("INLINE v whole(v a, const char *f, const char *b) {\n"
          "    v x = load(b);\n"
          "    __asm__(\"scvtf %1.4s, %1.4s\\n\\tfmla %0.4s, %1.4s, %2.4s\\n\\tfcvtns %0.4s, %0.4s\"\n"
          "            : \"+&w\"(x), \"+&w\"(a) : \"w\"(load(f)));\n"
          "    return x;\n}\n"
          "typedef float quarter __attribute__((vector_size(16), aligned(4), may_alias));\n"
          "INLINE v narrow(v a, v b) {\n"
          "    __asm__(\"sqxtn %0.4h, %0.4s\\n\\tsqxtn2 %0.8h, %1.4s\" : \"+&w\"(a) : \"w\"(b));\n"
          "    return a;\n}\n"
          "INLINE v packed(v a, v b, v c, v d, const struct mo_tile_pack *p) {\n"
          "    v x = narrow(a, b), y = narrow(c, d);\n"
          "    const v zero = load((const char *)p->zero), lo = load((const char *)p->lo);\n"
          "    const v hi = load((const char *)p->hi);\n"
          "    __asm__(\"sqadd %0.8h, %0.8h, %2.8h\\n\\tsqadd %1.8h, %1.8h, %2.8h\\n\\t\"\n"
          "            \"sqxtun %0.8b, %0.8h\\n\\tsqxtun2 %0.16b, %1.8h\\n\\t\"\n"
          "            \"umax %0.16b, %0.16b, %3.16b\\n\\tumin %0.16b, %0.16b, %4.16b\"\n"
          "            : \"+&w\"(x), \"+&w\"(y) : \"w\"(zero), \"w\"(lo), \"w\"(hi));\n"
          "    return x;\n}\n"
          "INLINE void pack(char *y, v a, v b, v c, v d, const struct mo_tile_pack *p, int pixels) {\n"
          "    (void)pixels; /* one */\n"
          "    store(y, packed(a, b, c, d, p));\n}\n"
          "INLINE void pack_apart(char *y, i64 row, v a, v b, v c, v d, const struct mo_tile_pack *p,\n"
          "                       int pixels) {\n"
          "    (void)row;\n"
          "    pack(y, a, b, c, d, p, pixels);\n}\n",
          out);
}

void mo_emit_neon_dot(FILE *out, const struct mo_emit_isa *isa) {
    emit_products(out, isa);
    emit_pixels(out, isa);
    emit_pack(out);
}

void mo_emit_set_begin(FILE *out, const struct mo_emit_isa *isa) {
    if (!isa->extension) return;
    fprintf(out,
            "#if defined(__clang__)\n"
            "#pragma clang attribute push(__attribute__((target(\"%s\"))), apply_to = function)\n"
            "#else\n"
            "#pragma GCC target(\"arch=armv8.2-a+%s\")\n"
            "#endif\n",
            isa->extension, isa->extension);
}

void mo_emit_set_end(FILE *out, const struct mo_emit_isa *isa) {
    if (isa->extension) fputs("#if defined(__clang__)\n#pragma clang attribute pop\n#endif\n", out);
}
