/* SPDX-License-Identifier: Apache-2.0
 * simulate_summary.c - statistics over seeds; see simulate_summary.h. */
#include "bench/sim/simulate_summary.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "bench/data/json_read.h"

static const double same_load = 1e-9;

json_t *mo_bench_mean_json(const struct mo_mean *s) {
    if (!s->n) return json_null();
    json_t *ci = s->n > 1 ? json_real(mo_mean_ci95(s)) : json_null();
    return json_pack("{s:f, s:o}", "mean", s->mean, "ci95", ci);
}

static bool same_name(const json_t *row, const char *name) {
    const char *n = json_string_value(json_object_get(row, "name"));
    return n && !strcmp(n, name);
}

/* A key of all rows of one system. */
static json_t *of_rows(const json_t *results, const char *name, const char *key, int *rows) {
    struct mo_mean s = {0};
    size_t i;
    json_t *row;
    *rows = 0;
    json_array_foreach((json_t *)results, i, row) {
        if (!same_name(row, name)) continue;
        ++*rows;
        mo_mean_add_known(&s, mo_json_number_or_nan(row, key));
    }
    return mo_bench_mean_json(&s);
}

static json_t *of_points(const json_t *results, const char *name, double load, const char *key) {
    struct mo_mean s = {0};
    size_t i, k;
    json_t *row, *point;
    json_array_foreach((json_t *)results, i, row) {
        if (!same_name(row, name)) continue;
        json_array_foreach(json_object_get(row, "loads"), k, point) {
            bool cut = json_is_true(json_object_get(point, "stopped_early"));
            if (!cut && fabs(json_number_value(json_object_get(point, "load")) - load) < same_load)
                mo_mean_add_known(&s, mo_json_number_or_nan(point, key)); /* null: it had no queries */
        }
    }
    return mo_bench_mean_json(&s);
}

static json_t *loads_of(const json_t *results, const json_t *row, const char *name) {
    json_t *list = json_array(), *point;
    size_t k;
    json_array_foreach(json_object_get(row, "loads"), k, point) {
        double load = json_number_value(json_object_get(point, "load"));
        json_array_append_new(list, json_pack("{s:f, s:o, s:o}", "load", load, "overall",
                                              of_points(results, name, load, "overall"), "worst_tenant",
                                              of_points(results, name, load, "worst_tenant")));
    }
    return list;
}

static bool known(const json_t *summary, const char *name) {
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)summary, i, row) if (same_name(row, name)) return true;
    return false;
}

json_t *mo_bench_summary(const json_t *results) {
    json_t *out = json_array(), *row;
    size_t i;
    json_array_foreach((json_t *)results, i, row) {
        const char *name = json_string_value(json_object_get(row, "name"));
        if (!name || known(out, name)) continue;
        int rows;
        json_t *overall = of_rows(results, name, "max_load_overall", &rows);
        json_t *every = of_rows(results, name, "max_load_every_tenant", &rows);
        json_array_append_new(out, json_pack("{s:s, s:i, s:o, s:o, s:o}", "name", name, "seeds", rows,
                                             "max_load_overall", overall, "max_load_every_tenant", every,
                                             "loads", loads_of(results, row, name)));
    }
    return out;
}

static void cell(const json_t *v, double scale, int digits) {
    double mean = json_number_value(json_object_get(v, "mean"));
    const json_t *ci = json_object_get(v, "ci95");
    char text[48] = "-";
    if (json_is_object(v) && json_is_number(ci))
        snprintf(text, sizeof text, "%.*f +- %.*f", digits, scale * mean, digits,
                 scale * json_number_value(ci));
    else if (json_is_object(v))
        snprintf(text, sizeof text, "%.*f", digits, scale * mean);
    printf(" %18s", text);
}

void mo_bench_summary_print(const json_t *summary) {
    size_t i, k;
    json_t *row, *point;
    printf("\nover seeds: mean +- half the 95 %% confidence interval\n%-28s %5s %18s %18s\n", "system",
           "seeds", "max load, all", "every tenant");
    json_array_foreach((json_t *)summary, i, row) {
        printf("%-28.28s %5d", json_string_value(json_object_get(row, "name")),
               (int)json_integer_value(json_object_get(row, "seeds")));
        cell(json_object_get(row, "max_load_overall"), 1, 3);
        cell(json_object_get(row, "max_load_every_tenant"), 1, 3);
        printf("\n");
        if (json_is_object(json_object_get(row, "max_load_overall"))) continue;
        json_array_foreach(json_object_get(row, "loads"), k, point) {
            printf("  load %-5.2f %% within QoS     ", json_number_value(json_object_get(point, "load")));
            cell(json_object_get(point, "overall"), 100, 2);
            cell(json_object_get(point, "worst_tenant"), 100, 2);
            printf("\n");
        }
    }
}
