/* SPDX-License-Identifier: Apache-2.0
 * imported.c - imported models that several plans share; see imported.h. */
#include "codegen/imported.h"

#include <string.h>
#include "codegen/prepare.h"
#include "runtime/graph/content.h"

/* Constants below ELIDED_FROM are copied, larger ones that are not elided move. */
enum { ELIDED_FROM = 4096, MOVED_FROM = 32 << 10, LEAST_HOLLOW = 128 << 10 };

struct mo_imported {
    struct mo_graph *graph;
    struct mo_symbols *symbols; /* of every input */
    const void *hollow;         /* what elided constants point to */
    int64_t untouched;          /* bytes there, which take no memory */
};

void mo_imported_destroy(struct mo_imported *m) {
    if (m) mo_graph_destroy(m->graph); /* its region has the rest */
}

int64_t mo_imported_bytes(const struct mo_imported *m) {
    return (int64_t)mo_region_bytes(m->graph->region) - m->untouched;
}

const struct mo_graph *mo_imported_graph(const struct mo_imported *m) {
    return m->graph;
}

/* --- which constants are weights ------------------------------------------------------------------------ */

/* Kernels pack input 1 of these, and passes only scale, turn and join it. */
static bool packs(const struct mo_node *node, int rank) {
    const char *op = node->op_type;
    if (*node->domain) return false;
    if (!strcmp(op, "Conv") || !strcmp(op, "ConvTranspose")) return rank == 4;
    return (!strcmp(op, "MatMul") || !strcmp(op, "Gemm")) && rank == 2;
}

/* Gives every weight its number. */
static int number_weights(struct mo_graph *g, moire_error *err) {
    char *use = mo_alloc(g->env, (size_t)g->n_tensors + 1); /* 1: as a weight, 2: as anything else */
    if (!use) return mo_fail(err, MOIRE_ENOMEM, "out of memory importing the model");
    for (int i = 0; i < g->n_nodes; i++) {
        const struct mo_node *node = g->nodes[i];
        for (int k = 0; k < node->n_in; k++)
            if (node->in[k] >= 0)
                use[node->in[k]] |= k == 1 && packs(node, g->tensors[node->in[k]]->shape.rank) ? 1 : 2;
    }
    for (int i = 0; i < g->n_tensors; i++) {
        struct mo_tensor *t = g->tensors[i];
        if (use[i] == 1 && t->data && t->dtype == MOIRE_F32 && !t->is_input && !t->is_output)
            t->content = mo_content_of("initializer", NULL, 0, &i, sizeof i);
    }
    mo_free(g->env, use);
    return MOIRE_OK;
}

static bool is_elided(const struct mo_tensor *t) {
    return t->content && mo_tensor_bytes(t) >= ELIDED_FROM;
}

/* --- copies --------------------------------------------------------------------------------------------- */

/* Where a copy lies.  Deep ones have texts and lists of their own. */
struct copier {
    struct mo_graph *to;
    bool deep, failed;
};

static void *keep(struct copier *c, const void *from, size_t bytes) {
    if (!from || (!c->deep && bytes)) return (void *)(uintptr_t)from;
    void *copy = mo_region_alloc(c->to->region, bytes);
    if (!copy)
        c->failed = true;
    else if (bytes)
        memcpy(copy, from, bytes);
    return copy;
}

static const char *keep_text(struct copier *c, const char *s) {
    return s && *s ? keep(c, s, strlen(s) + 1) : s ? "" : NULL;
}

static const char *const *keep_texts(struct copier *c, const char *const *list, int n) {
    const char **copy = keep(c, list, (size_t)n * sizeof *list);
    for (int i = 0; c->deep && copy && i < n; i++)
        copy[i] = keep_text(c, list[i]);
    return copy;
}

static void copy_attr(struct copier *c, struct mo_attr *to, const struct mo_attr *from) {
    *to = *from;
    to->name = keep_text(c, from->name);
    if (from->s) to->s = keep(c, from->s, from->s_len + 1);
    const int64_t count = from->type == MO_ATTR_TENSOR ? mo_shape_count(&from->tensor.shape) : 0;
    if (from->tensor.data && count >= 0)
        to->tensor.data = keep(c, from->tensor.data, (size_t)count * mo_dtype_bytes(from->tensor.dtype));
    to->ints = keep(c, from->ints, (size_t)from->n * sizeof *from->ints);
    to->floats = keep(c, from->floats, (size_t)from->n * sizeof *from->floats);
    to->strings = from->strings ? keep_texts(c, from->strings, from->n) : NULL;
}

static void copy_node(struct copier *c, struct mo_node *to, const struct mo_node *from) {
    struct mo_region *region = c->to->region;
    *to = *from;
    to->name = keep_text(c, from->name);
    to->op_type = keep_text(c, from->op_type);
    to->domain = keep_text(c, from->domain);
    to->in = mo_region_array(region, (size_t)from->n_in + 1, sizeof *to->in); /* +1: as mo_graph_add_node() */
    to->out = mo_region_array(region, (size_t)from->n_out + 1, sizeof *to->out);
    to->attrs = mo_region_array(region, (size_t)from->n_attrs, sizeof *to->attrs);
    c->failed = c->failed || !to->in || !to->out || !to->attrs;
    if (c->failed) return;
    if (from->n_in) memcpy(to->in, from->in, (size_t)from->n_in * sizeof *to->in);
    if (from->n_out) memcpy(to->out, from->out, (size_t)from->n_out * sizeof *to->out);
    to->in[from->n_in] = -1;
    for (int i = 0; i < from->n_attrs; i++)
        copy_attr(c, &to->attrs[i], &from->attrs[i]);
}

/* Arrays of one piece, and the lists of pointers to their elements. */
static void copy_lists(struct copier *c, const struct mo_graph *from) {
    struct mo_graph *to = c->to;
    const size_t tensors = (size_t)from->n_tensors, nodes = (size_t)from->n_nodes;
    struct mo_tensor *t = mo_region_array(to->region, tensors + 1, sizeof *t);
    struct mo_node *n = mo_region_array(to->region, nodes + 1, sizeof *n);
    to->tensors = mo_region_array(to->region, tensors + 1, sizeof *to->tensors);
    to->nodes = mo_region_array(to->region, nodes + 1, sizeof *to->nodes);
    c->failed = c->failed || !t || !n || !to->tensors || !to->nodes;
    for (size_t i = 0; i < tensors && !c->failed; i++) {
        to->tensors[i] = &t[i];
        t[i] = *from->tensors[i];
        t[i].name = keep_text(c, t[i].name);
        t[i].shared = t[i].data != NULL;
    }
    for (size_t i = 0; i < nodes && !c->failed; i++) {
        to->nodes[i] = &n[i];
        copy_node(c, &n[i], from->nodes[i]);
    }
    to->n_tensors = to->cap_tensors = from->n_tensors;
    to->n_nodes = to->cap_nodes = from->n_nodes;
}

/* A copy whose tensors still point to the contents of `from`; NULL: out of memory. */
static struct mo_graph *copy_graph(const struct mo_graph *from, bool deep) {
    struct copier c = {.to = mo_graph_create(from->env), .deep = deep};
    struct mo_graph *to = c.to;
    if (!to) return NULL;
    to->opset = from->opset;
    to->exact = from->exact;
    to->name = keep_text(&c, from->name);
    copy_lists(&c, from);
    to->inputs = keep(&c, from->inputs, (size_t)from->n_inputs * sizeof *from->inputs);
    to->outputs = keep(&c, from->outputs, (size_t)from->n_outputs * sizeof *from->outputs);
    to->n_inputs = from->n_inputs;
    to->n_outputs = from->n_outputs;
    to->meta_key = (const char **)(uintptr_t)keep_texts(&c, from->meta_key, from->n_meta);
    to->meta_value = (const char **)(uintptr_t)keep_texts(&c, from->meta_value, from->n_meta);
    to->n_meta = from->n_meta;
    to->outside = (const char **)(uintptr_t)keep_texts(&c, from->outside, from->n_outside);
    to->n_outside = from->n_outside;
    if (!c.failed) return to;
    mo_graph_destroy(to);
    return NULL;
}

/* --- making one ----------------------------------------------------------------------------------------- */

/* The imported model gets the constants: what is large leaves the graph, which keeps using it. */
static bool settle(struct mo_imported *m, struct mo_graph *g) {
    struct copier c = {.to = m->graph, .deep = true};
    int64_t most = LEAST_HOLLOW;
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i]->data && is_elided(g->tensors[i]) && mo_tensor_bytes(g->tensors[i]) > most)
            most = mo_tensor_bytes(g->tensors[i]);
    m->hollow = mo_region_reserve(m->graph->region, (size_t)most);
    m->untouched = most;
    for (int i = 0; i < g->n_tensors && m->hollow && !c.failed; i++) {
        struct mo_tensor *own = m->graph->tensors[i], *t = g->tensors[i];
        const int64_t bytes = mo_tensor_bytes(t);
        if (!t->data) continue;
        if (is_elided(t)) {
            own->data = (void *)(uintptr_t)m->hollow;
        } else if (bytes >= MOVED_FROM && mo_region_move(g->region, m->graph->region, t->data)) {
            t->shared = true;
        } else {
            own->data = keep(&c, t->data, bytes > 0 ? (size_t)bytes : 0);
        }
    }
    return m->hollow && !c.failed;
}

static struct mo_imported *make(struct mo_graph *g, const struct mo_symbols *symbols) {
    struct mo_graph *graph = copy_graph(g, true);
    struct mo_imported *m = graph ? mo_region_alloc(graph->region, sizeof *m) : NULL;
    if (!m) {
        mo_graph_destroy(graph);
        return NULL;
    }
    struct copier c = {.to = graph, .deep = true};
    *m = (struct mo_imported){.graph = graph};
    m->symbols = keep(&c, symbols, (size_t)(g->n_inputs + 1) * sizeof *symbols);
    for (int i = 0; i < g->n_inputs && !c.failed; i++)
        for (int k = 0; k < MOIRE_MAX_RANK; k++)
            m->symbols[i].dim[k] = keep_text(&c, symbols[i].dim[k]);
    if (!c.failed && settle(m, g)) return m;
    mo_graph_destroy(graph);
    return NULL;
}

/* A graph of the same file uses the constants that are here; its own go. */
static int adopt(const struct mo_imported *m, struct mo_graph *g, moire_error *err) {
    bool same = g->n_tensors == m->graph->n_tensors && g->n_nodes == m->graph->n_nodes;
    for (int i = 0; i < g->n_tensors && same; i++)
        same = !strcmp(g->tensors[i]->name, m->graph->tensors[i]->name) &&
               mo_tensor_bytes(g->tensors[i]) == mo_tensor_bytes(m->graph->tensors[i]) &&
               !g->tensors[i]->data == !m->graph->tensors[i]->data;
    if (!same) return mo_fail(err, MOIRE_ESTORE, "the file has changed");
    for (int i = 0; i < g->n_tensors; i++) {
        struct mo_tensor *t = g->tensors[i];
        if (!t->data || is_elided(t) || !mo_region_release(g->region, t->data)) continue;
        t->data = m->graph->tensors[i]->data;
        t->shared = true;
    }
    return MOIRE_OK;
}

static int use_weights(struct mo_graph *g, struct mo_weights *weights, const void *elided, moire_error *err) {
    g->packed = mo_region_alloc(g->region, sizeof *g->packed);
    if (!g->packed) return mo_fail(err, MOIRE_ENOMEM, "out of memory importing the model");
    g->packed->weights = weights;
    g->packed->elided = elided;
    return MOIRE_OK;
}

int mo_imported_share(struct mo_frontend_share *share, struct mo_graph *g, const struct mo_symbols *symbols,
                      moire_error *err) {
    int rc = number_weights(g, err);
    if (!rc && share->imported) rc = adopt(share->imported, g, err);
    if (!rc && !share->imported && !(share->imported = make(g, symbols)))
        rc = mo_fail(err, MOIRE_ENOMEM, "out of memory importing the model");
    return rc ? rc : use_weights(g, share->weights, NULL, err);
}

int mo_imported_bind(const struct mo_imported *m, struct mo_weights *weights,
                     const struct mo_frontend_options *options, struct mo_graph **out, moire_error *err) {
    struct mo_graph *g = copy_graph(m->graph, false);
    *out = NULL;
    int rc = g ? use_weights(g, weights, m->hollow, err)
               : mo_fail(err, MOIRE_ENOMEM, "out of memory binding shapes");
    if (g) g->exact = options->exact;
    if (!rc) rc = mo_bind_shapes(g, m->symbols, options, err);
    if (!rc) rc = mo_prepare(g, options, err);
    if (rc)
        mo_graph_destroy(g);
    else
        *out = g;
    return rc;
}
