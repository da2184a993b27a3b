/* SPDX-License-Identifier: Apache-2.0
 * config_file.c - reads the file of --config; see config_file.h. */
#include "serve/config_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "serve/protocol/fault.h"

/* JSON_REAL: any number; JSON_NULL: any value, which whoever uses it checks. */
struct key {
    const char *name;
    json_type type;
    int least, most;
};
static const struct key of_server[] = {
    {"model_repository", JSON_STRING, 0, 0},
    {"model_control_mode", JSON_STRING, 0, 0},
    {"host", JSON_STRING, 0, 0},
    {"policy", JSON_STRING, 0, 0},
    {"store", JSON_STRING, 0, 0},
    {"http_port", JSON_INTEGER, -1, 65535},
    {"grpc_port", JSON_INTEGER, -1, 65535},
    {"metrics_port", JSON_INTEGER, -1, 65535},
    {"agent_port", JSON_INTEGER, -1, 65535},
    {"drain_seconds", JSON_INTEGER, 0, 3600},
    {"load_first", JSON_TRUE, 0, 0}, /* or false */
    {"threads", JSON_INTEGER, 1, 1024},
    {"repository_poll_secs", JSON_INTEGER, 1, 86400},
    {"models", JSON_ARRAY, 0, 0},
    {NULL, JSON_NULL, 0, 0},
};
static const struct key of_model[] = {
    {"name", JSON_STRING, 0, 0},
    {"path", JSON_STRING, 0, 0},
    {"qos_ms", JSON_REAL, 0, 0},
    {"class", JSON_STRING, 0, 0},
    {"priority", JSON_INTEGER, -1000, 1000},
    {"weight", JSON_REAL, 0, 0},
    {"cores", JSON_INTEGER, 1, 1024},
    {"precision", JSON_STRING, 0, 0},
    {"tolerance", JSON_REAL, 0, 0},
    {"shapes", JSON_ARRAY, 0, 0},
    {"max_batch_size", JSON_INTEGER, 0, 1 << 20},
    {"max_queue_size", JSON_INTEGER, 0, 1 << 14},
    {"config", JSON_OBJECT, 0, 0},
    {NULL, JSON_NULL, 0, 0},
};

static bool is_of(const json_t *v, const struct key *k) {
    if (k->type == JSON_REAL) return json_is_number(v);
    if (k->type == JSON_TRUE) return json_is_boolean(v);
    if (json_typeof(v) != k->type) return false;
    return k->type != JSON_INTEGER || (json_integer_value(v) >= k->least && json_integer_value(v) <= k->most);
}

static int check_keys(const char *where, const json_t *object, const struct key *known, moire_error *err) {
    static const char *const kinds[] = {"an object",      "a list",   "a text",
                                        "a whole number", "a number", "true or false"};
    const char *name;
    const json_t *value;
    if (!json_is_object(object)) return ms_fail(err, MOIRE_EINVAL, "%.300s is no object", where);
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        const struct key *k = known;
        while (k->name && strcmp(k->name, name) != 0)
            k++;
        if (!k->name) return ms_fail(err, MOIRE_EINVAL, "%.300s: there is no key '%.60s'", where, name);
        if (is_of(value, k)) continue;
        if (k->type == JSON_INTEGER)
            return ms_fail(err, MOIRE_EINVAL, "%.300s.%s must be a whole number from %d to %d", where, name,
                           k->least, k->most);
        return ms_fail(err, MOIRE_EINVAL, "%.300s.%s must be %s", where, name, kinds[k->type]);
    }
    return MOIRE_OK;
}

static int check_shapes(const char *where, const json_t *shapes, moire_error *err) {
    for (size_t i = 0; i < json_array_size(shapes); i++)
        if (!json_is_string(json_array_get(shapes, i)))
            return ms_fail(err, MOIRE_EINVAL, "%.300s.shapes[%zu] must be a text like \"x=1,3,224,224\"",
                           where, i);
    return MOIRE_OK;
}

/* "": it has none. */
static const char *name_of(const json_t *model) {
    const char *name = json_string_value(json_object_get(model, "name"));
    return name ? name : "";
}

static int check_models(const char *path, const json_t *models, moire_error *err) {
    int rc = MOIRE_OK;
    for (size_t i = 0; i < json_array_size(models) && !rc; i++) {
        char where[400];
        const json_t *m = json_array_get(models, i);
        snprintf(where, sizeof where, "%.300s: models[%zu]", path, i);
        rc = check_keys(where, m, of_model, err);
        if (!rc) rc = check_shapes(where, json_object_get(m, "shapes"), err);
        const char *name = name_of(m);
        if (!rc && (!*name || strchr(name, '/')))
            rc = ms_fail(err, MOIRE_EINVAL, "%.300s needs a \"name\" without '/'", where);
        for (size_t k = 0; k < i && !rc; k++)
            if (!strcmp(name, name_of(json_array_get(models, k))))
                rc = ms_fail(err, MOIRE_EINVAL, "%.300s: '%.100s' is models[%zu] already", where, name, k);
    }
    return rc;
}

int ms_config_file_open(const char *path, struct ms_config_file *out, moire_error *err) {
    json_error_t why;
    struct stat st;
    *out = (struct ms_config_file){.document = NULL};
    const char *slash = strrchr(path, '/');
    if (snprintf(out->folder, sizeof out->folder, "%.*s", slash ? (int)(slash - path) : 1,
                 slash ? path : ".") >= (int)sizeof out->folder)
        return ms_fail(err, MOIRE_EINVAL, "%.100s...: path too long", path);
    if (stat(path, &st) || !S_ISREG(st.st_mode) || st.st_size > 1 << 24)
        return ms_fail(err, MOIRE_EIO, "%.300s is no file of at most 16 MiB that can be read", path);
    out->document = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    if (!out->document)
        return ms_fail(err, MOIRE_EFORMAT, "%.300s: line %d, column %d: %.150s", path, why.line, why.column,
                       why.text);
    int rc = check_keys(path, out->document, of_server, err);
    if (!rc) rc = check_models(path, json_object_get(out->document, "models"), err);
    if (rc) ms_config_file_close(out);
    return rc;
}

void ms_config_file_close(struct ms_config_file *file) {
    json_decref(file->document);
    file->document = NULL;
}

const char *ms_config_file_text(const struct ms_config_file *file, const char *key, const char *standard) {
    const char *text = json_string_value(json_object_get(file->document, key));
    return text ? text : standard;
}

int ms_config_file_whole(const struct ms_config_file *file, const char *key, int standard) {
    const json_t *v = json_object_get(file->document, key);
    return v ? (int)json_integer_value(v) : standard;
}

bool ms_config_file_switch(const struct ms_config_file *file, const char *key, bool standard) {
    const json_t *v = json_object_get(file->document, key);
    return v ? json_is_true(v) : standard;
}

const json_t *ms_config_file_models(const struct ms_config_file *file) {
    return json_object_get(file->document, "models");
}
