/* SPDX-License-Identifier: Apache-2.0
 * test_flags.c - the table of flags: every row sets its field and no other, stands in the help of its
 * verbs, is read by them, and is refused by all other commands; values that do not fit are refused. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "tools/moire/command_line/flags.h"

enum { WORDS = 40 };

/* A command line that is whole: the verb, the command, operands and what the command cannot do without. */
struct line {
    const struct mo_verb *verb;
    const struct mo_verb_command *command;
    char *word[WORDS], text[WORDS][64];
    int n;
};

static void add(struct line *l, const char *word) {
    assert_true(l->n < WORDS);
    snprintf(l->text[l->n], sizeof l->text[0], "%s", word);
    l->word[l->n] = l->text[l->n];
    l->n++;
}

/* A value that fits the flag and is not the initial one; another for every number of `which`. */
static const char *sample(const struct mo_flag *f, int which) {
    static char text[64];
    const bool whole = f->kind == MO_FLAG_INT || f->kind == MO_FLAG_INT64 || f->kind == MO_FLAG_WHOLES;
    const bool number = whole || f->kind == MO_FLAG_REAL || f->kind == MO_FLAG_NUMBERS;
    if (f->kind == MO_FLAG_SHAPES) return "x=1,2";
    if (f->choices) {
        snprintf(text, sizeof text, "%.*s", (int)strcspn(f->choices, " "), f->choices);
        return text;
    }
    if (!number) return which ? "b" : "a";
    double v = whole ? f->least + which + 1 : f->least + (f->most - f->least) * (which + 1) / 8;
    snprintf(text, sizeof text, "%.15g", v < f->most ? v : f->most);
    return text;
}

static bool is_on(const struct mo_flag *f, enum mo_command command) {
    return f->on >> command & 1;
}

static struct line whole_line(const struct mo_verb *verb, const struct mo_verb_command *c) {
    struct line l = {.verb = verb, .command = c};
    int least, most;
    const int n = mo_n_flags();
    add(&l, verb->name);
    if (c->name) add(&l, c->name);
    mo_operands_count(c, &least, &most);
    for (int i = 0; i < least; i++)
        add(&l, "operand");
    for (int i = 0; i < n; i++)
        if (mo_flag_at(i)->needed >> c->command & 1) {
            add(&l, mo_flag_at(i)->name);
            add(&l, sample(mo_flag_at(i), 0));
        }
    return l;
}

static int parse(struct line *l, struct mo_options *o, moire_error *err) {
    struct mo_env env = mo_env_default();
    for (int i = 0; i < l->n; i++)
        l->word[i] = l->text[i];
    int code = mo_options_open(&env, l->verb, l->n, l->word, o, err);
    mo_options_close(&env, o);
    return code;
}

/* Calls `check` for every command of every verb. */
static void each_command(void (*check)(const struct mo_verb *verb, const struct mo_verb_command *c)) {
    for (int v = 0; mo_verbs[v]; v++)
        for (const struct mo_verb_command *c = mo_verbs[v]->commands; c->command; c++)
            check(mo_verbs[v], c);
}

/* --- rows ----------------------------------------------------------------------------------------------- */
static size_t size_of(enum mo_flag_kind kind) {
    static const size_t sizes[] = {
        [MO_FLAG_SWITCH] = sizeof(bool),
        [MO_FLAG_INT] = sizeof(int),
        [MO_FLAG_INT64] = sizeof(int64_t),
        [MO_FLAG_REAL] = sizeof(double),
        [MO_FLAG_TEXT] = sizeof(char *),
        [MO_FLAG_WORDS] = sizeof(struct mo_words),
        [MO_FLAG_WHOLES] = sizeof(struct mo_wholes),
        [MO_FLAG_NUMBERS] = sizeof(struct mo_numbers),
        [MO_FLAG_SHAPES] = sizeof(struct mo_shapes),
    };
    return sizes[kind];
}

/* Texts are where the line was copied to, which no two readings have in common. */
static bool holds_texts(enum mo_flag_kind kind) {
    return kind == MO_FLAG_TEXT || kind == MO_FLAG_WORDS || kind == MO_FLAG_SHAPES;
}

/* The same line with and without the flag: what differs lies in its field. */
static void check_sets(const struct mo_verb *verb, const struct mo_verb_command *c) {
    static struct mo_options without, with;
    const int n = mo_n_flags();
    for (int i = 0; i < n; i++) {
        if (!is_on(mo_flag_at(i), c->command)) continue;
        const size_t at = mo_flag_at(i)->to, size = size_of(mo_flag_at(i)->kind);
        struct line l = whole_line(verb, c);
        moire_error err = {0};
        assert_int_equal(parse(&l, &without, &err), MOIRE_OK);
        add(&l, mo_flag_at(i)->name);
        if (mo_flag_at(i)->value) add(&l, sample(mo_flag_at(i), 1));
        if (parse(&l, &with, &err)) fail_msg("%s %s: %s", verb->name, mo_flag_at(i)->name, err.message);
        if (!memcmp((char *)&without + at, (char *)&with + at, size))
            fail_msg("%s %s sets nothing", verb->name, mo_flag_at(i)->name);
        memcpy((char *)&with + at, (char *)&without + at, size);
        for (int k = 0; k < n; k++) {
            if (holds_texts(mo_flag_at(k)->kind) ||
                !memcmp((char *)&without + mo_flag_at(k)->to, (char *)&with + mo_flag_at(k)->to,
                        size_of(mo_flag_at(k)->kind)))
                continue;
            fail_msg("%s %s sets %s too", verb->name, mo_flag_at(i)->name, mo_flag_at(k)->field);
        }
    }
}

static void every_flag_sets_its_field(void **state) {
    (void)state;
    each_command(check_sets);
}

static void rows_are_well_formed(void **state) {
    (void)state;
    assert_true(mo_n_flags() <= MO_FLAGS_MOST);
    uint64_t all = 0;
    const int n = mo_n_flags();
    for (int v = 0; mo_verbs[v]; v++)
        for (const struct mo_verb_command *c = mo_verbs[v]->commands; c->command; c++) {
            assert_false(all >> c->command & 1); /* no two verbs have a command */
            all |= UINT64_C(1) << c->command;
        }
    assert_int_equal(__builtin_popcountll(all), MO_COMMANDS - 1);
    for (int i = 0; i < n; i++) {
        const struct mo_flag *f = mo_flag_at(i);
        const bool bad = strncmp(f->name, "--", 2) || !(f->on & all) || (f->needed & ~f->on) ||
                         (f->needed && f->initial) || !f->value != (f->kind == MO_FLAG_SWITCH) || !*f->help ||
                         f->help[strlen(f->help) - 1] == '.' || f->least > f->most;
        if (bad) fail_msg("the row of %s (%s)", f->name, f->field);
        for (int k = 0; k < i; k++)
            if ((!strcmp(mo_flag_at(k)->name, f->name) || mo_flag_at(k)->to == f->to) &&
                (mo_flag_at(k)->on & f->on & all))
                fail_msg("%s and %s of one command set %s", mo_flag_at(k)->name, f->name, f->field);
    }
}

/* --- help and completion -------------------------------------------------------------------------------- */
enum { PAGE = 40000 };

/* What is printed of a verb: its page, or the words of a command. */
static void text_of(const struct mo_verb *verb, const struct mo_verb_command *words, char out[PAGE]) {
    memset(out, 0, PAGE);
    FILE *to = fmemopen(out, PAGE - 1, "w");
    assert_non_null(to);
    if (words)
        mo_verb_words(to, verb, words->name);
    else
        mo_verb_page(to, verb, NULL);
    assert_int_equal(fclose(to), 0);
}

static void check_help(const struct mo_verb *verb, const struct mo_verb_command *c) {
    const int n = mo_n_flags();
    static char page[PAGE], words[PAGE];
    char line[80];
    text_of(verb, NULL, page);
    text_of(verb, c, words);
    if (!c->hidden && c->name) assert_non_null(strstr(page, c->name));
    for (int i = 0; i < n; i++) {
        if (!is_on(mo_flag_at(i), c->command)) continue;
        snprintf(line, sizeof line, "%s%s%s  ", mo_flag_at(i)->name, mo_flag_at(i)->value ? " " : "",
                 mo_flag_at(i)->value ? mo_flag_at(i)->value : "");
        if (!strstr(page, line)) fail_msg("the help of %s lacks '%s'", verb->name, line);
        snprintf(line, sizeof line, "%s%c", mo_flag_at(i)->name, mo_flag_at(i)->value ? ' ' : '\n');
        if (!strstr(words, line)) fail_msg("the words of %s lack '%s'", verb->name, line);
    }
    for (const char *at = page; *at; at += strcspn(at, "\n") + 1)
        if (strcspn(at, "\n") > 110) fail_msg("%s: a long line: %.120s", verb->name, at);
}

static void help_lists_every_flag(void **state) {
    (void)state;
    each_command(check_help);
}

/* Whether a source of the tool has "->FIELD" as a whole word. */
static bool reads(const char *file, const char *field) {
    char path[200], line[400], word[80];
    bool found = false;
    snprintf(path, sizeof path, "tools/moire/verbs/%s.c", file);
    snprintf(word, sizeof word, "->%s", field);
    FILE *f = fopen(path, "r");
    while (f && !found && fgets(line, sizeof line, f))
        for (const char *at = line; !found && (at = strstr(at, word)); at++)
            found = !strchr("abcdefghijklmnopqrstuvwxyz_0123456789", at[strlen(word)]);
    if (f) fclose(f);
    return found;
}

/* A flag is read by the file of its verb or by one that verbs share. */
static void check_read(const struct mo_verb *verb, const struct mo_verb_command *c) {
    static const char *const shared[] = {"bench_common", "bench_alone",  "bench_inss",    "bench_flexy",
                                         "bench_plans",  "bench_survey", "bench_loadgen", "tabulated"};
    const struct mo_verb *by = verb == &mo_verb_tune ? &mo_verb_compile : verb;
    char file[64];
    const int n = mo_n_flags();
    snprintf(file, sizeof file, "verb_%s", by->name);
    for (char *dash = file; (dash = strchr(dash, '-'));)
        *dash = '_';
    for (int i = 0; i < n; i++) {
        bool found = !is_on(mo_flag_at(i), c->command) || reads(file, mo_flag_at(i)->field);
        for (size_t k = 0; !found && k < sizeof shared / sizeof *shared; k++)
            found = reads(shared[k], mo_flag_at(i)->field);
        if (!found)
            fail_msg("%s takes %s, but does not read %s", verb->name, mo_flag_at(i)->name,
                     mo_flag_at(i)->field);
    }
}

static void every_flag_is_read(void **state) {
    (void)state;
    assert_true(reads("verb_compile", "byte_price"));
    assert_false(reads("verb_compile", "byte"));
    each_command(check_read);
}

/* --- refusals ------------------------------------------------------------------------------------------- */
static void check_refuses(const struct mo_verb *verb, const struct mo_verb_command *c) {
    static struct mo_options o;
    const int n = mo_n_flags();
    for (int i = 0; i < n; i++) {
        if (mo_flag_find(c->command, mo_flag_at(i)->name, strlen(mo_flag_at(i)->name))) continue;
        struct line l = whole_line(verb, c);
        moire_error err = {0};
        add(&l, mo_flag_at(i)->name);
        if (mo_flag_at(i)->value) add(&l, sample(mo_flag_at(i), 0));
        assert_int_equal(parse(&l, &o, &err), MOIRE_EINVAL);
        assert_non_null(strstr(err.message, mo_flag_at(i)->name));
        assert_non_null(strstr(err.message, "no flag '"));
    }
}

static void other_commands_refuse_a_flag(void **state) {
    (void)state;
    each_command(check_refuses);
}

static void check_needs(const struct mo_verb *verb, const struct mo_verb_command *c) {
    static struct mo_options o;
    const struct line l = whole_line(verb, c);
    const int before = c->name ? 2 : 1;
    moire_error err;
    int least, most;
    struct line extra = l, fewer = l;
    mo_operands_count(c, &least, &most);
    for (int i = least; i < most && extra.n < WORDS; i++)
        add(&extra, "more");
    if (extra.n < WORDS) { /* the others take as many as there is room for */
        add(&extra, "surplus");
        assert_int_equal(parse(&extra, &o, &err), MOIRE_EINVAL);
        assert_non_null(strstr(err.message, "surplus"));
    }
    for (int cut = before; cut < l.n; cut++) { /* all that is there is needed */
        fewer.n = cut;
        if (parse(&fewer, &o, &err) != MOIRE_EINVAL) fail_msg("%s does with %d words", verb->name, cut);
    }
}

static void what_is_needed_is_asked_for(void **state) {
    (void)state;
    each_command(check_needs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flag_sets_its_field),    cmocka_unit_test(rows_are_well_formed),
        cmocka_unit_test(help_lists_every_flag),        cmocka_unit_test(every_flag_is_read),
        cmocka_unit_test(other_commands_refuse_a_flag), cmocka_unit_test(what_is_needed_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
