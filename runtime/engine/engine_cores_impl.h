/* SPDX-License-Identifier: Apache-2.0
 * engine_cores_impl.h - the inside of the table of cores: for engine_cores.c (blocks begin and get other
 * cores), engine_cores_run.c (workers) and engine_cores_jobs.c (exclusive use). */
#ifndef MO_ENGINE_CORES_IMPL_H
#define MO_ENGINE_CORES_IMPL_H
#include "runtime/device/work_claims.h"
#include "runtime/device/team.h"
#include "runtime/engine/device_impl.h"
#include "runtime/engine/engine_cores.h"

/* A core is in a block until it says so or, when the block has ended without it, until it comes back. */
enum { MO_CORE_OUT, MO_CORE_IN, MO_CORE_LATE };

struct mo_core_place {
    struct mo_claims_member member;
    _Atomic uint32_t state;
    bool joined; /* it was asked into a block that ran already */
    bool guest;  /* who does its part waits for the query */
    char pad[55];
};

/* A block and the team that runs it.  Step 0 of the claims brings the input in, step i runs layer begin + i -
 * 1.  A member that holds no step and no piece may look at nothing else: the tenant may be gone when a late
 * one comes.  The object is free again when the block has ended and all are out. */
struct mo_team_block {
    struct mo_cores_engine *cores;
    struct mo_team_block *next_free;
    struct mo_claims claims;
    struct mo_claims_range *ranges;
    struct mo_run run;
    struct mo_device_model tenant;
    void *user;
    uint64_t handle;
    int64_t start; /* of the first step, and */
    bool drop;     /* it came too late to be run: written by who runs that step */
    /* under the lock */
    struct mo_cores inside, leaving; /* cores in the block, and those of them that are asked to leave */
    int n_inside;
    int64_t changes_ns; /* sum of the times at which cores left, less those at which cores joined */
};

struct mo_cores_engine {
    struct mo_device *device;
    const struct mo_env *env;
    struct mo_team_config team_config;
    struct mo_team *team;
    struct mo_team_block *blocks, *free; /* as many as cores: each has one core at least */
    struct mo_team_block **led;          /* by lead core: the block that runs; under the lock */
    struct mo_core_place *place;         /* of every core */
    void **scratch;
    int64_t scratch_bytes;
    struct mo_lock growing; /* guards scratch_bytes */
    int n;
    struct mo_lock exclusive; /* one exclusive job at a time */
    struct mo_recent recent;
    /* What is done when the lock has been let go: sleeping workers with a job are woken, and teams (by block)
     * in which one that is asked to leave may sleep are roused. */
    struct mo_cores wake, rouse;
    bool any_wake; /* or team to rouse */
};

/* The job of a member of a block. */
void mo_team_block_work(void *block, int core, int worker, int n_workers);
#endif
