/* SPDX-License-Identifier: Apache-2.0
 * simulate_offline.c - the best schedule found with all arrivals known; see simulate.h.
 *
 * Local search over the set of queries that are served at all, around the best on-line policies.  A policy
 * plays the schedule; what it answers too late is taken out of the arrivals, for that only costs cores, and
 * it plays again, until nothing is late or nothing gets better.  Then some of what was taken out is put back,
 * the lightest first, and stays when that is better.  Every candidate is a whole simulation, so what is found
 * can be carried out. */
#include "bench/sim/simulate.h"

#include <stdlib.h>
#include <string.h>

enum { THIN = 5, REFILL = 6 };

struct search {
    const struct mo_bench_simulation *m;
    const struct mo_bench_schedule *all;
    uint64_t seed;
    double goal;
    bool *served, *best_served;
    int *index; /* of the played schedule into all */
    struct mo_bench_arrival *items;
    struct mo_bench_record *played, *now, *best;
    double best_value;
};

/* Both goals first, then the share of all. */
static int value_of(const struct search *s, const struct mo_bench_record *records, double *value,
                    moire_error *err) {
    struct mo_bench_score score;
    int code = mo_bench_score(s->m->env, s->all, records, s->m->mix.qos_ns, s->m->mix.scenario.n_tenants,
                              INT64_MAX, &score, err);
    if (code) return code;
    double all = score.overall < s->goal ? score.overall : s->goal;
    double each = score.worst < s->goal ? score.worst : s->goal;
    *value = all + each + 0.1 * score.overall + 0.1 * score.worst;
    mo_bench_score_free(s->m->env, &score);
    return MOIRE_OK;
}

/* Plays what is served into s->now; keeps it when it is the best so far. */
static int play(struct search *s, const struct mo_policy *policy, bool *better, moire_error *err) {
    struct mo_bench_schedule part = *s->all;
    int64_t cut;
    double value;
    part.items = s->items;
    part.n = 0;
    for (int i = 0; i < s->all->n; i++) {
        s->now[i] = (struct mo_bench_record){s->all->items[i].at_ns, -1, -1, MOIRE_ESHED};
        if (!s->served[i]) continue;
        s->index[part.n] = i;
        s->items[part.n++] = s->all->items[i];
    }
    int code = mo_bench_simulate_play(s->m, policy, s->seed, &part, NULL, s->played, &cut, NULL, err);
    for (int i = 0; !code && i < part.n; i++)
        s->now[s->index[i]] = s->played[i];
    if (!code) code = value_of(s, s->now, &value, err);
    *better = !code && value > s->best_value;
    if (!*better) return code;
    s->best_value = value;
    memcpy(s->best, s->now, (size_t)s->all->n * sizeof *s->best);
    memcpy(s->best_served, s->served, (size_t)s->all->n * sizeof *s->served);
    return MOIRE_OK;
}

static bool late(const struct search *s, int i) {
    const struct mo_bench_arrival *a = &s->all->items[i];
    const struct mo_bench_record *r = &s->now[i];
    return r->code != MOIRE_OK || r->end_ns < 0 || r->end_ns > a->at_ns + s->m->mix.qos_ns[a->tenant];
}

static int thin(struct search *s, const struct mo_policy *policy, moire_error *err) {
    bool better = true;
    int code = MOIRE_OK, dropped = 1;
    memset(s->served, true, (size_t)s->all->n * sizeof *s->served);
    for (int round = 0; !code && dropped && round < THIN; round++) {
        code = play(s, policy, &better, err);
        dropped = 0;
        for (int i = 0; !code && i < s->all->n; i++)
            if (s->served[i] && late(s, i)) {
                s->served[i] = false;
                dropped++;
            }
    }
    return code;
}

/* Puts a part of what the best leaves out back in, another each time. */
static int refill(struct search *s, const struct mo_policy *policy, moire_error *err) {
    int code = MOIRE_OK;
    for (int round = 0; !code && round < REFILL; round++) {
        bool better;
        int every = 2 + round, at = 0;
        memcpy(s->served, s->best_served, (size_t)s->all->n * sizeof *s->served);
        for (int i = 0; i < s->all->n; i++)
            if (!s->served[i] && at++ % every == 0) s->served[i] = true;
        code = play(s, policy, &better, err);
    }
    return code;
}

static void close_search(struct search *s) {
    const struct mo_env *env = s->m->env;
    void *parts[] = {s->served, s->best_served, s->index, s->items, s->played, s->now};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        mo_free(env, parts[i]);
}

int mo_bench_simulate_offline(const struct mo_bench_simulation *m, uint64_t seed, double goal,
                              const struct mo_bench_schedule *schedule, struct mo_bench_record *records,
                              moire_error *err) {
    static const char *const around[] = {"moire", "lanes-reject"};
    size_t n = (size_t)schedule->n + 1;
    struct search s = {.m = m,
                       .all = schedule,
                       .seed = seed,
                       .goal = goal,
                       .served = mo_alloc(m->env, n * sizeof *s.served),
                       .best_served = mo_alloc(m->env, n * sizeof *s.best_served),
                       .index = mo_alloc(m->env, n * sizeof *s.index),
                       .items = mo_alloc(m->env, n * sizeof *s.items),
                       .played = mo_alloc(m->env, n * sizeof *s.played),
                       .now = mo_alloc(m->env, n * sizeof *s.now),
                       .best = records,
                       .best_value = -1};
    bool room = s.served && s.best_served && s.index && s.items && s.played && s.now;
    int code = room ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for an offline schedule");
    for (size_t i = 0; !code && i < sizeof around / sizeof *around; i++) {
        const struct mo_policy *policy = mo_policy_find(around[i]);
        code = thin(&s, policy, err);
        if (!code) code = refill(&s, policy, err);
    }
    close_search(&s);
    return code;
}
