/* SPDX-License-Identifier: Apache-2.0
 * engine.h - carries decisions out on real devices in real time: the one engine of a runtime.
 *
 * An engine is a list of devices (device.h), in the order of preference: GPUs, then cores.  Every call walks
 * that list or goes to the device that a tenant or a handle names; none asks of what kind it is.
 *
 * Each device has a scheduler core, a lock and a service thread of its own.  They are not one core because
 * their policies are not one policy: on cores a block takes any set of idle cores for a part of a
 * millisecond, on GPUs a plan of lets holds for seconds and batches wait for it; and one lock for both would
 * make a worker that has ended a block wait for decisions about GPUs.  What joins them is the engine: a query
 * that a device has failed may be submitted to a later one under the handle that its owner has
 * (mo_engine_take_over()), is cancelled by it there, is waited for, and is counted once.
 *
 * Threads: any, for every call but create and destroy. */
#ifndef MO_ENGINE_H
#define MO_ENGINE_H
#include "runtime/engine/device.h"

enum { MO_ENGINE_DEVICES = 4 };

struct mo_engine_config {
    const struct mo_env *env;
    int n_devices;
    struct mo_device_config device[MO_ENGINE_DEVICES];
};

struct mo_engine;
/* What the devices' options point to must outlive the engine where they say so. */
int mo_engine_create(const struct mo_engine_config *config, struct mo_engine **out, moire_error *err);
/* Every tenant must be closed before.  NULL is fine. */
void mo_engine_destroy(struct mo_engine *engine);
int mo_engine_devices(const struct mo_engine *engine);
struct mo_device *mo_engine_device(const struct mo_engine *engine, int device);

/* Loads a tenant on a device.  *tenant names both: it is one number for the calls below. */
int mo_engine_open(struct mo_engine *engine, int device, const struct mo_device_tenant *config, int *tenant,
                   moire_error *err);
/* Resolves what is open with `code`, waits until every slot is free, forgets the tenant. */
void mo_engine_close(struct mo_engine *engine, int tenant, int code);
/* Which device it was opened on; its number in the scheduler core and the events of that. */
int mo_engine_device_of(int tenant);
int mo_engine_index(int tenant);

/* arrival 0: now.  user is what answer() and release() of the tenant's model get. */
int mo_engine_submit(struct mo_engine *engine, int tenant, int64_t arrival, void *user, uint64_t *handle,
                     moire_error *err);
/* n queries under one lock, so that the policy sees them together and workers are woken once.  Each says in
 * `code` whether it was accepted; the error is that of the first that was not. */
void mo_engine_submit_all(struct mo_engine *engine, int tenant, struct mo_device_query *queries, int n,
                          moire_error *err);
/* Waits until no query of a tenant is unanswered where it was opened, nor holds anything. */
void mo_engine_quiet(struct mo_engine *engine, int tenant);
/* As mo_device_now(), of a tenant's device. */
void mo_engine_now(struct mo_engine *engine, int tenant, struct mo_device_now *out);
/* As mo_engine_submit(), of a query that was answered to us with a failure and not to its owner, who knows it
 * as `known`: it keeps that handle.  To be called from answer(), on a tenant of a later device. */
int mo_engine_take_over(struct mo_engine *engine, int tenant, const struct mo_arrival *arrival,
                        uint64_t known, moire_error *err);
/* Wherever it is now.  MOIRE_ESTALE: there is none of that handle, or it is decided. */
int mo_engine_cancel(struct mo_engine *engine, uint64_t handle);
/* The calling thread does what `guest` of a query that it has submitted says; the tenant may be gone. */
void mo_engine_be_guest(struct mo_engine *engine, int tenant, int core);
/* Waits until no accepted query is unanswered. */
void mo_engine_drain(struct mo_engine *engine);
/* Resolves everything with `code`; answers follow from the engine's threads. */
void mo_engine_abort(struct mo_engine *engine, int code);

/* Of all devices; a query that was taken over counts once, as the later device answered it.  The most queries
 * in the system are those of each device in turn. */
void mo_engine_stats(struct mo_engine *engine, struct mo_sched_stats *out);
void mo_engine_stats_reset(struct mo_engine *engine);
#endif
