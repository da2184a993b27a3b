/* SPDX-License-Identifier: Apache-2.0
 * tables_show.c - the document of `moire tables` as text and as a page; see tables.h. */
#include <stdio.h>
#include <string.h>
#include "bench/report/headline.h"
#include "bench/report/plot.h"
#include "bench/report/series.h"
#include "bench/sim/by_load.h"
#include "bench/sim/column.h"
#include "bench/sim/paper_claims.h"
#include "bench/sim/tables.h"
#include "runtime/base/text.h"

/* What the paper says of the parts of its system, of all mixes or of the largest. */
static const char parts[] = "its compilation alone 1.50 (mix); latency over solo 1.1 (whole), 1.6 "
                            "(scheduling alone), 1.17 (compilation "
                            "alone); core-use gap to layerwise below 10 %, of whole models 47 %, at three "
                            "quarters of the load; 220 us a "
                            "conflict; three versions suffice for 80 % of the layers";

static const struct mo_bench_column columns[] = {
    {"every tenant", "every tenant,|up to load", "max_load_every_tenant", 1, 2},
    {"load, all", "all queries,|up to load", "max_load_overall", 1, 2},
    {"of bound", "of the bound,|all", "of_bound_overall", 1, 2},
    {"(every)", "every|tenant", "of_bound_every_tenant", 1, 2},
    {"of offline", "of the best|offline, all", "of_offline_overall", 1, 2},
    {"(every)", "every|tenant", "of_offline_every_tenant", 1, 2},
    {"x layerwise", "times layerwise,|all", "over_layerwise", 1, 2},
    {"x veltair", "times veltair,|all", "over_veltair_overall", 1, 2},
    {"(every)", "every|tenant", "over_veltair_every_tenant", 1, 2},
    {"latency/solo", "latency|over solo", "latency_over_solo", 1, 2},
    {"core-use gap", "core time over|layerwise", "core_use_gap", 1, 2},
    {"conflicts", "conflicts|a query", "conflicts_a_query", 1, 2},
    {"of blocks, %", "conflicts,|% of blocks", "conflict_rate", 100, 2},
    {"us each", "cost of one,|us", "conflict_us", 1, 0},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* --- what a table says -------------------------------------------------------------------------------- */
static double mean_of(const json_t *row, const char *key) {
    const json_t *v = json_object_get(row, key);
    v = json_is_object(v) ? json_object_get(v, "mean") : v;
    return json_is_number(v) ? json_number_value(v) : -1;
}

static const json_t *row_of(const json_t *piece, const char *policy) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(piece, "rows"), i,
                       row) if (!strcmp(mo_json_text(row, "policy"), policy)) return row;
    return NULL;
}

/* The policy that could run, other than moire's own and its variants, with the highest load of every tenant.
 */
static const json_t *best_rival(const json_t *piece) {
    static const char key[] = "max_load_every_tenant";
    const json_t *best = NULL;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(piece, "rows"), i, row) {
        const char *policy = mo_json_text(row, "policy");
        if (mo_series_is_limit(policy) || !strncmp(policy, "moire", 5) || mean_of(row, key) < 0) continue;
        if (!best || mean_of(row, key) > mean_of(best, key)) best = row;
    }
    return best;
}

static void sentence(const json_t *piece, char out[MO_HEADLINE]) {
    static const char key[] = "max_load_every_tenant", all[] = "max_load_overall";
    const json_t *own = row_of(piece, "moire"), *rival = best_rival(piece), *bound = row_of(piece, "bound");
    struct mo_text t = mo_text_in(out, MO_HEADLINE);
    mo_text_put(&t, "%s, %s arrivals: ", mo_json_text(piece, "scenario"), mo_json_text(piece, "arrivals"));
    if (mean_of(own, key) >= 0)
        mo_text_put(&t, "moire keeps every tenant at %.4g %% up to load %.2f",
                    100 * mo_json_number(piece, "goal"), mean_of(own, key));
    else
        mo_text_put(&t, "moire was not simulated");
    if (mean_of(own, all) >= 0) mo_text_put(&t, ", and of all queries up to %.2f", mean_of(own, all));
    if (rival)
        mo_text_put(&t, "; best of the other policies (%s) up to %.2f", mo_json_text(rival, "policy"),
                    mean_of(rival, key));
    if (mean_of(bound, key) >= 0)
        mo_text_put(&t, "; no scheduler that answers all beyond %.2f", mean_of(bound, key));
    if (mean_of(bound, all) >= 0) mo_text_put(&t, " and %.2f", mean_of(bound, all));
    mo_text_put(&t, ".");
}

json_t *mo_bench_tables_headline(const json_t *document) {
    size_t i;
    json_t *piece, *lines = json_array();
    char text[MO_HEADLINE];
    json_array_foreach(json_object_get(document, "results"), i, piece) {
        sentence(piece, text);
        json_array_append_new(lines, json_string(text));
    }
    return lines;
}

/* --- by tenant ---------------------------------------------------------------------------------------- */
/* Shares of each tenant's queries at the loads that were found: that of all queries says nothing of the few
 * heavy ones. */
static const struct {
    const char *title;
    struct mo_bench_column column;
} attained[] = {{"the highest load of all queries", {"", "", "at_overall", 100, 1}},
                {"the highest load of every tenant", {"", "", "at_every_tenant", 100, 1}}};
enum { ATTAINED = sizeof attained / sizeof *attained };

/* A policy that could run and held such a load. */
static bool attains(const json_t *row, int which) {
    const json_t *tenants = json_object_get(row, "tenants");
    return !mo_series_is_limit(mo_json_text(row, "policy")) &&
           mo_bench_column_known(json_array_get(tenants, 0), &attained[which].column);
}

static const json_t *first_that_attains(const json_t *piece, int which) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(piece, "rows"), i, row) if (attains(row, which)) return row;
    return NULL;
}

static void tenants_print(const json_t *piece, int which) {
    const json_t *first = first_that_attains(piece, which);
    size_t i, k;
    json_t *row, *t;
    if (!first) return;
    printf("\nin time at %s, %%\n%-14s", attained[which].title, "policy");
    json_array_foreach(json_object_get(first, "tenants"), k, t) printf(" %16.16s", mo_json_text(t, "name"));
    printf("\n");
    json_array_foreach(json_object_get(piece, "rows"), i, row) {
        if (!attains(row, which)) continue;
        printf("%-14.14s", mo_json_text(row, "policy"));
        json_array_foreach(json_object_get(row, "tenants"), k, t)
            mo_bench_column_print(t, &attained[which].column, 16);
        printf("\n");
    }
}

static void tenants_page(FILE *out, const json_t *piece, int which) {
    const json_t *first = first_that_attains(piece, which);
    size_t i, k;
    json_t *row, *t;
    if (!first) return;
    fprintf(out, "<h3>In time at %s, %%</h3><div class=\"card\"><table class=\"dense\"><tr><th>policy</th>",
            attained[which].title);
    json_array_foreach(json_object_get(first, "tenants"), k, t) {
        fprintf(out, "<th>");
        mo_html_text(out, mo_json_text(t, "name"));
        fprintf(out, "</th>");
    }
    fprintf(out, "</tr>\n");
    json_array_foreach(json_object_get(piece, "rows"), i, row) {
        if (!attains(row, which)) continue;
        fprintf(out, "<tr>");
        mo_page_system_cell(out, mo_json_text(row, "policy"));
        json_array_foreach(json_object_get(row, "tenants"), k, t)
            mo_bench_column_page(out, t, &attained[which].column, false);
        fprintf(out, "</tr>\n");
    }
    fprintf(out, "</table></div>\n");
}

/* --- text --------------------------------------------------------------------------------------------- */
static double claim(const json_t *piece) {
    return mo_bench_claim(mo_json_text(piece, "scenario"), "veltair", "over_layerwise");
}

void mo_bench_tables_print(const json_t *document) {
    size_t i, k;
    json_t *piece, *row;
    char said[MO_HEADLINE];
    json_array_foreach(json_object_get(document, "results"), i, piece) {
        sentence(piece, said);
        printf("%s\n", said);
    }
    json_array_foreach(json_object_get(document, "results"), i, piece) {
        printf("\n%s, arrivals %s, objective %s: highest load with %.0f %% in time\n%-14s",
               mo_json_text(piece, "scenario"), mo_json_text(piece, "arrivals"),
               mo_json_text(piece, "objective"), 100 * mo_json_number(piece, "goal"), "policy");
        for (int c = 0; c < COLUMNS; c++)
            printf(" %12s", columns[c].title);
        printf("\n");
        json_array_foreach(json_object_get(piece, "rows"), k, row) {
            printf("%-14.14s", mo_json_text(row, "policy"));
            for (int c = 0; c < COLUMNS; c++)
                mo_bench_column_print(row, &columns[c], 12);
            printf("\n");
        }
        for (int which = 0; which < ATTAINED; which++)
            tenants_print(piece, which);
        mo_bench_by_load_print(json_object_get(piece, "by_load"));
        printf("\nno more than three versions chosen anywhere: %.1f %% of the layers\n",
               100 * mo_json_number(piece, "three_versions_suffice"));
        if (claim(piece) > 0)
            printf("the paper claims %.2f x layerwise for its whole system; %s\n", claim(piece), parts);
    }
}

/* --- page --------------------------------------------------------------------------------------------- */
/* Does any row of the piece have it? */
static bool used(const json_t *piece, int column) {
    size_t k;
    json_t *row;
    json_array_foreach(json_object_get(piece, "rows"), k,
                       row) if (mo_bench_column_known(row, &columns[column])) return true;
    return false;
}

static void piece_page(FILE *out, const json_t *piece) {
    size_t k;
    json_t *row;
    fprintf(out, "<h2>");
    mo_html_text(out, mo_json_text(piece, "scenario"));
    fprintf(out, ", ");
    mo_html_text(out, mo_json_text(piece, "arrivals"));
    fprintf(out, " arrivals, objective ");
    mo_html_text(out, mo_json_text(piece, "objective"));
    fprintf(out, "</h2><div class=\"card\"><table class=\"dense\"><tr><th>policy</th>");
    for (int c = 0; c < COLUMNS; c++)
        if (used(piece, c)) mo_bench_column_head(out, columns[c].head);
    fprintf(out, "</tr>\n");
    json_array_foreach(json_object_get(piece, "rows"), k, row) {
        fprintf(out, "<tr>");
        mo_page_system_cell(out, mo_json_text(row, "policy"));
        for (int c = 0; c < COLUMNS; c++)
            if (used(piece, c)) mo_bench_column_page(out, row, &columns[c], false);
        fprintf(out, "</tr>\n");
    }
    fprintf(out, "</table></div>\n");
    for (int which = 0; which < ATTAINED; which++)
        tenants_page(out, piece, which);
    mo_bench_by_load_page(out, json_object_get(piece, "by_load"));
    if (claim(piece) > 0)
        fprintf(out, "<p>VELTAIR's paper claims %.2f times layerwise for its whole system; %s.</p>\n",
                claim(piece), parts);
}

static void page(FILE *out, const void *what) {
    const json_t *document = what;
    char text[MO_HEADLINE];
    size_t i;
    json_t *piece;
    mo_page_begin(out, "policies on a simulated machine", "");
    json_array_foreach(json_object_get(document, "results"), i, piece) {
        sentence(piece, text);
        mo_page_answer(out, text, i == 0);
    }
    fprintf(
        out,
        "<p>Values are means over seeds; &plusmn; is half the 95 %% confidence interval, of ratios over "
        "equal "
        "seeds. The bound is a proved limit for any scheduler that answers late queries, too; the best "
        "offline schedule was found with all arrivals known. Core time is "
        "a "
        "query's over that of layerwise, less one, all at three quarters of the load that layerwise holds. A "
        "conflict is a layer that needs more cores than are free; its cost is by how much a block took "
        "longer than predicted on the cores it wanted.</p>\n");
    json_array_foreach(json_object_get(document, "results"), i, piece) piece_page(out, piece);
    mo_page_experiment(out, document);
    mo_page_end(out);
}

int mo_bench_tables_html(const struct mo_env *env, const json_t *document, const char *path,
                         moire_error *err) {
    return mo_page_write(env, page, document, path, err);
}
