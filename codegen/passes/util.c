/* SPDX-License-Identifier: Apache-2.0
 * util.c - small questions and edits that passes share. */
#include <string.h>
#include "codegen/passes/passes.h"
#include "runtime/ops/op.h"

int mo_no_memory(moire_error *err) {
    return mo_fail(err, MOIRE_ENOMEM, "out of memory optimising the graph");
}

bool mo_is(const struct mo_node *node, const char *op) {
    return node && mo_node_is(node, op);
}

bool mo_is_moire(const struct mo_node *node, const char *op) {
    return node && mo_node_is_ours(node, op);
}

struct mo_node *mo_producer(const struct mo_graph *g, int tensor) {
    int p = tensor < 0 ? -1 : g->tensors[tensor]->producer;
    return p < 0 || g->nodes[p]->dead ? NULL : g->nodes[p];
}

bool mo_is_f32(const struct mo_tensor *t) {
    return t && t->dtype == MOIRE_F32 && !t->dynamic && t->shape.rank >= 0;
}

bool mo_is_bytes(const struct mo_tensor *t) {
    return t && (t->dtype == MOIRE_U8 || t->dtype == MOIRE_I8) && !t->dynamic && t->shape.rank >= 0;
}

bool mo_scalar(const struct mo_graph *g, int tensor, float *out) {
    const struct mo_tensor *t = tensor < 0 ? NULL : g->tensors[tensor];
    if (!mo_is_f32(t) || !t->data || mo_shape_count(&t->shape) != 1) return false;
    *out = *(const float *)t->data;
    return true;
}

bool mo_per_channel(const struct mo_tensor *t, const struct mo_shape *to, int axis, float *out) {
    if (!mo_is_f32(t) || !t->data || t->shape.rank > to->rank) return false;
    int64_t n = mo_shape_count(&t->shape), channels = to->d[axis];
    int at = axis - (to->rank - t->shape.rank); /* the axis in t, right-aligned */
    for (int i = 0; i < t->shape.rank; i++)
        if (t->shape.d[i] != 1 && i != at) return false;
    if (n != 1 && n != channels) return false;
    for (int64_t c = 0; c < channels; c++)
        out[c] = ((const float *)t->data)[n == 1 ? 0 : c];
    return true;
}

int mo_become(struct mo_graph *g, struct mo_node *node, const char *op, int n_in, moire_error *err) {
    if (n_in > node->n_in) {
        int *in = mo_region_array(g->region, (size_t)n_in + 1, sizeof *in);
        if (!in) return mo_no_memory(err);
        for (int i = 0; i <= n_in; i++)
            in[i] = i < node->n_in ? node->in[i] : -1;
        node->in = in;
    }
    node->n_in = n_in;
    node->op_type = op;
    node->domain = "moire";
    node->opset = 1;
    node->op = mo_op_find(op, "moire");
    node->n_attrs = 0;
    return node->op ? MOIRE_OK : mo_fail(err, MOIRE_EINTERNAL, "no operator moire.%s", op);
}

struct mo_tensor *mo_derive_constant(struct mo_graph *g, const struct mo_tensor *from, const char *name,
                                     const struct mo_shape *shape, uint64_t content) {
    const bool elided = mo_packed_elided(g, from);
    struct mo_tensor *t = elided ? mo_graph_add_tensor(g, name, from->dtype, shape)
                                 : mo_graph_add_const(g, name, from->dtype, shape);
    if (!t) return NULL;
    if (elided) t->data = from->data;
    t->shared = elided;
    t->content = content;
    return t;
}

void mo_drop_constant(struct mo_graph *g, int id) {
    struct mo_tensor *t = g->tensors[id];
    if (--t->n_uses <= 0 && !t->is_output && mo_region_release(g->region, t->data)) t->data = NULL;
}

static struct mo_attr *slot(struct mo_graph *g, struct mo_node *node, const char *name,
                            enum mo_attr_type type) {
    for (int i = 0; i < node->n_attrs; i++) {
        if (strcmp(node->attrs[i].name, name)) continue;
        node->attrs[i] = (struct mo_attr){.name = node->attrs[i].name, .type = type};
        return &node->attrs[i];
    }
    return mo_node_add_attr(g, node, name, type);
}

int mo_set_ints(struct mo_graph *g, struct mo_node *node, const char *name, const int64_t *values, int n,
                moire_error *err) {
    struct mo_attr *attr = slot(g, node, name, MO_ATTR_INTS);
    int64_t *copy = mo_region_array(g->region, (size_t)n, sizeof *copy);
    if (!attr || !copy) return mo_no_memory(err);
    if (n) memcpy(copy, values, (size_t)n * sizeof *copy);
    attr->ints = copy;
    attr->n = n;
    return MOIRE_OK;
}

int mo_set_int(struct mo_graph *g, struct mo_node *node, const char *name, int64_t value, moire_error *err) {
    struct mo_attr *attr = slot(g, node, name, MO_ATTR_INT);
    if (!attr) return mo_no_memory(err);
    attr->i = value;
    return MOIRE_OK;
}

int mo_set_float(struct mo_graph *g, struct mo_node *node, const char *name, float value, moire_error *err) {
    struct mo_attr *attr = slot(g, node, name, MO_ATTR_FLOAT);
    if (!attr) return mo_no_memory(err);
    attr->f = value;
    return MOIRE_OK;
}

int mo_set_string(struct mo_graph *g, struct mo_node *node, const char *name, const char *value,
                  moire_error *err) {
    struct mo_attr *attr = slot(g, node, name, MO_ATTR_STRING);
    if (!attr) return mo_no_memory(err);
    attr->s = value;
    attr->s_len = strlen(value);
    return MOIRE_OK;
}

struct mo_node *mo_add_node(struct mo_graph *g, const char *op, int n_in, int from, int to) {
    struct mo_node *node = mo_graph_add_node(g, g->tensors[to]->name, op, "", n_in, 1);
    if (!node || !(node->op = mo_op_find(op, ""))) return NULL;
    node->opset = 13;
    node->in[0] = from;
    node->out[0] = to;
    return node;
}

int mo_add_reshape(struct mo_graph *g, int from, int to, moire_error *err) {
    const struct mo_shape *s = &g->tensors[to]->shape;
    struct mo_tensor *shape =
        mo_graph_add_const(g, "shape", MOIRE_I64, &(struct mo_shape){.rank = 1, .d = {s->rank}});
    struct mo_node *node = shape ? mo_add_node(g, "Reshape", 2, from, to) : NULL;
    if (!node) return mo_no_memory(err);
    memcpy(shape->data, s->d, (size_t)s->rank * sizeof *s->d);
    node->in[1] = shape->id;
    return MOIRE_OK;
}

int mo_add_transpose(struct mo_graph *g, int from, int to, const int64_t *perm, moire_error *err) {
    struct mo_node *node = mo_add_node(g, "Transpose", 1, from, to);
    return node ? mo_set_ints(g, node, "perm", perm, g->tensors[to]->shape.rank, err) : mo_no_memory(err);
}

bool mo_ints_or(const struct mo_node *node, const char *name, int64_t fallback, int64_t *out, int want) {
    for (int i = 0; i < want; i++)
        out[i] = fallback;
    const int n = mo_attr_ints(node, name, out, want);
    return n == -1 || n == want;
}

int mo_read_instead(struct mo_graph *g, int old, int instead) {
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++)
            if (g->nodes[i]->in[k] == old) g->nodes[i]->in[k] = instead, n++;
    return n;
}
