/* SPDX-License-Identifier: Apache-2.0
 * capacity.c - the bisection of capacity.h. */
#include "bench/sim/capacity.h"

#include <string.h>
#include "bench/report/report_page.h"
#include "bench/search/seed_run.h"
#include "runtime/sched/policy.h"

struct search {
    struct mo_bench_session *session;
    const struct mo_bench_capacity_options *options;
    struct mo_bench_simulation simulation;
    json_t *probes;
    uint64_t seed; /* of the present run */
};

static int play(void *self, const struct mo_bench_schedule *schedule, const struct mo_bench_budget *budget,
                struct mo_bench_record *records, int64_t *cut_ns, moire_error *err) {
    const struct search *s = self;
    return mo_bench_simulate_play(&s->simulation, mo_policy_find(s->options->policy), s->seed, schedule,
                                  budget, records, cut_ns, NULL, err);
}

/* The load, of so many cores, that is the asked rate. */
static double load_of(const struct search *s, int cores) {
    const struct mo_bench_mix *mix = &s->simulation.mix;
    double weight = 0, busy = 0;
    for (int i = 0; i < mix->scenario.n_tenants; i++) {
        weight += mix->weight[i];
        busy += mix->weight[i] * mix->solo_ms[i] * 1e-3;
    }
    return s->options->qps * busy / weight / cores;
}

/* *holds: the share is in time on so many cores, in the mean over the seeds, and no run falls behind. */
static int probe(struct search *s, int cores, bool *holds, moire_error *err) {
    const struct mo_bench_serve_options *o = &s->options->simulate.serve;
    const struct mo_bench_system system = {"moire", "moire", s->options->policy, "", NULL};
    const struct mo_bench_player player = {.system = &system, .play = play, .self = s};
    double overall = 0, worst = 0;
    bool keeps_up = true;
    s->simulation.machine.sim.n_cores = s->simulation.mix.cores = cores;
    s->simulation.machine.sim.power = NULL; /* that of all cores of the file; nobody asks for it */
    for (int i = 0; i < o->n_seeds; i++) {
        json_t *point;
        if (mo_bench_interrupted(s->session)) return mo_fail(err, MOIRE_EINTERRUPTED, "interrupted");
        s->seed = o->seeds[i];
        int code = mo_bench_point(s->session->env, &player, &s->simulation.mix, o, load_of(s, cores), s->seed,
                                  NULL, &point, err);
        if (code) return code;
        keeps_up = keeps_up && mo_bench_kept_up(point);
        overall += mo_json_number(point, "overall") / o->n_seeds;
        worst += mo_json_number(point, "worst_tenant") / o->n_seeds;
        json_decref(point);
    }
    mo_bench_say(s->session, "capacity: %d cores: %.2f %% in time, worst tenant %.2f %%", cores,
                 100 * overall, 100 * worst);
    *holds = keeps_up && (s->options->every ? worst : overall) >= o->find_max;
    return json_array_append_new(s->probes, json_pack("{s:i, s:f, s:f}", "cores", cores, "overall", overall,
                                                      "worst_tenant", worst))
               ? mo_fail(err, MOIRE_ENOMEM, "out of memory")
               : MOIRE_OK;
}

int mo_bench_capacity(struct mo_bench_session *session, const struct mo_bench_capacity_options *o,
                      json_t **out, moire_error *err) {
    struct search s = {.session = session, .options = o, .probes = json_array()};
    bool holds = false;
    if (!mo_policy_find(o->policy)) {
        json_decref(s.probes);
        return mo_fail(err, MOIRE_EINVAL, "no policy '%s'", o->policy);
    }
    int code = mo_bench_simulation_open(session->env, &o->simulate, &s.simulation, err);
    int low = 0, high = code ? 0 : s.simulation.machine.sim.n_cores; /* the answer is in (low, high] if any */
    if (!code) code = probe(&s, high, &holds, err);
    if (!holds) low = high;
    while (!code && high - low > 1) {
        int middle = (low + high) / 2;
        code = probe(&s, middle, &holds, err);
        if (holds)
            high = middle;
        else
            low = middle;
    }
    if (!code)
        *out = json_pack("{s:s, s:s, s:s, s:f, s:f, s:b, s:i, s:O}", "kind", "capacity", "scenario",
                         s.simulation.mix.scenario.name, "policy", o->policy, "qps", o->qps, "target",
                         o->simulate.serve.find_max, "every_tenant", (int)o->every, "cores",
                         low < high ? high : 0, "probes", s.probes);
    if (!code && !*out) code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    json_decref(s.probes);
    mo_bench_simulation_close(&s.simulation);
    return code;
}
