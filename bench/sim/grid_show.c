/* SPDX-License-Identifier: Apache-2.0
 * grid_show.c - the document of `moire grid` as text and as a page; see grid.h.
 *
 * A scenario has one table a value, with a line a cell and a column a policy; what reaches the paper's claim
 * is marked. */
#include <string.h>
#include "bench/report/headline.h"
#include "bench/report/plot.h"
#include "bench/sim/column.h"
#include "bench/sim/paper_claims.h"
#include "bench/sim/grid.h"
#include "runtime/base/text.h"

static const char over_layerwise[] = "over_layerwise", latency[] = "latency_over_solo";

static const struct mo_bench_column values[] = {
    {"highest load that holds, of all queries", NULL, "max_load_overall", 1, 2},
    {"queries a second there", NULL, "qps", 1, 0},
    {"that load over the one of layerwise", NULL, over_layerwise, 1, 2},
    {"mean latency there over solo", NULL, latency, 1, 2},
    {"conflicts there, % of blocks", NULL, "conflict_rate", 100, 1},
};
enum { VALUES = sizeof values / sizeof *values, WIDTH = 13, AXIS_WIDTH = 14 };

/* --- reading -------------------------------------------------------------------------------------------- */
static const json_t *row_of(const json_t *result, const char *policy) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(result, "rows"), i, row) {
        if (!strcmp(mo_json_text(row, "policy"), policy)) return row;
    }
    return NULL;
}

static double mean_of(const json_t *row, const char *key) {
    return mo_json_number(json_object_get(row, key), "mean");
}

static bool reached(const json_t *result, const char *policy, const char *key) {
    double claim = mo_bench_claim(mo_json_text(result, "scenario"), policy, key);
    double mean = mean_of(row_of(result, policy), key);
    if (!(claim > 0) || !(mean > 0)) return false;
    return !strcmp(key, latency) ? mean <= claim : mean >= claim;
}

/* The first result of a scenario stands for it: its policies and axes are those of all. */
static bool first_of_scenario(const json_t *results, size_t at) {
    const char *scenario = mo_json_text(json_array_get(results, at), "scenario");
    return !at || strcmp(mo_json_text(json_array_get(results, at - 1), "scenario"), scenario) != 0;
}

/* "contention=none resize_us=3" */
static void put_cell(struct mo_text *t, const json_t *result) {
    const char *key, *gap = "";
    json_t *value;
    json_object_foreach(json_object_get(result, "cell"), key, value) {
        mo_text_put(t, "%s%s=%s", gap, key, json_string_value(value));
        gap = " ";
    }
}

/* --- what it says --------------------------------------------------------------------------------------- */
static void sentence(const json_t *results, const char *scenario, const char *policy, char out[MO_HEADLINE]) {
    double claim = mo_bench_claim(scenario, policy, over_layerwise), best = 0;
    const json_t *at = NULL;
    int cells = 0, reach = 0;
    size_t i;
    json_t *one;
    json_array_foreach((json_t *)results, i, one) {
        if (strcmp(mo_json_text(one, "scenario"), scenario) != 0) continue;
        double mean = mean_of(row_of(one, policy), over_layerwise);
        cells++;
        reach += reached(one, policy, over_layerwise);
        if (mean <= best) continue;
        best = mean;
        at = one;
    }
    struct mo_text t = mo_text_in(out, MO_HEADLINE);
    mo_text_put(&t, "%s: %s holds the %.2f times layerwise's load that the paper claims in %d of %d cells",
                scenario, policy, claim, reach, cells);
    if (at) {
        mo_text_put(&t, "; at most %.2f times, at ", best);
        put_cell(&t, at);
    }
    mo_text_put(&t, ".");
}

json_t *mo_bench_grid_headline(const json_t *document) {
    const json_t *results = json_object_get(document, "results");
    json_t *lines = json_array(), *one, *row;
    char text[MO_HEADLINE];
    size_t i, k;
    json_array_foreach((json_t *)results, i, one) {
        if (!first_of_scenario(results, i)) continue;
        json_array_foreach(json_object_get(one, "rows"), k, row) {
            const char *scenario = mo_json_text(one, "scenario"), *policy = mo_json_text(row, "policy");
            if (!(mo_bench_claim(scenario, policy, over_layerwise) > 0)) continue;
            sentence(results, scenario, policy, text);
            json_array_append_new(lines, json_string(text));
        }
    }
    return lines;
}

static void each_sentence(const json_t *document, void (*say)(void *to, const char *text, bool first),
                          void *to) {
    json_t *lines = mo_bench_grid_headline(document), *line;
    size_t i;
    json_array_foreach(lines, i, line) say(to, json_string_value(line), i == 0);
    json_decref(lines);
}

/* --- text ----------------------------------------------------------------------------------------------- */
static void say_text(void *to, const char *text, bool first) {
    (void)first;
    fprintf(to, "%s\n", text);
}

static void text_head(const json_t *result, const struct mo_bench_column *value) {
    const char *key;
    size_t i;
    json_t *v, *row;
    printf("\n%s: %s\n", mo_json_text(result, "scenario"), value->title);
    json_object_foreach(json_object_get(result, "cell"), key, v) printf("%-*s ", AXIS_WIDTH, key);
    json_array_foreach(json_object_get(result, "rows"), i, row)
        printf(" %*s ", WIDTH, mo_json_text(row, "policy"));
    printf("\n");
}

static void text_line(const json_t *result, const struct mo_bench_column *value) {
    const char *key;
    size_t i;
    json_t *v, *row;
    json_object_foreach(json_object_get(result, "cell"), key, v)
        printf("%-*s ", AXIS_WIDTH, json_string_value(v));
    json_array_foreach(json_object_get(result, "rows"), i, row) {
        mo_bench_column_print(row, value, WIDTH);
        printf("%s", reached(result, mo_json_text(row, "policy"), value->key) ? "*" : " ");
    }
    printf("\n");
}

void mo_bench_grid_print(const json_t *document) {
    const json_t *results = json_object_get(document, "results");
    each_sentence(document, say_text, stdout);
    for (size_t i = 0; i < json_array_size(results); i++) {
        if (!first_of_scenario(results, i)) continue;
        for (int v = 0; v < VALUES; v++) {
            text_head(json_array_get(results, i), &values[v]);
            for (size_t k = i; k < json_array_size(results) && (k == i || !first_of_scenario(results, k));
                 k++)
                text_line(json_array_get(results, k), &values[v]);
        }
    }
    printf("\n*: as much as VELTAIR's paper claims.  +- is half the 95 %% confidence interval over seeds.\n");
}

/* --- page ----------------------------------------------------------------------------------------------- */
static void say_page(void *to, const char *text, bool first) {
    mo_page_answer(to, text, first);
}

static void page_head(FILE *out, const json_t *result, const struct mo_bench_column *value) {
    const char *key;
    size_t i;
    json_t *v, *row;
    fprintf(out, "<h3>%s</h3><div class=\"card\"><table class=\"dense\"><tr>", value->title);
    json_object_foreach(json_object_get(result, "cell"), key, v) {
        fprintf(out, "<th>");
        mo_html_text(out, key);
        fprintf(out, "</th>");
    }
    json_array_foreach(json_object_get(result, "rows"), i, row) {
        fprintf(out, "<th>");
        mo_html_text(out, mo_json_text(row, "policy"));
        fprintf(out, "</th>");
    }
    fprintf(out, "</tr>\n");
}

static void page_line(FILE *out, const json_t *result, const struct mo_bench_column *value) {
    const char *key;
    size_t i;
    json_t *v, *row;
    fprintf(out, "<tr>");
    json_object_foreach(json_object_get(result, "cell"), key, v) {
        fprintf(out, "<td>");
        mo_html_text(out, json_string_value(v));
        fprintf(out, "</td>");
    }
    json_array_foreach(json_object_get(result, "rows"), i, row)
        mo_bench_column_page(out, row, value, reached(result, mo_json_text(row, "policy"), value->key));
    fprintf(out, "</tr>\n");
}

static void page(FILE *out, const void *what) {
    const json_t *document = what, *results = json_object_get(document, "results");
    mo_page_begin(out, "policies on varied machines", "");
    each_sentence(document, say_page, out);
    fprintf(out, "<p>Each cell is a machine of its own. &plusmn; is half the 95 %% confidence interval over "
                 "seeds; bold is as much as VELTAIR's paper claims.</p>\n");
    for (size_t i = 0; i < json_array_size(results); i++) {
        if (!first_of_scenario(results, i)) continue;
        fprintf(out, "<h2>");
        mo_html_text(out, mo_json_text(json_array_get(results, i), "scenario"));
        fprintf(out, "</h2>\n");
        for (int v = 0; v < VALUES; v++) {
            page_head(out, json_array_get(results, i), &values[v]);
            for (size_t k = i; k < json_array_size(results) && (k == i || !first_of_scenario(results, k));
                 k++)
                page_line(out, json_array_get(results, k), &values[v]);
            fprintf(out, "</table></div>\n");
        }
    }
    mo_page_experiment(out, document);
    mo_page_end(out);
}

int mo_bench_grid_html(const struct mo_env *env, const json_t *document, const char *path, moire_error *err) {
    return mo_page_write(env, page, document, path, err);
}
