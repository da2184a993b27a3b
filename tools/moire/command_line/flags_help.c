/* SPDX-License-Identifier: Apache-2.0
 * flags_help.c - what the table of flags says of itself: help pages and words for completion; see flags.h. */
#include <string.h>
#include "runtime/base/text.h"
#include "tools/moire/command_line/flags.h"
#include "tools/moire/command_line/prose.h"

enum { MOST_INDENT = 26, HEAD = 64, SENTENCE = 700 };

static uint64_t commands_of(const struct mo_verb *verb) {
    uint64_t all = 0;
    for (const struct mo_verb_command *c = verb->commands; c->command; c++)
        all |= c->hidden ? 0 : UINT64_C(1) << c->command;
    return all;
}

/* "serve, kernels: ", or "all but report: ", where not all commands of the verb take the flag. */
static void add_commands(const struct mo_verb *verb, uint64_t all, uint64_t on, char *out, size_t n) {
    const bool few = 2 * __builtin_popcountll(on & all) <= __builtin_popcountll(all);
    const uint64_t named = few ? on & all : all & ~on;
    size_t used = 0;
    *out = 0;
    if (!(all & ~on)) return;
    if (!few) used = (size_t)snprintf(out, n, "all but ");
    bool first = true;
    for (const struct mo_verb_command *c = verb->commands; c->command; c++) {
        if (!(named >> c->command & 1)) continue;
        used += (size_t)snprintf(out + used, n - used, "%s%s", first ? "" : ", ", c->name);
        first = false;
    }
    snprintf(out + used, n - used, ": ");
}

/* all: the commands that the page is of. */
static void describe(const struct mo_verb *verb, uint64_t all, const struct mo_flag *f, char *out, size_t n) {
    char commands[200];
    add_commands(verb, all, f->on, commands, sizeof commands);
    size_t used = (size_t)snprintf(out, n, "%s%s", commands, f->help);
    if (f->choices) used += (size_t)snprintf(out + used, n - used, "; one of: %s", f->choices);
    if (f->initial) snprintf(out + used, n - used, "; %s by default", f->initial);
}

static int head_of(const struct mo_flag *f, char out[HEAD]) {
    return snprintf(out, HEAD, "  %s%s%s%s%s  ", f->other ? f->other : "", f->other ? ", " : "", f->name,
                    f->value ? " " : "", f->value ? f->value : "");
}

static void print_flags(FILE *to, const struct mo_verb *verb, uint64_t all) {
    int indent = 0;
    const int n = mo_n_flags();
    char head[HEAD], text[SENTENCE];
    for (int i = 0; i < n; i++) {
        int width = mo_flag_at(i)->on & all ? head_of(mo_flag_at(i), head) : 0;
        if (width > indent && width <= MOST_INDENT) indent = width;
    }
    for (int i = 0; i < n; i++) {
        if (!(mo_flag_at(i)->on & all)) continue;
        int width = head_of(mo_flag_at(i), head);
        describe(verb, all, mo_flag_at(i), text, sizeof text);
        fprintf(to, "%-*s", indent, head);
        mo_prose_wrap(to, text, width > indent ? width : indent, indent);
    }
}

void mo_verb_usage(const struct mo_verb *verb, const struct mo_verb_command *c, char *out, size_t size) {
    bool others = false;
    const int n = mo_n_flags();
    struct mo_text t = mo_text_in(out, size);
    mo_text_put(&t, "moire %s", verb->name);
    if (c->name) mo_text_put(&t, c == verb->commands && verb->first_is_default ? " [%s]" : " %s", c->name);
    if (c->operands) mo_text_put(&t, " %s", c->operands);
    for (int i = 0; i < n; i++) {
        if (mo_flag_at(i)->needed >> c->command & 1)
            mo_text_put(&t, " %s %s", mo_flag_at(i)->name, mo_flag_at(i)->value);
        others |= (mo_flag_at(i)->on & ~mo_flag_at(i)->needed) >> c->command & 1;
    }
    if (others) mo_text_put(&t, " [FLAG...]");
}

static void print_usage(FILE *to, const struct mo_verb *verb, uint64_t all) {
    bool first = true;
    for (const struct mo_verb_command *c = verb->commands; c->command; c++) {
        char line[300];
        if (!(all >> c->command & 1)) continue;
        mo_verb_usage(verb, c, line, sizeof line);
        fprintf(to, "%s ", first ? "usage:" : "      ");
        first = false;
        mo_prose_wrap(to, line, 7, 11);
    }
}

void mo_verb_each_flag(const struct mo_verb *verb,
                       void (*take)(void *ctx, const char *head, const char *text), void *ctx) {
    const int n = mo_n_flags();
    for (int i = 0; i < n; i++) {
        char head[HEAD], text[SENTENCE];
        if (!(mo_flag_at(i)->on & commands_of(verb))) continue;
        head_of(mo_flag_at(i), head);
        describe(verb, commands_of(verb), mo_flag_at(i), text, sizeof text);
        take(ctx, head, text);
    }
}

void mo_verb_page(FILE *to, const struct mo_verb *verb, const struct mo_verb_command *only) {
    const uint64_t all = only ? UINT64_C(1) << only->command : commands_of(verb);
    char title[300];
    snprintf(title, sizeof title, "moire %s - %s", verb->name, verb->summary);
    mo_prose_wrap(to, title, 0, 4);
    fputc('\n', to);
    print_usage(to, verb, all);
    fputc('\n', to);
    mo_prose_print(to, verb->about);
    if (verb->about) fputc('\n', to);
    print_flags(to, verb, all);
    fputc('\n', to);
    mo_prose_print(to, verb->notes);
    char text[SENTENCE];
    struct mo_text t = mo_text_in(text, sizeof text);
    for (const struct mo_exit_row *row = mo_exits(); row->name; row++)
        mo_text_put(&t, "%s %d %s", t.n ? "," : "Exit codes:", (int)row->code, row->name);
    mo_text_put(&t, "; see `moire help exit-codes`.");
    fputc('\n', to);
    mo_prose_wrap(to, text, 0, 0);
}

void mo_verb_words(FILE *to, const struct mo_verb *verb, const char *command) {
    const int n = mo_n_flags();
    uint64_t on = commands_of(verb);
    for (const struct mo_verb_command *c = verb->commands; c->name; c++) {
        if (command && !strcmp(command, c->name)) on = UINT64_C(1) << c->command;
        if (!command && !c->hidden) fprintf(to, "%s\n", c->name);
    }
    for (int i = 0; i < n; i++) {
        const char *value = mo_flag_at(i)->choices ? mo_flag_at(i)->choices
                            : mo_flag_at(i)->value ? "VALUE"
                                                   : "";
        if (!(mo_flag_at(i)->on & on)) continue;
        fprintf(to, "%s%s%s\n", mo_flag_at(i)->name, *value ? " " : "", value);
        if (mo_flag_at(i)->other &&
            !strncmp(mo_flag_at(i)->other, "--", 2)) /* a name of its own, not a letter */
            fprintf(to, "%s%s%s\n", mo_flag_at(i)->other, *value ? " " : "", value);
    }
}
