/* SPDX-License-Identifier: Apache-2.0
 * winograd.c - the Winograd family: which layers it takes, geometry, cost model, points; see winograd.h. */
#include "codegen/family/winograd.h"

#include <string.h>
#include "codegen/family/walk.h"
#include "codegen/family/wide.h"
#include "runtime/base/numbers.h"

enum {
    L1_BYTES = 32 << 10,
    L2_BYTES = 768 << 10,
    L3_BYTES = 24 << 20,
    MAX_SCRATCH = 256 << 20,
    MAX_CUTS = 12
};
static const double l2_rate = 40, l3_rate = 28, memory_rate = 14, ghz = 4.2; /* bytes a cycle */

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static double most(double a, double b) {
    return a > b ? a : b;
}

/* Bytes of a plane of `lines` cache lines: an odd number of them. */
static int64_t plane(int64_t lines) {
    return (lines | 1) * 64;
}

/* Strides and dilation are of the layer, not of the packing. */
static enum mo_packing packing_of(const struct mo_problem *p, int m, bool half) {
    if (p->sh != p->sw || (p->sh > 1 && (p->dh > 1 || p->dw > 1))) return MO_PACK_NONE;
    if (p->kh == p->kw) return mo_winograd_packing(m, p->kh, p->sh, half);
    if ((p->kh > 1 && p->kw > 1) || p->sh > 1 || half) return MO_PACK_NONE;
    return mo_winograd_line(m, p->kh > 1 ? p->kh : p->kw);
}

/* Whether a tile has more than one output: of a filter of one line, along it. */
static bool several_outputs(const struct mo_problem *p) {
    return (p->kh > 1 && p->oh > p->dh) || (p->kw > 1 && p->ow > p->dw);
}

static bool takes(const struct mo_problem *p) {
    return !p->dot && !p->exact && packing_of(p, MO_WINO_LEAST, false) && p->groups == 1 && p->c >= 16 &&
           p->o >= 16 && several_outputs(p) && p->in_layout == MO_C16 && p->out_layout == MO_C16;
}

/* Whether half-transformed filters of `cut` tiles fit the registers: two accumulators a tile beside the
 * filters of two columns, what they come from, and two constants. */
static bool half_fits(const struct mo_emit_isa *isa, int64_t cut) {
    return isa->folds && isa->vectors == 1 && mo_mac_fits(isa, 2, cut + 1);
}

bool mo_wino_describe(const struct mo_problem *p, const struct mo_point *point, struct mo_wino *w) {
    const int *knob = point->knob;
    memset(w, 0, sizeof *w);
    w->p = p;
    w->isa = mo_emit_isa(p->isa);
    w->packing = packing_of(p, knob[MO_WINO_KNOB_M], knob[MO_WINO_KNOB_HALF] != 0);
    if (!mo_winograd_of(w->packing, &w->matrix)) return false;
    mo_wino_tile(w);
    w->icb = mo_ceil_div(p->c, 16), w->ocb = mo_ceil_div(p->o, 16);
    w->square = w->whole_down.alpha * w->whole_across.alpha;
    w->blocks = knob[MO_WINO_KNOB_BLOCKS], w->cut = knob[MO_WINO_KNOB_TILES];
    w->sets = knob[MO_WINO_KNOB_SETS];
    if (w->blocks < 1 || w->blocks > w->ocb || w->cut < 1 || w->sets < 1 || knob[MO_WINO_KNOB_BLOCK] < 1 ||
        !mo_mac_fits(w->isa, w->blocks * w->isa->vectors, w->cut))
        return false;
    if (w->matrix.half && (w->blocks > 1 || p->c % 16 || !half_fits(w->isa, w->cut))) return false;
    w->ahead = knob[MO_WINO_KNOB_PREFETCH];
    w->tile_blocks = knob[MO_WINO_KNOB_NUMBER] > 0 ? knob[MO_WINO_KNOB_NUMBER]
                                                   : mo_ceil_div(w->tiles, knob[MO_WINO_KNOB_BLOCK]);
    if (w->tile_blocks > w->tiles) return false;
    w->size = w->tiles / w->tile_blocks, w->extra = w->tiles % w->tile_blocks;
    w->oc_groups = mo_ceil_div(w->ocb, w->blocks * w->sets);
    int64_t largest = w->size + (w->extra > 0);
    w->v_plane = plane(largest * w->icb);
    w->m_plane = plane(largest);
    w->m_block = w->square * w->m_plane;
    w->u_plane = w->icb * 1024, w->u_block = w->whole_down.lines * w->whole_across.lines * w->u_plane;
    w->kept = w->matrix.half && largest > w->cut;
    w->scratch_bytes = w->square * w->v_plane + w->blocks * w->sets * w->m_block;
    if (w->kept) w->scratch_bytes += w->icb * 2048;
    return w->scratch_bytes <= MAX_SCRATCH;
}

uint64_t mo_wino_widths(const struct mo_wino *w) {
    uint64_t widths = 0;
    for (int64_t block = 0, at = 0; block < w->tile_blocks; block++) {
        int64_t count = w->size + (block >= w->tile_blocks - w->extra);
        for (int cls = 0; cls < w->kinds; cls++) {
            int64_t first, n = mo_wino_span(w, cls, at, count, &first), cuts = mo_ceil_div(n, w->cut);
            if (n > 0) widths |= 1ull << n / cuts | 1ull << mo_ceil_div(n, cuts);
        }
        at += count;
    }
    return widths;
}

/* --- figures --- */

static int64_t weight_bytes(const struct mo_wino *w) {
    return w->ocb * w->icb * mo_winograd_floats(&w->matrix) * 1024;
}

static int64_t out_bytes(const struct mo_wino *w) {
    return w->p->n * w->ocb * w->p->oh * w->p->ow * 64;
}

bool mo_wino_streams_out(const struct mo_wino *w) {
    return out_bytes(w) > 2 * L2_BYTES;
}

bool mo_wino_streams_in(const struct mo_wino *w) {
    return w->tile_blocks > 1 && w->p->n * w->icb * w->p->h * w->p->w * 64 > 2 * L2_BYTES;
}

int64_t mo_wino_l3_bytes(const struct mo_wino *w) {
    const struct mo_problem *p = w->p;
    int64_t in = p->n * w->icb * p->h * p->w * 64, out = out_bytes(w);
    int64_t v = w->square * w->v_plane, weights = weight_bytes(w);
    int64_t passes = weights + v > L2_BYTES ? w->tile_blocks : 1;
    int64_t spilled = v > L2_BYTES ? v * (w->oc_groups + 1) * w->tile_blocks : 0;
    return in + out * (p->fuse.residual >= 0 ? 2 : 1) + weights * passes + spilled;
}

int64_t mo_wino_block_bytes(const struct mo_wino *w) {
    return w->scratch_bytes + w->icb * w->blocks * 1024;
}

int64_t mo_wino_flops(const struct mo_wino *w) {
    return 2 * mo_wino_planes(w) * w->p->c * w->ocb * 16;
}

/* Cycles of the planes of a class, for a register tile of `tiles` and one output block: half-transformed
 * filters take two operations more a channel for each pair of columns, and the three vectors of a row from
 * the private cache in every pass over it. */
static double half_cycles(const struct mo_wino *w, int cls, double tiles, bool first) {
    int single = mo_wino_ends(w, cls), pairs = (mo_wino_class_cols(w, cls) - single) / 2;
    double pair = most(2 * tiles + (first ? 2.5 : 0), 4);
    double ends = single ? most(single * tiles, 4) : 0, calls = (double)pairs + (single > 0);
    double cycles = (pairs * pair + ends) / 2 * (double)w->p->c + calls * (30 + 3 * tiles);
    return cycles * mo_wino_class_rows(w, cls) * (double)w->ocb;
}

/* The same with transformed filters. */
static double full_cycles(const struct mo_wino *w, int cls, double tiles) {
    double vectors = w->blocks * w->isa->vectors, fma = vectors * tiles;
    double step = most(fma / 2, (vectors * (w->ahead ? 2 : 1) + tiles) / 2 * 1.03);
    if (!w->isa->constraint) step += fma / 2;
    double slice = (double)(w->icb * 1024 * w->blocks), one = most(step, 4) * (double)w->p->c;
    if (slice > L1_BYTES) one = most(one, slice / l2_rate) + 0.15 * slice / l2_rate;
    int64_t whole = w->ocb / w->blocks;
    double last = (double)(w->ocb % w->blocks) / w->blocks;
    double groups = (double)whole + (last > 0 ? most(last, 0.4) : 0);
    return (one + 30 + 1.5 * fma) * groups * mo_wino_class_rows(w, cls) * mo_wino_class_cols(w, cls);
}

/* Cycles of all products. */
static double product_cycles(const struct mo_wino *w) {
    double cycles = 0;
    for (int64_t block = 0, at = 0; block < w->tile_blocks; block++) {
        int64_t count = w->size + (block >= w->tile_blocks - w->extra);
        for (int cls = 0; cls < w->kinds; cls++) {
            int64_t first, n = mo_wino_span(w, cls, at, count, &first), cuts = mo_ceil_div(n, w->cut);
            int64_t wide = cuts ? n % cuts : 0;
            if (!cuts || !mo_wino_class_rows(w, cls) || !mo_wino_class_cols(w, cls)) continue;
            for (int64_t j = 0; j < cuts; j++) {
                int64_t width = n / cuts + (j < wide);
                double tiles = (double)width;
                cycles += w->matrix.half ? half_cycles(w, cls, tiles, !j) : full_cycles(w, cls, tiles);
            }
        }
        at += count;
    }
    return cycles;
}

/* What reading the packed weights takes from other cores and models, whether products hide it or not: as
 * MO_BYTE_NS of the search, which ranks what was measured. */
static const double byte_price = 0.9;

/* Weights come from memory, other layers having used the caches since: as one stream where a unit has one
 * register tile of output blocks, else in pieces that prefetching does not follow.  What is read again is in
 * L3 unless it is larger. */
static double memory_cycles(const struct mo_wino *w) {
    double weights = (double)weight_bytes(w), pieces = 1 + 0.4 * (1 - 1.0 / w->sets);
    double again = (double)mo_wino_l3_bytes(w) - weights;
    bool stays = weights < L3_BYTES;
    return weights * pieces / memory_rate + again / (stays ? l3_rate : memory_rate);
}

/* Cycles of the input transform, and of products and output transform. */
static double in_cycles(const struct mo_wino *w) {
    return (double)(mo_wino_planes(w) * w->icb) * w->isa->vectors * 5;
}

static double out_cycles(const struct mo_wino *w) {
    double outputs = w->whole_down.m * w->whole_across.m;
    double transform = (double)mo_wino_planes(w) * 3 + (double)w->tiles * outputs * 4;
    return product_cycles(w) + transform * (double)w->ocb * w->isa->vectors;
}

/* Nanoseconds of work and of memory traffic that mostly hides behind it, or the other way round. */
static double together(double cycles, double memory) {
    return (most(cycles, memory) + 0.2 * (cycles < memory ? cycles : memory)) / ghz;
}

double mo_wino_cost(const struct mo_wino *w) {
    double price = byte_price * (double)weight_bytes(w) / memory_rate;
    return together(in_cycles(w) + out_cycles(w), memory_cycles(w)) + price / ghz;
}

double mo_wino_part(const struct mo_wino *w, int cores) {
    int64_t units = w->tile_blocks * w->oc_groups, most_units = mo_wide_most(units, cores);
    int64_t entered = mo_ceil_div(most_units, w->oc_groups), groups = smaller(most_units, w->oc_groups);
    double cycles = in_cycles(w) * (double)entered / (double)w->tile_blocks +
                    out_cycles(w) * (double)most_units / (double)units;
    return together(cycles, (double)weight_bytes(w) * (double)groups / (double)w->oc_groups / l3_rate);
}

/* --- points --- */

struct list {
    struct mo_point *points;
    int n, cap;
};

/* Keeps the list sorted by cost, with at most two points of one m and number of blocks, and the second only
 * when it costs hardly more: other algorithms and register tiles must not be crowded out. */
static void insert(struct list *list, const struct mo_point *point) {
    int same = 0, first = -1, last = -1;
    for (int i = 0; i < list->n; i++) {
        if (memcmp(list->points[i].knob, point->knob, MO_WINO_KNOB_TILES * sizeof point->knob[0])) continue;
        same++, last = i;
        if (first < 0) first = i;
    }
    if (same && point->cost_ns > 1.04 * list->points[first].cost_ns) return;
    if (same && (same == 2 || list->points[last].cost_ns > 1.04 * point->cost_ns)) {
        if (list->points[last].cost_ns <= point->cost_ns) return;
        list->n = mo_points_drop(list->points, list->n, last);
    }
    int at = list->n;
    while (at > 0 && list->points[at - 1].cost_ns > point->cost_ns)
        at--;
    list->n = mo_points_put(list->points, list->n, list->cap, at, point);
}

/* Work of the slowest of `cores` over the mean. */
static double imbalance(const struct mo_wino *w, int64_t cores) {
    int64_t units = w->tile_blocks * w->oc_groups;
    return (double)(mo_ceil_div(units, cores) * cores) / (double)units;
}

static void predict(const struct mo_wino *w, struct mo_point *point) {
    point->cost_ns = mo_wino_cost(w);
    point->part_ns = mo_wino_part(w, w->p->cores);
    point->units = w->tile_blocks * w->oc_groups;
    point->packing = w->packing;
}

/* The best number of sets for a block of tiles. */
static void try_point(const struct mo_problem *p, struct mo_point *point, bool even, struct list *list) {
    struct mo_wino w;
    struct mo_point best = {.cost_ns = 0};
    for (int sets = 1; sets <= 4; sets *= 2) {
        point->knob[MO_WINO_KNOB_SETS] = sets;
        point->knob[MO_WINO_KNOB_PREFETCH] = 2048;
        if (!mo_wino_describe(p, point, &w) || (sets > 1 && w.oc_groups * sets * w.blocks > w.ocb)) continue;
        if (even && most(imbalance(&w, 2), imbalance(&w, 4)) > 1.15) continue;
        predict(&w, point);
        point->cost_ns *= 1 + 0.01 * (sets - 1);
        if (best.cost_ns <= 0 || point->cost_ns < best.cost_ns) best = *point;
    }
    if (best.cost_ns > 0) insert(list, &best);
}

/* Most tiles of a register tile. */
static int largest_cut(const struct mo_problem *p, int blocks, bool half) {
    const struct mo_emit_isa *isa = mo_emit_isa(p->isa);
    int cut = 30;
    while (cut > 1 && !(half ? half_fits(isa, cut) : mo_mac_fits(isa, blocks * isa->vectors, cut)))
        cut--;
    return cut;
}

/* Blocks of tiles: a few register tiles each, as even as the number of tiles allows, up to all tiles. */
static void try_blocks(const struct mo_problem *p, int m, int blocks, bool half, bool even,
                       struct list *list) {
    struct mo_wino w;
    int cut = largest_cut(p, blocks, half);
    struct mo_point one = {.knob = {m, blocks, cut, 1, 1, [MO_WINO_KNOB_HALF] = half}};
    if (!mo_wino_describe(p, &one, &w)) return;
    int64_t tiles = w.tiles, before = 0;
    for (int64_t cuts = 1; cuts <= MAX_CUTS; cuts += cuts < 4 ? 1 : cuts / 2) {
        int64_t number = mo_ceil_div(tiles, smaller(cuts * cut, tiles)), block = mo_ceil_div(tiles, number);
        if (block == before) continue;
        before = block;
        struct mo_point point = {.knob = {m, blocks, cut, (int)block, [MO_WINO_KNOB_HALF] = half}};
        try_point(p, &point, even, list);
    }
}

/* A register tile shares a broadcast between two weight vectors at least, where the layer has them: with one
 * it is bound by loads. */
static int least_blocks(const struct mo_problem *p) {
    return p->o > 16 && mo_emit_isa(p->isa)->vectors == 1 ? 2 : 1;
}

/* Smaller blocks of tiles, down to a tile each: from as many as give every core a unit to some times that. */
static void try_wide(const struct mo_problem *p, int m, int blocks, bool half, struct mo_point *best) {
    struct mo_wino w;
    struct mo_point point = {.knob = {m, blocks, largest_cut(p, blocks, half), 1, 1, 2048, half}};
    if (!mo_wino_describe(p, &point, &w)) return; /* one tile a block: the number is free */
    int64_t least = smaller(mo_ceil_div(p->cores, w.oc_groups), w.tiles);
    for (int64_t number = least; number <= smaller(4 * least, w.tiles); number++) {
        point.knob[MO_WINO_KNOB_NUMBER] = (int)number;
        if (!mo_wino_describe(p, &point, &w)) continue;
        predict(&w, &point);
        mo_wide_take(best, &point);
    }
}

/* Behind the n points listed: one for many cores of each packing that has none. */
static int add_wide(const struct mo_problem *p, struct mo_point *out, int n, int cap) {
    const int listed = n;
    for (int m = MO_WINO_LEAST; m <= MO_WINO_M; m++)
        for (int half = 0; half < 2; half++) {
            enum mo_packing packing = packing_of(p, m, half != 0);
            struct mo_point best = {.part_ns = 0};
            if (n >= cap || !mo_wide_lacks(out, listed, packing, p->cores)) continue;
            for (int blocks = half ? 1 : least_blocks(p); blocks <= (half ? 1 : 4); blocks++)
                try_wide(p, m, blocks, half, &best);
            if (best.wide) out[n++] = best;
        }
    return n;
}

/* Points whose units split evenly over a few cores; if there are none, all. */
static int points(const struct mo_problem *p, struct mo_point *out, int cap) {
    struct list list = {out, 0, cap};
    for (int even = 1; even >= 0 && cap > 0 && !list.n; even--)
        for (int m = MO_WINO_LEAST; m <= MO_WINO_M; m++) {
            for (int blocks = least_blocks(p); blocks <= 4; blocks++)
                try_blocks(p, m, blocks, false, even, &list);
            try_blocks(p, m, 1, true, even, &list);
        }
    return add_wide(p, out, list.n, cap);
}

static int emit(const struct mo_problem *p, const struct mo_point *point, FILE *out, moire_error *err) {
    struct mo_wino w;
    char name[120], number[16] = "";
    const int *k = point->knob;
    if (!mo_wino_describe(p, point, &w))
        return mo_fail(err, MOIRE_EINVAL, "illegal point for family winograd");
    if (k[MO_WINO_KNOB_NUMBER]) snprintf(number, sizeof number, " x%d", k[MO_WINO_KNOB_NUMBER]);
    snprintf(name, sizeof name, "winograd %s f%d%s b%d t%d n%d s%d p%d%s", w.isa->name, k[MO_WINO_KNOB_M],
             w.matrix.half ? " half" : "", k[MO_WINO_KNOB_BLOCKS], k[MO_WINO_KNOB_TILES],
             k[MO_WINO_KNOB_BLOCK], k[MO_WINO_KNOB_SETS], k[MO_WINO_KNOB_PREFETCH], number);
    return mo_wino_emit(&w, name, out, err);
}

const struct mo_emit_family mo_emit_family_winograd = {
    "winograd", {"m", "blocks", "tiles", "block", "sets", "prefetch", "half", "number"}, takes, points, emit};
