/* SPDX-License-Identifier: Apache-2.0
 * walk.c - describes a layer as a walk over static tiles, and applies the knobs of a point. */
#include "codegen/family/walk.h"

#include <string.h>

enum {
    MAX_FUNCTIONS = 24,
    IN_PLACE_ROWS = 8,
    MIN_UNITS = 64,
    WIDE_BYTES = 256 << 10,
    OWN_FROM = 1 << 20,
    OWN_CHANNELS = 32
};

static int64_t blocks(int64_t channels) {
    return (channels + 15) / 16;
}

static void describe_axes(const struct mo_problem *p, struct mo_walk *w) {
    w->row = (struct mo_axis){
        .in = p->h, .out = p->oh, .taps = p->kh, .stride = p->sh, .dilation = p->dh, .pad = p->pt};
    w->col = (struct mo_axis){
        .in = p->w, .out = p->ow, .taps = p->kw, .stride = p->sw, .dilation = p->dw, .pad = p->pl};
    bool one = p->kh == 1 && p->kw == 1 && p->sh == 1 && p->sw == 1;
    if (w->kind == MO_WALK_GEMM || (one && p->pt + p->pl + p->pb + p->pr == 0)) {
        w->flat = true;
        w->row.in = w->row.out = p->h * p->w;
        w->col.in = w->col.out = 1;
    }
}

int mo_walk_step(const struct mo_walk *w) {
    return !w->small ? 1 : w->isa->pairs ? 2 : 4;
}

int mo_walk_block(const struct mo_walk *w) {
    return w->small && w->p->to != MOIRE_F32 ? 16 : 64;
}

const struct mo_emit_isa *mo_walk_isa(const struct mo_problem *p, bool halves) {
    if (p->dot) return halves ? NULL : mo_emit_isa_of_dot(p->dot);
    return halves ? mo_emit_isa_halves(p->isa) : mo_emit_isa(p->isa);
}

/* Strides in bytes of a layer whose output is blocked. */
static void describe_blocked(const struct mo_problem *p, struct mo_walk *w) {
    int64_t taps = w->row.taps * w->col.taps, plain = w->kind == MO_WALK_FIRST;
    w->x_pixel = plain ? 4 : w->small ? 16 : 64;
    w->x_row = w->col.in * w->x_pixel;
    w->x_plane = w->row.in * w->x_row;
    w->y_pixel = mo_walk_block(w);
    w->y_row = w->col.out * w->y_pixel;
    w->y_block = w->row.out * w->y_row;
    w->groups = w->kind == MO_WALK_BLOCKED ? p->groups : 1;
    w->channels = p->c / w->groups;
    w->ocb = blocks(p->o / w->groups);
    w->planes = w->kind == MO_WALK_BLOCKED ? blocks(w->channels) : plain ? p->c : 1;
    w->x_group = w->kind == MO_WALK_DEPTHWISE ? w->x_plane : w->planes * w->x_plane;
    if (w->small && w->isa->pairs) {
        w->widens = true;
        w->from_row = w->x_row, w->from_plane = w->x_plane, w->from_group = w->x_group;
        w->x_pixel *= 2, w->x_row *= 2;
    }
    w->w_tap = w->kind == MO_WALK_BLOCKED ? 1024 / mo_walk_step(w) : 64;
    w->w_plane = taps * w->w_tap;
    w->w_block = w->planes * w->w_plane;
    if (w->kind == MO_WALK_GROUPED) mo_walk_describe_groups(w);
}

/* [M][K] by [N/16][K][16] to [M][N], all plain. */
static void describe_gemm(const struct mo_problem *p, struct mo_walk *w) {
    w->groups = 1;
    w->channels = p->c;
    w->planes = 1;
    w->ocb = blocks(p->o);
    const int64_t x_element = w->small ? 1 : 4, y_element = mo_walk_block(w) / 16;
    w->x_row = w->x_pixel = p->x_row * x_element;
    w->y_row = w->y_pixel = p->y_row * y_element;
    w->y_block = mo_walk_block(w);
    w->w_tap = 64;
    w->w_plane = w->w_block = p->c * 64 / mo_walk_step(w);
}

bool mo_walk_describe(const struct mo_problem *p, enum mo_walk_kind kind, struct mo_walk *w) {
    static const enum mo_packing packings[] = {MO_PACK_CONV16, MO_PACK_FIRST16, MO_PACK_DW16, MO_PACK_GEMM16,
                                               MO_PACK_GROUPS16};
    memset(w, 0, sizeof *w);
    w->p = p;
    w->isa = mo_walk_isa(p, false);
    w->small = p->dot;
    w->fills = p->fills || (p->dot && w->isa->flips && p->pt + p->pl + p->pb + p->pr);
    w->kind = kind;
    w->n = p->n;
    w->outs = p->o;
    w->packing = !w->small ? packings[kind] : w->isa->pairs ? MO_PACK_PAIRS16 : MO_PACK_DOT16;
    w->gated = p->fuse.gated;
    describe_axes(p, w);
    if (kind == MO_WALK_GEMM)
        describe_gemm(p, w);
    else
        describe_blocked(p, w);
    return p->kh <= MO_AXIS_TAPS && p->kw <= MO_AXIS_TAPS &&
           (!w->small || kind == MO_WALK_BLOCKED || kind == MO_WALK_GEMM);
}

bool mo_walk_own_planes(const struct mo_walk *w) {
    return w->kind == MO_WALK_DEPTHWISE || w->kind == MO_WALK_GROUPED;
}

bool mo_walk_shares_taps(const struct mo_walk *w) {
    if (w->kind == MO_WALK_GROUPED) return true;
    struct mo_mac tile = {.isa = w->isa, .blocks = w->blocks};
    tile.rows = (int)w->row.size + !!w->row.extra, tile.cols = (int)w->col.size + !!w->col.extra;
    return w->kind == MO_WALK_DEPTHWISE && mo_mac_row_fits(&tile, (int)w->col.taps, 0);
}

/* Few rows are read where they are: they cannot crowd a cache set.  More are copied first; a unit is then one
 * row tile against some sets. */
static void apply_gemm(struct mo_walk *w, int64_t rows) {
    w->packed = rows > IN_PLACE_ROWS || w->isa->pairs;
    if (!w->packed) return;
    w->chunks = w->row_chunks = w->row.tiles;
    w->unit_sets = (w->sets + w->unit_tiles - 1) / w->unit_tiles;
    w->planes = blocks(w->channels);
    w->x_row = !w->small ? 64 : w->isa->pairs ? 32 : 16;
    w->x_plane = rows * w->x_row;
    w->w_plane = 1024 / mo_walk_step(w);
    w->scratch_bytes = w->planes * w->x_plane;
}

/* Tall tiles leave few row chunks: then the columns are cut as well, for the sake of many cores. */
static int64_t split_columns(const struct mo_walk *w) {
    int64_t units = w->n * w->sets * w->row_chunks;
    if (units >= MIN_UNITS) return 1;
    return (MIN_UNITS + units - 1) / units < w->col.tiles ? (MIN_UNITS + units - 1) / units : w->col.tiles;
}

/* Units of a chunk follow each other, so that its pixels are made int16 once for all sets. */
static bool apply_widening(struct mo_walk *w) {
    if (!w->widens) return true;
    const int64_t tiles = (w->row.tiles + w->row_chunks - 1) / w->row_chunks;
    const int64_t rows = tiles * (w->row.size + !!w->row.extra);
    w->x_plane = ((rows - 1) * w->row.stride + (w->row.taps - 1) * w->row.dilation + 1) * w->x_row;
    w->scratch_bytes = w->planes * w->x_plane;
    return w->scratch_bytes <= WIDE_BYTES;
}

/* Whole parts only: the loops of a tile have constant lengths.  A residual added last may share its memory
 * with the output, where the sums of the parts rest. */
static bool apply_parts(struct mo_walk *w, int parts) {
    w->parts = parts > 1 ? parts : 1;
    if (w->parts == 1) return true;
    if (w->small || w->packed || w->gated || w->p->fuse.residual_last || w->channels % (16 * w->parts))
        return false;
    w->x_part = w->kind == MO_WALK_GEMM ? w->channels / w->parts * 4 : w->planes / w->parts * w->x_plane;
    w->w_part = w->kind == MO_WALK_GEMM ? w->channels / w->parts * 64 : w->planes / w->parts * w->w_plane;
    return w->kind == MO_WALK_BLOCKED || w->kind == MO_WALK_GEMM;
}

/* Large outputs are gone from the private cache when they are written again.  A tile's stores come all at
 * once and then wait for their lines; fetched at its beginning, these come while it computes.  That is worth
 * 3 to 4 % of a 1x1 layer with few input channels, and nothing where there is more work to a store. */
static bool owns_lines(const struct mo_walk *w) {
    return w->kind == MO_WALK_BLOCKED && w->flat && w->parts == 1 && w->channels <= OWN_CHANNELS &&
           w->ocb * w->y_block >= OWN_FROM;
}

bool mo_walk_apply(struct mo_walk *w, const struct mo_point *point) {
    const int *knob = point->knob;
    w->blocks = knob[MO_KNOB_BLOCKS];
    w->unroll = knob[MO_KNOB_UNROLL];
    w->prefetch = knob[MO_KNOB_PREFETCH];
    snprintf(w->ahead, sizeof w->ahead, "%lld",
             w->prefetch == MO_PREFETCH_SET ? (long long)w->w_block * knob[MO_KNOB_BLOCKS] : w->prefetch);
    w->sets_outer = !knob[MO_KNOB_ORDER] && !w->widens;
    w->fold = knob[MO_KNOB_FOLD];
    w->halves = knob[MO_KNOB_HALVES];
    w->isa = mo_walk_isa(w->p, w->halves);
    if (!w->isa || (w->halves && !mo_walk_used(w)) || (w->fold && !w->isa->folds)) return false;
    if (w->blocks < 1 || w->blocks > w->ocb || w->unroll < 1) return false;
    if (!mo_axis_cut(&w->row, knob[MO_KNOB_ROWS]) || !mo_axis_cut(&w->col, knob[MO_KNOB_COLS])) return false;
    int64_t rows = w->row.size + !!w->row.extra, cols = w->col.size + !!w->col.extra;
    /* a vector of what pads hold takes a register, as does a pixel */
    if (!mo_mac_fits(w->isa, mo_walk_vectors(w, w->blocks) + w->fills, rows * cols)) return false;
    if (w->kind == MO_WALK_GROUPED && !mo_walk_groups_fit(w, rows * cols)) return false;
    w->sets_group = (w->ocb + w->blocks - 1) / w->blocks;
    w->sets = w->groups * w->sets_group;
    if (w->row.n_classes * w->col.n_classes * (mo_walk_last_differs(w) ? 2 : 1) > MAX_FUNCTIONS) return false;
    w->unit_tiles = knob[MO_KNOB_UNIT];
    if (w->unit_tiles < 1) return false;
    w->unit_sets = w->sets;
    w->row_chunks = (w->row.tiles + w->unit_tiles - 1) / w->unit_tiles;
    w->chunks = w->row_chunks * split_columns(w);
    if (w->kind == MO_WALK_GEMM) apply_gemm(w, rows);
    if (w->gated) w->scratch_bytes = (w->sets_outer ? 1 : w->sets) * w->blocks * w->w_block;
    if (!apply_parts(w, knob[MO_KNOB_PARTS]) || !apply_widening(w)) return false;
    w->owns = owns_lines(w);
    return true;
}

int mo_walk_emit_point(const struct mo_problem *p, enum mo_walk_kind kind, const char *family,
                       const struct mo_point *point, FILE *out, moire_error *err) {
    struct mo_walk w;
    char name[128], parts[16] = "";
    const int *k = point->knob;
    if (!mo_walk_describe(p, kind, &w) || !mo_walk_apply(&w, point))
        return mo_fail(err, MOIRE_EINVAL, "illegal point for family %s", family);
    if (w.parts > 1) snprintf(parts, sizeof parts, " k%d", (int)w.parts);
    snprintf(name, sizeof name, "%s %s b%d %dx%d u%d p%d o%d n%d%s%s%s", family, w.isa->name,
             k[MO_KNOB_BLOCKS], k[MO_KNOB_ROWS], k[MO_KNOB_COLS], k[MO_KNOB_UNROLL], k[MO_KNOB_PREFETCH],
             k[MO_KNOB_ORDER], k[MO_KNOB_UNIT], w.fold ? " fold" : "", w.halves ? " half" : "", parts);
    return mo_walk_emit(&w, name, out, err);
}
