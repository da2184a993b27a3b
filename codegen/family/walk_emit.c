/* SPDX-License-Identifier: Apache-2.0
 * walk_emit.c - the C of one walk: tile functions by class, the units that call them, the descriptor. */
#include "codegen/family/walk.h"

#include <string.h>

/* A tile function: `blocks` output blocks, row class r, column class c. */
struct tile {
    const struct mo_walk *w;
    struct mo_mac mac;
    int r, c;
};

static struct tile tile_of(const struct mo_walk *w, int blocks, int r, int c) {
    int rows = w->row.cls[r].size, cols = w->col.cls[c].size;
    struct tile t = {.w = w, .r = r, .c = c};
    t.mac = (struct mo_mac){.isa = w->isa, .blocks = blocks, .vector_x = w->kind == MO_WALK_DEPTHWISE};
    t.mac.rows = w->flat ? 1 : rows;
    t.mac.cols = w->flat ? rows : cols;
    t.mac.px = (long)(w->flat ? w->row.stride * w->x_row : w->col.stride * w->x_pixel);
    return t;
}

/* Pixels of the tile that filter tap (kh, kw) sees inside the image. */
static uint64_t tap_mask(const struct tile *t, int64_t kh, int64_t kw) {
    uint32_t rows = t->w->row.cls[t->r].valid[kh], cols = t->w->col.cls[t->c].valid[kw];
    if (t->w->flat) return cols ? rows : 0;
    uint64_t mask = 0;
    for (int i = 0; i < t->mac.rows; i++)
        if (rows >> i & 1) mask |= (uint64_t)cols << (i * t->mac.cols);
    return mask;
}

static void emit_name(FILE *out, const struct tile *t) {
    fprintf(out, "tile_b%d_r%d_c%d", t->mac.blocks, t->r, t->c);
}

static bool row_used(const struct tile *t, uint64_t mask, int row) {
    return mask >> (row * t->mac.cols) & ((1ull << t->mac.cols) - 1);
}

/* x<row>, for the rows in `mask`, and q<block>: where tap (kh, kw) begins; kh and kw are text, maybe loop
 * variables. */
static void emit_bases(FILE *out, const struct tile *t, int indent, const char *kh, const char *kw,
                       uint64_t mask) {
    const struct mo_walk *w = t->w;
    fprintf(out, "%*sconst char *x = xp + (%s * %lld + %s * %lld)", indent, "", kh,
            (long long)(w->row.dilation * w->x_row), kw, (long long)(w->col.dilation * w->x_pixel));
    for (int i = 0; i < t->mac.rows; i++)
        if (row_used(t, mask, i))
            fprintf(out, ", *x%d = x + %lld", i, (long long)(i * w->row.stride * w->x_row));
    fprintf(out, ";\n%*sconst char *q0 = wp + (%s * %lld + %s) * %lld", indent, "", kh,
            (long long)w->col.taps, kw, (long long)w->w_tap);
    for (int b = 1; b < t->mac.blocks; b++)
        fprintf(out, ", *q%d = q0 + %lld", b, (long long)(b * w->w_block));
    fputs(";\n", out);
}

/* The channels of one block: a loop over groups of `unroll` steps, then what is left. */
static void emit_channels(FILE *out, const struct tile *t, int indent, uint64_t mask, int64_t steps) {
    int unroll = t->w->unroll;
    int64_t loops = steps / unroll;
    if (loops) {
        fprintf(out, "%*sfor (i64 s = 0; s < %lld; s++, q0 += %d", indent, "", (long long)loops, unroll * 64);
        for (int b = 1; b < t->mac.blocks; b++)
            fprintf(out, ", q%d += %d", b, unroll * 64);
        for (int i = 0; i < t->mac.rows; i++)
            if (row_used(t, mask, i)) fprintf(out, ", x%d += %d", i, unroll * 4);
        fputs(") {\n", out);
        for (int u = 0; u < unroll; u++)
            mo_mac_step(out, &t->mac, indent + 4, u * 64, u * 4, mask, t->w->prefetch);
        fprintf(out, "%*s}\n", indent, "");
    }
    for (int64_t u = 0; u < steps % unroll; u++)
        mo_mac_step(out, &t->mac, indent, (long)u * 64, (long)u * 4, mask, 0);
}

/* Taps of one filter row (or of a loop over like rows; `kh` is its text).  Blocked channels: one loop over
 * the taps that see the same pixels.  Else every tap is one step, all of them straight code. */
static void emit_tap_row(FILE *out, const struct tile *t, int indent, int64_t h, const char *kh,
                         int64_t steps) {
    const struct mo_walk *w = t->w;
    if (w->kind == MO_WALK_FIRST || w->kind == MO_WALK_DEPTHWISE) {
        fprintf(out, "%*s{\n", indent, "");
        uint64_t any = 0;
        for (int64_t k = 0; k < w->col.taps; k++)
            any |= tap_mask(t, h, k);
        emit_bases(out, t, indent + 4, kh, "0", any);
        for (int64_t k = 0; k < w->col.taps; k++)
            if (tap_mask(t, h, k))
                mo_mac_step(out, &t->mac, indent + 4, (long)(k * w->w_tap),
                            (long)(k * w->col.dilation * w->x_pixel), tap_mask(t, h, k), 0);
        fprintf(out, "%*s}\n", indent, "");
        return;
    }
    for (int64_t k = 0, end; k < w->col.taps; k = end) {
        for (end = k + 1; end < w->col.taps && tap_mask(t, h, end) == tap_mask(t, h, k);)
            end++;
        if (!tap_mask(t, h, k)) continue;
        fprintf(out, "%*sfor (i64 kw = %lld; kw < %lld; kw++) {\n", indent, "", (long long)k, (long long)end);
        emit_bases(out, t, indent + 4, kh, "kw", tap_mask(t, h, k));
        emit_channels(out, t, indent + 4, tap_mask(t, h, k), steps);
        fprintf(out, "%*s}\n", indent, "");
    }
}

static bool same_rows(const struct tile *t, int64_t a, int64_t b) {
    for (int64_t k = 0; k < t->w->col.taps; k++)
        if (tap_mask(t, a, k) != tap_mask(t, b, k)) return false;
    return true;
}

static bool row_is_empty(const struct tile *t, int64_t h) {
    for (int64_t k = 0; k < t->w->col.taps; k++)
        if (tap_mask(t, h, k)) return false;
    return true;
}

/* All taps of the input blocks at xp, wp. */
static void emit_taps(FILE *out, const struct tile *t, int indent, int64_t steps) {
    const struct mo_walk *w = t->w;
    char text[24];
    for (int64_t h = 0, end; h < w->row.taps; h = end) {
        for (end = h + 1; end < w->row.taps && w->kind != MO_WALK_DEPTHWISE && same_rows(t, h, end);)
            end++;
        if (row_is_empty(t, h)) continue;
        if (end - h > 1) {
            fprintf(out, "%*sfor (i64 kh = %lld; kh < %lld; kh++) {\n", indent, "", (long long)h,
                    (long long)end);
            emit_tap_row(out, t, indent + 4, h, "kh", steps);
            fprintf(out, "%*s}\n", indent, "");
        } else {
            snprintf(text, sizeof text, "%lld", (long long)h);
            emit_tap_row(out, t, indent, h, text, steps);
        }
    }
}

static void emit_planes(FILE *out, const struct tile *t) {
    const struct mo_walk *w = t->w;
    bool blocked = w->kind == MO_WALK_BLOCKED;
    int64_t tail = blocked ? w->channels % 16 : 0, full = w->planes - (tail ? 1 : 0);
    int64_t steps = w->kind == MO_WALK_GEMM ? w->channels : 16;
    fputs("        const char *xp = x, *wp = w;\n", out);
    if (full > 1)
        fprintf(out, "        for (i64 i = 0; i < %lld; i++, xp += %lld, wp += %lld) {\n", (long long)full,
                (long long)w->x_plane, (long long)w->w_plane);
    else
        fputs("        {\n", out);
    if (full > 0) emit_taps(out, t, 12, steps);
    if (full == 1 && tail)
        fprintf(out, "            xp += %lld, wp += %lld;\n", (long long)w->x_plane, (long long)w->w_plane);
    fputs("        }\n", out);
    if (tail) emit_taps(out, t, 8, tail);
}

static bool clamp_act(enum mo_act act) {
    return act == MO_ACT_NONE || act == MO_ACT_RELU || act == MO_ACT_CLIP || act == MO_ACT_LEAKY;
}

/* Byte offset of accumulator (r, pixel) in the output. */
static long y_offset(const struct tile *t, int r, int pixel) {
    const struct mo_walk *w = t->w;
    int vectors = w->isa->vectors, row = pixel / t->mac.cols, col = pixel % t->mac.cols;
    if (w->flat) row = col, col = 0;
    return (long)(r / vectors * w->y_block + r % vectors * w->isa->lanes * 4 + row * w->y_row +
                  col * w->y_pixel);
}

static void emit_each(FILE *out, const struct tile *t, const char *format) {
    for (int r = 0; r < mo_mac_vectors(&t->mac); r++)
        for (int i = 0; i < t->mac.rows * t->mac.cols; i++) {
            for (const char *s = format; *s; s++) {
                if (*s == '@')
                    fprintf(out, "a%d_%d", r, i);
                else if (*s == '#')
                    fprintf(out, "%ld", y_offset(t, r, i));
                else
                    fputc(*s, out);
            }
        }
}

/* Activation and residual, then the stores.  Cheap activations act on the accumulators; long ones on the
 * stored tile, where they need no registers of their own. */
static void emit_finish(FILE *out, const struct tile *t) {
    const struct mo_fuse *f = &t->w->p->fuse;
    if (clamp_act(f->act)) {
        if (f->act != MO_ACT_NONE) emit_each(out, t, "        @ = act(@);\n");
        if (f->residual >= 0 && f->residual_last) emit_each(out, t, "        @ += load(res + #);\n");
        emit_each(out, t, "        store(y + #, @);\n");
        return;
    }
    emit_each(out, t, "        store(y + #, @);\n");
    bool late = f->residual >= 0 && f->residual_last;
    int rows = t->w->flat ? 1 : t->mac.rows, run = t->mac.cols * (int)t->w->y_pixel;
    for (int b = 0; b < t->mac.blocks; b++)
        for (int r = 0; r < rows; r++) {
            long at = (long)(b * t->w->y_block + r * t->w->y_row);
            fprintf(out,
                    "        for (i64 i = %ld; i < %ld; i += sizeof(v))\n            store(y + i, act(load(y "
                    "+ i))%s);\n",
                    at, at + run, late ? " + load(res + i)" : "");
        }
}

static void emit_tile(FILE *out, const struct tile *t) {
    const struct mo_walk *w = t->w;
    bool residual = w->p->fuse.residual >= 0;
    fprintf(out, "/* %d x %d pixels */\nstatic __attribute__((noinline)) void ", w->row.cls[t->r].size,
            w->col.cls[t->c].size);
    emit_name(out, t);
    fputs("(const char *x, const char *w, const char *b, char *y, const char *res, i64 n) {\n    v x_", out);
    for (int r = 0; r < mo_mac_vectors(&t->mac); r++)
        fprintf(out, ", w%d", r);
    fputs(";\n", out);
    mo_mac_declare(out, &t->mac, 4);
    fputs("    (void)x_, (void)res;\n", out);
    int size = w->row.cls[t->r].size;
    fprintf(out, "    for (; n > 0; n--, x += %lld, y += %lld%s",
            (long long)(size * w->row.stride * w->x_row), (long long)(size * w->y_row), "");
    if (residual) fprintf(out, ", res += %lld", (long long)(size * w->y_row));
    fputs(") {\n", out);
    mo_mac_start(out, &t->mac, 8, "b");
    if (residual && !w->p->fuse.residual_last) emit_each(out, t, "        @ += load(res + #);\n");
    emit_planes(out, t);
    emit_finish(out, t);
    fputs("    }\n}\n\n", out);
}

static void emit_runs(FILE *out, const struct mo_axis *axis, const char *name) {
    fprintf(out, "static const struct { i64 first; int cls; } %s_run[] = {", name);
    for (int i = 0; i < axis->n_runs; i++)
        fprintf(out, "{%lld, %d}, ", (long long)axis->run[i].first, axis->run[i].cls);
    fprintf(out, "{%lld, 0}};\n", (long long)axis->tiles);
    fprintf(out, "INLINE i64 %s_at(i64 tile) { return tile * %lld + (tile < %lld ? tile : %lld); }\n", name,
            (long long)axis->size, (long long)axis->extra, (long long)axis->extra);
}

/* tile_fn[tail][row class][column class] */
static void emit_table(FILE *out, const struct mo_walk *w, int tail) {
    fprintf(out,
            "typedef void tile_fn(const char *, const char *, const char *, char *, const char *, i64);\n"
            "static tile_fn *const tiles[%d][%d][%d] = {\n",
            tail ? 2 : 1, w->row.n_classes, w->col.n_classes);
    for (int k = 0; k < (tail ? 2 : 1); k++) {
        fputs("    {", out);
        for (int r = 0; r < w->row.n_classes; r++) {
            fputc('{', out);
            for (int c = 0; c < w->col.n_classes; c++) {
                struct tile t = tile_of(w, k ? tail : w->blocks, r, c);
                emit_name(out, &t);
                fputs(", ", out);
            }
            fputs("}, ", out);
        }
        fputs("},\n", out);
    }
    fputs("};\n", out);
}

/* Row tiles [r0, r1) of one set of output blocks of one image. */
static void emit_unit(FILE *out, const struct mo_walk *w, int tail) {
    const char *res = w->p->fuse.residual >= 0 ? "res + yo" : "0";
    fputs("static void run_tiles(const struct mo_kargs *a, i64 image, i64 set, i64 r0, i64 r1) {\n", out);
    fprintf(out, "    const i64 group = set / %lld, first = group * %lld + set %% %lld * %d;\n",
            (long long)w->sets_group, (long long)w->ocb, (long long)w->sets_group, w->blocks);
    if (tail)
        fprintf(out, "    tile_fn *const(*fn)[%d] = tiles[set %% %lld == %lld];\n", w->col.n_classes,
                (long long)w->sets_group, (long long)(w->sets_group - 1));
    else
        fprintf(out, "    tile_fn *const(*fn)[%d] = tiles[0];\n", w->col.n_classes);
    fprintf(out, "    const char *x = (const char *)a->in[0] + image * a->in_image[0] + %s * %lld;\n",
            w->kind == MO_WALK_DEPTHWISE ? "first" : "group", (long long)w->x_group);
    fprintf(out,
            "    const char *w = (const char *)a->weights + first * %lld, *b = (const char *)a->bias + first "
            "* 64;\n",
            (long long)w->w_block);
    fprintf(out, "    char *y = (char *)a->out[0] + image * a->out_image[0] + first * %lld;\n",
            (long long)w->y_block);
    if (w->p->fuse.residual >= 0)
        fprintf(
            out,
            "    const char *res = (const char *)a->residual + image * a->residual_image + first * %lld;\n",
            (long long)w->y_block);
    fprintf(out,
            "    for (int j = 0; j < %d; j++)\n"
            "        for (i64 c = col_run[j].first; c < col_run[j + 1].first; c++)\n"
            "            for (int k = 0; k < %d; k++) {\n"
            "                i64 lo = row_run[k].first > r0 ? row_run[k].first : r0;\n"
            "                i64 hi = row_run[k + 1].first < r1 ? row_run[k + 1].first : r1;\n"
            "                if (lo >= hi) continue;\n"
            "                i64 xo = (row_at(lo) * %lld - %lld) * %lld + (col_at(c) * %lld - %lld) * %lld;\n"
            "                i64 yo = row_at(lo) * %lld + col_at(c) * %lld;\n"
            "                fn[row_run[k].cls][col_run[j].cls](x + xo, w, b, y + yo, %s, hi - lo);\n"
            "            }\n}\n\n",
            w->col.n_runs, w->row.n_runs, (long long)w->row.stride, (long long)w->row.pad,
            (long long)w->x_row, (long long)w->col.stride, (long long)w->col.pad, (long long)w->x_pixel,
            (long long)w->y_row, (long long)w->y_pixel, res);
}

static void emit_run(FILE *out, const struct mo_walk *w, const char *name) {
    long long per_image = (long long)(w->sets * w->chunks);
    fputs("static void run(const struct mo_kargs *a, i64 begin, i64 end, void *scratch) {\n"
          "    (void)scratch;\n    for (i64 u = begin; u < end; u++) {\n",
          out);
    fprintf(out, "        i64 k = u %% %lld, set = k %s %lld, chunk = k %s %lld;\n", per_image,
            w->sets_outer ? "/" : "%", (long long)(w->sets_outer ? w->chunks : w->sets),
            w->sets_outer ? "%" : "/", (long long)(w->sets_outer ? w->chunks : w->sets));
    fprintf(
        out,
        "        run_tiles(a, u / %lld, set, chunk * %lld / %lld, (chunk + 1) * %lld / %lld);\n    }\n}\n\n",
        per_image, (long long)w->row.tiles, (long long)w->chunks, (long long)w->row.tiles,
        (long long)w->chunks);
    fprintf(out,
            "__attribute__((visibility(\"default\"))) extern const struct mo_variant mo_variant;\n"
            "const struct mo_variant mo_variant = {\n"
            "    .abi = %d, .packing = %d, .units = %lld, .scratch_bytes = 0,\n"
            "    .parallelism_milli = %lld, .block_bytes = %lld, .l3_bytes = %lld, .flops_executed = %lld,\n"
            "    .run = run, .name = \"%s\",\n};\n",
            MO_KERNEL_ABI, w->packing, (long long)(w->n * per_image), (long long)mo_walk_parallelism_milli(w),
            (long long)mo_walk_block_bytes(w), (long long)mo_walk_l3_bytes(w), (long long)mo_walk_flops(w),
            name);
}

static void emit_head(FILE *out, const struct mo_walk *w, const char *name) {
    const struct mo_fuse *f = &w->p->fuse;
    fprintf(out, "/* %s\n * %s, %s */\n", w->p->signature, name, w->isa->name);
    mo_emit_prelude(out, w->isa);
    mo_emit_abi(out);
    if (mo_emit_act_needs_exp(f->act)) mo_emit_exp(out);
    mo_emit_activation(out, f->act, "activation");
    fputs("INLINE v act(v x) { return activation(x, ", out);
    mo_emit_float(out, f->a);
    fputs(", ", out);
    mo_emit_float(out, f->b);
    fputs("); }\n\n", out);
}

int mo_walk_emit(const struct mo_walk *w, const char *name, FILE *out, moire_error *err) {
    int tail = (int)(w->ocb % w->blocks);
    emit_head(out, w, name);
    for (int k = 0; k < (tail ? 2 : 1); k++)
        for (int r = 0; r < w->row.n_classes; r++)
            for (int c = 0; c < w->col.n_classes; c++) {
                struct tile t = tile_of(w, k ? tail : w->blocks, r, c);
                emit_tile(out, &t);
            }
    emit_runs(out, &w->row, "row");
    emit_runs(out, &w->col, "col");
    emit_table(out, w, tail);
    emit_unit(out, w, tail);
    emit_run(out, w, name);
    return ferror(out) ? mo_fail(err, MOIRE_EIO, "cannot write the C of %s", name) : MOIRE_OK;
}
