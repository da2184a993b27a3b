/* SPDX-License-Identifier: Apache-2.0
 * winograd_emit.c - the C of a Winograd kernel: input tiles to V, output tiles, units.
 *
 * Layout of V: [alpha^2][register tile][IC/16][tiles of it][16], so that a product reads one stream; of M:
 * [output block][alpha^2][tile][16]. */
#include <string.h>
#include "codegen/family/walk.h"
#include "codegen/family/winograd.h"

static long long ll(int64_t x) {
    return x;
}

/* One input tile whose rows are `row` bytes apart: BT d BT^T of each part of 16 channels, to the planes of V.
 * One output tile: AT m AT^T, epilogue, and the stores of the `rows` x `cols` pixels that exist. */
static void emit_input_tile(FILE *out, const struct mo_wino *w) {
    int alpha = w->matrix.alpha, bytes = w->isa->lanes * 4;
    fprintf(out,
            "static __attribute__((noinline)) void input_tile(const char *x, i64 row, char *to) {\n"
            "    for (i64 k = 0; k < 64; k += %d) {\n"
            "        v half[%d];\n        char *h = (char *)half;\n",
            bytes, alpha * alpha);
    for (int c = 0; c < alpha; c++)
        fprintf(out, "        input_line(x + %d + k, row, h + %d, %d);\n", c * 64, c * bytes, alpha * bytes);
    for (int r = 0; r < alpha; r++)
        fprintf(out, "        input_line(h + %d, %d, to + %lld + k, %lld);\n", r * alpha * bytes, bytes,
                ll(r * alpha * w->v_plane), ll(w->v_plane));
    fputs("    }\n}\n\n", out);
}

/* Loads all tiles of a block.  A tile at the edge of the image is copied between zeros first. */
static void emit_input_block(FILE *out, const struct mo_wino *w) {
    const struct mo_problem *p = w->p;
    int step = w->matrix.m * w->matrix.stride, alpha = w->matrix.alpha;
    fprintf(out,
            "INLINE i64 cap(i64 x, i64 most) { return x < most ? x : most; }\n\n"
            "static void input_edge(const char *x, i64 y0, i64 x0, char *to, i64 step) {\n"
            "    const i64 r0 = y0 < 0 ? -y0 : 0, r1 = cap(%lld - y0, %d);\n"
            "    const i64 c0 = x0 < 0 ? -x0 : 0, c1 = cap(%lld - x0, %d);\n"
            "    v tile[%d] = {0};\n",
            ll(p->h), alpha, ll(p->w), alpha, alpha * alpha * w->isa->vectors);
    fprintf(out,
            "    for (i64 i = 0; i < %lld; i++, x += %lld, to += step) {\n"
            "        for (i64 r = r0; r < r1; r++)\n"
            "            for (i64 c = c0 * 64; c < c1 * 64; c += sizeof(v))\n"
            "                store((char *)tile + r * %d + c, load(x + (y0 + r) * %lld + x0 * 64 + c));\n"
            "        input_tile((const char *)tile, %d, to);\n    }\n}\n\n",
            ll(w->icb), ll(p->h * p->w * 64), alpha * 64, ll(p->w * 64), alpha * 64);
    fprintf(out,
            "/* `count` tiles from `first` on: one register tile */\n"
            "static void input_tiles(const struct mo_kargs *a, i64 first, i64 count, char *to) {\n"
            "    for (i64 t = 0; t < count; t++, to += 64) {\n"
            "        const i64 tile = first + t, image = tile / %lld, at = tile %% %lld;\n"
            "        const i64 y0 = at / %lld * %d - %d, x0 = at %% %lld * %d - %d;\n"
            "        const char *x = (const char *)a->in[0] + image * a->in_image[0];\n"
            "        if (y0 < 0 || x0 < 0 || y0 > %lld || x0 > %lld) {\n"
            "            input_edge(x, y0, x0, to, count * 64);\n            continue;\n        }\n"
            "        x += y0 * %lld + x0 * 64;\n"
            "        for (i64 i = 0; i < %lld; i++)\n"
            "            input_tile(x + i * %lld, %lld, to + i * count * 64);\n    }\n}\n\n",
            ll(w->rows * w->cols), ll(w->rows * w->cols), ll(w->cols), step, p->pt, ll(w->cols), step, p->pl,
            ll(p->h - alpha), ll(p->w - alpha), ll(p->w * 64), ll(w->icb), ll(p->h * p->w * 64),
            ll(p->w * 64));
}

/* "store(y + .., act(..))" of pixel (r, c) with the epilogue's parts in their order. */
static void emit_pixel(FILE *out, const struct mo_wino *w, int indent, int r, const char *c) {
    const struct mo_fuse *f = &w->p->fuse;
    long long row = ll(r * w->p->ow * 64);
    const char *residual = f->residual >= 0 ? " + load(res + at)" : "";
    fprintf(out, "%*s{ const i64 at = %lld + %s * 64 + k; store(y + at, act(o[%s] + b%s)%s); }\n", indent, "",
            row, c, c, f->residual_last ? "" : residual, f->residual_last ? residual : "");
}

static void emit_output_tile(FILE *out, const struct mo_wino *w) {
    int m = w->matrix.m, alpha = w->matrix.alpha;
    fprintf(out,
            "static __attribute__((noinline)) void output_tile(const char *p, const char *bias, char *y, "
            "const char *res, i64 rows, i64 cols) {\n"
            "    (void)res;\n");
    if (mo_wino_streams_out(w)) /* from the private cache to the first level: the pixels of the next tile */
        fprintf(out,
                "    for (i64 r = 0; r < %d; r++)\n"
                "        for (i64 c = %d; c < %d; c++)\n"
                "            __builtin_prefetch(y + r * %lld + c * 64, 1);\n",
                m, m, 2 * m, ll(w->p->ow * 64));
    fprintf(out,
            "    for (i64 k = 0; k < 64; k += sizeof(v)) {\n"
            "        v half[%d][%d], o[%d], b = load(bias + k);\n",
            m, alpha, m);
    for (int c = 0; c < alpha; c++) {
        fprintf(out, "        output_line(p + %lld + k, %lld, o);\n", ll(c * w->m_plane),
                ll(alpha * w->m_plane));
        fputs("        ", out);
        for (int r = 0; r < m; r++)
            fprintf(out, "half[%d][%d] = o[%d];%s", r, c, r, r + 1 < m ? " " : "\n");
    }
    for (int r = 0; r < m; r++) {
        fprintf(out, "        if (rows <= %d) continue;\n", r);
        fprintf(out,
                "        output_line((const char *)half[%d], sizeof(v), o);\n        if (cols == %d) {\n", r,
                m);
        for (int c = 0; c < m; c++) {
            char text[12];
            snprintf(text, sizeof text, "%d", c);
            emit_pixel(out, w, 12, r, text);
        }
        fputs("        } else {\n            for (i64 c = 0; c < cols; c++)\n", out);
        emit_pixel(out, w, 16, r, "c");
        fputs("        }\n", out);
    }
    fputs("    }\n}\n\n", out);
}

static void emit_output_block(FILE *out, const struct mo_wino *w) {
    const struct mo_problem *p = w->p;
    int m = w->matrix.m;
    bool residual = p->fuse.residual >= 0;
    fprintf(out,
            "/* `count` tiles from `first` on of one output block */\n"
            "static void output_tiles(const struct mo_kargs *a, i64 first, i64 count, i64 block, const char "
            "*p) {\n"
            "    const char *bias = (const char *)a->bias + block * 64;\n"
            "    for (i64 t = 0; t < count; t++, p += 64) {\n"
            "        const i64 tile = first + t, image = tile / %lld, i = tile %% %lld;\n"
            "        const i64 y0 = i / %lld * %d, x0 = i %% %lld * %d;\n"
            "        const i64 at = block * %lld + (y0 * %lld + x0) * 64;\n",
            ll(w->rows * w->cols), ll(w->rows * w->cols), ll(w->cols), m, ll(w->cols), m,
            ll(p->oh * p->ow * 64), ll(p->ow));
    fprintf(out,
            "        char *y = (char *)a->out[0] + image * a->out_image[0] + at;\n"
            "        const char *res = %s;\n"
            "        output_tile(p, bias, y, res, cap(%lld - y0, %d), cap(%lld - x0, %d));\n    }\n}\n\n",
            residual ? "(const char *)a->residual + image * a->residual_image + at" : "0", ll(p->oh), m,
            ll(p->ow), m);
}

/* A block of `count` tiles against one group of output blocks. */
static void emit_unit(FILE *out, const struct mo_wino *w) {
    int group = w->blocks * w->sets;
    const struct mo_winograd *x = &w->matrix;
    int products = x->half ? x->alpha * ((x->points - x->infinity) / 2 + 1) : x->alpha * x->alpha;
    fprintf(out,
            "static void input_block(const struct mo_kargs *a, i64 first, i64 count, char *V) {\n"
            "    const i64 cuts = (count + %d) / %d;\n"
            "    for (i64 j = 0; j < cuts; j++) {\n"
            "        const i64 t = cut_at(j, count, cuts);\n"
            "        input_tiles(a, first + t, cut_at(j + 1, count, cuts) - t, V + t * %lld);\n    }\n}\n\n",
            w->cut - 1, w->cut, ll(w->icb * 64));
    fprintf(
        out,
        "/* `more` tiles are the next block's, if it comes next */\n"
        "static void unit(const struct mo_kargs *a, i64 first, i64 count, i64 more, i64 group, const char "
        "*V, char *M) {\n"
        "    const i64 b0 = group * %d, b1 = cap(b0 + %d, %lld);\n"
        "    const i64 calls = (count + %d) / %d * ((b1 - b0 + %d) / %d) * %d;\n"
        "    struct fetches f = fetches_of(a, first, count, more, b0, b1, calls);\n"
        "    multiply(a, b0, b1, count, V, M, &f);\n"
        "    for (i64 b = b0; b < b1; b++)\n"
        "        output_tiles(a, first, count, b, M + (b - b0) * %lld);\n}\n\n",
        group, group, ll(w->ocb), w->cut - 1, w->cut, w->blocks - 1, w->blocks, products, ll(w->m_block));
}

static void emit_run(FILE *out, const struct mo_wino *w) {
    fprintf(out,
            "INLINE i64 block_at(i64 b) { return b * %lld + cap(b, %lld); }\n\n"
            "static void run(const struct mo_kargs *a, i64 begin, i64 end, void *scratch) {\n"
            "    char *V = scratch, *M = V + %lld;\n"
            "    for (i64 u = begin, inside = -1; u < end; u++) {\n"
            "        const i64 block = u / %lld, first = block_at(block), count = block_at(block + 1) - "
            "first;\n"
            "        if (block != inside) input_block(a, first, count, V);\n"
            "        inside = block;\n"
            "        const i64 last = first + count, more = u + 1 < end && (u + 1) / %lld != block ? "
            "block_at(block + 2) - last : 0;\n"
            "        unit(a, first, count, more, u %% %lld, V, M);\n    }\n}\n\n",
            ll(w->size), ll(w->extra), ll(w->square * w->v_plane), ll(w->oc_groups), ll(w->oc_groups),
            ll(w->oc_groups));
}

int mo_wino_emit(const struct mo_wino *w, const char *name, FILE *out, moire_error *err) {
    int64_t units = w->tile_blocks * w->oc_groups;
    mo_emit_head(out, w->p, w->isa, name);
    mo_wino_emit_lines(out, w);
    emit_input_tile(out, w);
    emit_input_block(out, w);
    fputs("INLINE i64 cut_at(i64 j, i64 count, i64 cuts) { return j * (count / cuts) + cap(j, count % cuts); "
          "}\n\n",
          out);
    mo_wino_emit_fetch(out, w);
    (w->matrix.half ? mo_wino_emit_half : mo_wino_emit_products)(out, w);
    emit_output_tile(out, w);
    emit_output_block(out, w);
    emit_unit(out, w);
    emit_run(out, w);
    mo_emit_descriptor(out, &(struct mo_variant){.packing = (int32_t)w->packing,
                                                 .units = units,
                                                 .scratch_bytes = w->scratch_bytes,
                                                 .parallelism_milli =
                                                     1000 * units * w->blocks * w->isa->vectors * w->cut / 28,
                                                 .block_bytes = mo_wino_block_bytes(w),
                                                 .l3_bytes = mo_wino_l3_bytes(w),
                                                 .flops_executed = mo_wino_flops(w),
                                                 .mixes = 1,
                                                 .name = name});
    return ferror(out) ? mo_fail(err, MOIRE_EIO, "cannot write emitted C") : MOIRE_OK;
}
