/* SPDX-License-Identifier: Apache-2.0
 * winograd_products.c - the alpha^2 products of V with transformed filters.
 *
 * One function a width of register tile, for whole register tiles of output blocks and for the last, shorter
 * one; one plane of the alpha^2 after the other, so that a product reads one stream of weights a block.  At
 * stride 2 the planes of odd pixels have the same filters: (m + 2)^2 different ones. */
#include "codegen/family/walk.h"
#include "codegen/family/winograd.h"

static long long ll(int64_t x) {
    return x;
}

static struct mo_mac mac_of(const struct mo_wino *w, int blocks, int tiles, const char *ahead) {
    return (struct mo_mac){
        .isa = w->isa, .blocks = blocks, .rows = 1, .cols = tiles, .px = 64, .ahead = ahead};
}

/* The product of one register tile and one of the alpha^2 planes, stored to M. */
static void emit_product(FILE *out, const struct mo_wino *w, int blocks, int tiles) {
    char ahead[24];
    snprintf(ahead, sizeof ahead, "%lld", ll(w->ahead));
    struct mo_mac mac = mac_of(w, blocks, tiles, w->ahead ? ahead : NULL);
    int64_t tail = w->p->c % 16, full = w->p->c / 16;
    mo_emit_named(out, "product_b%d_t%d", blocks, tiles);
    fprintf(out,
            "static __attribute__((noinline)) void product_b%d_t%d(const char *x0, const char *q0, char *m) "
            "{\n",
            blocks, tiles);
    mo_mac_open_product(out, &mac, w->u_block);
    fprintf(out,
            "    for (i64 i = 0; i < %lld; i++, x0 += %d)\n        for (i64 s = 0; s < 4; s++, q0 += 256",
            ll(full), tiles * 64 - 64);
    for (int b = 1; b < blocks; b++)
        fprintf(out, ", q%d += 256", b);
    fputs(", x0 += 16) {\n", out);
    mo_mac_channels(out, &mac, 12, 4, ~0ull);
    fputs("        }\n", out);
    mo_mac_channels(out, &mac, 4, (int)tail, ~0ull);
    mo_mac_close_product(out, &mac, w->m_block);
}

/* Output blocks of the last register tile, when it is shorter; else 0. */
static int short_blocks(const struct mo_wino *w) {
    return (int)(w->ocb % w->blocks);
}

/* products[last register tile is shorter][tiles] */
static void emit_table(FILE *out, const struct mo_wino *w) {
    uint64_t widths = mo_wino_widths(w);
    int last = short_blocks(w);
    for (int t = 1; t <= w->cut; t++) {
        if (!(widths >> t & 1)) continue;
        if (w->ocb >= w->blocks) emit_product(out, w, w->blocks, t);
        if (last) emit_product(out, w, last, t);
    }
    fprintf(out,
            "typedef void product_fn(const char *, const char *, char *);\n"
            "static product_fn *const products[2][%d] = {\n",
            w->cut + 1);
    for (int k = 0; k < 2; k++) {
        int blocks = k && last ? last : w->blocks;
        fputs("    {", out);
        for (int t = 1; t <= w->cut; t++)
            if (widths >> t & 1) fprintf(out, "[%d] = product_b%d_t%d, ", t, blocks, t);
        fputs("},\n", out);
    }
    fputs("};\n\n", out);
}

void mo_wino_emit_products(FILE *out, const struct mo_wino *w) {
    const int cols = w->whole_across.alpha;
    emit_table(out, w);
    fprintf(out,
            "INLINE i64 filter_of(i64 p) { return cap(p / %d, %d) * %d + cap(p %% %d, %d); }\n"
            "static const unsigned char class_of[] = {",
            cols, w->whole_down.lines - 1, w->whole_across.lines, cols, w->whole_across.lines - 1);
    for (int p = 0; p < w->square; p++)
        fprintf(out, "%d, ", mo_wino_class(w, p / cols, p % cols));
    fprintf(
        out,
        "};\n\n"
        "static void multiply(const struct mo_kargs *a, i64 b0, i64 b1, const struct span *spans, const char "
        "*V, char *M, struct fetches *f) {\n"
        "    for (i64 p = 0; p < %lld; p++) {\n"
        "        const struct span *s = &spans[class_of[p]];\n"
        "        char *m = M + p * %lld + s->at * 64;\n"
        "        for (i64 b = b0; b < b1; b += %d)\n"
        "            for (i64 j = 0; j < s->cuts; j++) {\n"
        "                const i64 t = cut_at(j, s), n = cut_at(j + 1, s) - t;\n",
        ll(w->square), ll(w->m_plane), w->blocks);
    fprintf(out,
            "                products[b + %d > b1][n](V + p * %lld + t * %lld,\n"
            "                    (const char *)a->weights + b * %lld + filter_of(p) * %lld, m + (b - b0) * "
            "%lld + t "
            "* 64);\n"
            "                fetch(a, f);\n            }\n    }\n}\n\n",
            w->blocks, ll(w->v_plane), ll(w->icb * 64), ll(w->u_block), ll(w->u_plane), ll(w->m_block));
}
