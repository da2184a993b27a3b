/* SPDX-License-Identifier: Apache-2.0
 * grid.h - `moire grid`: policies on a simulated machine whose values are varied, every combination of them.
 *
 * It answers what a result depends on: in which machines, if in any, one policy beats another by as much as
 * somebody claims.  A cell is one scenario on one machine, a whole `moire sim --find-max`; finished cells are
 * in the document at once, so that a run can be resumed.
 *
 * Caches count under contention=memory alone: where `last_level` and `contention` are varied together, cells
 * without memory are played for the first `last_level` only. */
#ifndef MO_BENCH_GRID_H
#define MO_BENCH_GRID_H
#include "bench/sim/tables.h"

enum { MO_BENCH_AXES = 6, MO_BENCH_AXIS_VALUES = 16, MO_BENCH_AXIS_TEXT = 32 };

/* Values of a key of the machine file. */
struct mo_bench_axis {
    char key[MO_BENCH_AXIS_TEXT], value[MO_BENCH_AXIS_VALUES][MO_BENCH_AXIS_TEXT];
    int n;
};

struct mo_bench_grid_options {
    struct mo_bench_simulate_options simulate;  /* the scenario and the varied keys are set cell by cell */
    const char *scenarios[MO_BENCH_MAX_PIECES]; /* files */
    int n_scenarios;
    struct mo_bench_axis axes[MO_BENCH_AXES];
    int n_axes;
    const char *output; /* NULL = not written */
    bool resume;
};

/* "KEY=VALUE,VALUE"; false: not such a text, or too many or too long values. */
bool mo_bench_axis_parse(const char *text, struct mo_bench_axis *out);

/* Fills *out with the document {"kind": "grid", "results": [{"scenario", "cell": {KEY: VALUE}, "rows"}]},
 * also when interrupted; NULL where it is refused to resume, and the file stays as it is.  A machine that
 * cannot be made is refused before anything is played. */
int mo_bench_grid(struct mo_bench_session *session, const struct mo_bench_grid_options *options, json_t **out,
                  moire_error *err);

/* Rows of a cell from the document of its simulation: [{"policy", "max_load_overall", "qps",
 * "over_layerwise", "latency_over_solo", "conflict_rate"}], each value {"mean", "ci95"} over seeds or null.
 * Ratios are of loads found with the same seed; latency and conflicts are those at the policy's own highest
 * load. */
json_t *mo_bench_grid_rows(const json_t *simulation);

/* How many cells reach each of the paper's claims of loads: a list with one sentence a scenario and claim. */
json_t *mo_bench_grid_headline(const json_t *document);
void mo_bench_grid_print(const json_t *document);
int mo_bench_grid_html(const struct mo_env *env, const json_t *document, const char *path, moire_error *err);
#endif
