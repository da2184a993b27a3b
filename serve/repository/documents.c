/* SPDX-License-Identifier: Apache-2.0
 * documents.c - what the server tells of itself and of its models; see documents.h. */
#include "serve/repository/documents.h"

#include <stdio.h>
#include <string.h>
#include "serve/protocol/fault.h"
#include "serve/repository/stuck_models.h"

/* Takes a model that is ready. */
static int take_ready(struct ms_repository *r, const char *name, const char *version, struct ms_model **m,
                      moire_error *err) {
    const int rc = ms_repository_take(r, name, version, m, err);
    if (rc || ms_model_state(*m) == MS_READY) return rc;
    ms_fail(err, MOIRE_EINVAL, "model '%.100s' is not ready: %.300s", (*m)->found.name, (*m)->reason);
    ms_repository_give(*m);
    return MOIRE_EINVAL;
}

json_t *ms_document_server(const struct ms_repository *r) {
    json_t *extensions =
        json_pack("[s,s,s,s,s,s,s,s,s]", "binary_tensor_data", "classification", "model_configuration",
                  "model_repository", "model_repository(unload_dependents)", "schedule_policy", "statistics",
                  "trace", "logging");
    if (r->options.has_shared_memory) json_array_append_new(extensions, json_string("system_shared_memory"));
    return json_pack("{s:s, s:s, s:o}", "name", "moire", "version", moire_version(), "extensions",
                     extensions);
}

/* --- ports --- */
static json_t *shape_of(const moire_port *p, int from) {
    json_t *shape = json_array();
    for (int i = from; i < p->rank; i++)
        json_array_append_new(shape, json_integer(p->shape[i]));
    if (p->rank < 0) json_array_append_new(shape, json_integer(-1));
    return shape;
}

/* The versions of a name that are loaded, least first. */
static json_t *versions_of(struct ms_repository *r, const char *name) {
    struct ms_model *all[MS_MODELS];
    int n;
    json_t *list = json_array();
    ms_repository_take_all(r, all, &n);
    for (int i = 0; i < n; i++) {
        size_t at = json_array_size(list);
        while (at && ms_version_number(json_string_value(json_array_get(list, at - 1))) >
                         ms_version_number(all[i]->found.version))
            at--;
        if (!strcmp(all[i]->found.name, name))
            json_array_insert_new(list, at, json_string(all[i]->found.version));
        ms_repository_give(all[i]);
    }
    return list;
}

static json_t *metadata(const moire_port *ports, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "name", ports[i].name, "datatype",
                                              ms_type_name(ports[i].dtype), "shape", shape_of(&ports[i], 0)));
    return list;
}

static const char *platform_of(const struct ms_model *m) {
    return m->ensemble ? "ensemble" : m->fn ? "" : "onnxruntime_onnx";
}

int ms_document_model(struct ms_repository *r, const char *name, const char *version, json_t **out,
                      moire_error *err) {
    struct ms_model *m;
    const int rc = take_ready(r, name, version, &m, err);
    if (rc) return rc;
    *out = json_pack("{s:s, s:o, s:s, s:o, s:o}", "name", m->found.name, "versions",
                     versions_of(r, m->found.name), "platform", platform_of(m), "inputs",
                     metadata(m->input, m->n_inputs), "outputs", metadata(m->output, m->n_outputs));
    ms_repository_give(m);
    return MOIRE_OK;
}

/* The name of the file that has an output's labels, of the configuration. */
static const char *labels_of(const json_t *config, const char *output) {
    const json_t *list = json_object_get(config, "output");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i), *name = json_object_get(o, "name");
        const char *file = json_string_value(json_object_get(o, "label_filename"));
        if (file && json_is_string(name) && !strcmp(json_string_value(name), output)) return file;
    }
    return "";
}

/* What Triton's clients find in any configuration, and what it means where config.pbtxt is silent. */
static void add_standard(json_t *config) {
    json_t *standard = json_pack("{s:s, s:{s:{s:i}}, s:s, s:{}, s:{}, s:{}, s:[], s:[], s:[]}", "runtime", "",
                                 "version_policy", "latest", "num_versions", 1, "default_model_filename",
                                 "model.onnx", "cc_model_filenames", "metric_tags", "parameters",
                                 "model_warmup", "batch_input", "batch_output");
    json_object_update_missing(config, standard);
    json_decref(standard);
}

/* As config.pbtxt has them: no batch dimension where max_batch_size says that there is one. */
static json_t *configured(const struct ms_model *m, const moire_port *ports, int n) {
    const bool inputs = ports == m->input;
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        char type[32];
        const char *name = ms_type_name(ports[i].dtype);
        snprintf(type, sizeof type, "TYPE_%s",
                 name && !strcmp(name, "BYTES") ? "STRING"
                 : name                         ? name
                                                : "INVALID");
        json_t *port = json_pack("{s:s, s:s, s:o, s:b, s:b}", "name", ports[i].name, "data_type", type,
                                 "dims", shape_of(&ports[i], m->settings.max_batch > 0), "is_shape_tensor", 0,
                                 "is_non_linear_format_io", 0);
        json_t *more =
            inputs ? json_pack("{s:s, s:b, s:b}", "format", "FORMAT_NONE", "allow_ragged_batch", 0,
                               "optional", 0)
                   : json_pack("{s:s}", "label_filename", labels_of(m->settings.config, ports[i].name));
        json_object_update(port, more);
        json_decref(more);
        json_array_append_new(list, port);
    }
    return list;
}

int ms_document_config(struct ms_repository *r, const char *name, const char *version, json_t **out,
                       moire_error *err) {
    struct ms_model *m;
    const int rc = take_ready(r, name, version, &m, err);
    if (rc) return rc;
    json_t *config = json_deep_copy(m->settings.config);
    json_object_set_new(config, "name", json_string(m->found.name));
    json_object_set_new(config, "platform", json_string(platform_of(m)));
    json_object_set_new(config, "backend", json_string(m->ensemble ? "" : m->fn ? "moire_host" : "moire"));
    json_object_set_new(config, "max_batch_size", json_integer(m->settings.max_batch));
    json_object_set_new(config, "input", configured(m, m->input, m->n_inputs));
    json_object_set_new(config, "output", configured(m, m->output, m->n_outputs));
    add_standard(config);
    *out = config;
    ms_repository_give(m);
    return MOIRE_OK;
}

/* --- statistics --- */
static json_t *duration(int64_t count, int64_t ns) {
    return json_pack("{s:I, s:I}", "count", (json_int_t)count, "ns", (json_int_t)ns);
}

static json_t *batch_stats(const struct ms_tally *t) {
    json_t *list = json_array();
    for (int i = 0; i < MS_RUN_SIZES && t->by_rows[i].count; i++) {
        const struct ms_runs *r = &t->by_rows[i];
        json_array_append_new(list, json_pack("{s:I, s:o, s:o, s:o}", "batch_size", (json_int_t)r->rows,
                                              "compute_input", duration(r->count, r->input_ns),
                                              "compute_infer", duration(r->count, r->compute_ns),
                                              "compute_output", duration(r->count, 0)));
    }
    return list;
}

static json_t *stats_of(struct ms_model *m) {
    pthread_mutex_lock(&m->repository->lock);
    const struct ms_tally t = *m->tally;
    pthread_mutex_unlock(&m->repository->lock);
    const int64_t ok = t.ended[0];
    json_t *inference = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "success", duration(ok, t.request.sum_ns), "fail",
        duration(ms_tally_failed(&t), t.fail_ns), "queue", duration(ok, t.queue.sum_ns), "compute_input",
        duration(ok, t.input_ns), "compute_infer", duration(ok, t.compute.sum_ns), "compute_output",
        duration(ok, t.output_ns), "cache_hit", duration(0, 0), "cache_miss", duration(0, 0));
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:{}, s:o, s:[]}", "name", m->found.name, "version",
                     m->found.version, "last_inference", (json_int_t)t.last_ms, "inference_count",
                     (json_int_t)(m->settings.max_batch ? t.rows : ok), "execution_count", (json_int_t)t.runs,
                     "inference_stats", inference, "response_stats", "batch_stats", batch_stats(&t),
                     "memory_usage");
}

int ms_document_stats(struct ms_repository *r, const char *name, const char *version, json_t **out,
                      moire_error *err) {
    struct ms_model *all[MS_MODELS], *one = NULL;
    int n;
    const int rc = *name ? ms_repository_take(r, name, version, &one, err) : MOIRE_OK;
    if (rc) return rc;
    json_t *list = json_array();
    if (one) {
        json_array_append_new(list, stats_of(one));
        ms_repository_give(one);
    } else {
        ms_repository_take_all(r, all, &n);
        for (int i = 0; i < n; i++) {
            json_array_append_new(list, stats_of(all[i]));
            ms_repository_give(all[i]);
        }
    }
    *out = json_pack("{s:o}", "model_stats", list);
    return MOIRE_OK;
}

/* --- the repository --- */
static const char *state_text(enum ms_state state) {
    static const char *const text[] = {"LOADING", "READY", "UNLOADING", "UNAVAILABLE"};
    return text[state];
}

static bool is_listed(const json_t *list, const char *name) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!strcmp(json_string_value(json_object_get(json_array_get(list, i), "name")), name)) return true;
    return false;
}

/* Models that lie in the folder and were never loaded. */
static void add_others(const struct ms_repository *r, json_t *list) {
    struct ms_faults quiet = {0};
    struct ms_scan scan;
    if (ms_scan_open(&r->options.source, NULL, &scan, &quiet, NULL)) return;
    for (int i = 0; i < scan.n; i++)
        if (!is_listed(list, scan.found[i].name))
            json_array_append_new(list, json_pack("{s:s}", "name", scan.found[i].name));
    ms_scan_close(&scan);
}

json_t *ms_document_index(struct ms_repository *r, bool ready) {
    struct ms_model *all[MS_MODELS];
    struct ms_stuck stuck;
    int n;
    json_t *list = json_array();
    ms_stuck_look(r, &stuck);
    ms_repository_take_all(r, all, &n);
    for (int i = 0; i < n; i++) {
        char why[MS_STUCK_WHY];
        const bool is_stuck = ms_stuck_is(&stuck, all[i], why);
        const enum ms_state state = is_stuck ? MS_UNAVAILABLE : ms_model_state(all[i]);
        if (!ready || state == MS_READY)
            json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:s, s:s*}", "name", all[i]->found.name, "version",
                                            all[i]->found.version, "state", state_text(state), "reason",
                                            is_stuck          ? why
                                            : *all[i]->reason ? all[i]->reason
                                                              : NULL));
        ms_repository_give(all[i]);
    }
    if (!ready) add_others(r, list);
    return list;
}
