/* SPDX-License-Identifier: Apache-2.0
 * sched.h - the event-driven core: tenants, bounded queues, blocks, lets, decisions.
 *
 * The core owns no thread, asks no clock and runs no kernel.  An engine feeds it events (arrival, block done,
 * timer, cancel) with the time they happened; the core keeps the view, asks the policy, checks each decision,
 * applies the good ones and starts blocks through the engine's table.  The live engine and the simulator run
 * this same object.
 *
 * Threads: none of its own.  The engine calls every function under one lock that it never holds across a
 * kernel or a callback.  Engine functions are called with that lock held and must not call back.
 * After mo_sched_create() nothing allocates but mo_sched_tenant_open(). */
#ifndef MO_SCHED_H
#define MO_SCHED_H
#include "runtime/sched/events.h"
#include "runtime/sched/core_pressure.h"
#include "runtime/sched/query.h"
#include "runtime/sched/stats.h"

/* A worker without a block spins for so long before it sleeps. */
enum { MO_SPIN_NS = 100000 };

/* A block that begins: layers [begin, end) of query on cores; the lead is the smallest core.  A block of a
 * batch has more queries behind the first, found through mo_query.next_in_batch; instance is the first
 * one's. */
struct mo_run {
    int query, tenant, instance, begin, end, lead, n_cores, batch;
    struct mo_cores cores;
    int64_t latest_start;
    double pressure; /* for which versions of the layers are chosen */
    bool first;      /* the query's first block: its input is not in the instance yet */
    bool behind;     /* GPUs: it begins when the block that these units run has ended */
};

/* The running block of `lead` goes on with other cores. */
struct mo_resize {
    int query, tenant, lead;
    int n_cores; /* that it goes on with when those of `leave` are out */
    struct mo_cores join, leave;
};

/* A device of mo_sched_config.power runs at another clock, or wakes up: what begins there from now on begins
 * after ready_in_ns at the earliest and at that part of the profiles' speed. */
struct mo_power_change {
    int device, clock;
    double speed;
    int64_t ready_in_ns;
};

struct mo_engine_ops {
    void (*start)(void *engine, const struct mo_run *run);
    /* Cores of `join` enter the block as soon as they can; those of `leave` go out by the end of its present
     * layer: mo_sched_cores_back().  NULL: blocks keep their cores. */
    void (*resize)(void *engine, const struct mo_resize *resize);
    /* Kills the running block of `lead`, for which nothing is called any more; its cores come back after
     * mo_sched_config.reset_ns: mo_sched_cores_back() with lead -1.  NULL: blocks end by themselves only. */
    void (*reset)(void *engine, int lead);
    /* The core wants mo_sched_timer() at `when`; replaces an earlier wish; MO_NEVER = none. */
    void (*set_timer)(void *engine, int64_t when);
    /* The outcome of a query is decided: deliver the answer, then call mo_sched_answered(). */
    void (*resolved)(void *engine, int query);
    /* Nothing refers to the query any more, no block of it runs: what belongs to `user` may be reused. */
    void (*released)(void *engine, int tenant, void *user);
    /* GPUs: prepare the lets that the policy has asked for, which should take so long; blocks go on starting
     * on those in force until the engine calls mo_sched_prepared().  NULL on an engine of cores. */
    void (*prepare)(void *engine, int64_t expected_ns);
    /* NULL: nothing is to be done, units that are not used save what they save by themselves. */
    void (*power)(void *engine, const struct mo_power_change *change);
    /* A line for the log (level: MOIRE_LOG_*), to be written when the engine has let its lock go.  NULL:
     * nobody reads it. */
    void (*say)(void *engine, int level, const char *line);
};

struct mo_sched_config {
    const struct mo_env *env;
    const struct mo_policy *policy;
    int n_cores, max_queries, max_tenants;
    enum mo_objective objective;
    int64_t block_ns; /* 0 = from the tightest QoS, see mo_sched_block_bound() */
    int64_t reset_ns; /* cores are out of use for so long after ops.reset; 0 = it cannot be asked for */
    int max_batch;    /* queries that a block of the engine can take; 0 = 1 */
    const struct mo_gpus *gpus; /* finished; the cores are their units.  NULL = a machine of cores */
    const struct mo_engine_ops *ops;
    void *engine;
    struct mo_ring *ring;                 /* events of the core; NULL = none */
    int64_t (*cost_clock)(void *engine);  /* for decision cost; NULL = not measured */
    struct mo_pressure_source source;     /* read NULL: observed slowdown */
    const struct mo_power_machine *power; /* of the same units; borrowed.  NULL = not known */
    struct mo_memory memory;              /* zeros = not known (yet), mo_sched_set_memory() */
};

struct mo_sched_tenant_config {
    int64_t qos_ns;
    bool best_effort, shed_late;
    int priority, queue, instances;
    int cores;                        /* that its blocks have at once at most; 0 = no bound.  Not on GPUs */
    double weight;                    /* of its share when not all can be served; 0 = 1 */
    const struct mo_profile *profile; /* lives as long as the tenant */
    const struct mo_share_profile *const *share; /* by kind of GPU, as long; NULL on a machine of cores */
    double declared;                             /* queries/s expected at first; 0 = not known */
    double slowdown[MO_PRESSURE_LEVELS];         /* at each level of pressure; zeros = not known */
};

struct mo_sched;
int mo_sched_create(const struct mo_sched_config *config, struct mo_sched **out, moire_error *err);
void mo_sched_destroy(struct mo_sched *sched); /* NULL is fine */
/* What all cores share has been measured. */
void mo_sched_set_memory(struct mo_sched *sched, const struct mo_memory *memory);

/* Index of a new tenant through *out. */
int mo_sched_tenant_open(struct mo_sched *sched, const struct mo_sched_tenant_config *config, int64_t now,
                         int *out, moire_error *err);
/* Takes no more queries and resolves the open ones with `code`. */
void mo_sched_tenant_close(struct mo_sched *sched, int tenant, int code, int64_t now);
/* Queries of a tenant whose slots are not released. */
int mo_sched_tenant_pending(const struct mo_sched *sched, int tenant);
/* Forgets a closed tenant without pending queries. */
void mo_sched_tenant_free(struct mo_sched *sched, int tenant);

/* A query that comes in. */
struct mo_arrival {
    int64_t arrival;
    int64_t deadline;  /* absolute; 0 = by the tenant's target, MO_NEVER = none */
    bool expires;      /* it is answered MOIRE_EEXPIRED when that passes, whatever it does then */
    bool own_priority; /* `priority` is in place of the tenant's */
    int priority;
    uint64_t tag; /* of the user's, for the event log */
    void *user;
};
/* Accepts a query: MOIRE_OK and its slot, or MOIRE_EBUSY / MOIRE_ELIMIT / MOIRE_EUNLOADED.  One whose time
 * has passed when it comes is accepted, and decided at once. */
int mo_sched_accept(struct mo_sched *sched, int tenant, const struct mo_arrival *arrival, int64_t now,
                    int *slot, moire_error *err);
/* The same of one without wishes of its own. */
int mo_sched_arrival(struct mo_sched *sched, int tenant, int64_t arrival, void *user, int64_t now, int *slot,
                     moire_error *err);
/* The same with a deadline of its own (MO_NEVER: none) instead of the tenant's target. */
int mo_sched_arrival_by(struct mo_sched *sched, int tenant, int64_t arrival, int64_t deadline, void *user,
                        int64_t now, int *slot, moire_error *err);
/* The block led by core `lead` ended, and the one that is queued behind it begins.  ran: false when it came
 * after its latest start.  code: MOIRE_OK, or why the query failed: MOIRE_EDEVICE and MOIRE_ENOMEM are its
 * answer, all else is MOIRE_EFAILED.  Times are the worker's own.  inside: cores of the block that are not
 * out yet, though no layer of it is left to run; they come back later.  NULL = none. */
void mo_sched_block_done(struct mo_sched *sched, int lead, bool ran, int code, int64_t start, int64_t end,
                         const struct mo_cores *inside, int64_t now);
/* Cores that were asked to leave the running block of `lead` are out; or (lead = -1) cores that were inside a
 * block when it ended.  They are idle. */
void mo_sched_cores_back(struct mo_sched *sched, int lead, const struct mo_cores *cores, int64_t now);
void mo_sched_timer(struct mo_sched *sched, int64_t now);
/* --- on GPUs only --- */
/* The plan that ops.prepare was called for, until mo_sched_prepared(); NULL = none is coming. */
const struct mo_lets_plan *mo_sched_lets_coming(const struct mo_sched *sched);
/* Its lets can serve. */
void mo_sched_prepared(struct mo_sched *sched, int64_t now);
/* A GPU is lost, or is back.  A lost one is out of use: nothing begins there, no plan may name it, and what
 * is cut on it is answered MOIRE_EDEVICE; what waits is served elsewhere when the policy has planned anew.
 * The last one stays in use, so that its queries are answered with what it says.  Calls that change nothing
 * are fine. */
void mo_sched_gpu_lost(struct mo_sched *sched, int gpu, bool lost, int64_t now);
/* --- */
/* Resolves an open query with `code`; MOIRE_ESTALE when there is none of that handle or it is decided. */
int mo_sched_cancel(struct mo_sched *sched, uint64_t handle, int code, int64_t now);
/* The callback of a resolved query has returned. */
void mo_sched_answered(struct mo_sched *sched, int slot, int64_t now);
/* Resolves everything with `code` (shutdown without drain). */
void mo_sched_abort(struct mo_sched *sched, int code, int64_t now);

/* While held, no block starts; held by several callers at once it counts. */
void mo_sched_hold(struct mo_sched *sched);
void mo_sched_unhold(struct mo_sched *sched, int64_t now);

/* Queries accepted since the core was made. */
int64_t mo_sched_accepted(const struct mo_sched *sched);
const struct mo_view *mo_sched_view(const struct mo_sched *sched);
struct mo_queries *mo_sched_queries(struct mo_sched *sched);
struct mo_sched_stats *mo_sched_stats(struct mo_sched *sched);
/* What the devices draw by their model; NULL where mo_sched_config.power was. */
const struct mo_power_meter *mo_sched_power_meter(const struct mo_sched *sched);
#endif
