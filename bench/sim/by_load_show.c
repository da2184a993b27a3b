/* SPDX-License-Identifier: Apache-2.0
 * by_load_show.c - policies at the same loads as text and as a part of a page; see by_load.h. */
#include "bench/report/report_page.h"
#include "bench/sim/by_load.h"
#include "bench/sim/column.h"

static const struct mo_bench_column columns[] = {
    {"in time, %", "in time,|%", "in_time", 100, 1},
    {"latency/solo", "mean latency|over solo", "latency_over_solo", 1, 2},
    {"conflicts, %", "conflicts,|% of blocks", "conflict_rate", 100, 2},
    {"us each", "cost of one,|us", "conflict_us", 1, 0},
    {"core-use gap, %", "core time over|layerwise, %", "core_use_gap", 100, 1},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

void mo_bench_by_load_print(const json_t *list) {
    size_t i, k;
    json_t *at, *row;
    json_array_foreach((json_t *)list, i, at) {
        printf("\nall at load %.3g, %.4g queries a second\n%-14s", mo_json_number(at, "load"),
               mo_json_number(at, "qps"), "policy");
        for (int c = 0; c < COLUMNS; c++)
            printf(" %15s", columns[c].title);
        printf("\n");
        json_array_foreach(json_object_get(at, "rows"), k, row) {
            printf("%-14.14s", mo_json_text(row, "policy"));
            for (int c = 0; c < COLUMNS; c++)
                mo_bench_column_print(row, &columns[c], 15);
            printf("\n");
        }
    }
}

void mo_bench_by_load_page(FILE *out, const json_t *list) {
    size_t i, k;
    json_t *at, *row;
    json_array_foreach((json_t *)list, i, at) {
        fprintf(out,
                "<h3>All at load %.3g, %.4g queries a second</h3><div class=\"card\"><table "
                "class=\"dense\"><tr><th>policy</th>",
                mo_json_number(at, "load"), mo_json_number(at, "qps"));
        for (int c = 0; c < COLUMNS; c++)
            mo_bench_column_head(out, columns[c].head);
        fprintf(out, "</tr>\n");
        json_array_foreach(json_object_get(at, "rows"), k, row) {
            fprintf(out, "<tr>");
            mo_page_system_cell(out, mo_json_text(row, "policy"));
            for (int c = 0; c < COLUMNS; c++)
                mo_bench_column_page(out, row, &columns[c], false);
            fprintf(out, "</tr>\n");
        }
        fprintf(out, "</table></div>\n");
    }
}

/* Of a simulation of given loads, NULL for others. */
static json_t *list_of(const json_t *simulation) {
    size_t i;
    json_t *row;
    if (mo_json_number(simulation, "goal") > 0 || !json_object_get(simulation, "summary")) return NULL;
    json_array_foreach(json_object_get(simulation, "results"), i, row) {
        const json_t *point = json_array_get(json_object_get(row, "loads"), 0);
        if (json_object_get(point, "conflict_rate")) return mo_bench_by_load_rows(simulation);
    }
    return NULL;
}

void mo_bench_by_load_print_of(const json_t *simulation) {
    json_t *list = list_of(simulation);
    mo_bench_by_load_print(list);
    json_decref(list);
}

void mo_bench_by_load_section(FILE *out, const json_t *simulation) {
    json_t *list = list_of(simulation);
    if (list) fprintf(out, "<h2>Conflicts and core time</h2>\n");
    mo_bench_by_load_page(out, list);
    json_decref(list);
}
