/* SPDX-License-Identifier: Apache-2.0
 * power.h - what devices draw: a model in watts, and a meter that adds up its joules.
 *
 * A device is a GPU, or a socket of cores.  Its units (of lets, or cores) are awake or parked.  It draws
 *
 *   off                                                            while all units are parked,
 *   off + (idle - off) (shared + (1 - shared) awake part)
 *       + (active - idle) clock.power busy part                    else,
 *
 * where the busy part is 0 to 1, of all units at full use.  A clock says how fast blocks run and what they
 * draw for it.  Units that wake up take a while and some joules; parking takes neither.
 *
 * The meter is fed by the scheduler core (runtime/sched/powering.c), so that the simulator and the live
 * engines add up alike; what real devices draw is read elsewhere.  Nothing here allocates or
 * asks a clock. */
#ifndef MO_POWER_H
#define MO_POWER_H
#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/cores.h"

enum { MO_POWER_DEVICES = 64, MO_POWER_CLOCKS = 8 };

/* Where a number comes from. */
enum mo_power_basis { MO_POWER_ASSUMED, MO_POWER_PUBLISHED, MO_POWER_MEASURED };
/* "assumed", "published", "measured" */
const char *mo_power_basis_name(enum mo_power_basis basis);

struct mo_power_clock {
    double speed; /* of the profiles', above 0 to 1 */
    double power; /* watts above idle, of those at the profiles' clock */
};

/* A kind of device.  Zeros: nothing is known of its power. */
struct mo_power_kind {
    double off_w, idle_w, active_w; /* rising */
    double shared;                  /* 0..1, of idle - off: drawn as soon as one unit is awake; 1 on GPUs */
    double wake_j;                  /* that a device draws once when its first unit wakes up, */
    int64_t wake_ns;                /* and so long after that its blocks begin */
    int n_clocks;                   /* 0: the profiles' alone */
    struct mo_power_clock clock[MO_POWER_CLOCKS]; /* rising speed; the last is the profiles': 1, 1 */
    enum mo_power_basis basis;
    const char *source; /* a sentence: whose numbers these are; borrowed */
};

/* All devices of a machine. */
struct mo_power_machine {
    int n_devices, n_units;
    int first[MO_POWER_DEVICES + 1]; /* device d has units [first[d], first[d + 1]) */
    const struct mo_power_kind *kind[MO_POWER_DEVICES];
};
/* The device of a unit; n_devices when there is none. */
int mo_power_device_of(const struct mo_power_machine *machine, int unit);
/* Highest clock: the profiles'. */
int mo_power_top_clock(const struct mo_power_kind *kind);
struct mo_power_clock mo_power_clock_at(const struct mo_power_kind *kind, int clock);

/* Watts of a device with that part of its units awake (0 = off) and busy at that clock. */
double mo_power_watts(const struct mo_power_kind *kind, double awake, double busy, int clock);
/* Joules that one second of a whole busy device costs beyond a device that is off, at that clock. */
double mo_power_busy_joules(const struct mo_power_kind *kind, double part, double use, int clock);

struct mo_power_meter {
    int n_devices;
    int64_t since; /* joules are up to then; INT64_MAX: it begins with the first advance */
    double watts[MO_POWER_DEVICES], joules[MO_POWER_DEVICES];
};
/* Devices begin awake and idle. */
void mo_power_meter_begin(struct mo_power_meter *meter, const struct mo_power_machine *machine, int64_t now);
/* Adds up to `now`; a time before `since` adds nothing. */
void mo_power_meter_advance(struct mo_power_meter *meter, int64_t now);
/* Of all devices, up to `now`. */
double mo_power_meter_joules(const struct mo_power_meter *meter, int64_t now);
#endif
