/* SPDX-License-Identifier: Apache-2.0
 * released_state.c - times, batches, memory and link of the released scheduler; see released.h. */
#include <math.h>
#include "runtime/planner/released/released.h"

static const struct mo_share_profile *profile_of(const struct mo_released *r, int tenant) {
    return r->view->tenants[tenant].profile[r->view->gpu_kind[0]];
}

double mo_released_alone(const struct mo_released *r, int tenant, int batch, int units) {
    const struct mo_share_profile *p = profile_of(r, tenant);
    int share = mo_share_of_units(units, r->kind->units);
    return (double)(mo_share_latency(p, batch, share) + mo_share_copy(p, batch)) * 1e-6 * r->rules.latency;
}

/* Use on a let = use on the whole GPU x size. */
static struct mo_share_use use_of(const struct mo_released *r, int tenant, int batch, int units) {
    struct mo_share_use use = mo_share_use_at(profile_of(r, tenant), batch, MO_SHARE_WHOLE);
    double part = (double)units / r->kind->units;
    return (struct mo_share_use){use.sm * part, use.l2 * part, use.dram * part};
}

static double slowdown(const struct mo_released *r, const struct mo_released_node *node, int tenant,
                       int batch) {
    const struct mo_released_gpu *gpu = &r->gpus[node->gpu];
    struct mo_share_use self = use_of(r, tenant, batch, node->units);
    double worst = 1;
    if (!r->rules.interference || node->gpu >= r->view->n_gpus) return 1;
    for (int i = 0; i < gpu->n; i++)
        for (int p = 0; p < gpu->nodes[i].n && !mo_released_same(node, &gpu->nodes[i]); p++) {
            const struct mo_released_piece *other = &gpu->nodes[i].pieces[p];
            struct mo_share_use use = use_of(r, other->tenant, other->batch, gpu->nodes[i].units);
            worst = fmax(worst, mo_interference(&r->kind->interference, &self, &use, 1));
        }
    return worst;
}

double mo_released_time(const struct mo_released *r, const struct mo_released_node *node, int tenant,
                        int batch) {
    return mo_released_alone(r, tenant, batch, node->units) * slowdown(r, node, tenant, batch);
}

/* One query at a time is in time, but its duty cycle is too long: the rate that has the longest one allowed.
 */
static int seldom(const struct mo_released *r, const struct mo_released_task *task,
                  const struct mo_released_node *node, double *rate) {
    double one = mo_released_time(r, node, task->tenant, 1);
    if (!(one < 1000 / *rate && one < task->target)) return 0;
    *rate = fmax(1, floor(1000 / (task->target - one) * r->rules.latency));
    return 1;
}

int mo_released_batch(const struct mo_released *r, const struct mo_released_task *task,
                      const struct mo_released_node *node, double *rate, bool residual, bool neighbours) {
    int low = 0, high = MO_RELEASED_BATCH;
    while (high - low > 1) {
        int mid = (low + high) / 2;
        double time = neighbours ? mo_released_time(r, node, task->tenant, mid)
                                 : mo_released_alone(r, task->tenant, mid, node->units);
        double gather = residual ? 1000 * mid / *rate : time;
        if (time + gather <= task->target)
            low = mid;
        else
            high = mid;
    }
    return low || !residual ? low : seldom(r, task, node, rate);
}

static bool model_loaded(const struct mo_released *r, const struct mo_released_node *node, int tenant) {
    const struct mo_released_gpu *gpu = &r->gpus[node->gpu];
    if (!gpu->loaded[node->units][node->twin]) return false;
    for (int i = 0; i < gpu->n; i++)
        for (int p = 0; p < gpu->nodes[i].n && mo_released_same(node, &gpu->nodes[i]); p++)
            if (gpu->nodes[i].pieces[p].tenant == tenant) return true;
    return false;
}

static int64_t needed(const struct mo_released *r, const struct mo_released_node *node, int tenant) {
    bool there = r->gpus[node->gpu].loaded[node->units][node->twin];
    return profile_of(r, tenant)->memory_bytes + (there ? 0 : r->rules.context_bytes);
}

bool mo_released_memory(const struct mo_released *r, const struct mo_released_node *node, int tenant) {
    if (model_loaded(r, node, tenant)) return true;
    double room = (double)r->kind->memory_bytes * r->rules.memory - (double)r->gpus[node->gpu].used;
    return room > (double)needed(r, node, tenant);
}

void mo_released_load(struct mo_released *r, const struct mo_released_node *node, int tenant) {
    struct mo_released_gpu *gpu = &r->gpus[node->gpu];
    if (model_loaded(r, node, tenant) || !mo_released_memory(r, node, tenant)) return;
    gpu->used += needed(r, node, tenant);
    gpu->loaded[node->units][node->twin] = true;
}

void mo_released_unload(struct mo_released *r, const struct mo_released_node *node, int tenant) {
    if (model_loaded(r, node, tenant)) r->gpus[node->gpu].used -= profile_of(r, tenant)->memory_bytes;
}

static double bits_of(const struct mo_released *r, const struct mo_released_piece *piece) {
    return piece->served * 8 * (double)profile_of(r, piece->tenant)->in_bytes;
}

static double link_left(const struct mo_released *r, int gpu) {
    double left = r->rules.link_bits;
    for (int i = 0; i < r->gpus[gpu].n; i++)
        for (int p = 0; p < r->gpus[gpu].nodes[i].n; p++)
            left -= bits_of(r, &r->gpus[gpu].nodes[i].pieces[p]);
    return left;
}

bool mo_released_link(const struct mo_released *r, int gpu) {
    return !(r->rules.link_bits > 0) || link_left(r, gpu) >= 0;
}

bool mo_released_link_cut(const struct mo_released *r, int gpu, struct mo_released_piece *piece) {
    if (!(r->rules.link_bits > 0)) return true;
    double left = link_left(r, gpu), each = bits_of(r, piece) / piece->batch;
    for (int b = piece->batch; b > 0 && left > 0; b--)
        if (b * each <= left) {
            piece->served *= (double)b / piece->batch;
            piece->batch = b;
            return true;
        }
    return false;
}

static double sum_of_times(const struct mo_released *r, const struct mo_released_node *node) {
    double sum = 0;
    for (int p = 0; p < node->n; p++)
        sum += mo_released_time(r, node, node->pieces[p].tenant, node->pieces[p].batch);
    return sum;
}

static double target_of(const struct mo_released *r, int tenant) {
    return (double)r->view->tenants[tenant].target_ns * 1e-6;
}

/* A let that one model saturates: its duty cycle is its batch's time. */
static bool adjust_saturated(const struct mo_released *r, struct mo_released_node *node, double *lost) {
    struct mo_released_piece *piece = &node->pieces[0];
    double target = target_of(r, piece->tenant),
           time = mo_released_time(r, node, piece->tenant, piece->batch);
    int batch = piece->batch;
    while (target < 2 * time) {
        if (--batch == 0) return false;
        time = mo_released_time(r, node, piece->tenant, batch);
        node->duty = time;
    }
    double served = 1000 * batch / (batch < piece->batch ? node->duty : time);
    if (served < piece->served) *lost += floor(piece->served - served);
    piece->batch = batch;
    piece->served = served;
    return true;
}

/* Each model's batch is made smaller as if the others' stayed; the shortest duty cycle counts. */
static bool adjust_residual(const struct mo_released *r, struct mo_released_node *node) {
    double sum = sum_of_times(r, node), least = INFINITY;
    int batch[MO_LET_TENANTS];
    bool met = true;
    for (int p = 0; p < node->n; p++)
        met = met && sum + node->duty <= target_of(r, node->pieces[p].tenant) * (1 + r->rules.late);
    if (met) return true;
    for (int p = 0; p < node->n; p++) {
        const struct mo_released_piece *piece = &node->pieces[p];
        double time = mo_released_time(r, node, piece->tenant, piece->batch), others = sum - time,
               duty = node->duty;
        batch[p] = piece->batch;
        while (target_of(r, piece->tenant) < others + time + duty) {
            if (--batch[p] == 0) return false;
            time = mo_released_time(r, node, piece->tenant, batch[p]);
            duty *= (double)batch[p] / piece->batch;
        }
        least = fmin(least, duty);
    }
    for (int p = 0; p < node->n; p++) {
        node->pieces[p].batch = batch[p];
        node->pieces[p].served = 1000 * batch[p] / least;
    }
    node->duty = least;
    node->busy = sum_of_times(r, node) / least;
    return true;
}

bool mo_released_adjust(const struct mo_released *r, struct mo_released_node *node, double *lost) {
    if (node->n == 1 && node->busy >= 1) return adjust_saturated(r, node, lost);
    return node->n == 0 || adjust_residual(r, node);
}

struct mo_released_node *mo_released_cut(struct mo_released *r, struct mo_released_node *node, int units) {
    struct mo_released_gpu *gpu = &r->gpus[node->gpu];
    if (units >= node->units || gpu->n == MO_RELEASED_CUTS) return NULL;
    struct mo_released_node *rest = &gpu->nodes[gpu->n++];
    *rest = (struct mo_released_node){
        .gpu = node->gpu, .units = node->units - units, .twin = 2 * units == node->units};
    node->units = units;
    return rest;
}
