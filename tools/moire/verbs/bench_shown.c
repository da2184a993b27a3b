/* SPDX-License-Identifier: Apache-2.0
 * bench_shown.c - what becomes of a simulated experiment's document: its first lines, files, table or JSON.
 */
#include "bench/report/headline.h"
#include "bench/report/report.h"
#include "tools/moire/verbs/bench_common.h"

static int write_out(const struct mo_env *env, const struct mo_options *o, const struct mo_bench_shown *shown,
                     const json_t *d, bool whole, moire_error *err) {
    int code = o->output ? mo_bench_write_json(env, d, o->output, err) : MOIRE_OK;
    if (!code && o->report) code = shown->report(env, d, o->report, err);
    if (!code && o->json) return whole ? mo_print_json(d, err) : MOIRE_OK;
    if (!code) shown->print(d);
    return code;
}

int mo_bench_show(const struct mo_env *env, const struct mo_options *o, const struct mo_bench_shown *shown,
                  json_t *d, int code, moire_error *err) {
    json_t *said = d ? mo_headline_before(shown->headline(d), d) : NULL;
    if (said) {
        json_decref(d);
        d = said;
    }
    moire_error why = {0};
    if (d && write_out(env, o, shown, d, code == MOIRE_OK, &why) && !code) {
        code = why.code;
        *err = why;
    }
    json_decref(d);
    return code;
}
