/* SPDX-License-Identifier: Apache-2.0
 * dag.c - levels of an application, and the division of its target. */
#include "runtime/planner/dag.h"

#include <math.h>

enum { STEPS = 200, SHARE_STEP = 100 }; /* parts of the target; permille between shares that are looked at */

/* Of the stages that `from` waits for, one on the longest way; n steps back lie in the circle. */
static int in_circle(const struct mo_dag *d, int from) {
    for (int step = 0; step < d->n; step++) {
        const struct mo_dag_stage *s = &d->stage[from];
        for (int k = 0, best = -1; k < s->n_after; k++)
            if (d->level[s->after[k]] > best) {
                best = d->level[s->after[k]];
                from = s->after[k];
            }
    }
    return from;
}

int mo_dag_finish(struct mo_dag *d, moire_error *err) {
    if (d->n < 1 || d->n > MO_DAG_STAGES)
        return mo_fail(err, MOIRE_EINVAL, "application '%s': needs 1 to %d stages", d->name, MO_DAG_STAGES);
    for (int i = 0; i < d->n; i++) {
        const struct mo_dag_stage *s = &d->stage[i];
        if (s->count < 1)
            return mo_fail(err, MOIRE_EINVAL, "application '%s': stage '%s' asks its model %d times", d->name,
                           s->name, s->count);
        for (int k = 0; k < s->n_after; k++)
            if (s->after[k] < 0 || s->after[k] >= d->n)
                return mo_fail(err, MOIRE_EINVAL,
                               "application '%s': stage '%s' waits for one that is missing", d->name,
                               s->name);
        d->level[i] = 0;
    }
    /* the longest way has fewer than n steps: levels that still rise then go round in a circle */
    int rising = 0;
    for (int round = 0; round <= d->n && rising >= 0; round++) {
        rising = -1;
        for (int i = 0; i < d->n; i++)
            for (int k = 0; k < d->stage[i].n_after; k++)
                if (d->level[i] <= d->level[d->stage[i].after[k]]) {
                    d->level[i] = d->level[d->stage[i].after[k]] + 1;
                    rising = i;
                }
    }
    if (rising >= 0)
        return mo_fail(err, MOIRE_EINVAL, "application '%s': stage '%s' waits for itself, in a circle",
                       d->name, d->stage[in_circle(d, rising)].name);
    d->n_levels = 0;
    for (int i = 0; i < d->n; i++)
        if (d->level[i] >= d->n_levels) d->n_levels = d->level[i] + 1;
    return MOIRE_OK;
}

/* Share-seconds of a level's queries when their batches may take so long; INFINITY: some cannot. */
static double price(const struct mo_dag *d, const struct mo_share_profile *const *const *profile, int kinds,
                    int level, int64_t limit) {
    double sum = 0;
    for (int i = 0; i < d->n; i++) {
        double least = INFINITY;
        for (int k = 0; k < kinds && d->level[i] == level; k++)
            for (int share = SHARE_STEP; profile[i][k] && share <= MO_SHARE_WHOLE; share += SHARE_STEP)
                least = fmin(least, mo_share_cost(profile[i][k], share, limit));
        if (d->level[i] == level) sum += d->stage[i].count * least;
    }
    return sum;
}

/* The shortest that a level's batches of one can take. */
static int64_t shortest(const struct mo_dag *d, const struct mo_share_profile *const *const *profile,
                        int kinds, int level) {
    int64_t longest = 0;
    for (int i = 0; i < d->n; i++) {
        int64_t least = MO_SHARE_NEVER;
        for (int k = 0; k < kinds && d->level[i] == level; k++)
            if (profile[i][k] && mo_share_latency(profile[i][k], 1, MO_SHARE_WHOLE) < least)
                least = mo_share_latency(profile[i][k], 1, MO_SHARE_WHOLE);
        if (d->level[i] == level && least > longest) longest = least;
    }
    return longest;
}

static int infeasible(const struct mo_dag *d, const struct mo_share_profile *const *const *profile, int kinds,
                      int64_t target_ns, int64_t *out, moire_error *err) {
    double least = 0;
    int64_t rest = target_ns;
    for (int l = 0; l < d->n_levels; l++)
        least += 2 * (double)shortest(d, profile, kinds, l);
    if (least >= (double)MO_SHARE_NEVER)
        return mo_fail(err, MOIRE_EINVAL, "application '%s': a stage has no profile on any GPU here",
                       d->name);
    for (int l = 0; l < d->n_levels; l++) {
        double part = 2 * (double)shortest(d, profile, kinds, l) / least;
        out[l] = l == d->n_levels - 1 ? rest : (int64_t)((double)target_ns * part);
        rest -= out[l];
    }
    return mo_fail(err, MOIRE_EINVAL, "application '%s': its stages do not fit %.1f ms; %.1f ms would do",
                   d->name, (double)target_ns * 1e-6, least * (1 + 2.0 * d->n_levels / STEPS) * 1e-6);
}

int mo_dag_split(const struct mo_dag *d, const struct mo_share_profile *const *const *profile, int kinds,
                 int64_t target_ns, int64_t *out, moire_error *err) {
    double best[STEPS + 1]; /* price of the levels behind, by steps that are left for them */
    short choice[MO_DAG_STAGES][STEPS + 1];
    for (int b = 0; b <= STEPS; b++)
        best[b] = 0;
    for (int l = d->n_levels - 1; l >= 0; l--) {
        double alone[STEPS + 1], next[STEPS + 1];
        for (int b = 0; b <= STEPS; b++)
            alone[b] = price(d, profile, kinds, l, target_ns * b / STEPS / 2);
        for (int b = 0; b <= STEPS; b++) {
            next[b] = INFINITY;
            choice[l][b] = 0;
            for (int k = 0; k <= b; k++)
                if (alone[k] + best[b - k] < next[b]) {
                    next[b] = alone[k] + best[b - k];
                    choice[l][b] = (short)k;
                }
        }
        for (int b = 0; b <= STEPS; b++)
            best[b] = next[b];
    }
    if (!isfinite(best[STEPS])) return infeasible(d, profile, kinds, target_ns, out, err);
    int64_t rest = target_ns;
    for (int l = 0, left = STEPS; l < d->n_levels; l++) {
        out[l] = l == d->n_levels - 1 ? rest : target_ns * choice[l][left] / STEPS;
        left -= choice[l][left];
        rest -= out[l];
    }
    return MOIRE_OK;
}

int64_t mo_dag_part(const struct mo_dag *d, const int64_t *split, int level, int64_t left_ns) {
    double later = 0;
    for (int l = level; l < d->n_levels; l++)
        later += (double)split[l];
    return later > 0 ? (int64_t)((double)left_ns * ((double)split[level] / later)) : left_ns;
}
