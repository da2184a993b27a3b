/* SPDX-License-Identifier: Apache-2.0
 * report_text.c - the tables of `moire bench serve` for the terminal. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "bench/report/report.h"
#include "bench/report/report_page.h"
#include "bench/load/resident.h"
#include "bench/sim/simulate_summary.h"

static void tenants(const json_t *document) {
    size_t i;
    json_t *t;
    /* on GPUs what a query takes is counted in whole GPUs */
    bool gpus = json_is_true(json_object_get(json_object_get(document, "calibration"), "gpus"));
    printf("%-28s %10s %14s\n", "tenant", "QoS ms", gpus ? "least GPU ms" : "solo 1-core ms");
    json_array_foreach(json_object_get(json_object_get(document, "calibration"), "tenants"), i, t)
        printf("%-28.28s %10.2f %14.2f\n", mo_json_text(t, "name"), mo_json_number(t, "qos_ms"),
               mo_json_number(t, "solo_ms"));
}

/* A tenant's share, and the interval in which it may lie given so many queries; dashes without queries. */
static void within(const json_t *tenant) {
    const json_t *interval = json_object_get(tenant, "within_interval");
    char text[32] = "", share[16];
    if (json_is_array(interval))
        snprintf(text, sizeof text, "%.0f to %.0f", 100 * json_number_value(json_array_get(interval, 0)),
                 100 * json_number_value(json_array_get(interval, 1)));
    printf(" %s %10s", mo_json_percent(tenant, "within_qos", share), text);
}

static void milliseconds(const json_t *tenant, const char *key) {
    const json_t *ms = json_object_get(tenant, key);
    if (json_is_number(ms))
        printf(" %9.2f", json_number_value(ms));
    else
        printf("         –");
}

static void point(const json_t *result, const json_t *p) {
    char share[16];
    size_t i;
    json_t *t;
    printf("\n%s, seed %.0f, load %.2f (%.1f queries/s): %s of %.0f queries within QoS%s",
           mo_json_text(result, "name"), mo_json_number(result, "seed"), mo_json_number(p, "load"),
           mo_json_number(p, "qps"), mo_json_percent(p, "overall", share), mo_json_number(p, "n"),
           json_is_true(json_object_get(p, "stopped_early")) ? ", stopped early" : "");
    if (json_object_get(p, "bound"))
        printf("; no scheduler has more than %.2f %%", 100 * mo_json_number(p, "bound"));
    printf("\n");
    printf("  %-26s %7s %8s %10s %9s %9s %9s %6s %6s  %s\n", "tenant", "n", "within", "(95 %)", "p50 ms",
           "p95 ms", "p99 ms", "shed", "open", "until it began: p50, p99, max ms");
    json_array_foreach(json_object_get(p, "tenants"), i, t) {
        printf("  %-26.26s %7.0f", mo_json_text(t, "name"), mo_json_number(t, "n"));
        within(t);
        milliseconds(t, "p50_ms");
        milliseconds(t, "p95_ms");
        milliseconds(t, "p99_ms");
        printf(" %6.0f %6.0f", mo_json_number(t, "shed"), mo_json_number(t, "unfinished"));
        const json_t *entry = json_object_get(t, "entry"); /* peers do not say when they begin */
        if (entry)
            printf(" %9.2f %9.2f %9.2f", mo_json_number(entry, "p50_ms"), mo_json_number(entry, "p99_ms"),
                   mo_json_number(entry, "max_ms"));
        printf("\n");
    }
}

/* Loads asked for are shown tenant by tenant; the probes of a search only as one line each while they run. */
static void points(const json_t *document) {
    size_t i, k;
    json_t *result, *p;
    bool searched = mo_json_number(document, "goal") > 0;
    json_array_foreach(json_object_get(document, "results"), i, result)
        json_array_foreach(json_object_get(result, "loads"), k, p) if (!searched) point(result, p);
}

static void cell(const json_t *result, const char *key) {
    if (json_is_number(json_object_get(result, key)))
        printf(" %12.2f", mo_json_number(result, key));
    else
        printf(" %12s", "-");
}

/* Cost of decisions: one, the slowest in a hundred, and all of a query's; "-" where it was not measured. */
static void cost(const json_t *d) {
    if (mo_json_number(d, "mean_us") > 0)
        printf(" %9.2f %9.2f %9.1f", mo_json_number(d, "mean_us"), mo_json_number(d, "p99_us"),
               mo_json_number(d, "query_us"));
    else
        printf(" %9s %9s %9s", "-", "-", "-");
    printf(" %7.1f %%", 100 * mo_json_number(d, "outside_kernels"));
}

/* The highest load that held, or was asked for, and what no scheduler exceeds there. */
static void bound(const json_t *result) {
    const json_t *best = NULL;
    double held = mo_json_number(result, "max_load_overall");
    size_t i;
    json_t *p;
    json_array_foreach(json_object_get(result, "loads"), i, p) {
        if (!json_object_get(p, "bound") || (held > 0 && mo_json_number(p, "load") > held + 1e-9)) continue;
        if (!best || mo_json_number(p, "load") > mo_json_number(best, "load")) best = p;
    }
    if (best)
        printf(" %8.2f %%", 100 * mo_json_number(best, "bound"));
    else
        printf(" %10s", "-");
}

static void summary(const json_t *document) {
    size_t i;
    json_t *r;
    double goal = mo_json_number(document, "goal");
    if (goal > 0) printf("\nhighest load with %.0f %% within QoS (1.00 = all cores busy)\n", 100 * goal);
    printf("%-28s %5s %12s %12s %10s %9s %9s %9s %9s %9s\n", "system", "seed", "all queries", "every tenant",
           "bound", "RSS MiB", "decide us", "p99 us", "a query", "outside");
    json_array_foreach(json_object_get(document, "results"), i, r) {
        const json_t *m = json_object_get(r, "memory"), *d = json_object_get(r, "scheduling");
        printf("%-28.28s %5.0f", mo_json_text(r, "name"), mo_json_number(r, "seed"));
        cell(r, "max_load_overall");
        cell(r, "max_load_every_tenant");
        bound(r);
        if (m)
            printf(" %9.0f", mo_json_number(m, "rss_mib"));
        else if (d)
            printf(" %9s", "-");
        if (d) cost(d);
        printf("\n");
    }
    json_array_foreach(json_object_get(document, "left_out"), i, r)
        printf("left out: %s: %s\n", mo_json_text(r, "system"), mo_json_text(r, "why"));
}

/* Resident memory by kind; results that an earlier version wrote have its sum only. */
static void memory(const json_t *document) {
    size_t i;
    json_t *r, *m;
    const json_t *results = json_object_get(document, "results");
    bool headed = false;
    json_array_foreach(results, i, r) {
        if (!(m = json_object_get(r, "memory")) || !json_object_get(m, "file_mib")) continue;
        if (!headed) {
            printf("%-28s %9s", "resident memory, MiB", "all");
            for (int k = 0; k < MO_RESIDENT_KINDS; k++)
                printf(" %9s", mo_resident_name((enum mo_resident_kind)k));
            printf("   of files\n");
        }
        headed = true;
        printf("%-28.28s %9.1f", mo_json_text(r, "name"), mo_json_number(m, "rss_mib"));
        for (int k = 0; k < MO_RESIDENT_KINDS; k++)
            printf(" %9.1f", mo_json_number(m, mo_resident_name((enum mo_resident_kind)k)));
        printf(" %10.1f\n", mo_json_number(m, "file_mib"));
    }
}

/* What each model of a system takes, of the last result that tells. */
static void models(const json_t *document) {
    static const char *const keys[] = {"weights_mib", "weights_resident_mib", "code_resident_mib",
                                       "activations_mib", "inputs_mib"};
    const json_t *results = json_object_get(document, "results"), *tenants = NULL, *m;
    size_t i;
    json_t *r, *t;
    json_array_foreach(results, i, r) {
        const json_t *list = json_object_get(json_object_get(r, "kernels"), "tenants");
        if (json_object_get(json_array_get(list, 0), "memory")) tenants = list;
    }
    if (!tenants) return;
    printf("%-28s %9s %9s %9s %12s %9s\n", "memory of models, MiB", "weights", "resident", "code",
           "activations", "inputs");
    json_array_foreach(tenants, i, t) {
        if (!(m = json_object_get(t, "memory"))) continue;
        printf("%-28.28s", mo_json_text(t, "name"));
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            const double mib = mo_json_number(m, keys[k]);
            const int width = k == 3 ? 12 : 9;
            if (mib < 0)
                printf(" %*s", width, "-");
            else
                printf(" %*.2f", width, mib);
        }
        printf("\n");
    }
}

static void ratio(const char *text, double a, double b) {
    if (a > 0 && b > 0) printf("%s: %.2f / %.2f = %.2fx\n", text, a, b, a / b);
    if (a > 0 && b == 0) printf("%s: %.2f / below the grid\n", text, a);
}

static void comparison(const struct mo_curve *c, int n) {
    ratio("moire against the best peer, all queries  ", mo_doc_of(c, n, "moire/moire", 0),
          mo_doc_best(c, n, 0, 0));
    ratio("moire against the best peer, every tenant ", mo_doc_of(c, n, "moire/moire", 1),
          mo_doc_best(c, n, 0, 1));
    ratio("moire against its own fcfs, all queries   ", mo_doc_of(c, n, "moire/moire", 0),
          mo_doc_of(c, n, "moire/fcfs", 0));
    ratio("moire against its own fcfs, every tenant  ", mo_doc_of(c, n, "moire/moire", 1),
          mo_doc_of(c, n, "moire/fcfs", 1));
}

void mo_bench_serve_print(const json_t *document) {
    static const size_t room = MO_CURVES * sizeof(struct mo_curve);
    struct mo_env env = mo_env_default();
    mo_text_trust(stdout, document);
    printf("scenario %s: %s\n", mo_json_text(document, "scenario"), mo_json_text(document, "about"));
    tenants(document);
    points(document);
    summary(document);
    memory(document);
    models(document);
    struct mo_curve *curves = mo_alloc(&env, room);
    if (curves) comparison(curves, mo_doc_curves(document, curves));
    mo_free(&env, curves);
    if (json_array_size(json_object_get(document, "seeds")) > 1 && json_object_get(document, "summary"))
        mo_bench_summary_print(json_object_get(document, "summary"));
    if (!json_is_true(json_object_get(document, "complete"))) printf("not complete: the run was cut short\n");
}
