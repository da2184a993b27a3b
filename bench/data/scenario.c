/* SPDX-License-Identifier: Apache-2.0
 * scenario.c - reading scenario files; see scenario.h. */
#include <stdio.h>
#include <string.h>
#include "bench/data/scenario.h"

#define COUNT(a) (int)(sizeof(a) / sizeof(a)[0])

static const double most_ms = 3.6e6, most_weight = 1e9, most_times = 1e6, most_rate = 1e7;

static int read_qos(const struct mo_json_file *f, const char *where, const json_t *object,
                    struct mo_bench_qos *out, moire_error *err) {
    const struct mo_json_field fields[] = {
        {"ms", MO_JSON_NUMBER, false, offsetof(struct mo_bench_qos, ms), 1e-3, most_ms},
        {"times_solo", MO_JSON_NUMBER, false, offsetof(struct mo_bench_qos, times_solo), 0.01, most_times},
        {"cores", MO_JSON_INT, false, offsetof(struct mo_bench_qos, cores), 0, 1024},
    };
    *out = (struct mo_bench_qos){.cores = 1};
    int code = mo_json_fields(f, where, object, fields, COUNT(fields), out, err);
    if (code) return code;
    if ((out->ms > 0) == (out->times_solo > 0))
        return mo_json_fail(f, where, err, "needs exactly one of \"ms\" and \"times_solo\"");
    return MOIRE_OK;
}

static int read_shape(const struct mo_json_file *f, const char *where, const char *input, const json_t *dims,
                      moire_shape *out, moire_error *err) {
    if (!json_is_array(dims) || json_array_size(dims) > MOIRE_MAX_RANK)
        return mo_json_fail(f, where, err, "must be an array of at most %d dimensions", MOIRE_MAX_RANK);
    out->input = mo_region_string(f->region, input, strlen(input));
    if (!out->input) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", f->path);
    out->rank = (int)json_array_size(dims);
    for (int i = 0; i < out->rank; i++) {
        const json_t *d = json_array_get(dims, (size_t)i);
        if (!json_is_integer(d) || json_integer_value(d) < 1 || json_integer_value(d) > INT32_MAX)
            return mo_json_fail(f, where, err, "dimension %d must be a whole number from 1 on", i);
        out->shape[i] = json_integer_value(d);
    }
    return MOIRE_OK;
}

int mo_bench_read_shapes(const struct mo_json_file *f, const char *where, const json_t *object,
                         struct mo_bench_tenant *t, moire_error *err) {
    const char *input;
    json_t *dims;
    json_object_foreach((json_t *)object, input, dims) {
        char path[512];
        snprintf(path, sizeof path, "%s.%s", where, input);
        if (t->n_shapes == MO_BENCH_MAX_INPUTS)
            return mo_json_fail(f, path, err, "more than %d inputs", MO_BENCH_MAX_INPUTS);
        int code = read_shape(f, path, input, dims, &t->shapes[t->n_shapes++], err);
        if (code) return code;
    }
    return MOIRE_OK;
}

struct tenant_raw {
    const char *name, *model, *cls;
    double weight, rate, share;
    int64_t priority, outstanding, cores;
    bool shed_late;
    json_t *qos, *shapes, *curve, *stages;
};

static int read_tenant(const struct mo_json_file *f, const char *where, const json_t *object,
                       const struct mo_bench_qos *qos, struct mo_bench_tenant *out, moire_error *err) {
    const struct mo_json_field fields[] = {
        {"name", MO_JSON_STRING, false, offsetof(struct tenant_raw, name), 0, 0},
        {"model", MO_JSON_STRING, false, offsetof(struct tenant_raw, model), 0, 0},
        {"stages", MO_JSON_ARRAY, false, offsetof(struct tenant_raw, stages), 0, 0},
        {"rate", MO_JSON_NUMBER, false, offsetof(struct tenant_raw, rate), 0, most_rate},
        {"curve", MO_JSON_ARRAY, false, offsetof(struct tenant_raw, curve), 0, 0},
        {"outstanding", MO_JSON_INT, false, offsetof(struct tenant_raw, outstanding), 1, 64},
        {"class", MO_JSON_STRING, false, offsetof(struct tenant_raw, cls), 0, 0},
        {"weight", MO_JSON_NUMBER, false, offsetof(struct tenant_raw, weight), 1e-9, most_weight},
        {"priority", MO_JSON_INT, false, offsetof(struct tenant_raw, priority), -1000, 1000},
        {"cores", MO_JSON_INT, false, offsetof(struct tenant_raw, cores), 0, 1024},
        {"share", MO_JSON_NUMBER, false, offsetof(struct tenant_raw, share), 1e-3, 1000},
        {"shed_late", MO_JSON_BOOL, false, offsetof(struct tenant_raw, shed_late), 0, 0},
        {"qos", MO_JSON_OBJECT, false, offsetof(struct tenant_raw, qos), 0, 0},
        {"shapes", MO_JSON_OBJECT, false, offsetof(struct tenant_raw, shapes), 0, 0},
    };
    struct tenant_raw raw = {0};
    char path[512];
    int code = mo_json_fields(f, where, object, fields, COUNT(fields), &raw, err);
    if (code) return code;
    *out = (struct mo_bench_tenant){.model = raw.model,
                                    .weight = raw.weight,
                                    .priority = (int)raw.priority,
                                    .cores = (int)raw.cores,
                                    .share = raw.share,
                                    .shed_late = raw.shed_late,
                                    .qos = *qos};
    if ((raw.model != NULL) == (raw.stages != NULL))
        return mo_json_fail(f, where, err, "needs exactly one of \"model\" and \"stages\"");
    if (raw.stages && !raw.name) return mo_json_fail(f, where, err, "an application needs a \"name\"");
    out->name = raw.name ? raw.name : raw.model;
    code = mo_bench_read_rate(f, where, raw.curve, raw.rate, out, err);
    if (!code && raw.stages) code = mo_bench_read_stages(f, where, raw.stages, out, err);
    if (code) return code;
    snprintf(path, sizeof path, "%s.class", where);
    if (raw.cls && !strcmp(raw.cls, "best-effort"))
        out->cls = MOIRE_BEST_EFFORT;
    else if (raw.cls && strcmp(raw.cls, "latency-critical") != 0)
        return mo_json_fail(f, path, err, "must be \"latency-critical\" or \"best-effort\"");
    snprintf(path, sizeof path, "%s.qos", where);
    if (raw.qos && (code = read_qos(f, path, raw.qos, &out->qos, err))) return code;
    if (raw.outstanding && (code = mo_bench_read_outstanding(f, where, object, raw.outstanding, out, err)))
        return code;
    if (!out->outstanding && !(out->qos.ms > 0 || out->qos.times_solo > 0))
        return mo_json_fail(f, where, err, "has no \"qos\", and the scenario gives none either");
    snprintf(path, sizeof path, "%s.shapes", where);
    return raw.shapes ? mo_bench_read_shapes(f, path, raw.shapes, out, err) : MOIRE_OK;
}

struct scenario_raw {
    const char *name, *about, *objective;
    json_t *qos, *tenants;
};

static int check_names(const struct mo_bench_scenario *s, moire_error *err) {
    for (int i = 0; i < s->n_tenants; i++) {
        char path[64];
        snprintf(path, sizeof path, "tenants[%d]", i);
        const char *name = s->tenants[i].name, *model = s->tenants[i].model;
        if (!name || !*name || (model && !*model)) return mo_json_fail(&s->file, path, err, "an empty name");
        for (int j = 0; j < i; j++)
            if (!strcmp(name, s->tenants[j].name))
                return mo_json_fail(&s->file, path, err,
                                    "a second tenant of that name; give it its own \"name\"");
    }
    return MOIRE_OK;
}

static int read_scenario(struct mo_bench_scenario *s, moire_error *err) {
    const struct mo_json_field fields[] = {
        {"name", MO_JSON_STRING, true, offsetof(struct scenario_raw, name), 0, 0},
        {"about", MO_JSON_STRING, false, offsetof(struct scenario_raw, about), 0, 0},
        {"objective", MO_JSON_STRING, false, offsetof(struct scenario_raw, objective), 0, 0},
        {"qos", MO_JSON_OBJECT, false, offsetof(struct scenario_raw, qos), 0, 0},
        {"tenants", MO_JSON_ARRAY, true, offsetof(struct scenario_raw, tenants), 0, 0},
    };
    struct scenario_raw raw = {0};
    struct mo_bench_qos qos = {0};
    int code = mo_json_fields(&s->file, "", s->file.root, fields, COUNT(fields), &raw, err);
    if (!code && raw.qos) code = read_qos(&s->file, "qos", raw.qos, &qos, err);
    if (code) return code;
    if (!mo_objective_named(raw.objective, &s->objective))
        return mo_json_fail(&s->file, "objective", err, "must be \"every\", \"all\" or \"weighted\"");
    size_t n = json_array_size(raw.tenants);
    if (n < 1 || n > MO_BENCH_MAX_TENANTS)
        return mo_json_fail(&s->file, "tenants", err, "needs 1 to %d tenants", MO_BENCH_MAX_TENANTS);
    s->name = raw.name;
    s->about = raw.about ? raw.about : "";
    s->n_tenants = (int)n;
    for (size_t i = 0; i < n; i++) {
        char path[64];
        snprintf(path, sizeof path, "tenants[%zu]", i);
        code = read_tenant(&s->file, path, json_array_get(raw.tenants, i), &qos, &s->tenants[i], err);
        if (code) return code;
    }
    code = mo_bench_check_rates(s, err);
    return code ? code : check_names(s, err);
}

static int finish(struct mo_bench_scenario *out, moire_error *err) {
    int code = read_scenario(out, err);
    if (code) mo_bench_scenario_close(out);
    return code;
}

int mo_bench_scenario_load(const struct mo_env *env, const char *path, struct mo_bench_scenario *out,
                           moire_error *err) {
    memset(out, 0, sizeof *out);
    int code = mo_json_load(env, path, &out->file, err);
    return code ? code : finish(out, err);
}

int mo_bench_scenario_parse(const struct mo_env *env, const char *path, const char *text, size_t n,
                            struct mo_bench_scenario *out, moire_error *err) {
    memset(out, 0, sizeof *out);
    int code = mo_json_parse(env, path, text, n, &out->file, err);
    return code ? code : finish(out, err);
}

void mo_bench_scenario_strive(struct mo_bench_scenario *scenario, const char *objective) {
    enum mo_objective named;
    if (objective && mo_objective_named(objective, &named)) scenario->objective = named;
}

void mo_bench_scenario_close(struct mo_bench_scenario *scenario) {
    mo_json_close(&scenario->file);
    memset(scenario, 0, sizeof *scenario);
}
