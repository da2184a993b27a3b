/* SPDX-License-Identifier: Apache-2.0
 * steps.h - runs a plan layer by layer on hostile memory: the arena, the scratch and what lies around them
 * hold a pattern that any answer made of it gives away, and the units of a layer run in random pieces in
 * random order.  The public promise is that neither changes a bit of an answer. */
#ifndef MO_DT_STEPS_H
#define MO_DT_STEPS_H
#include "runtime/plan/plan_impl.h"
#include "tests/differential/random.h"

struct dt_fault; /* fault.h */

struct dt_steps {
    unsigned char pattern; /* of memory: 0xff makes NaN, 0x4b a large number */
    bool pieces;           /* else every layer in one */
    struct dt_random random;
    const struct dt_fault *fault; /* planted in kernels; NULL = none */
    int hits;                     /* layers that the fault reached */
};

/* outputs: n_outputs of the graph; data is the caller's, to be given to mo_free(). */
int dt_steps_run(struct dt_steps *how, const struct mo_plan *plan, const moire_tensor *inputs, int n_inputs,
                 moire_tensor *outputs, moire_error *err);
#endif
