/* SPDX-License-Identifier: Apache-2.0
 * parts.c - the parts of runtimes and tenants, for the toolchain; see parts.h. */
#include "runtime/serve/parts.h"

#include "runtime/serve/gpu.h"

struct mo_runtime_parts mo_runtime_parts(const moire_runtime *rt) {
    return (struct mo_runtime_parts){.env = &rt->env,
                                     .topology = rt->topology,
                                     .cores = rt->cores,
                                     .device =
                                         rt->device ? mo_engine_device(rt->engine, rt->device->number) : NULL,
                                     .gpus = rt->device ? &rt->device->gpus : NULL,
                                     .store = rt->store,
                                     .sampler = rt->sampler};
}

struct mo_tenant_parts mo_tenant_parts(const moire_tenant *t) {
    return (struct mo_tenant_parts){.name = t->name,
                                    .ports = t->ports,
                                    .plan = t->plan,
                                    .profile = t->profile,
                                    .slow = t->plan ? &t->slow : NULL,
                                    .image = t->compiled.file.bytes ? &t->compiled.file : NULL,
                                    .instance = t->n_instances ? t->instances[0] : NULL,
                                    .n_instances = t->n_instances,
                                    .request_bytes = t->request_bytes};
}

void mo_runtime_set_recording(moire_runtime *rt, bool recording) {
    rt->recording = recording;
}

void mo_runtime_stats(moire_runtime *rt, struct mo_sched_stats *out) {
    mo_engine_stats(rt->engine, out);
}

void mo_runtime_stats_reset(moire_runtime *rt) {
    mo_engine_stats_reset(rt->engine);
}
