/* SPDX-License-Identifier: Apache-2.0
 * parts.h - what the toolchain asks of a runtime beyond moire.h: what a loaded model consists of, for
 * whoever measures it, writes it into the store or reports on it, and a runtime on another environment.
 *
 * For tools/, bench/ and tests; a server needs moire.h only.  What is handed out belongs to the runtime or
 * the tenant, lives as long and is to be read, unless it says otherwise. */
#ifndef MO_SERVE_PARTS_H
#define MO_SERVE_PARTS_H
#include "runtime/engine/engine.h"
#include "runtime/engine/engine_cores.h"
#include "runtime/plan/compiled.h"
#include "runtime/plan/slow.h"

struct mo_sampler;
struct mo_store;
struct mo_request;

struct mo_runtime_parts {
    const struct mo_env *env;
    const struct mo_topology *topology;
    struct mo_device *cores;      /* the engine's last device */
    struct mo_device *device;     /* GPUs; NULL = none */
    const struct mo_gpus *gpus;   /* likewise */
    const struct mo_store *store; /* NULL: built-in kernels only */
    struct mo_sampler *sampler;   /* of counters, which may be held; NULL = none */
};
struct mo_runtime_parts mo_runtime_parts(const moire_runtime *runtime);

struct mo_tenant_parts {
    const char *name;
    const struct mo_graph *ports;
    /* Of cores; of a tenant that runs on GPUs only all of it is NULL or 0. */
    const struct mo_plan *plan;
    const struct mo_profile *profile;
    const struct mo_slow *slow;
    const struct mo_trusted_file *image; /* what the plan lies in when it came from the store; else NULL */
    struct mo_instance *instance;        /* the first of n_instances: what mo_tenant_sample() begins on */
    int n_instances;
    size_t request_bytes; /* of the copies of a query's inputs */
};
struct mo_tenant_parts mo_tenant_parts(const moire_tenant *tenant);

/* As moire_research_create(), with another environment (NULL = POSIX) and event rings of `events` entries. */
int mo_runtime_create(const moire_config *config, const struct mo_env *env, int64_t events,
                      moire_runtime **out, moire_error *err);
/* Whether models load from ONNX always, so that their plans can be stored: mo_image_record(). */
void mo_runtime_set_recording(moire_runtime *runtime, bool recording);
void mo_runtime_stats(moire_runtime *runtime, struct mo_sched_stats *out);
void mo_runtime_stats_reset(moire_runtime *runtime);
enum { MO_RUNTIME_ENERGY_LINE = 1600 };
/* Where moire_energy() has its joules from, and why not from elsewhere: one line, so long at most. */
int mo_runtime_energy_line(moire_runtime *runtime, char *out, size_t n, moire_error *err);
/* As moire_record(); what happened before `since` is marked as not of interest. */
int mo_runtime_dump(moire_runtime *runtime, int64_t since, const char *path, moire_error *err);

/* Begins a query of small positive numbers on instance 0, for measurements: its memory and inputs are there
 * then, whatever the load has measured.  *out, unless it is NULL, goes back by mo_serve_model.release(). */
int mo_tenant_sample(moire_tenant *tenant, struct mo_request **out, moire_error *err);
extern const struct mo_model_ops mo_serve_model; /* the engine's view of a tenant */
#endif
