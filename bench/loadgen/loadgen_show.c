/* SPDX-License-Identifier: Apache-2.0
 * loadgen_show.c - what LoadGen found, for the terminal; see loadgen.h. */
#include <stdio.h>
#include <string.h>
#include "bench/data/json_read.h"
#include "bench/loadgen/loadgen.h"

static void number(const json_t *row, const char *key) {
    const json_t *v = json_object_get(row, key);
    if (json_is_number(v))
        printf(" %10.3f", json_number_value(v));
    else
        printf(" %10s", "-");
}

static void print_row(const json_t *row) {
    const json_t *metric = json_object_get(row, "metric");
    const char *over = mo_json_text(row, "over");
    char text[80];
    snprintf(text, sizeof text, "%s %.4g %s", mo_json_text(metric, "name"), mo_json_number(metric, "value"),
             mo_json_text(metric, "unit"));
    printf("%-12s %-5s %-8s %-34s %9.0f %9.1f", mo_json_text(row, "system"), *over ? over : "-",
           mo_json_text(row, "verdict"), text, mo_json_number(row, "queries"),
           mo_json_number(row, "seconds"));
    number(row, "p50_ms");
    number(row, "p90_ms");
    number(row, "p99_ms");
    printf("\n");
}

void mo_loadgen_print(const json_t *document) {
    const json_t *results = json_object_get(document, "results");
    size_t i, k;
    json_t *row, *why;
    printf("%s, %s, LoadGen %s, %d thread%s\n", mo_json_text(document, "model"),
           mo_json_text(document, "scenario"), mo_json_text(json_array_get(results, 0), "loadgen"),
           (int)mo_json_number(document, "threads"), mo_json_number(document, "threads") > 1 ? "s" : "");
    printf("%-12s %-5s %-8s %-34s %9s %9s %10s %10s %10s\n", "system", "over", "verdict", "result", "queries",
           "seconds", "p50 ms", "p90 ms", "p99 ms");
    json_array_foreach(results, i, row) print_row(row);
    json_array_foreach(results, i, row) {
        json_array_foreach(json_object_get(row, "reasons"), k, why)
            printf("%s: %s\n", mo_json_text(row, "system"), json_string_value(why));
    }
    json_array_foreach(json_object_get(document, "left_out"), i, row)
        printf("left out: %s: %s\n", mo_json_text(row, "system"), mo_json_text(row, "why"));
}
