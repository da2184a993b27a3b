/* SPDX-License-Identifier: Apache-2.0
 * device_cores.c - the simulated machine of cores: block times by profile, memory shared by what blocks ask
 * of it, or slowed down by how busy the other cores are.
 */
#include <math.h>
#include "runtime/sim/slices.h"

static const double ALIKE = 1e-9;

static bool contended(const struct mo_sim *s) {
    return s->machine.corun > 0 || s->machine.bytes_ns > 0 || mo_contention_crowds(&s->machine.contention);
}

/* Share of all cores that run other blocks. */
static double neighbours(const struct mo_sim *s, const struct mo_sim_work *w) {
    return (double)(s->n_busy - w->run.n_cores) / s->machine.n_cores;
}

/* Bytes a ns that a core may have when all blocks together ask for more than there is: those that ask for
 * less than their cores' part leave the rest to the others. */
static double fair_part(const struct mo_sim *s) {
    double part = s->machine.bytes_ns / s->n_busy;
    for (;;) {
        double left = s->machine.bytes_ns;
        int cores = 0;
        for (int i = 0; i < s->n_running; i++) {
            const struct mo_sim_work *w = &s->work[s->running[i]];
            if (w->demand <= part * w->run.n_cores)
                left -= w->demand;
            else
                cores += w->run.n_cores;
        }
        double next = cores ? left / cores : part;
        if (next <= part * (1 + ALIKE)) return part;
        part = next;
    }
}

static double pace_of(const struct mo_sim *s, const struct mo_sim_work *w, double part) {
    double pace = s->n_running > 1 ? 1 + s->machine.corun : 1, share = part * w->run.n_cores;
    if (mo_contention_crowds(&s->machine.contention))
        pace *= mo_contention_pace(&s->machine.contention, neighbours(s, w), w->run.pressure);
    return w->demand > share ? pace * w->demand / share : pace;
}

/* A block of the tenant begins (+1) or ends (-1). */
static void note_active(struct mo_sim *s, int tenant, int change) {
    const struct mo_profile *p = s->profile[tenant];
    s->active[tenant] += change;
    if (s->active[tenant] == (change > 0))
        s->resident += change * (double)mo_profile_bytes(p, 0, p->n_layers);
}

/* What the running blocks ask of memory now. */
static void ask(struct mo_sim *s) {
    double missed = mo_demand_missed(s->machine.cache_bytes, s->resident);
    s->demand = 0;
    if (s->machine.slice_cores) mo_sim_slices_missed(s);
    for (int i = 0; i < s->n_running; i++) {
        struct mo_sim_work *w = &s->work[s->running[i]];
        if (!s->machine.slice_cores) w->missed = missed;
        bool more = w->asks.shared != w->asks.alone; /* beside others */
        w->demand = mo_demand_now(&w->asks, w->missed,
                                  more ? mo_demand_beside(s->n_busy, w->run.n_cores, s->machine.n_cores) : 0);
        s->demand += w->demand;
    }
}

/* The set of running blocks has changed: what is left of each goes on at its new pace.  False: all ran alone
 * before, as far as that goes, and still do. */
static bool revise(struct mo_sim *s) {
    double part = INFINITY;
    if (s->machine.bytes_ns > 0) ask(s);
    if (s->machine.bytes_ns > 0 && s->demand > s->machine.bytes_ns) part = fair_part(s);
    bool slowed = part < INFINITY || s->machine.corun > 0 || mo_contention_crowds(&s->machine.contention);
    if (!slowed && !s->slowed) return false;
    s->slowed = slowed;
    for (int i = 0; i < s->n_running; i++) {
        struct mo_sim_work *w = &s->work[s->running[i]];
        mo_sim_repace(s, w, pace_of(s, w, part));
    }
    return true;
}

/* Solo time of a block in the versions chosen for it, and what it reads a ns of that. */
static double block_time(struct mo_sim *s, const struct mo_run *run, struct mo_sim_work *w) {
    const struct mo_profile *p = s->profile[run->tenant];
    int n = run->n_cores, begin = run->begin, end = run->end;
    double solo;
    w->asks = mo_demand_of(p, run->pressure, n, begin, end, &solo);
    /* what was measured of blocks holds that already */
    return s->config.spread ? solo : solo + mo_sim_reuse_extra(&s->reuse, run->tenant, n, begin, end);
}

/* From a decision to the first layer. */
static int64_t start_cost(struct mo_sim *s, const struct mo_run *run) {
    if (!s->config.starts) return s->machine.block_ns + (run->first ? s->machine.query_ns : 0);
    bool asleep = true; /* the first core to begin is one that spins, if any does */
    for (int c = mo_cores_next(&run->cores, -1); c >= 0; c = mo_cores_next(&run->cores, c))
        asleep = asleep && s->now - s->idle_since[c] > MO_SPIN_NS;
    return mo_sim_start(s, run, asleep);
}

static int64_t begin(struct mo_sim *s, const struct mo_run *run, const struct mo_sim_work *w) {
    (void)w;
    return s->now + start_cost(s, run);
}

static bool changed(struct mo_sim *s, const struct mo_sim_work *w, int change) {
    note_active(s, w->run.tenant, change);
    return contended(s) && revise(s);
}

bool mo_sim_read_pressure(void *self, int64_t now, const struct mo_cores *ending, double *pressure) {
    const struct mo_sim *s = self;
    double demand = s->demand;
    int busy = s->n_busy;
    (void)now;
    for (int i = 0; i < s->n_running; i++) {
        const struct mo_sim_work *w = &s->work[s->running[i]];
        if (!mo_cores_has(ending, s->running[i])) continue;
        demand -= w->demand;
        busy -= w->run.n_cores;
    }
    if (mo_contention_crowds(&s->machine.contention))
        *pressure = mo_contention_pressure(&s->machine.contention, (double)busy / s->machine.n_cores);
    else
        *pressure = demand / s->machine.bytes_ns;
    return true;
}

bool mo_sim_has_counters(const struct mo_sim_machine *machine) {
    return machine->bytes_ns > 0 || mo_contention_crowds(&machine->contention);
}

const struct mo_sim_device mo_sim_cores = {block_time, begin, NULL, changed};
