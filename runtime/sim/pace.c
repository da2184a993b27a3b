/* SPDX-License-Identifier: Apache-2.0
 * pace.c - real time and profile time of a core; see pace.h. */
#include "runtime/sim/pace.h"

#include <math.h>

static const double STANDS = 0.05; /* below that part of its profiled speed a core stands still */

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

static double rate_of(const struct mo_sim_pace *p, int core, int64_t i) {
    const double *done = row_of(p, core);
    return (done[i + 1] - done[i]) / (double)p->step_ns;
}

bool mo_sim_pace_stands(const struct mo_sim_pace *p, int core, int64_t at) {
    int64_t i = at / p->step_ns;
    return i < p->n_steps && rate_of(p, core, i) < STANDS;
}

/* Profile time a ns that a team does in a step; 1 behind the last. */
static double team_rate(const struct mo_sim_pace *p, const struct mo_cores *cores, int64_t i) {
    double sum = 0, least = INFINITY;
    int n = 0;
    if (i >= p->n_steps) return 1;
    for (int c = mo_cores_next(cores, -1); c >= 0; c = mo_cores_next(cores, c), n++) {
        double rate = rate_of(p, c, i);
        sum += rate;
        least = fmin(least, rate);
    }
    return least < STANDS ? least : sum / n;
}

double mo_sim_pace_team_work(const struct mo_sim_pace *p, const struct mo_cores *cores, int64_t from,
                             int64_t to) {
    int first = mo_cores_next(cores, -1);
    double work = 0;
    if (mo_cores_next(cores, first) < 0) return mo_sim_pace_work(p, first, from, to);
    for (int64_t i = from / p->step_ns; from < to; i++) {
        int64_t until = i >= p->n_steps || (i + 1) * p->step_ns > to ? to : (i + 1) * p->step_ns;
        work += team_rate(p, cores, i) * (double)(until - from);
        from = until;
    }
    return work;
}

int64_t mo_sim_pace_team_end(const struct mo_sim_pace *p, const struct mo_cores *cores, int64_t from,
                             double work) {
    int first = mo_cores_next(cores, -1);
    if (mo_cores_next(cores, first) < 0) return mo_sim_pace_end(p, first, from, work);
    for (int64_t i = from / p->step_ns;; i++) {
        double rate = team_rate(p, cores, i), rest = (double)((i + 1) * p->step_ns - from);
        if (i >= p->n_steps || work <= rate * rest) return from + (int64_t)ceil(work / rate);
        work -= rate * rest;
        from = (i + 1) * p->step_ns;
    }
}
