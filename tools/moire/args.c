/* SPDX-License-Identifier: Apache-2.0
 * args.c - command-line scanning and error reporting shared by the verbs. */
#include <stdio.h>
#include <string.h>
#include "tools/moire/verb.h"

bool mo_args_flag(struct mo_args *args, const char *name, bool takes_value) {
    const char *arg = args->argv[args->at];
    size_t n = strlen(name);
    if (strncmp(arg, name, n)) return false;
    if (arg[n] == '=' && takes_value) {
        args->value = arg + n + 1;
        args->at++;
        return true;
    }
    if (arg[n]) return false;
    args->at++;
    if (takes_value) args->value = args->at < args->argc ? args->argv[args->at++] : NULL;
    return true;
}

int mo_verb_fail(const char *verb, const moire_error *err) {
    fprintf(stderr, "moire %s: %s\n", verb, err->message);
    switch (err->code) {
    case MOIRE_EINVAL:
        return MO_EXIT_USAGE;
    case MOIRE_EFORMAT:
    case MOIRE_EUNSUPPORTED:
    case MOIRE_ESHAPE:
    case MOIRE_ELIMIT:
        return MO_EXIT_INPUT;
    case MOIRE_EINTERRUPTED:
        return MO_EXIT_INTERRUPTED;
    default:
        return MO_EXIT_SYSTEM;
    }
}
