/* SPDX-License-Identifier: Apache-2.0
 * tables.h - `moire tables`: scenarios x arrival processes x policies on a simulated machine, as one table
 * beside what VELTAIR's paper claims.
 *
 * A piece is one scenario under one process, and each policy of it a whole `moire sim --find-max`.  What
 * rows are made of is in the document as soon as a policy is through, so that a run can be resumed, with
 * further policies, too. */
#ifndef MO_BENCH_TABLES_H
#define MO_BENCH_TABLES_H
#include "bench/sim/simulate.h"

enum { MO_BENCH_MAX_PIECES = 32 };

struct mo_bench_tables_options {
    struct mo_bench_simulate_options simulate;  /* scenario and process are set piece by piece */
    const char *scenarios[MO_BENCH_MAX_PIECES]; /* files */
    int n_scenarios;
    struct mo_process processes[MO_BENCH_MAX_PIECES];
    int n_processes;
    double loads[MO_BENCH_MAX_LOADS]; /* of the tables in which all have the same load, */
    int n_loads;                      /* 0 = 0.25, 0.5, 0.75 and 1 of what layerwise holds */
    const char *output;               /* NULL = not written */
    bool resume;
};

/* Fills *out with the document {"kind": "tables", "results": [{"scenario", "arrivals", "rows", "by_load",
 * "results", "same_loads"}]}, also when interrupted; NULL where it is refused to resume, and the file stays
 * as it is.  The last two are results of `moire sim` without the points that no row is made of. */
int mo_bench_tables(struct mo_bench_session *session, const struct mo_bench_tables_options *options,
                    json_t **out, moire_error *err);

/* Rows of one piece from a document with "results" and "calibration" of its simulations: values are
 * {"mean", "ci95"} over seeds or null; "tenants" has the shares in time at both loads that were found. */
json_t *mo_bench_tables_rows(const json_t *simulation);
/* Share of the layers, over the scenario's models, of which no more than three versions are chosen anywhere.
 */
double mo_bench_tables_few_versions(const json_t *simulation);

/* What the tables say: a list with one sentence a piece. */
json_t *mo_bench_tables_headline(const json_t *document);
void mo_bench_tables_print(const json_t *document);
int mo_bench_tables_html(const struct mo_env *env, const json_t *document, const char *path,
                         moire_error *err);
#endif
