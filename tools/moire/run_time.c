/* SPDX-License-Identifier: Apache-2.0
 * run_time.c - runs a plan several times and keeps the times, whole and by layer. */
#include <stdlib.h>
#include "tools/moire/run.h"

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* One repetition; with `layer_ns`, layer by layer, keeping each one's shortest time. */
static int run_once(const struct mo_env *env, const struct mo_plan *plan, struct mo_instance *instance,
                    void *scratch, int64_t *layer_ns) {
    if (!layer_ns) return mo_instance_run(instance, 0, plan->n_steps, 0, 1, NULL, NULL, scratch);
    for (int k = 0; k < plan->n_steps; k++) {
        int64_t start = mo_now(env);
        int rc = mo_instance_run(instance, k, k + 1, 0, 1, NULL, NULL, scratch);
        int64_t took = mo_now(env) - start;
        if (rc) return rc;
        if (!layer_ns[k] || took < layer_ns[k]) layer_ns[k] = took;
    }
    return MOIRE_OK;
}

int mo_run_repeat(const struct mo_env *env, const struct mo_run_options *o, const struct mo_plan *plan,
                  struct mo_instance *instance, struct mo_run_times *times, moire_error *err) {
    void *scratch = mo_alloc(env, (size_t)plan->scratch_bytes + 64);
    times->run_ns = mo_alloc(env, (size_t)o->repeat * sizeof *times->run_ns);
    times->layer_ns =
        o->profile ? mo_alloc(env, ((size_t)plan->n_steps + 1) * sizeof *times->layer_ns) : NULL;
    int rc = MOIRE_OK;
    if (!scratch || !times->run_ns || (o->profile && !times->layer_ns))
        rc = mo_fail(err, MOIRE_ENOMEM, "out of memory for %lld bytes of scratch",
                     (long long)plan->scratch_bytes);
    for (times->n = 0; !rc && times->n < o->repeat; times->n++) {
        int64_t start = mo_now(env);
        rc = run_once(env, plan, instance, scratch, times->layer_ns);
        times->run_ns[times->n] = mo_now(env) - start;
        if (rc) mo_fail(err, rc, "%s", mo_instance_message(instance));
    }
    if (!rc) qsort(times->run_ns, (size_t)times->n, sizeof *times->run_ns, by_value);
    mo_free(env, scratch);
    return rc;
}

void mo_run_times_free(const struct mo_env *env, struct mo_run_times *times) {
    mo_free(env, times->run_ns);
    mo_free(env, times->layer_ns);
    *times = (struct mo_run_times){0};
}
