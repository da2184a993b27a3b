/* SPDX-License-Identifier: Apache-2.0
 * graph.c - building and editing graphs; shapes and attributes are in shape.c and attr.c. */
#include "runtime/graph/graph.h"

#include <string.h>

struct mo_graph *mo_graph_create(const struct mo_env *env) {
    struct mo_region *region = mo_region_create(env);
    if (!region) return NULL;
    struct mo_graph *g = mo_region_alloc(region, sizeof *g);
    if (!g) {
        mo_region_destroy(region);
        return NULL;
    }
    g->env = env;
    g->region = region;
    g->name = "";
    return g;
}

struct mo_graph *mo_graph_add_body(struct mo_graph *around) {
    struct mo_graph *body = mo_region_alloc(around->region, sizeof *body);
    if (!body) return NULL;
    body->env = around->env;
    body->region = around->region;
    body->opset = around->opset;
    body->exact = around->exact;
    body->name = "";
    return body;
}

void mo_graph_destroy(struct mo_graph *g) {
    if (g) mo_region_destroy(g->region);
}

/* Makes room for one more pointer in a growing array that lives in the region. */
static void *grow(struct mo_graph *g, void *array, int n, int *cap) {
    if (n < *cap) return array;
    int wider = *cap ? *cap * 2 : 64;
    void **copy = mo_region_array(g->region, (size_t)wider, sizeof(void *));
    if (!copy) return NULL;
    if (n) memcpy(copy, array, (size_t)n * sizeof(void *));
    *cap = wider;
    return copy;
}

static const char *copy_string(struct mo_graph *g, const char *s) {
    return s && *s ? mo_region_string(g->region, s, strlen(s)) : "";
}

struct mo_tensor *mo_graph_add_tensor(struct mo_graph *g, const char *name, moire_dtype dtype,
                                      const struct mo_shape *shape) {
    if (g->n_tensors >= g->env->limits.tensors) return NULL;
    struct mo_tensor **wider = grow(g, g->tensors, g->n_tensors, &g->cap_tensors);
    struct mo_tensor *t = wider ? mo_region_alloc(g->region, sizeof *t) : NULL;
    if (!t) return NULL;
    g->tensors = wider;
    t->name = copy_string(g, name);
    if (!t->name) return NULL;
    t->id = g->n_tensors;
    t->dtype = dtype;
    t->shape = shape ? *shape : (struct mo_shape){.rank = -1};
    t->producer = t->alias = t->consumer = -1;
    g->tensors[g->n_tensors++] = t;
    return t;
}

struct mo_tensor *mo_graph_add_const(struct mo_graph *g, const char *name, moire_dtype dtype,
                                     const struct mo_shape *shape) {
    int64_t count = mo_shape_count(shape);
    if (count < 0) return NULL;
    void *data = mo_region_array(g->region, (size_t)count, mo_dtype_bytes(dtype));
    struct mo_tensor *t = data ? mo_graph_add_tensor(g, name, dtype, shape) : NULL;
    if (t) t->data = data;
    return t;
}

struct mo_node *mo_graph_add_node(struct mo_graph *g, const char *name, const char *op_type,
                                  const char *domain, int n_in, int n_out) {
    if (g->n_nodes >= g->env->limits.nodes || n_in < 0 || n_out < 0) return NULL;
    struct mo_node **wider = grow(g, g->nodes, g->n_nodes, &g->cap_nodes);
    struct mo_node *node = wider ? mo_region_alloc(g->region, sizeof *node) : NULL;
    if (!node) return NULL;
    g->nodes = wider;
    node->name = copy_string(g, name);
    node->op_type = copy_string(g, op_type);
    node->domain = copy_string(g, domain);
    node->in = mo_region_array(g->region, (size_t)n_in + 1, sizeof(int)); /* +1: room for a fused residual */
    node->out = mo_region_array(g->region, (size_t)n_out, sizeof(int));
    if (!node->name || !node->op_type || !node->domain || !node->in || !node->out) return NULL;
    for (int i = 0; i <= n_in; i++)
        node->in[i] = -1;
    for (int i = 0; i < n_out; i++)
        node->out[i] = -1;
    node->id = g->n_nodes;
    node->n_in = n_in;
    node->n_out = n_out;
    node->opset = g->opset;
    node->fuse.residual = -1;
    g->nodes[g->n_nodes++] = node;
    return node;
}

struct mo_attr *mo_node_add_attr(struct mo_graph *g, struct mo_node *node, const char *name,
                                 enum mo_attr_type type) {
    struct mo_attr *wider = mo_region_array(g->region, (size_t)node->n_attrs + 1, sizeof *wider);
    if (!wider) return NULL;
    if (node->n_attrs) memcpy(wider, node->attrs, (size_t)node->n_attrs * sizeof *wider);
    node->attrs = wider;
    struct mo_attr *attr = &wider[node->n_attrs];
    attr->name = copy_string(g, name);
    attr->type = type;
    if (!attr->name) return NULL;
    node->n_attrs++;
    return attr;
}

bool mo_graph_add_outside(struct mo_graph *g, const char *location) {
    for (int i = 0; i < g->n_outside; i++)
        if (!strcmp(g->outside[i], location)) return true;
    const char **wider = mo_region_array(g->region, (size_t)g->n_outside + 1, sizeof *wider);
    if (!wider) return false;
    if (g->n_outside) memcpy(wider, g->outside, (size_t)g->n_outside * sizeof *wider);
    g->outside = wider;
    return (wider[g->n_outside++] = copy_string(g, location)) != NULL;
}

void mo_graph_index(struct mo_graph *g) {
    for (int i = 0; i < g->n_tensors; i++) {
        g->tensors[i]->producer = -1;
        g->tensors[i]->n_uses = 0;
        g->tensors[i]->consumer = -1;
    }
    for (int i = 0; i < g->n_nodes; i++) {
        struct mo_node *node = g->nodes[i];
        node->id = i;
        if (node->dead) continue;
        for (int k = 0; k < node->n_in; k++)
            if (node->in[k] >= 0) {
                g->tensors[node->in[k]]->n_uses++;
                g->tensors[node->in[k]]->consumer = i;
            }
        for (int k = 0; k < node->n_out; k++)
            if (node->out[k] >= 0) g->tensors[node->out[k]]->producer = i;
    }
    for (int i = 0; i < g->n_outputs; i++)
        g->tensors[g->outputs[i]]->n_uses++;
}

/* One node on the way to being placed: its producers come first, input by input. */
struct visit {
    int node, next_in;
};

enum { WAITING = 0, ON_STACK = 1, PLACED = 2 };

/* The producer of the next input that is not placed yet; -1 when there is none. */
static int missing_producer(const struct mo_graph *g, struct visit *v, const char *state) {
    const struct mo_node *node = g->nodes[v->node];
    while (v->next_in < node->n_in) {
        int id = node->in[v->next_in++];
        int from = id >= 0 ? g->tensors[id]->producer : -1;
        if (from >= 0 && state[from] != PLACED) return from;
    }
    return -1;
}

/* Depth first in present order: every node comes right after the last of its producers that was missing, so
 * models that are already sorted keep their order, and a node made by a pass lands before its first reader.
 * An explicit stack; a producer that is on it already closes a cycle. */
static int place(const struct mo_graph *g, int root, char *state, struct visit *stack, struct mo_node **order,
                 int *n, moire_error *err) {
    int depth = 0;
    stack[depth++] = (struct visit){root, 0};
    state[root] = ON_STACK;
    while (depth) {
        struct visit *top = &stack[depth - 1];
        int from = missing_producer(g, top, state);
        if (from < 0) {
            state[top->node] = PLACED;
            order[(*n)++] = g->nodes[top->node];
            depth--;
            continue;
        }
        if (state[from] == ON_STACK)
            return mo_fail(
                err, MOIRE_EFORMAT,
                "the graph has a cycle through node '%.100s' (%.60s): an ONNX graph must be acyclic",
                g->nodes[from]->name, g->nodes[from]->op_type);
        state[from] = ON_STACK;
        stack[depth++] = (struct visit){from, 0};
    }
    return MOIRE_OK;
}

static int sort_into(struct mo_graph *g, struct mo_region *tmp, moire_error *err) {
    size_t nodes = (size_t)g->n_nodes;
    char *state = mo_region_array(tmp, nodes + 1, 1); /* WAITING */
    struct visit *stack = mo_region_array(tmp, nodes + 1, sizeof *stack);
    struct mo_node **order = mo_region_array(g->region, nodes + 1, sizeof *order);
    if (!state || !stack || !order)
        return mo_fail(err, MOIRE_ENOMEM, "out of memory while sorting the graph");
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i]->dead || state[i] == PLACED) continue;
        int rc = place(g, i, state, stack, order, &n, err);
        if (rc) return rc;
    }
    g->nodes = order;
    g->n_nodes = n;
    g->cap_nodes = (int)nodes;
    return MOIRE_OK;
}

int mo_graph_sort(struct mo_graph *g, moire_error *err) {
    mo_graph_index(g);
    bool sorted = true;
    for (int i = 0; i < g->n_nodes && sorted; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++)
            if (!g->nodes[i]->dead && g->nodes[i]->in[k] >= 0 &&
                g->tensors[g->nodes[i]->in[k]]->producer >= i)
                sorted = false;
    if (!sorted) {
        struct mo_region *tmp = mo_region_create(g->env);
        if (!tmp) return mo_fail(err, MOIRE_ENOMEM, "out of memory while sorting the graph");
        int rc = sort_into(g, tmp, err);
        mo_region_destroy(tmp);
        if (rc) return rc;
    }
    mo_graph_compact(g);
    return MOIRE_OK;
}

void mo_graph_compact(struct mo_graph *g) {
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i]->dead) g->nodes[n++] = g->nodes[i];
    g->n_nodes = n;
    mo_graph_index(g);
}

int mo_graph_check(const struct mo_graph *g, moire_error *err) {
    for (int i = 0; i < g->n_nodes; i++) {
        const struct mo_node *node = g->nodes[i];
        if (node->dead) continue;
        for (int k = 0; k < node->n_in + node->n_out; k++) {
            int id = k < node->n_in ? node->in[k] : node->out[k - node->n_in];
            if (id < -1 || id >= g->n_tensors)
                return mo_fail(err, MOIRE_EINTERNAL, "node '%s' names tensor %d of %d", node->name, id,
                               g->n_tensors);
            if (id >= 0 && k < node->n_in && g->tensors[id]->producer >= i)
                return mo_fail(err, MOIRE_EINTERNAL, "node '%s' reads '%s' before it is produced", node->name,
                               g->tensors[id]->name);
            if (id >= 0 && k >= node->n_in && g->tensors[id]->producer != i)
                return mo_fail(err, MOIRE_EINTERNAL, "tensor '%s' has two producers", g->tensors[id]->name);
        }
    }
    return MOIRE_OK;
}

static bool reads(const struct mo_node *node, int tensor) {
    for (int k = 0; !node->dead && k < node->n_in; k++)
        if (node->in[k] == tensor) return true;
    return false;
}

struct mo_node *mo_graph_sole_consumer(const struct mo_graph *g, int tensor) {
    const struct mo_tensor *t = g->tensors[tensor];
    if (t->n_uses != 1) return NULL;
    if (t->consumer >= 0 && t->consumer < g->n_nodes && reads(g->nodes[t->consumer], tensor))
        return g->nodes[t->consumer];
    for (int i = t->producer + 1; i < g->n_nodes; i++) /* a pass has rewired it since the last index */
        if (reads(g->nodes[i], tensor)) return g->nodes[i];
    return NULL;
}
