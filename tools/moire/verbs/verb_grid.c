/* SPDX-License-Identifier: Apache-2.0
 * verb_grid.c - `moire grid`: policies on a machine whose values are varied; see bench/sim/grid.h. */
#include <string.h>
#include "bench/sim/grid.h"
#include "tools/moire/verbs/tabulated.h"

static const char about[] =
    "Searches for the highest load that each policy holds, on a simulated machine whose values are varied:\n"
    "every combination of the values of --vary is a machine.  The default is the question where VELTAIR's\n"
    "gains appear, by what it costs when a running block gets more cores (resize_us: 3, 50, 220), by who\n"
    "slows whom (contention: none, memory, factor:1.8, versions:1.8, versions:7), and by whether caches are\n"
    "pooled or sliced (last_level).  These and the other keys are described in bench/machines/README.md.\n"
    "Without scenarios: the paper's light, medium, heavy and mix on its 64 cores.\n";

static const char notes[] =
    "Examples:\n"
    "  moire grid --seeds 3 --seconds 10 --output grid.json --report grid.html --resume\n"
    "  moire grid veltair-mix --vary versions=1,2,3,4,5 --with contention=versions:7\n";

static int fill_axes(const struct mo_options *o, struct mo_bench_grid_options *g, moire_error *err) {
    static const char *const usual[] = {"contention=none,memory,factor:1.8,versions:1.8,versions:7",
                                        "last_level=pooled,sliced", "resize_us=3,50,220"};
    int given = o->vary.n, n = given ? given : (int)(sizeof usual / sizeof *usual);
    if (o->with.n + n > MO_BENCH_WITH)
        return mo_fail(err, MOIRE_ELIMIT, "more than %d values of --with and --vary", MO_BENCH_WITH);
    for (int i = 0; i < n; i++) {
        const char *text = given ? o->vary.word[i] : usual[i];
        if (!mo_bench_axis_parse(text, &g->axes[g->n_axes++]))
            return mo_flag_bad(err, "--vary", text, "must be KEY=VALUE,VALUE,... of a machine file");
    }
    return MOIRE_OK;
}

static void choose_policies(struct mo_bench_serve_options *s) {
    static const char *const papers[] = {"model-wise", "layerwise",  "planaria",
                                         "veltair-as", "veltair-ac", "veltair"};
    s->n_policies = (int)(sizeof papers / sizeof *papers);
    memcpy(s->policies, papers, sizeof papers);
}

static int fill(const struct mo_options *o, void *work, struct mo_tabulated_paths *paths, moire_error *err) {
    struct mo_bench_grid_options *g = work;
    int code = mo_tabulated_fill(o, paths, &g->simulate, g->scenarios, &g->n_scenarios, err);
    if (!o->policies.n) choose_policies(&g->simulate.serve);
    if (!code) code = fill_axes(o, g, err);
    g->output = o->output;
    g->resume = o->resume;
    return code;
}

static int make(struct mo_bench_session *session, const void *work, json_t **document, moire_error *err) {
    return mo_bench_grid(session, work, document, err);
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    static const struct mo_tabulated how = {sizeof(struct mo_bench_grid_options),
                                            fill,
                                            make,
                                            mo_bench_grid_headline,
                                            mo_bench_grid_print,
                                            mo_bench_grid_html};
    return mo_tabulated_run(env, o, &how);
}

const struct mo_verb mo_verb_grid = {
    .name = "grid",
    .group = MO_GROUP_SIMULATE,
    .summary = "compare policies on a simulated machine whose values are varied",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_GRID, .operands = "[SCENARIO ...]"}},
    .run = run,
};
