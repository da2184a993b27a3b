/* SPDX-License-Identifier: Apache-2.0
 * run.c - runs layers: on one core, or cut into pieces that the members of a team claim.
 *
 * Small layers and references run on one core alone.  Any other has a range of units for every member, as
 * long as it is worth it in several pieces: the more of them, the sooner a core can join, leave or take over
 * from a slow one in the middle of a layer.  A piece is some 5 us of work at least, against 0.05 us for
 * claiming it.  Where the units of one call share what it prepares first (transformed tiles, packed rows),
 * a second piece would prepare it again: there a range is one piece.  A member that is alone cuts long layers
 * likewise, for those who join it.  The layers after a failed one are skipped.
 *
 * A layer with fewer units than the team has members may have rounds; whoever finishes one begins the next.
 * A region's layers are rounds of it (region_team.c).
 */
#include "runtime/plan/plan_impl.h"
#include "runtime/plan/versions.h"

enum {
    /* Below this, the others cost more than they save (handing a layer over takes some 0.3 us). */
    SMALL_FLOPS = 40000,
    SMALL_BYTES = 16384,
    /* A piece: some 5 us. */
    PIECE_FLOPS = 500000,
    PIECE_BYTES = 64 << 10,
    MOST_PIECES = 16, /* of one member */
    /* From some 200 us on one core cuts a layer, too, so that others can join it. */
    LONG_FLOPS = 20000000,
    LONG_BYTES = 2 << 20,
    LONG_ROUND_FLOPS = 1000000 /* a hundredth of it is what a round costs one core */
};

/* What runs a step of this instance, and in how many units. */
static mo_kernel *kernel_of(const struct mo_instance *instance, int k, int64_t *units) {
    const struct mo_step *step = &instance->plan->steps[k];
    const struct mo_version *v = step->n_versions > 1 ? &step->version[instance->pick[k]] : NULL;
    *units = v ? v->units : step->units;
    return v ? v->run : step->run;
}

static bool is_view(const struct mo_step *step) {
    return !step->run && !step->units;
}

/* Layers that one worker runs. */
static bool is_single(const struct mo_step *step) {
    return !step->run || step->units < 2 || (step->flops < SMALL_FLOPS && step->bytes < SMALL_BYTES);
}

/* Its layers are shared one by one, as those around it (region_team.c). */
static bool is_region(const struct mo_step *step) {
    return step->dynamic && mo_node_is_ours(step->node, "Region");
}

/* A reference whose work is independent parts. */
static bool has_parts(const struct mo_step *step) {
    return step->dynamic && step->parts;
}

static bool is_long(const struct mo_step *step) {
    return step->flops >= LONG_FLOPS || step->bytes >= LONG_BYTES;
}

/* One core that is alone has rounds, too, so that others can join it, where they are long. */
static bool has_rounds(const struct mo_step *step, int width) {
    if (!step->rounds) return false;
    return step->units < width ||
           (step->units == 1 && is_long(step) && step->flops / step->rounds->n >= LONG_ROUND_FLOPS);
}

int mo_step_workers(const struct mo_step *step, int n_workers) {
    int64_t units = step->units;
    if (has_rounds(step, n_workers))
        return step->rounds->pieces < n_workers ? (int)step->rounds->pieces : n_workers;
    if (is_region(step) || has_parts(step)) return n_workers;
    if (is_single(step)) return 1;
    for (int i = 1; i < step->n_versions; i++)
        if (step->version[i].units > units) units = step->version[i].units;
    return units < n_workers ? (int)units : n_workers;
}

int64_t mo_step_useful(const struct mo_step *step) {
    int64_t flops = step->flops / SMALL_FLOPS, bytes = step->bytes / SMALL_BYTES;
    int64_t most = flops > bytes ? flops : bytes;
    return most > 1 ? most : 1;
}

static int run_alone(struct mo_instance *instance, int k, void *scratch) {
    const struct mo_step *step = &instance->plan->steps[k];
    int rc = MOIRE_OK;
    int64_t units;
    mo_kernel *run = kernel_of(instance, k, &units);
    instance->scratch = scratch;
    if (run)
        run(&instance->args[k], 0, units, scratch);
    else if (!is_view(step))
        rc = step->dynamic ? mo_dynamic_run(instance, step) : mo_reference_run(instance, step);
    if (rc) instance->rc = rc;
    return rc;
}

/* The units of a call share what it prepares. */
static bool is_joint(const struct mo_instance *instance, int k) {
    const struct mo_step *step = &instance->plan->steps[k];
    enum mo_packing packing = step->n_versions > 1 ? step->version[instance->pick[k]].packing : step->packing;
    if (packing == MO_PACK_GROUPS16) return step->joint;
    return step->joint || step->node->fuse.gated || packing > MO_PACK_GEMM16; /* Winograd, Strassen */
}

static int pieces_of(const struct mo_instance *instance, int k, int width) {
    const struct mo_step *step = &instance->plan->steps[k];
    int64_t units, flops = step->flops / PIECE_FLOPS, bytes = step->bytes / PIECE_BYTES;
    int64_t each = is_joint(instance, k) ? 1 : (flops > bytes ? flops : bytes) / width;
    (void)kernel_of(instance, k, &units);
    if (each < 1) each = 1;
    if (each > MOST_PIECES) each = MOST_PIECES;
    return (int)(units < each * width ? units : each * width);
}

static void *shared_of(const struct mo_instance *instance) {
    return instance->arena + instance->plan->rounds_at;
}

/* Pieces of the round that begins. */
static int next_round(struct mo_instance *instance, int layer, int width) {
    const struct mo_rounds *r = instance->plan->steps[layer].rounds;
    instance->round++;
    return (int)(r->pieces < width ? r->pieces : width);
}

int mo_instance_again(struct mo_instance *instance, int layer, int width) {
    if (instance->inside) return mo_region_team_again(instance, width);
    instance->parts = NULL;
    if (instance->round && instance->round < instance->plan->steps[layer].rounds->n)
        return next_round(instance, layer, width);
    instance->round = 0;
    return 0;
}

int mo_instance_step(struct mo_instance *instance, int layer, int width, void *scratch) {
    if (instance->rc) return instance->rc;
    const struct mo_step *step = &instance->plan->steps[layer];
    int pieces;
    if (is_region(step) && mo_region_team_begin(instance, step, width, &pieces)) return pieces;
    if (width > 1 && has_parts(step)) return mo_dynamic_parts(instance, step, width);
    if (has_rounds(step, width)) {
        step->rounds->begin(&instance->args[layer], shared_of(instance));
        return next_round(instance, layer, width);
    }
    if (!is_single(step) && (width > 1 || is_long(step))) {
        pieces = pieces_of(instance, layer, width);
        if (width > 1 || pieces > 1) return pieces;
    }
    return run_alone(instance, layer, scratch);
}

void mo_instance_run_units(struct mo_instance *instance, int layer, int64_t begin, int64_t end,
                           void *scratch) {
    int64_t units;
    mo_kernel *run = kernel_of(instance, layer, &units);
    if (begin < end) run(&instance->args[layer], begin, end, scratch);
}

void mo_instance_pieces(struct mo_instance *instance, int layer, int from, int to, int of, void *scratch) {
    const struct mo_rounds *r = instance->plan->steps[layer].rounds;
    int64_t units;
    if (instance->inside) {
        mo_region_team_pieces(instance, from, to, of);
        return;
    }
    if (instance->parts) {
        const int64_t n = instance->n_parts;
        instance->parts->run(&instance->shared, n * from / of, n * to / of);
        return;
    }
    mo_kernel *run = kernel_of(instance, layer, &units);
    if (instance->round)
        r->run(&instance->args[layer], shared_of(instance), instance->round - 1, r->units * from / of,
               r->units * to / of, scratch);
    else
        run(&instance->args[layer], units * from / of, units * to / of, scratch);
}

int mo_instance_run(struct mo_instance *instance, int begin, int end, void *scratch) {
    for (int k = begin; k < end && !instance->rc; k++)
        run_alone(instance, k, scratch);
    return instance->rc;
}
