/* SPDX-License-Identifier: Apache-2.0
 * targets.c - QoS targets and arrival rates of a scenario, measured (solo_times.c), taken from an earlier
 * result or from profiles of GPUs; see serve.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/load/solo_times.h"
#include "bench/load/serve.h"
#include "bench/sim/simulate_gpus.h"

/* --- an earlier calibration --------------------------------------------------------------------------- */
static int reuse_tenant(const struct mo_json_file *f, struct mo_bench_mix *mix, int i, const json_t *list,
                        moire_error *err) {
    size_t k;
    json_t *row;
    json_array_foreach((json_t *)list, k, row) {
        const char *name = json_string_value(json_object_get(row, "name"));
        if (!name || strcmp(name, mix->scenario.tenants[i].name) != 0) continue;
        double qos = json_number_value(json_object_get(row, "qos_ms"));
        double solo = json_number_value(json_object_get(row, "solo_ms"));
        if (mix->scenario.tenants[i].outstanding) qos = 0;
        if (!((qos > 0 || mix->scenario.tenants[i].outstanding) && qos < 1e7 && solo > 0 && solo < 1e7))
            return mo_json_fail(f, "calibration.tenants", err, "'%s' has no usable qos_ms and solo_ms", name);
        mix->qos_ns[i] = (int64_t)(qos * 1e6);
        mix->solo_ms[i] = solo;
        return MOIRE_OK;
    }
    return mo_json_fail(f, "calibration.tenants", err, "no tenant '%s'", mix->scenario.tenants[i].name);
}

int mo_bench_reuse(const struct mo_env *env, const char *path, struct mo_bench_mix *mix, moire_error *err) {
    struct mo_json_file file;
    int code = mo_json_load(env, path, &file, err);
    if (code) return code;
    json_t *calibration = json_object_get(file.root, "calibration");
    const json_t *list = json_object_get(calibration, "tenants");
    if (!json_is_array(list)) code = mo_json_fail(&file, "", err, "not a result of `moire bench serve`");
    for (int i = 0; !code && i < mix->scenario.n_tenants; i++)
        code = reuse_tenant(&file, mix, i, list, err);
    if (!code) mix->calibration = json_incref(calibration);
    mo_json_close(&file);
    return code;
}

/* Least core time of a query that any system was seen to take alone, from the calibration's rows. */
static void note_needs(struct mo_bench_mix *mix) {
    size_t i, k;
    json_t *tenant, *row;
    json_array_foreach(json_object_get(mix->calibration, "tenants"), i, tenant) {
        const char *name = json_string_value(json_object_get(tenant, "name"));
        double least = json_number_value(json_object_get(tenant, "solo_ms"));
        json_array_foreach(json_object_get(tenant, "solo"), k, row) {
            double ms = json_number_value(json_object_get(row, "min_ms")) *
                        json_number_value(json_object_get(row, "threads"));
            if (ms > 0 && ms < least) least = ms;
        }
        for (int t = 0; name && t < mix->scenario.n_tenants; t++)
            if (!strcmp(name, mix->scenario.tenants[t].name) && !mix->scenario.tenants[t].outstanding)
                mix->need[t] = (struct mo_bench_need){
                    .core_ns = least * 1e6, .late_ns = mix->scenario.tenants[t].shed_late ? 0 : least * 1e6};
    }
}

/* Of one family of systems, or of all (NULL); 0 = none was measured. */
static double least_alone(const json_t *tenant, const char *family) {
    double least = family ? 0 : mo_json_number(tenant, "fastest_ms");
    size_t k;
    json_t *row;
    json_array_foreach(json_object_get(tenant, "solo"), k, row) {
        const double ms = mo_json_number(row, "min_ms");
        if (family && strcmp(mo_json_text(row, "system"), family) != 0) continue;
        if (ms > 0 && (!(least > 0) || ms < least)) least = ms;
    }
    return least;
}

double mo_bench_alone_ms(const struct mo_bench_mix *mix, int tenant, const char *family) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(mix->calibration, "tenants"), i, row) {
        if (!strcmp(mo_json_text(row, "name"), mix->scenario.tenants[tenant].name))
            return least_alone(row, family);
    }
    return 0;
}

void mo_bench_close_loops(const struct mo_bench_mix *mix, struct mo_bench_schedule *s) {
    static const double spare = 4;
    double most = 0;
    s->n_closed = 0;
    for (int i = 0; i < mix->scenario.n_tenants && s->n_closed < MO_BENCH_MAX_CLOSED; i++) {
        const int outstanding = mix->scenario.tenants[i].outstanding;
        if (!outstanding) continue;
        s->closed[s->n_closed++] = (struct mo_bench_closed){i, outstanding};
        most = fmax(most, outstanding + spare * mix->cores * (double)s->total_ns * 1e-6 / mix->solo_ms[i]);
    }
    s->room = (int)fmin(ceil(most), 1e6);
}

static void note_splits(const struct mo_bench_gpu_side *side, struct mo_bench_mix *mix) {
    for (int i = 0; i < mix->scenario.n_tenants; i++) {
        struct mo_bench_application *app = mix->scenario.tenants[i].app;
        if (app) memcpy(app->split_ns, side->split[i], sizeof app->split_ns);
    }
}

/* A tenant's file, or those of an application's stages. */
static int find_models(struct mo_bench_session *s, struct mo_bench_mix *mix, struct mo_bench_tenant *t,
                       moire_error *err) {
    int code = MOIRE_OK;
    if (!t->app) return mo_bench_resolve(s, mix->region, t, err);
    for (int i = 0; i < t->app->dag.n && !code; i++)
        code = mo_bench_resolve(s, mix->region, &t->app->stage[i], err);
    return code;
}

/* On GPUs targets and rates are those of `moire sim` on the same machine file: by its profiles. */
static int aim_on_gpus(struct mo_bench_session *s, struct mo_bench_mix *mix, moire_error *err) {
    struct mo_bench_machine machine;
    struct mo_bench_gpu_side *side = mo_alloc(s->env, sizeof *side);
    if (!side) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    int code = mo_bench_machine_open(s->env, s->gpus, &machine, err);
    if (!code && !machine.n_gpus) code = mo_fail(err, MOIRE_EINVAL, "%s has no GPUs", s->gpus);
    if (!code) {
        machine.sim.n_cores = 0; /* cores are not a kind of GPU here */
        code = mo_bench_gpu_side_open(s->env, &machine, mix, side, err);
        if (!code) note_splits(side, mix);
        mo_bench_gpu_side_close(side);
        const char *folder = machine.gpus[0].profiles;
        s->gpu_profiles = mo_region_string(mix->region, folder, strlen(folder));
        s->gpu_weights =
            s->weights ? s->weights : mo_region_string(mix->region, machine.policy, strlen(machine.policy));
        if (!code && !(s->gpu_profiles && s->gpu_weights)) code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    }
    if (machine.file.root) mo_bench_machine_close(&machine);
    mo_free(s->env, side);
    return code;
}

int mo_bench_calibrate(struct mo_bench_session *session, const struct mo_bench_serve_options *options,
                       struct mo_bench_mix *out, moire_error *err) {
    memset(out, 0, sizeof *out);
    out->cores = session->cores;
    int code = mo_bench_scenario_load(session->env, options->scenario, &out->scenario, err);
    if (code) return code;
    mo_bench_scenario_strive(&out->scenario, options->objective);
    session->objective = mo_objective_name(out->scenario.objective);
    out->region = mo_region_create(session->env);
    if (!out->region) code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    if (!code && !session->gpus) code = mo_bench_no_applications(&out->scenario, err);
    if (!code && session->gpus) code = mo_bench_no_closed_loops(&out->scenario, "a machine of GPUs", err);
    if (!code && session->gpus) code = aim_on_gpus(session, out, err);
    for (int i = 0; !code && i < out->scenario.n_tenants; i++)
        code = find_models(session, out, &out->scenario.tenants[i], err);
    if (!code && !session->gpus && options->calibration) {
        mo_bench_warn_busy(session);
        code = mo_bench_reuse(session->env, options->calibration, out, err);
    } else if (!code && !session->gpus) {
        code = mo_bench_measure_targets(session, options, out, err);
    }
    if (!code && !session->gpus) note_needs(out);
    if (code)
        mo_bench_mix_close(out);
    else
        mo_bench_weigh(out);
    return code;
}

void mo_bench_weigh(struct mo_bench_mix *mix) {
    for (int i = 0; i < mix->scenario.n_tenants; i++) {
        double weight = mix->scenario.tenants[i].weight;
        mix->weight[i] = mix->scenario.tenants[i].outstanding ? 0
                         : weight > 0                         ? weight
                                                              : 1e9 / (double)mix->qos_ns[i];
    }
}

void mo_bench_mix_close(struct mo_bench_mix *mix) {
    mo_bench_scenario_close(&mix->scenario);
    mo_region_destroy(mix->region);
    json_decref(mix->calibration);
    memset(mix, 0, sizeof *mix);
}

void mo_bench_rates(const struct mo_bench_mix *mix, double load, double *rates) {
    for (int i = 0; mix->scenario.rated && i < mix->scenario.n_tenants; i++)
        rates[i] = load * mix->scenario.tenants[i].rate;
    if (mix->scenario.rated) return;
    double busy = 0; /* core-seconds a second at rate = weight */
    for (int i = 0; i < mix->scenario.n_tenants; i++)
        busy += mix->weight[i] * mix->solo_ms[i] * 1e-3;
    for (int i = 0; i < mix->scenario.n_tenants; i++)
        rates[i] = load * mix->cores / busy * mix->weight[i];
}

double mo_bench_first_rate(const struct mo_bench_tenant *t, double rate) {
    return t->curve.n ? rate * (t->curve.rate[0] / t->rate) : rate;
}
