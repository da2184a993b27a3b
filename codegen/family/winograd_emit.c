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

/* One input tile whose rows are `row` and columns `col` bytes apart: BT d BT^T of 16 channels, to the planes
 * of V of each class. */
static void emit_input_tile(FILE *out, const struct mo_wino *w, int kind) {
    const struct mo_winograd *down = mo_wino_down(w, kind), *across = mo_wino_across(w, kind);
    int bytes = w->isa->lanes * 4, line = across->alpha * bytes;
    const char *col = w->dw > 1 ? "col" : "64";
    mo_emit_named(out, "input_tile%d", kind);
    fprintf(out,
            "static __attribute__((noinline)) void input_tile%d(const char *x, i64 row, i64 col, char *const "
            "*to) {\n    (void)col;\n"
            "    for (i64 k = 0; k < 64; k += %d) {\n"
            "        v half[%d];\n        char *h = (char *)half;\n",
            kind, bytes, down->alpha * across->alpha);
    for (int c = 0; c < across->alpha; c++)
        fprintf(out, "        input_down%d(x + %d * %s + k, row, h + %d, %d);\n", down->m, c, col, c * bytes,
                line);
    for (int r = 0; r < down->alpha; r++) {
        int cls = mo_wino_class(w, down->of[r], 0), whole = w->kinds > 1 ? cls | MO_WINO_RIGHT : cls;
        long long at = ll(down->of[r] * w->whole_across.alpha * w->v_plane);
        fprintf(out, "        input_across%d(h + %d, %d, to[%d] + %lld + k, to[%d] + %lld + k);\n", across->m,
                r * line, bytes, cls, at, whole, at);
    }
    fputs("    }\n}\n\n", out);
}

/* What the kinds of tiles differ in. */
static void emit_kinds(FILE *out, const struct mo_wino *w) {
    fputs("static const struct {\n"
          "    i64 rows, cols, out_rows, out_cols; /* pixels of input, of output */\n"
          "    void (*input)(const char *, i64, i64, char *const *);\n"
          "    void (*output)(const char *, const char *, char *, const char *, i64, i64);\n"
          "} kinds[] = {\n",
          out);
    for (int k = 0; k < MO_WINO_KINDS; k++) {
        const struct mo_winograd *down = mo_wino_down(w, k), *across = mo_wino_across(w, k);
        if (w->kind[k].begin < w->kind[k].end)
            fprintf(out, "    [%d] = {%d, %d, %d, %d, input_tile%d, output_tile%d},\n", k, down->alpha,
                    across->alpha, down->m, across->m, k, k);
    }
    fputs("};\n\n", out);
}

/* Tiles follow each other in each class's part of V: `to` of the next, in a register tile of `width` tiles of
 * which `left` are to come; `wide` register tiles have a tile more than those behind them. */
static void emit_cuts(FILE *out, const struct mo_wino *w) {
    fprintf(out,
            "struct cut { char *to; i64 width, left, wide; };\n"
            "INLINE struct cut cut_of(const struct span *s, char *V) {\n"
            "    const i64 wide = s->cuts ? s->n %% s->cuts : 0, width = s->cuts ? s->n / s->cuts + (wide > "
            "0) : 0;\n"
            "    return (struct cut){V, width, width, wide};\n}\n"
            "INLINE void advance(struct cut *c) {\n"
            "    c->to += 64;\n"
            "    if (--c->left) return;\n"
            "    c->to += c->width * %lld;\n"
            "    if (!--c->wide) c->width--;\n"
            "    c->left = c->width;\n}\n\n",
            ll((w->icb - 1) * 64));
}

/* A tile at the edge of the image is copied between zeros first. */
static void emit_input_edge(FILE *out, const struct mo_wino *w) {
    const struct mo_problem *p = w->p;
    int row = w->whole_across.alpha * 64;
    fputs("static void input_edge(const char *x, i64 kind, i64 y0, i64 x0, char **to, const i64 *step) {\n",
          out);
    fprintf(out,
            "    const i64 r0 = pixels(-y0, %lld), r1 = cap(pixels(%lld - y0, %lld), kinds[kind].rows);\n",
            ll(w->dh), ll(p->h), ll(w->dh));
    fprintf(out,
            "    const i64 c0 = pixels(-x0, %lld), c1 = cap(pixels(%lld - x0, %lld), kinds[kind].cols);\n",
            ll(w->dw), ll(p->w), ll(w->dw));
    fprintf(out,
            "    v tile[%lld] = {0};\n"
            "    for (i64 i = 0; i < %lld; i++, x += %lld) {\n"
            "        for (i64 r = r0; r < r1; r++)\n"
            "            for (i64 c = c0; c < c1; c++)\n"
            "                for (i64 k = 0; k < 64; k += sizeof(v))\n"
            "                    store((char *)tile + r * %d + c * 64 + k, load(x + (y0 + r * %lld) * %lld + "
            "(x0 + c * "
            "%lld) * 64 + k));\n"
            "        kinds[kind].input((const char *)tile, %d, 64, to);\n"
            "        for (i64 c = 0; c < CLASSES; c++)\n            to[c] += step[c];\n    }\n}\n\n",
            ll(w->square * w->isa->vectors), ll(w->icb), ll(p->h * p->w * 64), row, ll(w->dh), ll(p->w * 64),
            ll(w->dw), row);
}

/* Loads all tiles of a block. */
static void emit_input_block(FILE *out, const struct mo_wino *w) {
    const struct mo_problem *p = w->p;
    int stride = w->matrix.stride;
    fprintf(out,
            "static void input_one(const struct mo_kargs *a, struct tile t, char **to, const i64 *step) {\n"
            "    const i64 y0 = t.y * %d - %d, x0 = t.x * %d - %d;\n"
            "    const char *x = (const char *)a->in[0] + t.image * a->in_image[0];\n"
            "    if (y0 < 0 || x0 < 0 || y0 + (kinds[t.kind].rows - 1) * %lld >= %lld || x0 + "
            "(kinds[t.kind].cols - "
            "1) * %lld >= %lld) {\n"
            "        input_edge(x, t.kind, y0, x0, to, step);\n        return;\n    }\n"
            "    x += y0 * %lld + x0 * 64;\n"
            "    for (i64 i = 0; i < %lld; i++, x += %lld) {\n"
            "        kinds[t.kind].input(x, %lld, %lld, to);\n"
            "        for (i64 c = 0; c < CLASSES; c++)\n            to[c] += step[c];\n    }\n}\n\n",
            stride, p->pt, stride, p->pl, ll(w->dh), ll(p->h), ll(w->dw), ll(p->w), ll(p->w * 64), ll(w->icb),
            ll(p->h * p->w * 64), ll(w->dh * p->w * 64), ll(w->dw * 64));
    fputs("static void input_block(const struct mo_kargs *a, i64 first, i64 count, const struct span *spans, "
          "char *V) "
          "{\n"
          "    struct cut cuts[CLASSES];\n"
          "    for (i64 c = 0; c < CLASSES; c++)\n        cuts[c] = cut_of(&spans[c], V);\n"
          "    for (i64 t = 0; t < count; t++) {\n"
          "        char *to[CLASSES];\n        i64 step[CLASSES];\n"
          "        for (i64 c = 0; c < CLASSES; c++)\n"
          "            to[c] = cuts[c].to, step[c] = cuts[c].width * 64;\n"
          "        input_one(a, tile_at(first + t), to, step);\n"
          "        for (i64 c = 0; c < CLASSES; c++)\n"
          "            if (t >= spans[c].at && t < spans[c].at + spans[c].n) advance(&cuts[c]);\n"
          "    }\n}\n\n",
          out);
}

/* "store(y + .., act(..))" of pixel (r, c) with the epilogue's parts in their order. */
static void emit_pixel(FILE *out, const struct mo_wino *w, int indent, int r, const char *c) {
    const struct mo_fuse *f = &w->p->fuse;
    long long row = ll(r * w->dh * w->p->ow * 64);
    const char *residual = f->residual >= 0 ? " + load(res + at)" : "";
    fprintf(out, "%*s{ const i64 at = %lld + %s * %lld + k; store(y + at, act(o[%s] + b%s)%s); }\n", indent,
            "", row, c, ll(w->dw * 64), c, f->residual_last ? "" : residual,
            f->residual_last ? residual : "");
}

static void emit_output_tile(FILE *out, const struct mo_wino *w, int kind) {
    const struct mo_winograd *down = mo_wino_down(w, kind), *across = mo_wino_across(w, kind);
    int m = across->m;
    mo_emit_named(out, "output_tile%d", kind);
    fprintf(out,
            "static __attribute__((noinline)) void output_tile%d(const char *p, const char *bias, char *y, "
            "const char *res, i64 rows, i64 cols) {\n"
            "    (void)res;\n",
            kind);
    if (mo_wino_streams_out(w)) /* from the private cache to the first level: the pixels of the next tile */
        fprintf(out,
                "    for (i64 r = 0; r < %d; r++)\n"
                "        for (i64 c = 0; c < %d; c++)\n"
                "            __builtin_prefetch(y + r * %lld + c * %lld + %d, 1);\n",
                down->m, m, ll(w->dh * w->p->ow * 64), ll(w->dw * 64), (w->phases_across > 1 ? 1 : m) * 64);
    fprintf(out,
            "    for (i64 k = 0; k < 64; k += sizeof(v)) {\n"
            "        v half[%d][%d], o[%d], b = load(bias + k);\n",
            down->m, across->alpha, down->m > m ? down->m : m);
    for (int c = 0; c < across->alpha; c++) {
        fprintf(out, "        output_down%d(p + %lld + k, %lld, o);\n", down->m,
                ll(across->of[c] * w->m_plane), ll(w->whole_across.alpha * w->m_plane));
        fputs("        ", out);
        for (int r = 0; r < down->m; r++)
            fprintf(out, "half[%d][%d] = o[%d];%s", r, c, r, r + 1 < down->m ? " " : "\n");
    }
    for (int r = 0; r < down->m; r++) {
        fprintf(out, "        if (rows <= %d) continue;\n", r);
        fprintf(out,
                "        output_across%d((const char *)half[%d], sizeof(v), o);\n        if (cols == %d) {\n",
                m, r, m);
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
    bool residual = p->fuse.residual >= 0;
    fprintf(out,
            "/* `count` tiles from `first` on of one output block */\n"
            "static void output_tiles(const struct mo_kargs *a, i64 first, i64 count, i64 block, const char "
            "*p) {\n"
            "    const char *bias = (const char *)a->bias + block * 64;\n"
            "    for (i64 i = 0; i < count; i++, p += 64) {\n"
            "        const struct tile t = tile_at(first + i);\n"
            "        const i64 at = block * %lld + (t.y * %lld + t.x) * 64;\n",
            ll(p->oh * p->ow * 64), ll(p->ow));
    fprintf(out,
            "        char *y = (char *)a->out[0] + t.image * a->out_image[0] + at;\n"
            "        const char *res = %s;\n"
            "        kinds[t.kind].output(p, bias, y, res, cap(pixels(%lld - t.y, %lld), "
            "kinds[t.kind].out_rows),\n"
            "            cap(pixels(%lld - t.x, %lld), kinds[t.kind].out_cols));\n    }\n}\n\n",
            residual ? "(const char *)a->residual + t.image * a->residual_image + at" : "0", ll(p->oh),
            ll(w->dh), ll(p->ow), ll(w->dw));
}

/* Calls of product functions for one register tile of output blocks: text. */
static void emit_calls(FILE *out, const struct mo_wino *w) {
    for (int c = 0; c < w->kinds; c++) {
        int calls =
            w->matrix.half ? mo_wino_half_calls(w, c) : mo_wino_class_rows(w, c) * mo_wino_class_cols(w, c);
        if (calls) fprintf(out, "%ss[%d].cuts * %d", c ? " + " : "", c, calls);
    }
}

/* A block of `count` tiles against one group of output blocks. */
static void emit_unit(FILE *out, const struct mo_wino *w) {
    int group = w->blocks * w->sets;
    fprintf(out,
            "/* `more` tiles are the next block's, if it comes next */\n"
            "static void unit(const struct mo_kargs *a, i64 first, i64 count, i64 more, i64 group, const "
            "struct span "
            "*s, const char *V, char *M) {\n"
            "    const i64 b0 = group * %d, b1 = cap(b0 + %d, %lld);\n"
            "    const i64 calls = (b1 - b0 + %d) / %d * (",
            group, group, ll(w->ocb), w->blocks - 1, w->blocks);
    emit_calls(out, w);
    fprintf(out,
            ");\n"
            "    struct fetches f = fetches_of(a, first, count, more, b0, b1, calls);\n"
            "    multiply(a, b0, b1, s, V, M, &f);\n"
            "    for (i64 b = b0; b < b1; b++)\n"
            "        output_tiles(a, first, count, b, M + (b - b0) * %lld);\n}\n\n",
            ll(w->m_block));
}

static void emit_run(FILE *out, const struct mo_wino *w) {
    fprintf(out,
            "INLINE i64 block_at(i64 b) { return b * %lld + (b > %lld ? b - %lld : 0); }\n\n"
            "static void NAMED(run)(const struct mo_kargs *a, i64 begin, i64 end, void *scratch) {\n"
            "    char *V = scratch, *M = V + %lld;\n"
            "    struct span spans[CLASSES];\n"
            "    for (i64 u = begin, inside = -1; u < end; u++) {\n"
            "        const i64 block = u / %lld, first = block_at(block), count = block_at(block + 1) - "
            "first;\n"
            "        if (block != inside) {\n"
            "            spans_of(first, count, spans);\n"
            "            input_block(a, first, count, spans, V);\n        }\n"
            "        inside = block;\n"
            "        const i64 last = first + count, more = u + 1 < end && (u + 1) / %lld != block ? "
            "block_at(block + 2) - last : 0;\n"
            "        unit(a, first, count, more, u %% %lld, spans, V, M);\n    }\n}\n\n",
            ll(w->size), ll(w->tile_blocks - w->extra), ll(w->tile_blocks - w->extra),
            ll(w->square * w->v_plane), ll(w->oc_groups), ll(w->oc_groups), ll(w->oc_groups));
}

int mo_wino_emit(const struct mo_wino *w, const char *name, FILE *out, moire_error *err) {
    int64_t units = w->tile_blocks * w->oc_groups;
    mo_emit_head(out, w->p, w->isa, name);
    fputs("INLINE i64 cap(i64 x, i64 most) { return x < most ? x : most; }\n"
          "/* of pixels that are `apart`, those below `end` */\n"
          "INLINE i64 pixels(i64 end, i64 apart) { return end > 0 ? (end + apart - 1) / apart : 0; }\n\n",
          out);
    mo_wino_emit_lines(out, w);
    mo_wino_emit_tiles(out, w);
    for (int k = 0; k < MO_WINO_KINDS; k++) {
        if (w->kind[k].begin == w->kind[k].end) continue;
        emit_input_tile(out, w, k);
        emit_output_tile(out, w, k);
    }
    emit_kinds(out, w);
    emit_cuts(out, w);
    emit_input_edge(out, w);
    emit_input_block(out, w);
    mo_wino_emit_fetch(out, w);
    (w->matrix.half ? mo_wino_emit_half : mo_wino_emit_products)(out, w);
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
