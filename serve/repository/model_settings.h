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

enum { MS_LEVELS = 64, MS_PREFERRED = 16, MS_BUCKETS = 16 };
/* Of the queries of one level. */
struct ms_queue_policy {
    int64_t most;          /* that wait; 0: no bound of its own */
    int64_t timeout_us;    /* 0: none */
    bool timeout_is_fixed; /* requests may not bring their own */
    bool delays;           /* a query whose time is over goes on, behind the others */
};

struct ms_batching {
    bool is_asked;
    int64_t preferred[MS_PREFERRED];
    int n_preferred;
    int64_t delay_ns; /* that a query may wait for others to join it */
    bool keeps_order; /* answers go out in the order of requests */
};

/* What a model may hold at most; 0: no bound. */
struct ms_quota {
    int64_t waiting, in_flight, bytes;
};

struct ms_settings {
    json_t *config; /* as read, an object; owned */
    bool is_ensemble;
    const char *fn;    /* borrowed from config: the function that it is; NULL: none */
    int64_t max_batch; /* 0: the model's shapes are as the file has them */
    int64_t qos_ns;    /* 0: none */
    enum moire_class cls;
    int priority;
    int cores;     /* that its queries have at once at most, of each shape; 0: no bound */
    double weight; /* of its share where not all can be in time */
    enum moire_precision precision;
    double tolerance; /* see moire_tenant_config */
    /* of queries: level 1 is the highest, levels 0: all are of level 0 */
    int64_t levels, level;
    struct ms_queue_policy policy[MS_LEVELS + 1]; /* by level */
    struct ms_batching batching;
    struct ms_quota quota;
    int64_t bucket[MS_BUCKETS]; /* sizes that inputs are padded to along bucket_axis, the least first */
    int n_buckets, bucket_axis;
    bool is_predicted; /* what cannot be in time is refused at once */
    int64_t versions;  /* the newest so many; 0: all, or those of `only` */
    json_t *only;      /* borrowed from config: versions by number; NULL: not chosen so */
};

/* Reads `config` (taken over; NULL: none) of the model `name`.  Every fault goes to `faults`; out is to be
 * closed whether there were any or not. */
void ms_settings_read(json_t *config, const char *name, struct ms_settings *out, struct ms_faults *faults);
void ms_settings_close(struct ms_settings *settings);
#endif
