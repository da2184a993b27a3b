/* SPDX-License-Identifier: Apache-2.0
 * trim.c - after every layer is bound, weights exist twice: as the model gave them and packed.  The first
 * copy is released where no step reads it, so that a tenant holds its weights once.
 *
 * While places of packed weights are recorded, only what a compiled model need not hold is released: large
 * weights behind such a place, which are made of input 1.  Binders read other constants (a bias, first
 * states) again when they bind the compiled model.  When a plan is built from one, or beside others of its
 * model, its elided tensors may be read by no step, and a step that has one must have found its packed
 * weights there. */
#include "runtime/plan/plan_impl.h"
#include "variants/packed.h"

enum { SMALL_BYTES = 32 << 10 };

/* Step `step` may read input `i` through its arguments. */
static bool reads(const struct mo_step *step, int i) {
    if (!step->run) return step->units > 0; /* a reference reads all, a view nothing */
    return !step->weights || i == 0 || i == step->node->fuse.residual ||
           (i == MO_GATE_IN && step->node->fuse.gated);
}

/* The same with the recording rule. */
static bool keeps(const struct mo_graph *graph, const struct mo_step *step, int i) {
    const struct mo_packed_places *packed = graph->packed;
    if (reads(step, i)) return true;
    if (!packed || packed->ready || packed->weights) return false;
    if (i != 1 || mo_tensor_bytes(graph->tensors[step->node->in[i]]) < SMALL_BYTES) return true;
    return step->units > 0 && !mo_packed_find(packed, step->weights);
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
            if (node->in[i] >= 0 && keeps(graph, &plan->steps[k], i)) mark(graph, needed, node->in[i]);
        for (int i = 0; i < node->n_out; i++) /* a view of a constant */
            if (node->out[i] >= 0) mark(graph, needed, node->out[i]);
    }
    for (int i = 0; i < graph->n_outputs; i++)
        mark(graph, needed, graph->outputs[i]);
    for (int i = 0; i < graph->n_tensors; i++) {
        struct mo_tensor *t = graph->tensors[i];
        if (!t->data || needed[i] || shared(graph, needed, i)) continue;
        void *data = t->data;
        bool released = mo_region_release(graph->region, data); /* false: it shares its memory with others */
        if (!released && !graph->packed) continue;
        for (int k = 0; k < graph->n_tensors; k++)
            if (graph->tensors[k]->data == data) graph->tensors[k]->data = NULL;
    }
    mo_free(plan->env, needed);
}

int mo_plan_check_packed(const struct mo_plan *plan, moire_error *err) {
    const struct mo_graph *graph = plan->graph;
    const struct mo_packed_places *packed = graph->packed;
    for (int k = 0; packed && packed->elided && k < plan->n_steps; k++) {
        const struct mo_step *step = &plan->steps[k];
        for (int i = 0; i < step->node->n_in && step->units; i++) { /* a view reads nothing */
            int id = step->node->in[i];
            if (id < 0 || graph->tensors[id]->data != packed->elided) continue;
            if (reads(step, i) || !mo_packed_find(packed, step->weights))
                return mo_fail(err, MOIRE_ESTORE,
                               "layer '%.100s' is bound to kernel %s, which packs its weights in another way",
                               step->node->name, step->kernel);
        }
        if (step->weights && mo_packed_is_absent(step->weights))
            return mo_fail(err, MOIRE_ESTORE, "layer '%.100s': kernel %s wants weights that are not there",
                           step->node->name, step->kernel);
    }
    return MOIRE_OK;
}

bool mo_plan_is_constant(const struct mo_graph *graph, int tensor) {
    const struct mo_tensor *t = graph->tensors[tensor];
    return t->data || (t->producer < 0 && !t->is_input);
}
