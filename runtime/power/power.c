/* SPDX-License-Identifier: Apache-2.0
 * power.c - the model and the meter; see power.h. */
#include "runtime/power/power.h"

#include <math.h>

const char *mo_power_basis_name(enum mo_power_basis basis) {
    static const char *const names[] = {"assumed", "published", "measured"};
    return names[basis];
}

int mo_power_device_of(const struct mo_power_machine *machine, int unit) {
    int d = 0;
    while (d < machine->n_devices && unit >= machine->first[d + 1])
        d++;
    return d;
}

int mo_power_top_clock(const struct mo_power_kind *kind) {
    return kind->n_clocks > 0 ? kind->n_clocks - 1 : 0;
}

struct mo_power_clock mo_power_clock_at(const struct mo_power_kind *kind, int clock) {
    if (clock < 0 || clock >= kind->n_clocks) return (struct mo_power_clock){1, 1};
    return kind->clock[clock];
}

static double within(double part) {
    return fmin(1, fmax(0, part));
}

double mo_power_watts(const struct mo_power_kind *kind, double awake, double busy, int clock) {
    if (awake <= 0) return kind->off_w;
    const double part = kind->shared + (1 - kind->shared) * within(awake);
    return kind->off_w + (kind->idle_w - kind->off_w) * part +
           (kind->active_w - kind->idle_w) * mo_power_clock_at(kind, clock).power * within(busy);
}

double mo_power_busy_joules(const struct mo_power_kind *kind, double part, double use, int clock) {
    return (kind->idle_w - kind->off_w) * within(part) +
           (kind->active_w - kind->idle_w) * mo_power_clock_at(kind, clock).power * within(use);
}

void mo_power_meter_begin(struct mo_power_meter *meter, const struct mo_power_machine *machine, int64_t now) {
    *meter = (struct mo_power_meter){.n_devices = machine->n_devices, .since = now};
    for (int d = 0; d < machine->n_devices; d++)
        meter->watts[d] = mo_power_watts(machine->kind[d], 1, 0, mo_power_top_clock(machine->kind[d]));
}

void mo_power_meter_advance(struct mo_power_meter *meter, int64_t now) {
    if (meter->since == INT64_MAX) meter->since = now;
    if (now <= meter->since) return;
    for (int d = 0; d < meter->n_devices; d++)
        meter->joules[d] += meter->watts[d] * (double)(now - meter->since) * 1e-9;
    meter->since = now;
}

double mo_power_meter_joules(const struct mo_power_meter *meter, int64_t now) {
    const double s = now > meter->since ? (double)(now - meter->since) * 1e-9 : 0;
    double sum = 0;
    for (int d = 0; d < meter->n_devices; d++)
        sum += meter->joules[d] + meter->watts[d] * s;
    return sum;
}
