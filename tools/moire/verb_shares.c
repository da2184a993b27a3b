/* SPDX-License-Identifier: Apache-2.0
 * verb_shares.c - `moire shares`: profiles of models on shares of a GPU, and how well they interpolate. */
#include <stdio.h>
#include <string.h>
#include "bench/data/experiment.h"
#include "bench/fit/shares.h"
#include "tools/moire/bench_options.h"
#include "tools/moire/verb.h"

static const char usage[] =
    "usage: moire shares FILE.csv ... [--json]\n\n"
    "Reads profiles of models on shares of a GPU (runtime/profile/share_table.h), leaves measurements out "
    "and\n"
    "predicts them: one batch, all batches but powers of two, one share, single cells of shares that were\n"
    "measured at few batches.  What is said to be derived follows its law, whatever the GPU would do.\n\n"
    "  --json   the document\n\n"
    "Exit codes: 0 done, 2 usage, 3 a profile is malformed, 4 system.\n\n"
    "Examples:\n"
    "  moire shares bench/gpus/v100/resnet50.csv bench/gpus/v100/vgg19.csv\n";

static int add(const struct mo_env *env, const char *path, json_t *rows, moire_error *err) {
    struct mo_shares_error error[MO_SHARES_WAYS];
    struct mo_share_table t;
    int code = mo_share_table_read(env, path, &t, err);
    if (code) return code;
    code = mo_shares_check(t.profile, error, err);
    if (!code && json_array_append_new(rows, mo_shares_json(&t, error)))
        code = mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    mo_share_table_free(&t);
    return code;
}

static int check(const struct mo_env *env, struct mo_args *a, moire_error *err) {
    json_t *rows = json_array(), *d = NULL;
    bool json = false;
    int code = rows ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    while (!code && a->at < a->argc) {
        if (mo_args_flag(a, "--json", false))
            json = true;
        else if (a->argv[a->at][0] == '-')
            code = mo_fail(err, MOIRE_EINVAL, "%s: no such flag", a->argv[a->at]);
        else
            code = add(env, a->argv[a->at++], rows, err);
    }
    if (!code && !json_array_size(rows)) code = mo_fail(err, MOIRE_EINVAL, "needs files of profiles");
    if (!code && !(d = json_pack("{s:{s:s}, s:O}", "experiment", "kind", "shares", "results", rows)))
        code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    if (!code) code = mo_bench_describe(env, d, a->argc, a->argv, err);
    if (!code && json)
        code = mo_bench_print_json(d, err);
    else if (!code)
        mo_shares_print(d);
    json_decref(d);
    json_decref(rows);
    return code;
}

static int run(const struct mo_env *env, int argc, char **argv) {
    struct mo_args args = {.argc = argc, .argv = argv, .at = 1};
    moire_error err = {0};
    int code = check(env, &args, &err);
    return code ? mo_verb_fail("shares", &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_shares = {
    .name = "shares",
    .summary = "profiles of models on shares of a GPU: how well they interpolate",
    .usage = usage,
    .run = run,
};
