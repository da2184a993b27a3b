/* SPDX-License-Identifier: Apache-2.0
 * model_settings.c - reads a model's configuration; see model_settings.h. */
#include "serve/repository/settings_reader.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "serve/pipeline/ensemble.h"

void ms_fault_say(struct ms_faults *to, const char *format, ...) {
    char line[600];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    to->n++;
    if (to->say) to->say(to->user, true, line);
}

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
    {"ensemble_scheduling", READ},
    {"model_transaction_policy", NOT_SERVED},
    {"model_operations", NOT_SERVED},
    {"batch_input", NOT_SERVED},
    {"batch_output", NOT_SERVED},
    {NULL, READ},
};
static const struct field of_parameters[] = {
    {"qos_ms", READ},        {"class", READ},      {"priority", READ},  {"max_queue", READ},
    {"max_in_flight", READ}, {"max_memory", READ}, {"admission", READ}, {"weight", READ},
    {"cores", READ},         {"function", READ},   {"buckets", READ},   {"precision", READ},
    {"tolerance", READ},     {NULL, READ},
};

static const double LEAST_WEIGHT = 0.001, MOST_WEIGHT = 1000;

const char *ms_settings_parameter(const struct ms_reader *r, const char *key) {
    const json_t *all = json_object_get(r->s->config, "parameters"), *v = json_object_get(all, key);
    const char *text = json_string_value(json_is_object(v) ? json_object_get(v, "string_value") : v);
    if (v && !text)
        ms_fault_say(r->faults, "%s: config.pbtxt: parameter '%s' needs { string_value: \"...\" }", r->model,
                     key);
    return text;
}

/* A parameter's number within bounds, `standard` where it is not given. */
static double decimal(const struct ms_reader *r, const char *key, double least, double most, double standard,
                      const char *what) {
    const char *text = ms_settings_parameter(r, key);
    char *end = NULL;
    if (!text) return standard;
    const double value = strtod(text, &end);
    if (end != text && !*end && value >= least && value <= most) return value;
    ms_fault_say(r->faults, "%s: config.pbtxt: %s is '%.40s'; it must be %s", r->model, key, text, what);
    return standard;
}

static void read_precision(const struct ms_reader *r) {
    static const char *const names[] = {[MOIRE_PRECISION_AUTO] = "auto",
                                        [MOIRE_PRECISION_FP32] = "fp32",
                                        [MOIRE_PRECISION_INT8] = "int8",
                                        [MOIRE_PRECISION_BF16] = "bf16",
                                        [MOIRE_PRECISION_FP16] = "fp16"};
    const char *text = ms_settings_parameter(r, "precision");
    if (!text) return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(text, names[i])) {
            r->s->precision = (enum moire_precision)i;
            return;
        }
    ms_fault_say(r->faults,
                 "%s: config.pbtxt: precision is '%.40s'; auto, fp32, int8, bf16 and fp16 are known",
                 r->model, text);
}

static void read_parameters(const struct ms_reader *r) {
    const json_t *all = message(r, r->s->config, "parameters");
    if (!all) return;
    check_names(r, " of parameters", all, of_parameters);
    const char *cls = ms_settings_parameter(r, "class"), *priority = ms_settings_parameter(r, "priority");
    char *end = NULL;
    const double ms = decimal(r, "qos_ms", 1e-6, 1e9, 0, "a number of milliseconds above 0");
    r->s->qos_ns = (int64_t)llround(ms * 1e6);
    r->s->weight = decimal(r, "weight", LEAST_WEIGHT, MOST_WEIGHT, 1, "a number from 0.001 to 1000");
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
    read_precision(r);
    r->s->tolerance = decimal(r, "tolerance", 0, 1, 0, "a number from 0 to 1");
    if (r->s->tolerance > 0 && r->s->precision != MOIRE_PRECISION_AUTO)
        ms_fault_say(r->faults, "%s: config.pbtxt: tolerance goes with the precision auto", r->model);
    ms_settings_read_quotas(r);
    ms_settings_read_buckets(r);
    if (r->s->is_ensemble && (r->s->cores || r->s->weight != 1))
        ms_fault_say(r->faults, "%s: config.pbtxt: cores and weight belong to the models of an ensemble",
                     r->model);
}

static void read_versions(struct ms_reader *r) {
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

static void read_backend(const struct ms_reader *r) {
    static const char *const known[] = {"",     "moire",    "moire_host",      "onnxruntime",
                                        "onnx", "openvino", "onnxruntime_onnx"};
    static const char *const keys[] = {"backend", "platform"};
    if (r->s->is_ensemble) return;
    for (int k = 0; k < 2; k++) {
        const char *value = json_string_value(json_object_get(r->s->config, keys[k]));
        bool ok = !value;
        for (size_t i = 0; value && i < sizeof known / sizeof *known; i++)
            ok = ok || !strcmp(value, known[i]);
        if (!ok)
            ms_fault_say(r->faults,
                         "%s: config.pbtxt: %s is '%.60s'; only ONNX models and ensembles are served",
                         r->model, keys[k], value);
    }
}

/* Which function of the server it is. */
static void read_function(const struct ms_reader *r) {
    const char *backend = json_string_value(json_object_get(r->s->config, "backend"));
    const char *fn = ms_settings_parameter(r, "function");
    const bool is_host = backend && !strcmp(backend, "moire_host");
    if (is_host != (fn != NULL))
        ms_fault_say(r->faults,
                     "%s: config.pbtxt: a step that is no network has backend: \"moire_host\" and the "
                     "parameter \"function\"",
                     r->model);
    else if (fn && r->s->max_batch)
        ms_fault_say(r->faults, "%s: config.pbtxt: a function has no batches: take max_batch_size out",
                     r->model);
    else
        r->s->fn = fn;
}

/* For its faults; a model that is made of it reads it again. */
static void read_ensemble(const struct ms_reader *r) {
    const char *platform = json_string_value(json_object_get(r->s->config, "platform"));
    if (!message(r, r->s->config, "ensemble_scheduling") || !platform || strcmp(platform, "ensemble") != 0)
        ms_fault_say(r->faults,
                     "%s: config.pbtxt: an ensemble has platform: \"ensemble\" and ensemble_scheduling",
                     r->model);
    else
        ms_ensemble_free(ms_ensemble_read(r->s->config, r->model, r->faults));
}

void ms_settings_read(json_t *config, const char *name, struct ms_settings *out, struct ms_faults *faults) {
    *out = (struct ms_settings){.config = config ? config : json_object(), .weight = 1};
    struct ms_reader r = {.model = name, .s = out, .faults = faults};
    check_names(&r, "", out->config, of_model);
    const char *own = json_string_value(json_object_get(out->config, "name"));
    if (own && strcmp(own, name) != 0)
        ms_fault_say(faults, "%s: config.pbtxt: the name is '%.100s', its folder is not", name, own);
    const char *platform = json_string_value(json_object_get(out->config, "platform"));
    out->is_ensemble =
        json_object_get(out->config, "ensemble_scheduling") || (platform && !strcmp(platform, "ensemble"));
    read_backend(&r);
    out->max_batch = whole(&r, out->config, "max_batch_size", 0, 1 << 20);
    read_versions(&r);
    ms_settings_read_batching(&r);
    read_parameters(&r);
    if (out->is_ensemble)
        read_ensemble(&r);
    else
        read_function(&r);
}

void ms_settings_close(struct ms_settings *settings) {
    json_decref(settings->config);
    *settings = (struct ms_settings){0};
}
