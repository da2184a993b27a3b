/* SPDX-License-Identifier: Apache-2.0
 * test_csv.c - files of comma-separated values: what is written is read back, and what is wrong is named by
 * file, line and column. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "bench/data/process.h"
#include "runtime/base/csv.h"

enum { CELLS = 8, LENGTH = 64 };

/* The cells of the last row. */
struct seen {
    int rows, n, length[CELLS], ended;
    char cell[CELLS][LENGTH], note[LENGTH];
};

static int see_remark(struct mo_csv *c, void *self) {
    struct seen *s = self;
    size_t n;
    const char *text = mo_csv_remark(c, "note", &n);
    if (text) snprintf(s->note, sizeof s->note, "%.*s", (int)n, text);
    return MOIRE_OK;
}

static int see_header(struct mo_csv *c, void *self) {
    (void)self;
    return mo_csv_skip(c, "a,b") ? MOIRE_OK : mo_csv_fail(c, "the header must begin with a,b");
}

static int see_row(struct mo_csv *c, void *self) {
    struct seen *s = self;
    s->rows++;
    for (s->n = 0; mo_csv_more(c) && s->n < CELLS; s->n++) {
        s->length[s->n] = mo_csv_cell(c, s->cell[s->n], LENGTH);
        if (s->length[s->n] < 0) return mo_csv_fail_cell(c, "no cell");
    }
    return s->n > 2 ? mo_csv_fail_cell(c, "'%s' is one too many", c->shown) : MOIRE_OK;
}

static int see_end(struct mo_csv *c, void *self) {
    ((struct seen *)self)->ended = c->line;
    return MOIRE_OK;
}

static int look(const char *text, size_t n, bool whole, struct seen *s, moire_error *err) {
    const struct mo_csv_form form = {.magic = "# cells 1",
                                     .what = "a file of cells",
                                     .unit = "row",
                                     .whole = whole,
                                     .remark = see_remark,
                                     .header = see_header,
                                     .row = see_row,
                                     .end = see_end};
    char *copy = malloc(n + 1); /* nothing behind the text is read */
    assert_non_null(copy);
    memcpy(copy, text, n);
    copy = realloc(copy, n ? n : 1);
    *s = (struct seen){0};
    int code = mo_csv_read(&form, "f", copy, n, s, err);
    free(copy);
    return code;
}

#define HEAD "# cells 1\na,b\n"

static void cells_are_those_of_rfc_4180(void **state) {
    (void)state;
    static const struct {
        const char *row;
        int n;
        const char *cell[2];
    } rows[] = {{"x,y", 2, {"x", "y"}},
                {"", 1, {""}},
                {",", 2, {"", ""}},
                {"\"x,y\",z", 2, {"x,y", "z"}},
                {"x,\"\"", 2, {"x", ""}},
                {"\"say \"\"yes\"\"\",\"\"\"\"", 2, {"say \"yes\"", "\""}},
                {"a \"b\" c,d\"", 2, {"a \"b\" c", "d\""}}, /* a quote inside a plain cell is itself */
                {"\"#x\",y", 2, {"#x", "y"}},
                {" x , y ", 2, {" x ", " y "}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int end = 0; end < 3; end++) {
            char text[128];
            struct seen s;
            moire_error err;
            int n = snprintf(text, sizeof text, HEAD "%s%s", rows[i].row,
                             (const char *[]){"\n", "\r\n", ""}[end]);
            bool row = *rows[i].row || end < 2; /* an empty line without an end is none */
            int code = look(text, (size_t)n, false, &s, &err);
            assert_int_equal(code, row ? MOIRE_OK : MOIRE_EFORMAT);
            if (!row) continue;
            assert_int_equal(s.n, rows[i].n);
            for (int k = 0; k < s.n; k++) {
                assert_string_equal(s.cell[k], rows[i].cell[k]);
                assert_int_equal(s.length[k], strlen(rows[i].cell[k]));
            }
        }
}

static void faults_are_named_with_line_and_column(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool whole;
        const char *says;
    } rows[] = {
        {"", false, "f:1: the file ends before the first row"},
        {"hello\n", false, "f:1: not a file of cells: the first line must be '# cells 1'"},
        {"# cells 1", true, "f:1: the last line is cut off"},
        {"# cells 1\n# note x\nb,a\n", false, "f:3: the header must begin with a,b"},
        {"# cells 1\n# note x\na,bb\n", false, "f:3: the header must begin with a,b"},
        {HEAD, false, "f:3: the file ends before the first row"},
        {HEAD "1,2", true, "f:3: the last line is cut off"},
        {HEAD "1,2\n3,4,five\n", false, "f:4:5: 'five' is one too many"},
        {HEAD "1,\"2\n", false, "f:3:3: a quote that is not closed"},
        {HEAD "1,\"2\"3\n", false, "f:3:3: a quote that is not closed, or text behind one"},
        {HEAD "\"\n", false, "f:3:1: a quote that is not closed"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct seen s;
        moire_error err = {0};
        assert_int_equal(look(rows[i].text, strlen(rows[i].text), rows[i].whole, &s, &err), MOIRE_EFORMAT);
        if (!strstr(err.message, rows[i].says))
            fail_msg("case %d: '%s' does not say '%s'", (int)i, err.message, rows[i].says);
    }
    struct seen s;
    moire_error err;
    assert_int_equal(look(HEAD "1,\0\n", sizeof HEAD + 3, false, &s, &err), MOIRE_EFORMAT);
    assert_non_null(strstr(err.message, "not a text"));
    assert_int_equal(look(HEAD "1,2\n# note late\n", sizeof HEAD + 15, false, &s, &err), MOIRE_OK);
    assert_string_equal(s.note, "late");
    assert_int_equal(s.ended, 5);
}

static void numbers_are_whole_cells_within_their_range(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool good;
    } rows[] = {{"1", true},   {"-1", false},  {"10", true},    {"10.1", false}, {"1e0", true},
                {"1x", false}, {"", false},    {"nan", false},  {"inf", false},  {"1e999", false},
                {"0", true},   {"1,2", false}, {"1e-999", true}};
    double v;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (mo_csv_is_number(rows[i].text, strlen(rows[i].text), 0, 10, &v) != rows[i].good)
            fail_msg("'%s'", rows[i].text);
    assert_false(mo_csv_is_number("0000000000000000000000000000000000000000000000000000000000000000000001",
                                  70, 0, 10, &v)); /* longer than any number */
}

static void what_is_written_is_read(void **state) {
    (void)state;
    enum { ROUNDS = 3000, SEED = 4 };
    static const char from[] = ",\"#ab '\t\n\xc3\xa9";
    struct mo_rng rng;
    mo_rng_seed(&rng, SEED, 0);
    for (int round = 0; round < ROUNDS; round++) {
        char cell[2][12] = {{0}}, *text = NULL;
        size_t n;
        for (int k = 0; k < 2; k++) {
            int length = (int)(mo_rng_uniform(&rng) * 11);
            for (int i = 0; i < length; i++)
                cell[k][i] = from[(int)(mo_rng_uniform(&rng) * (sizeof from - 1))];
            cell[k][length] = 0;
        }
        FILE *f = open_memstream(&text, &n);
        assert_non_null(f);
        fputs(HEAD, f);
        mo_csv_put(f, cell[0]);
        fputc(',', f);
        mo_csv_put(f, cell[1]);
        fputc('\n', f);
        fclose(f);
        struct seen s;
        moire_error err;
        if (look(text, n, true, &s, &err)) fail_msg("seed %d, round %d: %s", SEED, round, err.message);
        assert_int_equal(s.n, 2);
        for (int k = 0; k < 2; k++) {
            for (char *c = cell[k]; *c; c++)
                if (*c == '\t' || *c == '\n') *c = '_';
            assert_string_equal(s.cell[k], cell[k]);
        }
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_those_of_rfc_4180),
        cmocka_unit_test(faults_are_named_with_line_and_column),
        cmocka_unit_test(numbers_are_whole_cells_within_their_range),
        cmocka_unit_test(what_is_written_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
