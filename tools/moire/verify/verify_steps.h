/* SPDX-License-Identifier: Apache-2.0
 * verify_steps.h - the compiled kernels of a plan against built-in ones, where the plan has put its tensors.
 *
 * The search has verified each kernel alone, on dense buffers.  What a kernel does in a model depends on
 * more: images that lie apart because the tensor is a slice of a concat, neighbours whose bytes are alive,
 * memory that others used before.  So a plan of built-in kernels runs step by step, and beside it, on a
 * second arena that holds the same bytes, each compiled step in each of its versions.  Both read the same
 * inputs, so an error belongs to its layer and does not add up.  Of a compiled step must be true:
 *
 *   - it computes what the built-in kernel does, within TOLERANCE of the largest value;
 *   - it writes every element, and no byte beside its outputs and its scratch;
 *   - all that holds when its units run in two uneven parts, the later one first.
 *
 * Values that would hide an error (all zero, not finite) are replaced by random ones before the next layer
 * reads them.  At the end both plans run as wholes and their outputs are compared.
 *
 * It runs in a copy of this process: a kernel that crashes or never ends there is found out, too. */
#ifndef MO_VERIFY_STEPS_H
#define MO_VERIFY_STEPS_H
#include "runtime/plan/plan.h"

enum mo_step_state {
    MO_STEP_BUILT_IN, /* nothing to verify */
    MO_STEP_RIGHT,
    MO_STEP_WRONG,
    MO_STEP_SKIPPED, /* compiled, and could not be run: the built-in kernel failed */
};

struct mo_step_finding {
    enum mo_step_state state;
    int version;   /* that has the largest error, or is wrong */
    double error;  /* largest difference, relative to the largest value of the output, or to what rounding
                      makes of the inputs where the output is much smaller than its terms */
    char why[160]; /* wrong: "differs by 0.41 of the range in image 1" */
};

struct mo_step_findings {
    struct mo_step_finding *step; /* of every step of the plan */
    bool whole;                   /* the plans were run as wholes: */
    double error, allowed;        /* largest difference of an output, relative to its range; 0 allowed: not
                                     judged, as an operator of the model makes jumps of differences */
    bool cut;                     /* time was up: nothing is known */
};

struct mo_step_verifier {
    const struct mo_plan *compiled, *built_in; /* of the same graph */
    const double *gain;                        /* of every step: mo_verify_gain() */
    uint64_t seed;
    int64_t ends; /* when it must end, whatever is known then; 0 = after half an hour, which is a fault */
};

/* Fills out->step, which has room for all steps.  Fails when nothing can be said, not when a kernel is wrong.
 */
int mo_verify_steps(const struct mo_step_verifier *verifier, struct mo_step_findings *out, moire_error *err);

/* What a layer makes of an input of 1: the mean over its output channels of the sums of its weights'
 * magnitudes.  Before a plan is built, which lets go of weights.  0: it has no weights of known type. */
double mo_verify_gain(const struct mo_graph *graph, const struct mo_node *node);
/* Of a compiled layer whose inputs are in an instance of the built-in plan: the share of what its terms can
 * be that its tolerance follows at least. */
double mo_verify_terms(const struct mo_step_verifier *verifier, const struct mo_instance *instance,
                       int layer);
#endif
