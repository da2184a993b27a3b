/* SPDX-License-Identifier: Apache-2.0
 * memory.c - the memory plan: where every activation lies in the one arena of a query.
 *
 * Tensors that share bytes (views, slices of a concat, in-place results) form a group; a group lives from
 * its first producer to its last reader.  Groups that live at the same time never overlap.  Two orders of
 * placement are tried, largest first and first-produced first, each into the smallest gap that fits; the
 * smaller arena wins.  Graph inputs and outputs live for the whole query, so that it can be run again.
 *
 * Large groups begin at different distances from a 4 KiB boundary: streams that are read and written
 * together would otherwise meet in the same cache sets and in the store-forwarding check. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base/numbers.h"
#include "runtime/plan/plan_impl.h"

enum { ALIGN = 64, PAGE = 4096, STAGGER_FROM = 256 * 1024, STAGGER_STEP = 13 * 64, MAX_REUSE = 16384 };

struct group {
    int id;          /* root tensor; ties and stagger follow it */
    int first, last; /* steps between which the bytes must stay */
    int64_t bytes;   /* reserved, alignment and stagger included */
    int64_t phase;   /* where in the reserved bytes the tensor begins */
    int64_t offset;
    struct group *into; /* taken over in place: this group is part of that one */
};

struct layout {
    const struct mo_graph *graph;
    int *root;        /* of every tensor: root tensor of its group, -1 = not in the arena */
    struct group *of; /* by root tensor */
    struct group **list;
    int n;
};

/* The group a tensor ended up in; NULL when it is not in the arena. */
static struct group *group_of(const struct layout *l, int tensor) {
    if (l->root[tensor] < 0) return NULL;
    struct group *g = &l->of[l->root[tensor]];
    while (g->into)
        g = g->into;
    return g;
}

static void widen(struct group *g, int first, int last) {
    if (first < g->first) g->first = first;
    if (last > g->last) g->last = last;
}

static int check_alias(const struct mo_graph *graph, int tensor, int root, int64_t offset, moire_error *err) {
    const struct mo_tensor *t = graph->tensors[tensor], *r = graph->tensors[root];
    if (r->alias >= 0) return mo_fail(err, MOIRE_EINTERNAL, "aliases of tensor '%s' form a cycle", t->name);
    if (t->alias_run && !mo_alias_is_dense(graph, t->alias))
        return mo_fail(err, MOIRE_EINTERNAL, "tensor '%s' is a run of one that has gaps", t->name);
    int64_t have = mo_tensor_bytes(r), own = mo_tensor_bytes(t);
    int64_t images = t->shape.rank > 0 && t->shape.d[0] > 0 ? t->shape.d[0] : 1;
    int64_t reach = offset + (images - 1) * mo_alias_stride(graph, tensor) + mo_tensor_image_bytes(t);
    if (own > 0 && (offset < 0 || reach > have || offset % (int64_t)mo_dtype_bytes(t->dtype)))
        return mo_fail(err, MOIRE_EINTERNAL, "tensor '%s' lies outside the storage of '%s'", t->name,
                       r->name);
    return MOIRE_OK;
}

/* Roots and sizes; no lifetimes yet. */
static int find_groups(struct mo_plan *plan, struct layout *l, moire_error *err) {
    const struct mo_graph *graph = l->graph;
    for (int i = 0; i < graph->n_tensors; i++) {
        const struct mo_tensor *t = graph->tensors[i];
        int64_t offset;
        int root = mo_alias_root(graph, i, &offset);
        l->root[i] = -1;
        plan->image[i] = plan->dynamic[i] ? 0 : mo_alias_stride(graph, i);
        if (t->data || graph->tensors[root]->data || plan->dynamic[i]) continue;
        if (t->producer < 0 && !t->is_input && t->n_uses == 0) continue; /* left behind by a pass */
        int rc = root == i ? MOIRE_OK : check_alias(graph, i, root, offset, err);
        if (rc) return rc;
        int64_t bytes = mo_tensor_bytes(graph->tensors[root]);
        if (bytes < 0 || bytes > plan->env->limits.tensor_bytes)
            return mo_fail(err, MOIRE_ELIMIT, "tensor '%s' is too large (limit tensor_bytes)", t->name);
        struct group *g = &l->of[root];
        l->root[i] = root;
        if (g->bytes) continue;
        *g = (struct group){.id = root, .first = graph->n_nodes, .last = -1};
        g->bytes = mo_round_up(bytes, ALIGN);
        if (!g->bytes) g->bytes = ALIGN;
        if (bytes >= STAGGER_FROM) {
            g->bytes = mo_round_up(bytes + PAGE, PAGE);
            g->phase = (int64_t)l->n * STAGGER_STEP % PAGE;
        }
        l->list[l->n++] = g;
    }
    return MOIRE_OK;
}

static void find_lifetimes(const struct layout *l) {
    const struct mo_graph *graph = l->graph;
    for (int i = 0; i < graph->n_tensors; i++) {
        if (l->root[i] < 0) continue;
        if (graph->tensors[i]->is_input) widen(&l->of[l->root[i]], -1, graph->n_nodes);
        if (graph->tensors[i]->is_output) widen(&l->of[l->root[i]], graph->n_nodes, graph->n_nodes);
    }
    for (int k = 0; k < graph->n_nodes; k++) {
        const struct mo_node *node = graph->nodes[k];
        for (int i = 0; i < node->n_in + node->n_out; i++) {
            int id = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
            if (id >= 0 && l->root[id] >= 0) widen(&l->of[l->root[id]], k, k);
        }
    }
}

/* Inputs [first, end) whose place an output may take over element by element. */
struct operands {
    int first, end;
};

static bool of_bytes(const struct mo_tensor *t) {
    return t->dtype == MOIRE_U8 || t->dtype == MOIRE_I8;
}

/* Of a moire.Fused of 8-bit numbers: any of them, as each element is read before its place is written. */
static bool fused_bytes(const struct layout *l, const struct mo_node *node) {
    return mo_node_is_ours(node, "Fused") && of_bytes(l->graph->tensors[node->out[0]]);
}

/* A pointwise operator's first; the residual of a convolution on a matrix unit, which reads it where it
 * writes. */
static struct operands in_place_operands(const struct layout *l, const struct mo_node *node) {
    static const char *const binary[] = {"Add", "Sub", "Mul", "Div"};
    const int residual = node->fuse.residual;
    if (node->n_out != 1 || node->n_in < 1 || node->out[0] < 0) return (struct operands){0, 0};
    if (residual >= 0 && l->graph->tensors[node->out[0]]->layout == MO_C16_HALVES)
        return (struct operands){residual, residual + 1};
    if (fused_bytes(l, node)) return (struct operands){0, node->n_in};
    bool ok = node->op && (node->op->flags & MO_OP_POINTWISE);
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
        ok = ok || mo_node_is(node, binary[i]);
    return (struct operands){0, ok};
}

/* The tensor at input `which` of `node` where the output may take over its bytes, or -1: element by element,
 * same size and layout, nobody reads the input later. */
static int taken_over(const struct layout *l, const struct mo_node *node, int which) {
    if (node->in[which] < 0) return -1;
    const struct mo_tensor *in = l->graph->tensors[node->in[which]], *out = l->graph->tensors[node->out[0]];
    const struct group *from = group_of(l, in->id), *to = group_of(l, out->id);
    if (!from || !to || from == to || l->root[out->id] != out->id) return -1;
    if (in->layout != out->layout || in->dtype != out->dtype || !mo_shape_equal(&in->shape, &out->shape))
        return -1;
    if (mo_tensor_bytes(l->graph->tensors[l->root[in->id]]) != mo_tensor_bytes(in)) return -1;
    for (int i = 0; i < node->n_in; i++) {
        /* another view of the same bytes, or an image, is read while they are overwritten */
        const bool same = node->in[i] == in->id && which == 0;
        if (i != which && node->in[i] >= 0 && !same && group_of(l, node->in[i]) == from) return -1;
    }
    return from->last == node->id && to->first == node->id ? in->id : -1;
}

static int in_place_input(const struct layout *l, const struct mo_node *node) {
    const struct operands can = in_place_operands(l, node);
    int in = -1;
    for (int k = can.first; in < 0 && k < can.end; k++)
        in = taken_over(l, node, k);
    return in;
}

static void merge_in_place(const struct layout *l) {
    for (int k = 0; k < l->graph->n_nodes; k++) {
        int in = in_place_input(l, l->graph->nodes[k]);
        if (in < 0) continue;
        struct group *from = group_of(l, in), *to = group_of(l, l->graph->nodes[k]->out[0]);
        widen(from, to->first, to->last);
        to->into = from;
    }
}

static int by_size(const void *a, const void *b) {
    const struct group *x = *(struct group *const *)a, *y = *(struct group *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->id - y->id;
}

static int by_time(const void *a, const void *b) {
    const struct group *x = *(struct group *const *)a, *y = *(struct group *const *)b;
    if (x->first != y->first) return x->first - y->first;
    return by_size(a, b);
}

/* The smallest gap among placed groups (sorted by offset) that live with `g`; the end when none fits. */
static int64_t best_gap(struct group *const *placed, int n, const struct group *g) {
    int64_t best = -1, best_room = INT64_MAX, end = 0;
    for (int i = 0; i < n; i++) {
        const struct group *p = placed[i];
        if (p->last < g->first || g->last < p->first) continue;
        int64_t room = p->offset - end;
        if (room >= g->bytes && room < best_room) {
            best = end;
            best_room = room;
        }
        if (p->offset + p->bytes > end) end = p->offset + p->bytes;
    }
    return best >= 0 ? best : end;
}

static int64_t place_all(struct group **order, struct group **placed, int n) {
    int64_t top = 0;
    for (int i = 0; i < n; i++) {
        struct group *g = order[i];
        g->offset = n <= MAX_REUSE ? best_gap(placed, i, g) : top;
        int at = i;
        for (; at > 0 && placed[at - 1]->offset > g->offset; at--)
            placed[at] = placed[at - 1];
        placed[at] = g;
        if (g->offset + g->bytes > top) top = g->offset + g->bytes;
    }
    return top;
}

/* Largest sum of live groups over all steps. */
static int64_t lower_bound(const struct layout *l, int64_t *delta) {
    int n = l->graph->n_nodes;
    for (int i = 0; i < l->n; i++) {
        delta[l->list[i]->first + 1] += l->list[i]->bytes;
        delta[l->list[i]->last + 2] -= l->list[i]->bytes;
    }
    int64_t live = 0, most = 0;
    for (int k = 0; k <= n + 1; k++) {
        live += delta[k];
        if (live > most) most = live;
    }
    return most;
}

int mo_plan_check_arena(const struct mo_plan *plan, moire_error *err) {
    if (plan->arena_bytes <= plan->env->limits.arena_bytes) return MOIRE_OK;
    return mo_fail(err, MOIRE_ELIMIT, "activations need %lld bytes (limit arena_bytes)",
                   (long long)plan->arena_bytes);
}

static int lay_out(struct mo_plan *plan, struct layout *l, struct mo_region *tmp, moire_error *err) {
    int rc = find_groups(plan, l, err);
    if (rc) return rc;
    find_lifetimes(l);
    merge_in_place(l);
    int n = 0;
    for (int i = 0; i < l->n; i++)
        if (!l->list[i]->into && l->list[i]->last >= l->list[i]->first) l->list[n++] = l->list[i];
    l->n = n;
    struct group **placed = mo_region_array(tmp, (size_t)n + 1, sizeof *placed);
    int64_t *delta = mo_region_array(tmp, (size_t)l->graph->n_nodes + 4, sizeof *delta);
    if (!placed || !delta) return mo_fail(err, MOIRE_ENOMEM, "out of memory while planning activations");
    plan->arena_lower = lower_bound(l, delta);
    qsort(l->list, (size_t)n, sizeof *l->list, by_time);
    int64_t timely = place_all(l->list, placed, n);
    qsort(l->list, (size_t)n, sizeof *l->list, by_size);
    plan->arena_bytes = place_all(l->list, placed, n);
    if (timely < plan->arena_bytes) {
        qsort(l->list, (size_t)n, sizeof *l->list, by_time);
        plan->arena_bytes = place_all(l->list, placed, n);
    }
    rc = mo_plan_check_arena(plan, err);
    if (rc) return rc;
    for (int i = 0; i < l->graph->n_tensors; i++) {
        int64_t inside = 0;
        const struct group *g = group_of(l, i);
        plan->offset[i] = -1;
        if (!g || g->last < g->first) continue;
        mo_alias_root(l->graph, i, &inside);
        plan->offset[i] = g->offset + g->phase + inside;
    }
    return MOIRE_OK;
}

int mo_plan_memory(struct mo_plan *plan, moire_error *err) {
    struct layout l = {.graph = plan->graph};
    size_t n = (size_t)plan->graph->n_tensors;
    struct mo_region *tmp = mo_region_create(plan->env);
    if (!tmp) return mo_fail(err, MOIRE_ENOMEM, "out of memory while planning activations");
    l.root = mo_region_array(tmp, n, sizeof *l.root);
    l.of = mo_region_array(tmp, n, sizeof *l.of);
    l.list = mo_region_array(tmp, n, sizeof *l.list);
    int rc = l.root && l.of && l.list
                 ? lay_out(plan, &l, tmp, err)
                 : mo_fail(err, MOIRE_ENOMEM, "out of memory while planning activations");
    mo_region_destroy(tmp);
    return rc;
}
