/* SPDX-License-Identifier: Apache-2.0
 * fidelity.h - `moire fidelity`: how well the simulator predicts live runs on this machine.
 *
 * One run is recorded first, under the first policy at the middle load and with a seed of its own: from it
 * come what blocks take beside others and what it costs to start them.  Then every policy at every load is
 * run and recorded, and its arrivals are simulated twice: on the profiles alone, which the runtime measures
 * when it loads the models, and with the costs of the first recording.  No figure is predicted from its own
 * run. */
#ifndef MO_BENCH_FIDELITY_H
#define MO_BENCH_FIDELITY_H
#include "bench/serve.h"

struct mo_bench_fidelity_options {
    struct mo_bench_serve_options serve; /* policies, loads, seconds, the first seed */
    const char *output;                  /* NULL = not written */
    bool resume;
};

/* Fills *out: {"kind": "fidelity", "scenario", "results": [{"policy", "load", "overall", "solo": {"overall",
 * "points", "p95"}, "measured": {...}, "tenants": [...]}]}, also when interrupted.  points: largest
 * difference of a share in time, in points; p95: largest relative difference of a tenant with 20 queries or
 * more. */
int mo_bench_fidelity(struct mo_bench_session *session, const struct mo_bench_fidelity_options *options,
                      json_t **out, moire_error *err);
void mo_bench_fidelity_print(const json_t *document);
#endif
