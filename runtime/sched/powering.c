/* SPDX-License-Identifier: Apache-2.0
 * powering.c - the core's side of power: which units are parked, at what clock devices run, and the meter of
 * what that draws (runtime/power/power.h).
 *
 * Parked units are not among view.idle, so no block begins there.  PARK names all units that are parked from
 * then on: each is idle or parked already.  Units that it leaves out wake up; what begins on them waits until
 * the engine has them there.  CLOCK is for one device, and for blocks that begin after it.
 *
 * The meter takes a block's units as busy from its dispatch to its end: on GPUs to the part of the
 * multiprocessors that its profile says (of all its units where that is not known), on cores whole. */
#include "runtime/sched/core_impl.h"

struct mo_sched_power {
    const struct mo_power_machine *machine;
    struct mo_power_meter meter;
    unsigned char clock[MO_POWER_DEVICES];
    int awake[MO_POWER_DEVICES]; /* units that are not parked */
};

int mo_sched_power_create(struct mo_sched *s, const struct mo_power_machine *machine) {
    if (!machine) return MOIRE_OK;
    struct mo_sched_power *p = s->power = mo_alloc(s->env, sizeof *p);
    if (!p) return MOIRE_ENOMEM;
    p->machine = s->view.power = machine;
    s->view.clock = p->clock;
    for (int d = 0; d < machine->n_devices; d++) {
        p->clock[d] = (unsigned char)mo_power_top_clock(machine->kind[d]);
        p->awake[d] = machine->first[d + 1] - machine->first[d];
    }
    mo_power_meter_begin(&p->meter, machine, INT64_MAX);
    return MOIRE_OK;
}

void mo_sched_power_destroy(struct mo_sched *s) {
    mo_free(s->env, s->power);
}

const struct mo_power_meter *mo_sched_power_meter(const struct mo_sched *s) {
    return s->power ? &s->power->meter : NULL;
}

/* What a block uses of its device, 0 to 1. */
static double use_of(const struct mo_sched *s, const struct mo_view_run *run, int device) {
    const struct mo_power_machine *m = s->power->machine;
    const double units = (double)run->n_cores / (m->first[device + 1] - m->first[device]);
    if (!s->view.gpus) return units;
    const struct mo_share_profile *p = mo_view_share(&s->view, s->queries.view[run->query].tenant, device);
    const int share = mo_view_let_share(&s->view, device, run->n_cores);
    const double sm = mo_share_use_at(p, run->batch, share).sm;
    return sm > 0 ? sm : share == MO_SHARE_WHOLE ? 1 : units;
}

/* Busy cores of a block lie on several sockets, as a rule on one. */
static void add_use(const struct mo_sched *s, const struct mo_view_run *run, double *busy) {
    const struct mo_power_machine *m = s->power->machine;
    int device = mo_power_device_of(m, mo_cores_next(&run->cores, -1));
    if (s->view.gpus || m->n_devices == 1) {
        busy[device] += use_of(s, run, device);
        return;
    }
    for (int c = mo_cores_next(&run->cores, -1); c >= 0; c = mo_cores_next(&run->cores, c)) {
        device = mo_power_device_of(m, c);
        busy[device] += 1.0 / (m->first[device + 1] - m->first[device]);
    }
}

void mo_sched_power_note(struct mo_sched *s, int64_t now) {
    struct mo_sched_power *p = s->power;
    if (!p) return;
    double busy[MO_POWER_DEVICES] = {0};
    mo_power_meter_advance(&p->meter, now);
    for (int i = 0; i < s->view.n_running; i++)
        add_use(s, &s->runs[s->running[i]], busy);
    for (int d = 0; d < p->machine->n_devices; d++) {
        const double units = p->machine->first[d + 1] - p->machine->first[d];
        p->meter.watts[d] = mo_power_watts(p->machine->kind[d], p->awake[d] / units, busy[d], p->clock[d]);
    }
}

static int awake_units(const struct mo_sched *s, int device) {
    const struct mo_power_machine *m = s->power->machine;
    int n = m->first[device + 1] - m->first[device];
    for (int u = m->first[device]; u < m->first[device + 1]; u++)
        n -= mo_cores_has(&s->view.parked, u);
    return n;
}

static void tell(struct mo_sched *s, int device, bool wakes, int64_t now) {
    const struct mo_power_kind *kind = s->power->machine->kind[device];
    const struct mo_power_change change = {.device = device,
                                           .clock = s->power->clock[device],
                                           .speed = mo_power_clock_at(kind, s->power->clock[device]).speed,
                                           .ready_in_ns = wakes ? kind->wake_ns : 0};
    mo_sched_log(s, now, MO_LOG_POWER, -1, -1, device, change.clock, wakes);
    if (s->ops->power) s->ops->power(s->engine, &change);
}

bool mo_sched_park(struct mo_sched *s, const struct mo_cores *units, int64_t now) {
    struct mo_cores rest = s->view.idle;
    if (!s->power) return false;
    struct mo_sched_power *p = s->power;
    mo_cores_join(&rest, &s->view.parked);
    if (!mo_cores_subset(units, &rest)) return false;
    mo_sched_power_note(s, now);
    mo_cores_subtract(&rest, units);
    s->view.idle = rest;
    s->view.parked = *units;
    s->view.n_idle = mo_cores_count(&rest);
    for (int d = 0; d < p->machine->n_devices; d++) {
        const int before = p->awake[d];
        p->awake[d] = awake_units(s, d);
        if (!before == !p->awake[d]) continue;
        if (!before) p->meter.joules[d] += p->machine->kind[d]->wake_j;
        tell(s, d, !before, now);
    }
    mo_sched_power_note(s, now);
    return true;
}

bool mo_sched_clock(struct mo_sched *s, int device, int clock, int64_t now) {
    if (!s->power || device < 0 || device >= s->power->machine->n_devices) return false;
    if (clock < 0 || clock > mo_power_top_clock(s->power->machine->kind[device])) return false;
    if (s->power->clock[device] == clock) return true;
    s->power->clock[device] = (unsigned char)clock;
    tell(s, device, false, now);
    mo_sched_power_note(s, now);
    return true;
}
