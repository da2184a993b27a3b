/* SPDX-License-Identifier: Apache-2.0
 * walk_small.c - what a walk over 8-bit numbers emits of its own: the end of a tile, where int32 sums become
 * bytes or floats by factors that come with the query's arguments (variants/small_args.h).
 *
 * Layers whose output is uint8 without a further activation write it from registers; others hand the sums of
 * a tile, block by block, to the library's requantize(). */
#include "codegen/family/walk.h"

void mo_walk_small_head(FILE *out, const struct mo_walk *w, const char *name) {
    fprintf(out, "/* %s\n * %s */\n", w->p->signature, name);
    mo_emit_set_begin(out, w->isa);
    mo_emit_small_abi(out);
    mo_emit_vectors(out, w->isa);
    mo_emit_abi(out);
    fputs("/* Of a set of output blocks: factor and shift are those of its first. */\n"
          "struct end {\n"
          "    const char *factor, *shift, *zero;\n"
          "    const struct mo_tile_pack *pack;\n"
          "    const struct mo_small_args *args;\n"
          "};\n\n",
          out);
    mo_emit_names(out, w->p->signature);
    fputs("#undef pack /* here a field, too */\n\n", out);
}

void mo_walk_small_pads(FILE *out, const struct mo_walk *w) {
    fprintf(out, "    %sconst v z_ = %s;\n    (void)z_;\n",
            w->isa->pairs ? "const int zeros = *(const unsigned char *)a->zero * 0x10001;\n    " : "",
            w->isa->pairs   ? "broadcast((const char *)&zeros)"
            : w->isa->flips ? "pixel(a->zero)"
                            : "load(a->zero)");
}

/* Biases are that already but where products are of signed bytes.  Sums of weights lie behind all weights. */
void mo_walk_small_start(FILE *out, const struct mo_walk *w, int indent) {
    if (!w->isa->flips) return;
    const long long blocks = w->groups * w->ocb, set = w->blocks, block = w->w_block;
    fprintf(out,
            "%*schar start[%lld] __attribute__((aligned(64)));\n"
            "%*sconst i64 own = first + %lld < %lld ? %lld : %lld - first;\n"
            "%*sstart_sums(start, b, (const char *)a->weights + %lld + first * 64, own);\n"
            "%*sb = start;\n",
            indent, "", set * 64, indent, "", set, blocks, set, blocks, indent, "", blocks * block, indent,
            "");
}

void mo_walk_small_set(FILE *out, int indent) {
    fprintf(out,
            "%*sconst struct mo_small_args *args = a->params;\n"
            "%*sconst struct end end = {(const char *)args->factor + first * 64, (const char *)args->shift + "
            "first * 64,\n"
            "%*s                        (const char *)args->zero, args->pack, args};\n",
            indent, "", indent, "", indent, "");
}

void mo_walk_emit_widen(FILE *out, const struct mo_walk *w) {
    const long long chunks = (long long)w->row_chunks, tiles = (long long)w->row.tiles;
    const int64_t window = (w->row.taps - 1) * w->row.dilation + 1;
    fprintf(out,
            "static void widen_rows(const struct mo_kargs *a, i64 image, i64 group, i64 chunk, char *to) {\n"
            "    const i64 r0 = chunk %% %lld * %lld / %lld, r1 = (chunk %% %lld + 1) * %lld / %lld;\n"
            "    const i64 first = row_at(r0) * %lld - %lld, end = (row_at(r1) - 1) * %lld - %lld + %lld;\n"
            "    const char *from = (const char *)a->in[0] + image * a->in_image[0] + group * %lld;\n",
            chunks, tiles, chunks, chunks, tiles, chunks, (long long)w->row.stride, (long long)w->row.pad,
            (long long)w->row.stride, (long long)w->row.pad, (long long)window, (long long)w->from_group);
    fprintf(out,
            "    for (i64 plane = 0; plane < %lld; plane++)\n"
            "        for (i64 row = first < 0 ? 0 : first; row < end && row < %lld; row++)\n"
            "            for (i64 col = 0; col < %lld; col++)\n"
            "                widen(to + plane * %lld + (row - first) * %lld + col * 32,\n"
            "                      from + plane * %lld + row * %lld + col * 16);\n}\n\n",
            (long long)w->planes, (long long)w->row.in, (long long)w->col.in, (long long)w->x_plane,
            (long long)w->x_row, (long long)w->from_plane, (long long)w->from_row);
}

/* Sums of all pixels of a block follow each other. */
static void emit_sums(FILE *out, const struct mo_mac *m, int pixels) {
    const int vectors = m->isa->vectors;
    fprintf(out, "        char sums[%d] __attribute__((aligned(64)));\n", m->blocks * pixels * 64);
    for (int r = 0; r < mo_mac_vectors(m); r++)
        for (int i = 0; i < pixels; i++)
            fprintf(out, "        store(sums + %d, a%d_%d);\n",
                    (r / vectors * pixels + i) * 64 + r % vectors * m->isa->lanes * 4, r, i);
}

/* Sums of `pixels` of block b, by the library, to y + at.  Of a block that the output has no room for, by way
 * of whole pixels. */
static void emit_requantize(FILE *out, const struct mo_walk *w, int sums, int b, int pixels, int64_t at,
                            int lanes) {
    const int block = mo_walk_block(w);
    const int64_t apart = lanes < 16 ? block : w->flat ? w->y_row : w->y_pixel;
    char to[40] = "whole_pixels";
    if (lanes < 16)
        fprintf(out, "        char whole_pixels[%d] __attribute__((aligned(64)));\n", pixels * block);
    else
        snprintf(to, sizeof to, "y + %lld", (long long)at);
    fprintf(out,
            "        a->args->requantize(a->args->requant, sums + %d, (const float *)(a->factor + %d),\n"
            "                            (const float *)(a->shift + %d), %d, %s, %lld);\n",
            sums, b * 64, b * 64, pixels, to, (long long)apart);
    if (lanes < 16)
        fprintf(out,
                "        for (i64 i = 0; i < %d; i++)\n"
                "            for (i64 k = 0; k < %d; k++)\n"
                "                y[%lld + i * %lld + k] = whole_pixels[i * %d + k];\n",
                pixels, lanes * block / 16, (long long)at, (long long)w->y_row, block);
}

void mo_walk_small_finish(FILE *out, const struct mo_walk *w, const struct mo_mac *m, int lanes) {
    const int pixels = m->rows * m->cols;
    char block[24], row[24];
    snprintf(block, sizeof block, "%lld", (long long)w->y_block);
    snprintf(row, sizeof row, "%lld", (long long)w->y_row);
    if (w->p->to != MOIRE_U8 || lanes < 16)
        fputs("    {\n", out);
    else
        mo_mac_pack(out, m, block, row, w->kind == MO_WALK_GEMM ? row : NULL);
    emit_sums(out, m, pixels);
    for (int b = 0; b < m->blocks; b++)
        for (int i = 0; i < m->rows; i++)
            emit_requantize(out, w, (b * pixels + i * m->cols) * 64, b, m->cols,
                            b * w->y_block + i * w->y_row, b + 1 < m->blocks ? 16 : lanes);
    fputs("    }\n", out);
}
