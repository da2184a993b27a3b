/* SPDX-License-Identifier: Apache-2.0
 * watt_bench.h - `moire bench wattwiser`: the experiments of WattWiser's section IV in simulation.
 *
 * Five pairs of models on four GPUs, each under WattWiser's four ways to distribute queries and under
 * moire-energy, with the same arrivals of every seed.  The load goes by steps (GPUs' folder, load.csv), in
 * parts of what two GPUs hold of a model by the paper's Table I.
 *
 * A pair and a policy are a piece: its seeds are runs on worker processes, and a finished piece is in the
 * document, which a later command may take up.  The same command gives the same document. */
#ifndef MO_BENCH_WATT_BENCH_H
#define MO_BENCH_WATT_BENCH_H
#include <jansson.h>
#include "bench/load/session.h"

enum { MO_WATT_POLICIES = 16 };

struct mo_watt_bench_options {
    const char *machine;                  /* file; its GPUs are of one type whose power it says */
    const char *policy[MO_WATT_POLICIES]; /* none: all five */
    int n_policies, n_seeds, jobs;        /* seeds 1 to n_seeds */
    double seconds;                       /* of a run, its steps equally long; 0: 20 a step */
    bool resume;
    const char *output; /* the document as it grows; NULL: in memory only */
};

/* *out: {"kind": "wattwiser", "experiment", "power": {...} (the GPUs' numbers, and whose they are),
 * "results":
 * [{"pair", "policy", "watts" (mean of all GPUs), "watts_ci" (half of the 95 % interval over seeds; null: one
 * seed), "saved_vs_uniform_pct", "saved_ci" (null: uniform was not run), "p95_over_slo" (of both models,
 * whole run), "worst_step_over_slo" (of both), "steps_over_slo_pct", "violations_pct" (queries that came and
 * were not answered within the SLO), "violations_ci", "awake" (mean GPUs), "joules_per_query",
 * "bound_joules_per_query", "over_bound_pct", "seeds", "by_seed" (watts), "timeline" (of the first seed:
 * lists "watts", "awake", "first", "second" by step, the last two p95 over SLO)}], "means": [{"policy",
 * "saved_vs_uniform_pct", "saved_ci" (over pairs), "violations_pct", "claimed_pct"}], "left_out",
 * "complete"}; NULL where nothing was begun.  MOIRE_EINVAL names an unknown policy; MOIRE_EINTERRUPTED comes
 * with what is done. */
int mo_watt_bench(struct mo_bench_session *session, const struct mo_watt_bench_options *options, json_t **out,
                  moire_error *err);
/* A new list with what the results say, a sentence each. */
json_t *mo_watt_bench_headline(const json_t *document);
void mo_watt_bench_print(const json_t *document);
/* A self-contained page. */
int mo_watt_bench_report(const struct mo_env *env, const json_t *document, const char *path,
                         moire_error *err);
#endif
