/* SPDX-License-Identifier: Apache-2.0
 * ways.h - the ways in which moire can run a model, from the oracle to the compiled kernels, behind one call:
 * what conformance tests and `moire check-model` compare. */
#ifndef MO_WAYS_H
#define MO_WAYS_H
#include "codegen/frontend.h"
#include "runtime/plan/plan.h"

enum mo_way {
    MO_WAY_REFERENCE, /* the graph as imported, every node by its reference */
    MO_WAY_PASSES,    /* after the graph passes, still by references */
    MO_WAY_PLAN,      /* passes, built-in kernels, memory plan */
    MO_WAY_STORE,     /* the same with compiled variants */
    MO_WAYS
};
const char *mo_way_name(enum mo_way way);

struct mo_way_target {
    enum mo_way way;
    enum mo_isa isa;              /* of the kernels; MO_WAY_PLAN and MO_WAY_STORE */
    const struct mo_store *store; /* MO_WAY_STORE */
};

/* Runs `model` with one input for each graph input.  outputs (cap of them) are filled in the model's order;
 * their data belongs to the caller, who gives it back with mo_way_free. */
int mo_way_run(const struct mo_env *env, const struct mo_way_target *target, const char *model,
               const struct mo_frontend_options *options, const moire_tensor *inputs, int n_inputs,
               moire_tensor *outputs, int cap, int *n_outputs, moire_error *err);
/* The same for a graph at hand, whose outputs must have room.  run_plan takes ownership of the graph. */
int mo_way_run_reference(const struct mo_graph *graph, const moire_tensor *inputs, int n_inputs,
                         moire_tensor *outputs, moire_error *err);
int mo_way_run_plan(struct mo_graph *graph, const struct mo_plan_options *options, const moire_tensor *inputs,
                    int n_inputs, moire_tensor *outputs, moire_error *err);
/* With a plan at hand, which must live as long as the call. */
int mo_way_run_built(const struct mo_plan *plan, const moire_tensor *inputs, int n_inputs,
                     moire_tensor *outputs, moire_error *err);
/* Copies of the outputs of an instance that has run, for mo_way_free. */
int mo_way_copy_outputs(struct mo_instance *instance, const struct mo_graph *graph, moire_tensor *outputs,
                        moire_error *err);
/* The same in memory that the caller has, with any contents: an arena of mo_instance_arena_bytes() and
 * scratch. */
int mo_way_run_in(const struct mo_plan *plan, void *arena, void *scratch, const moire_tensor *inputs,
                  int n_inputs, moire_tensor *outputs, moire_error *err);
void mo_way_free(const struct mo_env *env, moire_tensor *outputs, int n);
#endif
