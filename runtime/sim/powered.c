/* SPDX-License-Identifier: Apache-2.0
 * powered.c - simulated devices that sleep, wake up and change their clock. */
#include "runtime/sim/sim_impl.h"

void mo_sim_power(void *self, const struct mo_power_change *change) {
    struct mo_sim *s = self;
    s->speed[change->device] = change->speed;
    if (change->ready_in_ns) s->awake[change->device] = s->now + change->ready_in_ns;
}

void mo_sim_power_begin(const struct mo_sim *s, const struct mo_run *run, int64_t *begin, double *solo) {
    const int device = mo_power_device_of(s->machine.power, run->lead);
    if (*begin < s->awake[device]) *begin = s->awake[device];
    if (s->speed[device] > 0) *solo /= s->speed[device];
}

double mo_sim_joules(const struct mo_sim *s) {
    const struct mo_power_meter *meter = mo_sched_power_meter(s->sched);
    return meter ? mo_power_meter_joules(meter, s->now) : 0;
}
