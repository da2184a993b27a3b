/* SPDX-License-Identifier: Apache-2.0
 * make.c - the parts that all kinds of random nodes share; see make.h. */
#include "tests/differential/make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/ops/util.h"

const struct mo_shape *dt_shape(const struct dt_maker *m, int id) {
    return &m->g->tensors[id]->shape;
}

moire_dtype dt_type(const struct dt_maker *m, int id) {
    return m->g->tensors[id]->dtype;
}

static void *sure(void *p) {
    if (!p) abort();
    return p;
}

static const char *new_name(const struct dt_maker *m) {
    static _Thread_local char name[16];
    snprintf(name, sizeof name, "t%d", m->g->n_tensors);
    return name;
}

int dt_const(struct dt_maker *m, moire_dtype type, int rank, const int64_t *d, double scale, double shift) {
    struct mo_shape s = {.rank = rank};
    for (int i = 0; i < rank; i++)
        s.d[i] = d[i];
    const char *name = new_name(m);
    struct mo_tensor *t = sure(mo_graph_add_const(m->g, name, type, &s));
    struct mo_value v = mo_tensor_value(t);
    int64_t n = mo_shape_count(&s);
    for (int64_t i = 0; i < n; i++)
        mo_store(&v, i, scale * dt_normal(&m->random) + shift);
    return t->id;
}

int dt_vector(struct dt_maker *m, moire_dtype type, int64_t n, double scale, double shift) {
    return dt_const(m, type, 1, &n, scale, shift);
}

int dt_scalar(struct dt_maker *m, moire_dtype type, double value) {
    return dt_const(m, type, 0, NULL, 0, value);
}

int dt_list(struct dt_maker *m, int64_t n, const int64_t *values) {
    int id = dt_const(m, MOIRE_I64, 1, &n, 0, 0);
    if (n) memcpy(m->g->tensors[id]->data, values, (size_t)n * sizeof *values);
    return id;
}

struct mo_node *dt_node(struct dt_maker *m, const char *op, int n_in, const int *in, int n_out) {
    char name[64];
    snprintf(name, sizeof name, "n%d", m->g->n_nodes);
    struct mo_node *node = sure(mo_graph_add_node(m->g, name, op, "", n_in, n_out));
    node->op = mo_op_find(op, "");
    node->opset = m->g->opset;
    for (int i = 0; i < n_in; i++)
        node->in[i] = in[i];
    for (int i = 0; i < n_out; i++)
        node->out[i] =
            ((struct mo_tensor *)sure(mo_graph_add_tensor(m->g, new_name(m), MOIRE_NONE, NULL)))->id;
    return node;
}

static struct mo_attr *attr(struct dt_maker *m, struct mo_node *n, const char *name, enum mo_attr_type type) {
    return sure(mo_node_add_attr(m->g, n, name, type));
}

void dt_int(struct dt_maker *m, struct mo_node *n, const char *name, int64_t value) {
    attr(m, n, name, MO_ATTR_INT)->i = value;
}

void dt_float(struct dt_maker *m, struct mo_node *n, const char *name, double value) {
    attr(m, n, name, MO_ATTR_FLOAT)->f = (float)value;
}

void dt_string(struct dt_maker *m, struct mo_node *n, const char *name, const char *value) {
    struct mo_attr *a = attr(m, n, name, MO_ATTR_STRING);
    a->s_len = strlen(value);
    a->s = sure(mo_region_string(m->g->region, value, a->s_len));
}

void dt_ints(struct dt_maker *m, struct mo_node *n, const char *name, int count, const int64_t *values) {
    struct mo_attr *a = attr(m, n, name, MO_ATTR_INTS);
    int64_t *copy = sure(mo_region_array(m->g->region, (size_t)count + 1, sizeof *copy));
    memcpy(copy, values, (size_t)count * sizeof *copy);
    a->ints = copy;
    a->n = count;
}

void dt_floats(struct dt_maker *m, struct mo_node *n, const char *name, int count, const float *values) {
    struct mo_attr *a = attr(m, n, name, MO_ATTR_FLOATS);
    float *copy = sure(mo_region_array(m->g->region, (size_t)count + 1, sizeof *copy));
    memcpy(copy, values, (size_t)count * sizeof *copy);
    a->floats = copy;
    a->n = count;
}

void dt_sizes(struct dt_maker *m, struct mo_node *n, int since, int input, const char *name, int64_t count,
              const int64_t *values) {
    if (m->g->opset < since) {
        dt_ints(m, n, name, (int)count, values);
        return;
    }
    int *wider = sure(mo_region_array(m->g->region, (size_t)input + 1, sizeof *wider));
    for (int i = 0; i <= input; i++)
        wider[i] = i < n->n_in ? n->in[i] : -1;
    wider[input] = dt_list(m, count, values);
    n->in = wider;
    if (n->n_in < input + 1) n->n_in = input + 1;
}

static bool infer(struct dt_maker *m, const struct mo_node *n) {
    struct mo_value in[32] = {{0}}, out[32] = {{0}};
    moire_error err;
    struct mo_op_ctx ctx = {
        .node = n, .env = m->g->env, .n_in = n->n_in, .n_out = n->n_out, .in = in, .out = out, .err = &err};
    if (!n->op || n->op->min_opset > m->g->opset) return false;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0) in[i] = mo_tensor_value(m->g->tensors[n->in[i]]);
    if (mo_op_infer(&ctx)) return false;
    for (int i = 0; i < n->n_out; i++) {
        int64_t count = mo_shape_count(&out[i].shape);
        if (count < 1 || count > m->elements || out[i].dtype == MOIRE_NONE) return false;
        m->g->tensors[n->out[i]]->dtype = out[i].dtype;
        m->g->tensors[n->out[i]]->shape = out[i].shape;
    }
    return true;
}

/* Multiplications of a node, for a bound on the run time of the references. */
static int64_t products_of(const struct dt_maker *m, const struct mo_node *n) {
    int64_t out = mo_shape_count(dt_shape(m, n->out[0]));
    if (!strncmp(n->op_type, "Conv", 4)) {
        const struct mo_shape *w = dt_shape(m, n->in[1]);
        return (n->op_type[4] ? mo_shape_count(dt_shape(m, n->in[0])) : out) * mo_shape_count(w) / w->d[0];
    }
    if (strcmp(n->op_type, "MatMul") && strcmp(n->op_type, "Gemm")) return out;
    const struct mo_shape *a = dt_shape(m, n->in[0]);
    return out * a->d[a->rank - 1];
}

bool dt_keep(struct dt_maker *m, struct mo_node *n) {
    int64_t products = infer(m, n) ? products_of(m, n) : m->products + 1;
    if (products > m->products) {
        m->g->n_nodes--;
        return false;
    }
    m->products -= products;
    for (int i = 0; i < n->n_out; i++) {
        if (m->n_live == DT_LIVE) memmove(m->live, m->live + 1, (size_t)--m->n_live * sizeof *m->live);
        m->live[m->n_live++] = n->out[i];
    }
    return true;
}

void dt_omit(struct dt_maker *m, struct mo_node *n, int k) {
    int at = 0;
    while (at < m->n_live && m->live[at] != n->out[k])
        at++;
    if (at == m->n_live) return;
    memmove(m->live + at, m->live + at + 1, (size_t)(m->n_live - at - 1) * sizeof *m->live);
    m->n_live--;
    n->out[k] = -1;
}

int dt_chain(struct dt_maker *m, const char *op, int n_in, const int *in) {
    for (int i = 0; i < n_in; i++)
        if (in[i] < 0) return -1;
    struct mo_node *n = dt_node(m, op, n_in, in, 1);
    return dt_keep(m, n) ? n->out[0] : -1;
}

int dt_like(struct dt_maker *m, moire_dtype type, const struct mo_shape *shape) {
    int first = dt_roll(m, m->n_live);
    for (int k = 0; k < m->n_live; k++) {
        int id = m->live[(first + k) % m->n_live];
        const struct mo_shape *s = dt_shape(m, id);
        bool same = dt_type(m, id) == type && (!shape || s->rank == shape->rank);
        for (int i = 0; same && shape && i < s->rank; i++)
            same = shape->d[i] < 0 || shape->d[i] == s->d[i];
        if (same) return id;
    }
    return -1;
}
