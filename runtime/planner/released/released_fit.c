/* SPDX-License-Identifier: Apache-2.0
 * released_fit.c - the first way in which the released scheduler places a model: the lets that it would have
 * alone, each on the free node that fits best; see released.h.
 *
 * The estimate numbers its lets from 0, and where the program asks for a time on one of them it takes that
 * number for a GPU's, so interference comes from whatever is there.  That is kept: plans depend on it. */
#include <math.h>
#include "runtime/planner/released/released.h"

enum { ESTIMATE = 2 * MO_PLAN_GPUS + 1 };
static const double worth = 1.05; /* a step of size must gain so much */

double mo_released_saturated(const struct mo_released *r, const struct mo_released_task *task, int units,
                             int *batch) {
    const struct mo_released_node node = {.units = units};
    double rate = task->rate;
    *batch = mo_released_batch(r, task, &node, &rate, false, false);
    if (*batch == 0) *batch = 1;
    return 1000 * *batch / mo_released_alone(r, task->tenant, *batch, units);
}

/* The size after the steepest step, a whole GPU excepted. */
static int best_size(const struct mo_released *r, const struct mo_released_task *task) {
    int best = r->sizes[r->n_sizes - 1], batch;
    double most = 0;
    for (int i = r->n_sizes - 1; i > 1; i--) {
        double low = mo_released_saturated(r, task, r->sizes[i], &batch);
        double high = mo_released_saturated(r, task, r->sizes[i - 1], &batch);
        double step = (high - low) / (r->sizes[i - 1] - r->sizes[i]);
        if (high / low < worth || step <= most) continue;
        most = step;
        best = r->sizes[i - 1];
    }
    return best;
}

/* The residual let: its batch is that of the largest size, then the size is made smaller. */
static bool residual(const struct mo_released *r, const struct mo_released_task *task, double rate, int most,
                     struct mo_released_node *node) {
    int batch, units = most;
    node->units = most;
    batch = mo_released_batch(r, task, node, &rate, true, false);
    if (batch == 0) return false;
    for (int i = 0; i < r->n_sizes; i++) {
        if (r->sizes[i] > most) continue;
        double time = mo_released_alone(r, task->tenant, batch, r->sizes[i]), duty = 1000 * batch / rate;
        if (duty < time || task->target < time + duty) break;
        units = r->sizes[i];
    }
    double time = mo_released_alone(r, task->tenant, batch, units);
    node->units = units;
    node->duty = fmax(1000 * batch / rate, time);
    node->busy = time / node->duty;
    node->n = 1;
    node->pieces[0] = (struct mo_released_piece){task->tenant, batch, rate, 1000 * batch / node->duty};
    return true;
}

int mo_released_estimate(const struct mo_released *r, const struct mo_released_task *task, double rate,
                         struct mo_released_node *out, int room) {
    const int most = best_size(r, task);
    int batch, n = 0;
    double served = mo_released_saturated(r, task, most, &batch);
    for (; rate > r->rules.ignored && served < rate; rate -= served) {
        if (n == room) return -1;
        out[n] = (struct mo_released_node){
            .gpu = n, .units = most, .n = 1, .duty = 1000 * batch / served, .busy = 1};
        out[n++].pieces[0] = (struct mo_released_piece){task->tenant, batch, rate, served};
    }
    if (!(rate > r->rules.ignored)) return n;
    if (n == room) return -1;
    out[n] = (struct mo_released_node){.gpu = n};
    return residual(r, task, rate, most, &out[n]) ? n + 1 : -1;
}

/* Nobody on the other let of the GPU may have a duty cycle over half of its target.  (What the program reads
 * here as interference is always none.) */
static bool neighbours_allow(const struct mo_released *r, const struct mo_released_node *node) {
    const struct mo_released_gpu *gpu = &r->gpus[node->gpu];
    if (node->units == r->kind->units) return true;
    for (int i = 0; i < gpu->n; i++)
        for (int p = 0; p < gpu->nodes[i].n && !mo_released_same(node, &gpu->nodes[i]); p++) {
            double target = (double)r->view->tenants[gpu->nodes[i].pieces[p].tenant].target_ns * 1e-6;
            if (2 * gpu->nodes[i].duty > target) return false;
        }
    return true;
}

/* The rooms of whole GPUs while an estimate is tried. */
struct tried {
    bool taken[MO_PLAN_GPUS][MO_RELEASED_CUTS];
    int units[MO_PLAN_GPUS][MO_RELEASED_CUTS]; /* 0: not met yet */
};

/* The last whole GPU, or the last of the smallest free nodes. */
static struct mo_released_node *best_fit(struct mo_released *r, const struct mo_released_node *let,
                                         const struct tried *tried) {
    const struct mo_released_piece *piece = &let->pieces[0];
    double target = (double)r->view->tenants[piece->tenant].target_ns * 1e-6;
    struct mo_released_node *best = NULL;
    int least = 2 * MO_PLAN_UNITS;
    for (int g = 0; g < r->view->n_gpus; g++)
        for (int i = 0; i < r->gpus[g].n; i++) {
            struct mo_released_node *node = &r->gpus[g].nodes[i];
            if (node->units < let->units || node->n || (tried && tried->taken[g][i])) continue;
            if (!mo_released_memory(r, node, piece->tenant)) continue;
            if (mo_released_time(r, node, piece->tenant, piece->batch) + let->duty > target) continue;
            if (!neighbours_allow(r, node)) continue;
            int over = node->units == r->kind->units && r->rules.parts ? 0 : node->units - let->units;
            if (over > least) continue;
            least = over;
            best = node;
        }
    return best;
}

/* Is there room for all of them? */
static bool all_fit(struct mo_released *r, const struct mo_released_node *lets, int n) {
    struct tried tried = {0};
    for (int i = 0; i < n; i++)
        for (;;) {
            struct mo_released_node *node = best_fit(r, &lets[i], &tried);
            if (!node) return false;
            int at = (int)(node - r->gpus[node->gpu].nodes), *units = &tried.units[node->gpu][at];
            if (*units == 0) *units = node->units;
            bool fits = *units >= lets[i].units;
            if (fits) *units = r->rules.cuts && *units == r->kind->units ? *units - lets[i].units : 0;
            if (!fits || *units == 0) tried.taken[node->gpu][at] = true;
            if (fits) break;
        }
    return true;
}

/* The node is larger than the let wanted: more, or the same in larger batches. */
static bool enlarge(const struct mo_released *r, const struct mo_released_task *task,
                    struct mo_released_node *let, int units) {
    struct mo_released_piece *piece = &let->pieces[0];
    bool saturated = let->busy == 1;
    let->units = units;
    piece->batch = mo_released_batch(r, task, let, &piece->rate, !saturated, true);
    if (piece->batch == 0) return false;
    double time = mo_released_time(r, let, piece->tenant, piece->batch);
    let->duty = saturated ? time : fmax(1000 * piece->batch / piece->rate, time);
    piece->served = 1000 * piece->batch / let->duty;
    let->busy = time / let->duty;
    return true;
}

static bool place(struct mo_released *r, struct mo_released_task *task, struct mo_released_node *let) {
    struct mo_released_node *node = best_fit(r, let, NULL);
    if (!node) return false;
    const int whole = r->kind->units;
    if (node->units != whole && node->units > let->units && !enlarge(r, task, let, node->units)) return false;
    if (node->units == whole && r->rules.cuts) mo_released_cut(r, node, let->units);
    node->busy = let->busy;
    node->duty = let->duty;
    node->n = 1;
    node->pieces[0] = let->pieces[0];
    mo_released_load(r, node, task->tenant);
    struct mo_released_gpu *gpu = &r->gpus[node->gpu];
    for (int i = 0; r->rules.interference && i < gpu->n; i++)
        if (!mo_released_adjust(r, &gpu->nodes[i], &task->lost) && gpu->nodes[i].busy == 1) return false;
    task->rate -= node->pieces[0].served;
    return true;
}

static void sort_falling(struct mo_released_node *lets, int n) {
    for (int i = 1; i < n; i++) {
        struct mo_released_node one = lets[i];
        int at = i;
        for (; at > 0 && lets[at - 1].units < one.units; at--)
            lets[at] = lets[at - 1];
        lets[at] = one;
    }
}

bool mo_released_fit(struct mo_released *r, struct mo_released_task *task) {
    struct mo_released_node lets[ESTIMATE];
    int n = mo_released_estimate(r, task, task->rate, lets, ESTIMATE);
    if (n < 0) return false;
    sort_falling(lets, n);
    if (!all_fit(r, lets, n)) return false;
    for (int i = 0; i < n; i++)
        if (!place(r, task, &lets[i])) return false;
    if (mo_released_left(r, task)) return false;
    task->rate = 0;
    return true;
}
