/* SPDX-License-Identifier: Apache-2.0
 * survey_show.c - a survey for the terminal: the table, its sums, and what to mend first. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/data/json_read.h"
#include "tools/moire/survey/survey.h"

enum { WORST = 10 };

/* The ratio that counts: of compiled kernels, where they were measured. */
static double ratio_of(const json_t *row) {
    const double compiled = mo_json_number(row, "compiled");
    return compiled > 0 ? compiled : mo_json_number(row, "builtin");
}

static const char *text_of(const json_t *row, const char *key) {
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static void print_ratio(double v) {
    if (v > 0)
        printf(" %8.2fx", v);
    else
        printf(" %9s", "");
}

static void print_row(const json_t *row) {
    printf("%-26.26s %5d %3d  %-9s", text_of(row, "model"), (int)mo_json_number(row, "batch"),
           (int)mo_json_number(row, "threads"), text_of(row, "answers"));
    print_ratio(mo_json_number(row, "builtin"));
    print_ratio(mo_json_number(row, "compiled"));
    printf("  %-12s", text_of(row, "best_peer"));
    const json_t *layer = json_object_get(row, "worst_layer");
    if (layer)
        printf(" %s %s by %s: %.0f %% of the time, %.0f %% of the roofline", text_of(layer, "text"),
               text_of(layer, "output"), text_of(layer, "kernel"), 100 * mo_json_number(layer, "share"),
               100 * mo_json_number(layer, "roofline_share"));
    printf("%s%s\n", layer ? "" : " ", text_of(row, "why"));
}

static int by_ratio(const void *a, const void *b) {
    const double x = ratio_of(*(json_t *const *)a), y = ratio_of(*(json_t *const *)b);
    return (x > y) - (x < y);
}

static void print_worst(json_t *results) {
    const size_t n = json_array_size(results);
    json_t **row = calloc(n + 1, sizeof(json_t *));
    size_t m = 0;
    for (size_t i = 0; row && i < n; i++)
        if (ratio_of(json_array_get(results, i)) > 0) row[m++] = json_array_get(results, i);
    if (m) qsort(row, m, sizeof *row, by_ratio);
    if (m) printf("\nto mend first:\n");
    for (size_t i = 0; i < m && i < WORST; i++)
        print_row(row[i]);
    free(row);
}

/* In how many rows before `end` a peer was left out for this reason. */
static int rows_without(const json_t *results, size_t end, const char *reason) {
    int n = 0;
    size_t i, k;
    json_t *row, *why;
    json_array_foreach((json_t *)results, i, row) {
        if (i >= end) break;
        json_array_foreach(json_object_get(row, "left_out"), k, why) n +=
            !strcmp(json_string_value(why), reason);
    }
    return n;
}

/* The best of fewer peers is an easier one: each that is missing is said once for each reason. */
static void print_missing_peers(const json_t *results) {
    size_t i, k;
    json_t *row, *why;
    json_array_foreach((json_t *)results, i, row) {
        json_array_foreach(json_object_get(row, "left_out"), k, why) {
            const char *reason = json_string_value(why);
            if (!rows_without(results, i, reason))
                printf("peer left out of %d rows: %s\n", rows_without(results, SIZE_MAX, reason), reason);
        }
    }
}

static void print_sums(const json_t *document) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(document, "summary"), i, row) printf(
        "%s kernels, batch %d, %d thread%s: %.2fx the best peer in the geometric mean over %d networks, "
        "%.2fx at least, %d below 1\n",
        !strcmp(text_of(row, "kernels"), "builtin") ? "built-in" : "compiled",
        (int)mo_json_number(row, "batch"), (int)mo_json_number(row, "threads"),
        mo_json_number(row, "threads") > 1 ? "s" : "", mo_json_number(row, "geomean"),
        (int)mo_json_number(row, "models"), mo_json_number(row, "least"),
        (int)mo_json_number(row, "below_1"));
}

void mo_survey_print(const json_t *document) {
    json_t *results = json_object_get(document, "results"), *row;
    int wrong = 0, unanswered = 0;
    size_t i;
    printf("%-26s %5s %3s  %-9s %9s %9s  %-12s %s\n", "network", "batch", "thr", "answers", "built in",
           "compiled", "best peer", "where most time is lost");
    json_array_foreach(results, i, row) {
        print_row(row);
        wrong += !strcmp(text_of(row, "answers"), "wrong");
        unanswered += json_object_get(row, "why") != NULL;
    }
    json_array_foreach(json_object_get(document, "left_out"), i, row)
        printf("left out: %s, batch %d: %s\n", text_of(row, "model"), (int)mo_json_number(row, "batch"),
               text_of(row, "why"));
    print_missing_peers(results);
    printf("\n%d wrong, %d not run, of %d\n", wrong, unanswered, (int)json_array_size(results));
    print_sums(document);
    print_worst(results);
}
