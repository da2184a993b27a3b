/* SPDX-License-Identifier: Apache-2.0
 * trace_pace.c - the speed of the machine over time, from a trace; see trace.h.
 *
 * In every step of 20 ms: profile time that the blocks on a core should have taken, over the time that they
 * did take there.  That is short against the seconds for which a host's other guests stay, and long against a
 * block, so that how single layers differ from their profile evens out. */
#include "bench/data/trace.h"

static const int64_t step_ns = 20000000;
static const double slowest = 1e-3, fastest = 8;

/* Mean of a tenant's block times over its profile. */
static double level(const struct mo_sim_spread *s, bool several) {
    double sum = 0;
    for (int i = 0; i < MO_SIM_PARTS; i++)
        sum += s->ratio[several][i];
    return sum / MO_SIM_PARTS;
}

/* Distributes a span over the steps that it covers: busy time and profile time. */
static void distribute(const struct mo_trace_span *s, int64_t origin, double expected, int n_steps,
                       double *busy, double *work) {
    int64_t begin = s->begin - origin, end = s->end - origin;
    double rate = end > begin ? expected / (double)(end - begin) : 0;
    if (begin < 0) begin = 0;
    for (int64_t i = begin / step_ns; i < n_steps && i * step_ns < end; i++) {
        int64_t from = i * step_ns > begin ? i * step_ns : begin;
        int64_t to = (i + 1) * step_ns < end ? (i + 1) * step_ns : end;
        busy[i] += (double)(to - from);
        work[i] += (double)(to - from) * rate;
    }
}

int mo_trace_pace(const struct mo_trace *t, const struct mo_sim_spread *spread, bool stalls,
                  struct mo_sim_pace *out, moire_error *err) {
    int64_t origin = t->queries[0].comes, last = t->n_spans ? t->spans[t->n_spans - 1].end : origin;
    int n = last > origin ? (int)((last - origin) / step_ns) + 1 : 1;
    size_t cells = (size_t)t->cores * ((size_t)n + 1);
    *out = (struct mo_sim_pace){step_ns, n, t->cores, mo_region_array(t->region, cells, sizeof *out->done)};
    double *busy = mo_region_array(t->region, (size_t)n, sizeof *busy);
    double *work = mo_region_array(t->region, (size_t)n, sizeof *work);
    if (!out->done || !busy || !work) return mo_fail(err, MOIRE_ENOMEM, "out of memory for the pace");
    for (int c = 0; c < t->cores; c++) {
        double *done = out->done + (size_t)c * ((size_t)n + 1), rate = 1;
        for (int i = 0; i < n; i++)
            busy[i] = work[i] = 0;
        for (int i = 0; i < t->n_spans; i++) {
            const struct mo_trace_span *s = &t->spans[i];
            if (s->core == c && (stalls || !s->stalled))
                distribute(s, origin, s->predicted * level(&spread[s->tenant], s->cores > 1), n, busy, work);
        }
        for (int i = 0; i < n; i++) {
            if (busy[i] > 0) rate = work[i] / busy[i];
            rate = rate < slowest ? slowest : rate > fastest ? fastest : rate;
            done[i + 1] = done[i] + rate * (double)step_ns;
        }
    }
    return MOIRE_OK;
}
