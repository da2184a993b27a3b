/* SPDX-License-Identifier: Apache-2.0
 * log.h - log lines on standard error, and Triton's settings of them, which clients may change while it runs.
 */
#ifndef MS_LOG_H
#define MS_LOG_H
#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "moire.h"

struct ms_log {
    bool json;               /* lines are JSON objects */
    atomic_bool is_off[3];   /* by level: error, warning, info */
    atomic_uint verbose;     /* from 1 on: a line for each query, and what the library has to say besides */
    atomic_bool shows_times; /* in lines that are not JSON */
};

/* As a moire_config's `log`; `log` is a struct ms_log. */
void ms_log_line(void *log, int level, const char *line);
/* A line for each request is wanted.  NULL: no. */
bool ms_log_is_verbose(const struct ms_log *log);
/* The time of day as "2026-01-31T12:00:00.000Z". */
struct ms_bytes;
void ms_log_stamp(struct ms_bytes *to);
/* The settings as Triton shows them; changes those that `change` has (NULL: none) first, all or none.
 * Returns: MOIRE_OK; MOIRE_EINVAL; MOIRE_EUNSUPPORTED: a file; MOIRE_ENOMEM. */
int ms_log_settings(struct ms_log *log, const json_t *change, json_t **out, moire_error *err);
#endif
