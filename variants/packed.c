/* SPDX-License-Identifier: Apache-2.0
 * packed.c - places of packed weights; see packed.h. */
#include "variants/packed.h"

#include <string.h>
#include "variants/kernel.h"

/* Stands for a place that a compiled model does not have.  Nobody reads it: the plan is refused. */
static const char absent[64];

static bool remember(const struct mo_graph *graph, const struct mo_packed_place *place) {
    struct mo_packed_places *p = graph->packed;
    if (p->n == p->cap) {
        int cap = p->cap ? 2 * p->cap : 64;
        struct mo_packed_place *wider = mo_region_array(graph->region, (size_t)cap, sizeof *wider);
        if (!wider) return false;
        if (p->n) memcpy(wider, p->place, (size_t)p->n * sizeof *wider);
        p->place = wider;
        p->cap = cap;
    }
    p->place[p->n++] = *place;
    return true;
}

static void *find_ready(const struct mo_packed_places *p, const struct mo_packed_place *wanted) {
    for (int i = 0; i < p->n; i++)
        if (p->place[i].node == wanted->node && p->place[i].turn == wanted->turn)
            return p->place[i].bytes == wanted->bytes && p->place[i].packing == wanted->packing
                       ? p->place[i].data
                       : (void *)(uintptr_t)absent;
    return (void *)(uintptr_t)absent;
}

bool mo_packed_elided(const struct mo_graph *graph, const struct mo_tensor *t) {
    return graph->packed && graph->packed->elided && t->data == graph->packed->elided;
}

int mo_packed_fault(const struct mo_graph *graph, const struct mo_node *node, moire_error *err) {
    if (graph->packed && graph->packed->lacks)
        return mo_fail(err, MOIRE_EUNSUPPORTED, "node '%s': its weights are not in memory in this form",
                       node->name);
    return mo_fail(err, MOIRE_ENOMEM, "node '%s': out of memory for packed weights", node->name);
}

/* What packed weights depend on beside the plain ones. */
static struct mo_weights_form form_of(const struct mo_node *node, int packing, size_t bytes) {
    const bool gemm = !node->domain[0] && !strcmp(node->op_type, "Gemm");
    return (struct mo_weights_form){.packing = packing,
                                    .bytes = (int64_t)bytes,
                                    .group = mo_attr_int(node, "group", 1),
                                    .turned = gemm && mo_attr_int(node, "transB", 0),
                                    .scale = gemm ? (double)mo_attr_float(node, "alpha", 1) : 1};
}

bool mo_packed_is_here(const struct mo_graph *graph, const struct mo_node *node, int packing, int64_t bytes) {
    const struct mo_tensor *plain = mo_node_in(graph, node, 1);
    if (!graph->packed || !graph->packed->weights || !plain || !mo_packed_elided(graph, plain)) return true;
    const struct mo_weights_form form = form_of(node, packing, (size_t)bytes);
    return bytes > 0 && mo_weights_has_form(graph->packed->weights, plain->content, &form);
}

bool mo_packed_has(const struct mo_graph *graph, const struct mo_node *node, int packing, int64_t bytes) {
    if (graph->packed && graph->packed->obtainable) return true;
    return mo_packed_is_here(graph, node, packing, bytes);
}

bool mo_packed_is_ready(const struct mo_graph *graph, const struct mo_node *node, int packing) {
    const struct mo_packed_places *p = graph->packed;
    for (int i = 0; p && p->ready && i < p->n; i++)
        if (p->place[i].node == node->id && p->place[i].packing == packing) return true;
    return false;
}

/* Weights for a matrix unit stay, and are read once a query. */
static bool is_streamed(int packing) {
    return packing >= MO_PACK_MATRIX_BYTES;
}

static void *take_shared(const struct mo_graph *graph, const struct mo_node *node, int packing,
                         struct mo_packed_place *place, bool *filled) {
    struct mo_packed_places *p = graph->packed;
    const struct mo_tensor *plain = mo_node_in(graph, node, 1);
    const struct mo_weights_form form = form_of(node, packing, (size_t)place->bytes);
    const bool elided = mo_packed_elided(graph, plain);
    const enum mo_weights_make make = elided                 ? MO_WEIGHTS_FIND
                                      : is_streamed(packing) ? MO_WEIGHTS_STREAMED
                                                             : MO_WEIGHTS_MAKE;
    place->data = mo_weights_take(p->weights, plain->content, &form, make, filled);
    p->lacks = elided && !place->data;
    p->lacked = p->lacked || p->lacks;
    if (!place->data || remember(graph, place)) return place->data;
    mo_weights_give(p->weights, place->data);
    return NULL;
}

void *mo_packed_take(const struct mo_graph *graph, const struct mo_node *node, struct mo_region *region,
                     int packing, size_t bytes, bool *filled) {
    struct mo_packed_places *p = graph->packed;
    *filled = false;
    if (!p) return mo_region_alloc(region, bytes);
    p->turn = p->node == node->id ? p->turn + 1 : 0;
    p->node = node->id;
    p->lacks = false;
    struct mo_packed_place place = {
        .node = node->id, .turn = p->turn, .packing = packing, .bytes = (int64_t)bytes};
    const struct mo_tensor *plain = mo_node_in(graph, node, 1);
    if (p->weights && plain && plain->content) return take_shared(graph, node, packing, &place, filled);
    if (p->weights) return mo_region_alloc(region, bytes);
    *filled = p->ready;
    if (p->ready) return find_ready(p, &place);
    place.data = is_streamed(packing) ? mo_region_streamed(region, bytes) : mo_region_alloc(region, bytes);
    return place.data && remember(graph, &place) ? place.data : NULL;
}

const struct mo_packed_place *mo_packed_find(const struct mo_packed_places *packed, const void *weights) {
    for (int i = 0; weights && i < packed->n; i++)
        if (packed->place[i].data == weights) return &packed->place[i];
    return NULL;
}

bool mo_packed_is_absent(const void *weights) {
    return weights == absent;
}

void mo_packed_drop(const struct mo_graph *graph, const void *weights) {
    struct mo_packed_places *p = graph->packed;
    for (int i = 0; p && !p->ready && i < p->n; i++) {
        if (p->place[i].data != weights) continue;
        p->place[i].data = NULL;
        if (!p->weights) continue;
        mo_weights_give(p->weights, weights);
        return; /* another layer may have the same ones */
    }
}

int64_t mo_packed_shared(const struct mo_graph *graph) {
    const struct mo_packed_places *p = graph->packed;
    int64_t bytes = 0;
    for (int i = 0; p && p->weights && i < p->n; i++)
        if (p->place[i].data) bytes += p->place[i].bytes;
    return bytes;
}

void mo_packed_leave(const struct mo_graph *graph) {
    struct mo_packed_places *p = graph->packed;
    for (int i = 0; p && p->weights && i < p->n; i++) {
        if (p->place[i].data) mo_weights_give(p->weights, p->place[i].data);
        p->place[i].data = NULL;
    }
}
