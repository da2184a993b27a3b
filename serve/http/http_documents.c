/* SPDX-License-Identifier: Apache-2.0
 * http_documents.c - what the server tells of itself and of its models as JSON; see http.h. */
#include <string.h>
#include "serve/http/http.h"
#include "serve/page/exposition.h"
#include "serve/protocol/fault.h"

/* Takes the model that the path names; NULL: x is answered. */
static struct ms_model *take(struct ms_exchange *x) {
    struct ms_model *m;
    moire_error err = {0};
    if (!ms_repository_take(x->http->repository, x->model, *x->version ? x->version : NULL, &m, &err))
        return m;
    ms_http_fail(x, &err);
    return NULL;
}

/* The same, and the model is ready. */
static struct ms_model *take_ready(struct ms_exchange *x) {
    struct ms_model *m = take(x);
    moire_error err = {0};
    if (!m || ms_model_state(m) == MS_READY) return m;
    ms_fail(&err, MOIRE_EINVAL, "model '%.100s' is not ready: %.300s", m->found.name, m->reason);
    ms_repository_give(m);
    ms_http_fail(x, &err);
    return NULL;
}

void ms_http_server(struct ms_exchange *x) {
    ms_http_answer(x, json_pack("{s:s, s:s, s:[s,s,s,s,s]}", "name", "moire", "version", moire_version(),
                                "extensions", "binary_tensor_data", "model_repository", "model_configuration",
                                "statistics", "schedule_policy"));
}

/* --- ports --- */
static json_t *shape_of(const moire_port *p, int from) {
    json_t *shape = json_array();
    for (int i = from; i < p->rank; i++)
        json_array_append_new(shape, json_integer(p->shape[i]));
    if (p->rank < 0) json_array_append_new(shape, json_integer(-1));
    return shape;
}

static json_t *metadata(const moire_port *ports, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "name", ports[i].name, "datatype",
                                              ms_type_name(ports[i].dtype), "shape", shape_of(&ports[i], 0)));
    return list;
}

void ms_http_model(struct ms_exchange *x) {
    struct ms_model *all[MS_MODELS], *m = take_ready(x);
    int n;
    if (!m) return;
    json_t *versions = json_array();
    ms_repository_take_all(x->http->repository, all, &n);
    for (int i = 0; i < n; i++) {
        if (!strcmp(all[i]->found.name, m->found.name))
            json_array_append_new(versions, json_string(all[i]->found.version));
        ms_repository_give(all[i]);
    }
    ms_http_answer(x, json_pack("{s:s, s:o, s:s, s:o, s:o}", "name", m->found.name, "versions", versions,
                                "platform", "onnxruntime_onnx", "inputs", metadata(m->input, m->n_inputs),
                                "outputs", metadata(m->output, m->n_outputs)));
    ms_repository_give(m);
}

/* As config.pbtxt has them: no batch dimension where max_batch_size says that there is one. */
static json_t *configured(const struct ms_model *m, const moire_port *ports, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        char type[32];
        const char *name = ms_type_name(ports[i].dtype);
        snprintf(type, sizeof type, "TYPE_%s",
                 name && !strcmp(name, "BYTES") ? "STRING"
                 : name                         ? name
                                                : "INVALID");
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "name", ports[i].name, "data_type", type,
                                              "dims", shape_of(&ports[i], m->settings.max_batch > 0)));
    }
    return list;
}

void ms_http_config(struct ms_exchange *x) {
    const struct ms_model *m = take_ready(x);
    if (!m) return;
    json_t *config = json_deep_copy(m->settings.config);
    json_object_set_new(config, "name", json_string(m->found.name));
    json_object_set_new(config, "platform", json_string("onnxruntime_onnx"));
    json_object_set_new(config, "backend", json_string("moire"));
    json_object_set_new(config, "max_batch_size", json_integer(m->settings.max_batch));
    json_object_set_new(config, "input", configured(m, m->input, m->n_inputs));
    json_object_set_new(config, "output", configured(m, m->output, m->n_outputs));
    ms_http_answer(x, config);
    ms_repository_give((struct ms_model *)(uintptr_t)m);
}

/* --- statistics --- */
static json_t *duration(int64_t count, int64_t ns) {
    return json_pack("{s:I, s:I}", "count", (json_int_t)count, "ns", (json_int_t)ns);
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
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:[], s:[]}", "name", m->found.name, "version",
                     m->found.version, "last_inference", (json_int_t)t.last_ms, "inference_count",
                     (json_int_t)ok, "execution_count", (json_int_t)ok, "inference_stats", inference,
                     "batch_stats", "memory_usage");
}

void ms_http_stats(struct ms_exchange *x) {
    struct ms_model *all[MS_MODELS], *one = NULL;
    int n;
    if (*x->model && !(one = take(x))) return;
    json_t *list = json_array();
    if (one) {
        json_array_append_new(list, stats_of(one));
        ms_repository_give(one);
    } else {
        ms_repository_take_all(x->http->repository, all, &n);
        for (int i = 0; i < n; i++) {
            json_array_append_new(list, stats_of(all[i]));
            ms_repository_give(all[i]);
        }
    }
    ms_http_answer(x, json_pack("{s:o}", "model_stats", list));
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
static void add_others(const struct ms_exchange *x, json_t *list) {
    struct ms_faults quiet = {0};
    struct ms_scan scan;
    if (ms_scan_open(x->http->repository->options.folder, NULL, &scan, &quiet, NULL)) return;
    for (int i = 0; i < scan.n; i++)
        if (!is_listed(list, scan.found[i].name))
            json_array_append_new(list, json_pack("{s:s}", "name", scan.found[i].name));
    ms_scan_close(&scan);
}

void ms_http_index(struct ms_exchange *x) {
    struct ms_model *all[MS_MODELS];
    int n;
    json_t *request = x->body.n ? json_loadb(x->body.at, x->body.n, 0, NULL) : json_object();
    if (!json_is_object(request)) {
        moire_error err = {0};
        ms_fail(&err, MOIRE_EINVAL, "the request is no JSON object");
        json_decref(request);
        ms_http_fail(x, &err);
        return;
    }
    const bool ready = json_is_true(json_object_get(request, "ready"));
    json_decref(request);
    json_t *list = json_array();
    ms_repository_take_all(x->http->repository, all, &n);
    for (int i = 0; i < n; i++) {
        const enum ms_state state = ms_model_state(all[i]);
        if (!ready || state == MS_READY)
            json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "name", all[i]->found.name,
                                                  "version", all[i]->found.version, "state",
                                                  state_text(state), "reason", all[i]->reason));
        ms_repository_give(all[i]);
    }
    if (!ready) add_others(x, list);
    ms_http_answer(x, list);
}

void ms_http_metrics(struct ms_exchange *x) {
    ms_exposition_write(x->http->repository, x->http->runtime, &x->answer);
    x->status = 200;
    x->type = "text/plain; version=0.0.4; charset=utf-8";
}
