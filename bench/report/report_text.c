/* SPDX-License-Identifier: Apache-2.0
 * report_text.c - the tables of `moire bench serve` for the terminal. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "bench/load/score.h"
#include "bench/report/energy_by_load.h"
#include "bench/report/frontier.h"
#include "bench/report/headline.h"
#include "bench/report/report.h"
#include "bench/report/report_loadgen.h"
#include "bench/report/series.h"
#include "bench/load/resident.h"
#include "bench/sim/by_load.h"
#include "bench/sim/simulate_summary.h"

/* A name in 32 columns; bytes that continue a character take none. */
static void name(const char *shown) {
    int columns = 0;
    for (const char *p = shown; *p; p++)
        columns += ((unsigned char)*p & 0xc0) != 0x80;
    printf("%s%*s", shown, columns < 32 ? 32 - columns : 0, "");
}

/* The answer, before any table. */
static void headline(const struct mo_page_view *view) {
    char lines[MO_HEADLINES][MO_HEADLINE];
    int n = mo_headline(view->document, view->curves, view->n_curves, lines);
    for (int i = 0; i < n; i++)
        printf("%s\n", lines[i]);
    printf("\nscenario %s: %s\n", mo_json_text(view->document, "scenario"),
           mo_json_text(view->document, "about"));
}

static void targets(const struct mo_page_view *view) {
    const json_t *calibration = json_object_get(view->document, "calibration");
    size_t i;
    json_t *t;
    /* on GPUs what a query takes is counted in whole GPUs */
    bool gpus = json_is_true(json_object_get(calibration, "gpus"));
    printf("%-32s %10s %18s\n", "tenant", "target ms", gpus ? "least GPU ms" : "alone, 1 core ms");
    json_array_foreach(json_object_get(calibration, "tenants"), i, t) {
        name(mo_json_text(t, "name"));
        if (mo_json_number(t, "qos_ms") > 0)
            printf(" %10.2f", mo_json_number(t, "qos_ms"));
        else
            printf(" %10s", "-");
        printf(" %18.2f\n", mo_json_number(t, "solo_ms"));
    }
}

/* --- tenants of a load -------------------------------------------------------------------------------- */
static void milliseconds(double ms) {
    if (ms < 0)
        printf(" %9s", "-");
    else
        printf(" %9.*f", ms < 10000 ? 2 : 0, ms);
}

/* A share, and the interval in which it may lie given so many queries; dashes without queries. */
static void within(const struct mo_merged *m) {
    double span[2];
    char text[32];
    if (!(m->n > 0)) {
        printf(" %8s %10s", "-", "-");
        return;
    }
    mo_bench_wilson((int)m->met, (int)m->n, span);
    snprintf(text, sizeof text, "%.0f to %.0f", 100 * span[0], 100 * span[1]);
    printf(" %6.1f %% %10s", 100 * mo_merged_share(m), text);
}

static void tenant_row(const struct mo_merged *m) {
    printf("  ");
    name(m->name);
    printf(" %7.0f", m->n);
    within(m);
    milliseconds(m->p50);
    milliseconds(m->p95);
    milliseconds(m->p99);
    printf(" %9.1f %6.0f %6.0f %10.0f", m->answered_s, m->shed, m->failed, m->unanswered);
    milliseconds(m->wait_p50);
    milliseconds(m->wait_p99);
    printf("\n");
}

/* The first run of a system at a load for which the limit of any scheduler is known; NULL = none. */
static const json_t *bounded_at(const json_t *document, const char *system, double load) {
    size_t i;
    json_t *r;
    json_array_foreach(json_object_get(document, "results"), i, r) {
        const json_t *point = mo_doc_point(r, load);
        if (!strcmp(mo_json_text(r, "name"), system) && json_is_number(json_object_get(point, "bound")))
            return point;
    }
    return NULL;
}

static void one_load(const struct mo_page_view *view, const struct mo_curve *c,
                     const struct mo_merged_load *at) {
    const json_t *bounded = bounded_at(view->document, c->name, at->load);
    printf("\n%s at load %.2f: %.2f %% of %.0f queries in time", c->name, at->load,
           100 * mo_merged_share(&at->all), at->all.n);
    if (at->seeds > 1)
        printf(" (%d seeds: %.1f to %.1f %%)", at->seeds, 100 * at->all.least, 100 * at->all.most);
    if (at->stopped) printf(", stopped early");
    if (at->behind) printf(", and falls behind: %.0f overdue queries have no answer", at->overdue);
    if (bounded)
        printf("; no scheduler %shas more than %.1f %%",
               json_is_true(json_object_get(bounded, "keeps_up")) ? "that answers all " : "",
               100 * mo_json_number(bounded, "bound"));
    printf("\n");
    if (!mo_series_has_latency(c->name)) return;
    printf("  %-32s %7s %8s %10s %9s %9s %9s %9s %6s %6s %10s  %s\n", "tenant", "queries", "in time",
           "(95 %)", "p50 ms", "p95 ms", "p99 ms", "answers/s", "shed", "failed", "unanswered",
           "queueing delay p50, p99 ms");
    for (int i = 0; i < at->n_tenants; i++)
        if (mo_doc_has_target(view->document, at->tenants[i].name)) tenant_row(&at->tenants[i]);
    mo_report_loadgen(view->document, at);
}

/* Loads asked for are shown tenant by tenant; the probes of a search only as one line each while they run. */
static void loads(const struct mo_page_view *view) {
    struct mo_merged_load at;
    if (mo_json_number(view->document, "goal") > 0) return;
    for (int c = 0; c < view->n_curves; c++)
        for (int i = 0; i < view->curves[c].n; i++)
            if (mo_merge_load(view->document, view->curves[c].name, view->curves[c].load[i], &at))
                one_load(view, &view->curves[c], &at);
}

/* --- a row a system ----------------------------------------------------------------------------------- */
static void found(double load, const double range[2]) {
    char text[32] = "-";
    if (load >= 0 && range[1] > range[0] + 1e-9)
        snprintf(text, sizeof text, "%.2f (%.2f-%.2f)", load, range[0], range[1]);
    else if (load >= 0)
        snprintf(text, sizeof text, "%.2f", load);
    printf(" %18s", text);
}

/* What no scheduler exceeds at the highest load that held, or was measured; `key`: of all queries, or of the
 * worst tenant. */
static void limit(const json_t *document, const struct mo_curve *c, double held, const char *key) {
    for (int i = c->n - 1; i >= 0; i--) {
        const json_t *bounded = bounded_at(document, c->name, c->load[i]);
        if (!bounded || (held > 0 && c->load[i] > held + 1e-9)) continue;
        printf(" %8.2f %%", 100 * mo_json_number(bounded, key));
        return;
    }
    printf(" %10s", "-");
}

/* What the last result of a system says of its cost; NULL = nothing. */
static const json_t *last_part(const json_t *document, const char *system, const char *key) {
    const json_t *found_part = NULL;
    size_t i;
    json_t *r;
    json_array_foreach(json_object_get(document, "results"), i, r) {
        const json_t *part = json_object_get(r, key);
        if (part && !strcmp(mo_json_text(r, "name"), system)) found_part = part;
    }
    return found_part;
}

/* Cost of decisions: one, the slowest in a hundred, and all of a query's; "-" where it was not measured. */
static void cost(const json_t *memory, const json_t *decisions) {
    if (memory)
        printf(" %9.0f", mo_json_number(memory, "rss_mib"));
    else
        printf(" %9s", "-");
    if (mo_json_number(decisions, "mean_us") > 0)
        printf(" %11.2f %9.2f %9.1f %9.1f %%", mo_json_number(decisions, "mean_us"),
               mo_json_number(decisions, "p99_us"), mo_json_number(decisions, "query_us"),
               100 * mo_json_number(decisions, "outside_kernels"));
    else
        printf(" %11s %9s %9s %11s", "-", "-", "-", "-");
}

/* The run of a system in which its load generator took most of the processors; NULL = it has none beside it.
 */
static const json_t *busiest_client(const json_t *document, const char *system) {
    const json_t *most = NULL;
    size_t i, k;
    json_t *r, *point;
    json_array_foreach(json_object_get(document, "results"), i, r) {
        if (strcmp(mo_json_text(r, "name"), system) != 0) continue;
        json_array_foreach(json_object_get(r, "loads"), k, point) {
            if (!json_object_get(point, "client_cores")) continue;
            if (!most || mo_json_number(point, "client_cores") > mo_json_number(most, "client_cores"))
                most = point;
        }
    }
    return most;
}

/* Of that run: cores that the load generator took, and the server. */
static void cores(const json_t *point) {
    if (point)
        printf(" %9.2f %9.2f", mo_json_number(point, "client_cores"), mo_json_number(point, "server_cores"));
    else
        printf(" %9s %9s", "-", "-");
}

static void left_out(const json_t *document) {
    size_t i;
    json_t *r;
    json_array_foreach(json_object_get(document, "left_out"), i, r)
        printf("left out: %s: %s\n", mo_json_text(r, "system"), mo_json_text(r, "why"));
}

/* Found loads, and costs where they were measured: a simulation has none. */
static void summary(const struct mo_page_view *view) {
    const json_t *document = view->document;
    bool costs = false, clients = false;
    double goal = mo_json_number(document, "goal");
    for (int c = 0; c < view->n_curves; c++)
        costs |= last_part(document, view->curves[c].name, "memory") != NULL;
    for (int c = 0; c < view->n_curves; c++)
        clients |= busiest_client(document, view->curves[c].name) != NULL;
    if (goal > 0)
        printf("\nhighest load with %.4g %% in time (1.00 = %s)\n", 100 * goal, mo_doc_load_one(document));
    if (goal > 0 || costs) printf("%s%-28s", goal > 0 ? "" : "\n", "system");
    if (goal > 0) printf(" %18s %10s %18s %10s", "every tenant", "bound", "all queries", "bound");
    if (costs) printf(" %9s %11s %9s %9s %11s", "RSS MiB", "decision us", "p99 us", "query us", "outside");
    if (clients) printf(" %9s %9s", "client", "server");
    if (goal > 0 || costs) printf("%s\n", clients ? " cores" : "");
    for (int c = 0; (goal > 0 || costs) && c < view->n_curves; c++) {
        const struct mo_curve *one = &view->curves[c];
        printf("%-28s", one->name);
        if (goal > 0) {
            found(one->max_every, one->max_every_range);
            limit(document, one, one->max_every, "bound_worst");
            found(one->max_overall, one->max_overall_range);
            limit(document, one, one->max_overall, "bound");
        }
        if (costs)
            cost(last_part(document, one->name, "memory"), last_part(document, one->name, "scheduling"));
        if (clients) cores(busiest_client(document, one->name));
        printf("\n");
    }
}

/* What to read the numbers with: those that rest on few queries, machines that were not steady. */
static void remarks(const json_t *document, int (*tell)(const json_t *, char (*)[MO_HEADLINE], int)) {
    char lines[MO_HEADLINES][MO_HEADLINE];
    int n = tell(document, lines, MO_HEADLINES);
    for (int i = 0; i < n; i++)
        printf("%s\n", lines[i]);
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

/* Memory of started queries, where the system tells. */
static void activations(const json_t *document) {
    size_t i;
    json_t *r, *a;
    json_array_foreach(json_object_get(document, "results"), i, r) {
        if ((a = json_object_get(r, "activations")))
            printf("%-28.28s %9.1f MiB of activations at most; %.0f times a paused query gave up its arena\n",
                   mo_json_text(r, "name"), mo_json_number(a, "most_mib"), mo_json_number(a, "spills"));
    }
}

/* What each model of a system takes, of the last result that tells. */
static void models(const struct mo_page_view *view) {
    static const char *const keys[] = {"weights_mib", "weights_resident_mib", "code_resident_mib",
                                       "activations_mib", "inputs_mib"};
    const json_t *results = json_object_get(view->document, "results"), *tenants = NULL, *m;
    size_t i;
    json_t *r, *t;
    json_array_foreach(results, i, r) {
        const json_t *list = json_object_get(json_object_get(r, "kernels"), "tenants");
        if (json_object_get(json_array_get(list, 0), "memory")) tenants = list;
    }
    if (!tenants) return;
    printf("%-32s %9s %9s %9s %12s %9s\n", "memory of models, MiB", "weights", "resident", "code",
           "activations", "inputs");
    json_array_foreach(tenants, i, t) {
        if (!(m = json_object_get(t, "memory"))) continue;
        name(mo_json_text(t, "name"));
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

void mo_bench_serve_print(const json_t *document) {
    struct mo_env env = mo_env_default();
    struct mo_page_view view;
    moire_error err;
    if (mo_page_view_open(&env, document, &view, &err)) {
        printf("%s\n", err.message);
    } else {
        mo_text_trust(stdout, view.document);
        headline(&view);
        targets(&view);
        loads(&view);
        mo_text_frontier(stdout, view.document);
        mo_text_energy(stdout, &view);
        mo_bench_by_load_print_of(document);
        summary(&view);
        left_out(document);
        remarks(view.document, mo_doc_few);
        remarks(view.document, mo_doc_stalls);
        remarks(view.document, mo_doc_energy);
        memory(document);
        activations(document);
        models(&view);
        mo_text_neighbour(stdout, document);
        if (json_array_size(json_object_get(document, "seeds")) > 1 && json_object_get(document, "summary"))
            mo_bench_summary_print(json_object_get(document, "summary"));
    }
    mo_page_view_close(&env, &view);
}
