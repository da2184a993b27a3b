/* SPDX-License-Identifier: Apache-2.0
 * ladder.c - plans by price of time; see ladder.h. */
#include "runtime/profile/ladder.h"

#include <math.h>
#include "runtime/profile/profile.h"

static const double LEAST_PRICE = 0x1p-6, MOST_PRICE = 1e9;
/* Of the time, the part in which plans take memory to be full. */
static const double CROWDED = 0.2;

/* The best plan from a layer on that begins on so many cores. */
struct mo_ladder_path {
    double cost, time, work;
};

static double price_of(int rung) {
    if (rung == 0) return 0;
    return rung == MO_LADDER_RUNGS - 1 ? MOST_PRICE : LEAST_PRICE * pow(2, (rung - 1) / 2.0);
}

/* To begin with, each core costing so much besides. */
static int cheapest(const struct mo_ladder_path *path, int most, double per_core) {
    int best = 1;
    double least = path[1].cost + per_core;
    for (int c = 2; c <= most; c++) {
        double cost = path[c].cost + per_core * c;
        if (cost >= least) continue;
        least = cost;
        best = c;
    }
    return best;
}

/* A layer's mean time; crowded: beside neighbours that fill the memory now and then. */
static double time_of(const struct mo_profile *p, bool crowded, int cores, int layer) {
    double alone = (double)mo_profile_time(p, cores, layer, layer + 1);
    if (!crowded) return alone;
    double full = (double)mo_profile_at(p, 1, cores, layer, layer + 1).under;
    return full > alone ? alone + CROWDED * (full - alone) : alone;
}

/* From the plans behind a layer to those from it on. */
static void step_back(const struct mo_profile *p, bool crowded, int layer, double price,
                      struct mo_ladder_path *path) {
    const double lost = MO_LADDER_SWITCH_NS;
    int other = cheapest(path, p->max_cores, lost);
    struct mo_ladder_path next = path[other];
    next.cost += lost * (other + price);
    next.time += lost;
    next.work += lost * other;
    for (int c = 1; c <= p->max_cores; c++) {
        double t = time_of(p, crowded, c, layer);
        struct mo_ladder_path *to = &path[c];
        if (next.cost < to->cost && layer < p->n_layers - 1) *to = next;
        to->cost += (c + price) * t;
        to->time += t;
        to->work += c * t;
    }
}

static void fill_rung(struct mo_profile *p, bool crowded, int rung) {
    struct mo_ladder *ladder = crowded ? &p->crowded : &p->ladder;
    struct mo_ladder_path *path = ladder->path;
    double price = price_of(rung);
    ladder->most[rung] = 1;
    for (int c = 0; c <= p->max_cores; c++)
        path[c] = (struct mo_ladder_path){0};
    for (int behind = 0; behind < 2; behind++)
        ladder->step[((int64_t)p->n_layers + behind) * MO_LADDER_RUNGS + rung] =
            (struct mo_ladder_step){.cores = 1};
    for (int layer = p->n_layers - 1; layer >= 0; layer--) {
        step_back(p, crowded, layer, price, path);
        int best = cheapest(path, p->max_cores, 0);
        ladder->step[(int64_t)layer * MO_LADDER_RUNGS + rung] = (struct mo_ladder_step){
            .time = (float)path[best].time, .work = (float)path[best].work, .cores = best};
        if (best > ladder->most[rung]) ladder->most[rung] = best;
    }
}

static bool open_one(const struct mo_profile *p, struct mo_ladder *ladder) {
    size_t steps;
    if (__builtin_mul_overflow((size_t)p->n_layers + 2, (size_t)MO_LADDER_RUNGS, &steps) ||
        steps > SIZE_MAX / sizeof *ladder->step)
        return false;
    ladder->step = mo_alloc(p->env, steps * sizeof *ladder->step);
    ladder->path = mo_alloc(p->env, ((size_t)p->max_cores + 1) * sizeof *ladder->path);
    return ladder->step && ladder->path;
}

bool mo_ladder_open(struct mo_profile *p) {
    return open_one(p, &p->ladder);
}

void mo_ladder_close(struct mo_profile *p) {
    mo_free(p->env, p->ladder.step);
    mo_free(p->env, p->ladder.path);
    mo_free(p->env, p->crowded.step);
    mo_free(p->env, p->crowded.path);
}

void mo_ladder_fill(struct mo_profile *p) {
    for (int rung = 0; rung < MO_LADDER_RUNGS; rung++)
        fill_rung(p, false, rung);
}

bool mo_ladder_crowd(struct mo_profile *p) {
    if (!open_one(p, &p->crowded)) return false;
    for (int rung = 0; rung < MO_LADDER_RUNGS; rung++)
        fill_rung(p, true, rung);
    return true;
}

static const struct mo_ladder *which(const struct mo_profile *p, bool crowded) {
    return crowded && p->crowded.step ? &p->crowded : &p->ladder;
}

const struct mo_ladder_step *mo_ladder_from(const struct mo_profile *p, bool crowded, int layer) {
    return which(p, crowded)->step + (int64_t)layer * MO_LADDER_RUNGS;
}

int mo_ladder_top(const struct mo_profile *p, bool crowded, int cores) {
    const struct mo_ladder *ladder = which(p, crowded);
    int top = MO_LADDER_RUNGS - 1;
    while (top > 0 && ladder->most[top] > cores)
        top--;
    return top;
}
