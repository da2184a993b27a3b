/* SPDX-License-Identifier: Apache-2.0
 * pipeline_bed.h - a repository with small models that are made here, and queries of it without a network.
 *
 *   twice  i [N,4] -> o = 2 i                 add    i, j [N,4] -> o = i + j
 *   pick   i int64 [N] -> o = table[i] [N,4]  slow   i [N,4] -> o [N,4], some milliseconds
 *
 * pick fails where an index is not 0 to 7. */
#ifndef MS_PIPELINE_BED_H
#define MS_PIPELINE_BED_H
#include <stdatomic.h>
#include "serve/query/infer_query.h"

struct pipeline_bed {
    char folder[64];
    struct ms_functions functions; /* set after pipeline_bed_make(), where the test has some */
    moire_runtime *runtime;
    struct ms_repository *repository;
};

/* Models as above; ensembles are written by the test before pipeline_bed_start(). */
void pipeline_bed_make(struct pipeline_bed *bed);
/* A config.pbtxt as it is; an ensemble's lacks the platform. */
void pipeline_bed_config(const struct pipeline_bed *bed, const char *name, const char *config);
void pipeline_bed_ensemble(const struct pipeline_bed *bed, const char *name, const char *config);
void pipeline_bed_start(struct pipeline_bed *bed, bool is_explicit);
void pipeline_bed_stop(struct pipeline_bed *bed);

/* A query of [rows, 4] floats, or of `rows` int64s where index is not NULL. */
struct asked {
    struct ms_query query;
    float x[64];
    atomic_int answers;
};
void ask_begin(struct pipeline_bed *bed, struct asked *a, const char *model, int rows, const int64_t *index);
/* Waits for the one answer.  Returns: its code. */
int ask_end(struct asked *a);
/* Both, and the data of the first output, while a is not closed. */
const float *ask(struct pipeline_bed *bed, struct asked *a, const char *model, int rows);
void ask_close(struct asked *a);
/* Loads or unloads and waits.  Returns: the code. */
int ask_job(struct pipeline_bed *bed, ms_job_start start, const char *name);
#endif
