/* SPDX-License-Identifier: Apache-2.0
 * simulate_gpus.c - kinds, profiles and tenants of a simulation on GPUs; see simulate_gpus.h. */
#include "bench/sim/simulate_gpus.h"

#include <math.h>
#include <string.h>
#include "bench/data/device_kinds.h"

bool mo_bench_on_gpus(const struct mo_bench_machine *machine, const struct mo_bench_serve_options *o) {
    const struct mo_policy *p = o->n_policies ? mo_policy_find(o->policies[0]) : NULL;
    return machine->n_gpus && (!machine->sim.n_cores || (p && p->gpus));
}

/* --- kinds and profiles --------------------------------------------------------------------------------- */
static int describe(const struct mo_bench_machine *machine, struct mo_gpus *g, moire_error *err) {
    mo_bench_kinds(machine, g->kinds, &g->n_kinds, g->kind, &g->n_gpus);
    for (int k = 0; k < machine->n_gpus; k++)
        g->prepare_ns[k] = machine->gpus[k].reorganise_ns;
    g->ahead_ns = machine->ahead_ns;
    return mo_gpus_finish(g, err);
}

/* As many as a program of the live engine has (serve/gpu.c); qos_ns 0 = no target. */
static int segments(const struct mo_bench_gpu_side *side, const struct mo_bench_gpu_tenant *t,
                    int64_t qos_ns) {
    int n = 1;
    for (int k = 0; k < side->gpus.n_kinds; k++) {
        const struct mo_plan_kind *kind = &side->gpus.kinds[k];
        int share = mo_share_of_units(kind->sizes[0], kind->units);
        int want = t->share[k] ? mo_share_segments(t->share[k], share, qos_ns) : 1;
        if (want > n) n = want;
    }
    return n;
}

/* The fastest time of one query by number of units, whatever the kind, in equal segments. */
static int make_profile(struct mo_bench_gpu_side *side, struct mo_bench_gpu_tenant *t, int64_t qos_ns,
                        moire_error *err) {
    int most = 1, n = segments(side, t, qos_ns);
    int64_t part[MO_SHARE_SEGMENTS];
    for (int k = 0; k < side->gpus.n_kinds; k++)
        if (side->gpus.kinds[k].units > most) most = side->gpus.kinds[k].units;
    t->profile = mo_profile_create(side->env, n, most);
    if (!t->profile) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a profile");
    for (int k = 0; k < side->gpus.n_kinds; k++)
        for (int u = 1; t->share[k] && u <= side->gpus.kinds[k].units; u++) {
            int64_t ns = mo_share_latency(t->share[k], 1, mo_share_of_units(u, side->gpus.kinds[k].units));
            for (int i = 0; i < n; i++)
                part[i] = ns * (i + 1) / n - ns * i / n;
            mo_profile_record(t->profile, u, part);
        }
    mo_profile_finish(t->profile);
    return MOIRE_OK;
}

static int load(struct mo_bench_gpu_side *side, const struct mo_bench_machine *machine,
                struct mo_bench_gpu_tenant *t, moire_error *err) {
    int any = 0;
    for (int k = 0; k < side->gpus.n_kinds; k++) {
        int code =
            mo_bench_kind_profile(side->env, machine, side->gpus.kinds, k, t->model, &t->share[k], err);
        if (code) return code;
        any += t->share[k] != NULL;
    }
    if (!any)
        return mo_fail(err, MOIRE_EINVAL, "no profile of '%s' on any kind of GPU of machine '%s' (%s/%s.csv)",
                       t->model, machine->name, machine->gpus[0].profiles, t->model);
    return MOIRE_OK;
}

/* --- tenants -------------------------------------------------------------------------------------------- */
static int add(struct mo_bench_gpu_side *side, const struct mo_bench_machine *machine,
               struct mo_bench_gpu_tenant t, moire_error *err) {
    if (side->n == MO_PLAN_TENANTS)
        return mo_fail(err, MOIRE_ELIMIT, "more than %d models, stages of applications among them",
                       MO_PLAN_TENANTS);
    side->tenant[side->n] = t;
    return load(side, machine, &side->tenant[side->n++], err);
}

static int add_stages(struct mo_bench_gpu_side *side, const struct mo_bench_machine *machine, int source,
                      const struct mo_bench_tenant *t, moire_error *err) {
    const struct mo_share_profile *const *profile[MO_DAG_STAGES];
    const struct mo_bench_application *app = t->app;
    int code = MOIRE_OK, first = side->n;
    for (int i = 0; i < app->dag.n && !code; i++)
        code = add(side, machine,
                   (struct mo_bench_gpu_tenant){.model = app->stage[i].model, .source = source, .stage = i},
                   err);
    for (int i = 0; i < app->dag.n && !code; i++)
        profile[i] = (const struct mo_share_profile *const *)side->tenant[first + i].share;
    int64_t *split = side->split[source];
    if (!code)
        code = mo_dag_split(&app->dag, profile, side->gpus.n_kinds, (int64_t)(t->qos.ms * 1e6), split, err);
    for (int i = 0; i < app->dag.n && !code; i++)
        side->tenant[first + i].qos_ns = split[app->dag.level[i]];
    return code;
}

/* Target, and the least of a whole GPU that a query takes within it. */
static int aim(const struct mo_bench_gpu_side *side, struct mo_bench_mix *mix, int source, json_t *list) {
    const struct mo_bench_tenant *t = &mix->scenario.tenants[source];
    double solo = 0, cost = 0;
    for (int i = side->first[source]; i < side->n && side->tenant[i].source == source; i++) {
        const struct mo_bench_gpu_tenant *g = &side->tenant[i];
        double least = INFINITY, longest = INFINITY;
        for (int k = 0; k < side->gpus.n_kinds; k++) {
            if (!g->share[k]) continue;
            longest = fmin(longest, (double)mo_share_latency(g->share[k], 1, MO_SHARE_WHOLE) * 1e-6);
            for (int s = 0; s < side->gpus.kinds[k].n_sizes; s++)
                least = fmin(least, mo_share_cost(g->share[k],
                                                  mo_share_of_units(side->gpus.kinds[k].sizes[s],
                                                                    side->gpus.kinds[k].units),
                                                  MO_SHARE_NEVER));
        }
        solo += longest;
        cost += least * (t->app ? t->app->dag.stage[g->stage].count : 1);
    }
    double qos = t->qos.ms > 0 ? t->qos.ms : t->qos.times_solo * solo;
    mix->qos_ns[source] = (int64_t)(qos * 1e6);
    mix->solo_ms[source] = cost * 1e3;
    return json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:f, s:[{s:s, s:i, s:f, s:f}]}", "name",
                                                 t->name, "qos_ms", qos, "solo_ms", cost * 1e3, "fastest_ms",
                                                 solo, "solo", "system", "moire", "threads", 1, "min_ms",
                                                 solo, "median_ms", solo));
}

int mo_bench_gpu_side_aim(const struct mo_bench_gpu_side *side, struct mo_bench_mix *mix, moire_error *err) {
    json_t *list = json_array();
    int bad = 0;
    for (int i = 0; i < mix->scenario.n_tenants; i++)
        bad |= aim(side, mix, i, list);
    mix->calibration = json_pack("{s:b, s:o}", "gpus", 1, "tenants", list);
    return bad || !mix->calibration ? mo_fail(err, MOIRE_ENOMEM, "out of memory") : MOIRE_OK;
}

int mo_bench_gpu_side_open(const struct mo_env *env, const struct mo_bench_machine *machine,
                           struct mo_bench_mix *mix, struct mo_bench_gpu_side *out, moire_error *err) {
    memset(out, 0, sizeof *out);
    out->env = env;
    int code = describe(machine, &out->gpus, err);
    mix->cores = out->gpus.n_gpus;
    for (int i = 0; i < mix->scenario.n_tenants && !code; i++) {
        const struct mo_bench_tenant *t = &mix->scenario.tenants[i];
        out->first[i] = out->n;
        code = t->app ? add_stages(out, machine, i, t, err)
                      : add(out, machine,
                            (struct mo_bench_gpu_tenant){.model = t->model, .source = i, .stage = -1}, err);
    }
    if (!code) code = mo_bench_gpu_side_aim(out, mix, err);
    for (int i = 0; i < out->n && !code; i++) {
        struct mo_bench_gpu_tenant *t = &out->tenant[i];
        bool critical = mix->scenario.tenants[t->source].cls != MOIRE_BEST_EFFORT;
        if (t->stage < 0) t->qos_ns = mix->qos_ns[t->source];
        code = make_profile(out, t, critical ? t->qos_ns : 0, err);
    }
    return code;
}

void mo_bench_gpu_side_close(struct mo_bench_gpu_side *side) {
    for (int i = 0; i < side->n; i++) {
        for (int k = 0; k < MO_PLAN_KINDS; k++)
            mo_share_destroy(side->tenant[i].share[k]);
        mo_profile_destroy(side->tenant[i].profile);
    }
    side->n = 0;
}
