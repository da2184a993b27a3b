/* SPDX-License-Identifier: Apache-2.0
 * request_log.h - a line for each request, with what ties it to a client's own records: the request's id and
 * the trace that it belongs to (the header `traceparent` of W3C Trace Context, as OpenTelemetry sends it). */
#ifndef MS_REQUEST_LOG_H
#define MS_REQUEST_LOG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "serve/protocol/log.h"

enum { MS_TRACEPARENT = 56, MS_REQUEST_ID = 72 };

struct ms_ids {
    char traceparent[MS_TRACEPARENT]; /* "": none */
    char request[MS_REQUEST_ID];      /* of the header x-request-id; "": none */
};
/* Takes the value of one of the two headers, unless it is malformed: such a one is as none.  Of a later
 * version of traceparent only what version 00 has is kept.  Returns: whether the header is one of the two. */
bool ms_ids_take(struct ms_ids *ids, const char *name, size_t name_n, const char *value, size_t n);

struct ms_request_line {
    const char *method, *path; /* path "" where the method says all */
    int status;
    size_t bytes_in, bytes_out;
    int64_t ns, queue_ns, compute_ns;
    const char *model, *version, *request_id; /* NULL: none */
    const struct ms_ids *ids;
};
/* One line on standard error, where the log is verbose; NULL: none. */
void ms_request_log_put(const struct ms_log *log, const struct ms_request_line *line);
#endif
