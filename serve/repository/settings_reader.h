/* SPDX-License-Identifier: Apache-2.0
 * settings_reader.h - what reads a model's configuration: model_settings.c, and queue_settings.c for its
 * queues, batches and quotas. */
#ifndef MS_SETTINGS_READER_H
#define MS_SETTINGS_READER_H
#include <stdio.h>
#include <string.h>
#include "serve/repository/model_settings.h"

enum use { READ, NO_EFFECT, NOT_SERVED };
struct field {
    const char *name;
    enum use use;
};
struct ms_reader {
    const char *model;
    struct ms_settings *s;
    struct ms_faults *faults;
};

static inline void check_names(const struct ms_reader *r, const char *where, const json_t *object,
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
static inline int64_t whole(const struct ms_reader *r, const json_t *object, const char *key,
                            int64_t standard, int64_t most) {
    const json_t *v = json_object_get(object, key);
    if (!v) return standard;
    if (json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= most)
        return json_integer_value(v);
    ms_fault_say(r->faults, "%s: config.pbtxt: '%s' must be a whole number from 0 to %lld", r->model, key,
                 (long long)most);
    return standard;
}

static inline const json_t *message(const struct ms_reader *r, const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    if (!v || json_is_object(v)) return v;
    ms_fault_say(r->faults, "%s: config.pbtxt: '%s' must be a message: %s { ... }", r->model, key, key);
    return NULL;
}

/* The text of a parameter; NULL: it is not given. */
const char *ms_settings_parameter(const struct ms_reader *reader, const char *key);

/* queue_settings.c */
void ms_settings_read_batching(const struct ms_reader *reader);
void ms_settings_read_quotas(const struct ms_reader *reader);
void ms_settings_read_buckets(const struct ms_reader *reader);
#endif
