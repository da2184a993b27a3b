/* SPDX-License-Identifier: Apache-2.0
 * simulate_offline.c - the best schedule found with all arrivals known; see simulate.h.
 *
 * Local search over the set of queries that are urgent at all, around the best on-line policies.  A policy
 * plays the schedule; what it answers too late is put off in the next round: it comes without a deadline, to
 * be answered when there is nothing better to do.  The policy plays again, until nothing more is late or
 * nothing gets better.  Then some of what was put off is made urgent again.  Every candidate is a whole
 * simulation, so what is found can be carried out, and one that falls behind (backlog.h) is worse than any
 * that keeps up. */
#include "bench/sim/simulate.h"

#include <stdlib.h>
#include <string.h>

enum { THIN = 5, REFILL = 6 };

struct search {
    const struct mo_bench_simulation *m;
    const struct mo_bench_schedule *all;
    uint64_t seed;
    double goal;
    bool *put_off, *best_put_off;
    struct mo_bench_record *now, *best;
    double best_value;
};

/* Keeping up first, then both goals, then the share of all. */
static int value_of(const struct search *s, const struct mo_bench_record *records, double *value,
                    moire_error *err) {
    const struct mo_bench_mix *mix = &s->m->mix;
    struct mo_bench_score score;
    int code = mo_bench_score(s->m->env, s->all, records, mix->qos_ns, mix->scenario.n_tenants, INT64_MAX,
                              &score, err);
    if (code) return code;
    const struct mo_bench_backlog left =
        mo_bench_backlog(s->all, records, mix->need, mix->scenario.n_tenants, mix->qos_ns);
    double all = score.overall < s->goal ? score.overall : s->goal;
    double each = score.worst < s->goal ? score.worst : s->goal;
    *value = all + each + 0.1 * score.overall + 0.1 * score.worst - (mo_bench_keeps_up(&left) ? 0 : 4);
    mo_bench_score_free(s->m->env, &score);
    return MOIRE_OK;
}

/* Plays into s->now; keeps it when it is the best so far. */
static int play(struct search *s, const struct mo_policy *policy, bool *better, moire_error *err) {
    struct mo_bench_simulation m = *s->m;
    int64_t cut;
    double value;
    m.put_off = s->put_off;
    int code = mo_bench_simulate_play(&m, policy, s->seed, s->all, NULL, s->now, &cut, NULL, err);
    if (!code) code = value_of(s, s->now, &value, err);
    *better = !code && value > s->best_value;
    if (!*better) return code;
    s->best_value = value;
    memcpy(s->best, s->now, (size_t)s->all->n * sizeof *s->best);
    memcpy(s->best_put_off, s->put_off, (size_t)s->all->n * sizeof *s->put_off);
    return MOIRE_OK;
}

static bool late(const struct search *s, int i) {
    const struct mo_bench_arrival *a = &s->all->items[i];
    const struct mo_bench_record *r = &s->now[i];
    return r->code != MOIRE_OK || r->end_ns < 0 || r->end_ns > a->at_ns + s->m->mix.qos_ns[a->tenant];
}

static int thin(struct search *s, const struct mo_policy *policy, moire_error *err) {
    bool better = true;
    int code = MOIRE_OK, more = 1;
    memset(s->put_off, false, (size_t)s->all->n * sizeof *s->put_off);
    for (int round = 0; !code && more && round < THIN; round++) {
        code = play(s, policy, &better, err);
        more = 0;
        for (int i = 0; !code && i < s->all->n; i++)
            if (!s->put_off[i] && late(s, i)) {
                s->put_off[i] = true;
                more++;
            }
    }
    return code;
}

/* Makes a part of what the best puts off urgent again, another each time. */
static int refill(struct search *s, const struct mo_policy *policy, moire_error *err) {
    int code = MOIRE_OK;
    for (int round = 0; !code && round < REFILL; round++) {
        bool better;
        int every = 2 + round, at = 0;
        memcpy(s->put_off, s->best_put_off, (size_t)s->all->n * sizeof *s->put_off);
        for (int i = 0; i < s->all->n; i++)
            if (s->put_off[i] && at++ % every == 0) s->put_off[i] = false;
        code = play(s, policy, &better, err);
    }
    return code;
}

static void close_search(struct search *s) {
    const struct mo_env *env = s->m->env;
    mo_free(env, s->put_off);
    mo_free(env, s->best_put_off);
    mo_free(env, s->now);
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
                       .put_off = mo_alloc(m->env, n * sizeof *s.put_off),
                       .best_put_off = mo_alloc(m->env, n * sizeof *s.best_put_off),
                       .now = mo_alloc(m->env, n * sizeof *s.now),
                       .best = records,
                       .best_value = -10};
    bool room = s.put_off && s.best_put_off && s.now;
    int code = room ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for an offline schedule");
    if (!code) code = mo_bench_no_closed_loops(&m->mix.scenario, "the policy 'offline'", err);
    for (size_t i = 0; !code && i < sizeof around / sizeof *around; i++) {
        const struct mo_policy *policy = mo_policy_find(around[i]);
        code = thin(&s, policy, err);
        if (!code) code = refill(&s, policy, err);
    }
    close_search(&s);
    return code;
}
