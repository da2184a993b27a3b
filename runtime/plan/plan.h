/* SPDX-License-Identifier: Apache-2.0
 * plan.h - a model made ready to run: steps, packed weights, memory plan; and one query's activations.
 *
 * A plan is immutable and shared by every query of a tenant.  An instance is what one query needs besides:
 * kernel arguments, resolved to one arena for its activations, laid out by the plan.  The arena is the
 * instance's own, or comes and goes with queries (runtime/serve/arenas.h).  A preempted query keeps its
 * instance; another may take over its arena (runtime/serve/spill.h).
 * Threads: any number of instances run at once; one instance is run by one team at a time. */
#ifndef MO_PLAN_H
#define MO_PLAN_H
#include <stdatomic.h>
#include "variants/kernel.h"

struct mo_store;   /* variants/store.h: reader of compiled variants */
struct mo_weights; /* variants/packed_shared.h */

/* Of a region's body (runtime/ops/moire/region.c) a graph of layers for values like these: types and shapes.
 * elided: what stands for weights that are packed already; NULL: none are. */
typedef int mo_plan_shaped_fn(const struct mo_graph *body, const struct mo_value *in,
                              struct mo_weights *weights, const void *elided, struct mo_graph **out,
                              moire_error *err);

struct mo_plan_options {
    enum mo_isa isa; /* at most this level */
    enum mo_units units;
    const struct mo_store *store; /* NULL: generic kernels only */
    bool reference_only;          /* every layer by its reference (the oracle) */
    /* Asked for the variant of a layer instead of the store, when it is not NULL: for whoever has compiled
     * kernels that are in no store.  False: the built-in kernel serves. */
    bool (*variant)(void *ctx, const char *signature, struct mo_variant *out);
    void *variant_ctx;
    mo_plan_shaped_fn *shaped; /* NULL: regions are run by the references */
    int depth;                 /* of the graph, which is of a region within so many others */
};

struct mo_plan {
    const struct mo_env *env;
    struct mo_region *region;
    struct mo_graph *graph; /* owned */
    int n_steps;
    struct mo_step *steps; /* in execution order; step i belongs to graph->nodes[i] */
    int64_t *offset;       /* arena offset of every tensor, -1 = not in the arena */
    int64_t *image;        /* bytes from one image of a tensor to the next, slices included */
    bool *dynamic;         /* tensors whose storage is allocated when they are produced */
    int64_t arena_bytes;   /* what one query needs */
    int64_t arena_lower;   /* lower bound: largest sum of live tensors at any step */
    int64_t weight_bytes;  /* packed, its own */
    int64_t shared_bytes;  /* packed, shared with other plans of the model */
    int64_t rounds_at;     /* arena offset of what rounds of a layer share */
    int64_t scratch_bytes; /* per worker: the largest of all steps */
    int64_t packed_bytes;  /* of specialised steps: packed weights, */
    int64_t version_bytes; /* and those that only their other versions read */
    int n_bodies;          /* of control flow, that have plans (plan_bodies.c) */
    struct mo_plan_body *bodies;
    struct mo_plan_region *regions; /* a list; their plans come and go (plan_regions.c) */
};

struct mo_plan_body {
    const struct mo_graph *body; /* in an attribute of a node of the plan's graph */
    struct mo_plan *plan;
};

/* Takes ownership of the graph in every case (also on failure). */
int mo_plan_build(struct mo_graph *graph, const struct mo_plan_options *options, struct mo_plan **out,
                  moire_error *err);
void mo_plan_destroy(struct mo_plan *plan);
/* A weight or other constant.  Its contents may be gone: a plan keeps packed copies instead. */
bool mo_plan_is_constant(const struct mo_graph *graph, int tensor);

/* Regions, nested ones not counted; the plans that they have now, and the bytes of the packed weights that
 * these share. */
struct mo_plan_shaped {
    int regions, plans;
    int64_t weight_bytes;
};
struct mo_plan_shaped mo_plan_count_shaped(const struct mo_plan *plan);

struct mo_instance;
/* With an arena of its own. */
int mo_instance_create(const struct mo_plan *plan, struct mo_instance **out, moire_error *err);
/* Without: nothing but destroy and message works before it is bound. */
int mo_instance_create_bare(const struct mo_plan *plan, struct mo_instance **out, moire_error *err);
/* Bytes of an arena. */
size_t mo_instance_arena_bytes(const struct mo_plan *plan);
/* From now on activations lie in this arena, 64-byte aligned, with any contents. */
void mo_instance_bind(struct mo_instance *instance, void *arena);
void mo_instance_destroy(struct mo_instance *instance);

/* Checks type and shape against the graph input and copies the contents in. */
int mo_instance_set_input(struct mo_instance *instance, int input, const moire_tensor *tensor,
                          moire_error *err);
/* The same of all inputs, bytes that are known to fit and stay as they are until the instance is reset: large
 * ones are read where they lie, if that is 64-byte aligned.  To be said again after another arena was bound.
 */
void mo_instance_read_inputs(struct mo_instance *instance, const char *const *data);
/* Describes output `index` (valid until the instance is reused); data points into the instance. */
int mo_instance_output(struct mo_instance *instance, int index, moire_tensor *out);
/* Frees what dynamic layers allocated; call before the instance serves the next query. */
void mo_instance_reset(struct mo_instance *instance);

/* Until the next reset: when *unwanted becomes true nobody waits for the answer, and a layer of control flow
 * that runs fails with MOIRE_ECANCELLED before its next trip.  Any thread may write it meanwhile. */
void mo_instance_heed(struct mo_instance *instance, const _Atomic bool *unwanted);

/* Runs layers [begin, end) on the calling thread.  Returns 0 or the code of the layer that failed; the
 * message is kept in the instance, and layers after it are skipped until it is reset. */
int mo_instance_run(struct mo_instance *instance, int begin, int end, void *scratch);

/* A layer by a team of `width` cores (runtime/device/work_claims.h).  0: the caller, alone, has run it. Above
 * 0: it is to be cut into so many pieces, for the team to run.  Below 0: the code of the layer that failed.
 */
int mo_instance_step(struct mo_instance *instance, int layer, int width, void *scratch);
/* Pieces [from, to) of a layer that is cut into `of`, in the version picked last. */
void mo_instance_pieces(struct mo_instance *instance, int layer, int from, int to, int of, void *scratch);
/* After all these pieces.  Above 0: the layer has another round, to be cut into so many.  Below 0: it failed.
 */
int mo_instance_again(struct mo_instance *instance, int layer, int width);
/* How many of a team's workers get a share of the layer, in the version of it that serves most of them. */
int mo_step_workers(const struct mo_step *step, int n_workers);
/* How many workers can have a share of the layer that is worth waking one for; at least 1. */
int64_t mo_step_useful(const struct mo_step *step);
/* Before layers [begin, end) run on so many cores: picks the version of each for these and a pressure from 0
 * to 1.  Nobody runs the instance meanwhile. */
void mo_instance_select_versions(struct mo_instance *instance, int begin, int end, double pressure,
                                 int cores);
/* Every layer in that version from now on, or in its last one: to measure them. */
void mo_instance_version(struct mo_instance *instance, int version);
/* One layer in that version, which it has. */
void mo_instance_pick(struct mo_instance *instance, int layer, int version);
/* The version of a layer that was picked last; 0 = its first. */
int mo_instance_picked(const struct mo_instance *instance, int layer);

/* --- to look at single layers --- */
/* Where a tensor lies, its type and shape; data is NULL before a dynamic layer has made it.  Its images are
 * plan->image[tensor] bytes apart. */
const struct mo_value *mo_instance_value(const struct mo_instance *instance, int tensor);
/* Runs units [begin, end) of a layer that has a kernel, in the version picked last. */
void mo_instance_run_units(struct mo_instance *instance, int layer, int64_t begin, int64_t end,
                           void *scratch);
const char *mo_instance_message(const struct mo_instance *instance);
#endif
