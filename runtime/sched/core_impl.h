/* SPDX-License-Identifier: Apache-2.0
 * core_impl.h - the inside of the core, shared by its files only. */
#ifndef MO_SCHED_IMPL_H
#define MO_SCHED_IMPL_H
#include "runtime/sched/machine_pace.h"
#include "runtime/sched/sched.h"

/* Slots ordered by (deadline, falling priority, order). */
struct mo_slot_list {
    int n, cap;
    int *slot;
};

/* How much slower blocks are than their profile says. */
struct mo_observed {
    double slowdown;            /* recent mean */
    double deviation, pressure; /* of single blocks from that mean; where it lies on the tenant's curve */
};

struct mo_sched_tenant {
    bool used;
    int queue, pending, instances;
    int n_free; /* free instances are free_instance[0 .. n_free) */
    int *free_instance;
    struct mo_slot_list waiting, paused;
    int64_t last_arrival;
    double gap;        /* recent mean of the time between arrivals */
    double own, usual; /* residual at the machine's profiled pace; and what it was when that was last */
    bool tuned;        /* curve is known: slowdown at each level of pressure */
    double curve[MO_PRESSURE_LEVELS];
    struct mo_observed observed, alone; /* of all blocks; of those that had no other beside them */
    bool cut_runs;                      /* on GPUs: a block of the batch that is cut into several */
    void *memory;
};

/* Lets of GPUs (lets.c). */
struct mo_sched_lets {
    const struct mo_gpus *gpus;
    struct mo_lets_plan *force, *coming;
    bool pending;
    bool *hosts;            /* [n_gpus][max_tenants]: the plan in force has the tenant on that GPU */
    short at[MO_MAX_CORES]; /* let in force whose first unit this is, -1 = none */
    bool down[MO_PLAN_GPUS], lost[MO_PLAN_GPUS];
    void *scratch; /* of planners */
    size_t scratch_bytes;
};

struct mo_sched;

/* What differs between units that any block may take, and units that a plan cuts into lets: on_cores.c,
 * on_lets.c.  Chosen once, by mo_sched_create(). */
struct mo_sched_units {
    /* 0 or MOIRE_ENOMEM; fills the view's part.  destroy() follows in any case. */
    int (*create)(struct mo_sched *s, const struct mo_gpus *gpus);
    void (*destroy)(struct mo_sched *s);
    /* Profiled time of a block alone, ns; the residual is left aside. */
    int64_t (*solo)(const struct mo_sched *s, int tenant, int lead, int n, int begin, int end, int batch);
    /* Whether these units may run the decision's query, should they be idle. */
    bool (*may_run)(const struct mo_sched *s, const struct mo_decision *d);
    /* Whether it may be queued behind the block that they run. */
    bool (*may_queue)(const struct mo_sched *s, const struct mo_decision *d, int lead);
    /* A block that was decided on begins, or is queued. */
    void (*begins)(struct mo_sched *s, const struct mo_decision *d, int lead);
    /* All is idle and nothing is to happen: chooses units, end and batch for d->query; false: none will do.
     */
    bool (*ensure_progress)(struct mo_sched *s, struct mo_decision *d, int64_t now);
    /* What the tenant has computed of a query between two blocks is gone, or will be when its block ends. */
    bool (*lost)(const struct mo_sched *s, int tenant);
    /* Takes a plan of lets when it can be served; false: it is refused. */
    bool (*ask)(struct mo_sched *s, const struct mo_lets_plan *plan);
    /* The tenant has left: no plan has it on a let any more. */
    void (*forget)(struct mo_sched *s, int tenant);
};
extern const struct mo_sched_units mo_sched_on_cores, mo_sched_on_lets;

struct mo_sched {
    const struct mo_env *env;
    const struct mo_policy *policy;
    const struct mo_sched_units *units;
    const struct mo_engine_ops *ops;
    void *engine;
    int64_t (*cost_clock)(void *engine);
    struct mo_ring *ring;
    int64_t block_config, order, timer_at, planned_at;
    int64_t watch_at; /* when blocks that run are looked at next; MO_NEVER = none runs */
    struct mo_pace pace;
    double common;         /* recent mean, over blocks, of own - usual of their tenants (learn.c) */
    int64_t replanned_for; /* order + 1 of the latest query that a plan was asked for early */
    int n_cores, max_tenants, held;
    bool missed;  /* something happened while held */
    int bounded;  /* tenants that have a bound on their cores */
    bool trimmed; /* by such a bound: cores are idle that the policy has given away */
    struct mo_view view;
    struct mo_view_tenant *tenant_views;
    struct mo_sched_tenant *tenants;
    struct mo_view_run *runs;   /* by lead core */
    struct mo_view_run *behind; /* on GPUs, likewise: the block that is queued behind that one */
    short *running;             /* view.running */
    struct mo_cores coming;     /* in no block any more, and not back yet */
    struct mo_queries queries;
    struct mo_slot_list expiring; /* live queries that end at their deadline, by (deadline, slot) */
    struct mo_decisions decisions;
    void *policy_state;
    struct mo_sched_stats stats;
    struct mo_pressure_source source; /* read NULL: observed slowdown */
    double logged;                    /* pressure of the latest event */
    double outside;                   /* pressure while nothing else ran here, the latest that was observed */
    int tuned;                        /* tenants with a curve */
    struct mo_sched_lets *lets;       /* of mo_sched_on_lets */
    struct mo_sched_power *power;     /* NULL: what devices draw is not known */
};

/* list of slots (slots.c) */
void mo_slot_insert(struct mo_slot_list *list, const struct mo_view_query *view, int slot);
/* A slot that was just inserted, and came last, takes the turn of those of lower priority behind it, and each
 * of these that of the next: policies that go by deadline and order so go by priority within a tenant, and
 * other tenants' turns stay where they are. */
void mo_slot_take_turn(const struct mo_slot_list *list, struct mo_view_query *view, int slot);
bool mo_slot_remove(struct mo_slot_list *list, const struct mo_view_query *view, int slot);
/* Where a slot stands, -1 when it is not there; takes n slots out from there on. */
int mo_slot_find(const struct mo_slot_list *list, const struct mo_view_query *view, int slot);
void mo_slot_cut(struct mo_slot_list *list, int at, int n);

/* resizing.c: carries a RESIZE out, if it may be; a block is at `at` now, its cores and its end are known. */
bool mo_sched_resize(struct mo_sched *s, const struct mo_decision *d, int64_t now);
void mo_sched_run_from(const struct mo_profile *profile, struct mo_view_run *run, double at, int64_t now);

/* core_bounds.c: the policy sees nothing to run of tenants that hold all cores that they may; and again. Cuts
 * a decision down to its tenant's bound; false: nothing is left of it. */
void mo_sched_hide_full(struct mo_sched *s);
void mo_sched_show_full(struct mo_sched *s);
bool mo_sched_trim(struct mo_sched *s, struct mo_decision *d);

/* reset.c: carries a RESET out, if it may be. */
bool mo_sched_reset(struct mo_sched *s, const struct mo_decision *d, int64_t now);

/* powering.c: 0 or MOIRE_ENOMEM, with NULL nothing is made; brings the meter up to date after blocks have
 * begun or ended; carries PARK and CLOCK out, if they may be. */
int mo_sched_power_create(struct mo_sched *s, const struct mo_power_machine *machine);
void mo_sched_power_destroy(struct mo_sched *s);
void mo_sched_power_note(struct mo_sched *s, int64_t now);
bool mo_sched_park(struct mo_sched *s, const struct mo_cores *units, int64_t now);
bool mo_sched_clock(struct mo_sched *s, int device, int clock, int64_t now);

/* lets.c */
int mo_sched_lets_create(struct mo_sched *s, const struct mo_gpus *gpus);
void mo_sched_lets_destroy(struct mo_sched *s);
void mo_sched_lets_forget(struct mo_sched *s, int tenant);
bool mo_sched_lets_ask(struct mo_sched *s, const struct mo_lets_plan *plan);
/* Whether the plan on its way, or else the one in force, has a let on the GPU. */
bool mo_sched_gpu_stays(const struct mo_sched *s, int gpu);
/* Whether exactly these units are a let in force. */
bool mo_sched_is_let(const struct mo_sched *s, const struct mo_cores *cores);
/* Whether exactly these units are a let that may run the tenant; and some let that may, or any on `gpu`
 * unless that is -1 (false: none). */
bool mo_sched_let_runs(const struct mo_sched *s, int tenant, const struct mo_cores *cores);
bool mo_sched_let_of(const struct mo_sched *s, int tenant, int gpu, struct mo_cores *out);

static inline int mo_sched_batch_of(const struct mo_decision *d) {
    return d->batch > 1 ? d->batch : 1;
}
/* The block of a lead core is among those that run. */
void mo_sched_add_running(struct mo_sched *s, int lead, int tenant);
/* It is no longer. */
void mo_sched_drop_running(struct mo_sched *s, int lead);
/* Mirrors a tenant's lists and instances into its view. */
void mo_sched_mirror(struct mo_sched *s, int tenant);
/* Asks the engine for the earliest of the policy's time, the first deadline of expiring, and the next look
 * at the blocks that run (expiry.c). */
void mo_sched_set_alarm(struct mo_sched *s);
/* The query ends at its deadline; false: that has passed. */
bool mo_sched_expire_at(struct mo_sched *s, int slot, int64_t now);
/* A resolved query is no longer to be expired. */
void mo_sched_expires_no_more(struct mo_sched *s, int slot);
/* Asks the policy and applies what it decided. */
void mo_sched_dispatch(struct mo_sched *s, enum mo_event_kind kind, int query, int tenant, int64_t now);
/* Decides the outcome of a live query, takes it out of the lists and tells the engine. */
bool mo_sched_resolve(struct mo_sched *s, int slot, int code, int64_t now);
/* Releases slot and instance when nothing needs them any more; true when it did. */
bool mo_sched_try_release(struct mo_sched *s, int slot, int64_t now);
/* learn.c: what a block that ended says about those to come; and when none has ended for long. */
void mo_sched_learn(struct mo_sched *s, const struct mo_view_run *run, int lead, int tenant, int64_t took_ns,
                    int64_t now);
void mo_sched_forget_pace(struct mo_sched *s, int64_t now);
/* late.c: a block begins; a look at those that run: true while one is late; one that was late has ended, or
 * goes on with other cores. */
void mo_sched_watch_from(struct mo_sched *s, int64_t now);
bool mo_sched_watch(struct mo_sched *s, int64_t now);
void mo_sched_late_ended(struct mo_sched *s, const struct mo_view_run *run, int64_t now);
void mo_sched_late_on(struct mo_sched *s, struct mo_view_run *run, int64_t now);
/* core_pressure.c: takes a block's observed over its profiled time, alone where no other ran beside it;
 * brings the view's pressure up to date. */
void mo_sched_note_slowdown(struct mo_sched *s, int tenant, bool alone, double ratio, int64_t base_ns);
void mo_sched_read_pressure(struct mo_sched *s);
void mo_sched_log(struct mo_sched *s, int64_t now, int kind, int slot, int tenant, int64_t a, int64_t b,
                  int64_t c);
#endif
