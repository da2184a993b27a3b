/* SPDX-License-Identifier: Apache-2.0
 * column.h - columns of tables over seeds: a value of a row is a number, {"mean", "ci95"}, or null. */
#ifndef MO_BENCH_COLUMN_H
#define MO_BENCH_COLUMN_H
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct mo_bench_column {
    const char *title; /* in text */
    const char *head;  /* on a page; breaks at a bar */
    const char *key;
    double scale;
    int digits;
};

/* Whether the row has a value there. */
bool mo_bench_column_known(const json_t *row, const struct mo_bench_column *column);
/* "0.45+-0.02" or a dash behind a space, in so many columns. */
void mo_bench_column_print(const json_t *row, const struct mo_bench_column *column, int width);
/* The cells of a page's table. */
void mo_bench_column_head(FILE *out, const char *head);
void mo_bench_column_page(FILE *out, const json_t *row, const struct mo_bench_column *column, bool bold);
#endif
