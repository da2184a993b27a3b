/* SPDX-License-Identifier: Apache-2.0
 * functions.h - steps of pipelines that are no networks: functions on tensors, which whoever starts the
 * server hands in, and models that run them.
 *
 * A model with `backend: "moire_host"` and the parameter "function" is one.  Its queries run on threads of
 * their own, one for each four cores that networks run on and at least one: they hold none of those cores,
 * and what waits for a thread waits by deadline.  A query that was cancelled or whose time is over is
 * answered as soon as a thread is free; a function that runs is not stopped. */
#ifndef MS_FUNCTIONS_H
#define MS_FUNCTIONS_H
#include "moire.h"

struct ms_function {
    const char *name;
    const char *file; /* what the file is that it needs (default_model_filename); NULL: none */
    const moire_port *input, *output;
    int n_inputs, n_outputs;
    const void *user;
    /* Makes what all runs of a model share, of the file (path NULL: it needs none).  *state NULL: nothing. */
    int (*open)(const struct ms_function *fn, const char *path, void **state, moire_error *err);
    void (*close)(void *state);
    /* Inputs have the types, ranks and sizes of the ports.  Called by several threads at once.  *memory, not
     * NULL where that goes well, holds what outputs point to, until release(): the state may be closed by
     * then. */
    int (*run)(const struct ms_function *fn, const void *state, const moire_tensor *in, moire_tensor *out,
               void **memory, moire_error *err);
    void (*release)(void *memory);
};
struct ms_functions {
    const struct ms_function *at;
    int n;
};

/* NULL: there is none of that name. */
const struct ms_function *ms_function_find(const struct ms_functions *functions, const char *name);
/* Their names, for a fault. */
void ms_function_names(const struct ms_functions *functions, char *text, size_t room);

/* --- the threads (function_threads.c) */
struct ms_repository;
struct ms_query;
/* The repository's, made at the first call.  MOIRE_ENOMEM, MOIRE_EIO. */
int ms_function_threads_open(struct ms_repository *repository, moire_error *err);
struct ms_function_threads;
void ms_function_threads_close(struct ms_function_threads *threads); /* nothing runs or waits; NULL is fine */
/* Queues a query whose inputs are in order; ms_query_settle() is called once. */
void ms_function_threads_put(struct ms_function_threads *threads, struct ms_query *query);
/* It has been cancelled: where it waits, it is the next. */
void ms_function_threads_cancel(struct ms_function_threads *threads, const struct ms_query *query);
#endif
