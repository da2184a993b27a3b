/* SPDX-License-Identifier: Apache-2.0
 * trace_head.c - the remarks of a trace: tenants, their profiles, cores, counters; and what reads a line. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "bench/data/trace_impl.h"

int mo_trace_fail(const struct mo_trace_reader *r, const char *why) {
    return mo_fail(r->err, MOIRE_EFORMAT, "%s:%d: %s", r->path, r->line, why);
}

bool mo_trace_number(const char **at, int64_t min, int64_t max, int64_t *out) {
    char *end;
    errno = 0;
    long long v = strtoll(*at, &end, 10);
    if (errno || end == *at || v < min || v > max || (*end && !strchr(" ,:", *end))) return false;
    *at = *end ? end + 1 : end;
    *out = v;
    return true;
}

bool mo_trace_starts(const char **at, const char *key) {
    size_t n = strlen(key);
    if (strncmp(*at, key, n) != 0) return false;
    *at += n;
    return true;
}

static int read_tenant(struct mo_trace_reader *r, const char *at) {
    int64_t index, layers, qos, best_effort, shed, priority;
    if (!mo_trace_number(&at, 0, MO_BENCH_MAX_TENANTS - 1, &index) ||
        !mo_trace_number(&at, 1, MO_TRACE_LAYERS, &layers) || !mo_trace_number(&at, 0, INT64_MAX, &qos) ||
        !mo_trace_number(&at, 0, 1, &best_effort) || !mo_trace_number(&at, 0, 1, &shed) ||
        !mo_trace_number(&at, INT32_MIN, INT32_MAX, &priority) || !*at)
        return mo_trace_fail(r, "not \"# tenant INDEX LAYERS QOS_NS BEST_EFFORT SHED_LATE PRIORITY NAME\"");
    struct mo_trace_tenant *t = &r->t->tenants[index];
    if (t->name[0]) return mo_trace_fail(r, "a tenant is named twice");
    t->n_layers = (int)layers;
    t->qos_ns = qos;
    t->best_effort = best_effort;
    t->shed_late = shed;
    t->priority = (int)priority;
    strncpy(t->name, at, sizeof t->name - 1);
    if (index >= r->t->n_tenants) r->t->n_tenants = (int)index + 1;
    return MOIRE_OK;
}

static int read_bounds(struct mo_trace_reader *r, const char *at) {
    int64_t index, cores;
    char *end = NULL;
    if (!mo_trace_number(&at, 0, r->t->n_tenants - 1, &index) ||
        !mo_trace_number(&at, 0, MO_TRACE_CORES, &cores))
        return mo_trace_fail(r, "not \"# bounds INDEX CORES WEIGHT\" of a tenant named before");
    const double weight = strtod(at, &end);
    if (end == at || *end || !(weight > 0 && weight <= 1e6))
        return mo_trace_fail(r, "bounds without a weight above 0");
    r->t->tenants[index].cores = (int)cores;
    r->t->tenants[index].weight = weight;
    return MOIRE_OK;
}

static int read_profile(struct mo_trace_reader *r, const char *at) {
    int64_t index, cores, ns;
    if (!mo_trace_number(&at, 0, r->t->n_tenants - 1, &index) ||
        !mo_trace_number(&at, 1, MO_TRACE_CORES, &cores))
        return mo_trace_fail(r, "not \"# profile INDEX CORES NS,...\" of a tenant named before");
    struct mo_trace_tenant *t = &r->t->tenants[index];
    if (t->n_counts == 64 || (t->n_counts && cores <= t->counts[t->n_counts - 1]))
        return mo_trace_fail(r, "the core counts of a profile must rise");
    int64_t *times = mo_region_array(r->t->region, (size_t)t->n_layers, sizeof *times);
    if (!times) return mo_fail(r->err, MOIRE_ENOMEM, "%s: out of memory", r->path);
    for (int l = 0; l < t->n_layers; l++) {
        if (!mo_trace_number(&at, 1, INT64_MAX / MO_TRACE_LAYERS, &ns))
            return mo_trace_fail(
                r, "a profile has fewer times than its tenant layers, or one that is not positive");
        times[l] = ns;
    }
    if (*at) return mo_trace_fail(r, "a profile has more times than its tenant layers");
    t->counts[t->n_counts] = (int)cores;
    t->times[t->n_counts++] = times;
    return MOIRE_OK;
}

static int read_cold(struct mo_trace_reader *r, const char *at) {
    int64_t index;
    if (!mo_trace_number(&at, 0, r->t->n_tenants - 1, &index))
        return mo_trace_fail(r, "not \"# cold INDEX BYTES:NS,...\" of a tenant named before");
    struct mo_trace_tenant *t = &r->t->tenants[index];
    if (t->bytes) return mo_trace_fail(r, "a second '# cold' line of a tenant");
    t->bytes = mo_region_array(r->t->region, (size_t)t->n_layers, sizeof *t->bytes);
    t->cold = mo_region_array(r->t->region, (size_t)t->n_layers, sizeof *t->cold);
    if (!t->bytes || !t->cold) return mo_fail(r->err, MOIRE_ENOMEM, "%s: out of memory", r->path);
    for (int l = 0; l < t->n_layers; l++)
        if (!mo_trace_number(&at, 0, INT64_MAX / MO_TRACE_LAYERS, &t->bytes[l]) ||
            !mo_trace_number(&at, 0, INT64_MAX / MO_TRACE_LAYERS, &t->cold[l]))
            return mo_trace_fail(r,
                                 "fewer pairs of bytes and times than the tenant has layers, or one below 0");
    return *at ? mo_trace_fail(r, "more pairs of bytes and times than the tenant has layers") : MOIRE_OK;
}

static int read_operations(struct mo_trace_reader *r, const char *at) {
    int64_t index;
    if (!mo_trace_number(&at, 0, r->t->n_tenants - 1, &index))
        return mo_trace_fail(r, "not \"# operations INDEX N,...\" of a tenant named before");
    struct mo_trace_tenant *t = &r->t->tenants[index];
    if (t->ops) return mo_trace_fail(r, "a second '# operations' line of a tenant");
    t->ops = mo_region_array(r->t->region, (size_t)t->n_layers, sizeof *t->ops);
    if (!t->ops) return mo_fail(r->err, MOIRE_ENOMEM, "%s: out of memory", r->path);
    for (int l = 0; l < t->n_layers; l++)
        if (!mo_trace_number(&at, 0, INT64_MAX / MO_TRACE_LAYERS, &t->ops[l]))
            return mo_trace_fail(r, "fewer operation counts than the tenant has layers, or one below 0");
    return *at ? mo_trace_fail(r, "more operation counts than the tenant has layers") : MOIRE_OK;
}

/* "SOURCE NAME,NAME": what this version calls them, too. */
static int read_counters(struct mo_trace_reader *r, const char *at) {
    for (const struct mo_source *const *s = mo_sources(); *s; s++) {
        const char *name = at;
        if (!(*s)->open || !mo_trace_starts(&name, (*s)->name) || !mo_trace_starts(&name, " ")) continue;
        for (int i = 0; i < (*s)->n; i++)
            if (!mo_trace_starts(&name, (*s)->observable[i]) ||
                !mo_trace_starts(&name, i + 1 < (*s)->n ? "," : ""))
                return mo_trace_fail(r, "a source whose counters are not those that this version knows");
        if (*name || r->t->source)
            return mo_trace_fail(r, "more counters than the source has, or a second source");
        r->t->source = *s;
        return MOIRE_OK;
    }
    return mo_trace_fail(r, "counters of a source that this version does not know");
}

int mo_trace_remark(struct mo_trace_reader *r, const char *at) {
    int64_t v;
    bool took;
    int code = mo_trace_gpu_remark(r, at, &took);
    if (code || took) return code;
    if (mo_trace_starts(&at, "# tenant ")) return read_tenant(r, at);
    if (mo_trace_starts(&at, "# bounds ")) return read_bounds(r, at);
    if (mo_trace_starts(&at, "# profile ")) return read_profile(r, at);
    if (mo_trace_starts(&at, "# cold ")) return read_cold(r, at);
    if (mo_trace_starts(&at, "# operations ")) return read_operations(r, at);
    if (mo_trace_starts(&at, "# counters ")) return read_counters(r, at);
    if (mo_trace_starts(&at, "# policy ")) {
        strncpy(r->t->policy, at, sizeof r->t->policy - 1);
    } else if (mo_trace_starts(&at, "# cores ")) {
        if (!mo_trace_number(&at, 1, MO_TRACE_CORES, &v)) return mo_trace_fail(r, "not a number of cores");
        if (r->t->cores) return mo_trace_fail(r, "a second '# cores' line");
        r->t->cores = (int)v;
    } else if (mo_trace_starts(&at, "# cache ")) {
        if (!mo_trace_number(&at, 0, INT64_MAX, &r->t->cache))
            return mo_trace_fail(r, "not a number of bytes");
    } else if (mo_trace_starts(&at, "# since ")) {
        if (!mo_trace_number(&at, 0, INT64_MAX, &r->t->since)) return mo_trace_fail(r, "not a time");
    } else if (mo_trace_starts(&at, "# dropped ")) {
        if (!mo_trace_number(&at, 0, INT64_MAX, &v)) return mo_trace_fail(r, "not a number of events");
        if (v) return mo_trace_fail(r, "events were lost: record a shorter run, or with more events");
    } else if (mo_trace_starts(&at, "# end ")) {
        if (!mo_trace_number(&at, 0, INT64_MAX, &r->end)) return mo_trace_fail(r, "not a number of events");
    }
    return MOIRE_OK;
}
