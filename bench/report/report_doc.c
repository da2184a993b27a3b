/* SPDX-License-Identifier: Apache-2.0
 * report_doc.c - reading result documents: curves over load, common loads; see report_page.h. */
#include <math.h>
#include <string.h>
#include "bench/data/json_read.h"
#include "bench/report/report_page.h"

static const double same = 1e-6;

static struct mo_curve *curve_of(struct mo_curve *curves, int *n, const json_t *result) {
    const char *name = mo_json_text(result, "name");
    for (int i = 0; i < *n; i++)
        if (!strcmp(curves[i].name, name)) return &curves[i];
    if (*n == MO_CURVES) return NULL;
    struct mo_curve *c = &curves[(*n)++];
    memset(c, 0, sizeof *c);
    c->name = name;
    c->moire = !strcmp(mo_json_text(result, "system"), "moire");
    return c;
}

static void add_point(struct mo_curve *c, const json_t *point) {
    double load = mo_json_number(point, "load");
    int i = 0;
    if (!json_is_number(json_object_get(point, "overall"))) return; /* no queries: nothing is known */
    while (i < c->n && c->load[i] < load - same)
        i++;
    if (i == c->n || fabs(c->load[i] - load) > same) {
        if (c->n == MO_CURVE_POINTS) return;
        size_t tail = (size_t)(c->n++ - i);
        memmove(&c->load[i + 1], &c->load[i], tail * sizeof c->load[0]);
        memmove(&c->overall[i + 1], &c->overall[i], tail * sizeof c->overall[0]);
        memmove(&c->worst[i + 1], &c->worst[i], tail * sizeof c->worst[0]);
        memmove(&c->seeds[i + 1], &c->seeds[i], tail * sizeof c->seeds[0]);
        c->load[i] = load;
        c->overall[i] = c->worst[i] = 0;
        c->seeds[i] = 0;
    }
    int k = c->seeds[i]++;
    c->overall[i] += (mo_json_number(point, "overall") - c->overall[i]) / (k + 1);
    c->worst[i] += (mo_json_number(point, "worst_tenant") - c->worst[i]) / (k + 1);
}

/* Mean of a key over the results of one system; -1 when any lacks it. */
static double mean_max(const json_t *document, const char *name, const char *key) {
    double sum = 0;
    int n = 0;
    size_t i;
    json_t *result;
    json_array_foreach(json_object_get(document, "results"), i, result) {
        if (strcmp(mo_json_text(result, "name"), name) != 0) continue;
        if (!json_is_number(json_object_get(result, key))) return -1;
        sum += mo_json_number(result, key);
        n++;
    }
    return n ? sum / n : -1;
}

int mo_doc_curves(const json_t *document, struct mo_curve *curves) {
    int n = 0;
    size_t i, k;
    json_t *result, *point;
    json_array_foreach(json_object_get(document, "results"), i, result) {
        struct mo_curve *c = curve_of(curves, &n, result);
        if (!c) continue;
        json_array_foreach(json_object_get(result, "loads"), k, point) add_point(c, point);
        c->max_overall = mean_max(document, c->name, "max_load_overall");
        c->max_every = mean_max(document, c->name, "max_load_every_tenant");
    }
    return n;
}

double mo_doc_best(const struct mo_curve *c, int n, int moire, int every) {
    double most = -1;
    for (int i = 0; i < n; i++) {
        double v = every ? c[i].max_every : c[i].max_overall;
        if (c[i].moire == moire && v > most) most = v;
    }
    return most;
}

double mo_doc_of(const struct mo_curve *c, int n, const char *name, int every) {
    for (int i = 0; i < n; i++)
        if (!strcmp(c[i].name, name)) return every ? c[i].max_every : c[i].max_overall;
    return -1;
}

const json_t *mo_doc_point(const json_t *result, double load) {
    size_t k;
    json_t *point;
    json_array_foreach(json_object_get(result, "loads"), k,
                       point) if (fabs(mo_json_number(point, "load") - load) < same) return point;
    return NULL;
}

double mo_doc_common_load(const json_t *document) {
    const json_t *results = json_object_get(document, "results");
    double best_load = 0;
    int best_count = 0;
    size_t i, k, j;
    json_t *result, *point, *other;
    json_array_foreach((json_t *)results, i, result) {
        json_array_foreach(json_object_get(result, "loads"), k, point) {
            double load = mo_json_number(point, "load");
            int count = 0;
            json_array_foreach((json_t *)results, j, other) {
                const json_t *there = mo_doc_point(other, load);
                count += there && !json_is_true(json_object_get(there, "stopped_early"));
            }
            if (count < best_count || (count == best_count && load <= best_load)) continue;
            best_count = count;
            best_load = load;
        }
    }
    return best_load;
}
