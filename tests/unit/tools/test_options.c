/* SPDX-License-Identifier: Apache-2.0
 * test_options.c - the command line that nine commands share: each takes the flags that its help names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "tools/moire/bench_options.h"
#include "tools/moire/paths.h"

static const struct command {
    const struct mo_verb *verb;
    unsigned readers; /* of `bench`: all its commands */
    const char *own;  /* a flag of that name which the verb reads itself */
} commands[] = {
    {&mo_verb_bench,
     MO_READS_LATENCY | MO_READS_COLD | MO_READS_KERNELS | MO_READS_MACHINE | MO_READS_SERVE |
         MO_READS_REPORT,
     NULL},
    {&mo_verb_sim, MO_READS_SIM, NULL},
    {&mo_verb_tables, MO_READS_TABLES, NULL},
    {&mo_verb_whatif, MO_READS_WHATIF, NULL},
    {&mo_verb_fidelity, MO_READS_FIDELITY, NULL},
    {&mo_verb_capacity, MO_READS_CAPACITY, NULL},
    {&mo_verb_profile, MO_READS_PROFILE, "--pressure"},
    {&mo_verb_check_device, MO_READS_CHECK_DEVICE, NULL},
};
enum { COMMANDS = sizeof commands / sizeof *commands, ALL = 2 * MO_READS_CHECK_DEVICE - 1 };

/* The next "--flag" of a help text into out; false at its end. */
static bool next_flag(const char **at, char *out, size_t n) {
    const char *found = strstr(*at, "--");
    if (!found) return false;
    size_t length = 2 + strspn(found + 2, "abcdefghijklmnopqrstuvwxyz-");
    assert_true(length < n);
    memcpy(out, found, length);
    out[length] = 0;
    *at = found + length;
    return true;
}

static bool names(const char *help, const char *flag) {
    char word[64];
    while (next_flag(&help, word, sizeof word))
        if (!strcmp(word, flag)) return true;
    return false;
}

/* Whether a line of the help's list begins with the flag; elsewhere it may be one of another command. */
static bool lists(const char *help, const char *flag) {
    char line[80], end;
    snprintf(line, sizeof line, "\n  %s", flag);
    for (const char *at = help; (at = strstr(at, line)); at++)
        if ((end = at[strlen(line)]) == ' ' || end == ',') return true;
    return false;
}

/* Whether the flag is one that any of the readers knows; its value is left out, which may be an error. */
static bool takes(unsigned readers, const char *flag) {
    for (unsigned bit = 1; bit <= MO_READS_CHECK_DEVICE; bit *= 2) {
        char text[64];
        snprintf(text, sizeof text, "%s", flag);
        char *argv[] = {text};
        struct mo_args args = {.argc = 1, .argv = argv};
        struct mo_bench_options o = {.reader = (enum mo_bench_reader)bit};
        moire_error err;
        bool took = false;
        int code = mo_bench_options_take(&o, &args, &took, &err);
        if ((readers & bit) && (took || code)) return true;
    }
    return false;
}

static void every_command_takes_what_its_help_names(void **state) {
    (void)state;
    int wrong = 0, checked = 0;
    for (int from = 0; from < COMMANDS; from++) {
        const char *help = commands[from].verb->usage;
        for (char flag[64]; next_flag(&help, flag, sizeof flag);)
            for (int c = 0; takes(ALL, flag) && c < COMMANDS; c++, checked++) {
                const char *own = commands[c].own;
                bool taken = takes(commands[c].readers, flag);
                const char *text = commands[c].verb->usage;
                if (taken ? names(text, flag) : !lists(text, flag) || (own && !strcmp(own, flag))) continue;
                print_error("%s %s: %s\n", commands[c].verb->name, flag,
                            taken ? "taken, but not in the help" : "in the help, but not taken");
                wrong++;
            }
    }
    assert_true(checked > 500);
    assert_int_equal(wrong, 0);
}

static int parse(enum mo_bench_reader reader, const char *flag, const char *value, moire_error *err) {
    char name[64], text[64];
    snprintf(name, sizeof name, "%s", flag);
    snprintf(text, sizeof text, "%s", value);
    char *argv[] = {name, text};
    struct mo_args args = {.argc = 2, .argv = argv};
    struct mo_bench_options o = {.reader = reader};
    return mo_bench_options_parse(&o, &args, err);
}

static void bad_values_are_refused(void **state) {
    (void)state;
    static const struct {
        enum mo_bench_reader reader;
        const char *flag, *value;
        int code;
    } rows[] = {
        {MO_READS_LATENCY, "--threads", "1,2", MOIRE_OK},
        {MO_READS_LATENCY, "--threads", "1.5", MOIRE_EINVAL},
        {MO_READS_LATENCY, "--threads", "0", MOIRE_EINVAL},
        {MO_READS_LATENCY, "--threads", "nan", MOIRE_EINVAL},
        {MO_READS_SERVE, "--threads", "2", MOIRE_EINVAL}, /* serve takes all cores */
        {MO_READS_SERVE, "--seed", "9000000000000000", MOIRE_OK},
        {MO_READS_SERVE, "--seed", "0.5", MOIRE_EINVAL},
        {MO_READS_LATENCY, "--shape", "x=1,3,8,8", MOIRE_OK},
        {MO_READS_LATENCY, "--shape", "x=1,3.5", MOIRE_EINVAL},
        {MO_READS_LATENCY, "--shape", "x=1,1,1,1,1,1,1,1,1", MOIRE_EINVAL},
        {MO_READS_LATENCY, "--shape", "x", MOIRE_EINVAL},
        {MO_READS_SIM, "--find-max", "1.01", MOIRE_EINVAL},
        {MO_READS_CAPACITY, "--output", "f", MOIRE_EINVAL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        moire_error err = {0};
        int code = parse(rows[i].reader, rows[i].flag, rows[i].value, &err);
        if (code != rows[i].code) fail_msg("%s %s: %d %s", rows[i].flag, rows[i].value, code, err.message);
        if (code) assert_non_null(strstr(err.message, rows[i].flag));
    }
}

static void numbers_are_whole_texts_in_range(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool number, whole; /* from -5 to 1e18 */
    } rows[] = {
        {"0", true, true},      {"-5", true, true},
        {"7", true, true},      {"1e3", true, false},
        {"2.5", true, false},   {"nan", false, false},
        {"inf", false, false},  {"", false, false},
        {"x", false, false},    {"3x", false, false},
        {"-6", false, false},   {NULL, false, false},
        {"1e19", false, false}, {"99999999999999999999", false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double number = 42;
        int64_t whole = 42;
        const char *text = rows[i].text ? rows[i].text : "nothing";
        bool is_number = mo_args_number(rows[i].text, -5, 1e18, &number);
        bool is_whole = mo_args_whole(rows[i].text, -5, 1000000000000000000, &whole);
        if (is_number != rows[i].number || is_whole != rows[i].whole) fail_msg("%s", text);
        assert_true(is_whole || whole == 42); /* what is refused changes nothing */
    }
}

/* A folder that is named must be there for those who read it; one that is made later need not be. */
static void a_store_that_is_named_exists(void **state) {
    (void)state;
    char path[4096];
    moire_error err = {0};
    assert_int_equal(mo_path_store("/tmp/moire-no-such-store", path, sizeof path, &err), MOIRE_OK);
    assert_int_equal(mo_path_store_there("/tmp/moire-no-such-store", path, sizeof path, &err), MOIRE_EIO);
    assert_non_null(strstr(err.message, "moire-no-such-store"));
    assert_int_equal(mo_path_store_there("/tmp", path, sizeof path, &err), MOIRE_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_takes_what_its_help_names),
        cmocka_unit_test(bad_values_are_refused),
        cmocka_unit_test(numbers_are_whole_texts_in_range),
        cmocka_unit_test(a_store_that_is_named_exists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
