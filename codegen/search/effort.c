/* SPDX-License-Identifier: Apache-2.0
 * effort.c - the rest of a search in seconds; see effort.h. */
#include "codegen/search/effort.h"

static const double SLICE_NS = 3e6, ROUNDS = 5, CHECKS = 6; /* as measure.c and oracle.c run a candidate */

double mo_effort_work(double predicted_ns) {
    double once = predicted_ns > SLICE_NS ? predicted_ns : SLICE_NS;
    return ROUNDS * once + CHECKS * (predicted_ns > 0 ? predicted_ns : 0);
}

void mo_effort_compiled(struct mo_effort *e, double seconds, int candidates) {
    e->compiling_s += seconds;
    e->compiled += candidates;
}

void mo_effort_timed(struct mo_effort *e, double seconds, double work) {
    e->timing_s += seconds;
    e->timed += work;
}

double mo_effort_left(const struct mo_effort *e, int candidates, double work) {
    if (e->compiled <= 0 || e->timed <= 0) return candidates > 0 ? -1 : 0;
    return e->compiling_s / e->compiled * candidates + e->timing_s / e->timed * work;
}

double mo_effort_each(const struct mo_effort *e) {
    return e->compiled > 0 ? (e->compiling_s + e->timing_s) / e->compiled : 0;
}
