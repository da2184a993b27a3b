/* SPDX-License-Identifier: Apache-2.0
 * emit-generic.c - build-time tool: writes the built-in micro-kernels (variants/tiles.h) of one instruction
 * set. Usage: emit-generic base|avx2|avx512|neon|avx512vnni|avxvnni|avx2pairs > tiles_<isa>.c */
#include <string.h>
#include "codegen/emit/emit.h"
#include "tools/emit-dot.h"
#include "variants/tiles.h"

enum kind {
    CONV,
    PART,
    FIRST,
    DEPTHWISE,
    KINDS,
    DOT = KINDS,
    DOT_DEPTHWISE,
    DOT_NARROW,
    DOT_WIDE,
    ALL_KINDS
};

static const struct {
    const char *name;
    int steps; /* input channels of a tap */
    int unroll;
    long element; /* bytes from pixel to pixel at stride 1 */
    bool dot;     /* of bytes: a step is four channels, sums are stored as they are */
} kinds[ALL_KINDS] = {{"conv", 16, 4, 64, false}, {"part", 16, 4, 64, false},
                      {"first", 1, 1, 4, false},  {"dw", 1, 1, 64, false},
                      {"dot", 4, 4, 16, true},    {"dotdw", 1, 1, 16, true},
                      {"narrow", 1, 1, 16, true}, {"wide", 8, 8, MO_DOT_WIDE_PIXEL, true}};

static bool is_depthwise(enum kind kind) {
    return kind == DEPTHWISE || kind == DOT_DEPTHWISE;
}

static const long strides[MO_TILE_STRIDES] = {1, 2, 0};

static void tile_name(FILE *out, enum kind kind, const struct mo_mac *m, int stride) {
    fprintf(out, "%s_%d_%dx%d_s%d", kinds[kind].name, m->blocks, m->rows, m->cols, stride);
}

static void emit_registers(FILE *out, const struct mo_mac *m, bool weights, bool dot) {
    fputs("    v x_", out);
    for (int r = 0; weights && r < mo_mac_vectors(m); r++)
        fprintf(out, ", w%d", r);
    fputs(";\n", out);
    mo_mac_declare(out, m, 4);
    fputs("    const char *b = (const char *)a->bias, *x = a->x;\n    char *y = a->y;\n", out);
    if (!dot)
        fputs("    const char *res = a->res;\n    const v lo = splat(a->lo), hi = splat(a->hi);\n", out);
    if (m->ahead) fputs("    const i64 ahead = a->w_ahead;\n", out);
    if (!m->px) fputs("    const i64 px = a->px;\n", out);
    if (m->vector_x) fputs("    (void)x_;\n", out);
}

/* Base pointers of a tap: x0, x1 into the input, q0, q1 into the weights. */
static void emit_bases(FILE *out, const struct mo_mac *m) {
    fputs("            const char *x0 = xo + tap->x, *q0 = wo + tap->w;\n", out);
    if (m->rows > 1) fputs("            const char *x1 = x0 + a->x_row;\n", out);
    if (m->blocks > 1) fputs("            const char *q1 = q0 + a->w_block;\n", out);
}

static void emit_advance(FILE *out, const struct mo_mac *m, int unroll) {
    fprintf(out, "                x0 += %d; q0 += %d;", unroll * 4, unroll * 64);
    if (m->rows > 1) fprintf(out, " x1 += %d;", unroll * 4);
    if (m->blocks > 1) fprintf(out, " q1 += %d;", unroll * 64);
    fputc('\n', out);
}

/* Steps of one tap, pixels at x0 (and x1), weights at q0 (and q1). */
static void emit_steps(FILE *out, const struct mo_mac *m, enum kind kind) {
    const int steps = kinds[kind].steps, unroll = kinds[kind].unroll, in = steps > 1 ? 16 : 12;
    if (kind == PART)
        fputs("            for (i64 s = 0; s < steps; s++) {\n", out);
    else if (steps > unroll)
        fprintf(out, "            for (int s = 0; s < %d; s++) {\n", steps / unroll);
    mo_mac_channels(out, m, in, unroll, ~0ull);
    if (steps > unroll) {
        emit_advance(out, m, unroll);
        fputs("            }\n", out);
    }
}

static void emit_loops(FILE *out, enum kind kind, const struct mo_mac *m) {
    if (kind == PART) {
        fputs("    const char *xo = x + a->skip * 16, *wo = a->w + a->skip * 256;\n"
              "    i64 skip = a->skip;\n",
              out);
    } else {
        fputs("    const char *xo = x, *wo = a->w;\n", out);
    }
    fputs("    for (i64 i = a->n_outer; i > 0; i--) {\n"
          "        const struct mo_tap *tap = a->taps, *end = tap + a->n_taps;\n",
          out);
    if (kind == PART) fputs("        const i64 steps = 4 - skip - (i == 1 ? a->drop : 0);\n", out);
    fputs("        for (; tap < end; tap++) {\n", out);
    emit_bases(out, m);
    if (kind == DOT_DEPTHWISE && m->isa->vectors > 1)
        mo_emit_columns(out, m);
    else
        emit_steps(out, m, kind);
    fputs("        }\n        xo += a->x_outer; wo += a->w_outer;\n", out);
    if (kind == PART) fputs("        xo -= skip * 16, wo -= skip * 256, skip = 0;\n", out);
    fputs("    }\n", out);
}

/* Residual, clamp and store of every accumulator. */
static void emit_finish(FILE *out, const struct mo_mac *m, bool dot, bool packs) {
    for (int phase = 0; !dot && phase < 3; phase++) {
        static const char *const open[3] = {"    if (res && !a->res_last) {\n", "    {\n",
                                            "    if (res && a->res_last) {\n"};
        fputs(open[phase], out);
        for (int r = 0; r < mo_mac_vectors(m); r++)
            for (int t = 0; t < m->rows * m->cols; t++) {
                int block = r / m->isa->vectors, part = r % m->isa->vectors, row = t / m->cols,
                    col = t % m->cols;
                if (phase == 1)
                    fprintf(out, "        a%d_%d = vmin(hi, vmax(lo, a%d_%d));\n", r, t, r, t);
                else
                    fprintf(out, "        a%d_%d += load(res + %d * a->res_block + %d * a->y_row + %d);\n", r,
                            t, block, row, col * 64 + part * m->isa->lanes * 4);
            }
        fputs("    }\n", out);
    }
    if (packs) mo_mac_pack(out, m, "a->y_block", "a->y_row", NULL);
    for (int r = 0; r < mo_mac_vectors(m); r++)
        for (int t = 0; t < m->rows * m->cols; t++)
            fprintf(out, "    store(y + %d * a->y_block + %d * a->y_row + %d, a%d_%d);\n",
                    r / m->isa->vectors, t / m->cols,
                    t % m->cols * 64 + r % m->isa->vectors * m->isa->lanes * 4, r, t);
    if (packs) fputs("    }\n", out);
}

static void emit_tile(FILE *out, enum kind kind, const struct mo_mac *m, int stride) {
    fputs("static void ", out);
    tile_name(out, kind, m, stride);
    fputs("(const struct mo_tile *a) {\n", out);
    emit_registers(out, m, true, kinds[kind].dot);
    if (is_depthwise(kind)) fputs("    for (i64 rep = a->repeat; rep > 0; rep--) {\n", out);
    mo_mac_start(out, m, 4, "b");
    if (m->isa->pairs && (kind == DOT || kind == DOT_NARROW))
        mo_emit_wide_loops(out, m, 2 * kinds[kind].steps);
    else
        emit_loops(out, kind, m);
    emit_finish(out, m, kinds[kind].dot, kinds[kind].dot && kind != DOT_WIDE);
    if (kind == DEPTHWISE)
        fputs("    x += a->x_row, y += a->y_row, res += res ? a->y_row : 0;\n    }\n", out);
    if (kind == DOT_DEPTHWISE) fputs("    x += a->x_row, y += a->y_row;\n    }\n", out);
    fputs("}\n\n", out);
}

/* Calls fn for every tile the instruction set has registers for. */
static void each_tile(FILE *out, const struct mo_emit_isa *isa, enum kind kind, int rows,
                      void (*fn)(FILE *, enum kind, const struct mo_mac *, int)) {
    int blocks_max = is_depthwise(kind) ? 1 : MO_TILE_BLOCKS;
    int cols_max = rows == 2 ? MO_TILE_ROW2 : MO_TILE_PIXELS;
    for (int blocks = 1; blocks <= blocks_max; blocks++)
        for (int cols = rows == 2 ? 3 : 1; cols <= cols_max; cols++)
            for (int s = 0; s < (kind == DOT_WIDE ? 1 : MO_TILE_STRIDES); s++) {
                struct mo_mac m = {.isa = isa,
                                   .blocks = blocks,
                                   .rows = rows,
                                   .cols = cols,
                                   .fold = isa->folds && (blocks == 1 || kind == FIRST),
                                   .px = strides[s] * kinds[kind].element,
                                   .vector_x = is_depthwise(kind),
                                   .ahead = kind == CONV || kind == PART || kind == DOT ? "ahead" : NULL};
                if (blocks > 1 && isa->vectors > 1)
                    continue; /* two blocks pay only when a block is one vector */
                if (mo_mac_vectors(&m) * rows * cols <= isa->max_acc) fn(out, kind, &m, s);
            }
}

static void emit_row(FILE *out, enum kind kind, const struct mo_mac *m, int stride) {
    static const char *const fields[ALL_KINDS] = {"conv", "part",      "first", "depthwise",
                                                  "conv", "depthwise", "conv",  "wide"};
    fprintf(out, "    .%s%s", fields[kind], m->rows == 2 ? "2" : "");
    if (kind == DOT_WIDE)
        fprintf(out, "[%d] = ", m->cols);
    else if (is_depthwise(kind))
        fprintf(out, "[%d][%d] = ", m->cols, stride);
    else
        fprintf(out, "[%d][%d][%d] = ", m->blocks, m->cols, stride);
    tile_name(out, kind, m, stride);
    fputs(",\n", out);
}

/* A depthwise tile of a 3x3 or 5x5 filter. */
struct window {
    struct mo_mac mac;
    int side, index, stride, left, right;
};

static void window_name(FILE *out, const struct window *w) {
    fprintf(out, "window%d_%d_s%d_l%d_r%d", w->side, w->mac.cols, w->stride, w->left, w->right);
}

/* Pixels that see tap k of a filter row inside the image. */
static uint64_t window_mask(const struct window *w, int k) {
    uint64_t mask = 0;
    for (int p = 0; p < w->mac.cols; p++)
        if (p * w->stride + k >= w->left && (w->mac.cols - 1 - p) * w->stride + w->side - 1 - k >= w->right)
            mask |= 1ull << p;
    return mask;
}

static void emit_window(FILE *out, const struct window *w) {
    const struct mo_mac *m = &w->mac;
    fputs("static void ", out);
    window_name(out, w);
    fputs("(const struct mo_tile *a) {\n", out);
    enum { CLAMP = 2 }; /* registers of its bounds */
    bool row = mo_mac_row_fits(m, w->side, CLAMP);
    emit_registers(out, m, !row, false);
    fputs("    for (i64 rep = a->repeat; rep > 0; rep--) {\n", out);
    mo_mac_start(out, m, 4, "b");
    fputs("    const char *x0 = x, *q0 = a->w;\n"
          "    for (i64 i = a->n_outer; i > 0; i--, x0 += a->x_outer, q0 += a->w_outer) {\n",
          out);
    uint64_t mask[8] = {0};
    for (int k = 0; k < w->side; k++)
        mask[k] = window_mask(w, k);
    struct mo_mac_taps taps = {w->side, w->stride, 1, kinds[DEPTHWISE].element, 64, mask};
    if (row) mo_mac_row(out, m, 8, &taps);
    for (int k = 0; k < w->side && !row; k++)
        if (mask[k]) mo_mac_step(out, m, 8, k * 64, k * 64, mask[k]);
    fputs("    }\n", out);
    emit_finish(out, m, false, false);
    fputs("    x += a->x_row, y += a->y_row, res += res ? a->y_row : 0;\n    }\n}\n\n", out);
}

static void emit_window_row(FILE *out, const struct window *w) {
    fprintf(out, "    .window[%d][%d][%d][%d][%d] = ", w->index, w->mac.cols, w->stride - 1, w->left,
            w->right);
    window_name(out, w);
    fputs(",\n", out);
}

static void each_window(FILE *out, const struct mo_emit_isa *isa, void (*fn)(FILE *, const struct window *)) {
    int overhangs = MO_TILE_OVERHANG + 1;
    for (int i = 0; i < MO_TILE_SIDES * MO_TILE_SX * overhangs * overhangs; i++) {
        struct window w = {.index = i % MO_TILE_SIDES, .stride = 1 + i / MO_TILE_SIDES % MO_TILE_SX};
        w.side = mo_tile_side(w.index);
        w.left = i / MO_TILE_SIDES / MO_TILE_SX % overhangs;
        w.right = i / MO_TILE_SIDES / MO_TILE_SX / overhangs;
        w.mac = (struct mo_mac){
            .isa = isa, .blocks = 1, .rows = 1, .px = w.stride * kinds[DEPTHWISE].element, .vector_x = true};
        for (w.mac.cols = 1; w.mac.cols <= MO_TILE_PIXELS && w.mac.cols * isa->vectors <= isa->max_acc;
             w.mac.cols++)
            if (w.left <= w.side / 2 && w.right <= w.side / 2) fn(out, &w);
    }
}

static void emit_copy(FILE *out) {
    fputs("static void copy(char *to, const char *from, i64 before, i64 n, i64 after) {\n"
          "    const v zero = splat(0.0f);\n"
          "    for (char *end = to + before * 64; to < end; to += sizeof(v)) store(to, zero);\n"
          "    for (char *end = to + n * 64; to < end; to += sizeof(v), from += sizeof(v)) store(to, "
          "load(from));\n"
          "    for (char *end = to + after * 64; to < end; to += sizeof(v)) store(to, zero);\n}\n\n",
          out);
}

static void emit_activate(FILE *out, const struct mo_emit_isa *isa) {
    mo_emit_exp(out, isa);
    for (int act = 0; act < MO_ACT_COUNT; act++) {
        char name[16];
        snprintf(name, sizeof name, "act%d", act);
        mo_emit_activation(out, act, name);
    }
    fputs("static void activate(enum mo_act act, float a, float b, float *y, const float *res, i64 n) {\n"
          "    char *p = (char *)y, *end = p + n * 4;\n    switch (act) {\n",
          out);
    for (int act = 1; act < MO_ACT_COUNT; act++)
        fprintf(out, "    case %d: for (; p < end; p += sizeof(v)) store(p, act%d(load(p), a, b)); break;\n",
                act, act);
    fputs("    default: break;\n    }\n    const char *r = (const char *)res;\n    if (r)\n"
          "        for (p = (char *)y; p < end; p += sizeof(v), r += sizeof(v)) store(p, load(p) + "
          "load(r));\n}\n\n",
          out);
}

static void open_table(FILE *out, const struct mo_emit_isa *isa, const char *suffix) {
    int one = isa->max_acc / isa->vectors < MO_TILE_PIXELS ? isa->max_acc / isa->vectors : MO_TILE_PIXELS;
    fprintf(out, "const struct mo_tiles mo_tiles_%s%s = {\n    .max_pixels = {0, %d, %d},\n", isa->name,
            suffix, one, isa->vectors > 1 ? 0 : isa->max_acc / 2);
    if (isa->pairs) fputs("    .pairs = true,\n", out);
}

static void emit_table(FILE *out, const struct mo_emit_isa *isa) {
    open_table(out, isa, "");
    for (int kind = 0; kind < KINDS; kind++)
        each_tile(out, isa, kind, 1, emit_row);
    each_tile(out, isa, CONV, 2, emit_row);
    each_window(out, isa, emit_window_row);
    fputs("    .copy = copy,\n    .gate = gate_rows,\n    .activate = activate,\n};\n", out);
}

static void each_dot_tile(FILE *out, const struct mo_emit_isa *isa, enum kind kind,
                          void (*fn)(FILE *, enum kind, const struct mo_mac *, int)) {
    if (kind == DOT_WIDE && !isa->pairs) return;
    for (int rows = 1; rows <= (kind == DOT || kind == DOT_NARROW ? 2 : 1); rows++)
        each_tile(out, isa, kind, rows, fn);
}

/* The tiles of a set with a dot product: whole blocks of channels, depthwise, and inputs of at most four
 * channels. */
static int emit_dot(FILE *out, const struct mo_emit_isa *isa) {
    fprintf(out,
            "/* Written by tools/emit-generic.c: the built-in micro-kernels of bytes for %s. */\n"
            "#include \"variants/tiles.h\"\n\n",
            isa->name);
    mo_emit_vectors(out, isa);
    for (int kind = DOT; kind < ALL_KINDS; kind++)
        each_dot_tile(out, isa, (enum kind)kind, emit_tile);
    open_table(out, isa, "");
    each_dot_tile(out, isa, DOT, emit_row);
    each_dot_tile(out, isa, DOT_DEPTHWISE, emit_row);
    each_dot_tile(out, isa, DOT_WIDE, emit_row);
    fputs("};\n", out);
    open_table(out, isa, "_narrow");
    each_dot_tile(out, isa, DOT_NARROW, emit_row);
    fputs("};\n", out);
    return fflush(out) ? 1 : 0;
}

int main(int argc, char **argv) {
    const struct mo_emit_isa *dot = argc == 2 ? mo_emit_isa_dot(argv[1]) : NULL;
    if (dot && !dot->by_lane) return emit_dot(stdout, dot);
    for (int isa = 0; argc == 2 && isa < MO_ISA_COUNT; isa++) {
        const struct mo_emit_isa *row = mo_emit_isa(isa);
        if (strcmp(row->name, argv[1])) continue;
        printf("/* Written by tools/emit-generic.c: the built-in micro-kernels for %s. */\n"
               "#include \"variants/tiles.h\"\n\n",
               row->name);
        mo_emit_prelude(stdout, row);
        for (int kind = 0; kind < KINDS; kind++)
            each_tile(stdout, row, kind, 1, emit_tile);
        each_tile(stdout, row, CONV, 2, emit_tile);
        each_window(stdout, row, emit_window);
        emit_copy(stdout);
        mo_emit_gate(stdout, row);
        emit_activate(stdout, row);
        emit_table(stdout, row);
        return fflush(stdout) ? 1 : 0;
    }
    fprintf(stderr, "usage: emit-generic base|avx2|avx512|neon|avx512vnni|avxvnni|avx2pairs\n");
    return 2;
}
