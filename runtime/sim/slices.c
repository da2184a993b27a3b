/* SPDX-License-Identifier: Apache-2.0
 * slices.c - what running blocks miss in private slices; see slices.h. */
#include "runtime/sim/slices.h"

static int slice_of(const struct mo_sim *s, int core) {
    return core / s->machine.slice_cores;
}

/* The first core of the block in the next slice behind that of `core` (-1 begins); -1: none. */
static int next_slice(const struct mo_sim *s, const struct mo_cores *cores, int core) {
    int behind = core < 0 ? -1 : (slice_of(s, core) + 1) * s->machine.slice_cores - 1;
    return behind < MO_MAX_CORES ? mo_cores_next(cores, behind) : -1;
}

static int touched(const struct mo_sim *s, const struct mo_sim_work *w) {
    int n = 0;
    for (int c = next_slice(s, &w->run.cores, -1); c >= 0; c = next_slice(s, &w->run.cores, c))
        n++;
    return n;
}

/* Bytes that the running blocks touch in a slice, each tenant's once: the largest part that a block of it has
 * there. */
static double load_of(struct mo_sim *s, int slice) {
    int from = slice * s->machine.slice_cores - 1;
    double load = 0;
    for (int i = 0; i < s->n_running; i++) {
        const struct mo_sim_work *w = &s->work[s->running[i]];
        int core = mo_cores_next(&w->run.cores, from), tenant = w->run.tenant;
        if (core < 0 || slice_of(s, core) != slice || w->part <= s->brought[tenant]) continue;
        load += w->part - s->brought[tenant];
        s->brought[tenant] = w->part;
    }
    for (int i = 0; i < s->n_running; i++)
        s->brought[s->work[s->running[i]].run.tenant] = 0;
    return load;
}

void mo_sim_slices_missed(struct mo_sim *s) {
    int slices = (s->machine.n_cores + s->machine.slice_cores - 1) / s->machine.slice_cores;
    double bytes = s->machine.cache_bytes / slices, missed[MO_MAX_CORES];
    for (int i = 0; i < s->n_running; i++) {
        struct mo_sim_work *w = &s->work[s->running[i]];
        const struct mo_profile *p = s->profile[w->run.tenant];
        w->part = (double)mo_profile_bytes(p, 0, p->n_layers) / touched(s, w);
    }
    for (int k = 0; k < slices; k++)
        missed[k] = mo_demand_missed(bytes, load_of(s, k));
    for (int i = 0; i < s->n_running; i++) {
        struct mo_sim_work *w = &s->work[s->running[i]];
        double sum = 0;
        for (int c = next_slice(s, &w->run.cores, -1); c >= 0; c = next_slice(s, &w->run.cores, c))
            sum += missed[slice_of(s, c)];
        w->missed = sum / touched(s, w);
    }
}
