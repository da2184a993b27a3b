/* SPDX-License-Identifier: Apache-2.0
 * profile_print.c - ceilings and profiles by layer for the terminal; see layer_profile.h. */
#include <stdio.h>
#include <string.h>
#include "bench/data/json_read.h"
#include "bench/kernels/layer_profile.h"

void mo_ceiling_print(const json_t *c, double after_gf) {
    const json_t *forms = json_object_get(c, "forms"), *levels = json_object_get(c, "levels");
    size_t k;
    json_t *level;
    printf("ceilings, %d thread%s, %s: %.1f GF/s on operands in L1 (paired broadcasts %.1f, folded %.1f)",
           (int)mo_json_number(c, "threads"), mo_json_number(c, "threads") > 1 ? "s" : "",
           mo_json_text(c, "isa"), mo_json_number(c, "fma_gflops"),
           mo_json_number(forms, "paired_broadcasts"), mo_json_number(forms, "folded_broadcasts"));
    if (after_gf > 0) printf("; %.1f at the end", after_gf);
    printf("\n    GB/s read / copied:");
    json_array_foreach(levels, k, level)
        printf("%s %s %.0f / %.0f", k ? "," : "", mo_json_text(level, "level"),
               mo_json_number(level, "read_gb_s"), mo_json_number(level, "copy_gb_s"));
    printf("\n");
}

void mo_profile_print(const json_t *layers, const json_t *ceiling) {
    double sum = 0;
    size_t i;
    json_t *r;
    printf("\n");
    mo_ceiling_print(ceiling, 0);
    printf("\n%4s %-26s %-18s %8s %8s %5s %7s %7s %6s %5s %6s %-6s %3s %6s  %-11s %s\n", "#", "layer",
           "output", "min ms", "median", "%", "GF/s", "execut.", "GB/s", "% fma", "% roof", "limit", "thr",
           "units", "kind", "kernel");
    json_array_foreach(layers, i, r) {
        if (!strcmp(mo_json_text(r, "kind"), "view")) continue;
        sum += mo_json_number(r, "min_ms");
        printf(
            "%4d %-26.26s %-18s %8.4f %8.4f %5.1f %7.1f %7.1f %6.1f %5.1f %6.1f %-6s %3d %6.0f  %-11s %s\n",
            (int)mo_json_number(r, "layer"), mo_json_text(r, "text"), mo_json_text(r, "output"),
            mo_json_number(r, "min_ms"), mo_json_number(r, "median_ms"), 100 * mo_json_number(r, "share"),
            mo_json_number(r, "gflops"), mo_json_number(r, "executed_gflops"), mo_json_number(r, "gb_s"),
            100 * mo_json_number(r, "fma_share"), 100 * mo_json_number(r, "roofline_share"),
            mo_json_text(r, "limit"), (int)mo_json_number(r, "threads"), mo_json_number(r, "units"),
            mo_json_text(r, "kind"), mo_json_text(r, "kernel"));
    }
    printf("sum of layers %.3f ms (each one's shortest time)\n", sum);
}
