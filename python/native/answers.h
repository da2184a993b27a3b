/* SPDX-License-Identifier: Apache-2.0
 * answers.h - answers of queries for a language whose code must not run on threads of a runtime.
 *
 * A callback in Python would hold up a worker until it has the interpreter's lock.  Here the callbacks are in
 * C: they copy the outputs and put them into a queue, from which one thread of the host takes them.  It is
 * part of the libmoire.so of the Python package and only used by it; python/moire/_native.py knows how.
 *
 * Invariants: an accepted query makes exactly one moire_answered, when it is answered and, if its inputs were
 * lent, these are back.  Room for it is there before the query is submitted, so no answer is lost for want of
 * memory. */
#ifndef MOIRE_ANSWERS_H
#define MOIRE_ANSWERS_H
#include "moire.h"
#include "moire_predict.h"

typedef struct moire_answers moire_answers; /* a queue */

/* An answer, or a line of the log; the host's, to be given to moire_answered_free(). */
typedef struct moire_answered {
    struct moire_answered *next; /* in the list of moire_answers_wait() */
    uint64_t token;              /* of the query; 0 for a line of the log */
    int code;                    /* of the answer; of a line of the log its level */
    int n_outputs;
    moire_tensor *outputs; /* data that are taken are set to NULL, and freed by moire_answers_release() */
    char *text;            /* why there is no result, or the line; may be NULL */
    int64_t arrival_ns, start_ns, end_ns, deadline_ns, compute_ns; /* as in moire_answer */
} moire_answered;

/* Returns: a queue; NULL when out of memory. */
MOIRE_API moire_answers *moire_answers_create(void);
/* No runtime whose queries or log go here may be left, nor a thread in moire_answers_wait(). */
MOIRE_API void moire_answers_destroy(moire_answers *queue);
/* After what is in the queue moire_answers_wait() gives the end. */
MOIRE_API void moire_answers_close(moire_answers *queue);
/* Waits.  Returns: all answers there are, oldest first; NULL: the queue is closed and empty. */
MOIRE_API moire_answered *moire_answers_wait(moire_answers *queue);

/* As moire_submit_with(); the answer goes to the queue.  token: not 0.  lend: inputs are not copied, and stay
 * as they are until the answer is taken from the queue. */
MOIRE_API int moire_answers_submit(moire_answers *queue, moire_tenant *tenant, const moire_tensor *inputs,
                                   int n_inputs, const moire_query_options *options, int lend, uint64_t token,
                                   moire_query *handle, moire_error *err);
/* Lends the inputs, waits for the answer.  Returns: it; NULL: the query was not accepted, err says why. */
MOIRE_API moire_answered *moire_answers_run(moire_tenant *tenant, const moire_tensor *inputs, int n_inputs,
                                            moire_error *err);
/* Frees an answer and the data of outputs that were not taken.  NULL is fine. */
MOIRE_API void moire_answered_free(moire_answered *answered);
MOIRE_API void moire_answers_release(void *data);
/* For moire_config.log, with the queue as log_user.  A line for which there is no memory is left out. */
MOIRE_API void moire_answers_log(void *queue, int level, const char *line);
#endif
