/* SPDX-License-Identifier: Apache-2.0
 * policy.h - what a policy sees and what it may ask for.
 *
 * A policy is a pure function of the view, the event and its own state: given the same events it decides the
 * same, live or in virtual time.  It never touches a clock, a device or memory of its own making.  The core
 * (runtime/sched/sched.c) checks every decision before it is carried out; a bad one is refused and counted.
 *
 * Adding a policy = one file in runtime/policy and one row in its policy_table.c. */
#ifndef MO_POLICY_H
#define MO_POLICY_H
#include "runtime/base/cores.h"
#include "runtime/power/power.h"
#include "runtime/sched/gpus.h"
#include "runtime/sched/objective.h"
#include "runtime/sched/demand.h"

#define MO_NEVER INT64_MAX

/* Parts of the pressure, each 0 (none) to 1; runtime/sched/core_pressure.h. */
enum { MO_PRESSURE_COMPUTE, MO_PRESSURE_BANDWIDTH, MO_PRESSURE_CACHE, MO_PRESSURES };

/* What happened. */
enum mo_event_kind {
    MO_EVENT_ARRIVAL, /* query was accepted */
    MO_EVENT_DONE,    /* a block of query ended: its let is idle */
    MO_EVENT_TIMER,   /* the time the policy asked for has come */
    MO_EVENT_FREED,   /* an instance or cores came free (after a reset, too), a query was cancelled, a tenant
                         went */
    MO_EVENT_LETS,    /* the lets that were asked for are in force */
    MO_EVENT_GPUS,    /* a GPU is lost, or is back */
    MO_EVENT_LATE,    /* a block is late; again every few milliseconds until it ends */
};

struct mo_event {
    enum mo_event_kind kind;
    int query, tenant; /* -1 = none */
};

/* A query that was accepted and is not answered.  Index = its slot. */
struct mo_view_query {
    int tenant;
    int next_layer;            /* first layer that has not run */
    int64_t arrival, deadline; /* deadline MO_NEVER: no QoS */
    int64_t started;           /* when its first block was dispatched; 0 = not yet */
    int priority;              /* the tenant's, or its own */
    int64_t order;             /* breaks ties: acceptances counted, or the turn of a lower priority */
    int last_core;             /* lead core of its latest block, -1 = none: its cache is warm there */
    int last_cores;            /* size of that let */
    bool decided;              /* it has its answer: only a block of it still runs */
    int run; /* index into view.runs, or view.behind, while a block runs or is queued, else -1 */
};

/* A block on its let.  What policies look at in every block stands together. */
struct mo_view_run {
    int query; /* slot of its first query, -1 = entry unused */
    int batch; /* queries that it answers together */
    int begin, end;
    int n_cores;           /* inside, with those that leave */
    int n_leaving, wanted; /* wanted: cores it would have liked; more than stay: it may grow */
    int resized;           /* times */
    int64_t start, predicted_end;
    int64_t late_since; /* when it should have ended: long ago, as a rule a core of it stands still, and
                           predicted_end is a guess; 0 = it is not late.  On cores only */
    double pressure;    /* for which its versions were chosen */
    bool alone;         /* no other block has run since it began */
    int64_t unhindered; /* what it was predicted to take on the cores it wanted; 0 = it began on as many */
    int64_t since; /* as predicted it was at `at` then: layers, and the part that was done of the next, */
    double at;     /* of which the rest runs on n_cores, and what follows on those that stay; */
    double layer_left, left; /* profiled ns from there to the end of that layer, and of the block */
    double pace;             /* of the machine, by which its end was predicted */
    struct mo_cores cores;
    struct mo_cores leaving; /* asked to leave and still inside; part of cores */
};

struct mo_view_tenant {
    bool open; /* false: unused, or being unloaded */
    int priority;
    bool best_effort, shed_late;
    int64_t qos_ns;  /* 0 = none */
    int cores, held; /* cores: no more at once, 0 = no bound; held: where there is one, those of its blocks */
    double weight;   /* of its share where not all can be served; 0 = 1 */
    const struct mo_profile *profile;
    const struct mo_share_profile *const *share; /* by kind of GPU; NULL = it runs on none */
    double declared;                             /* queries/s that are expected at first; 0 = not known */
    double residual; /* observed / profiled block time: its own recent mean, at the machine's present pace */
    double attained; /* share of its recent answers within QoS, 0..1; starts at 1 */
    double load;     /* recent arrivals per ns x one-core time: cores it needs */
    int64_t answered, in_time;
    int free_instances; /* queries that may start beside those that have started */
    int n_waiting, n_paused;
    int n_running;      /* blocks */
    const int *waiting; /* slots not started, by (deadline, falling priority, order) */
    /* Slots between two blocks, in the same order.  On GPUs a tenant has one batch at a time that is cut
     * into blocks: it stays whole and on its GPU, so these are all of it. */
    const int *paused;
    int paused_gpu; /* where; -1 = none is cut */
};

struct mo_view {
    int64_t now, block_ns; /* block_ns: bound on a block's predicted time */
    int n_cores, n_idle;
    int n_late;    /* cores of late blocks: not to be counted on for now */
    double pace;   /* ns that blocks take now for each that they should, whoever's they are; 1 on GPUs */
    int max_batch; /* queries that one block may take; 1 where shapes are fixed */
    bool resizes;  /* blocks may gain and lose cores while they run */
    bool resets; /* running blocks of best-effort tenants may be killed (MO_RESET); their cores are out of */
    int64_t reset_ns; /* use for so long then, and in no block and not idle */
    struct mo_cores idle;
    int n_tenants;      /* entries of tenants, open or not */
    int n_in_system;    /* accepted and not answered */
    int64_t min_qos_ns; /* tightest of the open tenants, 0 = none */
    enum mo_objective objective;
    const struct mo_view_tenant *tenants;
    const struct mo_view_query *queries;
    const struct mo_view_run *runs; /* n_cores entries */
    int n_running;
    const short *running; /* indices into runs of the blocks that run, rising */
    /* GPUs: likewise, the block that is queued behind the one of runs; NULL on a machine of cores. */
    const struct mo_view_run *behind;
    double pressure[MO_PRESSURES];
    struct mo_memory memory;
    double resident;     /* bytes that the tenants with running blocks touch in a query */
    const void *options; /* the policy's own, mo_policy.options */
    /* A machine of GPUs: its cores are units of them.  All NULL on a machine of cores. */
    const struct mo_gpus *gpus;
    const struct mo_lets_plan *lets; /* in force; NULL = none yet.  Its tenants are indices into tenants */
    bool lets_coming;                /* a plan is being prepared: no other can be asked for */
    const bool *gpu_down; /* by GPU: its old lets are gone, its new ones not there; or it is lost */
    const bool *gpu_lost; /* by GPU: no plan may have a let on it */
    void *scratch;        /* for planners, mo_plan_scratch_bytes() of it */
    size_t scratch_bytes;
    /* Where the machine's power is known; else NULL, and neither PARK nor CLOCK may be decided. */
    const struct mo_power_machine *power;
    struct mo_cores parked;     /* units; not among `idle` */
    const unsigned char *clock; /* by device of power */
};

enum mo_decision_kind {
    /* Layers [next_layer, end) of query, and of the batch behind it, on cores.  These are idle; or on GPUs
     * they are a let whose block ends its batch, nothing is queued there, and this one is a whole batch: then
     * it begins when that block ends, whatever has happened until then. */
    MO_RUN,
    /* Answer query without a result: waiting or paused, or in a late block; only of shed_late tenants. */
    MO_SHED,
    MO_TIMER, /* dispatch again at `when` at the latest; replaces an earlier wish */
    MO_LETS,  /* prepare the lets of `plan` behind those in force, then serve on them: MO_EVENT_LETS */
    /* The block that `query` runs goes on with `cores`: idle ones among them join it at once, its own that
     * are left out leave it at the end of its present layer at the latest.  Its lead stays, and who was asked
     * to leave is not called back.  Only where view.resizes. */
    MO_RESIZE,
    /* The block that `query` runs is killed, and what its queries have computed so far is lost: they wait
     * again, from their first layer on, in their old places.  Its cores are idle after view.reset_ns.  Only
     * where view.resets, and only blocks of best-effort tenants. */
    MO_RESET,
    /* The same for work that consists of short pieces which may run twice (REEF's kernels): what earlier
     * blocks have computed stays, and the query is paused before the block's first layer.  Cores only. */
    MO_RESET_BLOCK,
    /* Exactly `cores` are parked from now on: each is idle or parked already.  The others wake up. */
    MO_PARK,
    MO_CLOCK, /* blocks that begin on `device` of view.power from now on run at `clock` */
};

/* Why a block ends where it does; told to whoever looks, nothing rests on it. */
enum mo_cut {
    MO_CUT_UNTOLD,
    MO_CUT_MODEL,    /* the model ends there; the core fills this in */
    MO_CUT_BOUND,    /* one layer more would exceed the bound on a block's time */
    MO_CUT_MEET,     /* it ends about when blocks on other cores do, so that these come free together */
    MO_CUT_PIVOT,    /* the next layer needs clearly more cores than its model's average */
    MO_CUT_CONFLICT, /* fewer cores are free than it needs: its first layer alone */
    MO_CUT_SIZE,     /* so many layers are a block */
    MO_CUTS
};

struct mo_decision {
    enum mo_decision_kind kind;
    int query, end;
    int batch; /* RUN: query and the batch - 1 behind it in its tenant's list, all at one layer; 0 = 1 */
    struct mo_cores cores;
    int64_t when;    /* TIMER: the time; RUN: latest start, MO_NEVER = any */
    int wanted;      /* RUN, RESIZE: cores it would have liked; a RUN on fewer counts as a conflict */
    enum mo_cut cut; /* RUN: why it ends at `end` */
    double pressure; /* RUN: for which the versions of the layers are chosen; 0 = the fastest alone */
    const struct mo_lets_plan *plan; /* LETS: copied when it is taken */
    int device, clock;               /* CLOCK */
};

struct mo_decisions {
    int n, cap;
    struct mo_decision *list;
};

struct mo_policy {
    const char *name, *description;
    bool gpus;              /* for machines of GPUs, and for no others */
    bool research;          /* for studies, not for service */
    bool clocks;            /* chooses clocks of cores (MO_CLOCK) */
    bool simulated;         /* no engine but the simulated one does what its plans say */
    bool learned;           /* decides by mo_gpus.learned, and only where that is given */
    bool no_pace, no_watch; /* for studies: the core follows no pace; no block counts as late */
    const void *options;    /* handed through view.options */
    size_t state_bytes;     /* zeroed by the core, 64-byte aligned */
    void (*init)(void *state, const struct mo_view *view); /* may be NULL */
    void (*plan)(void *state, const struct mo_view *view); /* may be NULL; else before the first dispatch
                                                               after each plan_period_ns */
    int64_t plan_period_ns;
    void (*dispatch)(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out);
};

/* All policies of machines of cores, NULL-terminated; and one by name (NULL: none such). */
const struct mo_policy *const *mo_policies(void);
/* Those of machines of GPUs, NULL-terminated.  mo_policy_find() knows them too. */
const struct mo_policy *const *mo_policy_servers(void);
/* `moire` less one part each, for the ablation table, all for research; NULL-terminated.  mo_policy_find()
 * knows them too. */
const struct mo_policy *const *mo_policy_ablations(void);
/* Those that choose which GPUs serve: WattWiser's, and moire-energy; NULL-terminated.  mo_policy_find() knows
 * them too. */
const struct mo_policy *const *mo_policy_wattwisers(void);
/* Those of two classes of tasks on machines of cores (flexy.c), some for research; NULL-terminated.
 * mo_policy_find() knows them too. */
const struct mo_policy *const *mo_policy_classes(void);
/* On cores, with some of them parked and at lower clocks (moire_packed.c). */
const struct mo_policy *const *mo_policy_packed(void);
const struct mo_policy *mo_policy_find(const char *name);
/* One to serve with, on GPUs or on cores; rows for research only where `research` says so.  MOIRE_EINVAL
 * names those there are. */
int mo_policy_choose(const char *name, bool gpus, bool research, const struct mo_policy **out,
                     moire_error *err);
/* "a, b, c" of those on GPUs or on cores that are for research, or for service, cut to n bytes; returns it.
 */
const char *mo_policy_names(bool gpus, bool research, char *out, size_t n);

/* Appends a decision; when the list is full it is dropped, and the query simply waits for the next event. */
static inline void mo_decide_want(struct mo_decisions *out, int query, int end, struct mo_cores cores,
                                  int wanted) {
    if (out->n < out->cap)
        out->list[out->n++] = (struct mo_decision){
            .kind = MO_RUN, .query = query, .end = end, .cores = cores, .when = MO_NEVER, .wanted = wanted};
}
static inline void mo_decide_run(struct mo_decisions *out, int query, int end, struct mo_cores cores) {
    mo_decide_want(out, query, end, cores, 0);
}
/* Why the block decided last ends where it does. */
static inline void mo_decide_cut(struct mo_decisions *out, enum mo_cut cut) {
    if (out->n) out->list[out->n - 1].cut = cut;
}
static inline void mo_decide_shed(struct mo_decisions *out, int query) {
    if (out->n < out->cap) out->list[out->n++] = (struct mo_decision){.kind = MO_SHED, .query = query};
}
static inline void mo_decide_batch(struct mo_decisions *out, int query, int batch, int end,
                                   struct mo_cores cores) {
    if (out->n < out->cap)
        out->list[out->n++] = (struct mo_decision){
            .kind = MO_RUN, .query = query, .batch = batch, .end = end, .cores = cores, .when = MO_NEVER};
}
static inline void mo_decide_resize(struct mo_decisions *out, int query, struct mo_cores cores, int wanted) {
    if (out->n < out->cap)
        out->list[out->n++] =
            (struct mo_decision){.kind = MO_RESIZE, .query = query, .cores = cores, .wanted = wanted};
}
static inline void mo_decide_reset(struct mo_decisions *out, int query) {
    if (out->n < out->cap) out->list[out->n++] = (struct mo_decision){.kind = MO_RESET, .query = query};
}
static inline void mo_decide_reset_block(struct mo_decisions *out, int query) {
    if (out->n < out->cap) out->list[out->n++] = (struct mo_decision){.kind = MO_RESET_BLOCK, .query = query};
}
static inline void mo_decide_lets(struct mo_decisions *out, const struct mo_lets_plan *plan) {
    if (out->n < out->cap) out->list[out->n++] = (struct mo_decision){.kind = MO_LETS, .plan = plan};
}
static inline void mo_decide_park(struct mo_decisions *out, struct mo_cores parked) {
    if (out->n < out->cap) out->list[out->n++] = (struct mo_decision){.kind = MO_PARK, .cores = parked};
}
static inline void mo_decide_clock(struct mo_decisions *out, int device, int clock) {
    if (out->n < out->cap)
        out->list[out->n++] = (struct mo_decision){.kind = MO_CLOCK, .device = device, .clock = clock};
}
static inline void mo_decide_timer(struct mo_decisions *out, int64_t when) {
    if (out->n < out->cap) out->list[out->n++] = (struct mo_decision){.kind = MO_TIMER, .when = when};
}

/* The blocks of this dispatch take their versions by the pressure at hand. */
static inline void mo_decide_pressure(struct mo_decisions *out, const struct mo_view *view) {
    for (int i = 0; i < out->n; i++)
        if (out->list[i].kind == MO_RUN) out->list[i].pressure = view->pressure[MO_PRESSURE_CACHE];
}

/* What a tenant takes on a GPU; NULL = it does not run there. */
static inline const struct mo_share_profile *mo_view_share(const struct mo_view *view, int tenant, int gpu) {
    const struct mo_view_tenant *t = &view->tenants[tenant];
    return t->share ? t->share[view->gpus->kind[gpu]] : NULL;
}
/* Part of a model's time that layers [begin, end) take, 0 to 1. */
static inline double mo_view_part(const struct mo_profile *p, int cores, int begin, int end) {
    int64_t all = mo_profile_time(p, cores, 0, p->n_layers);
    if ((begin == 0 && end == p->n_layers) || all <= 0) return 1;
    return (double)mo_profile_time(p, cores, begin, end) / (double)all;
}
/* On GPUs: the share that a let of n units has, alone there. */
static inline int mo_view_let_share(const struct mo_view *view, int gpu, int n) {
    if (view->lets && view->lets->side_by_side) return MO_SHARE_WHOLE;
    return mo_share_of_units(n, mo_gpus_kind(view->gpus, gpu)->units);
}
/* On GPUs: profiled time of layers [begin, end) for `batch` queries at once on a let of n units from `lead`
 * on, alone and with the copies; the residual is left aside.  A part of the layers takes its part of the
 * whole by the tenant's profile. */
static inline int64_t mo_view_let_time(const struct mo_view *view, int tenant, int lead, int n, int begin,
                                       int end, int batch) {
    int gpu = view->gpus->gpu_of[lead];
    const struct mo_share_profile *p = mo_view_share(view, tenant, gpu);
    int share = mo_view_let_share(view, gpu, n);
    if (!p) return MO_SHARE_NEVER;
    int64_t whole = mo_share_latency(p, batch, share) + mo_share_copy(p, batch);
    return (int64_t)((double)whole * mo_view_part(view->tenants[tenant].profile, n, begin, end));
}
/* Most cores that a block of the tenant can have on this machine. */
static inline int mo_view_widest(const struct mo_view *view, const struct mo_view_tenant *t) {
    return t->cores && t->cores < view->n_cores ? t->cores : view->n_cores;
}
static inline double mo_view_weight(const struct mo_view_tenant *t) {
    return t->weight > 0 ? t->weight : 1;
}
/* Predicted time of layers [begin, end) of a tenant on `cores`, with its residual. */
static inline int64_t mo_view_time(const struct mo_view_tenant *t, int cores, int begin, int end) {
    return (int64_t)((double)mo_profile_time(t->profile, cores, begin, end) * t->residual);
}
/* What is left of a query on `cores`, not counting a block that runs now. */
static inline int64_t mo_view_left(const struct mo_view *view, int query, int cores) {
    const struct mo_view_query *q = &view->queries[query];
    const struct mo_view_tenant *t = &view->tenants[q->tenant];
    return mo_view_time(t, cores, q->next_layer, t->profile->n_layers);
}
/* At most a tenth of the block's time is left: what begins now will hardly meet it (VELTAIR, section 4.3). */
static inline bool mo_view_ends_soon(const struct mo_view *view, const struct mo_view_run *run) {
    return 10 * (run->predicted_end - view->now) <= run->predicted_end - run->start;
}
/* Where a running block is by now, as predicted: layers that are done, and the part of the next one. */
double mo_view_place(const struct mo_view *view, const struct mo_view_run *run);
/* The layer that a running block is in by now, as predicted; its last one when it should have ended. */
int mo_view_layer(const struct mo_view *view, const struct mo_view_run *run);
/* What is left of a running block, as predicted, were it on n cores from now on; with the residual.  0 when
 * it should have ended. */
int64_t mo_view_rest(const struct mo_view *view, const struct mo_view_run *run, int n);
/* End of the next block of a query on `cores` under the view's bound. */
static inline int mo_view_block(const struct mo_view *view, int query, int cores) {
    const struct mo_view_query *q = &view->queries[query];
    const struct mo_view_tenant *t = &view->tenants[q->tenant];
    return mo_profile_block(t->profile, cores, q->next_layer,
                            (int64_t)((double)view->block_ns / t->residual));
}
#endif
