/* SPDX-License-Identifier: Apache-2.0
 * infer_query.h - one infer request on its way: checked against the model, submitted, answered. */
#ifndef MS_INFER_QUERY_H
#define MS_INFER_QUERY_H
#include <stdatomic.h>
#include "serve/batch/batcher.h"

struct ms_query {
    /* The caller's: a model that it has taken (given back before `done`), and what to call at the end, on any
     * thread, perhaps before ms_query_start() returns. */
    struct ms_model *model;
    struct ms_request request; /* closed by the caller; its tensors are read until `done` is called */
    int64_t patience_us;       /* after that nobody waits for the answer; 0: no such time */
    void (*done)(void *user);
    void *user;
    /* Of a step of an ensemble, whose model was ready when it was taken. */
    bool is_step, own_priority;
    bool is_list; /* started by ms_items_start() */
    int priority;
    int64_t due_ns; /* target, absolute; 0: the model's */

    /* The answer, when `done` is called. */
    moire_error error; /* code MOIRE_OK: there is one */
    char model_name[MS_NAME], model_version[MS_VERSION];
    struct ms_output output[MS_PORTS]; /* those that were asked for, in that order */
    int n_outputs;
    char *memory;            /* their data and names; freed by ms_query_close() */
    struct ms_bytes classes; /* data of those that are classes; as well */
    int64_t queue_ns, compute_ns;

    /* Its own. */
    moire_runtime *runtime; /* the model may be gone when it is cancelled */
    struct ms_binding *binding;
    moire_tensor ordered[MS_PORTS];
    moire_shape shapes[MS_PORTS];
    int64_t begun_ns, submitted_ns;
    /* Absolute: when it is answered MOIRE_EEXPIRED; when it should be answered; MS_NEVER. */
    int64_t expires_ns, target_ns;
    int64_t rows, held_bytes; /* rows: 1 where its first dimensions differ */
    int64_t level;
    int64_t predicted_ns; /* that it takes, by the queue and the profile alone; 0: nothing is predicted */
    bool is_admitted;
    _Atomic(struct ms_batcher *) batcher; /* which it has gone through; held until it is closed */
    struct ms_queued queued;
    struct ms_region *region[MS_PORTS]; /* of outputs; NULL: none */
    int64_t copied_ns;                  /* that copying the answer took */
    atomic_int
        parts; /* who still uses it: the call that submits, the runtime for its inputs and the answer */
    bool in_time;
    atomic_bool cancelled;
    _Atomic moire_query handle;
    _Atomic(struct ms_pipeline *) pipeline; /* of an ensemble's query */
    _Atomic(struct ms_items *) items;       /* of a step that runs for each item of a list */
    /* of a query that is padded (padding.h): 0: it is not */
    int64_t positions, padded_to;
    void *padding; /* its inputs; freed by ms_query_close() */
    /* of a function's query */
    _Atomic(struct ms_function_threads *) function_threads;
    struct ms_query *fn_next;
    int64_t fn_rank;
};

void ms_query_start(struct ms_query *query);
/* Nobody wants the answer any more; `done` is called all the same.  By one thread, before it has looked at
 * what `done` says. */
void ms_query_cancel(struct ms_query *query);
void ms_query_close(struct ms_query *query);
/* The loader's: a binding was made, or not. */
void ms_query_bound(struct ms_query *query, struct ms_binding *binding);

/* --- for batches and pipelines */
/* Runs it by itself. */
void ms_query_run(struct ms_query *query);
/* Ends it with its part of the outputs of a run; NULL: query->error says why there are none. */
void ms_query_settle(struct ms_query *query, const moire_tensor *outputs);
#endif
