/* SPDX-License-Identifier: Apache-2.0
 * report_doc.c - reading result documents: curves over load, common loads; see report_page.h. */
#include <math.h>
#include <string.h>
#include "bench/load/score.h"
#include "bench/report/report_page.h"
#include "bench/report/series.h"

static const double same = 1e-6;

static struct mo_curve *curve_of(struct mo_curve *curves, int *n, const json_t *result) {
    const char *name = mo_json_text(result, "name");
    for (int i = 0; i < *n; i++)
        if (!strcmp(curves[i].name, name)) return &curves[i];
    if (*n == MO_CURVES) return NULL;
    struct mo_curve *c = &curves[(*n)++];
    memset(c, 0, sizeof *c);
    c->name = name;
    c->about = mo_json_text(result, "about");
    c->moire = !strcmp(mo_json_text(result, "system"), "moire");
    c->limit = mo_series_is_limit(name);
    return c;
}

int mo_curve_at(const struct mo_curve *c, double load) {
    for (int i = 0; i < c->n; i++)
        if (fabs(c->load[i] - load) <= same) return i;
    return -1;
}

/* Makes room for a load that has none yet. */
static void add_load(struct mo_curve *c, double load) {
    int i = c->n;
    if (mo_curve_at(c, load) >= 0 || c->n == MO_CURVE_POINTS) return;
    for (c->n++; i > 0 && c->load[i - 1] > load; i--)
        c->load[i] = c->load[i - 1];
    c->load[i] = load;
}

static void range(double out[2], const struct mo_merged *m, int seeds, double least, double most) {
    if (seeds > 1) {
        out[0] = least;
        out[1] = most;
    } else {
        mo_bench_wilson((int)m->met, (int)m->n, out);
    }
}

/* Fills the points of one curve; a load at which nobody asked anything is none. */
static void fill(const json_t *document, struct mo_curve *c, struct mo_merged_load *m) {
    int kept = 0;
    for (int i = 0; i < c->n; i++) {
        if (!mo_merge_load(document, c->name, c->load[i], m) || !(m->all.n > 0)) continue;
        const struct mo_merged *worst = mo_merged_worst(m);
        if (!worst) worst = &m->all;
        c->load[kept] = c->load[i];
        c->seeds[kept] = m->seeds;
        c->overall[kept] = mo_merged_share(&m->all);
        c->worst[kept] = mo_merged_share(worst);
        range(&c->overall_range[2 * kept], &m->all, m->seeds, m->all.least, m->all.most);
        range(&c->worst_range[2 * kept], worst, m->seeds, m->worst_least, m->worst_most);
        kept++;
    }
    c->n = kept;
}

/* Mean and range of a key over the results of one system; -1 when any lacks it. */
static double mean_max(const json_t *document, const char *name, const char *key, double span[2]) {
    double sum = 0;
    int n = 0;
    size_t i;
    json_t *result;
    json_array_foreach(json_object_get(document, "results"), i, result) {
        if (strcmp(mo_json_text(result, "name"), name) != 0) continue;
        if (!json_is_number(json_object_get(result, key))) return -1;
        double v = mo_json_number(result, key);
        if (!n || v < span[0]) span[0] = v;
        if (!n || v > span[1]) span[1] = v;
        sum += v;
        n++;
    }
    return n ? sum / n : -1;
}

int mo_doc_curves(const json_t *document, struct mo_curve *curves) {
    struct mo_merged_load merged;
    int n = 0;
    size_t i, k;
    json_t *result, *point;
    json_array_foreach(json_object_get(document, "results"), i, result) {
        struct mo_curve *c = curve_of(curves, &n, result);
        if (!c) continue;
        json_array_foreach(json_object_get(result, "loads"), k, point)
            add_load(c, mo_json_number(point, "load"));
    }
    for (int c = 0; c < n; c++) {
        struct mo_curve *one = &curves[c];
        fill(document, one, &merged);
        one->max_overall = mean_max(document, one->name, "max_load_overall", one->max_overall_range);
        one->max_every = mean_max(document, one->name, "max_load_every_tenant", one->max_every_range);
    }
    return n;
}

bool mo_doc_one_tenant(const json_t *document) {
    return json_array_size(json_object_get(json_object_get(document, "calibration"), "tenants")) == 1;
}

const char *mo_doc_load_one(const json_t *document) {
    const json_t *first = json_array_get(json_object_get(document, "results"), 0);
    if (json_is_true(json_object_get(first, "rated"))) return "the scenario's own rates";
    if (json_is_true(json_object_get(json_object_get(document, "calibration"), "gpus")))
        return "all GPUs busy";
    return "all cores busy at the fastest system's speed";
}

bool mo_doc_has_target(const json_t *document, const char *tenant) {
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(json_object_get(document, "calibration"), "tenants"), i, t) {
        if (!strcmp(mo_json_text(t, "name"), tenant)) return !json_is_null(json_object_get(t, "qos_ms"));
    }
    return true;
}

const json_t *mo_doc_point(const json_t *result, double load) {
    size_t k;
    json_t *point;
    json_array_foreach(json_object_get(result, "loads"), k,
                       point) if (fabs(mo_json_number(point, "load") - load) < same) return point;
    return NULL;
}

/* How well a system was measured at a load: 2 to the end, 1 until it could not reach the goal any more, 0
 * not. */
static int known_at(const json_t *result, double load) {
    const json_t *point = mo_doc_point(result, load);
    return !point ? 0 : json_is_true(json_object_get(point, "stopped_early")) ? 1 : 2;
}

double mo_doc_common_load(const json_t *document) {
    const json_t *results = json_object_get(document, "results");
    double best_load = 0;
    int best = 0;
    size_t i, k, j;
    json_t *result, *point, *other;
    json_array_foreach((json_t *)results, i, result) {
        json_array_foreach(json_object_get(result, "loads"), k, point) {
            double load = mo_json_number(point, "load");
            int known = 0;
            json_array_foreach((json_t *)results, j, other) known += known_at(other, load);
            if (known < best || (known == best && load <= best_load)) continue;
            best = known;
            best_load = load;
        }
    }
    return best_load;
}
