/* SPDX-License-Identifier: Apache-2.0
 * walk_emit.c - the tile functions of a walk: one for each row class, column class and set of output blocks.
 */
#include "codegen/family/walk_groups.h"

#include <string.h>

static long long ll(int64_t x) {
    return x;
}

static struct mo_walk_tile tile_of(const struct mo_walk *w, bool last_set, int r, int c) {
    int rows = w->row.cls[r].size, cols = w->col.cls[c].size;
    int blocks = last_set && w->ocb % w->blocks ? (int)(w->ocb % w->blocks) : w->blocks;
    bool last = last_set || w->sets_group == 1;
    struct mo_walk_tile t = {.w = w, .r = r, .c = c};
    t.last = last && ((w->kind == MO_WALK_GEMM && w->outs % 16) || mo_walk_used(w));
    t.mac = (struct mo_mac){.isa = w->isa, .blocks = blocks, .vector_x = w->kind == MO_WALK_DEPTHWISE};
    t.sources = last_set || !mo_walk_last_differs(w) ? w->sources : 1;
    t.mac.fold = w->isa->folds && (w->fold || blocks == 1);
    t.mac.used = last ? mo_walk_used(w) : 0;
    t.mac.ahead = !w->prefetch ? NULL : w->packed ? "ahead" : w->ahead;
    t.mac.ahead_far = w->packed;
    t.mac.rows = w->flat ? 1 : rows;
    t.mac.cols = w->flat ? rows : cols;
    t.mac.fills = w->fills;
    t.mac.px = (long)(w->flat ? w->row.stride * w->x_row : w->col.stride * w->x_pixel);
    return t;
}

static void emit_name(FILE *out, const struct mo_walk_tile *t) {
    fprintf(out, "NAMED(tile_b%d%s_r%d_c%d)", t->mac.blocks,
            t->last          ? "_last"
            : t->sources > 1 ? "_mixed"
                             : "",
            t->r, t->c);
}

static bool row_used(const struct mo_walk_tile *t, uint64_t mask, int row) {
    return mask >> (row * t->mac.cols) & ((1ull << t->mac.cols) - 1);
}

/* x<row>, for the rows in `mask`, and q<block>: where tap (kh, kw) begins; kh and kw are text, maybe loop
 * variables. */
static void emit_bases(FILE *out, const struct mo_walk_tile *t, int indent, const char *kh, const char *kw,
                       uint64_t mask) {
    const struct mo_walk *w = t->w;
    fprintf(out, "%*sconst char *x = xp + (%s * %lld + %s * %lld)", indent, "", kh,
            ll(w->row.dilation * w->x_row), kw, ll(w->col.dilation * w->x_pixel));
    for (int i = 0; i < t->mac.rows; i++)
        if (row_used(t, mask, i)) fprintf(out, ", *x%d = x + %lld", i, ll(i * w->row.stride * w->x_row));
    fprintf(out, ";\n%*sconst char *q0 = wp + (%s * %lld + %s) * %lld", indent, "", kh,
            (long long)w->col.taps, kw, (long long)w->w_tap);
    for (int b = 1; b < t->mac.blocks; b++)
        fprintf(out, ", *q%d = q0 + %lld", b, ll(b * w->w_block));
    fputs(";\n", out);
    if (!mask) fprintf(out, "%*s(void)x;\n", indent, "");
}

/* The channels of one block: a loop over groups of `unroll` steps, then what is left. */
static void emit_channels(FILE *out, const struct mo_walk_tile *t, int indent, uint64_t mask, int64_t steps) {
    int unroll = t->w->unroll;
    int64_t loops = steps / unroll;
    if (loops) {
        fprintf(out, "%*sfor (i64 s = 0; s < %lld; s++, q0 += %d", indent, "", (long long)loops, unroll * 64);
        for (int b = 1; b < t->mac.blocks; b++)
            fprintf(out, ", q%d += %d", b, unroll * 64);
        for (int i = 0; i < t->mac.rows; i++)
            if (row_used(t, mask, i)) fprintf(out, ", x%d += %d", i, unroll * 4);
        fputs(") {\n", out);
        mo_mac_channels(out, &t->mac, indent + 4, unroll, mask);
        fprintf(out, "%*s}\n", indent, "");
    }
    mo_mac_channels(out, &t->mac, indent, (int)(steps % unroll), mask);
}

/* Depthwise: one filter row, whose taps share what they load. */
static void emit_shared_taps(FILE *out, const struct mo_walk_tile *t, int indent, int64_t h) {
    const struct mo_walk *w = t->w;
    uint64_t mask[MO_AXIS_TAPS];
    for (int64_t k = 0; k < w->col.taps; k++)
        mask[k] = mo_walk_tap_mask(t, h, k);
    mo_mac_row(out, &t->mac, indent,
               &(struct mo_mac_taps){.n = (int)w->col.taps,
                                     .stride = (int)w->col.stride,
                                     .dilation = (int)w->col.dilation,
                                     .input = (long)w->x_pixel,
                                     .weight = (long)w->w_tap,
                                     .mask = mask});
}

/* Taps of one filter row (or of a loop over like rows; `kh` is its text).  Blocked channels: one loop over
 * the taps that see the same pixels.  Else every tap is one step, all of them straight code. */
static void emit_tap_row(FILE *out, const struct mo_walk_tile *t, int indent, int64_t h, const char *kh,
                         int64_t steps) {
    const struct mo_walk *w = t->w;
    if (w->kind == MO_WALK_FIRST || w->kind == MO_WALK_DEPTHWISE) {
        fprintf(out, "%*s{\n", indent, "");
        uint64_t any = 0;
        for (int64_t k = 0; k < w->col.taps; k++)
            any |= mo_walk_tap_mask(t, h, k);
        emit_bases(out, t, indent + 4, kh, "0", any);
        bool shared = mo_walk_shares_taps(w);
        if (shared) emit_shared_taps(out, t, indent + 4, h);
        for (int64_t k = 0; k < w->col.taps && !shared; k++)
            if (mo_walk_tap_mask(t, h, k))
                mo_mac_step(out, &t->mac, indent + 4, (long)(k * w->w_tap),
                            (long)(k * w->col.dilation * w->x_pixel), mo_walk_tap_mask(t, h, k));
        fprintf(out, "%*s}\n", indent, "");
        return;
    }
    for (int64_t k = 0, end; k < w->col.taps; k = end) {
        for (end = k + 1; end < w->col.taps && mo_walk_tap_mask(t, h, end) == mo_walk_tap_mask(t, h, k);)
            end++;
        if (!mo_walk_tap_mask(t, h, k) && !t->mac.fills) continue;
        fprintf(out, "%*sfor (i64 kw = %lld; kw < %lld; kw++) {\n", indent, "", (long long)k, (long long)end);
        emit_bases(out, t, indent + 4, kh, "kw", mo_walk_tap_mask(t, h, k));
        emit_channels(out, t, indent + 4, mo_walk_tap_mask(t, h, k), steps);
        fprintf(out, "%*s}\n", indent, "");
    }
}

static bool same_rows(const struct mo_walk_tile *t, int64_t a, int64_t b) {
    for (int64_t k = 0; k < t->w->col.taps; k++)
        if (mo_walk_tap_mask(t, a, k) != mo_walk_tap_mask(t, b, k)) return false;
    return true;
}

static bool row_is_empty(const struct mo_walk_tile *t, int64_t h) {
    if (t->mac.fills) return false;
    for (int64_t k = 0; k < t->w->col.taps; k++)
        if (mo_walk_tap_mask(t, h, k)) return false;
    return true;
}

/* All taps of the input blocks at xp, wp. */
static void emit_taps(FILE *out, const struct mo_walk_tile *t, int indent, int64_t steps) {
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

static void emit_planes(FILE *out, const struct mo_walk_tile *t) {
    const struct mo_walk *w = t->w;
    if (w->kind == MO_WALK_GROUPED) {
        mo_walk_emit_groups(out, t);
        return;
    }
    bool by_16 = w->kind == MO_WALK_BLOCKED || w->packed;
    const int step = mo_walk_step(w);
    int64_t tail = by_16 ? (w->channels % 16 + step - 1) / step : 0, full = w->planes - (tail ? 1 : 0);
    int64_t steps = by_16 ? 16 / step : w->channels / step;
    if (by_16)
        full /= w->parts;
    else
        steps /= w->parts;
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
static long y_offset(const struct mo_walk_tile *t, int r, int pixel) {
    const struct mo_walk *w = t->w;
    int vectors = w->isa->vectors, row = pixel / t->mac.cols, col = pixel % t->mac.cols;
    if (w->flat) row = col, col = 0;
    return (long)(r / vectors * w->y_block + r % vectors * w->isa->lanes * 4 + row * w->y_row +
                  col * w->y_pixel);
}

/* Channels of accumulator vector r that the output has room for: all but in a last, partial block of plain
 * rows. */
static int lanes_of(const struct mo_walk_tile *t, int r) {
    int lanes = t->w->isa->lanes, left = (int)(t->w->outs % 16) - r % t->w->isa->vectors * lanes;
    if (!t->last || t->w->kind != MO_WALK_GEMM || r / t->w->isa->vectors < t->mac.blocks - 1) return lanes;
    return left < 0 ? 0 : left < lanes ? left : lanes;
}

static void emit_load(FILE *out, const struct mo_walk_tile *t, int r, const char *pointer, long offset) {
    if (lanes_of(t, r) == t->w->isa->lanes)
        fprintf(out, "load(%s + %ld)", pointer, offset);
    else
        fprintf(out, "load_part(%s + %ld, %d)", pointer, offset, lanes_of(t, r));
}

static void emit_store(FILE *out, const struct mo_walk_tile *t, int r, int pixel) {
    if (lanes_of(t, r) == t->w->isa->lanes)
        fprintf(out, "        store(y + %ld, a%d_%d);\n", y_offset(t, r, pixel), r, pixel);
    else
        fprintf(out, "        store_part(y + %ld, a%d_%d, %d);\n", y_offset(t, r, pixel), r, pixel,
                lanes_of(t, r));
}

enum { ADD_RESIDUAL, ACTIVATE, STORE, RESUME, OWN };

static void emit_each(FILE *out, const struct mo_walk_tile *t, int what) {
    for (int r = 0; r < mo_mac_vectors(&t->mac); r++)
        for (int i = 0; i < t->mac.rows * t->mac.cols; i++) {
            if (!lanes_of(t, r) && what != RESUME) continue;
            if (what == STORE) emit_store(out, t, r, i);
            if (what == OWN && y_offset(t, r, i) % 64 == 0)
                fprintf(out, "        own(y + %ld);\n", y_offset(t, r, i));
            if (what == ACTIVATE) fprintf(out, "        a%d_%d = act(a%d_%d);\n", r, i, r, i);
            if (what != ADD_RESIDUAL && what != RESUME) continue;
            fprintf(out, "        a%d_%d %s ", r, i, what == RESUME ? "=" : "+=");
            emit_load(out, t, r, what == RESUME ? "y" : "res", y_offset(t, r, i));
            fputs(";\n", out);
        }
}

/* Whether long activations wait until all tiles of a call are stored: these follow each other without a gap.
 */
static bool finishes_all(const struct mo_walk *w) {
    return !w->small && w->flat && !clamp_act(w->p->fuse.act);
}

/* The activation of vector r of `pixels` (text) stored pixels, `at` bytes behind y and `step` apart. */
static void emit_stored(FILE *out, const struct mo_walk_tile *t, int r, long at, const char *pixels,
                        long step) {
    int lanes = lanes_of(t, r);
    if (!lanes) return;
    if (lanes == t->w->isa->lanes) {
        char res[32] = "0";
        if (mo_walk_adds_late(t->w)) snprintf(res, sizeof res, "res + %ld", at);
        fprintf(out, "        finish(y + %ld, %s, %s, %ld);\n", at, res, pixels, step);
        return;
    }
    fprintf(out,
            "        for (i64 i = 0; i < %s; i++)\n            store_part(y + %ld + i * %ld, act(load_part(",
            pixels, at, step);
    fprintf(out, "y + i * %ld + %ld, %d))", step, at, lanes);
    if (mo_walk_adds_late(t->w)) fprintf(out, " + load_part(res + i * %ld + %ld, %d)", step, at, lanes);
    fprintf(out, ", %d);\n", lanes);
}

/* Channels of the tile's last block that the output has room for. */
static int lanes_left(const struct mo_walk_tile *t) {
    const int left = (int)(t->w->outs % 16);
    return t->last && t->w->kind == MO_WALK_GEMM && left ? left : 16;
}

/* Activation and residual, then the stores.  Cheap activations act on the accumulators; long ones on what is
 * stored. */
static void emit_finish(FILE *out, const struct mo_walk_tile *t) {
    const struct mo_fuse *f = &t->w->p->fuse;
    const struct mo_walk *w = t->w;
    char pixels[16];
    if (w->small) {
        mo_walk_small_finish(out, w, &t->mac, lanes_left(t));
        return;
    }
    if (clamp_act(f->act)) {
        if (f->act != MO_ACT_NONE) emit_each(out, t, ACTIVATE);
        if (mo_walk_adds_late(w)) emit_each(out, t, ADD_RESIDUAL);
        emit_each(out, t, STORE);
        return;
    }
    emit_each(out, t, STORE);
    snprintf(pixels, sizeof pixels, "%d", t->mac.cols);
    for (int r = 0; r < mo_mac_vectors(&t->mac) && !w->flat; r++)
        for (int row = 0; row < t->mac.rows; row++)
            emit_stored(out, t, r, y_offset(t, r, row * t->mac.cols), pixels, (long)w->y_pixel);
}

/* Behind the loop over the tiles. */
static void emit_finish_all(FILE *out, const struct mo_walk_tile *t) {
    const struct mo_walk *w = t->w;
    char pixels[32];
    if (!finishes_all(w)) return;
    if (w->parts > 1) fprintf(out, "    if (part < %lld) return;\n", ll(w->parts - 1));
    fputs("    y = first, res = first_res;\n", out);
    snprintf(pixels, sizeof pixels, "n_tiles * %d", t->mac.cols);
    for (int r = 0; r < mo_mac_vectors(&t->mac); r++)
        emit_stored(out, t, r, y_offset(t, r, 0), pixels, (long)w->y_row);
}

/* Accumulators start from the bias and an early residual; parts after the first from what the one before
 * left in the output. */
static void emit_start(FILE *out, const struct mo_walk_tile *t) {
    const struct mo_fuse *f = &t->w->p->fuse;
    if (t->w->parts > 1) {
        fputs("        if (part) {\n", out);
        emit_each(out, t, RESUME);
        fputs("        } else {\n", out);
    }
    mo_mac_start(out, &t->mac, 8, "b");
    if (f->residual >= 0 && !f->residual_last) emit_each(out, t, ADD_RESIDUAL);
    if (t->w->parts > 1) fputs("        }\n", out);
}

/* What the end of a tile reads. */
static const char *end_of(const struct mo_walk *w) {
    return w->small ? "const struct end *a" : "const char *res";
}

static void emit_tile(FILE *out, const struct mo_walk_tile *t) {
    const struct mo_walk *w = t->w;
    bool residual = w->p->fuse.residual >= 0;
    fprintf(out, "/* %d x %d pixels */\nstatic __attribute__((noinline)) void ", w->row.cls[t->r].size,
            w->col.cls[t->c].size);
    emit_name(out, t);
    fprintf(out,
            "(const char *x, const char *w, const char *b, char *y, %s, i64 n, i64 part) {\n"
            "    v x_",
            end_of(w));
    for (int r = 0; r < mo_mac_active(&t->mac) && !mo_walk_shares_taps(w); r++)
        fprintf(out, ", w%d", r);
    fputs(";\n", out);
    mo_mac_declare(out, &t->mac, 4);
    fprintf(out, "    (void)x_, (void)%s, (void)part;\n", w->small ? "a" : "res");
    if (w->packed && w->prefetch) fprintf(out, "    const i64 ahead = part ? 0 : %s;\n", w->ahead);
    if (t->mac.fills) mo_walk_small_pads(out, w);
    if (finishes_all(w))
        fputs("    char *const first = y;\n    const char *const first_res = res;\n    const i64 n_tiles = "
              "n;\n",
              out);
    int size = w->row.cls[t->r].size;
    fprintf(out, "    for (; n > 0; n--, x += %lld, y += %lld", ll(size * w->row.stride * w->x_row),
            ll(size * w->y_row));
    if (residual) fprintf(out, ", res += %lld", ll(size * w->y_row));
    fputs(") {\n", out);
    if (w->owns) emit_each(out, t, OWN);
    emit_start(out, t);
    for (int r = mo_mac_active(&t->mac); r < mo_mac_vectors(&t->mac); r++)
        for (int i = 0; i < t->mac.rows * t->mac.cols && !lanes_of(t, r); i++)
            fprintf(out, "        (void)a%d_%d;\n", r, i);
    emit_planes(out, t);
    if (w->parts > 1) {
        fprintf(out, "        if (part < %lld) {\n", ll(w->parts - 1));
        emit_each(out, t, STORE);
        fputs("            continue;\n        }\n", out);
    }
    emit_finish(out, t);
    fputs("    }\n", out);
    emit_finish_all(out, t);
    fputs("}\n\n", out);
}

void mo_walk_emit_tiles(FILE *out, const struct mo_walk *w) {
    int sets = mo_walk_last_differs(w) ? 2 : 1;
    if (!w->small && !clamp_act(w->p->fuse.act)) mo_walk_emit_finish(out, w);
    for (int k = 0; k < sets; k++)
        for (int r = 0; r < w->row.n_classes; r++)
            for (int c = 0; c < w->col.n_classes; c++) {
                struct mo_walk_tile t = tile_of(w, k, r, c);
                emit_tile(out, &t);
            }
    fprintf(out,
            "typedef void tile_fn(const char *, const char *, const char *, char *, %s, i64, i64);\n"
            "static tile_fn *const tiles[%d][%d][%d] = {\n",
            end_of(w), sets, w->row.n_classes, w->col.n_classes);
    for (int k = 0; k < sets; k++) {
        fputs("    {", out);
        for (int r = 0; r < w->row.n_classes; r++) {
            fputc('{', out);
            for (int c = 0; c < w->col.n_classes; c++) {
                struct mo_walk_tile t = tile_of(w, k, r, c);
                emit_name(out, &t);
                fputs(", ", out);
            }
            fputs("}, ", out);
        }
        fputs("},\n", out);
    }
    fputs("};\n", out);
}
