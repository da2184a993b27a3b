/* SPDX-License-Identifier: Apache-2.0
 * winograd_half.c - the alpha^2 products of V with half-transformed filters (variants/winograd_matrices.h).
 *
 * Three functions a width of register tile: `pair`, two columns of a row whose points are +p and -p, which
 * also leaves their filters in the scratch where the block of tiles has more register tiles; `again`, which
 * finds them there; and `ends`, the columns of 0 and of infinity, which are filter columns as they are: both
 * at once, or one after the other where the last tiles of a row have only the first.  All passes over a row
 * read the same three vectors an input channel: the first comes from memory, the others find them in the
 * private cache.  So the next row is fetched by equal parts in the first three passes, a line an input
 * channel; into the private cache and not the first level, which the row's own vectors and V need. */
#include "codegen/family/winograd.h"

enum { LINES = 3, GROUP = 4 }; /* of an input channel; input channels of an unrolled step */
enum columns { PAIR, AGAIN, ENDS, COLUMNS };
static const char *const names[COLUMNS] = {[PAIR] = "pair", [AGAIN] = "again", [ENDS] = "ends"};
static const char *const tables[COLUMNS] = {[PAIR] = "pairs", [AGAIN] = "agains", [ENDS] = "ends"};

static long long ll(int64_t x) {
    return x;
}

static int pairs_of(const struct mo_wino *w) {
    return (w->matrix.points - w->matrix.infinity) / 2;
}

/* Whether tails have the column of 0 and not that of infinity. */
static bool apart(const struct mo_wino *w) {
    return w->matrix.infinity && !w->across.infinity;
}

/* Planes of the alpha^2 that a function does: two, but for ends that come alone. */
static int planes_of(const struct mo_wino *w, enum columns kind) {
    return kind == ENDS && (!w->matrix.infinity || apart(w)) ? 1 : 2;
}

/* Filters of the planes for input channel `channel` of the step: u0, u1.  The product is kept from becoming
 * part of both sums: cores that multiply and add on different ports do four operations as fast as two. */
static void emit_filters(FILE *out, const struct mo_wino *w, enum columns kind, int channel) {
    long at = channel * LINES * 64L, kept = channel * 128L;
    if (kind == AGAIN) fprintf(out, "            u0 = load(u + %ld); u1 = load(u + %ld);\n", kept, kept + 64);
    if (kind == ENDS) fprintf(out, "            u0 = load(q + %ld);\n", at);
    if (kind == ENDS && planes_of(w, kind) > 1) fprintf(out, "            u1 = load(q + %ld);\n", at + 128);
    if (kind != PAIR) return;
    fprintf(out,
            "            odd = load(q + %ld) * p; u0 = load(q + %ld) + load(q + %ld) * p2;\n"
            "            __asm__(\"\" : \"+%s\"(odd));\n"
            "            u1 = u0 - odd; u0 = u0 + odd;\n",
            at + 64, at, at + 128, w->isa->constraint);
    if (w->kept) fprintf(out, "            store(u + %ld, u0); store(u + %ld, u1);\n", kept, kept + 64);
}

/* The multiply-adds of GROUP input channels. */
static void emit_step(FILE *out, const struct mo_wino *w, enum columns kind, int tiles) {
    for (int c = 0; c < GROUP; c++) {
        emit_filters(out, w, kind, c);
        if (kind != AGAIN) fprintf(out, "            __builtin_prefetch(ahead + %d, 0, 2);\n", c * 64);
        for (int t = 0; t < tiles; t++) {
            fputs("           ", out);
            for (int k = 0; k < planes_of(w, kind); k++)
                fprintf(out, " a%d_%d = mac_fold(a%d_%d, u%d, x%d + %d);", k, t, k, t, k, k, t * 64 + c * 4);
            fputc('\n', out);
        }
    }
}

static void emit_columns(FILE *out, const struct mo_wino *w, enum columns kind, int tiles) {
    int planes = planes_of(w, kind);
    int64_t next = kind == ENDS ? w->matrix.alpha - 1 : 1; /* planes from the one to the other */
    struct mo_mac mac = {.isa = w->isa, .blocks = planes, .rows = 1, .cols = tiles};
    mo_emit_named(out, "%s_t%d", names[kind], tiles);
    fprintf(out,
            "static __attribute__((noinline)) void %s_t%d(const char *x0, const char *q, char *m, const char "
            "*ahead, const f32 *point, char *u) {\n"
            "    const char *x1 = x0 + %lld;\n    v u0, u1, odd;\n"
            "    (void)x1, (void)q, (void)ahead, (void)point, (void)u, (void)u1, (void)odd;\n",
            names[kind], tiles, ll(next * w->v_plane));
    if (kind == PAIR)
        fputs("    const v p = broadcast((const char *)point), p2 = broadcast((const char *)(point + 1));\n",
              out);
    mo_mac_declare(out, &mac, 4);
    mo_mac_zero(out, &mac, 4);
    fprintf(out,
            "    for (i64 i = 0; i < %lld; i++, x0 += %d, x1 += %d)\n"
            "        for (i64 s = 0; s < %d; s++, q += %d, ahead += %d, u += %d, x0 += %d, x1 += %d) {\n",
            ll(w->icb), tiles * 64 - 64, tiles * 64 - 64, 16 / GROUP, GROUP * LINES * 64, GROUP * 64,
            GROUP * 128, GROUP * 4, GROUP * 4);
    emit_step(out, w, kind, tiles);
    fputs("        }\n", out);
    for (int k = 0; k < planes; k++)
        for (int t = 0; t < tiles; t++)
            fprintf(out, "    store(m + %lld, a%d_%d);\n", ll(k * next * w->m_plane + t * 64), k, t);
    fputs("}\n\n", out);
}

static void emit_tables(FILE *out, const struct mo_wino *w) {
    uint64_t widths = mo_wino_widths(w);
    fputs("typedef void columns_fn(const char *, const char *, char *, const char *, const f32 *, char *);\n",
          out);
    for (enum columns kind = 0; kind < COLUMNS; kind++) {
        if (kind == AGAIN && !w->kept) continue;
        for (int t = 1; t <= w->cut; t++)
            if (widths >> t & 1) emit_columns(out, w, kind, t);
        fprintf(out, "static columns_fn *const %s[] = {", tables[kind]);
        for (int t = 1; t <= w->cut; t++)
            if (widths >> t & 1) fprintf(out, "[%d] = %s_t%d, ", t, names[kind], t);
        fputs("};\n", out);
    }
    fputs("static const f32 points[][2] = {", out);
    for (int k = 0; k < pairs_of(w); k++) {
        double p = w->matrix.point[2 * k + 1];
        fputs("{", out);
        mo_emit_float(out, (float)p);
        fputs(", ", out);
        mo_emit_float(out, (float)(p * p));
        fputs("}, ", out);
    }
    fputs("};\n\n", out);
}

int mo_wino_ends(const struct mo_wino *w, int cls) {
    return cls & MO_WINO_RIGHT ? w->matrix.infinity - w->across.infinity : 1 + w->across.infinity;
}

int mo_wino_half_calls(const struct mo_wino *w, int cls) {
    int ends = mo_wino_ends(w, cls), cols = mo_wino_class_cols(w, cls);
    return mo_wino_class_rows(w, cls) * ((cols - ends) / 2 + (ends > 0));
}

/* Classes of the rows, and of the columns by pair, then 0 and infinity where they come alone. */
static void emit_classes(FILE *out, const struct mo_wino *w) {
    fputs("static const unsigned char row_class[] = {", out);
    for (int r = 0; r < w->matrix.alpha; r++)
        fprintf(out, "%d, ", mo_wino_class(w, r, 0));
    fputs("}, col_class[] = {", out);
    for (int k = 0; k < pairs_of(w); k++)
        fprintf(out, "%d, ", mo_wino_class(w, 0, 2 * k + 1));
    fprintf(out, "0, %d};\n\n", MO_WINO_RIGHT);
}

void mo_wino_emit_half(FILE *out, const struct mo_wino *w) {
    int64_t row = w->icb * 16 * LINES * 64, block = w->matrix.alpha * row;
    char ends_ahead[48] = "q";
    if (pairs_of(w) < LINES)
        snprintf(ends_ahead, sizeof ends_ahead, "j ? q : next + %lld", ll(pairs_of(w) * row / LINES));
    emit_tables(out, w);
    emit_classes(out, w);
    fprintf(out,
            "static void multiply(const struct mo_kargs *a, i64 b0, i64 b1, const struct span *spans, const "
            "char *V, char *M, struct fetches *f) {\n"
            "    const char *weights = a->weights;\n"
            "    char *u = M + %lld;\n"
            "    for (i64 r = 0; r < %d; r++)\n"
            "        for (i64 b = b0; b < b1; b++) {\n"
            "            const char *q = weights + b * %lld + r * %lld;\n"
            "            const char *next = b + 1 < b1 ? q + %lld : weights + b0 * %lld + (r + 1) * %lld;\n",
            ll(w->blocks * w->sets * w->m_block), w->matrix.alpha, ll(block), ll(row), ll(block), ll(block),
            ll(row));
    fprintf(out,
            "            for (i64 k = 0; k <= %d; k++) {\n"
            "                const struct span *s = &spans[row_class[r] | col_class[k]];\n"
            "                char *m = M + (b - b0) * %lld + r * %lld + s->at * 64;\n"
            "                for (i64 j = 0; j < s->cuts; j++) {\n"
            "                    const i64 t = cut_at(j, s), n = cut_at(j + 1, s) - t;\n"
            "                    const char *x = V + r * %lld + t * %lld;\n",
            pairs_of(w) + apart(w), ll(w->m_block), ll(w->matrix.alpha * w->m_plane),
            ll(w->matrix.alpha * w->v_plane), ll(w->icb * 64));
    fprintf(
        out,
        "                    if (k >= %d)\n"
        "                        ends[n](x + (k - %d) * %lld, q + (k - %d) * 128, m + (k - %d) * %lld + t * "
        "64,\n                            %s, 0, u);\n"
        "                    else\n"
        "                        (%s)[n](x + (2 * k + 1) * %lld, q, m + (2 * k + 1) * %lld + t * 64,\n"
        "                            next + k * %lld, points[k], u);\n"
        "                    fetch(a, f);\n                }\n            }\n        }\n}\n\n",
        pairs_of(w), pairs_of(w), ll((w->matrix.alpha - 1) * w->v_plane), pairs_of(w), pairs_of(w),
        ll((w->matrix.alpha - 1) * w->m_plane), ends_ahead, w->kept ? "j ? agains : pairs" : "pairs",
        ll(w->v_plane), ll(w->m_plane), ll(row / LINES));
}
