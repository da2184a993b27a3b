/* SPDX-License-Identifier: Apache-2.0
 * cluster_show.c - a plan as text for people; see cluster.h. */
#include "bench/cluster/cluster.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 20 }; /* rows of machines */

static void print_models(const json_t *plan, const json_t *summary) {
    size_t i, k;
    json_t *model, *kind;
    printf("%-24s %9s %9s %9s %9s  %s\n", "model", "target ms", "queries/s", "replicas", "MiB",
           "queries/s that a machine alone holds");
    json_array_foreach(json_object_get(plan, "models"), i, model) {
        const json_t *held = json_array_get(json_object_get(summary, "holds"), i);
        const json_t *qos = json_object_get(model, "qos_ms");
        char target[24] = "-";
        if (json_is_number(qos)) snprintf(target, sizeof target, "%.1f", json_number_value(qos));
        printf("%-24.24s %9s %9.1f %9d %9.0f ", mo_json_text(model, "name"), target,
               mo_json_number(model, "qps"), (int)json_integer_value(json_object_get(model, "replicas")),
               mo_json_number(held, "memory_mb"));
        json_array_foreach(json_object_get(held, "kinds"), k, kind)
            printf(" %.1f on %d cores%s", mo_json_number(kind, "qps"),
                   (int)json_integer_value(json_object_get(kind, "cores")),
                   k + 1 < json_array_size(json_object_get(held, "kinds")) ? "," : "");
        printf("\n");
    }
}

/* Machines alike, from `first` on: as many cores, the same models at the same rates. */
static size_t alike(const json_t *nodes, size_t first) {
    const json_t *one = json_array_get(nodes, first);
    size_t n = 1;
    for (; first + n < json_array_size(nodes); n++) {
        const json_t *next = json_array_get(nodes, first + n);
        if (!json_equal(json_object_get(one, "cores"), json_object_get(next, "cores")) ||
            !json_equal(json_object_get(one, "models"), json_object_get(next, "models")))
            break;
    }
    return n;
}

static void print_nodes(const json_t *plan) {
    const json_t *nodes = json_object_get(plan, "nodes");
    size_t rows = 0, k, i = 0;
    json_t *model;
    printf("\n%-24s %6s  %s\n", "machine", "cores", "models and their queries/s");
    for (size_t n; i < json_array_size(nodes) && rows < SHOWN; i += n, rows++) {
        const json_t *node = json_array_get(nodes, i);
        char name[MO_CLUSTER_NAME * 2 + 4];
        n = alike(nodes, i);
        snprintf(name, sizeof name, "%s", mo_json_text(node, "name"));
        if (n > 1)
            snprintf(name, sizeof name, "%s-%s", mo_json_text(node, "name"),
                     mo_json_text(json_array_get(nodes, i + n - 1), "name"));
        printf("%-24s %6d ", name, (int)json_integer_value(json_object_get(node, "cores")));
        json_array_foreach(json_object_get(node, "models"), k, model)
            printf(" %s %.1f", mo_json_text(model, "name"), mo_json_number(model, "qps"));
        printf("%s\n", json_array_size(json_object_get(node, "models")) ? "" : " none");
    }
    if (i < json_array_size(nodes))
        printf("and %zu machines more; --json has all\n", json_array_size(nodes) - i);
}

static void print_row(const char *name, const json_t *rows, size_t model) {
    size_t i;
    json_t *row;
    char text[16];
    printf("%-24.24s", name);
    json_array_foreach((json_t *)rows, i, row) {
        const json_t *of = model == SIZE_MAX ? row : json_array_get(json_object_get(row, "models"), model);
        const json_t *p99 = json_object_get(of, "p99_ms");
        printf(" %9s", mo_json_percent(of, "attainment", text));
        if (json_is_number(p99))
            printf(" %8.2f", json_number_value(p99));
        else
            printf(" %8s", "-");
    }
    printf("\n");
}

/* Side by side: the share in time and the 99th percentile under each routing. */
static void print_routings(const json_t *plan) {
    const json_t *rows = json_object_get(plan, "simulated");
    size_t i;
    json_t *row, *model;
    printf("\n%-24s", "in time, p99 in ms");
    json_array_foreach((json_t *)rows, i, row) printf(" %18s", mo_json_text(row, "routing"));
    printf("\n");
    json_array_foreach(json_object_get(plan, "models"), i, model)
        print_row(mo_json_text(model, "name"), rows, i);
    print_row("all", rows, SIZE_MAX);
}

void mo_cluster_print(const json_t *plan, const json_t *summary) {
    const int n = (int)json_array_size(json_object_get(plan, "nodes"));
    const double simulated = mo_json_number(summary, "seconds"), real_s = mo_json_number(summary, "real_s");
    printf("%g queries a second on %d machines: each is full to %.0f %% at most; %d machines would do\n\n",
           mo_json_number(plan, "qps"), n, 100 * mo_json_number(summary, "fill"),
           (int)json_integer_value(json_object_get(summary, "fewest")));
    print_models(plan, summary);
    print_nodes(plan);
    print_routings(plan);
    printf("\nThe plan is for routing '%s'.  %.0f queries in %g simulated seconds took %.1f s: %.2f million "
           "events a "
           "second;\nan hour would take %.0f s (extrapolated from those seconds).\n",
           mo_json_text(plan, "routing"), mo_json_number(summary, "queries"), simulated, real_s,
           mo_json_number(summary, "events") * 1e-6 / real_s, real_s * 3600 / simulated);
}
