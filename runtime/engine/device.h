/* SPDX-License-Identifier: Apache-2.0
 * device.h - what carries blocks out: one table of calls for a kind of device, and the loop that drives it.
 *
 * A struct mo_device is one scheduler core in real time: its lock, its timer, its service thread, the answers
 * it owes, and the units that blocks run on.  All of that is the same for every device (device.c,
 * device_serve.c).  What differs is in a struct mo_device_calls, which is chosen once, when the engine is
 * made: worker teams on cores (engine_cores.h), lets of GPUs (engine_gpu.h), or a test's own.  Nothing else
 * asks of what kind a device is.
 *
 * Locks.  One lock a device guards its scheduler core and what its table keeps beside it.  It is held for a
 * decision, never across a kernel, a callback or a copy of tensors.  The calls below say whether it is held;
 * whatever may take long (a futex call, a call of a plugin) is put off until `leave`.
 *
 * A block's way.  `start` is called under the lock for a block that the core has decided on.  When it has
 * ended, on a thread of the device's, the device calls mo_sched_block_done() under the lock
 * (device_impl.h) and thereby may find its own `start` called for the next ones; then it lets the lock go by
 * mo_device_drop(), and answers that are due are delivered by the service thread, or by itself with
 * mo_device_drop_and_deliver(). */
#ifndef MO_DEVICE_H
#define MO_DEVICE_H
#include "runtime/base/lock.h"
#include "runtime/sched/sched.h"

struct mo_device;

/* What the engine asks of a tenant's model. */
struct mo_model_ops {
    /* Delivers; called without a lock.  The instance may be used until it returns, then it serves another
     * query. */
    void (*answer)(void *model, const struct mo_answer *answer);
    /* May be NULL.  What the log calls it.  The device's lock is held. */
    const char *(*name)(const void *model);
    /* The query is gone for good, after its answer and its last block: `user` may be reused.  The device's
     * lock is held, so this must be short and must not call back. */
    void (*release)(void *model, void *user);
    /* --- cores only; begin, step and pieces are called on workers without a lock --- */
    /* Before the first block, and where hold() says so: puts the query's input, or what it had reached, into
     * the instance.  0 or a code. */
    int (*begin)(void *model, int instance, void *user);
    /* May be NULL, as rest().  A block of the query is about to start: the instance keeps what it holds from
     * here on.  True: begin() has to bring it back first.  The device's lock is held. */
    bool (*hold)(void *model, void *user);
    /* The query's block has ended and left it before layer `next`; called on a worker without a lock.  The
     * instance may lose what it holds until the next hold(). */
    void (*rest)(void *model, void *user, int next);
    /* As mo_instance_step() and mo_instance_pieces(): a layer by one worker, or pieces of it. */
    int (*step)(void *model, int instance, int layer, int width, void *scratch);
    void (*pieces)(void *model, int instance, int layer, int from, int to, int of, void *scratch);
    /* As mo_instance_again().  May be NULL: no layer has rounds. */
    int (*again)(void *model, int instance, int layer, int width);
    /* May be NULL.  Before layers [begin, end) of an instance start on so many cores: picks their versions
     * for these and a pressure.  The device's lock is held. */
    void (*select_versions)(void *model, int instance, int begin, int end, double pressure, int cores);
    /* May be NULL.  The version of a layer that an instance runs, 0 to 7; asked for the event log only. */
    int (*version)(void *model, int instance, int layer);
};

struct mo_device_tenant {
    struct mo_sched_tenant_config sched;
    const struct mo_model_ops *ops;
    void *model;
    const void *programs; /* what the device wants of it beside, e.g. struct mo_engine_gpu_programs */
    uint64_t owner;       /* what recent blocks call it (recent.h) */
};

/* What the scheduler is to know of a device; valid as long as that is open. */
struct mo_device_about {
    int n_units;                /* cores, or units of GPUs */
    int max_batch;              /* queries of one block; 0 = 1 */
    const struct mo_gpus *gpus; /* finished; NULL: blocks take any set of units */
};

struct mo_device_calls {
    const char *name;
    /* Describes the device and makes what has to be there before blocks start, but no thread.  When it fails
     * after *self was set, close() is still called. */
    int (*open)(struct mo_device *device, const void *options, void **self, struct mo_device_about *about,
                moire_error *err);
    /* Starts its threads; blocks may start from here on. */
    int (*begin)(void *self, moire_error *err);
    /* Ends the threads and frees everything.  Every tenant is closed; the scheduler is still there. */
    void (*close)(void *self);

    /* The lock is held.  Runs a block, or puts it behind the one that runs there (run->behind). */
    void (*start)(void *self, const struct mo_run *run);
    /* The lock is held.  The running block of a lead gets other cores: mo_engine_ops.resize.  NULL: it
     * cannot. */
    void (*resize)(void *self, const struct mo_resize *resize);
    /* The lock is held.  Wants the lets of mo_sched_lets_coming(): mo_sched_prepared() when they are there.
     * NULL where `about.gpus` is. */
    void (*prepare)(void *self, int64_t expected_ns);
    /* The lock is held.  Nothing is to be written to `user` any more.  May be NULL. */
    void (*released)(void *self, int tenant, void *user);
    /* The lock is held: lets it go by mo_device_unlock() and then does what was put off under it. */
    void (*leave)(void *self);
    /* No lock is held.  Does the part of a core that `start` left to a guest.  NULL: it leaves none. */
    void (*be_guest)(void *self, int core);

    /* No lock is held.  Loads what a tenant needs and opens it by mo_device_admit().  NULL: nothing to load.
     */
    int (*admit)(void *self, const struct mo_device_tenant *config, int *tenant, moire_error *err);
    /* No lock is held.  A closed tenant of which nothing runs: frees what admit() has loaded.  May be NULL.
     */
    void (*forget)(void *self, int tenant);
    /* The lock is held.  Whether nothing can run on any unit: the device has failed.  NULL: it does not. */
    bool (*is_lost)(void *self);
    /* No lock is held.  CPU time of its threads so far.  NULL: none to speak of. */
    int64_t (*cpu_ns)(void *self);
};

struct mo_device_config {
    const struct mo_env *env;
    const struct mo_device_calls *calls;
    const void *options; /* of calls->open() */
    const struct mo_policy *policy;
    int max_queries, max_tenants;
    int64_t block_ns;
    enum mo_objective objective;
    int64_t events;                   /* entries of each event ring, 0 = no events */
    struct mo_pressure_source source; /* as in struct mo_sched_config, as is power */
    const struct mo_power_machine *power;
    void (*clock)(void *self, double speed); /* sets the clock of all units; NULL: nothing does */
    void *clock_self;
};

/* A thread that will wait for the query which it submits, and may do one core's part of its first block. */
struct mo_device_guest {
    int cpu;          /* the OS cpu that it is on */
    int core;         /* -1 before; the core whose part it has to do: mo_device_be_guest() */
    const void *user; /* of the query, filled in: blocks of others are not its */
};

/* A query for a device. */
struct mo_device_query {
    struct mo_device_guest *guest; /* NULL: nobody waits.  Devices without cores do not look at it */
    struct mo_arrival arrival;     /* arrival 0: now; user is what answer() and release() of the model get */
    uint64_t known;  /* the handle that its owner has of it from another device; 0 = it is new here */
    uint64_t handle; /* once it is accepted */
    int code;        /* whether it was */
};
/* What is under way at this moment. */
struct mo_device_now {
    int waiting, paused, blocks, units; /* queries; blocks that run, and the units that they have */
    double pressure[MO_PRESSURES];      /* on everyone */
    int64_t block_ns;                   /* bound on a block's predicted time */
    double pace;                        /* as in struct mo_view */
    double residual;                    /* of the one tenant; 0 of all */
};
/* tenant: the device's own number, -1 = of all. */
void mo_device_now(struct mo_device *device, int tenant, struct mo_device_now *out);

/* device_stuck.c: a block or callback that does not come back. */
struct mo_stuck {
    uint64_t owner; /* struct mo_device_tenant */
    int64_t ns;     /* by how long it is overdue */
    int kind;       /* enum moire_stuck_kind */
    int begin, end; /* layers of a block */
    int unit;       /* its lead, or whose thread; -1: of none */
};
/* Puts them into `out` behind the *n that are there; those that have no room are counted.  Returns: the units
 * that nothing else can run on because of them. */
int mo_device_stuck(struct mo_device *device, struct mo_stuck *out, int room, int *n);
/* How many there were so far. */
int64_t mo_device_stucks(struct mo_device *device);
/* Nothing can run there: the device has failed. */
bool mo_device_is_lost(struct mo_device *device);

int mo_device_units(const struct mo_device *device);
/* Whether a tenant is open there. */
bool mo_device_serves(struct mo_device *device);
/* As mo_sched_set_memory(). */
void mo_device_set_memory(struct mo_device *device, const struct mo_memory *memory);
/* Joules so far by the model of mo_device_config.power; 0 where that is NULL. */
double mo_device_joules(struct mo_device *device);
void mo_device_stats(struct mo_device *device, struct mo_sched_stats *out);
void mo_device_stats_reset(struct mo_device *device);
/* Its lock, of one device at a time.  Dropping it also does what was put off under it; answers that are due
 * are the service thread's to deliver. */
void mo_device_take(struct mo_device *device);
void mo_device_drop(struct mo_device *device);
/* NULL when events are off.  Read it when the engine is drained, under the lock: what the engine does by
 * itself meanwhile (a GPU that comes back, a changed plan of lets) logs, too. */
struct mo_events *mo_device_events(struct mo_device *device);
/* As mo_events_dump() of the device's events, which must be on, under the lock.  The engine must be drained.
 */
int mo_device_dump(struct mo_device *device, const char *preface, const char *path, moire_error *err);
/* The ring of one thread that is not the engine's; NULL when events are off. */
struct mo_ring *mo_device_guest_ring(struct mo_device *device);
#endif
