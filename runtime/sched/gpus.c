/* SPDX-License-Identifier: Apache-2.0
 * gpus.c - numbering the units of a machine's GPUs. */
#include "runtime/sched/gpus.h"

static int check_kind(const struct mo_gpus *g, int k, moire_error *err) {
    const struct mo_plan_kind *kind = &g->kinds[k];
    const char *name = kind->name ? kind->name : "";
    if (kind->units < 1 || kind->units > MO_PLAN_UNITS)
        return mo_fail(err, MOIRE_EINVAL, "kind '%s': %d units, must be 1 to %d", name, kind->units,
                       MO_PLAN_UNITS);
    if (kind->n_sizes < 1 || kind->n_sizes > MO_PLAN_SIZES || kind->max_lets < 1)
        return mo_fail(err, MOIRE_EINVAL, "kind '%s': no let can be made: it needs sizes and max_lets", name);
    for (int i = 0; i < kind->n_sizes; i++)
        if (kind->sizes[i] < 1 || kind->sizes[i] > kind->units || (i && kind->sizes[i] <= kind->sizes[i - 1]))
            return mo_fail(err, MOIRE_EINVAL, "kind '%s': let sizes must rise within 1 to %d units", name,
                           kind->units);
    return g->prepare_ns[k] >= 0
               ? MOIRE_OK
               : mo_fail(err, MOIRE_EINVAL, "kind '%s': lets take a negative time to prepare", name);
}

int mo_gpus_finish(struct mo_gpus *g, moire_error *err) {
    int code = MOIRE_OK;
    if (g->n_kinds < 1 || g->n_kinds > MO_PLAN_KINDS || g->n_gpus < 1 || g->n_gpus > MO_PLAN_GPUS)
        return mo_fail(err, MOIRE_EINVAL, "a machine has 1 to %d GPUs of 1 to %d kinds", MO_PLAN_GPUS,
                       MO_PLAN_KINDS);
    for (int k = 0; k < g->n_kinds && !code; k++)
        code = check_kind(g, k, err);
    g->n_units = 0;
    for (int i = 0; i < MO_MAX_CORES; i++)
        g->gpu_of[i] = -1;
    for (int i = 0; i < g->n_gpus && !code; i++) {
        if (g->kind[i] < 0 || g->kind[i] >= g->n_kinds)
            return mo_fail(err, MOIRE_EINVAL, "GPU %d is of kind %d, there are %d", i, g->kind[i],
                           g->n_kinds);
        g->first[i] = g->n_units;
        g->n_units += mo_gpus_kind(g, i)->units;
        if (g->n_units > MO_MAX_CORES)
            return mo_fail(err, MOIRE_ELIMIT, "GPU %d: more than %d units in all", i, MO_MAX_CORES);
        for (int u = g->first[i]; u < g->n_units; u++)
            g->gpu_of[u] = (short)i;
    }
    return code;
}
