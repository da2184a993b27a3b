/* SPDX-License-Identifier: Apache-2.0
 * steps.c - runs a plan layer by layer on hostile memory; see steps.h. */
#include "tests/differential/steps.h"

#include <string.h>
#include "tests/differential/fault.h"

enum { GUARD = 4096, MOST_PIECES = 5 };

struct run {
    struct dt_steps *how;
    const struct mo_plan *plan;
    struct mo_instance *instance;
    char *arena, *scratch; /* with a guard on both sides */
    moire_error *err;
};

static bool intact(const struct run *r, const char *guard) {
    for (int i = 0; i < GUARD; i++)
        if ((unsigned char)guard[i] != r->how->pattern) return false;
    return true;
}

static int check_guards(const struct run *r, const struct mo_step *step) {
    size_t arena = mo_instance_arena_bytes(r->plan), scratch = (size_t)r->plan->scratch_bytes;
    const char *where = NULL;
    if (!intact(r, r->arena)) where = "before the arena";
    if (!intact(r, r->arena + GUARD + arena)) where = "behind the arena";
    if (!intact(r, r->scratch)) where = "before the scratch";
    if (!intact(r, r->scratch + GUARD + scratch)) where = "behind the scratch";
    if (!where) return MOIRE_OK;
    return mo_fail(r->err, MOIRE_EINTERNAL, "node '%s' (%s) by %s writes %s", step->node->name,
                   step->node->op_type, step->kernel, where);
}

/* Units [0, units) in random pieces in random order. */
static void run_pieces(struct run *r, const struct mo_step *step, const struct mo_kargs *args,
                       int64_t units) {
    struct dt_random *random = &r->how->random;
    int64_t cut[MOST_PIECES + 1] = {0, units};
    int n = 1;
    while (r->how->pieces && n < MOST_PIECES && n < units) {
        int64_t at = 1 + (int64_t)(dt_next(random) % (uint64_t)(units > 1 ? units - 1 : 1));
        int i = n;
        while (cut[i - 1] > at)
            i--;
        if (cut[i - 1] == at || dt_pick(random, 6) == 0) break;
        memmove(cut + i + 1, cut + i, (size_t)(n - i + 1) * sizeof *cut);
        cut[i] = at;
        n++;
    }
    for (int first = dt_pick(random, n), k = 0; k < n; k++) {
        int piece = (first + n - k) % n;
        memset(r->scratch + GUARD, r->how->pattern, (size_t)r->plan->scratch_bytes);
        if (cut[piece] < cut[piece + 1]) step->run(args, cut[piece], cut[piece + 1], r->scratch + GUARD);
    }
}

static int run_kernel(struct run *r, int k) {
    const struct mo_step *step = &r->plan->steps[k];
    const struct dt_fault *fault = r->how->fault;
    struct dt_layer layer = {r->plan->graph, step, r->instance->args[k], step->units};
    if (fault && fault->before) r->how->hits += fault->before(&layer);
    if (layer.units > 0) run_pieces(r, step, &layer.args, layer.units);
    if (fault && fault->after) r->how->hits += fault->after(&layer);
    return check_guards(r, step);
}

static int run_step(struct run *r, int k) {
    const struct mo_step *step = &r->plan->steps[k];
    if (step->run) return run_kernel(r, k);
    if (!step->units && !step->dynamic) return MOIRE_OK; /* a view */
    int rc = step->dynamic ? mo_dynamic_run(r->instance, step) : mo_reference_run(r->instance, step);
    return rc ? mo_fail(r->err, rc, "%s", mo_instance_message(r->instance)) : MOIRE_OK;
}

static int take_outputs(const struct run *r, moire_tensor *outputs) {
    for (int i = 0; i < r->plan->graph->n_outputs; i++) {
        moire_tensor t;
        if (mo_instance_output(r->instance, i, &t))
            return mo_fail(r->err, MOIRE_EFAILED, "output %d was not computed", i);
        void *copy = mo_alloc(r->plan->env, t.bytes + 1);
        if (!copy) return mo_fail(r->err, MOIRE_ENOMEM, "out of memory");
        if (t.bytes) memcpy(copy, t.data, t.bytes);
        outputs[i] = t;
        outputs[i].data = copy;
    }
    return MOIRE_OK;
}

static int run_all(struct run *r, const moire_tensor *inputs, int n_inputs, moire_tensor *outputs) {
    int rc = mo_instance_create_bare(r->plan, &r->instance, r->err);
    if (rc) return rc;
    memset(r->arena, r->how->pattern, mo_instance_arena_bytes(r->plan) + 2 * GUARD);
    memset(r->scratch, r->how->pattern, (size_t)r->plan->scratch_bytes + 2 * GUARD);
    mo_instance_bind(r->instance, r->arena + GUARD);
    for (int i = 0; !rc && i < n_inputs; i++)
        rc = mo_instance_set_input(r->instance, i, &inputs[i], r->err);
    for (int k = 0; !rc && k < r->plan->n_steps; k++)
        rc = run_step(r, k);
    return rc ? rc : take_outputs(r, outputs);
}

int dt_steps_run(struct dt_steps *how, const struct mo_plan *plan, const moire_tensor *inputs, int n_inputs,
                 moire_tensor *outputs, moire_error *err) {
    struct run r = {.how = how, .plan = plan, .err = err};
    r.arena = mo_alloc(plan->env, mo_instance_arena_bytes(plan) + 2 * GUARD);
    r.scratch = mo_alloc(plan->env, (size_t)plan->scratch_bytes + 2 * GUARD);
    memset(outputs, 0, (size_t)plan->graph->n_outputs * sizeof *outputs);
    int rc = r.arena && r.scratch ? run_all(&r, inputs, n_inputs, outputs)
                                  : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    mo_instance_destroy(r.instance);
    mo_free(plan->env, r.arena);
    mo_free(plan->env, r.scratch);
    for (int i = 0; rc && i < plan->graph->n_outputs; i++) {
        mo_free(plan->env, outputs[i].data);
        outputs[i].data = NULL;
    }
    return rc;
}
