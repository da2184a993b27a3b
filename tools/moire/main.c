/* SPDX-License-Identifier: Apache-2.0
 * main.c - the `moire` command: finds the verb and runs it. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/error.h"
#include "runtime/base/nearest.h"
#include "tools/moire/command_line/flags.h"
#include "tools/moire/command_line/help.h"

static bool is_help(const char *word) {
    return !strcmp(word, "--help") || !strcmp(word, "-h");
}

/* `moire bench serve --help` asks for the page of that command. */
static bool asks_help(int argc, char **argv) {
    for (int i = 2; i < argc; i++)
        if (is_help(argv[i])) return true;
    return false;
}

static int unknown_verb(const char *word, bool json) {
    moire_error err;
    char hint[80];
    struct mo_nearest nearest = {.word = word};
    for (int i = 0; mo_verbs[i]; i++)
        mo_nearest_offer(&nearest, mo_verbs[i]->name);
    mo_nearest_text(&nearest, hint, sizeof hint);
    mo_fail(&err, MOIRE_EINVAL, "no verb '%.60s'%s", word, *hint ? hint : "; `moire help` lists them");
    return mo_failure_say(NULL, json, &err);
}

static int run(int argc, char **argv) {
    struct mo_env env = mo_env_default();
    if (argc < 2) {
        mo_help_print(stdout);
        return MO_EXIT_USAGE;
    }
    if (is_help(argv[1]) || !strcmp(argv[1], "help")) return mo_help(argc - 1, argv + 1);
    if (!strcmp(argv[1], "--version")) {
        printf("moire %s\n", moire_version());
        return MO_EXIT_OK;
    }
    const struct mo_verb *verb = mo_verb_find(argv[1]);
    if (!verb) return unknown_verb(argv[1], mo_wants_json(argc, argv));
    if (asks_help(argc, argv)) {
        const int at = mo_verb_word(verb, argc - 1, argv + 1);
        mo_verb_page(stdout, verb, mo_verb_command_find(verb, at ? argv[at + 1] : NULL));
        return MO_EXIT_OK;
    }
    return mo_verb_call(&env, verb, argc - 1, argv + 1);
}

/* What did not reach a full disk or a closed pipe must not pass for done. */
int main(int argc, char **argv) {
    int code = run(argc, argv);
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    fprintf(stderr, "moire: standard output is not whole: %s\n", errno ? strerror(errno) : "a write failed");
    return code == MO_EXIT_OK ? MO_EXIT_SYSTEM : code;
}
