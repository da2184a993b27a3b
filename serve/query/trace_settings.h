/* SPDX-License-Identifier: Apache-2.0
 * trace_settings.h - which queries are traced: the settings of the server, and of models that have their own.
 */
#ifndef MS_TRACE_SETTINGS_H
#define MS_TRACE_SETTINGS_H
#include <jansson.h>
#include <stdbool.h>
#include "serve/repository/scan.h"

/* level 1: times; every rate-th query; count: that many more, -1: all; frequency: traces of a numbered file,
 * 0: one file for all. */
enum ms_trace_field { MS_TRACE_LEVEL, MS_TRACE_RATE, MS_TRACE_COUNT, MS_TRACE_FREQUENCY, MS_TRACE_FIELDS };

struct ms_trace_rule {
    char model[MS_NAME];
    int64_t value[MS_TRACE_FIELDS];
    bool is_own[MS_TRACE_FIELDS]; /* of a model; others are the server's */
    int64_t seen;                 /* queries since the last that was traced */
};
struct ms_trace_rules {
    struct ms_trace_rule server, *model; /* of models by name */
    int n;
};

void ms_trace_rules_init(struct ms_trace_rules *rules);
void ms_trace_rules_free(struct ms_trace_rules *rules);
bool ms_trace_rules_are_on(const struct ms_trace_rules *rules);
/* As ms_trace_settings(). */
int ms_trace_rules_change(struct ms_trace_rules *rules, const char *model, bool has_file,
                          const json_t *change, moire_error *err);
json_t *ms_trace_rules_show(const struct ms_trace_rules *rules, const char *model, const char *file);
/* Counts a query.  Returns: whether it is to be traced. */
bool ms_trace_rules_take(struct ms_trace_rules *rules, const char *model);
#endif
