/* SPDX-License-Identifier: Apache-2.0
 * main.c - the `moire` command: finds the verb and runs it. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "tools/moire/verb.h"

/* One row a verb. */
static const struct mo_verb *const verbs[] = {
    &mo_verb_compile,      &mo_verb_tune,        &mo_verb_front,    &mo_verb_store,        &mo_verb_run,
    &mo_verb_inspect,      &mo_verb_bench,       &mo_verb_sim,      &mo_verb_profile,      &mo_verb_extend,
    &mo_verb_tables,       &mo_verb_whatif,      &mo_verb_fidelity, &mo_verb_capacity,     &mo_verb_plan,
    &mo_verb_zoo,          &mo_verb_check_model, &mo_verb_ocr,      &mo_verb_stress,       &mo_verb_proxy,
    &mo_verb_interference, &mo_verb_shares,      &mo_verb_devices,  &mo_verb_check_device, NULL,
};

/* `moire bench serve --help` asks for the same page as `moire bench --help`. */
static bool asks_help(int argc, char **argv) {
    for (int i = 2; i < argc; i++)
        if (!strcmp(argv[i], "--help")) return true;
    return false;
}

static void print_help(void) {
    printf("usage: moire VERB [ARGUMENT...]\n\n");
    for (int i = 0; verbs[i]; i++)
        printf("  %-12s %s\n", verbs[i]->name, verbs[i]->summary);
    printf("\n`moire VERB --help` explains a verb and gives examples.\n"
           "Exit codes: 0 done, 2 usage, 3 bad model or data, 4 system, 5 check failed, 130 interrupted.\n");
}

int main(int argc, char **argv) {
    struct mo_env env = mo_env_default();
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "help")) {
        print_help();
        return argc < 2 ? MO_EXIT_USAGE : MO_EXIT_OK;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("moire %s\n", moire_version());
        return MO_EXIT_OK;
    }
    for (int i = 0; verbs[i]; i++) {
        if (strcmp(verbs[i]->name, argv[1])) continue;
        if (asks_help(argc, argv)) {
            printf("moire %s - %s\n\n%s", verbs[i]->name, verbs[i]->summary, verbs[i]->usage);
            return MO_EXIT_OK;
        }
        return verbs[i]->run(&env, argc - 1, argv + 1);
    }
    fprintf(stderr, "moire: no verb '%s'; `moire --help` lists them\n", argv[1]);
    return MO_EXIT_USAGE;
}
