/* SPDX-License-Identifier: Apache-2.0
 * run.c - runs a range of layers on a team.
 *
 * Every worker walks the same layers.  Units are split statically; small layers and references run on
 * worker 0 alone.  A barrier stands between two layers unless both belong to worker 0, and at the end of the
 * range.  After a failure the remaining layers are skipped but the barriers are kept, so that the workers
 * cannot part ways. */
#include "runtime/plan/plan_impl.h"
#include "runtime/plan/versions.h"

/* Below this, waking the others costs more than they save (a barrier is some 0.3 us). */
enum { SMALL_FLOPS = 40000, SMALL_BYTES = 16384 };

/* What runs a step of this instance, and in how many units. */
static mo_kernel *kernel_of(const struct mo_instance *instance, int k, int64_t *units) {
    const struct mo_step *step = &instance->plan->steps[k];
    const struct mo_version *v = step->n_versions > 1 ? &step->version[instance->pick[k]] : NULL;
    *units = v ? v->units : step->units;
    return v ? v->run : step->run;
}

static bool is_view(const struct mo_step *step) {
    return !step->run && !step->units;
}

/* Layers that one worker runs. */
static bool is_single(const struct mo_step *step) {
    return !step->run || step->units < 2 || (step->flops < SMALL_FLOPS && step->bytes < SMALL_BYTES);
}

int mo_step_workers(const struct mo_step *step, int n_workers) {
    int64_t units = step->units;
    if (is_single(step)) return 1;
    for (int i = 1; i < step->n_versions; i++)
        if (step->version[i].units > units) units = step->version[i].units;
    return units < n_workers ? (int)units : n_workers;
}

int64_t mo_step_useful(const struct mo_step *step) {
    int64_t flops = step->flops / SMALL_FLOPS, bytes = step->bytes / SMALL_BYTES;
    int64_t most = flops > bytes ? flops : bytes;
    return most > 1 ? most : 1;
}

static void run_single(struct mo_instance *instance, int k, void *scratch) {
    const struct mo_step *step = &instance->plan->steps[k];
    int rc = MOIRE_OK;
    int64_t units;
    mo_kernel *run = kernel_of(instance, k, &units);
    if (run)
        run(&instance->args[k], 0, units, scratch);
    else
        rc = step->dynamic ? mo_dynamic_run(instance, step) : mo_reference_run(instance, step);
    if (rc) atomic_store(&instance->rc, rc);
}

static void run_share(struct mo_instance *instance, int k, int worker, int n_workers, void *scratch) {
    int64_t units;
    mo_kernel *run = kernel_of(instance, k, &units);
    int64_t begin = units * worker / n_workers, end = units * (worker + 1) / n_workers;
    if (begin < end) run(&instance->args[k], begin, end, scratch);
}

void mo_instance_run_units(struct mo_instance *instance, int layer, int64_t begin, int64_t end,
                           void *scratch) {
    int64_t units;
    mo_kernel *run = kernel_of(instance, layer, &units);
    if (begin < end) run(&instance->args[layer], begin, end, scratch);
}

int mo_instance_run(struct mo_instance *instance, int begin, int end, int worker, int n_workers,
                    void (*barrier)(void *ctx, int worker), void *ctx, void *scratch) {
    bool apart = false;  /* layers were run since the last barrier */
    bool shared = false; /* ... by all workers */
    for (int k = begin; k < end; k++) {
        const struct mo_step *step = &instance->plan->steps[k];
        if (is_view(step)) continue;
        bool single = n_workers == 1 || is_single(step);
        if (n_workers > 1 && apart && (shared || !single)) barrier(ctx, worker);
        if (!atomic_load_explicit(&instance->rc, memory_order_relaxed)) {
            if (!single)
                run_share(instance, k, worker, n_workers, scratch);
            else if (worker == 0)
                run_single(instance, k, scratch);
        }
        apart = true;
        shared = !single;
    }
    if (n_workers > 1 && apart) barrier(ctx, worker);
    return atomic_load(&instance->rc);
}
