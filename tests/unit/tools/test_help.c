/* SPDX-License-Identifier: Apache-2.0
 * test_help.c - what the command says of itself: texts in pieces, lines of 80 columns, completion, man pages.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/text.h"
#include "tools/moire/command_line/flags.h"
#include "tools/moire/command_line/help.h"
#include "tools/moire/command_line/prose.h"

enum { PAGE = 60000 };

/* --- texts ---------------------------------------------------------------------------------------------- */
static void note(void *ctx, enum mo_prose kind, const char *head, const char *text) {
    static const char *const names[] = {"text", "item", "head", "command"};
    mo_text_put(ctx, "%s:%s%s%s\n", names[kind], head, *head ? "=" : "", text);
}

static void texts_come_in_pieces(void **state) {
    (void)state;
    static const char source[] = "One sentence that\n"
                                 "goes on.\n"
                                 "Another with two  spaces.\n"
                                 "\n"
                                 "list     the first\n"
                                 "         and more of it\n"
                                 "  show   indented\n"
                                 "After the list.\n"
                                 "\n"
                                 "Examples:\n"
                                 "  moire run  a\n"
                                 "  moire b   c\n"
                                 "Last.";
    char out[1000];
    struct mo_text t = mo_text_in(out, sizeof out);
    mo_prose_each(source, note, &t);
    assert_string_equal(out, "text:One sentence that goes on.  Another with two  spaces.\n"
                             "item:list=the first and more of it\n"
                             "item:show=indented\n"
                             "text:After the list.\n"
                             "head:Examples:\n"
                             "command:moire run  a\n"
                             "command:moire b   c\n"
                             "text:Last.\n");
    t = mo_text_in(out, sizeof out);
    mo_prose_each(NULL, note, &t);
    assert_string_equal(out, "");
}

static char *printed(void (*print)(FILE *to, const void *what), const void *what) {
    static char page[PAGE];
    memset(page, 0, sizeof page);
    FILE *to = fmemopen(page, PAGE - 1, "w");
    assert_non_null(to);
    print(to, what);
    assert_int_equal(fclose(to), 0);
    return page;
}

static size_t longest_line(const char *text) {
    size_t most = 0;
    for (; *text; text += strcspn(text, "\n") + (text[strcspn(text, "\n")] == '\n'))
        if (strcspn(text, "\n") > most) most = strcspn(text, "\n");
    return most;
}

static void print_source(FILE *to, const void *what) {
    mo_prose_print(to, what);
}

static void lines_have_eighty_columns(void **state) {
    (void)state;
    char source[2000];
    struct mo_text t = mo_text_in(source, sizeof source);
    for (int i = 0; i < 40; i++)
        mo_text_put(&t, "%.*s ", 1 + i % 11, "abcdefghijkl");
    mo_text_put(&t, "\nitem  ");
    for (int i = 0; i < 40; i++)
        mo_text_put(&t, "%.*s ", 1 + i % 7, "abcdefghijkl");
    mo_text_put(&t, "\nExample:\n  moire");
    for (int i = 0; i < 20; i++)
        mo_text_put(&t, " --flag value%d", i);
    mo_text_put(&t, "\n");
    const char *page = printed(print_source, source);
    assert_in_range(longest_line(page), 75, 80);
    assert_non_null(strstr(page, " \\\n      ")); /* a shell joins it again */
    assert_null(strstr(page, " \n"));
}

/* --- completion ----------------------------------------------------------------------------------------- */
struct typed {
    char *words[8];
    int n;
};

static void print_offers(FILE *to, const void *what) {
    const struct typed *line = what;
    mo_complete(to, line->n, (char **)line->words);
}

static void completion_knows_what_comes_next(void **state) {
    (void)state;
    static const struct {
        struct typed line;
        const char *offers, *lacks; /* whole lines; NULL: none */
    } rows[] = {
        {{{""}, 1}, "bench\n", "exit-codes"},
        {{{"che"}, 1}, "check-model\ncheck-device\n", "bench"},
        {{{"help", "ex"}, 2}, "extend\nexit-codes\n", "run"},
        {{{"nosuch", ""}, 2}, "", "run"},
        {{{"bench", "ser"}, 2}, "serve\n", "latency"},
        {{{"bench", ""}, 2}, "latency\ncold\n", "runner"}, /* which is hidden */
        {{{"bench", "serve", "mi"}, 3}, "mix\n:file\n", "heavy"},
        {{{"bench", "latency", "lenet", "resnet5"}, 4}, "resnet50\n", "lenet"},
        {{{"run", "lenet", ""}, 3}, "", "lenet"}, /* it takes one */
        {{{"run", "--output-dir", ""}, 3}, ":folder\n", ":file"},
        {{{"run", "lenet", "--is"}, 3}, "--isa\n", "--store"},
        {{{"bench", "cold", "--find"}, 3}, "", "--find-max"}, /* which is serve's */
        {{{"bench", "--find"}, 2}, "--find-max\n", "--step"},
        {{{"stress", "--kind", "l"}, 3}, "l2\nl3\n", "memory"},
        {{{"stress", "--kind", "=", "mem"}, 4}, "memory\n", "l2"},
        {{{"stress", "--kind", "="}, 3}, "l2\nl3\nmemory\n", "="},
        {{{"sim", "--policy", "moire,fcfs-"}, 3}, "moire,fcfs-1\n", "lanes"},
        {{{"sim", "--machine", "cores"}, 3}, "cores64\n", "cloud"},
        {{{"plan", "game", "--planner", "gpulet"}, 4}, "gpulet-int\ngpulet\n", "ideal"},
        {{{"zoo", "build", "al"}, 3}, "alexnet\nall\n", "lenet"},
        {{{"bench", "serve", "mix", "--against", "lan"}, 5}, "lanes\n", "cores64"},
        {{{"interference", "fit", "--against", "cores"}, 4}, "cores64\n", "lanes"},
        {{{"store", "c"}, 2}, "check\nclean\n", "show"},
        {{{"help", "store", "c"}, 3}, "check\nclean\n", "show"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *page = printed(print_offers, &rows[i].line);
        if (!strstr(page, rows[i].offers) || strstr(page, rows[i].lacks) || (!*rows[i].offers && *page))
            fail_msg("case %zu (%s): offers\n%s", i, rows[i].line.words[0], page);
    }
}

/* Nothing is offered twice, and nothing that the command does not take. */
static void flags_are_offered_once(void **state) {
    (void)state;
    for (int v = 0; mo_verbs[v]; v++) /* a verb with more than MO_VERB_COMMANDS has no end */
        assert_int_equal(mo_verbs[v]->commands[MO_VERB_COMMANDS - 1].command, MO_DO_NOTHING);
    for (int v = 0; mo_verbs[v]; v++)
        for (const struct mo_verb_command *c = mo_verbs[v]->commands; c->command; c++) {
            struct typed line = {{(char *)mo_verbs[v]->name}, 1};
            if (c->hidden) continue;
            if (c->name) line.words[line.n++] = (char *)c->name;
            line.words[line.n++] = (char *)"--";
            char *page = printed(print_offers, &line);
            for (char *at = strtok(page, "\n"); at; at = strtok(NULL, "\n")) {
                char *again = at + strlen(at) + 1, name[80];
                snprintf(name, sizeof name, "%s\n", at);
                assert_true(!strcmp(at, "--help") || mo_flag_find(c->command, at, strlen(at)));
                assert_null(strstr(again, name));
            }
        }
}

/* --- man pages ------------------------------------------------------------------------------------------ */
static void print_man(FILE *to, const void *what) {
    mo_man_page(to, what);
}

static void check_man(const struct mo_verb *verb) {
    static const char *const sections[] = {"NAME",  "SYNOPSIS", "DESCRIPTION", "EXIT STATUS",
                                           "FILES", "EXAMPLES", "SEE ALSO"};
    const char *page = printed(print_man, verb), *name = verb ? verb->name : "moire";
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        char line[40];
        snprintf(line, sizeof line, ".SH %s\n", sections[i]);
        if (!strstr(page, line)) fail_msg("%s: no section %s", name, sections[i]);
    }
    if (!strstr(page, "\nmoire ") || !strstr(page, "\\-")) fail_msg("%s: no command", name);
    /* what begins a line with a dot is one of the macros that are used here */
    for (const char *at = page; *at; at += strcspn(at, "\n") + 1) {
        static const char *const macros[] = {".TH ", ".nh", ".SH ", ".TP", ".B ", ".BR ",
                                             ".PP",  ".br", ".EX",  ".EE", ".I "};
        bool known = *at != '.' && *at != '\'';
        for (size_t i = 0; i < sizeof macros / sizeof *macros; i++)
            known |= !strncmp(at, macros[i], strlen(macros[i]));
        if (!known) fail_msg("%s: %.60s", name, at);
    }
}

static void every_verb_has_a_man_page(void **state) {
    (void)state;
    check_man(NULL);
    for (int v = 0; mo_verbs[v]; v++)
        check_man(mo_verbs[v]);
}

/* --- pages ---------------------------------------------------------------------------------------------- */
static void print_verb(FILE *to, const void *what) {
    if (what)
        mo_verb_page(to, what, NULL);
    else
        mo_help_print(to);
}

static void no_page_is_wider_than_a_terminal(void **state) {
    (void)state;
    const char *list = printed(print_verb, NULL);
    assert_in_range(longest_line(list), 60, 80);
    for (int v = 0; mo_verbs[v]; v++) { /* each stands in the list once, in its group */
        char row[40];
        snprintf(row, sizeof row, "\n  %s ", mo_verbs[v]->name);
        const char *at = strstr(list, row);
        if (!at || strstr(at + 1, row)) fail_msg("moire help: %s", mo_verbs[v]->name);
    }
    for (int v = 0; mo_verbs[v]; v++) {
        const char *page = printed(print_verb, mo_verbs[v]);
        if (longest_line(page) > 80)
            fail_msg("moire help %s: %zu columns", mo_verbs[v]->name, longest_line(page));
        if (!strstr(page, "\nExample")) fail_msg("moire help %s: no example", mo_verbs[v]->name);
    }
}

static void print_serve(FILE *to, const void *what) {
    mo_verb_page(to, what, mo_verb_command_find(what, "serve"));
}

/* Of the flags those that it takes, without saying so of each. */
static void a_command_has_a_page(void **state) {
    (void)state;
    const struct mo_verb *bench = mo_verb_find("bench");
    const char *page = printed(print_serve, bench);
    assert_non_null(strstr(page, "usage: moire bench serve SCENARIO"));
    assert_null(strstr(page, "moire bench latency FILE"));
    assert_non_null(strstr(page, "--find-max"));
    assert_null(strstr(page, "--no-scaling")); /* which is that of `plans` */
    assert_null(strstr(page, "serve: "));
    assert_null(mo_verb_command_find(bench, "nosuch"));
    assert_null(mo_verb_command_find(bench, NULL));
    assert_null(mo_verb_command_find(mo_verb_find("run"), "lenet"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_come_in_pieces),
        cmocka_unit_test(lines_have_eighty_columns),
        cmocka_unit_test(completion_knows_what_comes_next),
        cmocka_unit_test(flags_are_offered_once),
        cmocka_unit_test(every_verb_has_a_man_page),
        cmocka_unit_test(a_command_has_a_page),
        cmocka_unit_test(no_page_is_wider_than_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
