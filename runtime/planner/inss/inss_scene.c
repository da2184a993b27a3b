/* SPDX-License-Identifier: Apache-2.0
 * inss_scene.c - see inss_scene.h. */
#include "runtime/planner/inss/inss_scene.h"

#include <stdlib.h>
#include <string.h>
#include "runtime/learn/td3.h"

static const double most_trait = 4; /* what is larger is cut off */

int mo_inss_slots(const struct mo_plan_kind *kind) {
    int n = kind->units / kind->sizes[0];
    if (n > kind->max_lets) n = kind->max_lets;
    return n < MO_INSS_SLOTS ? n : MO_INSS_SLOTS;
}

int mo_inss_place_state_size(int n_gpus) {
    return MO_INSS_TRAITS + 1 + 5 * n_gpus;
}

int mo_inss_divide_state_size(int n_slots) {
    return n_slots * (1 + MO_INSS_TRAITS) + 2;
}

static float trait(double v) {
    return (float)mo_within(0, most_trait, v);
}

/* a / b of two times; b 0 gives the most. */
static double over(int64_t a, int64_t b) {
    return b > 0 ? (double)a / (double)b : most_trait;
}

void mo_inss_party_look(struct mo_inss_party *p, const struct mo_plan_kind *kind) {
    const struct mo_share_profile *f = p->profile;
    const int64_t one = mo_share_latency(f, 1, MO_SHARE_WHOLE), target = p->target_ns;
    const int eight = f->max_batch < 8 ? f->max_batch : 8, many = f->max_batch < 16 ? f->max_batch : 16;
    const int64_t whole = mo_share_latency(f, eight, MO_SHARE_WHOLE);
    p->cost = mo_share_cost(f, MO_SHARE_WHOLE, target / 2);
    if (!(p->cost < 1e9))
        p->cost = (double)one * 1e-9; /* cannot be in time; asks for that much all the same */
    p->use = mo_share_use_at(f, eight, MO_SHARE_WHOLE / 2);
    p->trait[0] = trait(p->rate * p->cost);
    p->trait[1] = trait(p->queued * p->cost);
    p->trait[2] = trait(2 * over(one, target));
    p->trait[3] = trait(over(mo_share_latency(f, eight, MO_SHARE_WHOLE / 5), 5 * whole));
    p->trait[4] = trait(over(mo_share_latency(f, many, MO_SHARE_WHOLE), many * one));
    p->trait[5] = trait(p->use.l2);
    p->trait[6] = trait(p->use.dram);
    p->trait[7] = trait(over(f->memory_bytes, kind->memory_bytes));
    p->trait[8] = trait(p->rate * (double)target * 1e-9 / MO_INSS_BATCH);
    p->gpu = -1;
    p->units = p->share = p->batch = 0;
}

static int by_demand(const void *a, const void *b) {
    const struct mo_inss_party *x = a, *y = b;
    const double left = x->rate * x->cost, right = y->rate * y->cost;
    return left > right ? -1 : left < right ? 1 : (x->at > y->at) - (x->at < y->at);
}

void mo_inss_sort(struct mo_inss_party *party, int n) {
    qsort(party, (size_t)n, sizeof *party, by_demand);
}

/* What those on a GPU hold of it. */
struct held {
    int n;
    int64_t memory;
    double l2, dram, demand;
};

static struct held held_on(const struct mo_inss_scene *scene, int gpu) {
    struct held h = {0};
    for (int i = 0; i < scene->n; i++) {
        const struct mo_inss_party *p = &scene->party[i];
        if (p->gpu != gpu) continue;
        h.n++;
        h.memory += p->profile->memory_bytes;
        h.l2 += p->use.l2;
        h.dram += p->use.dram;
        h.demand += (p->rate + p->queued) * p->cost;
    }
    return h;
}

bool mo_inss_place_state(const struct mo_inss_scene *scene, int i, float *state, float *mask) {
    const struct mo_inss_party *p = &scene->party[i];
    const int64_t memory = scene->kind->memory_bytes;
    double coming = 0;
    bool any = false;
    for (int j = i; j < scene->n; j++)
        coming += (scene->party[j].rate + scene->party[j].queued) * scene->party[j].cost;
    memcpy(state, p->trait, sizeof p->trait);
    state[MO_INSS_TRAITS] = trait(coming / scene->n_there);
    for (int g = 0; g < scene->n_gpus; g++) {
        const struct held h = held_on(scene, g);
        float *to = state + MO_INSS_TRAITS + 1 + 5 * g;
        to[0] = trait(over(h.memory, memory));
        to[1] = trait(h.l2);
        to[2] = trait(h.dram);
        to[3] = trait(h.demand);
        to[4] = trait((double)h.n / scene->n_slots);
        mask[g] = g < scene->n_there && h.n < scene->n_slots && h.memory + p->profile->memory_bytes <= memory;
        any = any || mask[g] > 0;
    }
    return any;
}

int mo_inss_divide_state(const struct mo_inss_scene *scene, int gpu, float *state, float *mask, int *member) {
    const struct held h = held_on(scene, gpu);
    int n = 0;
    memset(state, 0, (size_t)mo_inss_divide_state_size(scene->n_slots) * sizeof *state);
    memset(mask, 0, (size_t)scene->n_slots * sizeof *mask);
    for (int i = 0; i < scene->n && n < scene->n_slots; i++) {
        float *to = state + n * (1 + MO_INSS_TRAITS);
        if (scene->party[i].gpu != gpu) continue;
        to[0] = 1;
        memcpy(to + 1, scene->party[i].trait, sizeof scene->party[i].trait);
        mask[n] = 1;
        member[n++] = i;
    }
    state[scene->n_slots * (1 + MO_INSS_TRAITS)] = trait(over(h.memory, scene->kind->memory_bytes));
    state[scene->n_slots * (1 + MO_INSS_TRAITS) + 1] = trait(h.demand);
    return n;
}

/* Of n models on a GPU each has the smallest let at least, and of the rest the share that the policy gives
 * it. */
static double part_of(const struct mo_plan_kind *kind, int n, float share) {
    const double least = (double)kind->sizes[0] / kind->units;
    return least + (1 - n * least) * mo_within(0, 1, share);
}

/* off[j][u]: how far the first j shares are from sizes that take u units together, in squared units. */
void mo_inss_divide(struct mo_inss_scene *scene, const int *member, int n, const float *action) {
    const struct mo_plan_kind *k = scene->kind;
    double off[MO_INSS_SLOTS + 1][MO_PLAN_UNITS + 1];
    int last[MO_INSS_SLOTS + 1][MO_PLAN_UNITS + 1] = {{0}}, best = 0;
    for (int j = 0; j <= n; j++)
        for (int u = 0; u <= k->units; u++) {
            off[j][u] = j ? INFINITY : u == 0 ? 0 : INFINITY;
            for (int s = 0; j && s < k->n_sizes && k->sizes[s] <= u; s++) {
                const double miss = k->sizes[s] - part_of(k, n, action[j - 1]) * k->units;
                const double sum = off[j - 1][u - k->sizes[s]] + miss * miss;
                if (!(sum < off[j][u])) continue;
                off[j][u] = sum;
                last[j][u] = k->sizes[s];
            }
        }
    for (int u = 1; u <= k->units; u++) /* of equals the one that leaves least */
        if (off[n][u] <= off[n][best] || !best) best = u;
    for (int j = n; j > 0; j--) {
        struct mo_inss_party *p = &scene->party[member[j - 1]];
        p->share = (int)(MO_SHARE_WHOLE * part_of(k, n, action[j - 1]) + 0.5);
        p->units = last[j][best];
        best -= p->units;
        p->batch = mo_td3_batch(action[scene->n_slots + j - 1], MO_INSS_BATCH);
        if (p->batch > p->profile->max_batch) p->batch = p->profile->max_batch;
    }
}
