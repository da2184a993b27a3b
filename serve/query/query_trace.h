/* SPDX-License-Identifier: Apache-2.0
 * query_trace.h - Triton's trace extension: times of single queries, in a file of Triton's JSON.
 *
 * Clients choose which queries are traced; the file is the operator's, and no field of a request reaches
 * open().  What is written is bounded (MS_TRACE_BYTES, MS_TRACE_FILES): clients cannot fill a disk.  Lines
 * wait in memory until 64 KiB of them are there, until somebody asks for the settings, or until the end.
 *
 * Settings of a model are its own or, where it has none, the server's. */
#ifndef MS_QUERY_TRACE_H
#define MS_QUERY_TRACE_H
#include <jansson.h>
#include <stdbool.h>
#include "moire.h"

enum { MS_TRACE_BYTES = 256 << 20, MS_TRACE_FILES = 1000 };

struct ms_trace;
/* file NULL: nothing can be traced; settings can be asked for all the same.
 * Returns: MOIRE_OK, and *out is to be closed; MOIRE_EIO: the file cannot be written; MOIRE_ENOMEM. */
int ms_trace_open(const char *file, struct ms_trace **out, moire_error *err);
/* Writes what waits.  NULL is fine. */
void ms_trace_close(struct ms_trace *trace);

/* The settings of a model (model "": the server's), as Triton shows them; changes those that `change` has
 * (NULL: none; null: no longer its own) first, all or none. Returns: MOIRE_OK; MOIRE_EINVAL;
 * MOIRE_EUNSUPPORTED: what is not served, and the file; MOIRE_ELIMIT; MOIRE_ENOMEM. */
int ms_trace_settings(struct ms_trace *trace, const char *model, const json_t *change, json_t **out,
                      moire_error *err);

/* A query that was answered or failed; ns of one clock. */
struct ms_traced {
    const char *model, *version, *id;                                             /* id NULL: none */
    int64_t request_start, queue_start, compute_start, output_start, request_end; /* 0: it came not so far */
};
void ms_trace_query(struct ms_trace *trace, const struct ms_traced *query);
#endif
