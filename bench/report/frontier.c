/* SPDX-License-Identifier: Apache-2.0
 * frontier.c - the points of a frontier, from the results; see frontier.h. */
#include "bench/report/frontier.h"

#include <math.h>
#include <string.h>

static const double same = 1e-6, tie = 1e-9;

/* What is added up for a point. */
struct sum {
    int seeds;
    double n, met, qps, of_alone, of_own;
    double critical_range[2], of_alone_range[2];
    double tenant_n[MO_BENCH_MAX_TENANTS], tenant_met[MO_BENCH_MAX_TENANTS];
};

static void widen(double range[2], double value, bool first) {
    if (first || value < range[0]) range[0] = value;
    if (first || value > range[1]) range[1] = value;
}

/* The share of each tenant; best-effort ones are not asked for it. */
static void add_tenants(struct sum *s, const struct mo_bench_scenario *scenario, const json_t *point) {
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(point, "tenants"), i, t) {
        if ((int)i >= scenario->n_tenants || scenario->tenants[i].cls == MOIRE_BEST_EFFORT) continue;
        const double n = mo_json_number(t, "n");
        s->tenant_n[i] += n;
        s->tenant_met[i] += n * mo_json_number(t, "within_qos");
    }
}

static void add_point(struct sum *s, const struct mo_bench_scenario *scenario, const json_t *point) {
    const json_t *classes = json_object_get(point, "classes");
    const json_t *critical = json_object_get(classes, "critical"),
                 *rest = json_object_get(classes, "best_effort");
    const double n = mo_json_number(critical, "n"), of_alone = mo_json_number_or_nan(rest, "of_alone");
    if (!(n > 0) || isnan(of_alone) || json_is_true(json_object_get(point, "stopped_early"))) return;
    widen(s->critical_range, mo_json_number(critical, "met") / n, !s->seeds);
    widen(s->of_alone_range, of_alone, !s->seeds);
    s->n += n;
    s->met += mo_json_number(critical, "met");
    s->qps += mo_json_number(rest, "qps");
    s->of_alone += of_alone;
    s->of_own += mo_json_number(rest, "of_own_alone");
    add_tenants(s, scenario, point);
    s->seeds++;
}

static double worst(const struct sum *s) {
    double least = 1;
    for (int i = 0; i < MO_BENCH_MAX_TENANTS; i++)
        if (s->tenant_n[i] > 0) least = fmin(least, s->tenant_met[i] / s->tenant_n[i]);
    return least;
}

static json_t *point_json(const struct mo_bench_scenario *scenario, const json_t *results, const char *system,
                          double load) {
    struct sum s = {0};
    size_t i;
    json_t *result;
    json_array_foreach((json_t *)results, i, result) {
        const json_t *point = mo_doc_point(result, load);
        if (point && !strcmp(mo_json_text(result, "name"), system)) add_point(&s, scenario, point);
    }
    if (!s.seeds) return NULL;
    return json_pack("{s:s, s:f, s:i, s:f, s:[f,f], s:f, s:f, s:f, s:[f,f], s:f}", "system", system, "load",
                     load, "seeds", s.seeds, "critical", s.met / s.n, "critical_range", s.critical_range[0],
                     s.critical_range[1], "worst_critical", worst(&s), "qps", s.qps / s.seeds, "of_alone",
                     s.of_alone / s.seeds, "of_alone_range", s.of_alone_range[0], s.of_alone_range[1],
                     "of_own_alone", s.of_own / s.seeds);
}

static bool is_there(const json_t *list, const char *system, double load) {
    size_t i;
    json_t *p;
    json_array_foreach((json_t *)list, i, p) {
        if (!strcmp(mo_json_text(p, "system"), system) && fabs(mo_json_number(p, "load") - load) < same)
            return true;
    }
    return false;
}

/* `a` has at least as much of both as `b`, and more of one. */
static bool beats(const json_t *a, const json_t *b) {
    const double critical = mo_json_number(a, "critical") - mo_json_number(b, "critical");
    const double throughput = mo_json_number(a, "of_alone") - mo_json_number(b, "of_alone");
    return critical >= -tie && throughput >= -tie && critical + throughput > 2 * tie;
}

static void mark_best(json_t *list) {
    size_t i, k;
    json_t *p, *other;
    json_array_foreach(list, i, p) {
        bool best = true;
        json_array_foreach(list, k, other) {
            if (fabs(mo_json_number(p, "load") - mo_json_number(other, "load")) < same)
                best &= !beats(other, p);
        }
        json_object_set_new(p, "best", json_boolean(best));
    }
}

/* In order of load; systems as they were measured. */
static void insert(json_t *list, json_t *point) {
    size_t at = json_array_size(list);
    while (at > 0 &&
           mo_json_number(json_array_get(list, at - 1), "load") > mo_json_number(point, "load") + same)
        at--;
    json_array_insert_new(list, at, point);
}

json_t *mo_frontier_json(const struct mo_bench_scenario *scenario, const json_t *results) {
    json_t *list = json_array(), *result, *point;
    size_t i, k;
    json_array_foreach((json_t *)results, i, result) {
        json_array_foreach(json_object_get(result, "loads"), k, point) {
            const char *system = mo_json_text(result, "name");
            const double load = mo_json_number(point, "load");
            json_t *made = is_there(list, system, load) ? NULL : point_json(scenario, results, system, load);
            if (made) insert(list, made);
        }
    }
    mark_best(list);
    if (json_array_size(list) > 0) return list;
    json_decref(list);
    return json_null();
}
