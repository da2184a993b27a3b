/* SPDX-License-Identifier: Apache-2.0
 * plan_regions.c - plans of regions: layers whose shapes are known only when they run (codegen/passes/
 * pass_regions.c).
 *
 * A region keeps plans for the shapes that came last, at most MOST_PLANS; the one that has not been used for
 * longest goes.  All have the same packed weights: the first plan packs them, the others are made of a graph
 * whose weights are elided.  Where shapes want a weight packed in a way that is not there yet, the plan is
 * made again with the plain weights, which stay: so often as there are such ways, and no more.  Shapes for
 * which there can be no plan are remembered, so that it is tried once; out of memory, it is tried again.
 * Plans are made under the region's lock.  Activations lie in memory that a run takes and gives back: the
 * region keeps one block for the next run of the same tenant, since pages that come from the system are
 * zeroed first. */
#include <string.h>
#include "runtime/base/lock.h"
#include "runtime/base/numbers.h"
#include "runtime/plan/plan_impl.h"
#include "variants/packed.h"

enum { MOST_PLANS = 16, MOST_REFUSED = 16, MOST_DEPTH = 4, ALIGN = 64, HUGE_PAGE = 2 << 20 };

struct mo_plan_region {
    struct mo_plan_region *next;
    const struct mo_env *env;
    const struct mo_graph *body;
    struct mo_plan_options options;
    struct mo_weights *weights;
    void *hollow; /* what elided weights point to: never touched, so that it takes no memory */
    struct mo_lock lock;
    int64_t clock;
    bool told;  /* that there was no plan for some shapes */
    char *kept; /* of kept_bytes, for a run; NULL: a run has it, or none has been */
    size_t kept_bytes;
    struct mo_region_place place[MOST_PLANS];
    struct mo_value *refused[MOST_REFUSED]; /* own inputs without contents; NULL: none yet */
    int next_refused;                       /* the one that goes for a further one */
};

int mo_plan_add_region(struct mo_plan *plan, const struct mo_plan_options *options,
                       const struct mo_node *node, moire_error *err) {
    const struct mo_graph *body = mo_node_body(node, "body");
    int64_t most = 1;
    if (!options->shaped || !body || options->depth >= MOST_DEPTH) return MOIRE_OK;
    struct mo_plan_region *region = mo_region_alloc(plan->region, sizeof *region);
    for (int i = 0; i < body->n_tensors; i++)
        if (body->tensors[i]->data && mo_tensor_bytes(body->tensors[i]) > most)
            most = mo_tensor_bytes(body->tensors[i]);
    if (!region) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a region");
    *region =
        (struct mo_plan_region){.next = plan->regions, .env = plan->env, .body = body, .options = *options};
    region->options.variant = NULL;
    region->options.depth++;
    region->hollow = mo_alloc(plan->env, (size_t)most);
    region->weights = mo_weights_create(plan->env);
    plan->regions = region;
    return region->hollow && region->weights ? MOIRE_OK
                                             : mo_fail(err, MOIRE_ENOMEM, "out of memory for a region");
}

void mo_plan_free_regions(struct mo_plan *plan) {
    for (struct mo_plan_region *region = plan->regions; region; region = region->next) {
        for (int i = 0; i < MOST_PLANS; i++)
            mo_plan_destroy(region->place[i].plan);
        for (int i = 0; i < MOST_REFUSED; i++)
            mo_free(plan->env, region->refused[i]);
        mo_weights_destroy(region->weights);
        mo_free(plan->env, region->kept);
        mo_free(plan->env, region->hollow);
    }
    plan->regions = NULL;
}

struct mo_plan_region *mo_plan_region_of(const struct mo_plan *plan, const struct mo_graph *body) {
    struct mo_plan_region *region = plan->regions;
    while (region && region->body != body)
        region = region->next;
    return region;
}

struct mo_plan_shaped mo_plan_count_shaped(const struct mo_plan *plan) {
    struct mo_plan_shaped all = {0};
    for (struct mo_plan_region *region = plan->regions; region; region = region->next) {
        mo_lock_take(region->env->sys, &region->lock);
        for (int i = 0; i < MOST_PLANS; i++)
            all.plans += region->place[i].plan != NULL;
        mo_lock_drop(region->env->sys, &region->lock);
        all.weight_bytes += mo_weights_bytes(region->weights);
        all.regions++;
    }
    return all;
}

/* --- plans ---------------------------------------------------------------------------------------------- */

/* Nothing is planned for tensors that are empty, or not of numbers. */
static bool is_plannable(const struct mo_graph *body, const struct mo_value *in) {
    for (int i = 0; i < body->n_inputs - body->n_captured; i++)
        if (in[i].dtype == MO_BUNDLE || !mo_dtype_bytes(in[i].dtype) || mo_shape_count(&in[i].shape) < 1)
            return false;
    return true;
}

static int own_inputs(const struct mo_plan_region *region) {
    return region->body->n_inputs - region->body->n_captured;
}

static bool is_refused(const struct mo_plan_region *region, const struct mo_value *in) {
    for (int i = 0; i < MOST_REFUSED && region->refused[i]; i++) {
        const struct mo_value *r = region->refused[i];
        int same = 0;
        while (same < own_inputs(region) && in[same].dtype == r[same].dtype &&
               mo_shape_equal(&in[same].shape, &r[same].shape))
            same++;
        if (same == own_inputs(region)) return true;
    }
    return false;
}

/* Where there is no memory for that, it is tried again. */
static void refuse(struct mo_plan_region *region, const struct mo_value *in) {
    const size_t n = (size_t)own_inputs(region);
    struct mo_value *shapes = mo_alloc(region->env, (n + 1) * sizeof *shapes);
    if (!shapes) return;
    for (size_t i = 0; i < n; i++)
        shapes[i] = (struct mo_value){.dtype = in[i].dtype, .shape = in[i].shape};
    mo_free(region->env, region->refused[region->next_refused]);
    region->refused[region->next_refused] = shapes;
    region->next_refused = (region->next_refused + 1) % MOST_REFUSED;
}

static int build(struct mo_plan_region *region, const struct mo_value *in, const void *elided,
                 struct mo_plan **plan, bool *lacked, moire_error *err) {
    struct mo_graph *graph;
    *plan = NULL;
    int rc = region->options.shaped(region->body, in, region->weights, elided, &graph, err);
    if (rc) return rc;
    rc = mo_plan_build(graph, &region->options, plan, err);
    *lacked = !rc && (*plan)->graph->packed->lacked;
    return rc;
}

/* The lock is held. */
static struct mo_plan *make(struct mo_plan_region *region, const struct mo_value *in, moire_error *err) {
    const bool packed = mo_weights_bytes(region->weights) > 0;
    struct mo_plan *plan = NULL;
    bool lacked = false;
    int rc = packed ? build(region, in, region->hollow, &plan, &lacked, err) : MOIRE_ESTORE;
    if (rc == MOIRE_ESTORE || lacked) {
        struct mo_plan *poor = plan; /* it keeps what is packed until the other has it */
        (void)build(region, in, NULL, &plan, &lacked, err);
        mo_plan_destroy(poor);
    }
    return plan;
}

/* A free place, or that of the plan that has not been used for longest; NULL: all are running. */
static struct mo_region_place *free_place(struct mo_plan_region *region) {
    struct mo_region_place *oldest = NULL;
    for (int i = 0; i < MOST_PLANS; i++) {
        struct mo_region_place *s = &region->place[i];
        if (!s->plan) return s;
        if (!s->users && (!oldest || s->used < oldest->used)) oldest = s;
    }
    return oldest;
}

/* The lock is held.  NULL: there is none, and none can be made now. */
static struct mo_region_place *plan_for(struct mo_plan_region *region, const struct mo_value *in,
                                        moire_error *err) {
    for (int i = 0; i < MOST_PLANS; i++)
        if (region->place[i].plan && mo_plan_fits(region->place[i].plan, in)) return &region->place[i];
    struct mo_region_place *s = is_refused(region, in) ? NULL : free_place(region);
    if (!s) return NULL;
    struct mo_plan *plan = make(region, in, err);
    if (!plan && err->code != MOIRE_ENOMEM) refuse(region, in);
    if (!plan) return NULL;
    mo_plan_destroy(s->plan); /* after the new one has the weights */
    *s = (struct mo_region_place){.plan = plan};
    return s;
}

/* Slow, but right: said once, with the first layer's name. */
static void tell(struct mo_plan_region *region, const moire_error *why) {
    if (!why->code || region->told) return;
    region->told = true;
    mo_log(region->env, MOIRE_LOG_WARN,
           "layers from '%.64s' on run by the reference: no plan for their shapes: %s",
           region->body->nodes[0]->name, why->message);
}

struct mo_region_place *mo_plan_region_enter(struct mo_plan_region *region, const struct mo_value *in) {
    if (!is_plannable(region->body, in)) return NULL;
    moire_error why = {0};
    mo_lock_take(region->env->sys, &region->lock);
    struct mo_region_place *s = plan_for(region, in, &why);
    if (!s) tell(region, &why);
    if (s) {
        s->users++;
        s->used = ++region->clock;
    }
    mo_lock_drop(region->env->sys, &region->lock);
    return s;
}

void mo_plan_region_leave(struct mo_plan_region *region, struct mo_region_place *s) {
    mo_lock_take(region->env->sys, &region->lock);
    s->users--;
    mo_lock_drop(region->env->sys, &region->lock);
}

/* --- running one ---------------------------------------------------------------------------------------- */

char *mo_plan_region_take_memory(struct mo_plan_region *region, size_t *bytes) {
    const struct mo_sys *sys = region->env->sys;
    mo_lock_take(sys, &region->lock);
    char *memory = region->kept;
    const size_t have = region->kept_bytes;
    region->kept = NULL;
    mo_lock_drop(sys, &region->lock);
    if (memory && have >= *bytes) {
        *bytes = have;
        return memory;
    }
    mo_free(region->env, memory);
    return sys->alloc(sys->self, *bytes >= HUGE_PAGE ? HUGE_PAGE : ALIGN, *bytes);
}

void mo_plan_region_give_memory(struct mo_plan_region *region, char *memory, size_t bytes) {
    mo_lock_take(region->env->sys, &region->lock);
    char *spare = region->kept;
    if (memory && (!spare || region->kept_bytes < bytes)) {
        region->kept = memory;
        region->kept_bytes = bytes;
    } else {
        spare = memory;
    }
    mo_lock_drop(region->env->sys, &region->lock);
    mo_free(region->env, spare);
}

static int run(struct mo_plan_region *region, const struct mo_plan *plan, const struct mo_op_ctx *ctx,
               const struct mo_value *in, struct mo_value *out) {
    size_t bytes = (size_t)mo_plan_body_scratch(plan);
    struct mo_instance *instance;
    int rc = mo_instance_create_bare(plan, &instance, ctx->err);
    if (rc) return rc;
    char *memory = mo_plan_region_take_memory(region, &bytes);
    rc = memory ? mo_plan_body_run(instance, ctx, memory, in, out)
                : mo_op_fail(ctx, MOIRE_ENOMEM, "out of memory (%zu bytes)", bytes);
    mo_instance_destroy(instance);
    mo_plan_region_give_memory(region, memory, bytes);
    return rc;
}

int mo_plan_region_run(struct mo_plan_region *region, const struct mo_op_ctx *ctx, const struct mo_value *in,
                       struct mo_value *out) {
    struct mo_region_place *s = mo_plan_region_enter(region, in);
    if (!s) return MO_NEED_DATA;
    const int rc = run(region, s->plan, ctx, in, out);
    mo_plan_region_leave(region, s);
    return rc;
}
