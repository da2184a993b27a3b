/* SPDX-License-Identifier: Apache-2.0
 * trace_settings.c - which queries are traced; see trace_settings.h. */
#include "serve/query/trace_settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "serve/protocol/fault.h"

static const struct field {
    const char *name;
    int64_t standard, least;
} fields[MS_TRACE_FIELDS] = {
    [MS_TRACE_LEVEL] = {"trace_level", 0, 0},
    [MS_TRACE_RATE] = {"trace_rate", 1000, 1},
    [MS_TRACE_COUNT] = {"trace_count", -1, -1},
    [MS_TRACE_FREQUENCY] = {"log_frequency", 0, 0},
};

void ms_trace_rules_init(struct ms_trace_rules *r) {
    *r = (struct ms_trace_rules){0};
    for (int f = 0; f < MS_TRACE_FIELDS; f++)
        r->server.value[f] = fields[f].standard;
}

void ms_trace_rules_free(struct ms_trace_rules *r) {
    free(r->model);
    r->model = NULL;
    r->n = 0;
}

static struct ms_trace_rule *find(const struct ms_trace_rules *r, const char *model) {
    for (int i = 0; i < r->n; i++)
        if (!strcmp(r->model[i].model, model)) return &r->model[i];
    return NULL;
}

static int64_t value_of(const struct ms_trace_rules *r, const struct ms_trace_rule *own, int f) {
    return own && own->is_own[f] ? own->value[f] : r->server.value[f];
}

bool ms_trace_rules_are_on(const struct ms_trace_rules *r) {
    bool on = r->server.value[MS_TRACE_LEVEL] > 0;
    for (int i = 0; i < r->n && !on; i++)
        on = value_of(r, &r->model[i], MS_TRACE_LEVEL) > 0;
    return on;
}

/* --- changing --- */
static int read_level(const json_t *v, int64_t *out, moire_error *err) {
    *out = 0;
    if (!json_is_array(v))
        return ms_fail(err, MOIRE_EINVAL, "\"trace_level\" must be a list of \"OFF\" and \"TIMESTAMPS\"");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *level = json_string_value(json_array_get(v, i));
        if (level && !strcmp(level, "TIMESTAMPS"))
            *out = 1;
        else if (level && !strcmp(level, "TENSORS"))
            return ms_fail(err, MOIRE_EUNSUPPORTED, "\"trace_level\" TENSORS is not served; TIMESTAMPS is");
        else if (!level || strcmp(level, "OFF") != 0)
            return ms_fail(err, MOIRE_EINVAL, "\"trace_level\" has '%.40s'; OFF and TIMESTAMPS are known",
                           level ? level : "?");
    }
    return MOIRE_OK;
}

/* Triton has numbers as text. */
static int read_number(const struct field *f, const json_t *v, int64_t *out, moire_error *err) {
    const char *text = json_string_value(v);
    char *end = NULL;
    errno = 0;
    *out = text ? strtoll(text, &end, 10) : json_integer_value(v);
    const bool is_number = text ? *text && !*end && !errno : json_is_integer(v);
    if (is_number && *out >= f->least && *out <= INT32_MAX) return MOIRE_OK;
    return ms_fail(err, MOIRE_EINVAL, "\"%s\" must be a whole number from %" PRId64 " to %d, as text",
                   f->name, f->least, INT32_MAX);
}

static int change_field(struct ms_trace_rule *to, int f, bool has_file, const json_t *v, moire_error *err) {
    int64_t value = fields[f].standard;
    if (json_is_null(v)) {
        to->is_own[f] = false;
        to->value[f] = value;
        return MOIRE_OK;
    }
    const int rc = f == MS_TRACE_LEVEL ? read_level(v, &value, err) : read_number(&fields[f], v, &value, err);
    if (rc) return rc;
    if (f == MS_TRACE_LEVEL && value && !has_file)
        return ms_fail(err, MOIRE_EINVAL, "there is no file to trace to: start with --trace-file FILE");
    if (f == MS_TRACE_FREQUENCY && *to->model)
        return ms_fail(err, MOIRE_EUNSUPPORTED,
                       "\"log_frequency\" is the server's: all models trace to one file");
    to->is_own[f] = true;
    to->value[f] = value;
    return MOIRE_OK;
}

static int change_all(struct ms_trace_rule *to, bool has_file, const json_t *change, moire_error *err) {
    const char *key;
    const json_t *v;
    json_object_foreach((json_t *)(uintptr_t)change, key, v) {
        int f = 0;
        while (f < MS_TRACE_FIELDS && strcmp(fields[f].name, key) != 0)
            f++;
        if (!strcmp(key, "trace_file"))
            return ms_fail(err, MOIRE_EUNSUPPORTED,
                           "the trace file is chosen by --trace-file, not by requests");
        if (!strcmp(key, "trace_mode") && json_is_string(v) && !strcmp(json_string_value(v), "triton"))
            continue;
        if (f == MS_TRACE_FIELDS) return ms_fail(err, MOIRE_EINVAL, "there is no trace setting '%.60s'", key);
        const int rc = change_field(to, f, has_file, v, err);
        if (rc) return rc;
    }
    to->seen = 0;
    return MOIRE_OK;
}

int ms_trace_rules_change(struct ms_trace_rules *r, const char *model, bool has_file, const json_t *change,
                          moire_error *err) {
    struct ms_trace_rule *to = *model ? find(r, model) : NULL,
                         changed = *model ? (struct ms_trace_rule){0} : r->server;
    if (!json_is_object(change)) return ms_fail(err, MOIRE_EINVAL, "the settings are no JSON object");
    if (to) changed = *to;
    snprintf(changed.model, sizeof changed.model, "%s", model);
    const int rc = change_all(&changed, has_file, change, err);
    if (rc) return rc;
    if (!*model) {
        r->server = changed;
        return MOIRE_OK;
    }
    if (!to) {
        struct ms_trace_rule *more =
            r->n < MS_MODELS ? realloc(r->model, (size_t)(r->n + 1) * sizeof *more) : NULL;
        if (!more) return ms_fail(err, MOIRE_ELIMIT, "no room for settings of one more model");
        r->model = more;
        to = &r->model[r->n++];
    }
    *to = changed;
    return MOIRE_OK;
}

/* --- showing and counting --- */
json_t *ms_trace_rules_show(const struct ms_trace_rules *r, const char *model, const char *file) {
    const struct ms_trace_rule *own = *model ? find(r, model) : NULL;
    json_t *out = json_pack("{s:[s]}", fields[MS_TRACE_LEVEL].name,
                            value_of(r, own, MS_TRACE_LEVEL) ? "TIMESTAMPS" : "OFF");
    for (int f = MS_TRACE_RATE; f < MS_TRACE_FIELDS; f++)
        json_object_set_new(out, fields[f].name, json_sprintf("%" PRId64, value_of(r, own, f)));
    json_object_set_new(out, "trace_file", json_string(file));
    json_object_set_new(out, "trace_mode", json_string("triton"));
    return out;
}

bool ms_trace_rules_take(struct ms_trace_rules *r, const char *model) {
    struct ms_trace_rule *own = find(r, model);
    struct ms_trace_rule *rate = own && own->is_own[MS_TRACE_RATE] ? own : &r->server;
    struct ms_trace_rule *count = own && own->is_own[MS_TRACE_COUNT] ? own : &r->server;
    if (!value_of(r, own, MS_TRACE_LEVEL) || !count->value[MS_TRACE_COUNT]) return false;
    if (++rate->seen < rate->value[MS_TRACE_RATE]) return false;
    rate->seen = 0;
    if (count->value[MS_TRACE_COUNT] > 0) count->value[MS_TRACE_COUNT]--;
    return true;
}
