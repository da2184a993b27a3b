/* SPDX-License-Identifier: Apache-2.0
 * core_pressure.c - pressure from slowdown, and the core's reading of its source; see core_pressure.h. */
#include "runtime/sched/core_pressure.h"

#include <math.h>
#include <stdio.h>
#include "runtime/sched/core_impl.h"

enum { LINE = 160 };
/* UNCERTAINTY: how uncertain the mean is against its samples; sqrt(GAIN / (2 - GAIN)), and 1.25 to turn a
 * mean deviation into a standard one. */
static const double LEAST_RISE = 1.02, GAIN = 0.25, UNCERTAINTY = 0.47, LOG_STEP = 0.01;

double mo_pressure_of(const double curve[MO_PRESSURE_LEVELS], double observed) {
    if (curve[MO_PRESSURE_LEVELS - 1] < LEAST_RISE || observed <= curve[0]) return 0;
    for (int i = 1; i < MO_PRESSURE_LEVELS; i++)
        if (observed < curve[i])
            return (i - 1 + (observed - curve[i - 1]) / (curve[i] - curve[i - 1])) / (MO_PRESSURE_LEVELS - 1);
    return 1;
}

/* curve: NULL where the model is not tuned. */
static void observe(struct mo_observed *o, const double *curve, double ratio, int64_t base_ns) {
    double gain = GAIN * (base_ns < 1000000 ? (double)base_ns / 1e6 : 1); /* long blocks tell more */
    o->deviation += gain * (fabs(ratio - o->slowdown) - o->deviation);
    o->slowdown += gain * (ratio - o->slowdown);
    if (!curve) return;
    double uncertainty = UNCERTAINTY * o->deviation;
    if (o->pressure < mo_pressure_of(curve, o->slowdown - uncertainty) ||
        o->pressure > mo_pressure_of(curve, o->slowdown + uncertainty))
        o->pressure = mo_pressure_of(curve, o->slowdown);
}

void mo_sched_note_slowdown(struct mo_sched *s, int tenant, bool alone, double ratio, int64_t base_ns) {
    struct mo_sched_tenant *t = &s->tenants[tenant];
    observe(&t->observed, t->tuned ? t->curve : NULL, ratio, base_ns);
    if (!alone || !t->tuned) return;
    observe(&t->alone, t->curve, ratio, base_ns);
    s->outside = t->alone.pressure;
}

/* Mean over the blocks that run and do not end soon: those will interfere with nobody.  Where there is none,
 * what slowed blocks that ran alone. */
static double from_slowdown(const struct mo_sched *s) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < s->view.n_running; i++) {
        const struct mo_view_run *r = &s->runs[s->running[i]];
        if (mo_view_ends_soon(&s->view, r)) continue;
        const struct mo_sched_tenant *t = &s->tenants[s->queries.view[r->query].tenant];
        if (!t->tuned) continue;
        sum += t->observed.pressure;
        n++;
    }
    return n ? sum / n : s->outside;
}

/* What the source says, 0 when it has no value any more. */
static double from_source(struct mo_sched *s) {
    struct mo_cores ending = {0};
    double p = 0;
    for (int i = 0; i < s->view.n_running; i++) {
        const struct mo_view_run *r = &s->runs[s->running[i]];
        if (mo_view_ends_soon(&s->view, r)) mo_cores_join(&ending, &r->cores);
    }
    if (!s->source.read(s->source.self, s->view.now, &ending, &p)) {
        char line[LINE];
        snprintf(line, sizeof line, "pressure: %s has no value any more, observed slowdown takes over",
                 s->source.name);
        if (s->ops->say) s->ops->say(s->engine, MOIRE_LOG_WARN, line);
        s->source.read = NULL;
    }
    return p;
}

void mo_sched_read_pressure(struct mo_sched *s) {
    double p = s->source.read ? from_source(s) : 0;
    if (!s->source.read) p = s->tuned ? from_slowdown(s) : 0;
    p = p > 0 ? p < 1 ? p : 1 : 0; /* what is no number counts as 0 */
    s->view.pressure[MO_PRESSURE_CACHE] = p;
    bool changed = p > s->logged + LOG_STEP || p < s->logged - LOG_STEP || (p > 0) != (s->logged > 0);
    if (!changed || !s->ring) return;
    s->logged = p;
    mo_sched_log(s, s->view.now, MO_LOG_PRESSURE, -1, -1, (int64_t)(p * MO_EVENT_UNIT + 0.5),
                 s->source.read != NULL, 0);
}
