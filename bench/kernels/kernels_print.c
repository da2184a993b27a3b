/* SPDX-License-Identifier: Apache-2.0
 * kernels_print.c - the table of `moire bench kernels` for the terminal. */
#include <stdio.h>
#include <string.h>
#include "bench/data/json_read.h"
#include "bench/kernels/kernels.h"

static void print_ceilings(const json_t *document) {
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(document, "ceilings"), i, c) mo_ceiling_print(
        c, mo_json_number(json_array_get(json_object_get(document, "ceilings_after"), i), "fma_gflops"));
}

static void print_row(const json_t *row) {
    const json_t *peer = json_object_get(row, "onednn");
    printf("%-24.24s %-16.16s %-16.16s %3d %3d %9.4f %7.1f %7.1f %6.1f %6.1f %6.1f %-6s",
           mo_json_text(row, "layer"), mo_json_text(row, "input"), mo_json_text(row, "output"),
           (int)mo_json_number(row, "uses"), (int)mo_json_number(row, "workers"),
           mo_json_number(row, "min_ms"), mo_json_number(row, "gflops"),
           mo_json_number(row, "executed_gflops"), 100 * mo_json_number(row, "fma_share"),
           mo_json_number(row, "gb_s"), 100 * mo_json_number(row, "roofline_share"),
           mo_json_text(row, "limit"));
    if (mo_json_number(peer, "min_ms") > 0)
        printf(" %9.4f %6.2fx", mo_json_number(peer, "min_ms"), mo_json_number(peer, "speed_of_moire"));
    else
        printf(" %9s %7s", "-", "-");
    printf("  %s%s%s\n", mo_json_text(row, "kernel"), mo_json_number(peer, "min_ms") > 0 ? " | " : "",
           mo_json_number(peer, "min_ms") > 0 ? mo_json_text(peer, "kernel") : "");
}

void mo_bench_kernels_print(const json_t *document) {
    size_t i, k;
    json_t *row, *one;
    print_ceilings(document);
    json_array_foreach(json_object_get(document, "summary"), k, one) {
        const double threads = mo_json_number(one, "threads");
        printf("\n%d thread%s\n", (int)threads, threads > 1 ? "s" : "");
        printf("%-24s %-16s %-16s %3s %3s %9s %7s %7s %6s %6s %6s %-6s %9s %7s  %s\n", "layer", "input",
               "output", "use", "thr", "min ms", "GF/s", "execut.", "% fma", "GB/s", "% roof", "limit",
               "onednn ms", "speed", "kernel | onednn's");
        json_array_foreach(json_object_get(document, "results"), i,
                           row) if (mo_json_number(row, "threads") == threads) print_row(row);
        if (mo_json_number(one, "compared") > 0)
            printf("speed against oneDNN, geometric mean over %d layers: %.2fx\n",
                   (int)mo_json_number(one, "compared"), mo_json_number(one, "geomean_speed_vs_onednn"));
        if (mo_json_number(one, "large_layers") > 0)
            printf("least share of the multiply-add ceiling among %d layers of 100 MFLOP and more: %.1f %%\n",
                   (int)mo_json_number(one, "large_layers"),
                   100 * mo_json_number(one, "least_fma_share_of_large_layers"));
    }
}
