/* SPDX-License-Identifier: Apache-2.0
 * replay_print.c - a replay's document as text; see replay.h. */
#include <stdio.h>
#include "bench/sim/replay.h"
#include "bench/report/report_page.h"

static void print_pressure(const json_t *document) {
    const json_t *p = json_object_get(document, "pressure"), *band;
    double layers = mo_json_number(document, "layers");
    size_t i;
    printf("pressure from %s: %.2f in the mean, %.2f at most; %.1f %% of layers in another version than "
           "their first\n",
           mo_json_text(p, "from"), mo_json_number(p, "mean"), mo_json_number(p, "most"),
           layers > 0 ? 100 * mo_json_number(document, "adapted") / layers : 0.0);
    json_array_foreach(json_object_get(p, "bands"), i, band)
        printf("  up to %.2f: %8.0f blocks, %.3f x their profile\n", mo_json_number(band, "up_to"),
               mo_json_number(band, "blocks"), mo_json_number(band, "ratio"));
}

void mo_bench_replay_print(const json_t *document) {
    const json_t *results = json_object_get(document, "results"), *real = json_array_get(results, 0);
    size_t i, k;
    char share[16];
    json_t *row, *t;
    double gpus = mo_json_number(document, "gpus");
    const char *what = gpus > 0 ? "units" : "cores";
    printf("recorded on %.0f %s", mo_json_number(document, "cores"), what);
    if (gpus > 0) printf(" of %.0f GPU%s", gpus, gpus > 1 ? "s" : "");
    printf(" with policy %s; its blocks took %.3f x their profile", mo_json_text(document, "policy"),
           mo_json_number(document, "block_ratio"));
    if (mo_json_number(document, "stalls") > 0)
        printf("; %.0f of them stalled for %.0f ms in all: the machine was not theirs alone",
               mo_json_number(document, "stalls"), mo_json_number(document, "stall_ms"));
    printf("\n");
    print_pressure(document);
    json_array_foreach(results, i, row) {
        printf("\n%s: policy %s, %.0f %s: %.2f %% of all queries in time", mo_json_text(row, "kind"),
               mo_json_text(row, "policy"), mo_json_number(row, "cores"), what,
               100 * mo_json_number(row, "overall"));
        if (json_object_get(row, "bound"))
            printf("; no scheduler has more than %.2f %%", 100 * mo_json_number(row, "bound"));
        printf("\n");
        printf("  %-26s %7s %9s %9s %9s %s\n", "tenant", "n", "within", "p50 ms", "p95 ms",
               i ? " against recorded: within, p50, p95" : "");
        json_array_foreach(json_object_get(row, "tenants"), k, t) {
            const json_t *was = json_array_get(json_object_get(real, "tenants"), k);
            double p50 = mo_json_number(was, "p50_ms"), p95 = mo_json_number(was, "p95_ms");
            printf("  %-26.26s %7.0f  %s %9.2f %9.2f", mo_json_text(t, "name"), mo_json_number(t, "n"),
                   mo_json_percent(t, "within_qos", share), mo_json_number(t, "p50_ms"),
                   mo_json_number(t, "p95_ms"));
            if (i && p50 > 0 && p95 > 0)
                printf("  %+8.2f points, %+6.1f %%, %+6.1f %%",
                       100 * (mo_json_number(t, "within_qos") - mo_json_number(was, "within_qos")),
                       100 * (mo_json_number(t, "p50_ms") / p50 - 1),
                       100 * (mo_json_number(t, "p95_ms") / p95 - 1));
            printf("\n");
        }
    }
}
