/* SPDX-License-Identifier: Apache-2.0
 * bench_wattwiser.c - `moire bench wattwiser`: the experiments of WattWiser's paper; see
 * bench/wattwiser/watt_bench.h. */
#include <string.h>
#include "bench/wattwiser/watt_bench.h"
#include "tools/moire/verbs/bench_common.h"

enum { SEEDS = 10 };

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
    const struct mo_bench_shown shown = {mo_watt_bench_headline, mo_watt_bench_print, mo_watt_bench_report};
    return mo_bench_show(session->env, o, &shown, d, code, err);
}
