/* SPDX-License-Identifier: Apache-2.0
 * winograd_tiles.c - the tiles of an output whose extents m does not divide.
 *
 * The last tile of a row or column of them is a tail where fewer products give what is left of it: 38 pixels
 * are six tiles of 6, of 8 products each way, and a tail of 2, of 4; seven whole ones would take 56 in place
 * of 52, and 56^2 in place of 52^2. */
#include "codegen/family/winograd.h"
#include "runtime/base/numbers.h"

/* In their order; tiles that have a plane must follow each other, see winograd.h. */
static const int order[MO_WINO_KINDS] = {MO_WINO_RIGHT, 0, MO_WINO_BOTTOM, MO_WINO_RIGHT | MO_WINO_BOTTOM};

static long long ll(int64_t x) {
    return x;
}

/* The matrices of the smallest tail that holds what the last of tiles leaves of `extent`: those of whole
 * tiles where none is smaller. */
static struct mo_winograd tail_of(const struct mo_winograd *whole, int64_t extent) {
    struct mo_winograd tail;
    int64_t count = mo_ceil_div(extent, whole->m);
    int left = (int)(extent - (count - 1) * whole->m);
    for (int m = left; count > 1 && m < whole->m; m++)
        if (mo_winograd_tail(whole, m, &tail)) return tail;
    return *whole;
}

/* The matrices of each dimension; a filter of one line has nothing to dilate across it. */
static void set_whole(struct mo_wino *w) {
    const struct mo_problem *p = w->p;
    w->whole_down = w->whole_across = w->matrix;
    w->dh = p->dh, w->dw = p->dw;
    if (p->kh == 1) mo_winograd_identity(&w->whole_down), w->dh = 1;
    if (p->kw == 1) mo_winograd_identity(&w->whole_across), w->dw = 1;
    w->phases_down = w->dh < p->oh ? w->dh : p->oh;
    w->phases_across = w->dw < p->ow ? w->dw : p->ow;
}

void mo_wino_tile(struct mo_wino *w) {
    const struct mo_problem *p = w->p;
    set_whole(w);
    int64_t high = mo_ceil_div(p->oh, w->dh), wide = mo_ceil_div(p->ow, w->dw); /* of the largest phase */
    w->rows = mo_ceil_div(high, w->whole_down.m) * w->phases_down;
    w->cols = mo_ceil_div(wide, w->whole_across.m) * w->phases_across;
    w->tiles = p->n * w->rows * w->cols;
    w->down = tail_of(&w->whole_down, high);
    w->across = tail_of(&w->whole_across, wide);
    int64_t bottom = w->down.m < w->whole_down.m ? w->phases_down : 0,
            right = w->across.m < w->whole_across.m ? w->phases_across : 0;
    w->kinds = bottom || right ? MO_WINO_KINDS : 1;
    int64_t at = 0;
    for (int i = 0; i < MO_WINO_KINDS; i++) {
        struct mo_wino_kind *k = &w->kind[order[i]];
        bool lower = order[i] & MO_WINO_BOTTOM, outer = order[i] & MO_WINO_RIGHT;
        k->rows = lower ? bottom : w->rows - bottom, k->cols = outer ? right : w->cols - right;
        k->y = lower ? w->rows - bottom : 0, k->x = outer ? w->cols - right : 0;
        k->begin = at;
        k->end = at += p->n * k->rows * k->cols;
    }
}

const struct mo_winograd *mo_wino_down(const struct mo_wino *w, int kind) {
    return kind & MO_WINO_BOTTOM ? &w->down : &w->whole_down;
}

const struct mo_winograd *mo_wino_across(const struct mo_wino *w, int kind) {
    return kind & MO_WINO_RIGHT ? &w->across : &w->whole_across;
}

static bool has(const struct mo_winograd *tail, int line) {
    for (int i = 0; i < tail->alpha; i++)
        if (tail->of[i] == line) return true;
    return false;
}

int mo_wino_class(const struct mo_wino *w, int row, int col) {
    return (has(&w->across, col) ? 0 : MO_WINO_RIGHT) | (has(&w->down, row) ? 0 : MO_WINO_BOTTOM);
}

int mo_wino_class_rows(const struct mo_wino *w, int cls) {
    return cls & MO_WINO_BOTTOM ? w->whole_down.alpha - w->down.alpha : w->down.alpha;
}

int mo_wino_class_cols(const struct mo_wino *w, int cls) {
    return cls & MO_WINO_RIGHT ? w->whole_across.alpha - w->across.alpha : w->across.alpha;
}

/* Of all tiles those that have the planes of a class. */
static void range_of(const struct mo_wino *w, int cls, int64_t *begin, int64_t *end) {
    *begin = cls & MO_WINO_RIGHT ? w->kind[0].begin : 0;
    *end = w->tiles;
    if (cls & MO_WINO_RIGHT) *end = w->kind[MO_WINO_BOTTOM].end;
    if (cls & MO_WINO_BOTTOM) *end = w->kind[0].end;
}

int64_t mo_wino_span(const struct mo_wino *w, int cls, int64_t first, int64_t count, int64_t *at) {
    int64_t begin, end;
    range_of(w, cls, &begin, &end);
    *at = begin;
    if (!mo_wino_class_rows(w, cls) || !mo_wino_class_cols(w, cls)) return 0;
    if (begin < first) begin = first;
    if (end > first + count) end = first + count;
    *at = begin;
    return end > begin ? end - begin : 0;
}

int64_t mo_wino_planes(const struct mo_wino *w) {
    int64_t sum = 0;
    for (int k = 0; k < MO_WINO_KINDS; k++)
        sum += (w->kind[k].end - w->kind[k].begin) * mo_wino_down(w, k)->alpha * mo_wino_across(w, k)->alpha;
    return sum;
}

/* --- emitted --- */

/* `name`(): first output pixel of the tile-th row or column of tiles. */
static void emit_first(FILE *out, const char *name, int m, int64_t dilation, int64_t phases) {
    fprintf(out, "INLINE i64 %s(i64 tile) { return ", name);
    if (phases > 1)
        fprintf(out, "tile / %lld * %lld + tile %% %lld; }\n", ll(phases), ll(m * dilation), ll(phases));
    else
        fprintf(out, "tile * %lld; }\n", ll(m * dilation));
}

static void emit_tile_at(FILE *out, const struct mo_wino *w) {
    emit_first(out, "row_at", w->whole_down.m, w->dh, w->phases_down);
    emit_first(out, "col_at", w->whole_across.m, w->dw, w->phases_across);
    fputs("struct tile { i64 kind, image, y, x; }; /* y, x: the first of its output pixels */\n"
          "INLINE struct tile tile_at(i64 t) {\n",
          out);
    for (int i = 0; i < MO_WINO_KINDS; i++) {
        const struct mo_wino_kind *k = &w->kind[order[i]];
        if (k->begin == k->end) continue;
        if (k->end < w->tiles) fprintf(out, "    if (t < %lld)\n    ", ll(k->end));
        fprintf(out,
                "    return (struct tile){%d, (t - %lld) / %lld, row_at((t - %lld) %% %lld / %lld + %lld), "
                "col_at((t - %lld) %% %lld + %lld)};\n",
                order[i], ll(k->begin), ll(k->rows * k->cols), ll(k->begin), ll(k->rows * k->cols),
                ll(k->cols), ll(k->y), ll(k->begin), ll(k->cols), ll(k->x));
    }
    fputs("}\n\n", out);
}

void mo_wino_emit_tiles(FILE *out, const struct mo_wino *w) {
    emit_tile_at(out, w);
    fprintf(out,
            "enum { CLASSES = %d };\n"
            "/* the tiles of a block that have the planes of a class: first one, within the block, number, "
            "register tiles */\n"
            "struct span { i64 at, n, cuts; };\n"
            "static void spans_of(i64 first, i64 count, struct span *s) {\n"
            "    static const i64 begin[] = {",
            w->kinds);
    for (int side = 0; side < 2; side++) {
        for (int c = 0; c < w->kinds; c++) {
            int64_t begin, end;
            range_of(w, c, &begin, &end);
            fprintf(out, "%lld, ", ll(side ? end : begin));
        }
        fputs(side ? "};\n" : "}, end[] = {", out);
    }
    fprintf(out,
            "    for (i64 c = 0; c < CLASSES; c++) {\n"
            "        const i64 from = begin[c] > first ? begin[c] : first, to = cap(end[c], first + count);\n"
            "        s[c].at = from - first;\n"
            "        s[c].n = to > from ? to - from : 0;\n"
            "        s[c].cuts = (s[c].n + %d) / %d;\n    }\n}\n\n"
            "/* first tile of register tile j */\n"
            "INLINE i64 cut_at(i64 j, const struct span *s) { return j * (s->n / s->cuts) + cap(j, s->n %% "
            "s->cuts); }\n\n",
            w->cut - 1, w->cut);
}
