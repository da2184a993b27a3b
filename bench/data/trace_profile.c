/* SPDX-License-Identifier: Apache-2.0
 * trace_profile.c - profiles of a trace's tenants, for core counts that it has and for others; see trace.h.
 */
#include "bench/data/trace.h"

/* a / c + b through the two largest counts; what grows with the cores stays as it was. */
static int64_t amdahl(const struct mo_trace_tenant *t, int layer, int cores) {
    int last = t->n_counts - 1;
    double high = (double)t->times[last][layer], inverse = 1.0 / t->counts[last];
    if (last < 1) return (int64_t)high;
    double low = (double)t->times[last - 1][layer], step = 1.0 / t->counts[last - 1] - inverse;
    double shared = (low - high) / step, fixed = high - shared * inverse;
    if (shared <= 0) return (int64_t)high;
    if (fixed < 0) { /* better than its cores explain: noise; no better than that from here on */
        fixed = 0;
        shared = high / inverse;
    }
    return (int64_t)(shared / cores + fixed) + 1;
}

int mo_trace_profile(const struct mo_env *env, const struct mo_trace_tenant *t, int cores,
                     struct mo_profile **out, moire_error *err) {
    if (!t->n_counts) return mo_fail(err, MOIRE_EINVAL, "the trace has no profile of tenant '%s'", t->name);
    struct mo_profile *p = mo_profile_create(env, t->n_layers, cores);
    int64_t *row = mo_alloc(env, (size_t)t->n_layers * sizeof *row);
    int code = p && row ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for a profile");
    for (int k = 0; !code && k < t->n_counts; k++)
        if (t->counts[k] <= cores) mo_profile_record(p, t->counts[k], t->times[k]);
    for (int l = 0; !code && t->counts[0] > cores && l < t->n_layers; l++) /* at best the same core time */
        row[l] = t->times[0][l] * t->counts[0] / cores;
    if (!code && t->counts[0] > cores) mo_profile_record(p, cores, row);
    for (int c = t->counts[t->n_counts - 1] + 1; !code && c <= cores; c++) {
        for (int l = 0; l < t->n_layers; l++)
            row[l] = amdahl(t, l, c);
        mo_profile_record(p, c, row);
    }
    if (!code && t->bytes) {
        mo_profile_traffic(p, t->bytes);
        mo_profile_cold(p, t->cold);
    }
    if (!code && t->ops) mo_profile_operations(p, t->ops);
    mo_free(env, row);
    if (code) {
        mo_profile_destroy(p);
        return code;
    }
    mo_profile_finish(p);
    *out = p;
    return MOIRE_OK;
}

double mo_trace_mean_pressure(const struct mo_trace *t, int64_t from, int64_t to) {
    double sum = 0;
    int first = 0, last = t->n_pressures; /* the one in force at `from`, or the first of all */
    while (last - first > 1) {
        int middle = first + (last - first) / 2;
        if (t->pressures[middle].time <= from)
            first = middle;
        else
            last = middle;
    }
    for (int i = first; i < t->n_pressures && t->pressures[i].time < to; i++) {
        int64_t begin = t->pressures[i].time > from ? t->pressures[i].time : from;
        int64_t end = i + 1 < t->n_pressures && t->pressures[i + 1].time < to ? t->pressures[i + 1].time : to;
        if (end > begin) sum += t->pressures[i].value * (double)(end - begin);
    }
    return to > from ? sum / (double)(to - from) : 0;
}
