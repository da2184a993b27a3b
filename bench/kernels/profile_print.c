/* SPDX-License-Identifier: Apache-2.0
 * profile_print.c - ceilings and profiles by layer for the terminal; see layer_profile.h. */
#include <stdio.h>
#include <string.h>
#include "bench/kernels/layer_profile.h"

static const char *text_of(const json_t *row, const char *key) {
    const char *s = json_string_value(json_object_get(row, key));
    return s ? s : "";
}

static double number_of(const json_t *row, const char *key) {
    return json_number_value(json_object_get(row, key));
}

void mo_ceiling_print(const json_t *c, double after_gf) {
    const json_t *forms = json_object_get(c, "forms"), *levels = json_object_get(c, "levels");
    size_t k;
    json_t *level;
    printf("ceilings, %d thread%s, %s: %.1f GF/s on operands in L1 (paired broadcasts %.1f, folded %.1f)",
           (int)number_of(c, "threads"), number_of(c, "threads") > 1 ? "s" : "", text_of(c, "isa"),
           number_of(c, "fma_gflops"), number_of(forms, "paired_broadcasts"),
           number_of(forms, "folded_broadcasts"));
    if (after_gf > 0) printf("; %.1f at the end", after_gf);
    printf("\n    GB/s read / copied:");
    json_array_foreach(levels, k, level) printf("%s %s %.0f / %.0f", k ? "," : "", text_of(level, "level"),
                                                number_of(level, "read_gb_s"), number_of(level, "copy_gb_s"));
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
        if (!strcmp(text_of(r, "kind"), "view")) continue;
        sum += number_of(r, "min_ms");
        printf(
            "%4d %-26.26s %-18s %8.4f %8.4f %5.1f %7.1f %7.1f %6.1f %5.1f %6.1f %-6s %3d %6.0f  %-11s %s\n",
            (int)number_of(r, "layer"), text_of(r, "text"), text_of(r, "output"), number_of(r, "min_ms"),
            number_of(r, "median_ms"), 100 * number_of(r, "share"), number_of(r, "gflops"),
            number_of(r, "executed_gflops"), number_of(r, "gb_s"), 100 * number_of(r, "fma_share"),
            100 * number_of(r, "roofline_share"), text_of(r, "limit"), (int)number_of(r, "threads"),
            number_of(r, "units"), text_of(r, "kind"), text_of(r, "kernel"));
    }
    printf("sum of layers %.3f ms (each one's shortest time)\n", sum);
}
