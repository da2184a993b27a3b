/* SPDX-License-Identifier: Apache-2.0
 * strassen_emit.c - the C of a Strassen kernel: pairs of pixels to V, the seven products, outputs, units.
 *
 * Layout of V: [product][register tile][K block of the part][pairs of the tile][16], so that a product reads
 * one stream; of M: [output block of a set][product][pair][16]. */
#include "codegen/family/strassen.h"
#include "codegen/family/walk.h"

static long long ll(int64_t x) {
    return x;
}

/* "name0 - name3" for the coefficients (1, 0, 0, -1). */
static void emit_sum(FILE *out, const char *name, const int8_t *coefficient, int n) {
    bool any = false;
    for (int sign = 1; sign >= -1; sign -= 2) /* a positive term first */
        for (int i = 0; i < n; i++) {
            if (coefficient[i] != sign) continue;
            fprintf(out, "%s%s%d", sign < 0 ? " - " : any ? " + " : "", name, i);
            any = true;
        }
}

/* "load(p + c + 128)", or with a condition under which there is something to load, else zeros. */
static void emit_load(FILE *out, const char *from, int64_t offset, const char *two, const char *more) {
    const char *and = *two && *more ? " && " : "";
    if (*two || *more) fprintf(out, "%s%s%s ? ", two, and, more);
    fprintf(out, "load(%s + %lld)", from, ll(offset));
    if (*two || *more) fputs(" : splat(0.0f)", out);
}

/* The ranges at one pair of pixels and one block of channels, combined into the planes of V. */
static void emit_input_pair(FILE *out, const struct mo_strassen *s) {
    const struct mo_strassen_scheme *scheme = s->scheme;
    fputs("/* p, q: the pixels; two: the second one exists; left: blocks of channels from here on */\n"
          "INLINE void input_pair(const char *p, const char *q, i64 two, i64 left, char *to) {\n"
          "    (void)two, (void)left;\n"
          "    for (i64 c = 0; c < 64; c += sizeof(v)) {\n",
          out);
    for (int i = 0; i < 2 * scheme->depth; i++) {
        int row = i / scheme->depth, range = i % scheme->depth;
        char more[24] = "";
        if (range && s->icb % scheme->depth) snprintf(more, sizeof more, "left > %lld", ll(range * s->kb));
        fprintf(out, "        const v x%d = ", i);
        emit_load(out, row ? "q + c" : "p + c", range * s->kb * s->x_block, row && s->pixels % 2 ? "two" : "",
                  more);
        fputs(";\n", out);
    }
    for (int p = 0; p < scheme->products; p++) {
        fprintf(out, "        store(to + c + %lld, ", ll(p * s->v_plane));
        emit_sum(out, "x", scheme->left[p], 2 * scheme->depth);
        fputs(");\n", out);
    }
    fputs("    }\n}\n\n", out);
}

/* The bytes from an image's begin to what output pixel i reads. */
static void emit_pixel_at(FILE *out, const struct mo_strassen *s) {
    const struct mo_problem *p = s->p;
    if (p->sh == 1 && p->sw == 1)
        fprintf(out, "INLINE i64 pixel_at(i64 i) { return i * %lld; }\n", ll(s->x_pixel));
    else
        fprintf(out, "INLINE i64 pixel_at(i64 i) { return (i / %lld * %lld + i %% %lld * %d) * %lld; }\n",
                ll(p->ow), ll(p->sh * p->w), ll(p->ow), p->sw, ll(s->x_pixel));
}

/* V of a chunk for input blocks [k0, k1): along the pixels of a block, or along the blocks of a row. */
static void emit_input(FILE *out, const struct mo_strassen *s) {
    static const char *const loops[2] = {"for (i64 k = k0; k < k1; k++)", "for (i64 i = 0; i < n; i++)"};
    const char *two = s->pixels % 2 ? "first + t + i + 1 < PAIRS" : "1";
    fprintf(out,
            "enum { PAIRS = %lld, KB = %lld, NB = %lld, CUT = %d };\n"
            "INLINE i64 least(i64 a, i64 b) { return a < b ? a : b; }\n"
            "INLINE i64 cut_at(i64 j, i64 count, i64 cuts) { return j * (count / cuts) + least(j, count %% "
            "cuts); }\n",
            ll(s->pairs), ll(s->kb), ll(s->nb), s->cut);
    emit_pixel_at(out, s);
    emit_input_pair(out, s);
    fprintf(
        out,
        "static void input(const char *x, i64 first, i64 count, i64 k0, i64 k1, char *V) {\n"
        "    const i64 cuts = (count + CUT - 1) / CUT;\n"
        "    for (i64 j = 0; j < cuts; j++) {\n"
        "        const i64 t = cut_at(j, count, cuts), n = cut_at(j + 1, count, cuts) - t;\n"
        "        char *to = V + t * (k1 - k0) * 64;\n"
        "        %s\n            %s {\n"
        "                const char *from = x + k * %lld;\n"
        "                input_pair(from + pixel_at(first + t + i), from + pixel_at(first + t + i + PAIRS), "
        "%s, %lld - k, to + ((k - k0) * n + i) * 64);\n            }\n    }\n}\n\n",
        loops[s->rows], loops[!s->rows], ll(s->x_block), two, ll(s->icb));
}

/* The product of one register tile over `n` input blocks, stored to M.  f: what it fetches. */
static void emit_product(FILE *out, const struct mo_strassen *s, int blocks, int pairs) {
    struct mo_mac mac = {.isa = s->isa, .blocks = blocks, .rows = 1, .cols = pairs, .px = 64, .panel = true};
    mac.fold = s->isa->folds && blocks == 1;
    mo_emit_named(out, "product_b%d_t%d", blocks, pairs);
    fprintf(
        out,
        "static __attribute__((noinline)) void product_b%d_t%d(const char *x0, const char *q0, i64 n, char "
        "*m, const char *f) {\n",
        blocks, pairs);
    mo_mac_open_product(out, &mac, 0);
    fprintf(out,
            "    (void)f;\n"
            "    for (i64 i = 0; i < n; i++, x0 += %d)\n"
            "        for (i64 s = 0; s < 4; s++, x0 += 16, q0 += %d, f += %lld) {\n",
            pairs * 64 - 64, 256 * blocks, ll(s->share));
    for (int64_t line = 0; line < s->share && s->prefetch; line += 64)
        fprintf(out, "            __builtin_prefetch(f + %lld, 0, 2);\n", ll(line));
    mo_mac_channels(out, &mac, 12, 4, ~0ull);
    fputs("        }\n", out);
    mo_mac_close_product(out, &mac, s->m_block);
}

/* products[set is the shorter last one][pairs - fewest] */
static void emit_products(FILE *out, const struct mo_strassen *s) {
    int fewest, largest, last = (int)(s->nb % s->blocks);
    mo_strassen_cuts(s, &fewest, &largest);
    for (int t = fewest; t <= largest; t++) {
        emit_product(out, s, s->blocks, t);
        if (last) emit_product(out, s, last, t);
    }
    fprintf(out,
            "typedef void product_fn(const char *, const char *, i64, char *, const char *);\n"
            "static product_fn *const products[2][%d] = {\n",
            largest - fewest + 1);
    for (int k = 0; k < 2; k++) {
        fputs("    {", out);
        for (int t = fewest; t <= largest; t++)
            fprintf(out, "product_b%d_t%d, ", k && last ? last : s->blocks, t);
        fputs("},\n", out);
    }
    fputs("};\n\n", out);
}

/* put(): one vector of the output, from the sum of a part.  The first part adds bias and early residual, the
 * last one activates; between them the sums rest in the output. */
static void emit_put(FILE *out, const struct mo_strassen *s) {
    const struct mo_fuse *f = &s->p->fuse;
    bool early = f->residual >= 0 && !f->residual_last, late = f->residual >= 0 && f->residual_last;
    fputs("INLINE void put(char *y, const char *res, i64 at, v sum, v bias, i64 part) {\n"
          "    (void)res, (void)part;\n",
          out);
    if (s->parts > 1) fputs("    if (part)\n        sum += load(y + at);\n    else\n    ", out);
    fprintf(out, "    sum += bias%s;\n", early ? " + load(res + at)" : "");
    if (s->parts > 1)
        fprintf(out, "    if (part < %lld) {\n        store(y + at, sum);\n        return;\n    }\n",
                ll(s->parts - 1));
    fprintf(out, "    store(y + at, act(sum)%s);\n}\n\n", late ? " + load(res + at)" : "");
}

/* The outputs of a pair in a range of channels. */
static void emit_column(FILE *out, const struct mo_strassen *s, int range) {
    bool ragged = range && s->ocb % s->scheme->columns;
    if (ragged) fprintf(out, "            if (left > %lld) {\n", ll(range * s->nb));
    fprintf(out, "            const v b%d = load(b + %lld);\n", range, ll(range * s->nb * 64));
    for (int row = 0; row < 2; row++) {
        fprintf(out, "            %sput(y, res, at + %lld, ", row ? "if (two) " : "",
                ll(row * s->pairs * s->y_pixel + range * s->nb * s->y_block));
        emit_sum(out, "m", s->scheme->out[row * s->scheme->columns + range], s->scheme->products);
        fprintf(out, ", b%d, part);\n", range);
    }
    if (ragged) fputs("            }\n", out);
}

/* The outputs of a chunk's pairs in some output blocks of each range: along the pixels of a block, or along
 * the blocks of a row. */
static void emit_output(FILE *out, const struct mo_strassen *s) {
    static const char *const loops[2] = {"for (i64 r = 0; r < blocks; r++)",
                                         "for (i64 i = 0; i < count; i++)"};
    const char *two = s->pixels % 2 ? "first + i + 1 < PAIRS" : "1";
    bool residual = s->p->fuse.residual >= 0;
    emit_put(out, s);
    fprintf(out,
            "static void output(const struct mo_kargs *a, i64 image, i64 first, i64 count, i64 block, i64 "
            "blocks, "
            "i64 part, const char *M) {\n"
            "    const i64 from = first * %lld + block * %lld;\n"
            "    char *y = (char *)a->out[0] + image * a->out_image[0] + from;\n"
            "    const char *res = %s;\n"
            "    %s\n        %s\n        for (i64 c = 0; c < 64; c += sizeof(v)) {\n"
            "            const i64 left = %lld - block - r, two = %s, at = i * %lld + r * %lld + c;\n"
            "            const char *m = M + r * %lld + i * 64 + c;\n"
            "            const char *b = (const char *)a->bias + (block + r) * 64 + c;\n"
            "            (void)left;\n",
            ll(s->y_pixel), ll(s->y_block),
            residual ? "(const char *)a->residual + image * a->residual_image + from" : "0", loops[s->rows],
            loops[!s->rows], ll(s->ocb), two, ll(s->y_pixel), ll(s->y_block), ll(s->m_block));
    for (int p = 0; p < s->scheme->products; p++)
        fprintf(out, "            const v m%d = load(m + %lld);\n", p, ll(p * s->m_plane));
    for (int range = 0; range < s->scheme->columns; range++)
        emit_column(out, s, range);
    fputs("        }\n}\n\n", out);
}

/* A chunk against one group of sets, for one part of the input channels. */
static void emit_unit(FILE *out, const struct mo_strassen *s) {
    int fewest, largest;
    mo_strassen_cuts(s, &fewest, &largest);
    fprintf(
        out,
        "static void unit(const struct mo_kargs *a, i64 image, i64 first, i64 count, i64 group, i64 part, "
        "i64 k0, i64 k1, const char *V, char *M) {\n"
        "    const i64 cuts = (count + CUT - 1) / CUT, end = least((group + 1) * %lld, NB);\n"
        "    for (i64 b = group * %lld; b < end; b += %d) {\n"
        "        const i64 blocks = least(%d, NB - b), panel = KB * blocks * 1024;\n"
        "        const char *w = (const char *)a->weights + b * %lld + k0 * blocks * 1024;\n"
        "        for (i64 p = 0; p < %d; p++, w += panel)\n"
        "            for (i64 j = 0; j < cuts; j++) {\n"
        "                const i64 t = cut_at(j, count, cuts), n = cut_at(j + 1, count, cuts) - t;\n",
        ll(s->sets * s->blocks), ll(s->sets * s->blocks), s->blocks, s->blocks,
        ll(s->scheme->products * s->kb * 1024), s->scheme->products);
    fprintf(out,
            "                products[b + %d > NB][n - %d](V + p * %lld + t * (k1 - k0) * 64, w, k1 - k0,\n"
            "                    M + p * %lld + t * 64, w + panel + j * (k1 - k0) * %lld);\n            }\n"
            "        output(a, image, first, count, b, blocks, part, M);\n    }\n}\n\n",
            s->blocks, fewest, ll(s->v_plane), ll(s->m_plane), ll(4 * s->share));
}

static void emit_run(FILE *out, const struct mo_strassen *s) {
    bool again = s->parts > 1;
    fprintf(out,
            "INLINE i64 chunk_at(i64 c) { return c * %lld + least(c, %lld); }\n\n"
            "static void NAMED(run)(const struct mo_kargs *a, i64 begin, i64 end, void *scratch) {\n"
            "    char *V = scratch, *M = V + %lld;\n"
            "    for (i64 u = begin%s; u < end; u++) {\n"
            "        const i64 chunk = u / %lld, image = chunk / %lld, c = chunk %% %lld;\n"
            "        const i64 first = chunk_at(c), count = chunk_at(c + 1) - first;\n"
            "        const char *x = (const char *)a->in[0] + image * a->in_image[0];\n",
            ll(s->size), ll(s->extra), ll(s->scheme->products * s->v_plane), again ? "" : ", inside = -1",
            ll(s->groups), ll(s->chunks), ll(s->chunks));
    fprintf(out,
            "        for (i64 part = 0; part < %lld; part++) {\n"
            "            const i64 k0 = cut_at(part, KB, %lld), k1 = cut_at(part + 1, KB, %lld);\n"
            "            %sinput(x, first, count, k0, k1, V);\n"
            "            unit(a, image, first, count, u %% %lld, part, k0, k1, V, M);\n        }\n"
            "%s    }\n}\n\n",
            ll(s->parts), ll(s->parts), ll(s->parts), again ? "" : "if (chunk != inside) ", ll(s->groups),
            again ? "" : "        inside = chunk;\n");
}

int mo_strassen_emit(const struct mo_strassen *s, const char *name, FILE *out, moire_error *err) {
    int64_t units = s->p->n * s->chunks * s->groups;
    mo_emit_head(out, s->p, s->isa, name);
    emit_input(out, s);
    emit_products(out, s);
    emit_output(out, s);
    emit_unit(out, s);
    emit_run(out, s);
    mo_emit_descriptor(out, &(struct mo_variant){
                                .packing = s->packing,
                                .units = units,
                                .scratch_bytes = s->scratch_bytes,
                                .parallelism_milli = 1000 * units * s->blocks * s->isa->vectors * s->cut / 28,
                                .block_bytes = s->scratch_bytes + s->kb / s->parts * s->blocks * 1024,
                                .l3_bytes = mo_strassen_l3_bytes(s),
                                .flops_executed = mo_strassen_flops(s),
                                .mixes = 1,
                                .name = name});
    return ferror(out) ? mo_fail(err, MOIRE_EIO, "cannot write emitted C") : MOIRE_OK;
}
