/* SPDX-License-Identifier: Apache-2.0
 * interference_fit.h - `moire interference fit`: how well the linear model predicts pairs that its fit did
 * not see, beside constants from elsewhere and beside none. */
#ifndef MO_BENCH_INTERFERENCE_FIT_H
#define MO_BENCH_INTERFERENCE_FIT_H
#include <jansson.h>
#include "bench/data/pairs.h"

enum { MO_INTERFERENCE_MODELS = 8 };

struct mo_interference_row {
    const char *name;
    struct mo_interference model;
};

struct mo_interference_options {
    uint64_t seed;
    int splits; /* halves drawn with seed, seed + 1, ...: how far the error depends on the draw */
    struct mo_interference_row other[MO_INTERFERENCE_MODELS]; /* tested on the same pairs */
    int n_others;
};

/* {"experiment": {...}, "results": [{"model", "constants", "mean", "p50", "p90", "p95", "worst", "splits":
 * {"p90": [least, most], "p95": [...]}, "error": [quantiles 0, 1, ... 100 %]}]}; errors are shares of the
 * measured time.  "fitted" is fitted to one half and tested on the other, as all are; "constants_all" of the
 * experiment is the fit to everything, which a machine file takes. */
int mo_interference_document(const struct mo_pairs *pairs, const struct mo_interference_options *options,
                             json_t **out, moire_error *err);
void mo_interference_print(const json_t *document);
/* The distributions of errors as one SVG file. */
int mo_interference_plot(const struct mo_env *env, const json_t *document, const char *path,
                         moire_error *err);
#endif
