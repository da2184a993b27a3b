/* SPDX-License-Identifier: Apache-2.0
 * seed_run.h - all loads of one system under the arrivals of one seed: those that were asked for, and those
 * that the search for the highest load probes. */
#ifndef MO_BENCH_SEED_RUN_H
#define MO_BENCH_SEED_RUN_H
#include "bench/load/serve.h"

/* Each tenant is to expect so many queries in a probe, which for that lasts at most so many times
 * `seconds`. */
enum { MO_BENCH_ENOUGH_QUERIES = 100, MO_BENCH_LONGEST_PROBE = 4 };

/* How long a probe lasts at these rates, and with a search a load that was asked for on its grid: until the
 * rarest tenant has queries enough, within its limits. */
double mo_bench_probe_seconds(const struct mo_bench_serve_options *options, const double *rates, int n);
/* True when every tenant with a rate had queries in this run: one without says nothing of its target. */
bool mo_bench_all_asked(const json_t *point);
/* False when the run left more unanswered than one may that keeps up (bench/load/backlog.h). */
bool mo_bench_kept_up(const json_t *point);

/* Highest load that held the goal, by criterion (load_search.h): -1 = not searched, 0 = none did. */
struct mo_bench_found {
    double max_load[2];
    int guess[2]; /* where the next search begins, on the grid */
};
struct mo_bench_found mo_bench_no_guess(const struct mo_bench_serve_options *options);
/* Load of a point of the grid. */
double mo_bench_grid_load(const struct mo_bench_serve_options *options, int point);
/* All loads of one seed, and the search when one is asked for; *row is one element of "results", also after
 * an error (what has been measured). */
int mo_bench_seed(struct mo_bench_session *session, const struct mo_bench_player *player,
                  const struct mo_bench_mix *mix, const struct mo_bench_serve_options *options, uint64_t seed,
                  struct mo_bench_found *found, json_t **row, moire_error *err);
/* The load at which a system describes itself: the highest that held, or the highest asked for. */
double mo_bench_telling_load(const struct mo_bench_serve_options *options,
                             const struct mo_bench_found *found);
#endif
