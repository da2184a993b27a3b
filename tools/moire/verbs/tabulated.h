/* SPDX-License-Identifier: Apache-2.0
 * tabulated.h - what `moire tables` and `moire grid` have in common: scenarios on a simulated machine,
 * searches of theirs, and a document that says its answer first. */
#ifndef MO_TABULATED_H
#define MO_TABULATED_H
#include "bench/sim/tables.h"
#include "tools/moire/verbs/bench_common.h"

struct mo_tabulated_paths {
    char machine[1024], scenario[MO_BENCH_MAX_PIECES][1024];
};

/* Fills what both are asked for; without scenarios those of VELTAIR's paper.  The results point into *paths
 * and the options. */
int mo_tabulated_fill(const struct mo_options *options, struct mo_tabulated_paths *paths,
                      struct mo_bench_simulate_options *simulate, const char **scenarios, int *n,
                      moire_error *err);

/* One of them: fills what is asked for, makes its document (also when interrupted), and shows it. */
struct mo_tabulated {
    size_t bytes; /* of what is asked for, `work`; zeroed */
    int (*fill)(const struct mo_options *options, void *work, struct mo_tabulated_paths *paths,
                moire_error *err);
    int (*make)(struct mo_bench_session *session, const void *work, json_t **document, moire_error *err);
    json_t *(*headline)(const json_t *document);
    void (*print)(const json_t *document);
    int (*html)(const struct mo_env *env, const json_t *document, const char *path, moire_error *err);
};
/* The verb; its exit code. */
int mo_tabulated_run(const struct mo_env *env, const struct mo_options *options,
                     const struct mo_tabulated *how);
#endif
