/* SPDX-License-Identifier: Apache-2.0
 * grpc_settings.c - TraceSetting and LogSettings: their messages as the JSON that HTTP has; see grpc.h. */
#include <string.h>
#include "inference.pb-c.h"
#include "serve/grpc/grpc.h"
#include "serve/protocol/fault.h"
#include "serve/protocol/log.h"
#include "serve/query/query_trace.h"

/* A list without a value clears a setting; levels stay a list. */
static json_t *trace_change(const Inference__TraceSettingRequest *r) {
    json_t *change = json_object();
    for (size_t i = 0; i < r->n_settings; i++) {
        const char *key = r->settings[i]->key;
        const Inference__TraceSettingRequest__SettingValue *v = r->settings[i]->value;
        json_t *list = json_array(), *value = NULL;
        for (size_t k = 0; v && k < v->n_value; k++)
            json_array_append_new(list, json_string(v->value[k]));
        if (!json_array_size(list))
            value = json_null();
        else if (strcmp(key, "trace_level") != 0 && json_array_size(list) == 1)
            value = json_incref(json_array_get(list, 0));
        json_object_set_new(change, key, value ? value : json_incref(list));
        json_decref(list);
    }
    return change;
}

int ms_grpc_trace(struct ms_item *item, moire_error *err) {
    const Inference__TraceSettingRequest *r = (const void *)item->request;
    struct ms_repository *repository = item->call->connection->door->repository;
    json_t *change = r->n_settings ? trace_change(r) : NULL, *out = NULL, *settings = json_object(), *v;
    struct ms_model *m;
    const char *key;
    int rc = *r->model_name ? ms_repository_take(repository, r->model_name, NULL, &m, err) : MOIRE_OK;
    if (!rc && *r->model_name) ms_repository_give(m);
    if (!rc) rc = ms_trace_settings(repository->options.trace, r->model_name, change, &out, err);
    json_object_foreach(out, key, v) {
        json_t *list = json_is_array(v) ? json_incref(v) : json_pack("[O]", v);
        json_object_set_new(settings, key, json_pack("{s:o}", "value", list));
    }
    json_decref(change);
    json_decref(out);
    if (!rc) return ms_grpc_answer(item, json_pack("{s:o}", "settings", settings), err);
    json_decref(settings);
    return rc;
}

/* --- log --- */
static json_t *log_change(const Inference__LogSettingsRequest *r) {
    json_t *change = json_object();
    for (size_t i = 0; i < r->n_settings; i++) {
        const Inference__LogSettingsRequest__SettingValue *v = r->settings[i]->value;
        json_t *value = json_null();
        if (v && v->parameter_choice_case ==
                     INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_BOOL_PARAM)
            value = json_boolean(v->bool_param);
        else if (v && v->parameter_choice_case ==
                          INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_UINT32_PARAM)
            value = json_integer(v->uint32_param);
        else if (v && v->parameter_choice_case ==
                          INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_STRING_PARAM)
            value = json_string(v->string_param);
        json_object_set_new(change, r->settings[i]->key, value);
    }
    return change;
}

int ms_grpc_log(struct ms_item *item, moire_error *err) {
    const Inference__LogSettingsRequest *r = (const void *)item->request;
    struct ms_log *log = item->call->connection->door->repository->options.logger;
    json_t *change = r->n_settings ? log_change(r) : NULL, *out = NULL, *settings = json_object(), *v;
    const char *key;
    const int rc = ms_log_settings(log, change, &out, err);
    json_object_foreach(out, key, v) {
        const char *kind = json_is_boolean(v)   ? "bool_param"
                           : json_is_integer(v) ? "uint32_param"
                                                : "string_param";
        json_object_set_new(settings, key, json_pack("{s:O}", kind, v));
    }
    json_decref(change);
    json_decref(out);
    if (!rc) return ms_grpc_answer(item, json_pack("{s:o}", "settings", settings), err);
    json_decref(settings);
    return rc;
}
