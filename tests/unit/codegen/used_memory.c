/* SPDX-License-Identifier: Apache-2.0
 * used_memory.c - runs a plan in memory that others have used; the contract in used_memory.h. */
#include "tests/unit/codegen/used_memory.h"

#include <string.h>
#include "runtime/plan/live.h"
#include "tools/moire/verify/ways.h"

/* A NaN in every float and a large number: arithmetic on either shows in a result. */
static const unsigned char fills[] = {0xff, 0x5c};

/* MemorySanitizer's, where the program is built with it: from now on these bytes are nobody's. */
extern void __msan_poison(const volatile void *at, size_t n) __attribute__((weak));
extern void __msan_check_mem_is_initialized(const volatile void *at, size_t n) __attribute__((weak));

static void use(void *at, size_t n, unsigned char fill) {
    memset(at, fill, n);
    if (__msan_poison) __msan_poison(at, n);
}

/* Both runs gave the same bits. */
static int compare(const struct mo_plan *plan, const moire_tensor *a, const moire_tensor *b,
                   moire_error *err) {
    for (int i = 0; i < plan->graph->n_outputs; i++) {
        if (__msan_check_mem_is_initialized) __msan_check_mem_is_initialized(a[i].data, a[i].bytes);
        if (a[i].bytes == b[i].bytes && (!a[i].bytes || !memcmp(a[i].data, b[i].data, a[i].bytes))) continue;
        size_t at = 0;
        while (at < a[i].bytes && at < b[i].bytes && ((char *)a[i].data)[at] == ((char *)b[i].data)[at])
            at++;
        return mo_fail(err, MOIRE_EFAILED,
                       "output %d depends on what its memory held before, from byte %zu of %zu on", i, at,
                       a[i].bytes);
    }
    return MOIRE_OK;
}

/* Before each layer what lives is kept, the arena is overwritten, and what was kept is put back. */
static int run_layers(const struct mo_plan *plan, const struct mo_live *live, struct mo_instance *instance,
                      char *arena, void *scratch) {
    const size_t bytes = mo_instance_arena_bytes(plan);
    char *kept = mo_alloc(plan->env, bytes + 64);
    int rc = kept ? MOIRE_OK : MOIRE_ENOMEM;
    for (int k = 0; !rc && k <= plan->n_steps; k++) {
        if (mo_live_bytes(live, k) > bytes) rc = MOIRE_EFAILED;
        if (!rc) mo_live_save(live, k, arena, kept);
        use(arena, bytes, fills[k % 2]);
        if (!rc) mo_live_restore(live, k, arena, kept);
        if (!rc && k < plan->n_steps) rc = mo_instance_run(instance, k, k + 1, scratch);
    }
    mo_free(plan->env, kept);
    return rc;
}

static int run_spilled(const struct mo_plan *plan, void *arena, void *scratch, const moire_tensor *inputs,
                       int n_inputs, moire_tensor *outputs, moire_error *err) {
    struct mo_instance *instance = NULL;
    struct mo_live *live = NULL;
    int rc = mo_live_create(plan, &live, err);
    if (!rc) rc = mo_instance_create_bare(plan, &instance, err);
    if (!rc) mo_instance_bind(instance, arena);
    for (int i = 0; !rc && i < n_inputs; i++)
        rc = mo_instance_set_input(instance, i, &inputs[i], err);
    if (!rc && (rc = run_layers(plan, live, instance, arena, scratch)))
        mo_fail(err, rc, "spilled: %s", mo_instance_message(instance));
    if (!rc) rc = mo_way_copy_outputs(instance, plan->graph, outputs, err);
    mo_instance_destroy(instance);
    mo_live_destroy(live);
    return rc;
}

int run_in_used_memory(const struct mo_plan *plan, const moire_tensor *inputs, int n_inputs,
                       moire_tensor *outputs, moire_error *err) {
    enum { SPILLED = sizeof fills, RUNS, OUTPUTS = 64 };
    const struct mo_env *env = plan->env;
    const size_t bytes = mo_instance_arena_bytes(plan), scratch_bytes = (size_t)plan->scratch_bytes + 64;
    moire_tensor got[RUNS][OUTPUTS] = {{{0}}};
    const int n = plan->graph->n_outputs;
    void *arena = mo_alloc(env, bytes), *scratch = mo_alloc(env, scratch_bytes);
    int rc = arena && scratch && n <= OUTPUTS ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int i = 0; !rc && i < RUNS; i++) {
        use(arena, bytes, fills[i % SPILLED]);
        use(scratch, scratch_bytes, fills[i % SPILLED]);
        rc =
            (i == SPILLED ? run_spilled : mo_way_run_in)(plan, arena, scratch, inputs, n_inputs, got[i], err);
        if (!rc && i) rc = compare(plan, got[0], got[i], err);
    }
    for (int i = rc ? 0 : 1; i < RUNS; i++)
        mo_way_free(env, got[i], n < OUTPUTS ? n : OUTPUTS);
    if (!rc) memcpy(outputs, got[0], (size_t)n * sizeof *outputs);
    mo_free(env, arena);
    mo_free(env, scratch);
    return rc;
}

int run_graph_in_used_memory(struct mo_graph *graph, const struct mo_plan_options *options,
                             const moire_tensor *inputs, int n_inputs, moire_tensor *outputs,
                             moire_error *err) {
    struct mo_plan *plan;
    int rc = mo_plan_build(graph, options, &plan, err);
    if (rc) return rc;
    rc = run_in_used_memory(plan, inputs, n_inputs, outputs, err);
    mo_plan_destroy(plan);
    return rc;
}
