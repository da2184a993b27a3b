/* SPDX-License-Identifier: Apache-2.0
 * walk_cost.c - the cost model of a walk, its figures for the descriptor, and the choice of points.
 *
 * Cycles of a step are the largest of what FMAs, loads, instruction issue and the FMA's latency need;
 * executed steps are exact, from the classes.  Weights that leave L1 are charged at L2's rate, data that
 * leaves L2 at L3's. The model only ranks: a few per cent of error is what the measured search is for. */
#include "codegen/family/walk.h"

#include <stdlib.h>
#include <string.h>
#include "codegen/family/wide.h"

enum {
    L1_BYTES = 32 << 10,
    L2_BYTES = 768 << 10,
    L3_BYTES = 32 << 20,
    MIN_UNITS = 256,
    PART_UNITS = 64,
    TILE_VARIANTS = 2
};
/* Halves multiply no padding but hold fewer pixels: with this, a whole and a half form are the first two of
 * most layers, and a short search finds what the core prefers. */
static const double BOTH_FORMS = 1.0125;
static const double l2_rate = 40, l3_rate = 14, ghz = 4.2; /* bytes a cycle */

static double most(double a, double b) {
    return a > b ? a : b;
}

/* Steps of a tap: channels of a group's input, or fours of them, padding of the last block skipped. */
static int64_t depth(const struct mo_walk *w) {
    if (w->kind == MO_WALK_DEPTHWISE) return 1;
    if (w->kind == MO_WALK_GROUPED) return w->channels;
    if (w->small) return (w->channels + 3) / 4;
    return w->kind == MO_WALK_FIRST ? w->planes : w->channels;
}

static double step_cycles(const struct mo_walk *w, double blocks, int pixels) {
    double vectors = blocks * w->isa->vectors, fma = vectors * pixels, loads = vectors + pixels,
           ops = fma + loads;
    if (!pixels) return 0;
    if (w->kind == MO_WALK_DEPTHWISE) loads = fma + vectors, ops = loads;
    if (mo_walk_shares_taps(w)) { /* a row of a tile and the columns beside it are loaded for all taps */
        double mix = w->kind == MO_WALK_GROUPED ? w->sources : 1;
        double cols = (double)(w->col.size + !!w->col.extra), taps = (double)w->col.taps;
        loads = fma * mix * (1 + (taps - 1) / cols / (double)w->col.stride) * (double)w->col.stride / taps +
                vectors;
        ops = fma + loads;
    }
    if (!w->isa->constraint) ops += fma; /* separate multiply and add */
    return most(most(fma / 2, loads / 2 * 1.03), most(ops / 6, 4));
}

static double tile_cycles(const struct mo_walk *w, double blocks, int r, int c) {
    double cycles = 0;
    for (int64_t i = 0; i < w->row.taps; i++)
        for (int64_t k = 0; k < w->col.taps; k++)
            cycles += step_cycles(w, blocks,
                                  __builtin_popcount(w->row.cls[r].valid[i]) *
                                      __builtin_popcount(w->col.cls[c].valid[k]));
    double slice = (double)w->w_block * blocks, per_tap = w->kind == MO_WALK_BLOCKED ? 6 : 2;
    cycles = cycles * (double)depth(w) + per_tap * (double)(w->planes * w->row.taps * w->col.taps);
    if (slice > L1_BYTES) cycles = most(cycles, slice / l2_rate);
    return cycles + 40 + 3.0 * blocks * w->isa->vectors * w->row.cls[r].size * w->col.cls[c].size;
}

static int64_t class_tiles(const struct mo_axis *a, int cls) {
    int64_t n = 0;
    for (int i = 0; i < a->n_runs; i++)
        if (a->run[i].cls == cls) n += (i + 1 < a->n_runs ? a->run[i + 1].first : a->tiles) - a->run[i].first;
    return n;
}

static double compute_cycles(const struct mo_walk *w) {
    double cycles = 0;
    int64_t whole = w->ocb / w->blocks;
    int tail = (int)(w->ocb % w->blocks);
    for (int r = 0; r < w->row.n_classes; r++)
        for (int c = 0; c < w->col.n_classes; c++) {
            double set = tile_cycles(w, w->blocks, r, c) * (double)whole;
            if (tail) set += tile_cycles(w, tail, r, c);
            if (mo_walk_used(w)) { /* half of the last block costs nothing */
                int last = tail ? tail : w->blocks;
                set -= tile_cycles(w, last, r, c) - tile_cycles(w, last - 0.5, r, c);
            }
            cycles += set * (double)(class_tiles(&w->row, r) * class_tiles(&w->col, c));
        }
    if (w->packed) cycles += (double)(w->unit_sets * w->row.out * w->channels) / 8;
    if (w->halves) cycles /= 2; /* worth trying only where two of them cost what a whole vector does */
    return cycles * (double)(w->n * w->groups);
}

static int64_t in_bytes(const struct mo_walk *w) {
    int64_t planes = w->kind == MO_WALK_DEPTHWISE ? w->ocb
                     : w->kind == MO_WALK_GROUPED ? (w->p->c + 15) / 16
                                                  : w->planes * w->groups;
    if (w->kind == MO_WALK_GEMM) return w->row.in * w->channels * (w->small ? 1 : 4);
    return planes * w->row.in * w->x_row;
}

static int64_t out_bytes(const struct mo_walk *w) {
    return w->groups * w->ocb * w->row.out * w->col.out * mo_walk_block(w);
}

/* Weights that every tile of a set uses, in one part. */
static int64_t slice_bytes(const struct mo_walk *w) {
    return w->w_block * w->blocks / w->parts;
}

int64_t mo_walk_l3_bytes(const struct mo_walk *w) {
    int64_t in = in_bytes(w), weights = w->groups * w->ocb * w->w_block;
    bool pass = mo_walk_own_planes(w);
    int64_t passes = slice_bytes(w) > L2_BYTES ? w->row.tiles * w->col.tiles : w->parts > 1 ? w->chunks : 1;
    if (w->sets_outer)
        return w->n * (in * (in > L2_BYTES && !pass ? w->sets_group : 1) + out_bytes(w)) + weights * passes;
    return w->n * (in + out_bytes(w) + weights * (weights > L2_BYTES ? w->chunks : 1));
}

int64_t mo_walk_block_bytes(const struct mo_walk *w) {
    int64_t rows = w->row.cls[0].size,
            window = (rows - 1) * w->row.stride + (w->row.taps - 1) * w->row.dilation + 1;
    return slice_bytes(w) + w->planes / w->parts * window * w->x_row + rows * w->y_row * w->blocks;
}

int64_t mo_walk_flops(const struct mo_walk *w) {
    int64_t out = mo_walk_own_planes(w) ? w->ocb * 16 : w->groups * w->ocb * 16;
    if (mo_walk_used(w)) out -= 8;
    return 2 * w->n * out * depth(w) * mo_walk_step(w) * mo_axis_work(&w->row) * mo_axis_work(&w->col);
}

int64_t mo_walk_parallelism_milli(const struct mo_walk *w) {
    int64_t ilp = w->blocks * w->isa->vectors * w->row.cls[0].size * w->col.cls[0].size;
    return 1000 * w->n * w->unit_sets * w->chunks * ilp / 28;
}

/* Whether its weights are more than caches keep from one query to the next. */
static bool in_memory(const struct mo_walk *w) {
    return w->groups * w->ocb * w->w_block > L3_BYTES;
}

double mo_walk_cost(const struct mo_walk *w) {
    double cycles = compute_cycles(w), memory = (double)mo_walk_l3_bytes(w) / l3_rate;
    /* weights that are used once come at memory's rate; a few streams fetch best, and two cores with a stream
     * each get a seventh less of it than with three, which the search, on one core, does not see */
    if (w->kind == MO_WALK_GEMM && w->row.tiles == 1) {
        const double thin = w->blocks < 3 && in_memory(w) ? 1.1 : 1;
        return most(cycles, memory) * (thin + 0.002 * abs(w->blocks - 3)) / ghz;
    }
    if (w->gated) cycles += 2.0 * (double)(w->n * w->ocb * w->planes * 16 * w->isa->vectors);
    cycles += (double)(w->parts - 1) * 2 * (double)out_bytes(w) / l2_rate;
    return (most(cycles, memory) + 0.2 * (cycles < memory ? cycles : memory)) / ghz;
}

struct list {
    struct mo_point *points;
    int n, cap;
    bool wide; /* for many cores: by part_ns */
};

static double key(const struct list *list, const struct mo_point *point) {
    return list->wide ? point->part_ns : point->cost_ns;
}

/* Keeps the list sorted, no longer than its capacity, and with few variants of one tile: variants of
 * nearly the same cost must not crowd out other tiles. */
static void insert(struct list *list, const struct mo_point *point) {
    int same = 0, worst = 0;
    for (int i = 0; i < list->n; i++)
        if (!memcmp(list->points[i].knob, point->knob, 3 * sizeof point->knob[0]) &&
            list->points[i].knob[MO_KNOB_FOLD] == point->knob[MO_KNOB_FOLD] &&
            list->points[i].knob[MO_KNOB_PARTS] == point->knob[MO_KNOB_PARTS] &&
            list->points[i].knob[MO_KNOB_HALVES] == point->knob[MO_KNOB_HALVES])
            same++, worst = i;
    if (same >= TILE_VARIANTS) {
        if (key(list, &list->points[worst]) <= key(list, point)) return;
        list->n = mo_points_drop(list->points, list->n, worst);
    }
    int at = list->n;
    while (at > 0 && key(list, &list->points[at - 1]) > key(list, point))
        at--;
    list->n = mo_points_put(list->points, list->n, list->cap, at, point);
}

/* Row tiles of a unit: a few microseconds of work, but enough units for many cores. */
static int unit_tiles(struct mo_walk *w) {
    double ns = compute_cycles(w) / ghz / (double)(w->n * w->sets * w->row.tiles);
    int64_t want = (int64_t)(3000 / (ns > 1 ? ns : 1)), spread = w->n * w->sets * w->row.tiles / MIN_UNITS;
    if (w->parts > 1) spread *= MIN_UNITS / PART_UNITS; /* tiles of a unit share what it fetches */
    if (want > spread || w->parts > 1) want = spread;
    return want < 1 ? 1 : want > 4096 ? 4096 : (int)want;
}

/* Two cores that share the sets in order would have work that differs by more than a tenth: the last set is
 * shorter. */
static bool uneven(const struct mo_walk *w) {
    if (!w->sets_outer || w->packed || w->chunks < 2 || w->unit_sets < 2 || w->n * w->groups > 1)
        return false;
    double blocks = (double)w->ocb - (mo_walk_used(w) ? 0.5 : 0);
    return (double)w->unit_sets / 2 * w->blocks > 0.55 * blocks;
}

/* What the model does not see, of points with the same tile.  Weights used once come in a few long streams,
 * which the hardware follows best by itself: prefetches cost a tenth and more.  Pixels of a plain image are
 * broadcast from one cache line many; a Zen 4 core does that faster in the FMAs. */
static double preference(const struct mo_walk *w, const struct mo_point *point) {
    const int *knob = point->knob;
    double unfolded = w->kind == MO_WALK_FIRST && w->blocks > 1 && knob[MO_KNOB_COLS] > 1 ? 1.05 : 0.998;
    if (w->kind == MO_WALK_GEMM && w->row.tiles == 1)
        return (knob[MO_KNOB_PREFETCH] ? 1.1 : 1) * (knob[MO_KNOB_FOLD] ? 0.998 : 1);
    double form = knob[MO_KNOB_HALVES] ? BOTH_FORMS : 1;
    return (knob[MO_KNOB_FOLD] ? 1 : unfolded) * (knob[MO_KNOB_PREFETCH] ? 1 : 1.001) * form;
}

/* The orders and prefetch distances worth trying for one tile and unit. */
static void try_orders(struct mo_walk *w, struct mo_point *point, struct list *list) {
    bool depthwise = mo_walk_own_planes(w);
    int64_t weights = w->groups * w->ocb * w->w_block, in = in_bytes(w);
    int64_t slice = w->w_block * w->blocks;
    int distance = slice <= L2_BYTES / 3 ? MO_PREFETCH_SET : 2048;
    int prefetches = depthwise || w->kind == MO_WALK_FIRST || w->gated || weights < L1_BYTES ? 0 : 2;
    int orders = !depthwise && !w->widens && (in > L2_BYTES / 2 || weights > L2_BYTES / 2) &&
                         w->unit_sets > 1 && w->chunks > 1
                     ? 2
                     : 1;
    for (int i = 0; i < (prefetches ? prefetches : 1); i++)
        for (int k = 0; k < orders; k++) {
            point->knob[MO_KNOB_PREFETCH] = prefetches && !i ? distance : 0;
            point->knob[MO_KNOB_ORDER] = orders > 1 ? k : weights < in && !depthwise;
            if (!mo_walk_apply(w, point)) continue;
            if (uneven(w)) {
                if (orders > 1) continue; /* the other order comes anyway */
                point->knob[MO_KNOB_ORDER] = 1;
                if (!mo_walk_apply(w, point)) continue;
            }
            point->cost_ns = mo_walk_cost(w) * preference(w, point);
            point->packing = w->packing;
            point->units = w->n * w->unit_sets * w->chunks;
            point->part_ns =
                point->cost_ns * (double)mo_wide_most(point->units, w->p->cores) / (double)point->units;
            point->wide = list->wide;
            insert(list, point);
        }
}

static void try_units(const struct mo_problem *p, enum mo_walk_kind kind, struct mo_point *point,
                      struct list *list) {
    struct mo_walk w;
    point->knob[MO_KNOB_UNIT] = 1;
    if (!mo_walk_describe(p, kind, &w) || !mo_walk_apply(&w, point)) return;
    if (!w.packed) {
        point->knob[MO_KNOB_UNIT] = unit_tiles(&w);
        try_orders(&w, point, list);
        return;
    }
    for (int sets = 1; sets <= 8 && sets <= w.sets; sets *= 2) {
        point->knob[MO_KNOB_UNIT] = sets;
        if (mo_walk_describe(p, kind, &w) && mo_walk_apply(&w, point)) try_orders(&w, point, list);
    }
}

/* Also in parts of the input channels, when the weights of a tile's blocks would fill the private cache. */
static void try_tile(const struct mo_problem *p, enum mo_walk_kind kind, struct mo_point *point,
                     struct list *list) {
    struct mo_walk w;
    point->knob[MO_KNOB_UNIT] = 1;
    point->knob[MO_KNOB_PARTS] = 1;
    if (!mo_walk_describe(p, kind, &w) || !mo_walk_apply(&w, point)) return;
    try_units(p, kind, point, list);
    if (slice_bytes(&w) <= L2_BYTES / 2 || w.row.tiles * w.col.tiles < 3) return;
    point->knob[MO_KNOB_PARTS] = 2;
    while (slice_bytes(&w) / point->knob[MO_KNOB_PARTS] > L2_BYTES / 2)
        point->knob[MO_KNOB_PARTS] *= 2;
    try_units(p, kind, point, list);
}

/* Where neither form is always better: three weight vectors to a broadcast, and pixels of a plain image (of
 * one cache line many: a Zen 4 core reaches 94 % of its ceiling folded, 73 % shared). */
static bool folds_pay(const struct mo_walk *w, int blocks) {
    return w->isa->folds &&
           (w->kind == MO_WALK_FIRST ? blocks > 1 : blocks == 3 && w->kind != MO_WALK_DEPTHWISE);
}

/* Tiles of `blocks` output blocks, on whole vectors or on halves. */
static void try_tiles(const struct mo_problem *p, struct mo_walk *w, int blocks, bool halves,
                      struct list *list) {
    w->isa = mo_walk_isa(p, halves);
    int limit = w->isa->constraint ? w->isa->regs - 2 : w->isa->max_acc, vectors = mo_walk_vectors(w, blocks);
    for (int rows = 1; rows * vectors <= limit; rows++)
        for (int cols = 1; cols * rows * vectors <= limit; cols++) {
            struct mo_point point = {.knob = {blocks, rows, cols, 4}};
            if (w->kind == MO_WALK_FIRST || mo_walk_own_planes(w)) point.knob[MO_KNOB_UNROLL] = 1;
            point.knob[MO_KNOB_HALVES] = halves;
            if (!mo_axis_balanced(w->row.out, rows) || !mo_axis_balanced(w->col.out, cols)) continue;
            try_tile(p, w->kind, &point, list);
            point.knob[MO_KNOB_FOLD] = 1;
            if (folds_pay(w, blocks) && !halves) try_tile(p, w->kind, &point, list);
        }
}

/* Whether to run each block of outputs in halves: it pays where there is one set of blocks, and a good part
 * of it is padding that halves do not multiply. */
static bool halves_pay(const struct mo_walk *w, int blocks) {
    return w->kind == MO_WALK_BLOCKED && blocks == w->ocb && blocks < 3 && mo_walk_used(w) &&
           mo_walk_isa(w->p, true);
}

static void try_all(const struct mo_problem *p, struct mo_walk *w, struct list *list) {
    int max_blocks = mo_walk_own_planes(w) ? 1 : w->row.out * w->col.out < 4 ? 8 : 4;
    for (int blocks = 1; blocks <= max_blocks && blocks <= w->ocb && list->cap > 0; blocks++) {
        try_tiles(p, w, blocks, false, list);
        if (halves_pay(w, blocks)) try_tiles(p, w, blocks, true, list);
    }
}

int mo_walk_points(const struct mo_problem *p, enum mo_walk_kind kind, struct mo_point *points, int cap) {
    struct list list = {points, 0, cap, false};
    struct mo_walk w;
    if (cap < 1 || !mo_walk_describe(p, kind, &w)) return 0;
    try_all(p, &w, &list);
    if (!mo_wide_lacks(points, list.n, w.packing, p->cores)) return list.n;
    struct list wide = {points + list.n, 0, list.n < cap, true};
    try_all(p, &w, &wide);
    return list.n + wide.n;
}
