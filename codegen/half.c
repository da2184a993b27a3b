/* SPDX-License-Identifier: Apache-2.0
 * half.c - models in half precision compute in single precision.
 *
 * No kernel reads float16 or bfloat16.  A graph whose products do is rewritten before shapes are inferred:
 * constants of these types become float32, casts to them casts to float32, and a cast stands behind every
 * input and before every output that the model declares so; callers see the types of the model.  What is
 * computed between is at least as exact as the model asks; an overflow of half precision does not happen.
 * Graphs that only move or compare halves stay as they are: the references of those operators take them.
 * Bodies of control flow change with the graph around them.  What types they are given is known only later,
 * so a graph with bodies is taken to multiply halves where there are both products and halves in it. */
#include <string.h>
#include "codegen/prepare.h"
#include "runtime/ops/op.h"
#include "runtime/ops/util.h"

static bool is_half(moire_dtype dtype) {
    return dtype == MOIRE_F16 || dtype == MOIRE_BF16;
}

/* The type attribute by which an operator of this name chooses what it makes; NULL: it has none. */
static const char *type_attribute(const struct mo_node *node) {
    static const char *const names[][2] = {{"Cast", "to"},
                                           {"EyeLike", "dtype"},
                                           {"SequenceEmpty", "dtype"},
                                           {"RandomNormal", "dtype"},
                                           {"RandomUniform", "dtype"},
                                           {"RandomNormalLike", "dtype"},
                                           {"RandomUniformLike", "dtype"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mo_node_is(node, names[i][0])) return names[i][1];
    return NULL;
}

/* Whether a tensor is in half precision as far as the file says without inference. */
static bool reads_half(const struct mo_graph *g, int id) {
    if (id < 0) return false;
    const struct mo_tensor *t = g->tensors[id];
    if (is_half(t->dtype)) return true;
    const struct mo_node *from = t->producer < 0 ? NULL : g->nodes[t->producer];
    const char *type = from ? type_attribute(from) : NULL;
    return type && is_half((moire_dtype)mo_attr_int(from, type, 0));
}

static bool is_product(const struct mo_node *node) {
    static const char *const products[] = {"Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN"};
    for (size_t k = 0; k < sizeof products / sizeof *products; k++)
        if (mo_node_is(node, products[k])) return true;
    return false;
}

static bool has_half_products(const struct mo_graph *g) {
    for (int i = 0; i < g->n_nodes; i++)
        for (int j = 0; is_product(g->nodes[i]) && j < g->nodes[i]->n_in; j++)
            if (reads_half(g, g->nodes[i]->in[j])) return true;
    return false;
}

/* What there is in a graph and its bodies, of any depth. */
struct census {
    bool bodies, products, halves;
};

static void take_census(struct mo_graph *g, struct census *c) {
    mo_graph_index(g);
    for (int i = 0; i < g->n_tensors; i++)
        c->halves = c->halves || reads_half(g, i);
    for (int i = 0; i < g->n_nodes; i++) {
        struct mo_graph *body;
        int at = 0;
        c->products = c->products || is_product(g->nodes[i]);
        while ((body = mo_node_next_body(g->nodes[i], &at))) {
            c->bodies = true;
            take_census(body, c);
        }
    }
}

static bool is_to_widen(struct mo_graph *g) {
    struct census c = {0};
    take_census(g, &c);
    return c.bodies ? c.products && c.halves : has_half_products(g);
}

/* The same values in float32, in new memory. */
static int widen(struct mo_graph *g, struct mo_value *v, moire_error *err) {
    enum { AT_ONCE = 256 };
    double part[AT_ONCE];
    int64_t n = mo_shape_count(&v->shape);
    struct mo_value to = {.dtype = MOIRE_F32, .shape = v->shape};
    to.data = mo_region_array(g->region, (size_t)n + 1, sizeof(float));
    if (!to.data) return mo_fail(err, MOIRE_ENOMEM, "out of memory converting half precision");
    for (int64_t i = 0; i < n; i += AT_ONCE) {
        int64_t some = n - i < AT_ONCE ? n - i : AT_ONCE;
        mo_load_span(v, i, 1, some, part);
        mo_store_span(&to, i, 1, some, part);
    }
    mo_region_release(g->region, v->data);
    *v = to;
    return MOIRE_OK;
}

static int widen_constant(struct mo_graph *g, struct mo_tensor *t, moire_error *err) {
    struct mo_value v = mo_tensor_value(t);
    int rc = widen(g, &v, err);
    if (rc) return rc;
    t->data = v.data;
    t->shared = false;
    t->dtype = MOIRE_F32;
    g->n_halves++;
    return MOIRE_OK;
}

static int widen_attributes(struct mo_graph *g, struct mo_node *node, moire_error *err) {
    const char *type = type_attribute(node);
    int rc = MOIRE_OK;
    for (int i = 0; i < node->n_attrs && !rc; i++) {
        struct mo_attr *a = &node->attrs[i];
        if (a->type == MO_ATTR_TENSOR && is_half(a->tensor.dtype)) rc = widen(g, &a->tensor, err);
        if (a->type == MO_ATTR_INT && type && !strcmp(a->name, type) && is_half((moire_dtype)a->i))
            a->i = MOIRE_F32;
    }
    return rc;
}

static int add_cast(struct mo_graph *g, int from, int to, moire_dtype dtype, moire_error *err) {
    struct mo_node *node = mo_graph_add_node(g, g->tensors[to]->name, "Cast", "", 1, 1);
    struct mo_attr *attr = node ? mo_node_add_attr(g, node, "to", MO_ATTR_INT) : NULL;
    if (!attr) return mo_fail(err, MOIRE_ENOMEM, "out of memory converting half precision");
    attr->i = dtype;
    node->in[0] = from;
    node->out[0] = to;
    node->opset = g->opset;
    node->op = mo_op_find("Cast", "");
    return MOIRE_OK;
}

/* The graph's output keeps its tensor and its type.  The node that computes it writes another tensor, which
 * all other readers take, and a Cast leads from that one to the output. */
static int cast_output(struct mo_graph *g, int id, moire_error *err) {
    struct mo_tensor *t = g->tensors[id];
    if (!is_half(t->dtype) || t->is_input || t->data || t->producer < 0) return MOIRE_OK;
    struct mo_tensor *wide = mo_graph_add_tensor(g, t->name, MOIRE_F32, &t->shape);
    if (!wide) return mo_fail(err, MOIRE_ENOMEM, "out of memory converting half precision");
    for (int i = 0; i < g->n_nodes; i++) {
        struct mo_node *node = g->nodes[i];
        for (int k = 0; k < node->n_in; k++)
            if (node->in[k] == id) node->in[k] = wide->id;
        for (int k = 0; k < node->n_out; k++)
            if (node->out[k] == id) node->out[k] = wide->id;
    }
    return add_cast(g, wide->id, id, t->dtype, err);
}

static int cast_input(struct mo_graph *g, int id, moire_error *err) {
    const struct mo_tensor *t = g->tensors[id];
    if (!is_half(t->dtype)) return MOIRE_OK;
    struct mo_tensor *wide = mo_graph_add_tensor(g, t->name, MOIRE_F32, &t->shape);
    if (!wide) return mo_fail(err, MOIRE_ENOMEM, "out of memory converting half precision");
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++)
            if (g->nodes[i]->in[k] == id) g->nodes[i]->in[k] = wide->id;
    return add_cast(g, id, wide->id, MOIRE_F32, err);
}

/* The first `tensors` ones, but for ports whose types callers see. */
static int widen_tensors(struct mo_graph *g, int tensors, bool ports, moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = 0; i < tensors && !rc; i++) {
        struct mo_tensor *t = g->tensors[i];
        if (!is_half(t->dtype) || (!ports && (t->is_input || t->is_output))) continue;
        if (t->data)
            rc = widen_constant(g, t, err);
        else
            t->dtype = MOIRE_F32; /* as declared; inference will say */
    }
    return rc;
}

/* Attributes of a graph's nodes, and all of their bodies. */
static int widen_nodes(struct mo_graph *g, moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = 0; i < g->n_nodes && !rc; i++) {
        struct mo_graph *body;
        int at = 0;
        rc = widen_attributes(g, g->nodes[i], err);
        while (!rc && (body = mo_node_next_body(g->nodes[i], &at))) {
            rc = widen_nodes(body, err);
            if (!rc) rc = widen_tensors(body, body->n_tensors, true, err);
            g->n_halves += body->n_halves;
        }
    }
    return rc;
}

int mo_widen_halves(struct mo_graph *g, moire_error *err) {
    const int tensors = g->n_tensors;
    if (!is_to_widen(g)) return MOIRE_OK;
    int rc = widen_nodes(g, err);
    for (int i = 0; i < g->n_outputs && !rc; i++)
        rc = cast_output(g, g->outputs[i], err);
    for (int i = 0; i < g->n_inputs && !rc; i++)
        rc = cast_input(g, g->inputs[i], err);
    if (!rc) rc = widen_tensors(g, tensors, false, err);
    return rc ? rc : mo_graph_sort(g, err);
}
