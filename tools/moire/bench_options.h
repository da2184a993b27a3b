/* SPDX-License-Identifier: Apache-2.0
 * bench_options.h - the command line of `moire bench`. */
#ifndef MO_BENCH_OPTIONS_H
#define MO_BENCH_OPTIONS_H
#include "bench/serve.h"
#include "tools/moire/verb.h"

enum { MO_BENCH_MAX_MODELS = 64 };

struct mo_bench_options {
    struct mo_bench_latency_options latency;
    struct mo_bench_serve_options serve;
    const char *models[MO_BENCH_MAX_MODELS], *families[8];
    moire_shape shapes[MO_BENCH_MAX_INPUTS];
    const char *peers, *report, *trace, *output, *store, *models_folder;
    char store_path[4096]; /* --store or the default, without symbolic links */
    double seconds;
    bool json, quiet, generic, only_generic, exact;
};

/* Reads everything after the sub-command; list values are cut up in place. */
int mo_bench_options_parse(struct mo_bench_options *options, struct mo_args *args, moire_error *err);
/* Cuts `text` at commas, in place; returns the number of parts, -1 for more than `most`. */
int mo_bench_split(char *text, char **parts, int most);
/* MOIRE_EINVAL with the flag, its value (may be NULL) and what it should be. */
int mo_bench_bad_flag(moire_error *err, const char *flag, const char *value, const char *wanted);
#endif
