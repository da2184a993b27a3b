/* SPDX-License-Identifier: Apache-2.0
 * gpu.h - tenants on GPUs behind the public calls: the device of a runtime with its engine, and what a tenant
 * has there.
 *
 * A model that can be lowered runs on the GPUs, where the runtime has any; its plan for cores stays, and
 * takes over a query that a GPU failed (illegal access, hang, lost, out of memory).  A model that cannot be
 * lowered runs on cores, with one line in the log.  A tenant that says `device_only` has no plan for cores:
 * nothing of it is compiled, packed or measured there, and what the GPU says is the answer.
 *
 * A query's tensors lie in staging memory from submit to release, so nothing is copied on the host but by
 * moire_submit(). */
#ifndef MO_SERVE_GPU_H
#define MO_SERVE_GPU_H
#include "runtime/gpu/loader.h"
#include "runtime/engine/engine_gpu.h"
#include "runtime/planner/inss/inss_plan.h"
#include "runtime/serve/gpu_programs.h"
#include "runtime/serve/runtime.h"

/* --- a runtime's device --- */
struct mo_serve_device {
    struct mo_gpu_device device;
    struct mo_gpus gpus;
    struct mo_engine_gpu_options options;
    int number; /* in the engine */
    const struct mo_policy *policy;
    struct mo_policy_file learned; /* that `gpus` names where the policy decides by one; else all zeros */
    char *folder;                  /* of profiles, owned; NULL = measured at load */
    enum mo_gpu_precision precision;
    int max_batch;
    uint64_t models; /* loaded so far */
};
/* As the config says: opens the runtime's device and puts it on the engine's list, like `device` but for what
 * is its own.  Nothing when the config names none. */
int mo_serve_device_open(moire_runtime *runtime, const moire_config *config,
                         const struct mo_device_config *device, struct mo_engine_config *engine,
                         moire_error *err);
void mo_serve_device_close(moire_runtime *runtime); /* the engine is gone */

/* --- a tenant on it --- */
struct mo_gpu_request;
struct mo_serve_gpu {
    moire_tenant *tenant;
    struct mo_share_profile *share[MO_PLAN_KINDS]; /* owned */
    struct mo_profile *profile;                    /* a layer a segment */
    struct mo_sched_tenant_config serving;         /* as the engine was told */
    struct mo_graph *ports; /* of a tenant without a plan for cores, owned; else NULL */
    int n_inputs, n_outputs;
    int64_t staging_bytes;  /* of a query */
    int64_t weight_bytes;   /* on all GPUs that have it */
    _Atomic int64_t staged; /* staging memory of all queries */
    int64_t *offset;        /* [n_inputs + n_outputs] into it */
    struct mo_lock pool_lock;
    struct mo_gpu_request *pool; /* free ones */
    _Atomic int64_t moved;       /* queries that the next place took over */
};
/* Puts the tenant, whose plan is there unless it is device_only, on the GPUs, the first of its places; *out
 * NULL: it stays on cores. */
int mo_serve_gpu_open(moire_tenant *tenant, const char *path, const moire_tenant_config *config,
                      struct mo_serve_gpu **out, moire_error *err);
/* Of a tenant that is closed. */
void mo_serve_gpu_free(struct mo_serve_gpu *gpu);
#endif
