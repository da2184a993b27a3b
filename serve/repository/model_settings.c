/* SPDX-License-Identifier: Apache-2.0
 * model_settings.c - reads a model's configuration; see model_settings.h. */
#include "serve/repository/model_settings.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ms_fault_say(struct ms_faults *to, const char *format, ...) {
    char line[600];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    to->n++;
    if (to->say) to->say(to->user, true, line);
}

enum use { READ, NO_EFFECT, NOT_SERVED };
struct field {
    const char *name;
    enum use use;
};
static const struct field of_model[] = {
    {"name", READ},
    {"platform", READ},
    {"backend", READ},
    {"max_batch_size", READ},
    {"input", READ},
    {"output", READ},
    {"version_policy", READ},
    {"dynamic_batching", READ},
    {"parameters", READ},
    {"default_model_filename", READ},
    {"runtime", NO_EFFECT},
    {"instance_group", NO_EFFECT},
    {"optimization", NO_EFFECT},
    {"model_warmup", NO_EFFECT},
    {"metric_tags", NO_EFFECT},
    {"model_metrics", NO_EFFECT},
    {"cc_model_filenames", NO_EFFECT},
    {"response_cache", NOT_SERVED},
    {"sequence_batching", NOT_SERVED},
    {"ensemble_scheduling", NOT_SERVED},
    {"model_transaction_policy", NOT_SERVED},
    {"model_operations", NOT_SERVED},
    {"batch_input", NOT_SERVED},
    {"batch_output", NOT_SERVED},
    {NULL, READ},
};
static const struct field of_batching[] = {
    {"preferred_batch_size", NO_EFFECT},   {"max_queue_delay_microseconds", NO_EFFECT},
    {"preserve_ordering", NO_EFFECT},      {"priority_levels", READ},
    {"default_priority_level", READ},      {"default_queue_policy", READ},
    {"priority_queue_policy", NOT_SERVED}, {NULL, READ},
};
static const struct field of_queue[] = {
    {"timeout_action", READ},
    {"default_timeout_microseconds", READ},
    {"allow_timeout_override", READ},
    {"max_queue_size", READ},
    {NULL, READ},
};
static const struct field of_parameters[] = {
    {"qos_ms", READ},       {"class", READ},       {"priority", READ},
    {"weight", NOT_SERVED}, {"cores", NOT_SERVED}, {NULL, READ},
};

struct reader {
    const char *model;
    struct ms_settings *s;
    struct ms_faults *faults;
};

static void check_names(const struct reader *r, const char *where, const json_t *object,
                        const struct field *known) {
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        const struct field *f = known;
        while (f->name && strcmp(f->name, key) != 0)
            f++;
        if (!f->name)
            ms_fault_say(r->faults, "%s: config.pbtxt: there is no field '%.60s'%s", r->model, key, where);
        else if (f->use == NOT_SERVED)
            ms_fault_say(r->faults, "%s: config.pbtxt: '%s'%s is not served; take it out", r->model, key,
                         where);
        else if (f->use == NO_EFFECT && r->faults->say) {
            char line[300];
            snprintf(line, sizeof line, "%s: config.pbtxt: '%s'%s has no effect here", r->model, key, where);
            r->faults->say(r->faults->user, false, line);
        }
    }
}

/* A member's whole number, `standard` where it is not there. */
static int64_t whole(const struct reader *r, const json_t *object, const char *key, int64_t standard,
                     int64_t most) {
    const json_t *v = json_object_get(object, key);
    if (!v) return standard;
    if (json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= most)
        return json_integer_value(v);
    ms_fault_say(r->faults, "%s: config.pbtxt: '%s' must be a whole number from 0 to %lld", r->model, key,
                 (long long)most);
    return standard;
}

static const json_t *message(const struct reader *r, const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    if (!v || json_is_object(v)) return v;
    ms_fault_say(r->faults, "%s: config.pbtxt: '%s' must be a message: %s { ... }", r->model, key, key);
    return NULL;
}

static void read_queue(struct reader *r, const json_t *queue) {
    if (!queue) return;
    check_names(r, " of default_queue_policy", queue, of_queue);
    r->s->queue = (int)whole(r, queue, "max_queue_size", 0, 1 << 14);
    r->s->timeout_us = whole(r, queue, "default_timeout_microseconds", 0, INT64_C(1) << 50);
    r->s->timeout_is_fixed = !json_is_true(json_object_get(queue, "allow_timeout_override"));
    const char *action = json_string_value(json_object_get(queue, "timeout_action"));
    r->s->delays = action && !strcmp(action, "DELAY");
    if (json_object_get(queue, "timeout_action") &&
        (!action || (strcmp(action, "DELAY") && strcmp(action, "REJECT"))))
        ms_fault_say(r->faults, "%s: config.pbtxt: 'timeout_action' is REJECT or DELAY", r->model);
}

static void read_batching(struct reader *r) {
    const json_t *batching = message(r, r->s->config, "dynamic_batching");
    if (!batching) return;
    check_names(r, " of dynamic_batching", batching, of_batching);
    r->s->levels = whole(r, batching, "priority_levels", 0, 1000000);
    r->s->level = whole(r, batching, "default_priority_level", 0, 1000000);
    if (r->s->level > r->s->levels || (r->s->levels && !r->s->level))
        ms_fault_say(r->faults, "%s: config.pbtxt: 'default_priority_level' must be 1 to 'priority_levels'",
                     r->model);
    read_queue(r, message(r, batching, "default_queue_policy"));
}

static const char *parameter(const struct reader *r, const char *key) {
    const json_t *all = json_object_get(r->s->config, "parameters"), *v = json_object_get(all, key);
    const char *text = json_string_value(json_is_object(v) ? json_object_get(v, "string_value") : v);
    if (v && !text)
        ms_fault_say(r->faults, "%s: config.pbtxt: parameter '%s' needs { string_value: \"...\" }", r->model,
                     key);
    return text;
}

static void read_parameters(struct reader *r) {
    const json_t *all = message(r, r->s->config, "parameters");
    if (!all) return;
    check_names(r, " of parameters", all, of_parameters);
    const char *qos = parameter(r, "qos_ms"), *cls = parameter(r, "class"),
               *priority = parameter(r, "priority");
    char *end = NULL;
    if (qos) {
        const double ms = strtod(qos, &end);
        if (end == qos || *end || !(ms > 0 && ms <= 1e9))
            ms_fault_say(r->faults,
                         "%s: config.pbtxt: qos_ms is '%.40s'; it must be a number of milliseconds above 0",
                         r->model, qos);
        else
            r->s->qos_ns = (int64_t)llround(ms * 1e6);
    }
    if (cls && strcmp(cls, "latency-critical") && strcmp(cls, "best-effort"))
        ms_fault_say(r->faults,
                     "%s: config.pbtxt: class is '%.40s'; latency-critical and best-effort are known",
                     r->model, cls);
    r->s->cls = cls && !strcmp(cls, "best-effort") ? MOIRE_BEST_EFFORT : MOIRE_LATENCY_CRITICAL;
    if (priority) {
        const long value = strtol(priority, &end, 10);
        if (end == priority || *end || value < -1000 || value > 1000)
            ms_fault_say(r->faults, "%s: config.pbtxt: priority is '%.40s'; it must be -1000 to 1000",
                         r->model, priority);
        else
            r->s->priority = (int)value;
    }
}

static void read_versions(struct reader *r) {
    const json_t *policy = message(r, r->s->config, "version_policy");
    r->s->versions = 1;
    if (!policy) return;
    const json_t *latest = json_object_get(policy, "latest"), *specific = json_object_get(policy, "specific");
    r->s->only = json_object_get(specific, "versions");
    if (json_object_size(policy) != 1 ||
        (!latest && !json_object_get(policy, "all") && !json_array_size(r->s->only)))
        ms_fault_say(r->faults,
                     "%s: config.pbtxt: version_policy is latest { num_versions: N }, all { } or specific { "
                     "versions: [...] }",
                     r->model);
    r->s->versions = latest ? whole(r, latest, "num_versions", 1, 1000000) : 0;
}

static void read_backend(const struct reader *r) {
    static const char *const known[] = {"", "moire", "onnxruntime", "onnx", "openvino", "onnxruntime_onnx"};
    static const char *const keys[] = {"backend", "platform"};
    for (int k = 0; k < 2; k++) {
        const char *value = json_string_value(json_object_get(r->s->config, keys[k]));
        bool ok = !value;
        for (size_t i = 0; value && i < sizeof known / sizeof *known; i++)
            ok = ok || !strcmp(value, known[i]);
        if (!ok)
            ms_fault_say(r->faults, "%s: config.pbtxt: %s is '%.60s'; only ONNX models are served", r->model,
                         keys[k], value);
    }
}

void ms_settings_read(json_t *config, const char *name, struct ms_settings *out, struct ms_faults *faults) {
    *out = (struct ms_settings){.config = config ? config : json_object()};
    struct reader r = {.model = name, .s = out, .faults = faults};
    check_names(&r, "", out->config, of_model);
    const char *own = json_string_value(json_object_get(out->config, "name"));
    if (own && strcmp(own, name) != 0)
        ms_fault_say(faults, "%s: config.pbtxt: the name is '%.100s', its folder is not", name, own);
    read_backend(&r);
    out->max_batch = whole(&r, out->config, "max_batch_size", 0, 1 << 20);
    read_versions(&r);
    read_batching(&r);
    read_parameters(&r);
}

void ms_settings_close(struct ms_settings *settings) {
    json_decref(settings->config);
    *settings = (struct ms_settings){0};
}
