/* SPDX-License-Identifier: Apache-2.0
 * simulate_bound.c - the upper limit on a schedule; see simulate.h. */
#include <math.h>
#include "bench/sim/simulate.h"
#include "runtime/sim/bound.h"

static const double slack = 1e-6; /* of sums that are whole numbers */

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
        out[i] = (struct mo_bench_need){0};
        if (m->mix.scenario.tenants[i].outstanding) continue;
        const struct mo_profile *p = m->profile[i];
        out[i] = (struct mo_bench_need){
            .core_ns = fast * mo_bound_need(p, cores, (double)qos_ns[i] / fast),
            .late_ns = m->mix.scenario.tenants[i].shed_late ? 0 : fast * mo_bound_need(p, cores, INFINITY),
            .least_ns = (int64_t)(fast * (double)mo_bound_least_time(p, cores))};
    }
}

/* How many queries of each tenant are in time when most are: the lightest first. */
static void distribute(const struct mo_bench_simulation *m, double share, const int n[MO_BENCH_MAX_TENANTS],
                       int met[MO_BENCH_MAX_TENANTS]) {
    bool given[MO_BENCH_MAX_TENANTS] = {false};
    int tenants = m->mix.scenario.n_tenants, all = 0;
    for (int i = 0; i < tenants; i++)
        all += n[i];
    int left = (int)(share * all + slack);
    for (int k = 0; k < tenants; k++) {
        int next = -1;
        for (int i = 0; i < tenants; i++)
            if (!given[i] && (next < 0 || m->mix.need[i].core_ns < m->mix.need[next].core_ns)) next = i;
        given[next] = true;
        met[next] = n[next] < left ? n[next] : left;
        left -= met[next];
    }
}

/* The first of every tenant's counted queries would be a spell of good luck, so they are spread. */
static bool is_met(int seen, int met, int n) {
    return (int64_t)(seen + 1) * met / n > (int64_t)seen * met / n;
}

int mo_bench_simulate_bound(const struct mo_bench_simulation *m, const struct mo_bench_schedule *s,
                            struct mo_bench_record *records, moire_error *err) {
    int n[MO_BENCH_MAX_TENANTS] = {0}, met[MO_BENCH_MAX_TENANTS], seen[MO_BENCH_MAX_TENANTS] = {0};
    int tenants = m->mix.scenario.n_tenants;
    struct mo_bench_limits limits;
    int code =
        mo_bench_limit(m->env, s, m->mix.need, tenants, m->mix.qos_ns, m->machine.sim.n_cores, &limits, err);
    if (code) return code;
    bool keeps = limits.keeping.overall >= 0;
    for (int i = 0; i < s->n; i++)
        n[s->items[i].tenant] += mo_bench_counts(s, s->items[i].at_ns);
    distribute(m, keeps ? limits.keeping.overall : limits.any.overall, n, met);
    for (int i = 0; i < s->n; i++) {
        const struct mo_bench_arrival *a = &s->items[i];
        int t = a->tenant;
        int64_t due = a->at_ns + m->mix.qos_ns[t];
        records[i] = (struct mo_bench_record){a->at_ns, a->at_ns, keeps ? due + 1 : -1, MOIRE_OK};
        if (mo_bench_counts(s, a->at_ns) && is_met(seen[t]++, met[t], n[t])) records[i].end_ns = due;
    }
    return MOIRE_OK;
}
