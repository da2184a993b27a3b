/* SPDX-License-Identifier: Apache-2.0
 * plan_view.c - see plan_view.h. */
#include "bench/plans/plan_view.h"

#include <stdio.h>
#include <string.h>
#include "bench/data/device_kinds.h"

static const struct mo_share_profile *const *profiles_of(const struct mo_bench_plan_view *p, int tenant) {
    return p->tenants[tenant].profile;
}

/* Adds a tenant with the profiles of a model. */
static int add(const struct mo_env *env, struct mo_bench_plan_view *p, int of, const char *stage,
               const char *model, moire_error *err) {
    int at = p->view.n_tenants, found = 0, code = MOIRE_OK;
    const struct mo_bench_tenant *t = &p->scenario.tenants[of];
    moire_error why = {0};
    if (at == MO_PLAN_TENANTS)
        return mo_fail(err, MOIRE_ELIMIT, "more than %d tenants and stages", MO_PLAN_TENANTS);
    snprintf(p->names[at], sizeof p->names[at], "%.60s%s%.60s", t->name, stage ? "/" : "",
             stage ? stage : "");
    p->tenants[at] = (struct mo_plan_tenant){.name = p->names[at],
                                             .target_ns = (int64_t)(t->qos.ms * 1e6),
                                             .best_effort = t->cls == MOIRE_BEST_EFFORT};
    p->of[at] = of;
    p->rate[at] = t->rate;
    for (int k = 0; !code && k < p->view.n_kinds; k++) {
        struct mo_share_profile **own = &p->profile[at * MO_PLAN_KINDS + k];
        code = mo_bench_kind_profile(env, &p->machine, p->kinds, k, model, own, &why);
        p->tenants[at].profile[k] = *own;
        found += *own != NULL;
    }
    if (code || !found) {
        *err = why;
        return mo_fail_context(err, code ? code : MOIRE_EINVAL, "tenant '%s'", p->names[at]);
    }
    p->view.n_tenants++;
    return MOIRE_OK;
}

/* The stages of an application, each with its part of the target. */
static int add_application(const struct mo_env *env, struct mo_bench_plan_view *p, int of, moire_error *err) {
    const struct mo_bench_tenant *t = &p->scenario.tenants[of];
    const struct mo_dag *dag = &t->app->dag;
    const struct mo_share_profile *const *profiles[MO_DAG_STAGES];
    int64_t split[MO_DAG_STAGES];
    int first = p->view.n_tenants, code = MOIRE_OK;
    for (int i = 0; !code && i < dag->n; i++) {
        code = add(env, p, of, dag->stage[i].name, t->app->stage[i].model, err);
        if (!code) profiles[i] = profiles_of(p, first + i);
    }
    if (code) return code;
    code = mo_dag_split(dag, profiles, p->view.n_kinds, (int64_t)(t->qos.ms * 1e6), split, err);
    /* out of reach: the planner is to say so, stage by stage (each of them has a profile) */
    if (code == MOIRE_EINVAL) code = MOIRE_OK;
    for (int i = 0; !code && i < dag->n; i++) {
        p->tenants[first + i].target_ns = split[dag->level[i]];
        p->rate[first + i] *= dag->stage[i].count;
    }
    return code;
}

static int check(const struct mo_bench_plan_view *p, const char *machine, const char *scenario,
                 moire_error *err) {
    if (p->machine.n_gpus == 0)
        return mo_fail(err, MOIRE_EINVAL, "%s: a machine without GPUs; there is nothing to plan", machine);
    if (!p->scenario.rated)
        return mo_fail(err, MOIRE_EINVAL, "%s: tenants have weights; a plan needs their rates (\"rate\")",
                       scenario);
    for (int i = 0; i < p->scenario.n_tenants; i++) {
        const struct mo_bench_tenant *t = &p->scenario.tenants[i];
        if (!(t->qos.ms > 0) && t->cls != MOIRE_BEST_EFFORT)
            return mo_fail(err, MOIRE_EINVAL, "%s: tenant '%s': a plan needs a target in ms", scenario,
                           t->name);
    }
    return MOIRE_OK;
}

/* Cores that no model runs on would only make the planners' work larger. */
static void leave_out_idle_cores(struct mo_bench_plan_view *p) {
    if (p->view.n_kinds == p->machine.n_gpus) return;
    for (int i = 0; i < p->view.n_tenants; i++)
        if (p->tenants[i].profile[p->machine.n_gpus]) return;
    p->view.n_kinds--;
    while (p->gpu_kind[p->view.n_gpus - 1] == p->view.n_kinds)
        p->view.n_gpus--;
}

static int fill(const struct mo_env *env, struct mo_bench_plan_view *p, moire_error *err) {
    int code = MOIRE_OK;
    mo_bench_kinds(&p->machine, p->kinds, &p->view.n_kinds, p->gpu_kind, &p->view.n_gpus);
    for (int i = 0; !code && i < p->scenario.n_tenants; i++)
        code = p->scenario.tenants[i].app ? add_application(env, p, i, err)
                                          : add(env, p, i, NULL, p->scenario.tenants[i].model, err);
    if (code) return code;
    leave_out_idle_cores(p);
    p->view.max_share = MO_BENCH_PLAN_SHARE;
    p->view.tenants = p->tenants;
    p->view.kinds = p->kinds;
    p->view.gpu_kind = p->gpu_kind;
    p->scratch_bytes = mo_plan_scratch_bytes(p->view.n_tenants, p->view.n_kinds, p->view.n_gpus);
    p->scratch = mo_alloc(env, p->scratch_bytes);
    if (!p->scratch) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    mo_bench_plan_load(p, 1);
    return MOIRE_OK;
}

int mo_bench_plan_open(const struct mo_env *env, const char *machine, const char *scenario,
                       struct mo_bench_plan_view *out, moire_error *err) {
    memset(out, 0, sizeof *out);
    int code = mo_bench_machine_open(env, machine, &out->machine, err);
    if (!code) code = mo_bench_scenario_load(env, scenario, &out->scenario, err);
    if (!code) code = check(out, machine, scenario, err);
    if (!code) {
        out->profile = mo_alloc(env, MO_PLAN_TENANTS * MO_PLAN_KINDS * sizeof(struct mo_share_profile *));
        code = out->profile ? fill(env, out, err) : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    }
    if (code) mo_bench_plan_close(env, out);
    return code;
}

void mo_bench_plan_close(const struct mo_env *env, struct mo_bench_plan_view *p) {
    for (int i = 0; p->profile && i < MO_PLAN_TENANTS * MO_PLAN_KINDS; i++)
        mo_share_destroy(p->profile[i]);
    mo_free(env, p->profile);
    mo_free(env, p->scratch);
    mo_bench_scenario_close(&p->scenario);
    mo_bench_machine_close(&p->machine);
    memset(p, 0, sizeof *p);
}

void mo_bench_plan_load(struct mo_bench_plan_view *p, double load) {
    for (int i = 0; i < p->view.n_tenants; i++)
        p->tenants[i].rate = p->rate[i] * load;
}
