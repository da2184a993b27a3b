/* SPDX-License-Identifier: Apache-2.0
 * trim.c - after every layer is bound, weights exist twice: as the model gave them and packed.  The first
 * copy is released where no step reads it, so that a tenant holds its weights once. */
#include "runtime/plan/internal.h"

/* Step `step` may read input `i` through its arguments. */
static bool reads(const struct mo_step *step, int i) {
    if (!step->run) return step->units > 0; /* a reference reads all, a view nothing */
    return !step->weights || i == 0 || i == step->node->fuse.residual;
}

static void mark(const struct mo_graph *graph, bool *needed, int id) {
    needed[id] = true;
    needed[mo_alias_root(graph, id, NULL)] = true;
}

static bool shared(const struct mo_graph *graph, const bool *needed, int id) {
    for (int i = 0; i < graph->n_tensors; i++)
        if (needed[i] && graph->tensors[i]->data == graph->tensors[id]->data) return true;
    return false;
}

void mo_plan_trim(struct mo_plan *plan) {
    struct mo_graph *graph = plan->graph;
    bool *needed = mo_alloc(plan->env, (size_t)graph->n_tensors + 1);
    if (!needed) return; /* the plan works as it is */
    for (int k = 0; k < plan->n_steps; k++) {
        const struct mo_node *node = plan->steps[k].node;
        for (int i = 0; i < node->n_in; i++)
            if (node->in[i] >= 0 && reads(&plan->steps[k], i)) mark(graph, needed, node->in[i]);
        for (int i = 0; i < node->n_out; i++) /* a view of a constant */
            if (node->out[i] >= 0) mark(graph, needed, node->out[i]);
    }
    for (int i = 0; i < graph->n_outputs; i++)
        mark(graph, needed, graph->outputs[i]);
    for (int i = 0; i < graph->n_tensors; i++) {
        struct mo_tensor *t = graph->tensors[i];
        if (!t->data || needed[i] || shared(graph, needed, i)) continue;
        void *data = t->data;
        if (!mo_region_release(graph->region, data)) continue;
        for (int k = 0; k < graph->n_tensors; k++)
            if (graph->tensors[k]->data == data) graph->tensors[k]->data = NULL;
    }
    mo_free(plan->env, needed);
}

bool mo_plan_is_constant(const struct mo_graph *graph, int tensor) {
    const struct mo_tensor *t = graph->tensors[tensor];
    return t->data || (t->producer < 0 && !t->is_input);
}
