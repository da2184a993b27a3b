/* SPDX-License-Identifier: Apache-2.0
 * depthwise_small.c - depthwise filters over 8-bit numbers: a tile is some rows and columns of pixels of one
 * block of 16 channels.
 *
 * A product takes four columns of a filter row at a time (two of int16), so what it multiplies are pixels
 * turned round, by channel.  A unit copies the input rows of its tiles with their pads to the scratch; a tile
 * turns each group of columns once and uses it for all rows of outputs that meet it, which saves most of the
 * turning.  Columns behind the filter's last have weights of zero. */
#include "codegen/family/depthwise_small.h"

#include <string.h>

enum { MIN_UNITS = 64, COLUMNS = 4, MOST_ROWS = 6, MOST_COLUMNS = 14, WINDOW_BYTES = 128 << 10, LANES = 16 };

/* A point of a layer. */
struct shape {
    const struct mo_problem *p;
    const struct mo_emit_isa *isa;
    struct mo_axis row, col; /* of outputs; their pads are part of the input here */
    int64_t blocks, chunks;
    int64_t quads, parts; /* groups of columns of a filter row; products of one */
    int64_t x_row, rows;  /* bytes of a copied row; rows of a unit's window */
    struct mo_walk w;     /* places of the output, for the end of a tile */
};

bool mo_depthwise_small_takes(const struct mo_problem *p) {
    return p->dot && p->groups > 1 && p->groups == p->c && p->groups == p->o && p->dw == 1 && p->dh == 1 &&
           p->kh <= MO_AXIS_TAPS && p->kw <= 2 * COLUMNS && p->in_layout == MO_C16 && p->out_layout == MO_C16;
}

static int64_t vectors_of(const struct shape *s, int64_t rows, int64_t cols) {
    return s->isa->vectors * rows * cols;
}

/* All channels of a block are turned at once, since pixels are read whole. */
static bool turns_block(const struct shape *s) {
    return s->isa->vectors == 4;
}

/* Registers beside the sums: groups of columns, weights, and what a product or turning needs. */
static int64_t others_of(const struct shape *s) {
    return turns_block(s) ? 8 : 4;
}

/* Of all outputs of the layer, input rows that a tile has, and so on: false when the point is illegal. */
static bool shape_of(const struct mo_problem *p, const struct mo_point *point, struct shape *s) {
    const int *knob = point->knob;
    *s = (struct shape){.p = p, .isa = mo_emit_isa_of_dot(p->dot), .blocks = (p->c + LANES - 1) / LANES};
    s->row = (struct mo_axis){.in = p->h + p->pt + p->pb, .out = p->oh, .taps = 1, .stride = p->sh};
    s->col = (struct mo_axis){.in = p->w + p->pl + p->pr, .out = p->ow, .taps = 1, .stride = p->sw};
    s->row.dilation = s->col.dilation = 1;
    s->quads = (p->kw + COLUMNS - 1) / COLUMNS;
    s->parts = s->isa->pairs ? 2 : 1;
    if (!mo_axis_cut(&s->row, knob[MO_KNOB_ROWS]) || !mo_axis_cut(&s->col, knob[MO_KNOB_COLS])) return false;
    const int64_t rows = s->row.size + !!s->row.extra, cols = s->col.size + !!s->col.extra;
    if (vectors_of(s, rows, cols) + others_of(s) > s->isa->regs || knob[MO_KNOB_UNIT] < 1) return false;
    s->chunks = (s->row.tiles + knob[MO_KNOB_UNIT] - 1) / knob[MO_KNOB_UNIT];
    const int64_t tiles = (s->row.tiles + s->chunks - 1) / s->chunks;
    s->rows = (tiles * rows - 1) * p->sh + p->kh;
    s->x_row = ((p->ow - 1) * p->sw + s->quads * COLUMNS) * LANES;
    if (s->x_row < s->col.in * LANES) s->x_row = s->col.in * LANES;
    s->w = (struct mo_walk){.p = p,
                            .isa = s->isa,
                            .kind = MO_WALK_DEPTHWISE,
                            .small = true,
                            .groups = 1,
                            .blocks = 1,
                            .ocb = s->blocks,
                            .w_block = p->kh * s->quads * s->parts * 64};
    s->w.y_pixel = mo_walk_block(&s->w);
    s->w.y_row = p->ow * s->w.y_pixel;
    s->w.y_block = p->oh * s->w.y_row;
    return s->rows * s->x_row <= WINDOW_BYTES;
}

/* --- points --- */
/* Turning takes three instructions, a product one or, of int16, two. */
static double cost_of(const struct shape *s) {
    const double rows = (double)s->row.size + 0.5 * !!s->row.extra,
                 cols = (double)s->col.size + 0.5 * !!s->col.extra;
    const double groups = (double)(s->quads * s->parts * s->isa->vectors);
    const double turned = ((rows - 1) * s->p->sh + s->p->kh) * cols * groups * 3;
    const double products = rows * cols * s->p->kh * groups * (double)s->parts;
    const double tile = turned + products + 20 + 4 * rows * cols * s->isa->vectors;
    const double copied = (double)(s->chunks * s->rows * s->x_row) / 32;
    return (double)(s->p->n * s->blocks) * (tile * (double)(s->row.tiles * s->col.tiles) + copied) / 2 / 4.2;
}

/* As few chunks as give many cores their units. */
static int unit_of(const struct mo_problem *p, int rows) {
    const int64_t images = p->n * ((p->c + LANES - 1) / LANES), tiles = (p->oh + rows - 1) / rows;
    const int64_t chunks = (MIN_UNITS + images - 1) / images;
    return (int)(chunks >= tiles ? 1 : tiles / chunks);
}

int mo_depthwise_small_points(const struct mo_problem *p, struct mo_point *points, int cap) {
    int n = 0;
    for (int rows = 1; rows <= MOST_ROWS; rows++)
        for (int cols = 1; cols <= MOST_COLUMNS; cols++) {
            struct mo_point point = {.knob = {1, rows, cols, 1}, .packing = MO_PACK_DOTDW16};
            struct shape s;
            point.knob[MO_KNOB_UNIT] = unit_of(p, rows);
            if (!mo_axis_balanced(p->oh, rows) || !mo_axis_balanced(p->ow, cols)) continue;
            while (!shape_of(p, &point, &s) && s.rows * s.x_row > WINDOW_BYTES &&
                   point.knob[MO_KNOB_UNIT] > 1)
                point.knob[MO_KNOB_UNIT] /= 2;
            if (!shape_of(p, &point, &s)) continue;
            if (s.isa->pairs) point.packing = MO_PACK_PAIRS_DW16;
            point.cost_ns = cost_of(&s);
            point.units = p->n * s.blocks * s.chunks;
            point.part_ns = point.cost_ns * (double)mo_wide_most(point.units, p->cores) / (double)point.units;
            int at = n;
            while (at > 0 && points[at - 1].cost_ns > point.cost_ns)
                at--;
            n = mo_points_put(points, n, cap, at, &point);
        }
    return n;
}

/* --- text --- */
static long long ll(int64_t x) {
    return x;
}

/* Weights of filter row k and group `group`, vector r, as text. */
static void put_weight(FILE *out, const struct shape *s, int64_t k, int64_t group, int r, bool held) {
    const int64_t at = (k * s->quads * s->parts + group) * 64 + r * s->isa->lanes * 4;
    if (held)
        fprintf(out, "w%d_%lld", r, ll(k * s->quads * s->parts + group));
    else
        fprintf(out, "load(w + %lld)", ll(at));
}

/* Columns from pixel t on of input row i, by channel. */
static void emit_turn(FILE *out, const struct shape *s, int64_t i, int64_t column, int r) {
    const long long at = ll(i * s->x_row + column * LANES);
    if (!turns_block(s))
        fprintf(out, "    x_ = columns(x + %lld);", at + r * s->isa->lanes);
    else if (!r)
        fprintf(out, "    turn(x + %lld, &x_0, &x_1, &x_2, &x_3);", at);
    else
        fputs("   ", out);
}

/* All filter rows that input row i of a tile has outputs for; `group` columns from pixel t on. */
static void emit_group(FILE *out, const struct shape *s, const struct mo_mac *m, int64_t i, int t,
                       int64_t group, int r, bool held) {
    const int64_t column = t * s->p->sw + group * (COLUMNS / s->parts);
    char x[16] = "x_";
    if (turns_block(s)) snprintf(x, sizeof x, "x_%d", r);
    bool turned = false;
    for (int row = 0; row < m->rows; row++) {
        const int64_t k = i - (int64_t)row * s->p->sh;
        if (k < 0 || k >= s->p->kh) continue;
        if (!turned) emit_turn(out, s, i, column, r);
        turned = true;
        fprintf(out, " a%d_%d = mac(a%d_%d, ", r, row * m->cols + t, r, row * m->cols + t);
        put_weight(out, s, k, group, r, held);
        fprintf(out, ", %s);", x);
    }
    if (turned) fputc('\n', out);
}

static void emit_name(FILE *out, int rows, int cols) {
    fprintf(out, "NAMED(tile_%dx%d)", rows, cols);
}

static void emit_tile(FILE *out, const struct shape *s, int rows, int cols) {
    const struct mo_mac m = {.isa = s->isa, .blocks = 1, .rows = rows, .cols = cols, .vector_x = true};
    const int64_t groups = s->quads * s->parts, weights = groups * s->p->kh * s->isa->vectors;
    const bool held = weights + vectors_of(s, rows, cols) + others_of(s) <= s->isa->regs;
    fputs("static __attribute__((noinline)) void ", out);
    emit_name(out, rows, cols);
    fprintf(out, "(const char *x, const char *w, const char *b, char *y, const struct end *a) {\n    v %s;\n",
            turns_block(s) ? "x_0, x_1, x_2, x_3" : "x_");
    mo_mac_declare(out, &m, 4);
    for (int r = 0; held && r < s->isa->vectors; r++)
        for (int64_t k = 0; k < groups * s->p->kh; k++)
            fprintf(out, "    const v w%d_%lld = load(w + %lld);\n", r, ll(k),
                    ll(k * 64 + r * s->isa->lanes * 4));
    mo_mac_start(out, &m, 4, "b");
    for (int64_t i = 0; i < (rows - 1) * (int64_t)s->p->sh + s->p->kh; i++)
        for (int t = 0; t < cols; t++)
            for (int64_t group = 0; group < groups; group++)
                for (int r = 0; r < s->isa->vectors; r++)
                    emit_group(out, s, &m, i, t, group, r, held);
    mo_walk_small_finish(out, &s->w, &m, LANES);
    fputs("}\n\n", out);
}

/* Tiles of both sizes of an axis: the longer ones come first. */
static void emit_tiles(FILE *out, const struct shape *s) {
    for (int r = 0; r < s->row.n_classes; r++)
        for (int c = 0; c < s->col.n_classes; c++)
            emit_tile(out, s, s->row.cls[r].size, s->col.cls[c].size);
    fprintf(out,
            "typedef void tile_fn(const char *, const char *, const char *, char *, const struct end *);\n"
            "static tile_fn *const tiles[%d][%d] = {\n",
            s->row.n_classes, s->col.n_classes);
    for (int r = 0; r < s->row.n_classes; r++) {
        fputs("    {", out);
        for (int c = 0; c < s->col.n_classes; c++) {
            emit_name(out, s->row.cls[r].size, s->col.cls[c].size);
            fputs(", ", out);
        }
        fputs("},\n", out);
    }
    fputs("};\n", out);
}

/* Rows [first, end) of the padded image, `first` at the beginning of the scratch; signed where products are
 * of signed bytes. */
static void emit_fetch(FILE *out, const struct shape *s) {
    const struct mo_problem *p = s->p;
    const long long width = p->w, behind = ll(s->x_row / LANES) - p->pl - width;
    const char *open = s->isa->flips ? "pixel(" : "*(const quarter *)", *close = s->isa->flips ? ")" : "";
    const char *from = s->isa->flips ? "x + i * 16" : "(x + i * 16)";
    fprintf(out,
            "INLINE void fill(char *to, i64 pixels, const char *zero) {\n"
            "    for (i64 i = 0; i < pixels; i++) *(quarter *)(to + i * 16) = %szero%s;\n}\n"
            "static void fetch(const char *from, char *to, i64 first, i64 end, const char *zero) {\n"
            "    for (i64 row = first; row < end; row++, to += %lld) {\n"
            "        if (row < %d || row >= %lld) {\n"
            "            fill(to, %lld, zero);\n"
            "            continue;\n"
            "        }\n"
            "        const char *x = from + (row - %d) * %lld;\n"
            "        fill(to, %d, zero);\n"
            "        for (i64 i = 0; i < %lld; i++)\n"
            "            *(quarter *)(to + (i + %d) * 16) = %s%s%s;\n"
            "        fill(to + %lld, %lld, zero);\n"
            "    }\n}\n\n",
            open, close, ll(s->x_row), p->pt, ll(p->h + p->pt), ll(s->x_row / LANES), p->pt, ll(p->w * LANES),
            p->pl, width, p->pl, open, from, close, ll((p->pl + p->w) * LANES), behind);
}

static void emit_run(FILE *out, const struct shape *s) {
    const struct mo_problem *p = s->p;
    mo_axis_emit_at(out, &s->row, "row");
    mo_axis_emit_at(out, &s->col, "col");
    fprintf(out,
            "static void NAMED(run)(const struct mo_kargs *a, i64 begin, i64 end_unit, void *scratch) {\n"
            "    for (i64 u = begin; u < end_unit; u++) {\n"
            "        const i64 image = u / %lld, first = u / %lld %% %lld, chunk = u %% %lld;\n"
            "        const i64 r0 = chunk * %lld / %lld, r1 = (chunk + 1) * %lld / %lld;\n",
            ll(s->blocks * s->chunks), ll(s->chunks), ll(s->blocks), ll(s->chunks), ll(s->row.tiles),
            ll(s->chunks), ll(s->row.tiles), ll(s->chunks));
    mo_walk_small_set(out, 8);
    fprintf(out,
            "        const char *x = (const char *)a->in[0] + image * a->in_image[0] + first * %lld;\n"
            "        const char *w = (const char *)a->weights + first * %lld, *b = (const char *)a->bias + "
            "first * "
            "64;\n"
            "        char *y = (char *)a->out[0] + image * a->out_image[0] + first * %lld;\n"
            "        fetch(x, scratch, row_at(r0) * %d, (row_at(r1) - 1) * %d + %d, end.zero);\n",
            ll(p->h * p->w * LANES), ll(s->w.w_block), ll(s->w.y_block), p->sh, p->sh, p->kh);
    mo_walk_small_start(out, &s->w, 8);
    fprintf(
        out,
        "        for (i64 r = r0; r < r1; r++)\n"
        "            for (i64 c = 0; c < %lld; c++)\n"
        "                tiles[%s][%s]((char *)scratch + (row_at(r) - row_at(r0)) * %lld + col_at(c) * %d,\n"
        "                         w, b, y + row_at(r) * %lld + col_at(c) * %lld, &end);\n"
        "    }\n}\n\n",
        ll(s->col.tiles), s->row.n_classes > 1 ? "r >= ROW_EXTRA" : "0",
        s->col.n_classes > 1 ? "c >= COL_EXTRA" : "0", ll(p->sh * s->x_row), p->sw * LANES, ll(s->w.y_row),
        ll(s->w.y_pixel));
}

int mo_depthwise_small_emit(const struct mo_problem *p, const struct mo_point *point, FILE *out,
                            moire_error *err) {
    struct shape s;
    char name[128];
    if (!shape_of(p, point, &s)) return mo_fail(err, MOIRE_EINVAL, "illegal point for family depthwise");
    snprintf(name, sizeof name, "depthwise %s %dx%d n%d", s.isa->name, point->knob[MO_KNOB_ROWS],
             point->knob[MO_KNOB_COLS], point->knob[MO_KNOB_UNIT]);
    mo_walk_small_head(out, &s.w, name);
    fprintf(out, "enum { ROW_EXTRA = %lld, COL_EXTRA = %lld };\n", ll(s.row.extra), ll(s.col.extra));
    emit_tiles(out, &s);
    emit_fetch(out, &s);
    emit_run(out, &s);
    const int64_t pixels = p->n * s.blocks * p->oh * p->ow;
    const int64_t weights = s.blocks * p->kh * s.quads * s.parts * 64, in = s.blocks * p->h * p->w * LANES;
    mo_emit_descriptor(out,
                       &(struct mo_variant){.packing = s.isa->pairs ? MO_PACK_PAIRS_DW16 : MO_PACK_DOTDW16,
                                            .units = p->n * s.blocks * s.chunks,
                                            .scratch_bytes = s.rows * s.x_row,
                                            .parallelism_milli = 1000 * p->n * s.blocks * s.chunks *
                                                                 vectors_of(&s, s.row.size, s.col.size) / 28,
                                            .block_bytes = s.rows * s.x_row,
                                            .l3_bytes = p->n * in + weights + pixels * s.w.y_pixel,
                                            .flops_executed = 2 * pixels * LANES * p->kh * s.quads * COLUMNS,
                                            .name = name});
    mo_emit_set_end(out, s.isa);
    return ferror(out) ? mo_fail(err, MOIRE_EIO, "cannot write the C of %s", name) : MOIRE_OK;
}
