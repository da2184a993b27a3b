/* SPDX-License-Identifier: Apache-2.0
 * passes.c - the table of passes and the loop that runs them. */
#include "codegen/passes/passes.h"

static const struct pass {
    const char *name;
    mo_pass_fn *run;
    bool layout;
} passes[] = {
    {"dead", mo_pass_dead, false},
};

int mo_run_passes(struct mo_graph *g, const struct mo_frontend_options *options, moire_error *err) {
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        if (passes[i].layout && options->no_layout) continue;
        int rc = passes[i].run(g, err);
        if (!rc) rc = mo_graph_sort(g, err);
        if (!rc) rc = mo_graph_check(g, err);
        if (rc) return mo_fail_context(err, rc, "pass %s", passes[i].name);
    }
    return MOIRE_OK;
}
