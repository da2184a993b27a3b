/* SPDX-License-Identifier: Apache-2.0
 * plan_impl.h - what the files of runtime/plan share: the instance, and the parts of building and running. */
#ifndef MO_PLAN_INTERNAL_H
#define MO_PLAN_INTERNAL_H
#include "runtime/ops/control/body.h"
#include "runtime/ops/op.h"
#include "runtime/ops/op_parts.h"
#include "runtime/plan/cost.h"
#include "runtime/plan/plan.h"

/* Absent operands after the last, so that an operator may look at optional ones that a node does not list. */
enum { MO_SPARE_OPERANDS = 16 };

struct mo_instance {
    const struct mo_plan *plan;
    const struct mo_env *env;
    char *arena;                   /* where values lie; NULL before the first mo_instance_bind() */
    void *own;                     /* the arena, when the instance has it of its own */
    struct mo_kargs *args;         /* of every step; unused by reference, view and dynamic steps */
    unsigned char *pick;           /* of every step: the version that runs */
    int64_t round;                 /* of the layer that runs now: begun so far; 0: it is in none */
    struct mo_region_team *inside; /* the region that a team runs now; NULL: none */
    const struct mo_op_parts
        *parts;      /* of the operator that a team runs now, n_parts of them on the operands */
    int64_t n_parts; /* `shared`; NULL: none */
    struct mo_op_ctx shared;
    struct mo_value *value;    /* of every tensor, as operators see it */
    bool *placed;              /* of every tensor: lies in the arena */
    void **owned;              /* of every tensor: storage of dynamic layers, freed by reset */
    struct mo_value *io;       /* inputs and outputs of the reference step that runs now, on one worker, each
                                  followed by MO_SPARE_OPERANDS absent ones */
    void **temp;               /* of every entry of io: a plain contiguous copy, or NULL */
    const char **given;        /* of every input of a body: where the layer that runs it has the contents */
    struct mo_instance **body; /* of every body that has a plan: made when it first runs */
    void *scratch;             /* of the layer that runs now: bodies lie in it */
    struct mo_body_host host;  /* runs bodies by their plans */
    int rc;                    /* first failure; layers after it are skipped */
    moire_error err;
};

/* memory.c: storage groups, lifetimes, offsets.  Fills offset, image, arena_bytes and arena_lower. */
int mo_plan_memory(struct mo_plan *plan, moire_error *err);
/* MOIRE_ELIMIT: the arena is larger than the limit. */
int mo_plan_check_arena(const struct mo_plan *plan, moire_error *err);

/* cost.c: true when the layer moves no bytes: its outputs already lie where its inputs are. */
bool mo_plan_is_view(const struct mo_graph *graph, const struct mo_node *node);

/* plan_bodies.c: plans of the bodies of a layer of control flow, for those with fixed shapes. */
int mo_plan_bodies(struct mo_plan *plan, const struct mo_plan_options *options, struct mo_step *step,
                   moire_error *err);
void mo_plan_free_bodies(struct mo_plan *plan);
/* A body of the node has a plan. */
bool mo_plan_has_bodies(const struct mo_plan *plan, const struct mo_node *node);
/* The host's run of an instance. */
int mo_instance_run_body(void *self, const struct mo_op_ctx *ctx, const struct mo_graph *body,
                         const struct mo_value *in, struct mo_value *out);

/* Values have the types and shapes of the inputs that a body's plan was made for. */
bool mo_plan_fits(const struct mo_plan *plan, const struct mo_value *in);
/* A run of a body's plan in memory for its arena and scratch. */
int64_t mo_plan_body_scratch(const struct mo_plan *plan);
/* The parts of a run: the arena bound and inputs set; what a failed layer says; outputs of their own memory.
 */
void mo_plan_body_begin(struct mo_instance *instance, const struct mo_op_ctx *ctx, void *arena,
                        const struct mo_value *in);
int mo_plan_body_tell(const struct mo_instance *instance, const struct mo_op_ctx *ctx, int rc);
int mo_plan_body_outputs(struct mo_instance *instance, const struct mo_op_ctx *ctx, struct mo_value *out);
int mo_plan_body_run(struct mo_instance *instance, const struct mo_op_ctx *ctx, char *scratch,
                     const struct mo_value *in, struct mo_value *out);

/* plan_regions.c: a place for the plans of the region that a layer is. */
int mo_plan_add_region(struct mo_plan *plan, const struct mo_plan_options *options,
                       const struct mo_node *node, moire_error *err);
void mo_plan_free_regions(struct mo_plan *plan);
/* The region that has the body; NULL: none. */
struct mo_plan_region *mo_plan_region_of(const struct mo_plan *plan, const struct mo_graph *body);
/* A plan for these shapes, made now if need be, until it is left.  NULL: the references are to run them. */
struct mo_region_place *mo_plan_region_enter(struct mo_plan_region *region, const struct mo_value *in);
void mo_plan_region_leave(struct mo_plan_region *region, struct mo_region_place *place);
/* Memory for a run, of at least *bytes, which becomes what there is; NULL: there is none.  Given back, it may
 * hold what the run has left: only runs of the same region get it. */
char *mo_plan_region_take_memory(struct mo_plan_region *region, size_t *bytes);
void mo_plan_region_give_memory(struct mo_plan_region *region, char *memory, size_t bytes);
/* Runs the body by such a plan, on one core.  MO_NEED_DATA: the references are to do it. */
int mo_plan_region_run(struct mo_plan_region *region, const struct mo_op_ctx *ctx, const struct mo_value *in,
                       struct mo_value *out);

struct mo_region_place {
    struct mo_plan *plan; /* NULL: the place is free */
    int users;            /* runs that go on */
    int64_t used;         /* when last */
};

/* region_team.c: a region by a team.  As mo_instance_step(), but for the first, false: it is to be run alone.
 */
bool mo_region_team_begin(struct mo_instance *around, const struct mo_step *step, int width, int *pieces);
void mo_region_team_pieces(struct mo_instance *around, int from, int to, int of);
int mo_region_team_again(struct mo_instance *around, int width);
/* Of an instance that is reset while one is under way. */
void mo_region_team_drop(struct mo_instance *around);

/* trim.c: releases constants that no step reads any more because it has packed its own copy. */
void mo_plan_trim(struct mo_plan *plan);
/* MOIRE_ESTORE: a plan built from a compiled model needs weights in a form that the model does not have. */
int mo_plan_check_packed(const struct mo_plan *plan, moire_error *err);

/* reference.c: the operands of a layer, all absent yet, in io. */
struct mo_op_ctx mo_instance_operands(struct mo_instance *instance, const struct mo_node *node);
/* reference.c: runs a layer by its operator's plain C; one worker at a time. */
int mo_reference_run(struct mo_instance *instance, const struct mo_step *step);
/* dynamic.c: the same for layers whose shapes are known only now. */
int mo_dynamic_run(struct mo_instance *instance, const struct mo_step *step);
/* A layer of parts by a team: as mo_instance_step(). */
int mo_dynamic_parts(struct mo_instance *instance, const struct mo_step *step, int width);
/* Its operands, the outputs of unknown shape; and the outputs that an operator has made, into the instance.
 */
struct mo_op_ctx mo_dynamic_operands(struct mo_instance *instance, const struct mo_node *node);
void mo_dynamic_take(struct mo_instance *instance, const struct mo_op_ctx *ctx, int rc);
#endif
