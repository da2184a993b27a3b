/* SPDX-License-Identifier: Apache-2.0
 * record.c - writes what a runtime has done as a trace that `moire whatif` reads: the event history
 * with everything before it that a replay needs to know.
 *
 *   # policy NAME
 *   # since NS                                    events before it are of no interest
 *   # counters SOURCE NAME,NAME,...               what the values of COUNTERS are; only with counters
 *   # tenant INDEX LAYERS QOS_NS BEST_EFFORT SHED_LATE PRIORITY NAME
 *   # bounds INDEX CORES WEIGHT                   cores at once, 0 = no bound; only where either is set
 *   # profile INDEX CORES NS,NS,...               the solo time of each layer, a line a measured core count
 *   # cold INDEX BYTES:NS,BYTES:NS,...            of each layer: traffic, and what it takes besides on cold
 *                                                 caches
 *   # operations INDEX N,N,...                  of each layer, a multiply-add is two; only when known
 *   # cache BYTES                                 of the last level; only when known
 *
 * Of a runtime whose tenants run on GPUs (record_gpus.c) the history is that of the GPUs, its cores are
 * their units, and there are lines besides.  Tenants that stay on cores are not in it, and a query that
 * cores took over is there as the GPU answered it.
 *
 * A name may hold anything but a line's end, which becomes a space. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "runtime/serve/gpu.h"
#include "runtime/serve/record.h"

void mo_record_name(FILE *f, const char *name) {
    for (const char *s = name; *s; s++)
        fputc(*s == '\n' || *s == '\r' ? ' ' : *s, f);
    fputc('\n', f);
}

void mo_record_tenant(FILE *f, int index, const char *name, const struct mo_sched_tenant_config *c) {
    const struct mo_profile *p = c->profile;
    fprintf(f, "# tenant %d %d %" PRId64 " %d %d %d ", index, p->n_layers, c->qos_ns, c->best_effort,
            c->shed_late, c->priority);
    mo_record_name(f, name);
    if (c->cores || (c->weight > 0 && c->weight != 1))
        fprintf(f, "# bounds %d %d %.9g\n", index, c->cores, c->weight > 0 ? c->weight : 1);
    for (int n = 1; n <= p->max_cores; n++) {
        if (!p->measured[n]) continue;
        fprintf(f, "# profile %d %d ", index, n);
        for (int l = 0; l < p->n_layers; l++)
            fprintf(f, "%" PRId64 "%c", mo_profile_time(p, n, l, l + 1), l + 1 < p->n_layers ? ',' : '\n');
    }
}

static void put_cold(FILE *f, const moire_tenant *t) {
    const struct mo_profile *p = t->profile;
    fprintf(f, "# cold %d ", mo_tenant_index(t, t));
    for (int l = 0; l < p->n_layers; l++)
        fprintf(f, "%" PRId64 ":%" PRId64 "%c", t->plan->steps[l].bytes, p->cold[l + 1] - p->cold[l],
                l + 1 < p->n_layers ? ',' : '\n');
}

static void put_operations(FILE *f, const moire_tenant *t) {
    const struct mo_profile *p = t->profile;
    fprintf(f, "# operations %d ", mo_tenant_index(t, t));
    for (int l = 0; l < p->n_layers; l++)
        fprintf(f, "%" PRId64 "%c", mo_profile_ops(p, l, l + 1), l + 1 < p->n_layers ? ',' : '\n');
}

static void put_counters(FILE *f, const struct mo_source *s) {
    fprintf(f, "# counters %s ", s->name);
    for (int i = 0; i < s->n; i++)
        fprintf(f, "%s%c", s->observable[i], i + 1 < s->n ? ',' : '\n');
}

static void put_cores(FILE *f, const moire_runtime *rt) {
    fprintf(f, "# policy %s\n", rt->policy->name);
    if (rt->topology->l3_bytes > 0) fprintf(f, "# cache %" PRId64 "\n", rt->topology->l3_bytes);
    if (rt->sampler) put_counters(f, mo_sampler_source(rt->sampler));
    for (const moire_tenant *t = rt->tenants; t; t = t->next) {
        mo_record_tenant(f, mo_tenant_index(t, t), t->name, &t->serving);
        if (t->profile->cold[t->profile->n_layers] > 0) put_cold(f, t);
        if (mo_profile_ops(t->profile, 0, t->profile->n_layers) > 0) put_operations(f, t);
    }
}

static bool on_gpus(const moire_runtime *rt) {
    for (const moire_tenant *t = rt->tenants; t; t = t->next)
        if (t->gpu) return true;
    return false;
}

int mo_runtime_dump(moire_runtime *rt, int64_t since, const char *path, moire_error *err) {
    bool gpus = on_gpus(rt);
    struct mo_device *device = gpus ? mo_engine_device(rt->engine, rt->device->number) : rt->cores;
    char *text = NULL;
    size_t n = 0;
    if (!mo_device_events(device))
        return mo_fail(err, MOIRE_EINVAL, "the runtime records nothing: set `record` in its config");
    FILE *f = open_memstream(&text, &n);
    if (f) {
        fprintf(f, "# since %" PRId64 "\n", since);
        if (gpus)
            mo_record_gpus(f, rt);
        else
            put_cores(f, rt);
    }
    bool bad = !f || ferror(f);
    if (f && fclose(f)) bad = true;
    mo_sampler_hold(rt->sampler);
    int code =
        bad ? mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path) : mo_device_dump(device, text, path, err);
    mo_sampler_unhold(rt->sampler);
    free(text);
    return code;
}

int moire_record(moire_runtime *rt, const char *path, moire_error *err) {
    if (!rt || !path) return mo_fail(err, MOIRE_EINVAL, "moire_record: runtime and path must be given");
    int rc = mo_runtime_here(rt, err);
    return rc ? rc : mo_runtime_dump(rt, 0, path, err);
}
