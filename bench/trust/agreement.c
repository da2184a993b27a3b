/* SPDX-License-Identifier: Apache-2.0
 * agreement.c - rounds of slices until their shortest times agree; see agreement.h. */
#include "bench/trust/agreement.h"

#include <string.h>

enum { ENOUGH_QUIET = 2 };

/* The k-th shortest time, 0 or 1; 0 when there are not so many slices. */
static double shortest(const struct mo_solo_series *s, int k) {
    double first = 0, second = 0;
    for (int i = 0; i < s->n; i++) {
        double ms = s->slice[i].least_ms;
        if (first == 0 || ms < first) {
            second = first;
            first = ms;
        } else if (second == 0 || ms < second) {
            second = ms;
        }
    }
    return k ? second : first;
}

double mo_solo_least(const struct mo_solo_series *series) {
    return shortest(series, 0);
}

double mo_solo_spread(const struct mo_solo_series *series) {
    double first = shortest(series, 0), second = shortest(series, 1);
    return first > 0 && second > 0 ? second / first - 1 : 0;
}

int mo_solo_quiet(const struct mo_solo_series *series) {
    int quiet = 0;
    for (int i = 0; i < series->n; i++)
        quiet += !series->slice[i].busy;
    return quiet;
}

int mo_solo_faster_with_fewer(const struct mo_solo_series *series, int n, int i,
                              const struct mo_solo_rule *rule) {
    const struct mo_solo_series *more = &series[i];
    int best = -1;
    for (int k = 0; k < n; k++) {
        const struct mo_solo_series *fewer = &series[k];
        if (fewer->model != more->model || fewer->lost || !fewer->n || fewer->threads >= more->threads ||
            strcmp(fewer->system, more->system) != 0)
            continue;
        if (shortest(more, 0) <= shortest(fewer, 0) * (1 + rule->within)) continue;
        if (best < 0 || shortest(fewer, 0) < shortest(&series[best], 0)) best = k;
    }
    return best;
}

enum mo_solo_verdict mo_solo_judge(const struct mo_solo_series *series, int n, int i,
                                   const struct mo_solo_rule *rule) {
    const struct mo_solo_series *s = &series[i];
    if (s->n < 2 || mo_solo_spread(s) > rule->within) return MO_SOLO_APART;
    if (mo_solo_faster_with_fewer(series, n, i, rule) >= 0) return MO_SOLO_SLOWER;
    return mo_solo_quiet(s) < ENOUGH_QUIET ? MO_SOLO_BUSY : MO_SOLO_AGREED;
}

/* Marks the series that need a slice in this round; returns how many.  Of a system that is slower with more
 * threads only these are measured again: a shorter time with fewer would not bring the two together. */
static int choose(struct mo_solo_series *series, int n, int round, const struct mo_solo_rule *rule) {
    int count = 0;
    for (int i = 0; i < n; i++) {
        series[i].due = !series[i].lost && series[i].n < MO_SOLO_MAX_SLICES &&
                        (round < rule->least_rounds || mo_solo_judge(series, n, i, rule) != MO_SOLO_AGREED);
        count += series[i].due;
    }
    return count;
}

int mo_solo_rounds(const struct mo_solo_source *source, struct mo_solo_series *series, int n,
                   struct mo_solo_rule *rule, moire_error *err) {
    int code = MOIRE_OK;
    for (int round = 0; !code && round < rule->most_rounds; round++) {
        const bool extra = round >= rule->least_rounds;
        if ((extra && rule->spare_s <= 0) || !choose(series, n, round, rule)) break;
        double since = source->now_s(source->self);
        for (int i = 0; !code && i < n; i++) {
            struct mo_solo_slice slice = {0};
            if (!series[i].due) continue;
            code = source->slice(source->self, i, &slice, err);
            if (!code && !series[i].lost) series[i].slice[series[i].n++] = slice;
        }
        if (extra) rule->spare_s -= source->now_s(source->self) - since;
    }
    return code;
}
