/* SPDX-License-Identifier: Apache-2.0
 * help.c - see help.h. */
#include "tools/moire/command_line/help.h"

#include <string.h>
#include "runtime/base/error.h"
#include "runtime/base/nearest.h"
#include "tools/moire/command_line/flags.h"
#include "tools/moire/command_line/prose.h"

/* --- topics --------------------------------------------------------------------------------------------- */
static void each_exit(void (*take)(void *ctx, const char *head, const char *text), void *ctx) {
    for (const struct mo_exit_row *row = mo_exits(); row->name; row++) {
        char head[16], text[600];
        snprintf(head, sizeof head, "%d", (int)row->code);
        snprintf(text, sizeof text, "%s.  %s", row->name, row->meaning);
        take(ctx, head, text);
    }
}

static void each_path(void (*take)(void *ctx, const char *head, const char *text), void *ctx) {
    static const struct {
        const char *path, *what;
    } rows[] = {
        {"~/.cache/moire/store",
         "The store: compiled kernels and models, one folder for each kind of CPU.  `moire "
         "store` shows, checks and cleans it; --store names another.  It may be deleted: "
         "`moire compile` makes it anew."},
        {"~/.cache/moire/models", "Models of the zoo that a command named, built at their first use."},
        {"~/.cache/moire/gpu", "Compiled programs of GPUs; --device-cache names another folder."},
        {"PREFIX/share/moire/scenarios, machines, gpus",
         "The scenarios and machines that a name stands for (bench/ in the sources).  A file with that name "
         "in "
         "bench/scenarios or bench/machines of the current folder comes first."},
        {"$XDG_CACHE_HOME", "Takes the place of ~/.cache where it is set."},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        take(ctx, rows[i].path, rows[i].what);
}

const struct mo_topic *mo_topics(void) {
    static const struct mo_topic topics[] = {
        {"exit-codes", "what the exit code of every verb means", "EXIT STATUS", each_exit},
        {"files", "folders that moire reads and writes unasked", "FILES", each_path},
        {0}};
    return topics;
}

static void print_entry(void *ctx, const char *head, const char *text) {
    enum { INDENT = 6 };
    FILE *to = ctx;
    int at = fprintf(to, "  %s", head);
    if (at >= INDENT) at = (fputc('\n', to), 0);
    fprintf(to, "%*s", INDENT - at, "");
    mo_prose_wrap(to, text, INDENT, INDENT);
}

static void print_topic(const struct mo_topic *topic) {
    printf("moire help %s - %s\n\n", topic->name, topic->summary);
    topic->each(print_entry, stdout);
    if (topic->each == each_exit)
        printf("\nWith --json a verb that fails prints {\"error\": {\"code\": \"MOIRE_EINVAL\",\n"
               "\"exit\": 2, \"message\": \"...\"}} on standard output, and the message on\nstandard error "
               "too.\n");
}

/* --- the list of verbs ---------------------------------------------------------------------------------- */
static void print_row(FILE *to, const char *name, const char *summary) {
    enum { INDENT = 16 };
    fprintf(to, "  %-*s", INDENT - 2, name);
    mo_prose_wrap(to, summary, INDENT, INDENT);
}

void mo_help_print(FILE *to) {
    static const char *const groups[MO_GROUPS] = {[MO_GROUP_MODELS] = "Models",
                                                  [MO_GROUP_KERNELS] = "Compiled kernels",
                                                  [MO_GROUP_MEASURE] = "Measurements",
                                                  [MO_GROUP_SIMULATE] = "Simulation and planning",
                                                  [MO_GROUP_MACHINE] = "This machine"};
    fprintf(to, "usage: moire VERB [ARGUMENT...]\n\n");
    for (int g = 0; g < MO_GROUPS; g++) {
        fprintf(to, "%s%s:\n", g ? "\n" : "", groups[g]);
        for (int i = 0; mo_verbs[i]; i++)
            if (mo_verbs[i]->group == (enum mo_verb_group)g)
                print_row(to, mo_verbs[i]->name, mo_verbs[i]->summary);
    }
    fprintf(to, "\n`moire help VERB [COMMAND]` explains a verb and gives examples.  More topics:\n\n");
    for (const struct mo_topic *t = mo_topics(); t->name; t++)
        print_row(to, t->name, t->summary);
    fputc('\n', to);
    mo_prose_wrap(
        to,
        "`moire help --words VERB [COMMAND]` lists commands and flags one a line, `moire help --complete "
        "WORD...` what can stand in the place of the last word (for shells), `moire help --man [VERB]` is "
        "the man page.",
        0, 0);
}

/* --- the verb ------------------------------------------------------------------------------------------- */
static int unknown(const char *word) {
    moire_error err;
    char hint[80];
    struct mo_nearest nearest = {.word = word};
    for (int i = 0; mo_verbs[i]; i++)
        mo_nearest_offer(&nearest, mo_verbs[i]->name);
    for (const struct mo_topic *t = mo_topics(); t->name; t++)
        mo_nearest_offer(&nearest, t->name);
    mo_nearest_text(&nearest, hint, sizeof hint);
    mo_fail(&err, MOIRE_EINVAL, "no verb or topic '%.60s'%s", word,
            *hint ? hint : "; `moire help` lists them");
    return mo_failure_say("help", false, &err);
}

static int with_verb(int argc, char **argv, const struct mo_verb **verb) {
    *verb = argc > 2 ? mo_verb_find(argv[2]) : NULL;
    return argc > 2 && !*verb ? unknown(argv[2]) : MO_EXIT_OK;
}

int mo_help(int argc, char **argv) {
    const struct mo_verb *verb = NULL;
    const char *word = argc > 1 ? argv[1] : "";
    int code = MO_EXIT_OK;
    if (!*word) {
        mo_help_print(stdout);
    } else if (!strcmp(word, "--complete")) {
        mo_complete(stdout, argc - 2, argv + 2);
    } else if (!strcmp(word, "--man")) {
        code = with_verb(argc, argv, &verb);
        if (!code) mo_man_page(stdout, verb);
    } else if (!strcmp(word, "--words") && argc > 2) {
        code = with_verb(argc, argv, &verb);
        if (!code) mo_verb_words(stdout, verb, argc > 3 ? argv[3] : NULL);
    } else if ((verb = mo_verb_find(word))) {
        mo_verb_page(stdout, verb, mo_verb_command_find(verb, argc > 2 ? argv[2] : NULL));
    } else {
        const struct mo_topic *t = mo_topics();
        while (t->name && strcmp(t->name, word) != 0)
            t++;
        if (!t->name) return unknown(word);
        print_topic(t);
    }
    return code;
}
