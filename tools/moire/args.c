/* SPDX-License-Identifier: Apache-2.0
 * args.c - command-line scanning and error reporting shared by the verbs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/output.h"
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

bool mo_args_number(const char *text, double least, double most, double *out) {
    char *end = NULL;
    double v = text ? strtod(text, &end) : 0;
    if (!text || end == text || *end || !(v >= least && v <= most)) return false;
    *out = v;
    return true;
}

bool mo_args_whole(const char *text, int64_t least, int64_t most, int64_t *out) {
    char *end = NULL;
    errno = 0;
    long long v = text ? strtoll(text, &end, 10) : 0;
    if (!text || end == text || *end || errno || v < least || v > most) return false;
    *out = v;
    return true;
}

bool mo_args_shape(const char *text, moire_shape *out) {
    char *at = text ? strrchr(text, '=') : NULL;
    if (!at || at == text) return false;
    *at++ = 0;
    out->input = text;
    for (out->rank = 0; out->rank < MOIRE_MAX_RANK;) {
        char *end;
        errno = 0;
        long long d = strtoll(at, &end, 10);
        if (end == at || d < 1 || errno) return false;
        out->shape[out->rank++] = d;
        if (!*end) return true;
        if (*end != ',') return false;
        at = end + 1;
    }
    return false;
}

int mo_verb_usage(const char *verb, const char *text, const char *detail) {
    fprintf(stderr, "moire %s: %s%s%s; `moire %s --help` explains\n", verb, text, detail ? " " : "",
            detail ? detail : "", verb);
    return MO_EXIT_USAGE;
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

/* A flag of the list that stands at args->at, consumed. */
static bool takes_one(struct mo_args *args, const char *const *flags, size_t n) {
    for (size_t i = 0; i < n && flags[i]; i++)
        if (mo_args_flag(args, flags[i], true)) return true;
    return false;
}

/* A folder that is missing is made by the verbs that can, in the one above. */
static int check_folder(const struct mo_env *env, const char *folder, moire_error *err) {
    char inside[MO_OUTPUT_PATH];
    if (snprintf(inside, sizeof inside, "%s/.", folder) >= (int)sizeof inside)
        return mo_fail(err, MOIRE_EINVAL, "%.80s...: path too long", folder);
    int rc = env->sys->may_write(env->sys->self, inside, true);
    if (rc == -ENOENT) return mo_output_check(env, folder, err);
    return rc ? mo_fail(err, MOIRE_EIO, "cannot write into the folder '%.300s': %s", folder, strerror(-rc))
              : MOIRE_OK;
}

int mo_verb_check_outputs(const struct mo_env *env, const struct mo_verb *verb, int argc, char **argv,
                          moire_error *err) {
    struct mo_args args = {.argc = argc, .at = 1, .argv = argv};
    int code = MOIRE_OK;
    while (!code && args.at < argc) {
        args.value = NULL;
        if (takes_one(&args, verb->outputs, sizeof verb->outputs / sizeof *verb->outputs))
            code = args.value ? mo_output_check(env, args.value, err) : MOIRE_OK;
        else if (takes_one(&args, verb->folders, sizeof verb->folders / sizeof *verb->folders))
            code = args.value ? check_folder(env, args.value, err) : MOIRE_OK;
        else
            args.at++;
    }
    return code;
}
