/* SPDX-License-Identifier: Apache-2.0
 * fidelity_compare.c - differences between two results of one run, and how `moire fidelity` prints them; see
 * fidelity.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/sim/fidelity.h"
#include "bench/report/report_page.h"

enum { ENOUGH = 50 };

static double relative(double real, double guess) {
    return real > 0 ? guess / real - 1 : 0;
}

static double points(const json_t *real, const json_t *guess, const char *key) {
    return 100 * (mo_json_number(guess, key) - mo_json_number(real, key));
}

/* Shares of one kind: all queries, or the calm ones. */
static json_t *compare(const json_t *real, const json_t *guess) {
    double worst = 0, p95 = 0;
    json_t *tenants = json_array(), *t;
    size_t i;
    json_array_foreach(json_object_get(real, "tenants"), i, t) {
        const json_t *g = json_array_get(json_object_get(guess, "tenants"), i);
        double within = points(t, g, "within_qos"), n = mo_json_number(t, "n");
        double off = relative(mo_json_number(t, "p95_ms"), mo_json_number(g, "p95_ms"));
        if (n >= ENOUGH) {
            worst = fmax(worst, fabs(within));
            p95 = fmax(p95, fabs(off));
        }
        json_array_append_new(tenants, json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f}", "name",
                                                 mo_json_text(t, "name"), "n", n, "points", within, "p95",
                                                 off, "p95_ms", mo_json_number(g, "p95_ms"), "p95_low_ms",
                                                 mo_json_number(g, "p95_low_ms"), "p95_high_ms",
                                                 mo_json_number(g, "p95_high_ms")));
    }
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:o}", "overall", mo_json_number(guess, "overall"), "points",
                     points(real, guess, "overall"), "worst_points", worst, "p95_target",
                     relative(mo_json_number(real, "p95_target"), mo_json_number(guess, "p95_target")),
                     "worst_p95", p95, "tenants", tenants);
}

json_t *mo_bench_fidelity_compare(const json_t *real, const json_t *guess) {
    json_t *row = compare(real, guess);
    const json_t *calm = json_object_get(real, "calm");
    if (calm && row) json_object_set_new(row, "calm", compare(calm, json_object_get(guess, "calm")));
    return row;
}

static void print_line(const json_t *row) {
    const json_t *calm = json_object_get(row, "calm");
    printf("    %-11s %8.2f %% %+7.2f %7.1f %+8.1f %% %7.1f %% %+9.2f %+8.1f %%\n", mo_json_text(row, "with"),
           100 * mo_json_number(row, "overall"), mo_json_number(row, "points"),
           mo_json_number(row, "worst_points"), 100 * mo_json_number(row, "p95_target"),
           100 * mo_json_number(row, "worst_p95"), mo_json_number(calm, "points"),
           100 * mo_json_number(calm, "p95_target"));
}

/* The tenants of the last line: there every quantity is as measured. */
static void print_tenants(const json_t *live, const json_t *last) {
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(live, "tenants"), i, t) {
        const json_t *m = json_array_get(json_object_get(last, "tenants"), i);
        printf("      %-18.18s %5.0f queries, live %6.2f %% in time, p95 %8.2f ms; %+6.2f points, p95 %8.2f "
               "(%.2f to %.2f)\n",
               mo_json_text(t, "name"), mo_json_number(t, "n"), 100 * mo_json_number(t, "within_qos"),
               mo_json_number(t, "p95_ms"), mo_json_number(m, "points"), mo_json_number(m, "p95_ms"),
               mo_json_number(m, "p95_low_ms"), mo_json_number(m, "p95_high_ms"));
    }
}

static void print_row(const json_t *row) {
    const json_t *live = json_object_get(row, "live"), *predicted = json_object_get(row, "predicted");
    size_t i;
    json_t *line;
    printf(
        "%s at load %.2f: live %.2f %% of %.0f queries in time, %.2f %% of those that met no stall; blocks "
        "%.3f x their profile, %.0f stalls (%.0f ms), submitted %.0f us late\n",
        mo_json_text(row, "policy"), mo_json_number(row, "load"), 100 * mo_json_number(live, "overall"),
        mo_json_number(live, "n"), 100 * mo_json_number(json_object_get(live, "calm"), "overall"),
        mo_json_number(row, "block_ratio"), mo_json_number(row, "stalls"), mo_json_number(row, "stall_ms"),
        mo_json_number(row, "late_us"));
    json_array_foreach(predicted, i, line) print_line(line);
    print_tenants(live, json_array_get(predicted, json_array_size(predicted) - 1));
}

void mo_bench_fidelity_print(const json_t *document) {
    const json_t *again = json_object_get(document, "again");
    size_t i;
    json_t *row;
    printf("predicted less live; worst: of the tenants with %d queries; p95: of latency over target; calm: "
           "without queries that met a stall\n    %-11s %10s %7s %7s %10s %9s %9s %10s\n",
           ENOUGH, "as measured", "in time", "points", "worst", "p95", "worst", "calm", "p95");
    json_array_foreach(json_object_get(document, "results"), i, row) print_row(row);
    if (!again) return;
    printf("the first of these runs once more, with the same arrivals, beside the first\n");
    print_line(again);
}
