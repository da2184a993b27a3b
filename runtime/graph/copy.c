/* SPDX-License-Identifier: Apache-2.0
 * copy.c - see copy.h. */
#include "runtime/graph/copy.h"

#include <string.h>

void *mo_copy_bytes(struct mo_copier *c, const void *from, size_t bytes) {
    if (!from || (!c->deep && bytes)) return (void *)(uintptr_t)from;
    void *copy = mo_region_alloc(c->to->region, bytes);
    if (!copy)
        c->failed = true;
    else if (bytes)
        memcpy(copy, from, bytes);
    return copy;
}

const char *mo_copy_text(struct mo_copier *c, const char *s) {
    return s && *s ? mo_copy_bytes(c, s, strlen(s) + 1) : s ? "" : NULL;
}

static const char *const *copy_texts(struct mo_copier *c, const char *const *list, int n) {
    const char **copy = mo_copy_bytes(c, list, (size_t)n * sizeof *list);
    for (int i = 0; c->deep && copy && i < n; i++)
        copy[i] = mo_copy_text(c, list[i]);
    return copy;
}

static void copy_body(struct mo_copier *c, struct mo_attr *to, const struct mo_graph *from);

static void copy_attr(struct mo_copier *c, struct mo_attr *to, const struct mo_attr *from) {
    *to = *from;
    to->name = mo_copy_text(c, from->name);
    if (from->s) to->s = mo_copy_bytes(c, from->s, from->s_len + 1);
    const int64_t count = from->type == MO_ATTR_TENSOR ? mo_shape_count(&from->tensor.shape) : 0;
    if (from->tensor.data && count >= 0)
        to->tensor.data =
            mo_copy_bytes(c, from->tensor.data, (size_t)count * mo_dtype_bytes(from->tensor.dtype));
    to->ints = mo_copy_bytes(c, from->ints, (size_t)from->n * sizeof *from->ints);
    to->floats = mo_copy_bytes(c, from->floats, (size_t)from->n * sizeof *from->floats);
    to->strings = from->strings ? copy_texts(c, from->strings, from->n) : NULL;
    if (from->graph) copy_body(c, to, from->graph);
}

/* Which tensors a copy has. */
struct selection {
    const int *number; /* theirs, in the same order; -1: left out.  NULL: all have theirs */
    int n;
};

static int number_of(const struct selection *s, int id) {
    return s->number && id >= 0 ? s->number[id] : id;
}

static void copy_node(struct mo_copier *c, struct mo_node *to, const struct mo_node *from,
                      const struct selection *s) {
    struct mo_region *region = c->to->region;
    *to = *from;
    to->name = mo_copy_text(c, from->name);
    to->op_type = mo_copy_text(c, from->op_type);
    to->domain = mo_copy_text(c, from->domain);
    to->in = mo_region_array(region, (size_t)from->n_in + 1, sizeof *to->in); /* +1: as mo_graph_add_node() */
    to->out = mo_region_array(region, (size_t)from->n_out + 1, sizeof *to->out);
    to->attrs = mo_region_array(region, (size_t)from->n_attrs, sizeof *to->attrs);
    c->failed = c->failed || !to->in || !to->out || !to->attrs;
    if (c->failed) return;
    for (int i = 0; i < from->n_in; i++)
        to->in[i] = number_of(s, from->in[i]);
    for (int i = 0; i < from->n_out; i++)
        to->out[i] = number_of(s, from->out[i]);
    to->in[from->n_in] = -1;
    for (int i = 0; i < from->n_attrs; i++)
        copy_attr(c, &to->attrs[i], &from->attrs[i]);
}

static void copy_tensor(struct mo_copier *c, struct mo_tensor *to, const struct mo_tensor *from,
                        const struct selection *s) {
    *to = *from;
    to->id = number_of(s, from->id);
    to->alias = number_of(s, from->alias);
    to->name = mo_copy_text(c, from->name);
    to->shared = to->data != NULL;
}

/* Arrays of one piece, and the lists of pointers to their elements. */
static void copy_lists(struct mo_copier *c, const struct mo_graph *from, const struct selection *s) {
    struct mo_graph *to = c->to;
    const size_t tensors = (size_t)s->n, nodes = (size_t)from->n_nodes;
    struct mo_tensor *t = mo_region_array(to->region, tensors + 1, sizeof *t);
    struct mo_node *n = mo_region_array(to->region, nodes + 1, sizeof *n);
    to->tensors = mo_region_array(to->region, tensors + 1, sizeof *to->tensors);
    to->nodes = mo_region_array(to->region, nodes + 1, sizeof *to->nodes);
    c->failed = c->failed || !t || !n || !to->tensors || !to->nodes;
    for (int i = 0; i < from->n_tensors && !c->failed; i++) {
        const int at = number_of(s, i);
        if (at < 0) continue;
        to->tensors[at] = &t[at];
        copy_tensor(c, &t[at], from->tensors[i], s);
    }
    for (size_t i = 0; i < nodes && !c->failed; i++) {
        to->nodes[i] = &n[i];
        copy_node(c, &n[i], from->nodes[i], s);
    }
    to->n_tensors = to->cap_tensors = s->n;
    to->n_nodes = to->cap_nodes = from->n_nodes;
}

static int *copy_ports(struct mo_copier *c, const int *ids, int n, const struct selection *s) {
    int *copy = mo_region_array(c->to->region, (size_t)n + 1, sizeof *copy);
    for (int i = 0; copy && i < n; i++)
        copy[i] = number_of(s, ids[i]);
    c->failed = c->failed || !copy;
    return copy;
}

/* Everything but what belongs to a model as a whole. */
static void copy_graph(struct mo_copier *c, const struct mo_graph *from, const struct selection *s) {
    struct mo_graph *to = c->to;
    to->opset = from->opset;
    to->exact = from->exact;
    to->halves = from->halves;
    to->terms = from->terms;
    to->halves_by_vectors = from->halves_by_vectors;
    to->multiplies_tiles = from->multiplies_tiles;
    to->float16 = from->float16;
    to->name = mo_copy_text(c, from->name);
    copy_lists(c, from, s);
    to->inputs = copy_ports(c, from->inputs, from->n_inputs, s);
    to->outputs = copy_ports(c, from->outputs, from->n_outputs, s);
    to->n_inputs = from->n_inputs;
    to->n_outputs = from->n_outputs;
    to->n_captured = from->n_captured;
}

/* Bodies nest as deep as messages of a file may. */
static void copy_body(struct mo_copier *c, struct mo_attr *to, const struct mo_graph *from) {
    const struct selection all = {.n = from->n_tensors};
    struct mo_copier inner = {.to = mo_graph_add_body(c->to), .deep = c->deep};
    to->graph = inner.to;
    if (inner.to) copy_graph(&inner, from, &all);
    c->failed = c->failed || !inner.to || inner.failed;
}

static struct mo_graph *copy(const struct mo_graph *from, bool deep, const struct selection *s) {
    struct mo_copier c = {.to = mo_graph_create(from->env), .deep = deep};
    struct mo_graph *to = c.to;
    if (!to) return NULL;
    copy_graph(&c, from, s);
    to->meta_key = (const char **)(uintptr_t)copy_texts(&c, from->meta_key, from->n_meta);
    to->meta_value = (const char **)(uintptr_t)copy_texts(&c, from->meta_value, from->n_meta);
    to->n_meta = from->n_meta;
    to->outside = (const char **)(uintptr_t)copy_texts(&c, from->outside, from->n_outside);
    to->n_outside = from->n_outside;
    if (!c.failed) return to;
    mo_graph_destroy(to);
    return NULL;
}

struct mo_graph *mo_graph_copy(const struct mo_graph *from, bool deep) {
    const struct selection all = {.n = from->n_tensors};
    return copy(from, deep, &all);
}

/* --- what is alive -------------------------------------------------------------------------------------- */

static void mark(const struct mo_graph *g, char *alive, int id) {
    for (; id >= 0 && !alive[id]; id = g->tensors[id]->alias)
        alive[id] = 1;
}

/* Tensors of nodes and ports, and those whose storage these share; NULL: out of memory. */
static char *find_alive(const struct mo_graph *g) {
    char *alive = mo_alloc(g->env, (size_t)g->n_tensors + 1);
    if (!alive) return NULL;
    for (int i = 0; i < g->n_inputs; i++)
        mark(g, alive, g->inputs[i]);
    for (int i = 0; i < g->n_outputs; i++)
        mark(g, alive, g->outputs[i]);
    for (int i = 0; i < g->n_nodes; i++) {
        for (int k = 0; k < g->nodes[i]->n_in; k++)
            mark(g, alive, g->nodes[i]->in[k]);
        for (int k = 0; k < g->nodes[i]->n_out; k++)
            mark(g, alive, g->nodes[i]->out[k]);
    }
    return alive;
}

/* Texts as contents are lists of their own, which are not copied here. */
static bool has_texts(const struct mo_graph *g) {
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i]->dtype == MOIRE_STRING) return true;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_attrs; k++)
            if (g->nodes[i]->attrs[k].tensor.dtype == MOIRE_STRING) return true;
    return false;
}

/* Contents that lie in another region: large ones change the region, small ones are copied. */
static void take(struct mo_copier *c, struct mo_region *from, struct mo_tensor *t) {
    const int64_t bytes = mo_tensor_bytes(t);
    if (!t->data || !mo_region_owns(from, t->data)) return;
    t->shared = false;
    if (!mo_region_move(from, c->to->region, t->data))
        t->data = mo_copy_bytes(c, t->data, bytes > 0 ? (size_t)bytes : 0);
}

static void take_bodies(struct mo_copier *c, struct mo_region *from, const struct mo_graph *g) {
    for (int i = 0; i < g->n_nodes; i++) {
        int at = 0;
        for (struct mo_graph *body; (body = mo_node_next_body(g->nodes[i], &at));) {
            for (int k = 0; k < body->n_tensors && !c->failed; k++)
                take(c, from, body->tensors[k]);
            take_bodies(c, from, body);
        }
    }
}

bool mo_graph_take_bodies(struct mo_graph *to, struct mo_graph *from) {
    struct mo_copier c = {.to = to, .deep = true};
    take_bodies(&c, from->region, to);
    return !c.failed;
}

/* Contents in the memory of a graph go to its copy.  False: out of memory. */
static bool take_contents(struct mo_graph *from, struct mo_graph *to, const int *number) {
    struct mo_copier c = {.to = to, .deep = true};
    for (int i = 0; i < from->n_tensors && !c.failed; i++)
        if (number[i] >= 0) take(&c, from->region, to->tensors[number[i]]);
    return !c.failed && mo_graph_take_bodies(to, from);
}

static struct mo_graph *squeezed(struct mo_graph *from) {
    char *alive = find_alive(from);
    int *number = mo_alloc(from->env, ((size_t)from->n_tensors + 1) * sizeof *number);
    struct selection s = {.number = number};
    struct mo_graph *to = NULL;
    if (alive && number) {
        for (int i = 0; i < from->n_tensors; i++)
            number[i] = alive[i] ? s.n++ : -1;
        to = copy(from, true, &s);
    }
    if (to && !take_contents(from, to, number)) {
        mo_graph_destroy(to);
        to = NULL;
    }
    if (to) to->n_halves = from->n_halves;
    mo_free(from->env, alive);
    mo_free(from->env, number);
    return to;
}

int mo_graph_squeeze(struct mo_graph **graph, moire_error *err) {
    struct mo_graph *from = *graph;
    mo_graph_compact(from);
    if (has_texts(from)) return MOIRE_OK;
    struct mo_graph *to = squeezed(from);
    if (!to) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a graph of %d nodes", from->n_nodes);
    mo_graph_destroy(from);
    *graph = to;
    return MOIRE_OK;
}
