/* SPDX-License-Identifier: Apache-2.0
 * effort.h - how long the rest of a search takes, by what was done of it.
 *
 * A search compiles candidates and then times them.  The first goes by their number, the second by the work
 * of a candidate: how often it is run, times its predicted time, but never less than a slice of timing takes.
 * Layers come in order of their share, so that counting layers would promise far too much time at first. */
#ifndef MO_EFFORT_H
#define MO_EFFORT_H

struct mo_effort {
    double compiling_s, compiled; /* seconds, candidates */
    double timing_s, timed;       /* seconds, work */
};

/* The work of timing one candidate with that predicted time. */
double mo_effort_work(double predicted_ns);
void mo_effort_compiled(struct mo_effort *effort, double seconds, int candidates);
void mo_effort_timed(struct mo_effort *effort, double seconds, double work);
/* Seconds for that many candidates more, of that work in sum; below 0: nothing was done yet, who knows. */
double mo_effort_left(const struct mo_effort *effort, int candidates, double work);
/* Seconds that one candidate takes on average; 0: nothing was done yet. */
double mo_effort_each(const struct mo_effort *effort);
#endif
