/* SPDX-License-Identifier: Apache-2.0
 * proxy_fit.h - the data behind a proxy, measured or from recorded runs, and what a fit found as a document.
 */
#ifndef MO_BENCH_PROXY_H
#define MO_BENCH_PROXY_H
#include <jansson.h>
#include "bench/fit/fit.h"
#include "codegen/tune/stress.h"

struct mo_proxy_measure {
    const int *cpu; /* cores to watch: the victim's and the walkers' */
    int n_cpus;
    const struct mo_source *source;
    struct mo_stress *stress;
    int rounds; /* each level once a round */
};
/* Fills *out, zeroed but for its env, with a row a window of some 20 ms: the level over 5 as the pressure,
 * how much slower the victim on the calling thread streams than at its best under level 0, and the counters.
 * MOIRE_EUNSUPPORTED: the source does not open. */
int mo_proxy_measure(const struct mo_proxy_measure *measure, struct mo_samples *out, moire_error *err);

/* Appends what a file holds: samples, or a recorded run (bench/data/trace.h). */
int mo_proxy_load(struct mo_samples *samples, const char *path, moire_error *err);

/* {"kind": "proxy", "source", "rows", "r2", "r2_left_out", "mean_error", "worst_error", "slowdown",
 * "components": [{"share", "tells", "loading": {name: number}}], "terms": [{"name", "coefficient", "alone"}]}
 */
json_t *mo_fit_json(const struct mo_fit *fit, const struct mo_source *source);
void mo_fit_print(const json_t *document);
#endif
