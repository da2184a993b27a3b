/* SPDX-License-Identifier: Apache-2.0
 * device_impl.h - the inside of a device's loop: for device.c (what callers do), device_serve.c (lock,
 * answers, service thread), engine.c, and the tables of devices, which call what stands below the struct. */
#ifndef MO_DEVICE_IMPL_H
#define MO_DEVICE_IMPL_H
#include "runtime/engine/device.h"

/* Event rings beside one a unit: of the lock's holder, of the service thread, of a thread of the user's. */
enum { MO_RING_LOCKED, MO_RING_SERVICE, MO_RING_EXTERNAL, MO_RINGS_EXTRA };
/* Most lines for the log that wait to be written, those beyond are lost; and bytes of one. */
enum { MO_DEVICE_LINES = 16, MO_DEVICE_LINE = 320 };

/* A tenant as its device delivers to it. */
struct mo_device_model {
    const struct mo_model_ops *ops;
    void *model;
    uint64_t owner;
};

/* A line for the log. */
struct mo_device_line {
    int level;
    char text[MO_DEVICE_LINE];
};

/* An answer that its owner is being given: on the stack of the thread that does, in a list under the lock. */
struct mo_delivery {
    struct mo_delivery *next;
    int tenant, unit; /* unit: whose thread that is; -1: the service thread */
    int64_t since;
    bool said; /* the log has a line of it */
};

/* A stuck block that the log has a line of, by its lead; start 0: none. */
struct mo_stuck_block {
    int64_t start;
    char name[100];
};

struct mo_device {
    const struct mo_env *env;
    const struct mo_device_calls *calls;
    void *self; /* of the calls */
    struct mo_engine_ops ops;
    void (*clock)(void *self, double speed); /* as in mo_device_config */
    void *clock_self;
    struct mo_lock lock;
    struct mo_sched *sched;
    struct mo_events *events;
    struct mo_device_model *tenants;
    int n_units, max_tenants;
    int number; /* its place in the engine, which handles carry */
    int64_t timer_at, since, cpu_before;
    struct mo_query_list resolved;
    struct mo_device_guest *guest;  /* of the query that is being submitted */
    int n_late;                     /* units that are still inside of a block that has ended */
    struct mo_delivery *deliveries; /* answers that are being given */
    struct mo_stuck_block *stuck;   /* by unit, n_stuck of them in use */
    int n_stuck;
    int64_t stucks;                              /* blocks and callbacks that were stuck so far */
    int taken_over;                              /* open queries that another device has failed */
    struct mo_device_line line[MO_DEVICE_LINES]; /* what was said under the lock, oldest first */
    int n_lines;
    struct mo_thread service;
    bool service_started, stop;
    bool doorbell_due;         /* the service thread is to be rung when the lock is let go */
    _Atomic uint32_t doorbell; /* rings it */
    _Atomic uint32_t changes;  /* grows whenever a slot was released or a block ended while somebody waits */
    _Atomic int waiters;
};

/* --- for engine.c --- */
int mo_device_create(const struct mo_device_config *config, int number, struct mo_device **out,
                     moire_error *err);
/* Every tenant is closed.  NULL is fine. */
void mo_device_destroy(struct mo_device *device);
/* As those of engine.h, with the device's own tenants and handles. */
int mo_device_open(struct mo_device *device, const struct mo_device_tenant *config, int *tenant,
                   moire_error *err);
void mo_device_close(struct mo_device *device, int tenant, int code);
void mo_device_quiet(struct mo_device *device, int tenant);
void mo_device_submit(struct mo_device *device, int tenant, struct mo_device_query *queries, int n,
                      moire_error *err);
/* The calling thread does what a query's `guest` says. */
void mo_device_be_guest(struct mo_device *device, int core);
int mo_device_cancel(struct mo_device *device, uint64_t handle);
int mo_device_cancel_known(struct mo_device *device, uint64_t known);
void mo_device_drain(struct mo_device *device);
void mo_device_abort(struct mo_device *device, int code);
/* The handle that users get of a query of the device: its number stands above every slot number. */
enum { MO_HANDLE_SHIFT = 28, MO_HANDLE_DEVICES = 16 };
static inline uint64_t mo_device_tag(const struct mo_device *device, uint64_t handle) {
    return handle | (uint64_t)device->number << MO_HANDLE_SHIFT;
}
/* The service thread's function. */
void *mo_device_serve(void *device);
/* device_stuck.c, under the lock.  An answer is about to be given to its owner; the owner has returned; what
 * is stuck gets its line in the log, and what goes on. */
void mo_device_deliveries_add(struct mo_device *device, struct mo_delivery *at, int tenant, int unit);
void mo_device_deliveries_remove(struct mo_device *device, struct mo_delivery *at);
void mo_device_note_stuck(struct mo_device *device);
/* Without the lock: writes what was said under it. */
void mo_device_write_lines(struct mo_device *device);

/* --- for tables of devices --- */
/* For calls->leave() only: lets the lock go and nothing else.  True: mo_device_ring_doorbell() is owed. */
bool mo_device_unlock(struct mo_device *device);
void mo_device_ring_doorbell(struct mo_device *device);
/* Under the lock: answers that are due are the service thread's to deliver. */
void mo_device_leave_answers(struct mo_device *device);
/* Under the lock: a line for the log, which the service thread writes without it. */
void mo_device_say(struct mo_device *device, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Lets the lock go as mo_device_drop(), and delivers what is due on this thread, which is a unit's and owns
 * `ring`.  only: what a guest delivers, for its callers may hold locks that others' callbacks take; 0: all.
 */
void mo_device_drop_and_deliver(struct mo_device *device, struct mo_ring *ring, int unit, uint64_t only);
/* Tells threads that wait for a change of the core's state; after the lock was let go. */
void mo_device_note_change(struct mo_device *device);
/* Sleeps until `done` holds, which is asked under the lock. */
void mo_device_wait(struct mo_device *device, bool (*done)(struct mo_device *device, int arg), int arg);
/* Opens the tenant in the scheduler. */
int mo_device_admit(struct mo_device *device, const struct mo_device_tenant *config, int *tenant,
                    moire_error *err);
/* Ring of a unit, or n_units + one of those beside; NULL when events are off. */
struct mo_ring *mo_device_ring(struct mo_device *device, int which);
static inline struct mo_ring *mo_device_locked_ring(struct mo_device *device) {
    return mo_device_ring(device, device->n_units + MO_RING_LOCKED);
}
#endif
