/* SPDX-License-Identifier: Apache-2.0
 * tenant_profile.c - how long a tenant's layers take: as `moire compile` has measured them, by a run here, or
 * foreseen from another tenant of the same file. */
#include "runtime/engine/calibrate.h"
#include "runtime/ops/trial.h"
#include "runtime/serve/common.h"

enum { REPETITIONS = 3, SCRATCH_SPARE = 64 };

int mo_tenant_sample(moire_tenant *t, struct mo_request **out, moire_error *err) {
    struct mo_request *r = *out = mo_request_take(t, false);
    if (!r) return mo_fail(err, MOIRE_ENOMEM, "out of memory for the inputs of '%s'", t->name);
    const struct mo_graph *graph = t->plan->graph;
    for (int i = 0; i < graph->n_inputs; i++)
        mo_trial_fill(graph, i, mo_place_on_cores.input(t, &r->head, i));
    int rc = mo_serve_model.begin(t, 0, r);
    return rc ? mo_fail(err, rc, "'%s': the sample input was refused", t->name) : MOIRE_OK;
}

/* The profile that `moire compile` took, when it covers the core counts that a calibration would measure;
 * NULL otherwise. */
static struct mo_profile *stored_profile(const moire_tenant *t) {
    const struct mo_image_times *times = &t->compiled.times;
    int n = mo_device_units(t->runtime->cores);
    if (!t->compiled.file.bytes || times->n_layers != t->plan->n_steps) return NULL;
    struct mo_profile *p = mo_profile_create(&t->runtime->env, times->n_layers, n);
    for (int i = 0; p && i < times->n; i++)
        if (times->cores[i] >= 1 && times->cores[i] <= n)
            mo_profile_record(p, (int)times->cores[i], times->ns + (int64_t)i * times->n_layers);
    bool covered = p != NULL;
    for (int cores = 1; covered && cores <= n; cores = mo_calibrate_next(cores, n))
        covered = p->measured[cores];
    if (covered) {
        mo_profile_finish(p);
        return p;
    }
    mo_profile_destroy(p);
    return NULL;
}

/* The profile by runs of the sample input. */
static int calibrate(moire_tenant *t, moire_error *err) {
    moire_runtime *rt = t->runtime;
    struct mo_request *sample;
    int rc = mo_tenant_sample(t, &sample, err);
    /* only replays of recordings ask for cold times: others need not wait, nor have their caches swept */
    int64_t sweep = mo_device_events(rt->cores) ? mo_calibrate_sweep(rt->topology) : 0;
    if (!rc)
        rc = mo_calibrate(rt->cores, &rt->env, &mo_serve_model, t, 0, t->plan->n_steps,
                          t->plan->scratch_bytes + SCRATCH_SPARE, REPETITIONS, mo_device_units(rt->cores),
                          sweep, &t->profile, err);
    mo_instance_heed(t->instances[0], NULL); /* the sample is about to go */
    if (sample) mo_serve_model.release(t, sample);
    return rc;
}

/* Memory that the first query will need: a model that it cannot have is refused, not its queries. */
static int reserve(const moire_tenant *t, moire_error *err) {
    struct mo_arena *arena =
        mo_arenas_take(t->runtime->pools.arenas, mo_instance_arena_bytes(t->plan), t->number);
    if (!arena)
        return mo_fail(err, MOIRE_ENOMEM, "out of memory: a query of '%s' needs %lld bytes", t->name,
                       (long long)t->plan->arena_bytes);
    mo_arenas_give(t->runtime->pools.arenas, arena);
    return mo_engine_cores_scratch(t->runtime->cores, t->plan->scratch_bytes + SCRATCH_SPARE, err);
}

/* Of a model at some shape it tells of the same model at others. */
static void remember(const moire_tenant *t) {
    const struct mo_sys *sys = t->runtime->env.sys;
    if (!t->common) return;
    mo_lock_take(sys, &t->common->building);
    if (!t->common->rates) t->common->rates = mo_layer_rates_create(t->plan, t->profile);
    mo_lock_drop(sys, &t->common->building);
}

int mo_tenant_measure(moire_tenant *t, moire_error *err) {
    const int cores = mo_device_units(t->runtime->cores);
    int rc = reserve(t, err);
    if (rc || (t->profile = stored_profile(t))) return rc;
    /* set once, and seen by mo_common_is_ready() */
    if (t->at_once) return mo_layer_rates_foresee(t->common->rates, t->plan, cores, &t->profile, err);
    rc = calibrate(t, err);
    if (!rc) remember(t);
    if (!rc || rc == MOIRE_ENOMEM) return rc;
    const char *why = mo_instance_message(t->instances[0]);
    mo_log(&t->runtime->env, MOIRE_LOG_WARN, "'%s': scheduled by estimates, as the trial run failed: %s",
           t->name, why && *why ? why : moire_code_text(rc));
    return mo_layer_rates_foresee(NULL, t->plan, cores, &t->profile, err);
}

/* What memory gives, once a runtime: policies foresee neighbours by it. */
void mo_tenant_measure_memory(moire_tenant *t) {
    moire_runtime *rt = t->runtime;
    if (rt->memory_known || !mo_profile_has_choice(t->profile, 0, t->profile->n_layers)) return;
    rt->memory_known = true;
    struct mo_memory memory = {
        mo_calibrate_memory(rt->cores, &rt->env, mo_calibrate_sweep(rt->topology)),
        (double)rt->topology->l3_bytes,
    };
    mo_device_set_memory(rt->cores, &memory);
    mo_log(&rt->env, MOIRE_LOG_INFO, "memory: %.1f GB/s read and written by all cores", memory.bytes_ns);
}
