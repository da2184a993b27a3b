/* SPDX-License-Identifier: Apache-2.0
 * body.h - running the bodies of control flow, and values that an operator allocates itself.
 *
 * An operator of control flow calls mo_body_run() and does not know by what means: a host runs the body's
 * plan, and without one the references do.  Every run is counted, those of nested bodies too, so that no
 * model keeps a core for ever: the limit loop_trips.  Before every run the host may say that nobody waits for
 * the answer any more; then no further body runs. */
#ifndef MO_BODY_H
#define MO_BODY_H
#include <stdatomic.h>
#include "runtime/ops/op.h"

struct mo_body_host {
    /* Runs a body that the host has a plan for.  MO_NEED_DATA: it has none, or not for these shapes. */
    int (*run)(void *self, const struct mo_op_ctx *ctx, const struct mo_graph *body,
               const struct mo_value *in, struct mo_value *out);
    void *self;
    int64_t *left;                /* runs of bodies that are still allowed */
    const _Atomic bool *unwanted; /* true: the answer is; NULL: nobody says so */
};

/* in: a value for each input of the body.  out: for each output, in memory of mo_alloc() that is the
 * caller's; nothing when it fails. */
int mo_body_run(const struct mo_op_ctx *ctx, const struct mo_graph *body, const struct mo_value *in,
                struct mo_value *out);
/* An operator's inputs but those that its bodies capture. */
int mo_own_inputs(const struct mo_op_ctx *ctx, const struct mo_graph *body);

/* Nobody waits for the answer any more. */
bool mo_body_unwanted(const struct mo_body_host *host);
/* Fails with MOIRE_ECANCELLED. */
int mo_body_cancelled(const struct mo_op_ctx *ctx);

/* `make` under a count of its own where it runs in no other body. */
int mo_make_counted(const struct mo_op_ctx *ctx, int (*make)(const struct mo_op_ctx *ctx));
/* Runs any operator into outputs that are there. */
int mo_run_made(const struct mo_op_ctx *ctx);

/* Bytes of a value's contents, -1 without a definite size. */
int64_t mo_value_bytes(const struct mo_value *v);
/* Allocates contents for type and shape of *v, under the limit tensor_bytes. */
int mo_value_allocate(const struct mo_op_ctx *ctx, struct mo_value *v);
/* The same contents in memory of their own. */
int mo_value_copy(const struct mo_op_ctx *ctx, const struct mo_value *from, struct mo_value *to);
void mo_values_free(const struct mo_env *env, struct mo_value *v, int n);
#endif
