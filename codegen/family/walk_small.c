/* SPDX-License-Identifier: Apache-2.0
 * walk_small.c - what a walk over 8-bit numbers emits of its own: the end of a tile, where int32 sums become
 * bytes or floats by factors that come with the query's arguments (variants/small_args.h).
 *
 * Layers whose output is uint8 without a further activation write it from registers; others hand the sums of
 * a tile, block by block, to the library's requantize(). */
#include "codegen/family/walk.h"

void mo_walk_small_head(FILE *out, const struct mo_walk *w, const char *name) {
    fprintf(out, "/* %s\n * %s */\n", w->p->signature, name);
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

void mo_walk_small_set(FILE *out, int indent) {
    fprintf(out,
            "%*sconst struct mo_small_args *args = a->params;\n"
            "%*sconst struct end end = {(const char *)args->factor + first * 64, (const char *)args->shift + "
            "first * 64,\n"
            "%*s                        (const char *)args->zero, args->pack, args};\n",
            indent, "", indent, "", indent, "");
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

void mo_walk_small_finish(FILE *out, const struct mo_walk *w, const struct mo_mac *m) {
    const int pixels = m->rows * m->cols;
    char block[24], row[24];
    snprintf(block, sizeof block, "%lld", (long long)w->y_block);
    snprintf(row, sizeof row, "%lld", (long long)w->y_row);
    if (w->p->to == MOIRE_U8)
        mo_mac_pack(out, m, block, row);
    else
        fputs("    {\n", out);
    emit_sums(out, m, pixels);
    for (int b = 0; b < m->blocks; b++)
        for (int i = 0; i < m->rows; i++) {
            const int64_t at = b * w->y_block + i * w->y_row;
            fprintf(
                out,
                "        a->args->requantize(a->args->requant, sums + %d, (const float *)(a->factor + %d),\n"
                "                            (const float *)(a->shift + %d), %d, y + %lld, %lld);\n",
                (b * pixels + i * m->cols) * 64, b * 64, b * 64, m->cols, (long long)at,
                (long long)w->y_pixel);
        }
    fputs("    }\n", out);
}
