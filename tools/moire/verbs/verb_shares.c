/* SPDX-License-Identifier: Apache-2.0
 * verb_shares.c - `moire shares`: profiles of models on shares of a GPU, and how well they interpolate. */
#include <stdio.h>
#include "bench/data/experiment.h"
#include "bench/fit/shares.h"
#include "tools/moire/verbs/bench_common.h"

static const char about[] =
    "Reads profiles of models on shares of a GPU (runtime/profile/share_table.h), leaves measurements out "
    "and\n"
    "predicts them: one batch, all batches but powers of two, one share, single cells of shares that were\n"
    "measured at few batches.  What is said to be derived follows its law, whatever the GPU would do.\n";

static const char notes[] = "Examples:\n"
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

static int check(const struct mo_env *env, const struct mo_options *o, moire_error *err) {
    json_t *rows = json_array(), *d = NULL;
    int code = rows ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int i = 0; i < o->operands.n && !code; i++)
        code = add(env, o->operands.word[i], rows, err);
    if (!code && !(d = json_pack("{s:{s:s}, s:O}", "experiment", "kind", "shares", "results", rows)))
        code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    if (!code) code = mo_bench_describe(env, d, o->argc, o->argv, err);
    if (!code && o->json)
        code = mo_print_json(d, err);
    else if (!code)
        mo_shares_print(d);
    json_decref(d);
    json_decref(rows);
    return code;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err = {0};
    return check(env, o, &err) ? mo_verb_fail(o, &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_shares = {
    .name = "shares",
    .group = MO_GROUP_MEASURE,
    .summary = "check how well profiles of models on shares of a GPU interpolate",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_SHARES, .operands = "FILE.csv ..."}},
    .run = run,
};
