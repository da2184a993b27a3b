/* SPDX-License-Identifier: Apache-2.0
 * tables.h - `moire tables`: scenarios x arrival processes x policies on a simulated machine, as one table
 * beside what VELTAIR's paper claims.
 *
 * A piece is one scenario under one process: a whole `moire sim --find-max`, of which a row a policy is kept.
 * Finished pieces are in the document at once, so that a run can be resumed. */
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

/* Fills *out with the document {"kind": "tables", "results": [{"scenario", "arrivals", "rows", "by_load"}]},
 * also when interrupted. */
int mo_bench_tables(struct mo_bench_session *session, const struct mo_bench_tables_options *options,
                    json_t **out, moire_error *err);

/* Rows of one piece from the document of its simulation. */
json_t *mo_bench_tables_rows(const json_t *simulation);

/* What the tables say: a list with one sentence a piece. */
json_t *mo_bench_tables_headline(const json_t *document);
void mo_bench_tables_print(const json_t *document);
int mo_bench_tables_html(const struct mo_env *env, const json_t *document, const char *path,
                         moire_error *err);
#endif
