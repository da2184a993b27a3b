/* SPDX-License-Identifier: Apache-2.0
 * model_settings.h - what a model's config.pbtxt asks of the server.
 *
 * Triton's names mean here what they mean there.  A field that is not served is a fault, never passed over: a
 * user who wrote it counts on it.  Fields that only tune another runtime are taken and have no effect; they
 * are listed in docs/serving.md. */
#ifndef MS_MODEL_SETTINGS_H
#define MS_MODEL_SETTINGS_H
#include <jansson.h>
#include <stdbool.h>
#include "moire.h"

/* Where faults and notices of a configuration go, one line each. */
struct ms_faults {
    void (*say)(void *user, bool fault, const char *line);
    void *user;
    int n; /* faults so far */
};
void ms_fault_say(struct ms_faults *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct ms_settings {
    json_t *config;    /* as read, an object; owned */
    int64_t max_batch; /* 0: the model's shapes are as the file has them */
    int64_t qos_ns;    /* 0: none */
    enum moire_class cls;
    int priority, queue; /* queue 0: the limits table's */
    /* of queries: level 1 is the highest, levels 0: all are alike */
    int64_t levels, level;
    int64_t timeout_us;    /* 0: none */
    bool timeout_is_fixed; /* requests may not bring their own */
    bool delays;           /* a query whose time is over goes on */
    int64_t versions;      /* the newest so many; 0: all, or those of `only` */
    json_t *only;          /* borrowed from config: versions by number; NULL: not chosen so */
};

/* Reads `config` (taken over; NULL: none) of the model `name`.  Every fault goes to `faults`; out is to be
 * closed whether there were any or not. */
void ms_settings_read(json_t *config, const char *name, struct ms_settings *out, struct ms_faults *faults);
void ms_settings_close(struct ms_settings *settings);
#endif
