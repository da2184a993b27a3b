/* SPDX-License-Identifier: Apache-2.0
 * engine_impl.h - the inside of the live engine, shared by its files: engine_live.c (what callers do),
 * engine_work.c (what workers and the service thread do), and those of GPUs (engine_gpu_impl.h). */
#ifndef MO_ENGINE_IMPL_H
#define MO_ENGINE_IMPL_H
#include "runtime/device/barrier.h"
#include "runtime/device/team.h"
#include "runtime/engine/engine_live.h"

/* Event rings beside one a core: of the lock's holder, of the service thread, of a thread of the user's. */
enum { MO_RING_LOCKED, MO_RING_SERVICE, MO_RING_GUEST, MO_RINGS_BESIDE };

/* One let a lead core: the block it runs and the barrier of its members. */
struct mo_let {
    struct mo_engine *engine;
    struct mo_run run;
    struct mo_barrier barrier;
    struct mo_barrier_flag *flags;
    _Atomic int rc;
    _Atomic bool drop;
    int64_t start;
};

struct mo_engine_tenant {
    const struct mo_model_ops *ops;
    void *model;
};

struct mo_engine {
    const struct mo_env *env;
    struct mo_lock lock;
    struct mo_sched *sched;
    struct mo_team *team;
    struct mo_events *events;
    struct mo_let *lets;
    struct mo_engine_tenant *tenants;
    void **scratch;
    int64_t scratch_bytes, timer_at, since;
    int n_cores;
    struct mo_query_list resolved;
    struct mo_lock exclusive; /* one exclusive job at a time */
    struct mo_thread service;
    bool service_started, stop;
    _Atomic uint32_t bell;    /* rings the service thread */
    _Atomic uint32_t changes; /* grows whenever a slot was released or a block ended while somebody waits */
    _Atomic int waiters;
    int64_t cpu_before;
    /* calls to the system that the lock's holder owes once it lets go */
    struct mo_cores wake;
    bool any_wake, bell_due;
    struct mo_engine_gpu *gpu; /* lets of GPUs in place of a team (engine_gpu.h); NULL = cores */
};

/* The core's table; `engine` is a struct mo_engine. */
extern const struct mo_engine_ops mo_engine_table;
/* The service thread's function. */
void *mo_engine_serve(void *engine);

struct mo_ring *mo_engine_ring(struct mo_engine *e, int which);
void mo_engine_take(struct mo_engine *e);
/* Lets go, then wakes whom the locked section gave work; on GPUs it hands that work over. */
void mo_engine_drop(struct mo_engine *e);
/* The same, but what was started on GPUs stays to be handed over. */
void mo_engine_let_go(struct mo_engine *e);
void mo_engine_ring_bell(struct mo_engine *e);
/* Tells threads that wait for a change of the core's state. */
void mo_engine_note_change(struct mo_engine *e);
#endif
