/* SPDX-License-Identifier: Apache-2.0
 * simulate_bound.c - the upper limit on a schedule; see simulate.h. */
#include <math.h>
#include "bench/sim/simulate.h"
#include "runtime/sim/bound.h"

/* The least that a block of the tenant may take, as a share of what its profile says. */
static double fast_end(const struct mo_bench_simulation *m, int tenant) {
    const struct mo_sim_pace *p = m->pace;
    double share = 1 - 0.5 * m->machine.sim.noise, speed = 1;
    if (m->spread) share = INFINITY;
    for (int k = 0; m->spread && k < 2 * MO_SIM_PARTS; k++)
        share = fmin(share, m->spread[tenant].ratio[k / MO_SIM_PARTS][k % MO_SIM_PARTS]);
    for (int c = 0; p && c < p->n_cores; c++)
        for (int i = 0; i < p->n_steps; i++) {
            const double *done = p->done + (size_t)c * (size_t)(p->n_steps + 1) + i;
            speed = fmax(speed, (done[1] - done[0]) / (double)p->step_ns);
        }
    return share / speed;
}

void mo_bench_simulation_needs(const struct mo_bench_simulation *m, const int64_t *qos_ns,
                               struct mo_bench_need *out) {
    int cores = m->machine.sim.n_cores;
    for (int i = 0; i < m->mix.scenario.n_tenants; i++) {
        double fast = fast_end(m, i);
        out[i] = (struct mo_bench_need){fast * mo_bound_need(m->profile[i], cores, (double)qos_ns[i] / fast),
                                        (int64_t)(fast * (double)mo_bound_least_time(m->profile[i], cores))};
    }
}

/* Shares of its queries that each tenant gets: `overall` in all, and the tenant with most work no more than
 * `least` as far as that leaves the others something to have. */
static void distribute(const struct mo_bench_simulation *m, const struct mo_bench_schedule *s, double overall,
                       double least, double share[MO_BENCH_MAX_TENANTS]) {
    double count[MO_BENCH_MAX_TENANTS] = {0}, n = 0, most = -1;
    int tenants = m->mix.scenario.n_tenants, heaviest = 0;
    for (int i = 0; i < s->n; i++)
        if (mo_bench_counts(s, s->items[i].at_ns)) count[s->items[i].tenant] += 1;
    for (int i = 0; i < tenants; i++) {
        n += count[i];
        if (!(count[i] > 0) || m->mix.solo_ms[i] <= most) continue;
        most = m->mix.solo_ms[i];
        heaviest = i;
    }
    double own = count[heaviest], others = n - own, rest = overall;
    if (least < overall && others > 0) {
        rest = (overall * n - least * own) / others;
        if (rest > 1) rest = 1;
    }
    for (int i = 0; i < tenants; i++)
        share[i] = rest;
    if (own > 0 && others > 0) share[heaviest] = (overall * n - rest * others) / own;
}

int mo_bench_simulate_bound(const struct mo_bench_simulation *m, const struct mo_bench_schedule *s,
                            struct mo_bench_record *records, moire_error *err) {
    double seen[MO_BENCH_MAX_TENANTS] = {0}, share[MO_BENCH_MAX_TENANTS];
    struct mo_bound_shares limit;
    int code = mo_bench_limit(m->env, s, m->mix.need, m->mix.qos_ns, m->machine.sim.n_cores, &limit, err);
    if (code) return code;
    distribute(m, s, limit.overall, limit.every, share);
    for (int i = 0; i < s->n; i++) {
        const struct mo_bench_arrival *a = &s->items[i];
        records[i] = (struct mo_bench_record){a->at_ns, a->at_ns, -1, MOIRE_ESHED};
        if (!mo_bench_counts(s, a->at_ns)) continue;
        double before = ceil(seen[a->tenant] * share[a->tenant] - 1e-9);
        seen[a->tenant] += 1;
        if (!(ceil(seen[a->tenant] * share[a->tenant] - 1e-9) > before)) continue;
        records[i].end_ns = a->at_ns + m->mix.qos_ns[a->tenant];
        records[i].code = MOIRE_OK;
    }
    return MOIRE_OK;
}
