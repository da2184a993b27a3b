/* SPDX-License-Identifier: Apache-2.0
 * sim_impl.h - the inside of the simulated engine: sim.c (virtual time around the core) and the devices,
 * which know how long a block takes and who slows whom (device_cores.c, device_gpus.c). */
#ifndef MO_SIM_IMPL_H
#define MO_SIM_IMPL_H
#include "runtime/sim/sim.h"

/* A block on its way.  What is looked at whenever another begins or ends comes first. */
struct mo_sim_work {
    int64_t end; /* its phase ends if nothing changes; */
    uint64_t order;
    int64_t seen;          /* `left` is as of this time */
    double left;           /* ns of solo time to go in its phase (resized.c) */
    double pace;           /* ns of real time for one of solo time */
    double demand;         /* bytes a ns that it asks of memory now, */
    double missed;         /* with this share of its model that caches do not hold, */
    struct mo_demand asks; /* of what it may ask */
    struct mo_run run;
    int64_t asked, begin; /* when it was decided; when its first layer runs */
    double whole, at;     /* of its phase: ns of solo time at its begin, where it began in the layers; */
    int stop;             /* it ends before this layer */
    bool ran;
    double factor;           /* its time over what profile and caches say */
    int64_t counted;         /* its cores' time up to then is in the statistics */
    struct mo_cores leaving; /* cores that go out when its phase ends; */
    struct mo_cores going;   /* of these, some that go at once: they wait for one that stands still */
    double part;             /* of its model: bytes in each slice it touches */
    int gpu;                 /* on GPUs: which, */
    struct mo_share_use use; /* and what it uses of it, alone */
};

/* What differs between machines. */
struct mo_sim_device {
    /* Solo time of a block, ns; fills what else is to be known of it. */
    double (*time)(struct mo_sim *s, const struct mo_run *run, struct mo_sim_work *w);
    /* When the first layer of a block runs that was decided at w->asked and whose cores are idle from now on.
     */
    int64_t (*begin)(struct mo_sim *s, const struct mo_run *run, const struct mo_sim_work *w);
    /* A block is about to end: what the live engine tells of its times.  NULL = nothing. */
    void (*ends)(const struct mo_sim *s, const struct mo_sim_work *w, uint64_t handle);
    /* A block has come (+1) or gone (-1): gives the others their new pace.  False: no end has moved. */
    bool (*changed)(struct mo_sim *s, const struct mo_sim_work *w, int change);
};
extern const struct mo_sim_device mo_sim_cores, mo_sim_gpus;

struct mo_sim {
    const struct mo_env *env;
    const struct mo_sim_device *device;
    struct mo_sim_machine machine;
    struct mo_sched *sched;
    struct mo_sim_config config;
    const struct mo_profile **profile; /* by tenant */
    struct mo_sim_work *work;          /* by lead core */
    struct mo_sim_work *queued;        /* likewise: `run` and `asked` of what begins then; batch 0 = none */
    int64_t *restored_at; /* by lead core: when the cores of its killed block are back; 0 = none was killed */
    int *running;         /* lead cores of running blocks */
    int n_running, first; /* first: of them, the one whose phase ends first; -1 = none */
    bool moved;           /* ends have moved: which one is first is to be found */
    bool slowed;          /* on cores: blocks slow each other down */
    int n_busy;           /* cores */
    struct mo_cores all, busy, resetting;
    int64_t restored;    /* the first of restored_at; MO_NEVER = nothing is reset */
    int64_t *idle_since; /* by core */
    struct mo_sim_reuse reuse;
    struct mo_query_list resolved;
    int64_t now, timer, unanswered, broken;
    double demand;   /* of all running blocks on memory, bytes a ns */
    int *active;     /* running blocks by tenant */
    double resident; /* bytes that the tenants with running blocks touch in a query */
    double *brought; /* by tenant: slices.c */
    uint64_t order, rng;
    /* GPUs */
    const struct mo_share_profile *const **share; /* by tenant */
    int64_t prepared;                             /* when the lets asked for are there; MO_NEVER = none are */
    int64_t copied[MO_PLAN_GPUS];                 /* when the link to the GPU is free */
};

/* What a start costs, drawn from what was measured. */
int64_t mo_sim_start(struct mo_sim *s, const struct mo_run *run, bool asleep);
/* What is left of a block goes on at a new pace. */
void mo_sim_repace(struct mo_sim *s, struct mo_sim_work *w, double pace);
/* What of a block's time has passed, at the pace that it had. */
void mo_sim_catch_up(const struct mo_sim *s, struct mo_sim_work *w);
/* When what is left of its phase is done if nothing changes. */
int64_t mo_sim_end_of(const struct mo_sim *s, const struct mo_sim_work *w);
/* What counters would say: the share of the memory ceiling that is asked for, or how crowded it is; and
 * whether the machine has such counters.  device_cores.c */
bool mo_sim_read_pressure(void *sim, int64_t now, const struct mo_cores *ending, double *pressure);
bool mo_sim_has_counters(const struct mo_sim_machine *machine);
/* Its cores' time so far goes into the statistics. */
void mo_sim_count(struct mo_sim *s, struct mo_sim_work *w);

/* The block of `lead` is no longer among those that run; its place stands until another begins there. */
void mo_sim_take_out(struct mo_sim *s, int lead);
/* killed.c: mo_engine_ops.reset; and the first cores that were reset are usable again. */
void mo_sim_reset(void *sim, int lead);
void mo_sim_restore(struct mo_sim *s);

/* resized.c: mo_engine_ops.resize; and the phase of a block ends that goes on without those who leave it. */
void mo_sim_resize(void *sim, const struct mo_resize *resize);
void mo_sim_end_phase(struct mo_sim *s, int lead);
void mo_sim_let_go(struct mo_sim *s, int lead);
#endif
