/* SPDX-License-Identifier: Apache-2.0
 * inss_show.c - the test of InSS's latency model as tables; see inss_check.h. */
#include <stdio.h>
#include <string.h>
#include "bench/data/json_read.h"
#include "bench/fit/inss_check.h"

static void print_models(const json_t *models) {
    const json_t *m;
    size_t i;
    printf(
        "model            plane            width  left out %%  use explained %% (L2, memory)  alpha cache, "
        "memory, any\n");
    json_array_foreach((json_t *)models, i, m) {
        const json_t *use = json_object_get(m, "use_explained"), *a = json_object_get(m, "alpha");
        printf("%-16.16s %-15s %6.1f %11.2f %12.0f %8.0f %15s %.3f  %.3f  %.3f\n", mo_json_text(m, "model"),
               mo_json_text(m, "terms"), mo_json_number(m, "width"), mo_json_number(m, "left_out_error_pct"),
               100 * mo_json_number(use, "l2"), 100 * mo_json_number(use, "dram"), "",
               mo_json_number(a, "cache"), mo_json_number(a, "dram"), mo_json_number(a, "beside"));
    }
}

static void print_rows(const json_t *rows) {
    const json_t *row;
    size_t i;
    const char *last = "";
    printf("\nerror in %% on what was not fitted\n\n"
           "case                       predictor              model                 n    mean   worst  mean "
           "of all "
           "halves\n");
    json_array_foreach((json_t *)rows, i, row) {
        const json_t *range = json_object_get(row, "mean_range_pct");
        const char *what = mo_json_text(row, "case");
        printf("%-26s %-22s %-16.16s %6.0f  %6.2f  %6.2f", strcmp(what, last) ? what : "",
               mo_json_text(row, "predictor"), mo_json_text(row, "model"), mo_json_number(row, "n"),
               mo_json_number(row, "mean_error_pct"), mo_json_number(row, "max_error_pct"));
        if (range)
            printf("  %.2f (%.2f-%.2f)", mo_json_number(row, "mean_of_splits_pct"),
                   json_number_value(json_array_get(range, 0)), json_number_value(json_array_get(range, 1)));
        printf("\n");
        last = what;
    }
}

static void print_points(const json_t *points) {
    const json_t *p;
    size_t i;
    printf("\ncase               model            beside            batch  share  observed ms  predicted ms  "
           "error %%\n");
    json_array_foreach((json_t *)points, i, p) {
        const char *beside = mo_json_text(p, "beside");
        printf("%-18s %-16.16s %-16.16s %6.0f %5.0f%% %12.3f %13.3f %8.2f\n", mo_json_text(p, "case"),
               mo_json_text(p, "model"), *beside ? beside : "-", mo_json_number(p, "batch"),
               mo_json_number(p, "share") / 10, mo_json_number(p, "observed_ms"),
               mo_json_number(p, "predicted_ms"), mo_json_number(p, "error_pct"));
    }
}

void mo_inss_print(const json_t *d) {
    const json_t *e = json_object_get(d, "experiment");
    printf("InSS's latency model: 16 solo runs and %.0f runs beside another of each model, from half of %.0f "
           "pairs\n(seed %.0f; %.0f halves)\n\n",
           mo_json_number(e, "runs_a_model"), mo_json_number(e, "pairs"), mo_json_number(e, "seed"),
           mo_json_number(e, "splits"));
    print_models(json_object_get(d, "models"));
    print_rows(json_object_get(d, "latency_model"));
    print_points(json_object_get(d, "points"));
    printf(
        "\nThe paper's worst single error is %.2f %%; it claims less than %.0f %%.  No data here has three "
        "models on a\nGPU: the sum over neighbours is not tested.\n",
        mo_json_number(e, "paper_worst_pct"), mo_json_number(e, "paper_claim_pct"));
}
