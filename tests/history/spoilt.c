/* SPDX-License-Identifier: Apache-2.0
 * spoilt.c - histories that are spoilt line by line; see spoilt.h. */
#define _GNU_SOURCE
#include "tests/history/spoilt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "tests/history/check.h"

size_t history_spoil(const char *const *list, int count, char *out, size_t size, int from, int to,
                     const char *text) {
    size_t n = 0;
    for (int i = 0; i <= count; i++) {
        if (i == from && text) n += (size_t)snprintf(out + n, size - n, "%s\n", text);
        if (i == count || (i >= from && i <= to)) continue;
        n += (size_t)snprintf(out + n, size - n, "%s\n", list[i]);
    }
    return n;
}

void history_compare(const char *const *list, int count, const struct spoilt *bad, size_t n_bad) {
    char text[8192];
    int wrong = 0;
    struct history_verdict v =
        history_check(text, history_spoil(list, count, text, sizeof text, -1, -2, NULL));
    if (v.rule[0]) print_message("line %ld: %s %s\n", v.line, v.rule, v.message);
    assert_string_equal(v.rule, "");
    for (const struct spoilt *b = bad; b < bad + n_bad; b++) {
        v = history_check(text, history_spoil(list, count, text, sizeof text, b->from, b->to, b->text));
        if (strcmp(v.rule, b->rule))
            print_message("%s: wanted %s, got '%s' at line %ld: %s\n", b->what, b->rule, v.rule, v.line,
                          v.message);
        wrong += strcmp(v.rule, b->rule) != 0;
    }
    assert_int_equal(wrong, 0);
}
