/* SPDX-License-Identifier: Apache-2.0
 * test_compile_all.c - `moire compile --all`: the shares of a budget and what is said of the models; and how
 * old what lies in a store is. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/moire/compile/compile_all.h"
#include "tools/moire/store_others.h"

enum { ROWS = 5 };

static struct mo_known_model source[ROWS];

static void make_rows(struct mo_all_row row[ROWS]) {
    static const enum mo_all_state states[ROWS] = {MO_ALL_DONE, MO_ALL_CUT, MO_ALL_FAILED, MO_ALL_GONE,
                                                   MO_ALL_WAITING};
    for (int i = 0; i < ROWS; i++) {
        snprintf(source[i].path, sizeof source[i].path, "/models/%c.onnx", 'a' + i);
        source[i].versions = i == 1 ? 5 : 0;
        row[i] = (struct mo_all_row){.source = &source[i], .state = states[i], .seconds = i};
    }
    row[0].totals = (struct mo_compile_totals){.layers = 9, .compiled = 7, .reused = 2};
    row[1].totals = (struct mo_compile_totals){.layers = 9, .compiled = 1, .pending = 7, .failed = 1};
    mo_fail(&row[2].err, MOIRE_EFORMAT, "no such thing");
}

/* What one model leaves over is for those behind it, and nobody gets more than is left. */
static void a_budget_is_shared(void **state) {
    (void)state;
    double left = 60;
    for (int models = 4; models > 0; models--) {
        double share = mo_all_share(left, models);
        assert_true(share >= 15 && share <= left);
        left -= share / 2;
    }
    assert_true(mo_all_share(-1, 3) == 0);
    assert_true(mo_all_share(10, 0) == 0);
}

static char *printed(const char *verb, const struct mo_all_row *row) {
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    mo_all_print(to, verb, row, ROWS, 12.5);
    fclose(to);
    return text;
}

static void one_summary_says_all(void **state) {
    (void)state;
    struct mo_all_row row[ROWS];
    make_rows(row);
    char *text = printed("compile", row);
    assert_non_null(
        strstr(text, "1 of 5 models done in 12.5 s, 1 failed, 2 not finished: run the command again"));
    assert_non_null(strstr(text, "1 gone"));
    assert_non_null(strstr(text, "1 of them had been tuned: `moire tune --all`"));
    for (int i = 0; i < ROWS; i++)
        assert_non_null(strstr(text, source[i].path));
    free(text);
    text = printed("tune", row);
    assert_null(strstr(text, "had been tuned"));
    free(text);
}

static void the_document_has_a_row_a_model(void **state) {
    (void)state;
    static const char *const states[ROWS] = {"done", "budget", "failed", "gone", "not reached"};
    struct mo_all_row row[ROWS];
    make_rows(row);
    json_t *doc = mo_all_json(row, ROWS, 12.5), *models = json_object_get(doc, "models");
    assert_int_equal(json_array_size(models), ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        const json_t *m = json_array_get(models, i);
        assert_string_equal(json_string_value(json_object_get(m, "file")), source[i].path);
        assert_string_equal(json_string_value(json_object_get(m, "state")), states[i]);
        assert_int_equal(json_object_get(m, "error") != NULL, i == 2);
    }
    json_decref(doc);
}

static void ages_are_told_in_one_unit(void **state) {
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } ages[] = {{3, "less than a minute"}, {-5, "less than a minute"}, {61, "1 minute"},
                {3599, "59 minutes"},      {7200, "2 hours"},          {86400, "1 day"},
                {86400 * 65, "2 months"},  {86400 * 800, "2 years"}};
    char text[40];
    for (size_t i = 0; i < sizeof ages / sizeof *ages; i++) {
        mo_age_text(ages[i].seconds, text, sizeof text);
        assert_string_equal(text, ages[i].text);
    }
}

static void a_busy_machine_is_said(void **state) {
    (void)state;
    const struct mo_others quiet = {.seconds = 10, .used_s = 0.2, .cpus = 2}, unknown = {0},
                           busy = {.seconds = 10, .used_s = 8, .stolen_s = 4, .cpus = 2};
    char line[160];
    assert_false(mo_compile_busy_line(&quiet, line, sizeof line));
    assert_false(mo_compile_busy_line(&unknown, line, sizeof line));
    assert_string_equal(line, "");
    assert_true(mo_compile_busy_line(&busy, line, sizeof line));
    assert_non_null(strstr(line, "1.20 of 2 cores"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_is_shared),
        cmocka_unit_test(one_summary_says_all),
        cmocka_unit_test(the_document_has_a_row_a_model),
        cmocka_unit_test(ages_are_told_in_one_unit),
        cmocka_unit_test(a_busy_machine_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
