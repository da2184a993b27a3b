/* SPDX-License-Identifier: Apache-2.0
 * bench_wattwiser.c - `moire bench wattwiser`: the experiments of WattWiser's paper; see
 * bench/wattwiser/watt_bench.h. */
#include <string.h>
#include "bench/report/headline.h"
#include "bench/report/report.h"
#include "bench/wattwiser/watt_bench.h"
#include "tools/moire/verbs/bench_common.h"

enum { SEEDS = 10 };

/* whole: else it is written and shown, but is not the answer in JSON, which is the error. */
static int write_out(const struct mo_env *env, const struct mo_options *o, const json_t *d, bool whole,
                     moire_error *err) {
    int code = o->output ? mo_bench_write_json(env, d, o->output, err) : MOIRE_OK;
    if (!code && o->report) code = mo_watt_bench_report(env, d, o->report, err);
    if (!code && o->json) return whole ? mo_print_json(d, err) : MOIRE_OK;
    if (!code) mo_watt_bench_print(d);
    return code;
}

int mo_bench_run_wattwiser(struct mo_bench_session *session, const struct mo_options *o, json_t **document,
                           moire_error *err) {
    char machine[1200];
    struct mo_watt_bench_options b = {.machine = machine,
                                      .n_policies = o->policies.n,
                                      .n_seeds = o->seed_count ? o->seed_count : SEEDS,
                                      .jobs = o->jobs,
                                      .seconds = o->seconds,
                                      .resume = o->resume,
                                      .output = o->output};
    json_t *d = NULL;
    (void)document; /* what it writes is not a table of policies */
    if (o->policies.n > MO_WATT_POLICIES)
        return mo_fail(err, MOIRE_EINVAL, "more than %d policies", MO_WATT_POLICIES);
    memcpy(b.policy, o->policies.word, (size_t)o->policies.n * sizeof *b.policy);
    int code = mo_known_find_data(MO_KNOWN_MACHINES, o->machine, machine, sizeof machine, err);
    if (!code) code = mo_watt_bench(session, &b, &d, err);
    json_t *said = d ? mo_headline_before(mo_watt_bench_headline(d), d) : NULL;
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
