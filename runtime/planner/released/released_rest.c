/* SPDX-License-Identifier: Apache-2.0
 * released_rest.c - the second way in which the released scheduler places a model: on the free nodes as they
 * are, the largest first; and the joining of its residual lets.  See released.h. */
#include <math.h>
#include "runtime/planner/released/released.h"

enum { GIVEN = MO_RELEASED_CUTS * MO_PLAN_GPUS };

static void sort_falling(struct mo_released_node **nodes, int n) {
    for (int i = 1; i < n; i++) {
        struct mo_released_node *one = nodes[i];
        int at = i;
        for (; at > 0 && nodes[at - 1]->units < one->units; at--)
            nodes[at] = nodes[at - 1];
        nodes[at] = one;
    }
}

static void empty(struct mo_released_node *node) {
    node->n = 0;
    node->busy = node->duty = 0;
}

struct list {
    int n;
    struct mo_released_node *node[GIVEN + 1];
};

static void drop_first(struct list *list) {
    list->n--;
    for (int i = 0; i < list->n; i++)
        list->node[i] = list->node[i + 1];
}

/* A whole GPU in front is cut as the model would have it; the rest joins the list.  The batch it would have;
 * 0: the front is no whole GPU to be cut, -1: the program gives up. */
static int cut_first(struct mo_released *r, const struct mo_released_task *task, struct list *list) {
    struct mo_released_node lets[GIVEN], *first = list->node[0];
    if (first->units != r->kind->units || !r->rules.parts || !r->rules.cuts) return 0;
    int n = mo_released_estimate(r, task, task->rate, lets, GIVEN);
    if (n < 1) return -1;
    struct mo_released_node *rest = mo_released_cut(r, first, lets[0].units);
    if (rest) {
        list->node[list->n++] = rest;
        sort_falling(list->node + 1, list->n - 1);
    }
    return lets[0].pieces[0].batch;
}

/* Does the neighbour bear what was just put on the node? */
static bool neighbours_bear(struct mo_released *r, const struct mo_released_node *node) {
    struct mo_released_gpu *gpu = &r->gpus[node->gpu];
    double lost = 0; /* the program books it on the neighbour, and forgets it */
    if (!mo_released_link(r, node->gpu)) return false;
    for (int i = 0; r->rules.interference && i < gpu->n; i++)
        if (!mo_released_same(&gpu->nodes[i], node) && !mo_released_adjust(r, &gpu->nodes[i], &lost))
            return false;
    return true;
}

/* Puts the piece on the first node, and takes that off the list; false: the neighbour or the memory refuses.
 */
static bool put(struct mo_released *r, struct mo_released_task *task, struct list *list,
                const struct mo_released_piece *piece) {
    struct mo_released_node *node = list->node[0];
    drop_first(list);
    if (!mo_released_memory(r, node, task->tenant)) return false;
    node->n = 1;
    node->pieces[0] = *piece;
    if (!neighbours_bear(r, node)) {
        empty(node);
        return false;
    }
    task->rate += task->lost;
    task->lost = 0;
    mo_released_load(r, node, task->tenant);
    return true;
}

/* Saturates nodes as long as there is more to serve than one of them can; false: that is not how it ended. */
static bool saturate(struct mo_released *r, struct mo_released_task *task, struct list *list) {
    while (mo_released_left(r, task) && list->n) {
        int batch = cut_first(r, task, list);
        struct mo_released_node *node = list->node[0];
        if (batch < 0) return false;
        if (batch == 0) batch = mo_released_batch(r, task, node, &task->rate, false, true);
        if (batch == 0) batch = 1;
        double time = mo_released_time(r, node, task->tenant, batch);
        struct mo_released_piece piece = {task->tenant, batch, task->rate, 1000 * batch / time};
        if (piece.served > task->rate) return true;
        if (!mo_released_link_cut(r, node->gpu, &piece)) return false;
        if (mo_released_memory(r, node, task->tenant)) {
            node->busy = 1;
            node->duty = time;
        }
        if (put(r, task, list, &piece)) task->rate -= piece.served;
    }
    return false;
}

static void place_residual(struct mo_released *r, struct mo_released_task *task, struct list *list) {
    while (task->rate > r->rules.ignored && list->n) {
        if (cut_first(r, task, list) < 0) return;
        struct mo_released_node *node = list->node[0];
        int batch = mo_released_batch(r, task, node, &task->rate, true, true);
        if (batch == 0) return;
        struct mo_released_piece piece = {task->tenant, batch, task->rate, task->rate};
        node->duty = 1000 * batch / task->rate;
        if (!mo_released_link_cut(r, node->gpu, &piece)) return;
        node->busy = mo_released_time(r, node, task->tenant, piece.batch) / node->duty;
        if (put(r, task, list, &piece)) task->rate = fmax(0, task->rate - piece.served);
    }
}

void mo_released_readjust(struct mo_released *r, struct mo_released_task *task,
                          struct mo_released_node **given, int n) {
    struct list list = {.n = 0};
    for (; list.n < n; list.n++)
        list.node[list.n] = given[list.n];
    sort_falling(list.node, list.n);
    if (r->rules.interference) {
        task->rate += task->lost;
        task->lost = 0;
    }
    if (saturate(r, task, &list)) place_residual(r, task, &list);
}

static bool is_residual_of(const struct mo_released_node *node, const struct mo_released_task *task) {
    return node->busy < 1 && node->n == 1 && node->pieces[0].tenant == task->tenant;
}

/* All that the residual lets serve on the first free one of that size. */
static void join(struct mo_released *r, struct mo_released_task *task, int units, double rate) {
    for (int g = 0; g < r->view->n_gpus; g++)
        for (int i = 0; i < r->gpus[g].n; i++) {
            struct mo_released_node *node = &r->gpus[g].nodes[i];
            if (node->n || node->units != units || !mo_released_memory(r, node, task->tenant)) continue;
            int batch = mo_released_batch(r, task, node, &rate, true, true);
            if (batch == 0) continue;
            node->duty = 1000 * batch / rate;
            node->busy = mo_released_time(r, node, task->tenant, batch) / node->duty;
            node->n = 1;
            node->pieces[0] = (struct mo_released_piece){task->tenant, batch, rate, rate};
            task->rate = 0;
            return;
        }
}

bool mo_released_merge(struct mo_released *r, struct mo_released_task *task) {
    double rate = task->rate, least = INFINITY;
    int n = 0, units = 0, batch;
    for (int g = 0; g < r->view->n_gpus; g++)
        for (int i = 0; i < r->gpus[g].n; i++) {
            const struct mo_released_node *node = &r->gpus[g].nodes[i];
            if (!is_residual_of(node, task)) continue;
            double most = mo_released_saturated(r, task, node->units, &batch);
            rate += node->pieces[0].served;
            n++;
            if (most >= least) continue;
            least = most;
            units = node->units;
        }
    if (n == 0 || (n == 1 && rate < r->rules.ignored) || least < rate)
        return !(task->rate > r->rules.ignored);
    for (int g = 0; g < r->view->n_gpus; g++)
        for (int i = 0; i < r->gpus[g].n; i++)
            if (is_residual_of(&r->gpus[g].nodes[i], task)) {
                mo_released_unload(r, &r->gpus[g].nodes[i], task->tenant);
                empty(&r->gpus[g].nodes[i]);
            }
    join(r, task, units, rate);
    if (task->rate > r->rules.ignored) return false;
    for (int g = 0; r->rules.cuts && g < r->view->n_gpus; g++) {
        struct mo_released_gpu *gpu = &r->gpus[g];
        if (gpu->n < MO_RELEASED_CUTS || gpu->nodes[0].n || gpu->nodes[1].n) continue;
        gpu->n = 1;
        gpu->nodes[0].units = r->kind->units;
        gpu->nodes[0].twin = 0;
    }
    return true;
}
