/* SPDX-License-Identifier: Apache-2.0
 * profile.c - prefix sums of layer times by core count; interpolation; block search. */
#include "runtime/profile/profile.h"

/* A block is brief if it has less than one part in so many of the time that it may have. */
enum { BRIEF = 8 };

struct mo_profile *mo_profile_create(const struct mo_env *env, int n_layers, int max_cores) {
    struct mo_profile *p = mo_alloc(env, sizeof *p);
    if (!p) return NULL;
    p->env = env;
    p->n_layers = n_layers;
    p->max_cores = max_cores;
    size_t cells;
    if (!__builtin_mul_overflow((size_t)max_cores + 1, (size_t)n_layers + 1, &cells) &&
        cells < SIZE_MAX / sizeof *p->sum) {
        p->sum = mo_alloc(env, cells * sizeof *p->sum);
        p->rest = mo_alloc(env, cells * sizeof *p->rest);
    }
    p->measured = mo_alloc(env, (size_t)max_cores + 1);
    p->bytes = mo_alloc(env, ((size_t)n_layers + 1) * sizeof *p->bytes);
    p->cold = mo_alloc(env, ((size_t)n_layers + 1) * sizeof *p->cold);
    p->ops = mo_alloc(env, ((size_t)n_layers + 1) * sizeof *p->ops);
    p->fastest = mo_alloc(env, (size_t)n_layers * sizeof *p->fastest);
    if (mo_ladder_open(p) && p->sum && p->rest && p->measured && p->bytes && p->cold && p->ops && p->fastest)
        return p;
    mo_profile_destroy(p);
    return NULL;
}

void mo_profile_destroy(struct mo_profile *p) {
    if (!p) return;
    mo_ladder_close(p);
    mo_free(p->env, p->level);
    mo_free(p->env, p->sum);
    mo_free(p->env, p->rest);
    mo_free(p->env, p->measured);
    mo_free(p->env, p->bytes);
    mo_free(p->env, p->cold);
    mo_free(p->env, p->ops);
    mo_free(p->env, p->choices);
    mo_free(p->env, p->fastest);
    mo_free(p->env, p);
}

static int64_t *row_of(struct mo_profile *p, int cores) {
    return p->sum + (int64_t)cores * (p->n_layers + 1);
}

void mo_profile_record(struct mo_profile *p, int cores, const int64_t *layer_ns) {
    int64_t *row = row_of(p, cores), before = 0;
    for (int i = 0; i < p->n_layers; i++) {
        int64_t old = row[i + 1] - before, t = layer_ns[i] > 0 ? layer_ns[i] : 1;
        before = row[i + 1];
        row[i + 1] = row[i] + (p->measured[cores] && old < t ? old : t);
    }
    p->measured[cores] = true;
}

/* Prefix sums of what layers have; negative values count as 0, and sums end at the largest number there is.
 */
static void add_up(const struct mo_profile *p, const int64_t *of_layer, int64_t *sum) {
    for (int i = 0; i < p->n_layers; i++)
        if (__builtin_add_overflow(sum[i], of_layer[i] > 0 ? of_layer[i] : 0, &sum[i + 1]))
            sum[i + 1] = INT64_MAX;
}

void mo_profile_traffic(struct mo_profile *p, const int64_t *layer_bytes) {
    add_up(p, layer_bytes, p->bytes);
}

void mo_profile_cold(struct mo_profile *p, const int64_t *layer_ns) {
    add_up(p, layer_ns, p->cold);
}

void mo_profile_operations(struct mo_profile *p, const int64_t *layer_ops) {
    add_up(p, layer_ops, p->ops);
}

int mo_profile_choices(struct mo_profile *p, const bool *some) {
    if (!p->choices) p->choices = mo_alloc(p->env, ((size_t)p->n_layers + 1) * sizeof *p->choices);
    for (int i = 0; p->choices && i < p->n_layers; i++)
        p->choices[i + 1] = p->choices[i] + some[i];
    return p->choices ? MOIRE_OK : MOIRE_ENOMEM;
}

/* Time of one layer at c cores on the line through (1/lo, a) and (1/hi, b). */
static int64_t between(int c, int lo, int64_t a, int hi, int64_t b) {
    double x = (1.0 / c - 1.0 / hi) / (1.0 / lo - 1.0 / hi);
    return (int64_t)((double)b + x * (double)(a - b));
}

static void fill_row(struct mo_profile *p, int c) {
    int lo = c, hi = c;
    while (lo >= 1 && !p->measured[lo])
        lo--;
    while (hi <= p->max_cores && !p->measured[hi])
        hi++;
    int64_t *row = row_of(p, c);
    for (int i = 0; i < p->n_layers; i++) {
        int64_t a = lo >= 1 ? row_of(p, lo)[i + 1] - row_of(p, lo)[i] : -1;
        int64_t b = hi <= p->max_cores ? row_of(p, hi)[i + 1] - row_of(p, hi)[i] : -1;
        int64_t t = a < 0 ? b * hi / c : b < 0 ? a : between(c, lo, a, hi, b);
        row[i + 1] = row[i] + (t > 0 ? t : 1);
    }
}

static int find_fastest(const struct mo_profile *p, int begin, int top) {
    const int64_t *rest = mo_profile_rest(p, begin);
    int best = 1;
    for (int c = 2; c <= top; c++)
        if (rest[c] < rest[best]) best = c;
    return best;
}

void mo_profile_interpolate(struct mo_profile *p) {
    for (int c = 1; c <= p->max_cores; c++)
        if (!p->measured[c]) fill_row(p, c);
}

void mo_profile_finish(struct mo_profile *p) {
    mo_profile_interpolate(p);
    for (int c = 1; c <= p->max_cores; c++)
        for (int i = 0; i <= p->n_layers; i++)
            p->rest[(int64_t)i * (p->max_cores + 1) + c] = mo_profile_time(p, c, i, p->n_layers);
    for (int i = 0; i < p->n_layers; i++)
        p->fastest[i] = find_fastest(p, i, p->max_cores);
    mo_ladder_fill(p);
}

int mo_profile_fastest(const struct mo_profile *p, int begin, int limit) {
    if (begin < p->n_layers && p->fastest[begin] <= limit) return p->fastest[begin];
    return find_fastest(p, begin, limit < p->max_cores ? limit : p->max_cores);
}

int mo_profile_block(const struct mo_profile *p, int cores, int begin, int64_t bound_ns) {
    const int64_t *row = mo_profile_row(p, cores);
    int lo = begin + 1, hi = p->n_layers; /* the answer lies in [lo, hi] */
    while (lo < hi) {
        int mid = lo + (hi - lo + 1) / 2;
        if (row[mid] - row[begin] <= bound_ns)
            lo = mid;
        else
            hi = mid - 1;
    }
    const bool is_brief = row[lo] - row[begin] < bound_ns / BRIEF;
    return is_brief && lo < p->n_layers ? lo + 1 : lo;
}
