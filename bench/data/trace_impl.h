/* SPDX-License-Identifier: Apache-2.0
 * trace_impl.h - what the parts of the reader of trace.h share: trace_head.c reads who and what was recorded,
 * trace_gpus.c that of GPUs, trace.c the events, with trace_resized.c those of cores that come and go. */
#ifndef MO_BENCH_TRACE_IMPL_H
#define MO_BENCH_TRACE_IMPL_H
#include "bench/data/trace.h"

enum { MO_TRACE_CORES = 1024, MO_TRACE_LAYERS = 1 << 16 };

struct mo_trace_reader {
    const struct mo_env *env;
    const char *path;
    int line;
    int64_t events, end; /* counted, and as the last line says: -1 = not seen */
    struct mo_trace *t;
    bool headed;       /* an event has been: remarks about GPUs are over */
    int64_t submitted; /* arrival of the latest SUBMIT */
    int *table;        /* index + 1 into queries, by handle; a power of two entries */
    size_t mask;
    struct mo_trace_running {
        uint64_t query;
        int64_t start, ended;
    } * running; /* by core */
    struct mo_trace_stay {
        int core, next;     /* next of the same block, 0 = none */
        int64_t begin, end; /* end < 0: it did not leave */
    } * stays;              /* entry 0 is none */
    int n_stays;
    double waits[2], n_waits[2]; /* from decisions to first layers; [1]: of a query's first block */
    double late;                 /* arrivals */
    moire_error *err;
};

/* MOIRE_EFORMAT with file and line. */
int mo_trace_fail(const struct mo_trace_reader *r, const char *why);
/* Reads a whole number at *at and steps over it and one separator. */
bool mo_trace_number(const char **at, int64_t min, int64_t max, int64_t *out);
/* Steps over a key that is there. */
bool mo_trace_starts(const char **at, const char *key);
/* A line that begins with '#'. */
int mo_trace_remark(struct mo_trace_reader *r, const char *line);

/* Time of a block's layers in the profile of its core count; 0 when that was not measured. */
double mo_trace_predicted(const struct mo_trace *trace, const struct mo_trace_query *q, int64_t begin,
                          int64_t end);
/* A query's latest block has ended, on all of its cores; on one of them it ran from `begin` to `end`.  solo:
 * ns of that by the profile, not 0. */
void mo_trace_note_block(struct mo_trace *trace, const struct mo_trace_query *q, double solo);
void mo_trace_note_span(struct mo_trace *trace, const struct mo_trace_query *q, int core, int64_t begin,
                        int64_t end, double solo);

/* trace_resized.c: RESIZE of the query's running block; a core joins or leaves it while it runs; BLOCK_DONE.
 */
int mo_trace_resize(const struct mo_trace_reader *r, struct mo_trace_query *q, int64_t in, int64_t out);
int mo_trace_core(struct mo_trace_reader *r, struct mo_trace_query *q, int64_t core, int64_t time,
                  bool joins);
/* A core is in the query's block from now on. */
void mo_trace_enter(struct mo_trace_reader *r, struct mo_trace_query *q, int core, int64_t time);
int mo_trace_done(struct mo_trace_reader *r, struct mo_trace_query *q, int64_t late, int64_t time);

/* trace_gpus.c: such a line about GPUs (MOIRE_OK and *took = false: it is about something else); what all of
 * them together say, before the first event. */
int mo_trace_gpu_remark(struct mo_trace_reader *r, const char *line, bool *took);
int mo_trace_gpu_head(struct mo_trace_reader *r);
/* Time of a block of GPUs by the profiles, without copies; 0 when they do not know it. */
double mo_trace_gpu_predicted(const struct mo_trace *trace, const struct mo_trace_query *q, int64_t begin,
                              int64_t end);
#endif
