/* SPDX-License-Identifier: Apache-2.0
 * grouped.c - convolution of groups of any width on blocked input, without products between groups.
 *
 * A vector of outputs may have channels of several groups.  Every lane needs the same channel of its own
 * group: where whole groups lie in a vector, lanes of one vector of inputs are spread over them; else a
 * vector is made of one broadcast for each group, of which all taps of a filter row make use.  So 24 channels
 * a group take as many steps as they have channels, where merged groups take 48. */
#include "codegen/family/walk_groups.h"

enum { MOST_SOURCES = 6, MOST_TAPS = 7 };

/* The group of output channel o; lanes beyond the channels count to the last one. */
static int64_t group_of(const struct mo_walk *w, int64_t o) {
    int64_t width = w->p->o / w->p->own_groups;
    return o < w->p->o ? o / width : w->p->own_groups - 1;
}

/* Groups that vector v of outputs has channels of. */
static int sources_of(const struct mo_walk *w, int64_t v) {
    int64_t first = v * w->isa->lanes;
    return (int)(group_of(w, first + w->isa->lanes - 1) - group_of(w, first)) + 1;
}

static bool mixes(const struct mo_walk *w, int64_t block) {
    for (int r = 0; r < w->isa->vectors; r++)
        if (sources_of(w, block * w->isa->vectors + r) > 1) return true;
    return false;
}

void mo_walk_describe_groups(struct mo_walk *w) {
    const struct mo_problem *p = w->p;
    w->channels = p->c / p->own_groups;
    w->w_block = w->channels * w->w_plane;
    w->sources = 1;
    w->spreads =
        w->isa->permutes && p->c == p->o && w->channels < w->isa->lanes && w->isa->lanes % w->channels == 0;
    for (int64_t v = 0; v < w->ocb * w->isa->vectors && !w->spreads; v++)
        if (sources_of(w, v) > w->sources) w->sources = sources_of(w, v);
}

bool mo_walk_mixes_some(const struct mo_walk *w) {
    bool some = false, all = true;
    for (int64_t b = 0; b < w->ocb && w->sources > 1; b++)
        mixes(w, b) ? (some = true) : (all = false);
    return some && !all;
}

bool mo_walk_groups_fit(const struct mo_walk *w, int64_t pixels) {
    /* masks beside the vector that is made, but where they have registers of their own */
    int64_t others = w->spreads ? 1 : w->sources > 1 && w->isa->lanes < 16 ? w->sources : 0;
    return !w->isa->constraint || pixels * w->isa->vectors + w->col.taps + 1 + others <= w->isa->regs;
}

static void emit_spread(FILE *out, const struct mo_walk *w) {
    fprintf(out,
            "INLINE v spread(vi at, const char *p) {\n"
            "    v x;\n"
            "    __asm__(\"vpermps %%1, %%2, %%0\" : \"=%s\"(x) : \"m\"(*(const vu *)p), \"%s\"(at));\n"
            "    return x;\n}\n"
            "static const vi group_lanes = {",
            w->isa->constraint, w->isa->constraint);
    for (int i = 0; i < w->isa->lanes; i++)
        fprintf(out, "%d, ", (int)(i / w->channels * w->channels));
    fputs("};\n\n", out);
}

/* beside(): x, with the float at p in the lanes of the mask. */
static void emit_beside(FILE *out, const struct mo_walk *w) {
    if (w->isa->lanes == 16) {
        fputs("typedef unsigned short mask;\n"
              "INLINE mask lanes_from(int lane) { return (mask)(0xffffu << lane); }\n"
              "INLINE v beside(v x, mask m, const char *p) {\n"
              "    __asm__(\"vbroadcastss %1, %0%{%2%}\" : \"+v\"(x) : \"m\"(*(const f32 *)p), \"Yk\"(m));\n"
              "    return x;\n}\n\n",
              out);
        return;
    }
    fputs("typedef vi mask;\nINLINE mask lanes_from(int lane) { return (vi){", out);
    for (int i = 0; i < w->isa->lanes; i++)
        fprintf(out, "-(%d >= lane), ", i);
    fputs("}; }\nINLINE v beside(v x, mask m, const char *p) { return vselect(m, broadcast(p), x); }\n\n",
          out);
}

void mo_walk_emit_sources(FILE *out, const struct mo_walk *w) {
    const int lanes = w->isa->lanes;
    if (w->spreads) {
        emit_spread(out, w);
        return;
    }
    if (w->sources > 1) emit_beside(out, w);
    fprintf(out, "static const struct { int channel[%d], lane[%d]; } sources[] = {\n", w->sources,
            w->sources);
    for (int64_t v = 0; v < w->ocb * w->isa->vectors; v++) {
        const int64_t first = group_of(w, v * lanes), width = w->p->o / w->p->own_groups;
        const int n = sources_of(w, v);
        fputs("    {{", out);
        for (int k = 0; k < w->sources; k++) {
            const int64_t channel = (first + (k < n ? k : n - 1)) * w->channels;
            fprintf(out, "%lld, ", (long long)channel);
        }
        fputs("}, {", out);
        for (int k = 0; k < w->sources; k++)
            fprintf(out, "%lld, ", (long long)(!k ? 0 : k < n ? (first + k) * width - v * lanes : lanes));
        fputs("}},\n", out);
    }
    fputs("};\n", out);
    if (!mo_walk_mixes_some(w)) return;
    fputs("static const unsigned char mixed[] = {", out);
    for (int64_t b = 0; b < w->ocb; b++)
        fprintf(out, "%d, ", mixes(w, b));
    fputs("};\n\n", out);
}

/* Where vector r finds channel s of its groups: f<r>_<source>. */
static void emit_pointers(FILE *out, const struct mo_walk_tile *t, int r) {
    const struct mo_walk *w = t->w;
    if (w->spreads) {
        fprintf(out, "            const char *f%d_0 = x + part * %lld + %d;\n", r, (long long)w->x_plane,
                r * w->isa->lanes * 4);
        return;
    }
    for (int k = 0; k < t->sources; k++)
        fprintf(out,
                "            const i64 c%d_%d = sources[part * %d + %d].channel[%d] + s;\n"
                "            const char *f%d_%d = x + (c%d_%d >> 4) * %lld + (c%d_%d & 15) * 4;\n",
                r, k, w->isa->vectors, r, k, r, k, r, k, (long long)w->x_plane, r, k);
}

static void emit_input(FILE *out, const struct mo_walk_tile *t, int r, int64_t offset) {
    if (t->w->spreads) {
        fprintf(out, "                x_ = spread(at, f%d_0 + %lld);", r, (long long)offset);
        return;
    }
    fprintf(out, "                x_ = broadcast(f%d_0 + %lld);", r, (long long)offset);
    for (int k = 1; k < t->sources; k++)
        fprintf(out, " x_ = beside(x_, m%d_%d, f%d_%d + %lld);", r, k, r, k, (long long)offset);
}

/* What column `at` of the inputs of filter row h adds to the pixels of row i, for vector r. */
static void emit_column(FILE *out, const struct mo_walk_tile *t, int r, int64_t h, int i, int at) {
    const struct mo_walk *w = t->w;
    bool loaded = false;
    for (int k = 0; k < w->col.taps; k++) {
        const int from = at - k * (int)w->col.dilation, col = from / (int)w->col.stride;
        const int pixel = i * t->mac.cols + col;
        if (from < 0 || from % w->col.stride || col >= t->mac.cols) continue;
        if (!(mo_walk_tap_mask(t, h, k) >> pixel & 1)) continue;
        if (!loaded)
            emit_input(out, t, r, (h * w->row.dilation + i * w->row.stride) * w->x_row + at * w->x_pixel);
        loaded = true;
        fprintf(out, " a%d_%d = mac(a%d_%d, w%d, x_);", r, pixel, r, pixel, k);
    }
    if (loaded) fputc('\n', out);
}

/* One filter row: weights of its taps stay in registers, and each input is read once for all of them. */
static void emit_row(FILE *out, const struct mo_walk_tile *t, int r, int64_t h) {
    const struct mo_walk *w = t->w;
    const int columns = (t->mac.cols - 1) * (int)w->col.stride + (int)((w->col.taps - 1) * w->col.dilation);
    uint64_t any = 0;
    for (int64_t k = 0; k < w->col.taps; k++)
        any |= mo_walk_tap_mask(t, h, k);
    if (!any) return;
    fputs("            {\n", out);
    for (int64_t k = 0; k < w->col.taps; k++) {
        const int64_t at = (h * w->col.taps + k) * w->w_tap + r * w->isa->lanes * 4;
        if (!mo_walk_tap_mask(t, h, k)) continue;
        fprintf(out, "                const v w%d = load(q + %lld);\n", (int)k, (long long)at);
    }
    for (int i = 0; i < t->mac.rows; i++)
        for (int at = 0; at <= columns; at++)
            emit_column(out, t, r, h, i, at);
    fputs("            }\n", out);
}

void mo_walk_emit_groups(FILE *out, const struct mo_walk_tile *t) {
    const struct mo_walk *w = t->w;
    for (int r = 0; r < w->isa->vectors; r++)
        for (int k = 1; k < t->sources; k++)
            fprintf(out, "        const mask m%d_%d = lanes_from(sources[part * %d + %d].lane[%d]);\n", r, k,
                    w->isa->vectors, r, k);
    fprintf(out,
            "        const char *q = w;\n"
            "        for (i64 s = 0; s < %lld; s++, q += %lld) {\n",
            (long long)w->channels, (long long)w->w_plane);
    if (w->spreads) fputs("            const vi at = group_lanes + (int)s;\n", out);
    for (int r = 0; r < w->isa->vectors; r++) {
        emit_pointers(out, t, r);
        for (int64_t h = 0; h < w->row.taps; h++)
            emit_row(out, t, r, h);
    }
    fputs("        }\n", out);
}

static bool takes(const struct mo_problem *p) {
    struct mo_walk w;
    if (p->dot || p->fuse.gated || p->own_groups < 2 || p->in_layout != MO_C16 || p->out_layout != MO_C16)
        return false;
    if (p->kh > MOST_TAPS || p->kw > MOST_TAPS || p->own_groups == p->c) return false;
    return mo_walk_describe(p, MO_WALK_GROUPED, &w) && w.sources <= MOST_SOURCES;
}

static int points(const struct mo_problem *p, struct mo_point *out, int cap) {
    return mo_walk_points(p, MO_WALK_GROUPED, out, cap);
}

static int emit(const struct mo_problem *p, const struct mo_point *point, FILE *out, moire_error *err) {
    return mo_walk_emit_point(p, MO_WALK_GROUPED, "grouped", point, out, err);
}

const struct mo_emit_family mo_emit_family_grouped = {"grouped", MO_WALK_KNOBS, takes, points, emit};
