/* SPDX-License-Identifier: Apache-2.0
 * verb.c - the list of verbs, and how one is run; see verb.h. */
#include "tools/moire/verb.h"

#include <stdio.h>
#include <string.h>
#include "runtime/base/error.h"
#include "tools/moire/command_line/flags.h"

/* clang-format off */ /* One row a verb. */
const struct mo_verb *const mo_verbs[] = {
    &mo_verb_run,
    &mo_verb_serve,
    &mo_verb_top,
    &mo_verb_inspect,
    &mo_verb_check_model,
    &mo_verb_quantize,
    &mo_verb_compile,
    &mo_verb_tune,
    &mo_verb_front,
    &mo_verb_store,
    &mo_verb_bench,
    &mo_verb_sim,
    &mo_verb_profile,
    &mo_verb_extend,
    &mo_verb_tables,
    &mo_verb_grid,
    &mo_verb_whatif,
    &mo_verb_fidelity,
    &mo_verb_capacity,
    &mo_verb_blocks,
    &mo_verb_plan,
    &mo_verb_scale,
    &mo_verb_train,
    &mo_verb_zoo,
    &mo_verb_ocr,
    &mo_verb_stress,
    &mo_verb_proxy,
    &mo_verb_interference,
    &mo_verb_shares,
    &mo_verb_devices,
    &mo_verb_check_device,
    &mo_verb_limits,
    NULL,
};
/* clang-format on */

const struct mo_verb *mo_verb_find(const char *name) {
    for (int i = 0; mo_verbs[i]; i++)
        if (!strcmp(mo_verbs[i]->name, name)) return mo_verbs[i];
    return NULL;
}

int mo_verb_call(const struct mo_env *env, const struct mo_verb *verb, int argc, char **argv) {
    moire_error err = {0};
    struct mo_options *o = mo_alloc(env, sizeof *o);
    if (!o) {
        mo_fail(&err, MOIRE_ENOMEM, "out of memory");
        return mo_failure_say(verb->name, mo_wants_json(argc, argv), &err);
    }
    int code = mo_options_open(env, verb, argc, argv, o, &err);
    if (!code) code = mo_options_check_outputs(env, o, &err);
    code = code ? mo_failure_say(verb->name, mo_wants_json(argc, argv), &err) : verb->run(env, o);
    mo_options_close(env, o);
    mo_free(env, o);
    return code;
}
