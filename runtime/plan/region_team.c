/* SPDX-License-Identifier: Apache-2.0
 * region_team.c - a region by a team: layers whose shapes are known only when they run (plan_regions.c).
 *
 * Each layer of the region's plan that is worth sharing is a round of the step that the region is.  Whoever
 * has finished the last piece of a round is the only one at work, and goes on with the next layers.  Pieces
 * need scratch memory of the region's plan, of which the team's workers know nothing: a piece takes one of
 * the slots that were made for the team's width, and gives it back.  A member that joins a team that has
 * grown since waits for a slot, which those that run hold for a piece only. */
#include "runtime/base/lock.h"
#include "runtime/base/numbers.h"
#include "runtime/plan/plan_impl.h"

enum { MOST_SLOTS = 64, ALIGN = 64 };

struct mo_region_team {
    struct mo_plan_region *region;
    struct mo_region_place *place;
    struct mo_instance *instance; /* of the place's plan */
    const struct mo_node *node;   /* the region among the layers around it */
    char *memory, *slots;         /* the arena, and behind it the slots */
    size_t bytes, slot_bytes;     /* of the memory, and of a slot */
    int layer;                    /* that runs now */
    int64_t left;                 /* runs of bodies that are allowed, where nobody around counts them */
    _Atomic uint64_t free;        /* a bit for each slot */
};

static void end(struct mo_instance *around) {
    struct mo_region_team *team = around->inside;
    around->inside = NULL;
    mo_instance_destroy(team->instance);
    mo_plan_region_give_memory(team->region, team->memory, team->bytes);
    mo_plan_region_leave(team->region, team->place);
    mo_free(around->env, team);
}

void mo_region_team_drop(struct mo_instance *around) {
    if (around->inside) end(around);
}

/* The layers are over, or one has failed. */
static int finish(struct mo_instance *around, int rc) {
    struct mo_region_team *team = around->inside;
    const struct mo_op_ctx ctx = mo_dynamic_operands(around, team->node);
    if (!rc) rc = mo_plan_body_outputs(team->instance, &ctx, ctx.out);
    mo_dynamic_take(around, &ctx, rc);
    end(around);
    if (rc) around->rc = rc;
    return rc;
}

/* Up to a layer that is shared: its pieces.  The caller is the only one at work. */
static int go_on(struct mo_instance *around, int width) {
    struct mo_region_team *team = around->inside;
    const struct mo_op_ctx ctx = {.node = team->node, .env = around->env, .err = &around->err};
    for (; team->layer < team->instance->plan->n_steps; team->layer++) {
        if (mo_body_unwanted(&around->host)) return finish(around, mo_body_cancelled(&ctx));
        const int pieces = mo_instance_step(team->instance, team->layer, width, team->slots);
        if (pieces > 0) return pieces;
        if (pieces < 0) return finish(around, mo_plan_body_tell(team->instance, &ctx, pieces));
    }
    return finish(around, MOIRE_OK);
}

static int prepare(struct mo_region_team *team, const struct mo_op_ctx *ctx, int width) {
    const struct mo_plan *plan = team->place->plan;
    const int slots = width < 1 ? 1 : width > MOST_SLOTS ? MOST_SLOTS : width;
    const size_t arena = (size_t)mo_round_up((int64_t)mo_instance_arena_bytes(plan), ALIGN);
    team->slot_bytes = (size_t)mo_round_up(plan->scratch_bytes + ALIGN, ALIGN);
    team->bytes = arena + (size_t)slots * team->slot_bytes;
    int rc = mo_instance_create_bare(plan, &team->instance, ctx->err);
    if (rc) return rc;
    team->memory = mo_plan_region_take_memory(team->region, &team->bytes);
    if (!team->memory) return mo_op_fail(ctx, MOIRE_ENOMEM, "out of memory (%zu bytes)", team->bytes);
    team->slots = team->memory + arena;
    team->free = UINT64_MAX >> (MOST_SLOTS - slots);
    mo_plan_body_begin(team->instance, ctx, team->memory, ctx->in);
    return MOIRE_OK;
}

bool mo_region_team_begin(struct mo_instance *around, const struct mo_step *step, int width, int *pieces) {
    const struct mo_graph *body = mo_node_body(step->node, "body");
    struct mo_plan_region *region = body ? mo_plan_region_of(around->plan, body) : NULL;
    if (!region || body->n_inputs != step->node->n_in || body->n_outputs != step->node->n_out) return false;
    struct mo_op_ctx ctx = mo_dynamic_operands(around, step->node);
    struct mo_region_place *place = mo_plan_region_enter(region, ctx.in);
    if (!place) return false;
    struct mo_region_team *team = mo_alloc(around->env, sizeof *team);
    if (!team) {
        mo_plan_region_leave(region, place);
        *pieces = around->rc = mo_op_fail(&ctx, MOIRE_ENOMEM, "out of memory");
        return true;
    }
    struct mo_body_host host = around->host;
    team->left = around->env->limits.loop_trips;
    if (!host.left) host.left = &team->left;
    ctx.host = &host;
    team->region = region;
    team->place = place;
    team->node = step->node;
    around->inside = team;
    const int rc = prepare(team, &ctx, width);
    *pieces = rc ? finish(around, rc) : go_on(around, width);
    return true;
}

int mo_region_team_again(struct mo_instance *around, int width) {
    struct mo_region_team *team = around->inside;
    const int pieces = mo_instance_again(team->instance, team->layer, width);
    if (pieces > 0) return pieces;
    if (!pieces) team->layer++;
    return go_on(around, width);
}

/* --- pieces --------------------------------------------------------------------------------------------- */

static int take_slot(struct mo_region_team *team) {
    uint64_t free = atomic_load_explicit(&team->free, memory_order_relaxed);
    for (;;) {
        if (!free) {
            mo_cpu_relax();
            free = atomic_load_explicit(&team->free, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak_explicit(&team->free, &free, free & (free - 1),
                                                         memory_order_acquire, memory_order_relaxed)) {
            return __builtin_ctzll(free);
        }
    }
}

void mo_region_team_pieces(struct mo_instance *around, int from, int to, int of) {
    struct mo_region_team *team = around->inside;
    const int slot = take_slot(team);
    mo_instance_pieces(team->instance, team->layer, from, to, of,
                       team->slots + (size_t)slot * team->slot_bytes);
    atomic_fetch_or_explicit(&team->free, UINT64_C(1) << slot, memory_order_release);
}
