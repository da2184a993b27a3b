/* SPDX-License-Identifier: Apache-2.0
 * engine_cores.h - the table of cores: blocks on worker teams, one worker a core.
 *
 * The worker that ends a block takes the lock, reports, and the policy's next blocks are in the mailboxes
 * (often its own) when it lets go; then it delivers answers. */
#ifndef MO_ENGINE_CORES_H
#define MO_ENGINE_CORES_H
#include "runtime/device/team.h"
#include "runtime/device/topology.h"
#include "runtime/engine/device.h"
#include "runtime/engine/recent.h"

extern const struct mo_device_calls mo_engine_cores;

struct mo_engine_cores_options {
    const struct mo_topology *topology; /* lives as long as the engine */
    bool no_pin, lent;                  /* lent: workers come by mo_engine_cores_work() */
};

/* --- of a device of cores only --- */
/* Scratch memory every worker has for kernels; grows when a tenant needs more (while the workers are held).
 */
int mo_engine_cores_scratch(struct mo_device *device, int64_t bytes, moire_error *err);
/* What threads beside the workers need to be where these are: spin_ns and background are the caller's to set.
 */
struct mo_team_config mo_engine_cores_team(struct mo_device *device);
/* Runs fn(ctx, core, worker, n) on the first n cores while no block runs; returns when all have.  The
 * neighbours wait meanwhile, so keep it short. */
void mo_engine_cores_exclusive(struct mo_device *device, int n,
                               void (*fn)(void *ctx, int core, int worker, int n_workers), void *ctx);
/* What its cores have worked on lately. */
struct mo_recent *mo_engine_cores_recent(struct mo_device *device);
/* The calling thread becomes the worker of a core; see mo_team_work(). */
int mo_engine_cores_work(struct mo_device *device, int core);
#endif
