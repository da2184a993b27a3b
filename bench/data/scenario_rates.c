/* SPDX-License-Identifier: Apache-2.0
 * scenario_rates.c - rates, curves and applications of a scenario; the format is described in
 * bench/scenarios/README.md. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/data/scenario.h"

#define COUNT(a) (int)(sizeof(a) / sizeof(a)[0])

enum { MAX_POINTS = 100000 };
static const double most_rate = 1e7, most_seconds = 1e7;

/* [[seconds, rate], ...] */
static int read_curve(const struct mo_json_file *f, const char *where, const json_t *list,
                      struct mo_bench_tenant *out, moire_error *err) {
    struct mo_bench_curve *c = &out->curve;
    size_t n = json_array_size(list);
    if (n < 1 || n > MAX_POINTS) return mo_json_fail(f, where, err, "needs 1 to %d points", MAX_POINTS);
    c->at_s = mo_region_array(f->region, n, sizeof *c->at_s);
    c->rate = mo_region_array(f->region, n, sizeof *c->rate);
    if (!c->at_s || !c->rate) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", f->path);
    for (c->n = 0; (size_t)c->n < n; c->n++) {
        const json_t *point = json_array_get(list, (size_t)c->n);
        double at = json_number_value(json_array_get(point, 0));
        double rate = json_number_value(json_array_get(point, 1));
        if (json_array_size(point) != 2 || !json_is_number(json_array_get(point, 0)) ||
            !json_is_number(json_array_get(point, 1)) || !(at >= 0 && at <= most_seconds) ||
            !(rate >= 0 && rate <= most_rate) || (c->n && at <= c->at_s[c->n - 1]))
            return mo_json_fail(f, where, err,
                                "point %d must be [seconds, queries/s], later than the one before", c->n);
        c->at_s[c->n] = at;
        c->rate[c->n] = rate;
        out->rate = fmax(out->rate, rate);
    }
    return out->rate > 0 ? MOIRE_OK : mo_json_fail(f, where, err, "the rate is 0 throughout");
}

int mo_bench_read_rate(const struct mo_json_file *f, const char *where, const json_t *curve, double rate,
                       struct mo_bench_tenant *out, moire_error *err) {
    char path[512];
    if (rate > 0 && curve) return mo_json_fail(f, where, err, "needs either \"rate\" or \"curve\"");
    out->rate = rate;
    snprintf(path, sizeof path, "%s.curve", where);
    return curve ? read_curve(f, path, curve, out, err) : MOIRE_OK;
}

struct stage_raw {
    const char *name, *model;
    int64_t count;
    json_t *after, *shapes;
};

static int read_stage(const struct mo_json_file *f, const char *where, const json_t *object,
                      struct mo_bench_application *app, int i, json_t **after, moire_error *err) {
    const struct mo_json_field fields[] = {
        {"name", MO_JSON_STRING, false, offsetof(struct stage_raw, name), 0, 0},
        {"model", MO_JSON_STRING, true, offsetof(struct stage_raw, model), 0, 0},
        {"count", MO_JSON_INT, false, offsetof(struct stage_raw, count), 1, 1000},
        {"after", MO_JSON_ARRAY, false, offsetof(struct stage_raw, after), 0, 0},
        {"shapes", MO_JSON_OBJECT, false, offsetof(struct stage_raw, shapes), 0, 0},
    };
    struct stage_raw raw = {.count = 1};
    int code = mo_json_fields(f, where, object, fields, COUNT(fields), &raw, err);
    if (code) return code;
    app->dag.stage[i] =
        (struct mo_dag_stage){.name = raw.name ? raw.name : raw.model, .count = (int)raw.count};
    app->stage[i] = (struct mo_bench_tenant){.name = app->dag.stage[i].name, .model = raw.model};
    *after = raw.after;
    for (int k = 0; k < i; k++)
        if (!strcmp(app->dag.stage[k].name, app->dag.stage[i].name))
            return mo_json_fail(f, where, err, "a second stage of that name; give it its own \"name\"");
    char path[600];
    snprintf(path, sizeof path, "%.500s.shapes", where);
    return raw.shapes ? mo_bench_read_shapes(f, path, raw.shapes, &app->stage[i], err) : MOIRE_OK;
}

static int find_stage(const struct mo_dag *dag, const char *name) {
    for (int i = 0; name && i < dag->n; i++)
        if (!strcmp(dag->stage[i].name, name)) return i;
    return -1;
}

static int read_after(const struct mo_json_file *f, const char *where, const json_t *list, struct mo_dag *dag,
                      int i, moire_error *err) {
    size_t n = json_array_size(list);
    if (n > MO_DAG_STAGES) return mo_json_fail(f, where, err, "at most %d stages", MO_DAG_STAGES);
    for (size_t k = 0; k < n; k++) {
        const char *name = json_string_value(json_array_get(list, k));
        int at = find_stage(dag, name);
        if (at < 0)
            return mo_json_fail(f, where, err, "the application '%s' has no stage '%s'", dag->name,
                                name ? name : "(not a string)");
        dag->stage[i].after[dag->stage[i].n_after++] = at;
    }
    return MOIRE_OK;
}

int mo_bench_read_stages(const struct mo_json_file *f, const char *where, const json_t *stages,
                         struct mo_bench_tenant *out, moire_error *err) {
    json_t *after[MO_DAG_STAGES];
    char path[512];
    int n = (int)json_array_size(stages), code = MOIRE_OK;
    snprintf(path, sizeof path, "%s.stages", where);
    if (n < 1 || n > MO_DAG_STAGES) return mo_json_fail(f, path, err, "needs 1 to %d stages", MO_DAG_STAGES);
    struct mo_bench_application *app = mo_region_alloc(f->region, sizeof *app);
    if (!app) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", f->path);
    *app = (struct mo_bench_application){.dag = {.name = out->name, .n = n}};
    app->stage = mo_region_alloc(f->region, (size_t)n * sizeof *app->stage);
    if (!app->stage) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", f->path);
    for (int i = 0; i < n && !code; i++) {
        snprintf(path, sizeof path, "%s.stages[%d]", where, i);
        code = read_stage(f, path, json_array_get(stages, (size_t)i), app, i, &after[i], err);
    }
    for (int i = 0; i < n && !code; i++) {
        snprintf(path, sizeof path, "%s.stages[%d].after", where, i);
        code = read_after(f, path, after[i], &app->dag, i, err);
    }
    moire_error why;
    snprintf(path, sizeof path, "%s.stages", where);
    if (!code && mo_dag_finish(&app->dag, &why)) code = mo_json_fail(f, path, err, "%s", why.message);
    out->app = app;
    return code;
}

int mo_bench_no_applications(const struct mo_bench_scenario *s, moire_error *err) {
    for (int i = 0; i < s->n_tenants; i++)
        if (s->tenants[i].app)
            return mo_fail(err, MOIRE_EINVAL,
                           "%s: '%s' is an application: those run on GPUs (`moire sim` on a machine that has "
                           "some, `moire bench serve --device`)",
                           s->name, s->tenants[i].name);
    return MOIRE_OK;
}
