/* SPDX-License-Identifier: Apache-2.0
 * pipeline.h - a query of an ensemble on its way: a query for each step, begun as soon as its tensors are
 * there.
 *
 * Tensors are handed on as they are, and what a step has answered is freed when the last that needs it is
 * done.  A step's target is the whole's less the time that what follows it is expected to take.  The first
 * step that does not end well, the whole's deadline or a cancellation ends the whole: what runs is cancelled,
 * nothing more begins, and the whole ends when the last of it has.
 *
 * At most ensemble->most queries are between their first step and their end; further ones wait before it,
 * where all that they hold is their inputs (pipeline_gate.c).
 *
 * Locks: the gate's, then a pipeline's, then none; the repository's is never taken with another.  Steps are
 * begun and cancelled under none: they may be ensembles themselves. */
#ifndef MS_PIPELINE_H
#define MS_PIPELINE_H
#include "serve/query/infer_query.h"

struct ms_part {
    struct ms_pipeline *pipeline;
    struct ms_query *query; /* NULL: not begun, or what it has answered is not needed any more */
    int missing;            /* tensors */
    int needed;             /* uses of what it has answered that are to come */
    bool begun, ended;
};

struct ms_value {
    moire_tensor tensor;
    int left; /* steps that still need it */
};

struct ms_pipeline {
    struct ms_query *whole;
    struct ms_ensemble *ensemble;
    int64_t deadline_ns; /* of the whole; 0: none */
    bool expires;        /* when that passes it is answered */
    bool own_priority;   /* in place of those of the steps' models */
    int priority;
    pthread_mutex_t lock;
    struct ms_model *member[MS_STEPS]; /* held; NULL: a step's query has it */
    struct ms_part part[MS_STEPS];
    struct ms_value value[MS_TENSORS];
    int active; /* steps under way, and who begins some: the last to leave ends the whole */
    moire_error error;
    int64_t started_ns, compute_ns; /* started: 0: no step has */
    /* the gate's */
    struct ms_gate *gate;
    struct ms_pipeline *next, *timed; /* waiting ones; those that expire */
    bool waits, entered, doomed;      /* doomed: the gate is to end it, with that code */
    int doom_code;
};

/* Runs a query whose model is an ensemble and whose inputs are in order.
 * Returns: MOIRE_OK: ms_query_settle() is called once; MOIRE_ENOMEM. */
int ms_pipeline_start(struct ms_query *query, moire_error *err);
void ms_pipeline_cancel(struct ms_pipeline *pipeline);
void ms_pipeline_free(struct ms_pipeline *pipeline); /* NULL is fine */

/* --- for pipeline_gate.c */
/* Begins what can begin, and ends the whole with the last; then the same with what the gate lets in. */
void ms_pipeline_advance(struct ms_pipeline *pipeline);
/* It has that error, unless it has one already, and what runs of it is cancelled.  The caller is active. */
void ms_pipeline_fail(struct ms_pipeline *pipeline, int code, const char *message);
bool ms_pipeline_has_failed(struct ms_pipeline *pipeline);
/* The caller is active from now on; false: it has ended. */
bool ms_pipeline_hold(struct ms_pipeline *pipeline);

/* --- pipeline_gate.c */
/* The repository's gate, made at the first call.  MOIRE_ENOMEM, MOIRE_EIO. */
int ms_gate_open(struct ms_repository *repository, moire_error *err);
void ms_gate_close(struct ms_gate *gate); /* nothing is in it; NULL is fine */
/* true: it may begin, or has failed and may end; false: it waits. */
bool ms_gate_enter(struct ms_pipeline *pipeline);
/* It has ended.  Returns: one that may begin in its place, or NULL. */
struct ms_pipeline *ms_gate_leave(struct ms_pipeline *pipeline);
/* The gate's thread is to end it, unless it has ended: whoever finds out may be inside of a call that must
 * not call back. */
void ms_gate_doom(struct ms_pipeline *pipeline, int code);
#endif
