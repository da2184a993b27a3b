/* SPDX-License-Identifier: Apache-2.0
 * columns.h - rows of a result document as a table in text and on a page: what is shown of a row, column by
 * column. */
#ifndef MO_BENCH_COLUMNS_H
#define MO_BENCH_COLUMNS_H
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum { MO_COLUMN_CELL = 48 };

struct mo_column {
    const char *key, *interval; /* of the value, and of half its 95 % interval; NULL = none */
    const char *title, *head;   /* in text; on the page */
    int digits;
    double scale; /* of what is shown; 0 = 1 */
    bool pair;    /* the value is a list of two */
};

/* "12.3+-0.4", "0.81 0.93", or a dash where there is no value. */
const char *mo_column_cell(char text[MO_COLUMN_CELL], const json_t *row, const struct mo_column *column);
/* The rest of a line of text, `width` characters a column: titles, values. */
void mo_columns_print_titles(const struct mo_column *columns, int n, int width);
void mo_columns_print(const json_t *row, const struct mo_column *columns, int n, int width);
/* The rest of a row of a table on the page, which ends with it. */
void mo_columns_page_heads(FILE *out, const struct mo_column *columns, int n);
void mo_columns_page(FILE *out, const json_t *row, const struct mo_column *columns, int n);
#endif
