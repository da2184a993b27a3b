/* SPDX-License-Identifier: Apache-2.0
 * kernels_print.c - the table of `moire bench kernels` for the terminal. */
#include <stdio.h>
#include <string.h>
#include "bench/kernels/kernels.h"

static const char *text_of(const json_t *row, const char *key) {
    const char *s = json_string_value(json_object_get(row, key));
    return s ? s : "";
}

static double number_of(const json_t *row, const char *key) {
    return json_number_value(json_object_get(row, key));
}

static void print_ceilings(const json_t *document) {
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(document, "ceilings"), i, c) mo_ceiling_print(
        c, number_of(json_array_get(json_object_get(document, "ceilings_after"), i), "fma_gflops"));
}

static void print_row(const json_t *row) {
    const json_t *peer = json_object_get(row, "onednn");
    printf("%-24.24s %-16.16s %-16.16s %3d %3d %9.4f %7.1f %7.1f %6.1f %6.1f %6.1f %-6s",
           text_of(row, "layer"), text_of(row, "input"), text_of(row, "output"), (int)number_of(row, "uses"),
           (int)number_of(row, "workers"), number_of(row, "min_ms"), number_of(row, "gflops"),
           number_of(row, "executed_gflops"), 100 * number_of(row, "fma_share"), number_of(row, "gb_s"),
           100 * number_of(row, "roofline_share"), text_of(row, "limit"));
    if (number_of(peer, "min_ms") > 0)
        printf(" %9.4f %6.2fx", number_of(peer, "min_ms"), number_of(peer, "speed_of_moire"));
    else
        printf(" %9s %7s", "-", "-");
    printf("  %s%s%s\n", text_of(row, "kernel"), number_of(peer, "min_ms") > 0 ? " | " : "",
           number_of(peer, "min_ms") > 0 ? text_of(peer, "kernel") : "");
}

void mo_bench_kernels_print(const json_t *document) {
    size_t i, k;
    json_t *row, *one;
    print_ceilings(document);
    json_array_foreach(json_object_get(document, "summary"), k, one) {
        const double threads = number_of(one, "threads");
        printf("\n%d thread%s\n", (int)threads, threads > 1 ? "s" : "");
        printf("%-24s %-16s %-16s %3s %3s %9s %7s %7s %6s %6s %6s %-6s %9s %7s  %s\n", "layer", "input",
               "output", "use", "thr", "min ms", "GF/s", "execut.", "% fma", "GB/s", "% roof", "limit",
               "onednn ms", "speed", "kernel | onednn's");
        json_array_foreach(json_object_get(document, "results"), i,
                           row) if (number_of(row, "threads") == threads) print_row(row);
        if (number_of(one, "compared") > 0)
            printf("speed against oneDNN, geometric mean over %d layers: %.2fx\n",
                   (int)number_of(one, "compared"), number_of(one, "geomean_speed_vs_onednn"));
        if (number_of(one, "large_layers") > 0)
            printf("least share of the multiply-add ceiling among %d layers of 100 MFLOP and more: %.1f %%\n",
                   (int)number_of(one, "large_layers"),
                   100 * number_of(one, "least_fma_share_of_large_layers"));
    }
}
