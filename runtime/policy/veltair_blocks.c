/* SPDX-License-Identifier: Apache-2.0
 * veltair_blocks.c - cores that layers need and where blocks end; see veltair_blocks.h.
 *
 * Whether a layer is a pivot is asked for every layer of a block, at every block.  Most keep to their share
 * on one core fewer than the limit, which one look tells; only for the others their core count is looked for.
 */
#include "runtime/policy/veltair_blocks.h"

#include <math.h>

static const double TOLERANCE = 1.05, /* of the least time, where no core count is enough */
    PLANNED = 0.7;                    /* of 0.5, 0.7 and 0.9 that which carries most in the paper's mixes */

int64_t mo_blocks_time(const struct mo_profile *p, double pressure, int n, int begin, int end) {
    if (pressure < 0 || !p->level) return mo_profile_time(p, n, begin, end);
    return mo_profile_at(p, pressure, n, begin, end).under;
}

int mo_blocks_core(const struct mo_profile *p, double pressure, int cores, int begin, int end, double most) {
    double least = INFINITY;
    for (int n = 1; n <= cores; n++) {
        double time = (double)mo_blocks_time(p, pressure, n, begin, end);
        if (time <= most) return n;
        if (time < least) least = time;
    }
    int n = 1;
    while (n < cores && (double)mo_blocks_time(p, pressure, n, begin, end) > TOLERANCE * least)
        n++;
    return n;
}

double mo_blocks_planned(double ns) {
    return PLANNED * ns;
}

double mo_blocks_share(const struct mo_blocks *b, int begin, int end) {
    const struct mo_profile *p = b->profile;
    double all = b->by_time ? 0 : (double)mo_profile_ops(p, 0, p->n_layers);
    if (all > 0) return (double)mo_profile_ops(p, begin, end) / all;
    return (double)mo_profile_time(p, 1, begin, end) / (double)mo_profile_time(p, 1, 0, p->n_layers);
}

int mo_blocks_need(const struct mo_blocks *b, int begin, int end) {
    return mo_blocks_core(b->profile, b->pressure, b->cores, begin, end,
                          b->target * mo_blocks_share(b, begin, end));
}

double mo_blocks_limit(int cores, double sum, int average) {
    return average + (cores > sum ? (cores - sum) * average / sum : 0);
}

static bool is_pivot(const struct mo_blocks *b, int layer, double limit) {
    int fewer = (int)ceil(limit) - 1;
    double most = b->target * mo_blocks_share(b, layer, layer + 1);
    if (fewer >= b->cores) return false;
    if (fewer > 0 && (double)mo_blocks_time(b->profile, b->pressure, fewer, layer, layer + 1) <= most)
        return false;
    return mo_blocks_need(b, layer, layer + 1) > fewer;
}

int mo_blocks_pivot(const struct mo_blocks *b, int begin, double limit) {
    int layer = begin + 1;
    while (layer < b->profile->n_layers && !is_pivot(b, layer, limit))
        layer++;
    return layer;
}

int mo_blocks_form(const struct mo_blocks *b, int begin, double limit, int *end) {
    int n = 0;
    for (; begin < b->profile->n_layers; begin = end[n++])
        end[n] = mo_blocks_pivot(b, begin, limit);
    return n;
}
