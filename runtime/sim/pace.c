/* SPDX-License-Identifier: Apache-2.0
 * pace.c - real time and profile time of a core; see pace.h. */
#include "runtime/sim/pace.h"

#include <math.h>

static const double *row_of(const struct mo_sim_pace *p, int core) {
    return p->done + (int64_t)core * (p->n_steps + 1);
}

/* Profile time done until t. */
static double done_at(const struct mo_sim_pace *p, int core, int64_t t) {
    const double *done = row_of(p, core);
    int64_t i = t / p->step_ns;
    if (i >= p->n_steps) return done[p->n_steps] + (double)(t - p->n_steps * p->step_ns);
    return done[i] + (done[i + 1] - done[i]) * (double)(t - i * p->step_ns) / (double)p->step_ns;
}

double mo_sim_pace_work(const struct mo_sim_pace *p, int core, int64_t from, int64_t to) {
    return done_at(p, core, to) - done_at(p, core, from);
}

int64_t mo_sim_pace_end(const struct mo_sim_pace *p, int core, int64_t from, double work) {
    const double *done = row_of(p, core);
    double goal = done_at(p, core, from) + work, step = (double)p->step_ns;
    if (goal >= done[p->n_steps]) {
        int64_t rest = (int64_t)ceil(goal - done[p->n_steps]), end = p->n_steps * p->step_ns + rest;
        return end > from ? end : from;
    }
    int lo = 0, hi = p->n_steps - 1; /* the step that it ends in */
    while (lo < hi) {
        int mid = lo + (hi - lo + 1) / 2;
        if (done[mid] <= goal)
            lo = mid;
        else
            hi = mid - 1;
    }
    int64_t end = lo * p->step_ns + (int64_t)ceil((goal - done[lo]) / (done[lo + 1] - done[lo]) * step);
    return end > from ? end : from;
}
