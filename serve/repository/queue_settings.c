/* SPDX-License-Identifier: Apache-2.0
 * queue_settings.c - what a configuration says of queues, batches and quotas; see model_settings.h. */
#include <errno.h>
#include <stdlib.h>
#include "serve/repository/settings_reader.h"

static const struct field of_batching[] = {
    {"preferred_batch_size", READ},   {"max_queue_delay_microseconds", READ},
    {"preserve_ordering", READ},      {"priority_levels", READ},
    {"default_priority_level", READ}, {"default_queue_policy", READ},
    {"priority_queue_policy", READ},  {NULL, READ},
};
static const struct field of_queue[] = {
    {"timeout_action", READ},
    {"default_timeout_microseconds", READ},
    {"allow_timeout_override", READ},
    {"max_queue_size", READ},
    {NULL, READ},
};

static void read_queue(const struct ms_reader *r, const json_t *queue, const char *where,
                       struct ms_queue_policy *out) {
    check_names(r, where, queue, of_queue);
    out->most = whole(r, queue, "max_queue_size", 0, 1 << 14);
    out->timeout_us = whole(r, queue, "default_timeout_microseconds", 0, INT64_C(1) << 50);
    out->timeout_is_fixed = !json_is_true(json_object_get(queue, "allow_timeout_override"));
    const char *action = json_string_value(json_object_get(queue, "timeout_action"));
    out->delays = action && !strcmp(action, "DELAY");
    if (json_object_get(queue, "timeout_action") &&
        (!action || (strcmp(action, "DELAY") && strcmp(action, "REJECT"))))
        ms_fault_say(r->faults, "%s: config.pbtxt: 'timeout_action' is REJECT or DELAY", r->model);
}

static void read_levels(const struct ms_reader *r, const json_t *batching) {
    struct ms_settings *s = r->s;
    const json_t *queue = message(r, batching, "default_queue_policy"), *value;
    const char *key;
    s->levels = whole(r, batching, "priority_levels", 0, MS_LEVELS);
    s->level = whole(r, batching, "default_priority_level", 0, MS_LEVELS);
    if (s->level > s->levels || (s->levels && !s->level))
        ms_fault_say(r->faults, "%s: config.pbtxt: 'default_priority_level' must be 1 to 'priority_levels'",
                     r->model);
    if (queue) read_queue(r, queue, " of default_queue_policy", &s->policy[0]);
    for (int64_t i = 1; i <= s->levels; i++)
        s->policy[i] = s->policy[0];
    json_object_foreach((json_t *)(uintptr_t)message(r, batching, "priority_queue_policy"), key, value) {
        char *end;
        const long long level = strtoll(key, &end, 10);
        if (*end || level < 1 || level > s->levels || !json_is_object(value))
            ms_fault_say(r->faults,
                         "%s: config.pbtxt: 'priority_queue_policy' has the key '%.40s'; it must be a level, "
                         "1 to 'priority_levels', with a policy",
                         r->model, key);
        else
            read_queue(r, value, " of priority_queue_policy", &s->policy[level]);
    }
}

static void read_preferred(const struct ms_reader *r, const json_t *batching) {
    struct ms_batching *b = &r->s->batching;
    const json_t *list = json_object_get(batching, "preferred_batch_size");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_int_t rows = json_integer_value(json_array_get(list, i));
        if (rows < 1 || rows > r->s->max_batch || b->n_preferred == MS_PREFERRED) {
            ms_fault_say(r->faults,
                         "%s: config.pbtxt: 'preferred_batch_size' must be at most %d numbers from 1 to "
                         "'max_batch_size'",
                         r->model, MS_PREFERRED);
            return;
        }
        if (rows > 1) b->preferred[b->n_preferred++] = rows;
    }
}

void ms_settings_read_batching(const struct ms_reader *r) {
    const json_t *batching = message(r, r->s->config, "dynamic_batching");
    if (!batching) return;
    check_names(r, " of dynamic_batching", batching, of_batching);
    r->s->batching.is_asked = true;
    r->s->batching.delay_ns = 1000 * whole(r, batching, "max_queue_delay_microseconds", 0, 60000000);
    r->s->batching.keeps_order = json_is_true(json_object_get(batching, "preserve_ordering"));
    read_preferred(r, batching);
    read_levels(r, batching);
}

/* A parameter's whole number from 1; 0: it is not given. */
static int64_t number(const struct ms_reader *r, const char *key, int64_t most) {
    const char *text = ms_settings_parameter(r, key);
    char *end;
    if (!text) return 0;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end != text && !*end && !errno && value >= 1 && value <= most) return value;
    ms_fault_say(r->faults, "%s: config.pbtxt: %s is '%.40s'; it must be a whole number from 1 to %lld",
                 r->model, key, text, (long long)most);
    return 0;
}

void ms_settings_read_quotas(const struct ms_reader *r) {
    r->s->quota = (struct ms_quota){.waiting = number(r, "max_queue", 1 << 14),
                                    .in_flight = number(r, "max_in_flight", 1 << 20),
                                    .bytes = number(r, "max_memory", INT64_C(1) << 50)};
    r->s->cores = (int)number(r, "cores", 1024);
    const char *admission = ms_settings_parameter(r, "admission");
    r->s->is_predicted = admission && !strcmp(admission, "predicted");
    if (admission && !r->s->is_predicted && strcmp(admission, "all") != 0)
        ms_fault_say(r->faults, "%s: config.pbtxt: admission is '%.40s'; all and predicted are known",
                     r->model, admission);
}

/* "AXIS:SIZE,SIZE,...", sizes from the least to the most. */
static bool parse_buckets(const char *text, struct ms_settings *s) {
    char *end;
    const long axis = strtol(text, &end, 10);
    if (end == text || *end != ':' || axis < 0 || axis >= MOIRE_MAX_RANK) return false;
    s->bucket_axis = (int)axis;
    do {
        text = end + 1;
        const long long size = strtoll(text, &end, 10);
        const int64_t least = s->n_buckets ? s->bucket[s->n_buckets - 1] + 1 : 1;
        if (end == text || s->n_buckets == MS_BUCKETS || size < least || size > 1 << 20) return false;
        s->bucket[s->n_buckets++] = size;
    } while (*end == ',');
    return !*end;
}

void ms_settings_read_buckets(const struct ms_reader *r) {
    const char *text = ms_settings_parameter(r, "buckets");
    if (!text) return;
    if (r->s->is_ensemble || json_object_get(json_object_get(r->s->config, "parameters"), "function"))
        ms_fault_say(r->faults, "%s: config.pbtxt: buckets are for models of files", r->model);
    else if (r->s->batching.is_asked)
        ms_fault_say(r->faults,
                     "%s: config.pbtxt: dynamic_batching joins queries of one shape: take it or buckets out",
                     r->model);
    else if (!parse_buckets(text, r->s))
        ms_fault_say(
            r->faults,
            "%s: config.pbtxt: buckets is '%.60s'; it must be a dimension of the inputs, from 0, and 1 to %d "
            "sizes, the least first: 1:16,32,64",
            r->model, text, MS_BUCKETS);
}
