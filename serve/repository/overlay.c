/* SPDX-License-Identifier: Apache-2.0
 * overlay.c - entries of --config's models as configurations; see overlay.h. */
#include "serve/repository/overlay.h"

#include <stdio.h>
#include <string.h>
#include "serve/protocol/bytes.h"

const json_t *ms_overlay_entry(const json_t *models, const char *name) {
    for (size_t i = 0; i < json_array_size(models); i++) {
        const json_t *m = json_array_get(models, i);
        if (!strcmp(json_string_value(json_object_get(m, "name")), name)) return m;
    }
    return NULL;
}

/* The texts of a list with ';' between them: how a parameter has them.  NULL: no memory. */
static json_t *joined(const json_t *list) {
    struct ms_bytes text = {0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *part = json_string_value(json_array_get(list, i));
        if (i) ms_bytes_put(&text, ";", 1);
        ms_bytes_put(&text, part, strlen(part));
    }
    json_t *whole = text.failed ? NULL : json_stringn(text.at ? text.at : "", text.n);
    ms_bytes_free(&text);
    return whole;
}

static json_t *as_text(const json_t *value) {
    char text[64];
    if (json_is_array(value)) return joined(value);
    if (json_is_string(value)) return json_string(json_string_value(value));
    if (json_is_integer(value))
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
    else
        snprintf(text, sizeof text, "%.9g", json_number_value(value));
    return json_string(text);
}

/* The object under a key, made where it is not there. */
static json_t *member(json_t *object, const char *key) {
    json_t *m = json_object_get(object, key);
    if (json_is_object(m)) return m;
    json_object_set_new(object, key, json_object());
    return json_object_get(object, key);
}

json_t *ms_overlay_apply(const json_t *entry, json_t *config) {
    static const char *const parameters[] = {"qos_ms", "class",  "priority",  "weight",
                                             "cores",  "shapes", "precision", "tolerance"};
    json_t *c = config ? config : json_object();
    json_t *more = json_object_get(entry, "config"), *batch = json_object_get(entry, "max_batch_size"),
           *queue = json_object_get(entry, "max_queue_size");
    if (!c || !entry) return c;
    if (more) json_object_update_recursive(c, more);
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        const json_t *v = json_object_get(entry, parameters[i]);
        if (v)
            json_object_set_new(member(c, "parameters"), parameters[i],
                                json_pack("{s:o}", "string_value", as_text(v)));
    }
    if (batch) json_object_set(c, "max_batch_size", batch);
    if (queue) {
        json_t *policy = member(member(c, "dynamic_batching"), "default_queue_policy");
        if (!json_object_size(policy)) json_object_set_new(policy, "allow_timeout_override", json_true());
        json_object_set(policy, "max_queue_size", queue);
    }
    return c;
}
