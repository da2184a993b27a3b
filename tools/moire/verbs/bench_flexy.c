/* SPDX-License-Identifier: Apache-2.0
 * bench_flexy.c - `moire bench flexy`: the experiments of Flexy's paper; see bench/flexy/flexy_bench.h. */
#include <string.h>
#include "bench/flexy/flexy_bench.h"
#include "tools/moire/verbs/bench_common.h"

enum { SEEDS = 10 };

int mo_bench_run_flexy(struct mo_bench_session *session, const struct mo_options *o, json_t **document,
                       moire_error *err) {
    struct mo_flexy_bench_options b = {.n_systems = o->policies.n,
                                       .n_workloads = o->cases.n,
                                       .n_loads = o->loads.n,
                                       .n_seeds = o->seed_count ? o->seed_count : SEEDS,
                                       .jobs = o->jobs,
                                       .resume = o->resume,
                                       .output = o->output};
    json_t *d = NULL;
    (void)document; /* what it writes is not a table of policies */
    memcpy(b.system, o->policies.word, (size_t)o->policies.n * sizeof *b.system);
    memcpy(b.workload, o->cases.word, (size_t)o->cases.n * sizeof *b.workload);
    memcpy(b.load, o->loads.value, (size_t)o->loads.n * sizeof *b.load);
    int code = mo_flexy_bench(session, &b, &d, err);
    const struct mo_bench_shown shown = {mo_flexy_bench_headline, mo_flexy_bench_print,
                                         mo_flexy_bench_report};
    return mo_bench_show(session->env, o, &shown, d, code, err);
}
