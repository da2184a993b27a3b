/* SPDX-License-Identifier: Apache-2.0
 * strassen.c - the Strassen family: which layers it takes, geometry, cost model, points; see strassen.h. */
#include "codegen/family/strassen.h"

#include <string.h>
#include "codegen/family/wide.h"
#include "runtime/base/numbers.h"

enum { L1_BYTES = 32 << 10, L2_BYTES = 768 << 10, MAX_SCRATCH = 64 << 20 };
enum {
    LEAST_CHANNELS = 128,
    LEAST_OUTPUTS = 64,
    LEAST_PIXELS = 16,
    LEAST_SUM = 4,
    PART_UNITS = 16,
    MAX_TILES = 12,
    MOST_LARGE = 8 /* chunks */
};
static const double l2_rate = 40, l3_rate = 14, ghz = 4.2; /* bytes a cycle; as in walk_cost.c */

static double most(double a, double b) {
    return a > b ? a : b;
}

static bool is_rows(const struct mo_problem *p) {
    return p->in_layout == MO_PLAIN && p->out_layout == MO_PLAIN;
}

/* The padding of a last block takes part in sums with other channels: none is allowed where it is not surely
 * zero (input), or not there (plain output). */
static bool takes(const struct mo_problem *p) {
    bool pointwise = p->kh == 1 && p->kw == 1 && p->groups == 1 && p->pt + p->pl + p->pb + p->pr == 0;
    bool layouts = is_rows(p) ? p->o % 16 == 0 : p->in_layout == MO_C16 && p->out_layout == MO_C16;
    return !p->dot && !p->exact && !p->fuse.gated && pointwise && layouts && p->c % 16 == 0 &&
           p->c >= LEAST_CHANNELS && p->o >= LEAST_OUTPUTS && p->oh * p->ow >= LEAST_PIXELS;
}

static bool fits_registers(const struct mo_emit_isa *isa, int blocks, int pairs) {
    int vectors = blocks * isa->vectors;
    return vectors * pairs <= isa->max_acc && mo_mac_fits(isa, vectors, pairs);
}

static int largest_cut(const struct mo_emit_isa *isa, int blocks) {
    int cut = isa->max_acc;
    while (cut > 0 && !fits_registers(isa, blocks, cut))
        cut--;
    return cut;
}

void mo_strassen_cuts(const struct mo_strassen *s, int *least, int *most_pairs) {
    *least = *most_pairs = 0;
    for (int64_t size = s->size; size <= s->size + (s->extra > 0); size++) {
        int64_t cuts = mo_ceil_div(size, s->cut), low = size / cuts, high = mo_ceil_div(size, cuts);
        if (!*least || low < *least) *least = (int)low;
        if (high > *most_pairs) *most_pairs = (int)high;
    }
}

static void describe_layer(const struct mo_problem *p, int scheme, struct mo_strassen *s) {
    *s = (struct mo_strassen){.p = p, .isa = mo_emit_isa(p->isa), .rows = is_rows(p)};
    s->scheme = &mo_strassen_schemes[scheme];
    s->pixels = p->oh * p->ow;
    s->pairs = (s->pixels + 1) / 2;
    s->icb = mo_ceil_div(p->c, 16), s->ocb = mo_ceil_div(p->o, 16);
    s->kb = mo_strassen_blocks(s->icb, s->scheme->depth);
    s->nb = mo_strassen_blocks(s->ocb, s->scheme->columns);
    s->x_pixel = s->rows ? p->x_row * 4 : 64, s->x_block = s->rows ? 64 : p->h * p->w * 64;
    s->y_pixel = s->rows ? p->y_row * 4 : 64, s->y_block = s->rows ? 64 : s->pixels * 64;
}

/* Every range has blocks, and sums are long enough to be worth more products. */
static bool whole_ranges(const struct mo_strassen *s) {
    const int depth = s->scheme->depth, columns = s->scheme->columns;
    return s->icb > (depth - 1) * s->kb && s->ocb > (columns - 1) * s->nb && s->kb >= LEAST_SUM;
}

bool mo_strassen_describe(const struct mo_problem *p, const struct mo_point *point, struct mo_strassen *s) {
    const int *knob = point->knob;
    if (knob[MO_STRASSEN_KNOB_SCHEME] >= MO_STRASSEN_SCHEMES) return false;
    describe_layer(p, knob[MO_STRASSEN_KNOB_SCHEME], s);
    s->blocks = knob[MO_STRASSEN_KNOB_BLOCKS];
    s->parts = knob[MO_STRASSEN_KNOB_PARTS];
    s->sets = knob[MO_STRASSEN_KNOB_SETS];
    s->prefetch = knob[MO_STRASSEN_KNOB_PREFETCH];
    s->packing = mo_strassen_packing(knob[MO_STRASSEN_KNOB_SCHEME], s->blocks);
    int tiles = knob[MO_STRASSEN_KNOB_TILES];
    if (s->packing == MO_PACK_NONE || !whole_ranges(s) || s->blocks > s->nb || s->parts < 1 ||
        s->parts > s->kb || s->sets < 1 || tiles < 1)
        return false;
    /* a residual added last may share its memory with the output, where the sums of the parts rest */
    if (s->parts > 1 && p->fuse.residual >= 0 && p->fuse.residual_last) return false;
    s->cut = largest_cut(s->isa, s->blocks);
    if (s->cut < 1) return false;
    s->chunks = knob[MO_STRASSEN_KNOB_CHUNKS] > 0 ? knob[MO_STRASSEN_KNOB_CHUNKS]
                                                  : mo_ceil_div(s->pairs, (int64_t)tiles * s->cut);
    if (s->chunks > s->pairs) return false;
    s->size = s->pairs / s->chunks, s->extra = s->pairs % s->chunks;
    s->groups = mo_ceil_div(s->nb, s->blocks * s->sets);
    s->share = mo_ceil_div(4 * s->blocks, mo_ceil_div(s->size, s->cut)) * 64;
    int64_t largest = s->size + (s->extra > 0), depth = mo_ceil_div(s->kb, s->parts);
    s->v_plane = (largest * depth | 1) * 64;
    s->m_plane = (largest | 1) * 64;
    s->m_block = s->scheme->products * s->m_plane;
    s->scratch_bytes = s->scheme->products * s->v_plane + s->blocks * s->m_block;
    return s->scratch_bytes <= MAX_SCRATCH;
}

/* --- figures --- */

int64_t mo_strassen_flops(const struct mo_strassen *s) {
    return 2 * s->p->n * s->scheme->products * s->pairs * (s->kb * 16) * (s->nb * 16);
}

int64_t mo_strassen_l3_bytes(const struct mo_strassen *s) {
    int64_t in = s->pixels * s->icb * 64, out = s->pixels * s->ocb * 64;
    int64_t weights = s->scheme->products * s->kb * s->nb * 1024, v = s->scheme->products * s->v_plane;
    int64_t passes = weights + v > L2_BYTES ? s->p->n * s->chunks : 1;
    int64_t spilled = v > L2_BYTES ? v * s->chunks * s->groups : 0;
    return s->p->n *
               (in * (s->parts > 1 ? s->groups : 1) + out * (s->p->fuse.residual >= 0 ? 2 : 1) + spilled) +
           weights * passes;
}

/* Cycles of all products of a chunk of `size` pairs. */
static double product_cycles(const struct mo_strassen *s, int64_t size) {
    int64_t cuts = mo_ceil_div(size, s->cut);
    double vectors = s->blocks * s->isa->vectors, cycles = 0;
    for (int64_t j = 0; j < cuts; j++) {
        const int64_t tile = size / cuts + (j < size % cuts);
        double pairs = (double)tile, fma = vectors * pairs;
        double step = most(fma / 2, (vectors + pairs + (double)s->share / 256) / 2 * 1.03);
        if (!s->isa->constraint) step += fma / 2;
        double slice = (double)(s->kb * 1024 * s->blocks), one = most(step, 4) * (double)s->kb * 16;
        if (slice > L1_BYTES) one = most(one, slice / l2_rate);
        cycles += one + (double)s->parts * (30 + 1.5 * fma);
    }
    const int64_t whole = s->nb / s->blocks;
    double last = (double)(s->nb % s->blocks) / s->blocks;
    return cycles * s->scheme->products * ((double)whole + (last > 0 ? most(last, 0.4) : 0));
}

static int terms(const int8_t *coefficients, size_t n) {
    int count = 0;
    for (size_t i = 0; i < n; i++)
        count += coefficients[i] != 0;
    return count;
}

/* Cycles of a pair in one block of the first range: of its V, and of its outputs. */
static double combine_in(const struct mo_strassen_scheme *s) {
    return 1.2 * (s->depth + terms(s->left[0], sizeof s->left) / 2.0 + s->products);
}

static double combine_out(const struct mo_strassen_scheme *s) {
    return 1.33 * (s->products / 2.0 + terms(s->out[0], sizeof s->out) / 2.0 + 2 * s->columns);
}

/* Cycles of making V once for all images, and of products and outputs. */
static double in_cycles(const struct mo_strassen *s) {
    return (double)(s->p->n * s->pairs * s->kb) * s->isa->vectors * combine_in(s->scheme);
}

static double out_cycles(const struct mo_strassen *s) {
    double cycles = product_cycles(s, s->size) * (double)(s->chunks - s->extra);
    if (s->extra) cycles += product_cycles(s, s->size + 1) * (double)s->extra;
    double outputs = (double)(s->pairs * s->nb * s->parts) * s->isa->vectors * combine_out(s->scheme);
    return (double)s->p->n * (cycles + outputs);
}

/* Nanoseconds of work and of memory traffic that mostly hides behind it, or the other way round. */
static double together(const struct mo_strassen *s, double cycles, double bytes) {
    double memory = bytes / l3_rate * (s->prefetch ? 1 : 1.2);
    return (most(cycles, memory) + 0.2 * (cycles < memory ? cycles : memory)) / ghz;
}

double mo_strassen_cost(const struct mo_strassen *s) {
    double cycles = in_cycles(s) * (double)(s->parts > 1 ? s->groups : 1) + out_cycles(s);
    return together(s, cycles, (double)mo_strassen_l3_bytes(s));
}

double mo_strassen_part(const struct mo_strassen *s, int cores) {
    int64_t chunks = s->p->n * s->chunks, units = chunks * s->groups, mine = mo_wide_most(units, cores);
    int64_t entered = s->parts > 1 ? mine : mo_ceil_div(mine, s->groups);
    double share = (double)mine / (double)units,
           weights = (double)(s->scheme->products * s->kb * s->nb * 1024);
    double cycles = in_cycles(s) * (double)entered / (double)chunks + out_cycles(s) * share;
    double part = mine < s->groups ? (double)mine / (double)s->groups : 1;
    return together(s, cycles, weights * part);
}

/* --- points --- */

/* Work of the slowest of `cores` over the mean, when the units are split evenly. */
static double imbalance(const struct mo_strassen *s, int64_t cores) {
    const int64_t units = s->p->n * s->chunks * s->groups, per = s->blocks * s->sets;
    double slowest = 0, total = 0;
    for (int64_t core = 0; core < cores; core++) {
        double work = 0;
        for (int64_t u = units * core / cores; u < units * (core + 1) / cores; u++) {
            int64_t left = s->nb - u % s->groups * per, chunk = u / s->groups % s->chunks;
            work += (double)((left < per ? left : per) * (s->size + (chunk < s->extra)));
        }
        total += work;
        slowest = most(slowest, work);
    }
    return slowest * (double)cores / total;
}

static int insert(struct mo_point *points, int n, int cap, const struct mo_point *point) {
    int at = n;
    while (at > 0 && points[at - 1].cost_ns > point->cost_ns)
        at--;
    return mo_points_put(points, n, cap, at, point);
}

/* Few enough parts for V to fit into `bytes`; a unit of a layer in parts makes V again, so it gets many sets,
 * as long as there are units for some cores.  False when no part is small enough. */
static bool fit_parts(const struct mo_problem *p, int64_t bytes, struct mo_point *point,
                      struct mo_strassen *s) {
    int *parts = &point->knob[MO_STRASSEN_KNOB_PARTS], *sets = &point->knob[MO_STRASSEN_KNOB_SETS];
    *parts = *sets = 1;
    for (;; ++*parts) {
        if (!mo_strassen_describe(p, point, s)) return false;
        if (s->scheme->products * s->v_plane <= bytes) break;
    }
    if (*parts == 1) return true;
    int64_t groups = mo_ceil_div(PART_UNITS, p->n * s->chunks);
    *sets = (int)mo_ceil_div(mo_ceil_div(s->nb, s->blocks), groups);
    return mo_strassen_describe(p, point, s);
}

static void predict(const struct mo_strassen *s, struct mo_point *point) {
    point->cost_ns = mo_strassen_cost(s) * (1 + imbalance(s, 2)) / 2;
    point->part_ns = mo_strassen_part(s, s->p->cores);
    point->units = s->p->n * s->chunks * s->groups;
    point->packing = s->packing;
}

/* If none of the n points listed of this one's packing has a unit of work for every core, appends one that
 * has: the best of those with smaller chunks, from just enough of them to four times as many. */
static int add_wide(const struct mo_problem *p, struct mo_point point, struct mo_point *out, int n, int cap) {
    struct mo_point best = {.part_ns = 0};
    struct mo_strassen s;
    point.knob[MO_STRASSEN_KNOB_CHUNKS] = 1;
    if (n >= cap || !mo_strassen_describe(p, &point, &s)) return n;
    if (!mo_wide_lacks(out, n, s.packing, p->cores)) return n;
    int64_t least = mo_ceil_div(p->cores, p->n * s.groups);
    for (int64_t chunks = least; chunks <= 4 * least && chunks <= s.pairs; chunks++) {
        point.knob[MO_STRASSEN_KNOB_CHUNKS] = (int)chunks;
        if (!fit_parts(p, MO_STRASSEN_V_BYTES, &point, &s)) continue;
        predict(&s, &point);
        mo_wide_take(&best, &point);
    }
    if (best.wide) out[n++] = best;
    return n;
}

/* Few chunks, so that weights are read few times: V leaves the private cache, and L3 gives it back in time.
 */
static int add_large(const struct mo_problem *p, struct mo_point point, struct mo_point *out, int n,
                     int cap) {
    struct mo_strassen s;
    if (!mo_strassen_describe(p, &point, &s)) return n;
    const int64_t tiles = mo_ceil_div(s.pairs, s.cut);
    for (int64_t chunks = 1, before = 0; chunks <= MOST_LARGE && chunks <= tiles; chunks++) {
        point.knob[MO_STRASSEN_KNOB_TILES] = (int)mo_ceil_div(tiles, chunks);
        if (!mo_strassen_describe(p, &point, &s)) continue;
        const int64_t v = s.scheme->products * s.v_plane;
        if (s.chunks == before || v > MO_STRASSEN_V_SHARED || (chunks > 1 && v <= MO_STRASSEN_V_BYTES))
            continue;
        before = s.chunks;
        predict(&s, &point);
        n = insert(out, n, cap, &point);
    }
    return n;
}

/* Chunks of several sizes; V in half of the private cache, where that takes parts also in most of it. */
static int add_chunks(const struct mo_problem *p, struct mo_point point, struct mo_point *out, int n,
                      int cap) {
    static const int64_t v_bytes[] = {MO_STRASSEN_V_BYTES / 2, MO_STRASSEN_V_BYTES};
    struct mo_strassen s;
    for (int tiles = 1, before = 0; tiles <= MAX_TILES; tiles += tiles < 4 ? 1 : tiles / 2) {
        point.knob[MO_STRASSEN_KNOB_TILES] = tiles;
        point.knob[MO_STRASSEN_KNOB_PARTS] = 1;
        if (!mo_strassen_describe(p, &point, &s) || (int)s.chunks == before) continue;
        before = (int)s.chunks;
        int64_t parts = 0;
        for (int i = 0; i < 2; i++) {
            if (!fit_parts(p, v_bytes[i], &point, &s) || s.parts == parts) continue;
            parts = s.parts;
            predict(&s, &point);
            n = insert(out, n, cap, &point);
        }
    }
    return n;
}

/* The points of all schemes and panels, by cost; after them those for many cores. */
static int points(const struct mo_problem *p, struct mo_point *out, int cap) {
    struct mo_point start[MO_STRASSEN_SCHEMES * 3];
    int n = 0, starts = 0;
    for (int scheme = 0; scheme < MO_STRASSEN_SCHEMES; scheme++)
        for (int blocks = p->isa == MO_ISA_AVX512 ? 2 : 1; blocks <= 4; blocks *= 2)
            start[starts++] = (struct mo_point){.knob = {blocks, 1, 1, 1, 1, 0, scheme}};
    for (int i = 0; i < starts; i++) {
        n = add_chunks(p, start[i], out, n, cap);
        n = add_large(p, start[i], out, n, cap);
    }
    for (int i = 0; i < starts; i++)
        n = add_wide(p, start[i], out, n, cap);
    return n;
}

static int emit(const struct mo_problem *p, const struct mo_point *point, FILE *out, moire_error *err) {
    struct mo_strassen s;
    char name[120], chunks[16] = "";
    const int *k = point->knob;
    if (!mo_strassen_describe(p, point, &s))
        return mo_fail(err, MOIRE_EINVAL, "illegal point for family strassen");
    if (k[MO_STRASSEN_KNOB_CHUNKS]) snprintf(chunks, sizeof chunks, " c%d", k[MO_STRASSEN_KNOB_CHUNKS]);
    snprintf(name, sizeof name, "strassen %s %s b%d t%d k%d s%d p%d%s", s.scheme->name, s.isa->name,
             k[MO_STRASSEN_KNOB_BLOCKS], k[MO_STRASSEN_KNOB_TILES], k[MO_STRASSEN_KNOB_PARTS],
             k[MO_STRASSEN_KNOB_SETS], k[MO_STRASSEN_KNOB_PREFETCH], chunks);
    return mo_strassen_emit(&s, name, out, err);
}

const struct mo_emit_family mo_emit_family_strassen = {
    "strassen", {"blocks", "tiles", "parts", "sets", "prefetch", "chunks", "scheme"}, takes, points, emit};
