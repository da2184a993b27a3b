/* SPDX-License-Identifier: Apache-2.0
 * bench_flexy.c - `moire bench flexy`: the experiments of Flexy's paper; see bench/flexy/flexy_bench.h. */
#include <string.h>
#include "bench/flexy/flexy_bench.h"
#include "bench/report/headline.h"
#include "bench/report/report.h"
#include "tools/moire/verbs/bench_common.h"

enum { SEEDS = 10 };

/* whole: else it is written and shown, but is not the answer in JSON, which is the error. */
static int write_out(const struct mo_env *env, const struct mo_options *o, const json_t *d, bool whole,
                     moire_error *err) {
    int code = o->output ? mo_bench_write_json(env, d, o->output, err) : MOIRE_OK;
    if (!code && o->report) code = mo_flexy_bench_report(env, d, o->report, err);
    if (!code && o->json) return whole ? mo_print_json(d, err) : MOIRE_OK;
    if (!code) mo_flexy_bench_print(d);
    return code;
}

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
    json_t *said = d ? mo_headline_before(mo_flexy_bench_headline(d), d) : NULL;
    if (said) {
        json_decref(d);
        d = said;
    }
    moire_error why = {0};
    if (d && write_out(session->env, o, d, code == MOIRE_OK, &why) && !code) {
        code = why.code;
        *err = why;
    }
    json_decref(d);
    return code;
}
