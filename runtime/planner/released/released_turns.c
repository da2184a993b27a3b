/* SPDX-License-Identifier: Apache-2.0
 * released_turns.c - the third way in which the released scheduler places a model: turns on lets that have
 * time left, the busiest first; see released.h.  The new duty cycle is the newcomer's, in whole milliseconds.
 */
#include <math.h>
#include "runtime/planner/released/released.h"

enum { CANDIDATES = MO_RELEASED_CUTS * MO_PLAN_GPUS };

static bool contains(const struct mo_released_node *node, int tenant) {
    for (int p = 0; p < node->n; p++)
        if (node->pieces[p].tenant == tenant) return true;
    return false;
}

/* Batches that the others on the let gather in a duty cycle, rounded down. */
static int batch_in(const struct mo_released_piece *piece, double duty) {
    int batch = (int)(duty * piece->rate / 1000);
    return batch < 1 ? 1 : batch > MO_RELEASED_BATCH ? MO_RELEASED_BATCH : batch;
}

/* The newcomer's largest batch for which there is time beside the others, and its duty cycle; 0: none. */
static int newcomer(const struct mo_released *r, const struct mo_released_task *task,
                    const struct mo_released_node *node, double *duty) {
    int batch = (int)fmin(node->duty * task->rate / 1000, MO_RELEASED_BATCH);
    for (; batch > 0; batch--) {
        *duty = floor(batch * 1000 / task->rate);
        double time = mo_released_time(r, node, task->tenant, batch);
        if (*duty + time<task->target && * duty> 0 && time / *duty < 1 - node->busy) break;
    }
    return batch > 0 && *duty <= node->duty ? batch : 0;
}

/* The batches of all fit into the cycle, and all of them and a cycle into every target. */
static bool all_in_time(const struct mo_released *r, const struct mo_released_task *task,
                        const struct mo_released_node *node, int batch, double duty) {
    double sum = mo_released_time(r, node, task->tenant, batch), target = task->target;
    for (int p = 0; p < node->n; p++) {
        const struct mo_released_piece *piece = &node->pieces[p];
        sum += mo_released_time(r, node, piece->tenant, batch_in(piece, duty));
        target = fmin(target, (double)r->view->tenants[piece->tenant].target_ns * 1e-6);
    }
    return sum <= duty && sum + duty <= target;
}

static bool join(struct mo_released *r, struct mo_released_task *task, struct mo_released_node *node) {
    double duty = 0, busy = 0;
    if (contains(node, task->tenant) || node->busy >= 1 || node->n == MO_LET_TENANTS) return false;
    int batch = newcomer(r, task, node, &duty);
    if (batch == 0 || !all_in_time(r, task, node, batch, duty)) return false;
    for (int p = 0; p < node->n; p++) {
        node->pieces[p].batch = batch_in(&node->pieces[p], duty);
        node->pieces[p].served = 1000 * node->pieces[p].batch / duty;
    }
    node->pieces[node->n++] =
        (struct mo_released_piece){task->tenant, batch, task->rate, 1000 * batch / duty};
    mo_released_load(r, node, task->tenant);
    for (int p = 0; p < node->n; p++)
        busy += mo_released_time(r, node, node->pieces[p].tenant, node->pieces[p].batch) / duty;
    node->duty = duty;
    node->busy = busy;
    task->rate = fmax(0, task->rate - 1000 * batch / duty);
    return true;
}

static void take(struct mo_released_node **list, int *n, struct mo_released_node *node) {
    int at = (*n)++;
    for (; at > 0 && list[at - 1]->busy < node->busy; at--)
        list[at] = list[at - 1];
    list[at] = node;
}

bool mo_released_turns(struct mo_released *r, struct mo_released_task *task, struct mo_released_node **only,
                       int n_only) {
    struct mo_released_node *list[CANDIDATES];
    int n = 0;
    for (int g = 0; g < r->view->n_gpus; g++)
        for (int i = 0; i < r->gpus[g].n; i++) {
            struct mo_released_node *node = &r->gpus[g].nodes[i];
            bool candidate = n_only == 0 && node->busy < 1 && node->n < r->view->max_share;
            for (int o = 0; o < n_only; o++)
                candidate = candidate || only[o] == node;
            if (candidate && mo_released_memory(r, node, task->tenant)) take(list, &n, node);
        }
    while (mo_released_left(r, task)) {
        bool found = false;
        for (int i = 0; i < n && !found; i++)
            found = join(r, task, list[i]);
        if (!found) return false;
    }
    return true;
}
