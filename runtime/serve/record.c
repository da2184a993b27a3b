/* SPDX-License-Identifier: Apache-2.0
 * record.c - writes what a runtime has done as a trace that `moire whatif` reads: the event history
 * with everything before it that a replay needs to know.
 *
 *   # policy NAME
 *   # since NS                                    events before it are of no interest
 *   # counters SOURCE NAME,NAME,...               what the values of COUNTERS are; only with counters
 *   # tenant INDEX LAYERS QOS_NS BEST_EFFORT SHED_LATE PRIORITY NAME
 *   # profile INDEX CORES NS,NS,...               the solo time of each layer, a line a measured core count
 *   # cold INDEX BYTES:NS,BYTES:NS,...            of each layer: traffic, and what it takes besides on cold
 * caches # cache BYTES                                 of the last level; only when known
 *
 * A name may hold anything but a line's end, which becomes a space. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "runtime/serve/runtime.h"

static void put_profile(FILE *f, const moire_tenant *t) {
    const struct mo_profile *p = t->profile;
    for (int c = 1; c <= p->max_cores; c++) {
        if (!p->measured[c]) continue;
        fprintf(f, "# profile %d %d ", t->index, c);
        for (int l = 0; l < p->n_layers; l++)
            fprintf(f, "%" PRId64 "%c", mo_profile_time(p, c, l, l + 1), l + 1 < p->n_layers ? ',' : '\n');
    }
}

static void put_cold(FILE *f, const moire_tenant *t) {
    const struct mo_profile *p = t->profile;
    fprintf(f, "# cold %d ", t->index);
    for (int l = 0; l < p->n_layers; l++)
        fprintf(f, "%" PRId64 ":%" PRId64 "%c", t->plan->steps[l].bytes, p->cold[l + 1] - p->cold[l],
                l + 1 < p->n_layers ? ',' : '\n');
}

static void put_tenant(FILE *f, const moire_tenant *t) {
    const struct mo_sched_tenant_config *c = &t->serving;
    fprintf(f, "# tenant %d %d %" PRId64 " %d %d %d ", t->index, t->profile->n_layers, c->qos_ns,
            c->best_effort, c->shed_late, c->priority);
    for (const char *s = t->name; *s; s++)
        fputc(*s == '\n' || *s == '\r' ? ' ' : *s, f);
    fputc('\n', f);
    put_profile(f, t);
    if (t->profile->cold[t->profile->n_layers] > 0) put_cold(f, t);
}

static void put_counters(FILE *f, const struct mo_source *s) {
    fprintf(f, "# counters %s ", s->name);
    for (int i = 0; i < s->n; i++)
        fprintf(f, "%s%c", s->observable[i], i + 1 < s->n ? ',' : '\n');
}

int mo_runtime_dump(moire_runtime *rt, int64_t since, const char *path, moire_error *err) {
    struct mo_events *events = mo_engine_events(rt->engine);
    char *text = NULL;
    size_t n = 0;
    if (!events) return mo_fail(err, MOIRE_EINVAL, "the runtime records nothing: set `record` in its config");
    FILE *f = open_memstream(&text, &n);
    if (f) {
        fprintf(f, "# policy %s\n# since %" PRId64 "\n", rt->policy->name, since);
        if (rt->topology->l3_bytes > 0) fprintf(f, "# cache %" PRId64 "\n", rt->topology->l3_bytes);
        if (rt->sampler) put_counters(f, mo_sampler_source(rt->sampler));
        for (const moire_tenant *t = rt->tenants; t; t = t->next)
            put_tenant(f, t);
    }
    bool bad = !f || ferror(f);
    if (f && fclose(f)) bad = true;
    mo_sampler_hold(rt->sampler);
    int code = bad ? mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path)
                   : mo_events_dump(events, mo_engine_cores(rt->engine), text, path, err);
    mo_sampler_unhold(rt->sampler);
    free(text);
    return code;
}

int moire_record(moire_runtime *rt, const char *path, moire_error *err) {
    if (!rt || !path) return mo_fail(err, MOIRE_EINVAL, "moire_record: runtime and path must be given");
    return mo_runtime_dump(rt, 0, path, err);
}
