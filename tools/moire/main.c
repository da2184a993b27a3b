/* SPDX-License-Identifier: Apache-2.0
 * main.c - the `moire` command: finds the verb and runs it. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/error.h"
#include "runtime/base/nearest.h"
#include "tools/moire/flags.h"

static bool is_help(const char *word) {
    return !strcmp(word, "--help") || !strcmp(word, "-h");
}

/* `moire bench serve --help` asks for the same page as `moire bench --help`. */
static bool asks_help(int argc, char **argv) {
    for (int i = 2; i < argc; i++)
        if (is_help(argv[i])) return true;
    return false;
}

static void print_help(void) {
    printf("usage: moire VERB [ARGUMENT...]\n\n");
    for (int i = 0; mo_verbs[i]; i++)
        printf("  %-12s %s\n", mo_verbs[i]->name, mo_verbs[i]->summary);
    printf("\n`moire VERB --help` explains a verb and gives examples.\n"
           "`moire help --words VERB [COMMAND]` lists commands and flags one a line, for completion.\n"
           "Exit codes: 0 done, 2 usage, 3 bad model or data, 4 system, 5 check failed, 130 interrupted.\n");
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

static int print_page(const char *name) {
    const struct mo_verb *verb = mo_verb_find(name);
    if (!verb) return unknown_verb(name, false);
    mo_verb_page(stdout, verb);
    return MO_EXIT_OK;
}

static int print_words(const char *name, const char *command) {
    const struct mo_verb *verb = mo_verb_find(name);
    if (!verb) return unknown_verb(name, false);
    mo_verb_words(stdout, verb, command);
    return MO_EXIT_OK;
}

static int run(int argc, char **argv) {
    struct mo_env env = mo_env_default();
    bool help = argc > 1 && (is_help(argv[1]) || !strcmp(argv[1], "help"));
    if (argc < 2 || (help && argc == 2)) {
        print_help();
        return help ? MO_EXIT_OK : MO_EXIT_USAGE;
    }
    if (help && argc > 3 && !strcmp(argv[2], "--words")) return print_words(argv[3], argv[4]);
    if (help) return print_page(argv[2]);
    if (!strcmp(argv[1], "--version")) {
        printf("moire %s\n", moire_version());
        return MO_EXIT_OK;
    }
    const struct mo_verb *verb = mo_verb_find(argv[1]);
    if (!verb) return unknown_verb(argv[1], mo_wants_json(argc, argv));
    if (asks_help(argc, argv)) return print_page(argv[1]);
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
