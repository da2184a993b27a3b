/* SPDX-License-Identifier: Apache-2.0
 * live.c - ranges of the arena with their lifetimes, from graph and offsets; see live.h. */
#include "runtime/plan/live.h"

#include <string.h>
#include "runtime/base/numbers.h"
#include "runtime/plan/plan_impl.h"

enum { ALIGN = 64 };

/* It holds something that counts before each layer in (first, last]. */
struct range {
    int first, last;
    int64_t offset;
    size_t bytes;
};

struct mo_live {
    const struct mo_env *env;
    size_t *bytes; /* of what lives before each layer, and behind the last */
    int n;
    struct range range[];
};

static void widen(struct range *r, int first, int last) {
    if (first < r->first) r->first = first;
    if (last > r->last) r->last = last;
}

/* By root tensor; roots outside the arena keep their empty lifetimes. */
static void find_lifetimes(const struct mo_plan *plan, struct range *of) {
    const struct mo_graph *g = plan->graph;
    int64_t inside;
    for (int i = 0; i < g->n_tensors; i++) {
        const int64_t bytes = plan->offset[i] >= 0 ? mo_tensor_bytes(g->tensors[i]) : 0;
        of[i] = (struct range){.first = g->n_nodes,
                               .last = -1,
                               .offset = plan->offset[i],
                               .bytes = bytes > 0 ? (size_t)bytes : 0};
    }
    for (int i = 0; i < g->n_tensors; i++) {
        struct range *r = &of[mo_alias_root(g, i, &inside)];
        if (g->tensors[i]->is_input) widen(r, -1, -1);
        if (g->tensors[i]->is_output) widen(r, g->n_nodes, g->n_nodes);
    }
    for (int k = 0; k < g->n_nodes; k++) {
        const struct mo_node *node = g->nodes[k];
        for (int i = 0; i < node->n_in + node->n_out; i++) {
            const int id = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
            if (id >= 0) widen(&of[mo_alias_root(g, id, &inside)], k, k);
        }
    }
}

static void sum_bytes(const struct mo_live *live) {
    for (int i = 0; i < live->n; i++)
        for (int next = live->range[i].first + 1; next <= live->range[i].last; next++)
            live->bytes[next] += mo_round_up_bytes(live->range[i].bytes, ALIGN);
}

int mo_live_create(const struct mo_plan *plan, struct mo_live **out, moire_error *err) {
    const struct mo_env *env = plan->env;
    const size_t tensors = (size_t)plan->graph->n_tensors;
    struct range *of = mo_alloc(env, (tensors + 1) * sizeof *of);
    struct mo_live *live = mo_alloc(env, sizeof *live + tensors * sizeof *live->range);
    size_t *bytes = mo_alloc(env, ((size_t)plan->graph->n_nodes + 1) * sizeof *bytes);
    *out = NULL;
    if (of && live && bytes) {
        *live = (struct mo_live){.env = env, .bytes = bytes};
        find_lifetimes(plan, of);
        for (size_t i = 0; i < tensors; i++)
            if (of[i].bytes && of[i].first < of[i].last) live->range[live->n++] = of[i];
        sum_bytes(live);
        *out = live;
    } else {
        mo_free(env, live);
        mo_free(env, bytes);
    }
    mo_free(env, of);
    return *out ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for a plan's lifetimes");
}

void mo_live_destroy(struct mo_live *live) {
    if (!live) return;
    mo_free(live->env, live->bytes);
    mo_free(live->env, live);
}

static bool lives(const struct range *r, int next) {
    return r->first < next && next <= r->last;
}

size_t mo_live_bytes(const struct mo_live *live, int next) {
    return live->bytes[next];
}

void mo_live_save(const struct mo_live *live, int next, const char *arena, char *kept) {
    for (int i = 0; i < live->n; i++) {
        const struct range *r = &live->range[i];
        if (!lives(r, next)) continue;
        memcpy(kept, arena + r->offset, r->bytes);
        kept += mo_round_up_bytes(r->bytes, ALIGN);
    }
}

void mo_live_restore(const struct mo_live *live, int next, char *arena, const char *kept) {
    for (int i = 0; i < live->n; i++) {
        const struct range *r = &live->range[i];
        if (!lives(r, next)) continue;
        memcpy(arena + r->offset, kept, r->bytes);
        kept += mo_round_up_bytes(r->bytes, ALIGN);
    }
}
