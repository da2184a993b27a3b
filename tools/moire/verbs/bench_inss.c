/* SPDX-License-Identifier: Apache-2.0
 * bench_inss.c - `moire bench inss`: the experiments of InSS's paper; see bench/inss/inss_bench.h. */
#include <string.h>
#include "bench/inss/inss_bench.h"
#include "tools/moire/verbs/bench_common.h"

enum { SEEDS = 10 };

int mo_bench_run_inss(struct mo_bench_session *session, const struct mo_options *o, json_t **document,
                      moire_error *err) {
    char machine[1200];
    struct mo_inss_bench_options b = {.machine = machine,
                                      .weights = o->weights,
                                      .n_systems = o->policies.n,
                                      .n_only = o->cases.n,
                                      .n_loads = o->loads.n,
                                      .n_seeds = o->seed_count ? o->seed_count : SEEDS,
                                      .jobs = o->jobs,
                                      .needs = (uint64_t)o->needs,
                                      .seconds = o->seconds,
                                      .resume = o->resume,
                                      .output = o->output};
    json_t *d = NULL;
    (void)document; /* what it writes is not a table of policies */
    memcpy(b.system, o->policies.word, (size_t)o->policies.n * sizeof *b.system);
    memcpy(b.only, o->cases.word, (size_t)o->cases.n * sizeof *b.only);
    memcpy(b.load, o->loads.value, (size_t)o->loads.n * sizeof *b.load);
    int code =
        mo_known_find_data(MO_KNOWN_MACHINES, !strcmp(o->gpus, "64") ? "gpus64-v100-mps" : "gpus4-v100-mps",
                           machine, sizeof machine, err);
    if (!code) code = mo_inss_bench(session, &b, &d, err);
    const struct mo_bench_shown shown = {mo_inss_bench_headline, mo_inss_bench_print, mo_inss_bench_report};
    return mo_bench_show(session->env, o, &shown, d, code, err);
}
