/* SPDX-License-Identifier: Apache-2.0
 * make_graph.c - a whole random graph: opset, types, inputs, nodes, outputs. */
#include <stdlib.h>
#include <string.h>
#include "runtime/ops/util.h"
#include "tests/differential/make.h"

static const struct dt_kind *const groups[] = {
#define DT_GROUP_ROW(group) dt_kinds_##group,
    DT_GROUPS(DT_GROUP_ROW)
#undef DT_GROUP_ROW
};
enum { GROUPS = sizeof groups / sizeof *groups, MOST_NODES = 14 };

static moire_dtype pick_type(struct dt_maker *m) {
    static const struct {
        moire_dtype type;
        int weight;
    } rows[] = {{MOIRE_F32, 74}, {MOIRE_F16, 7}, {MOIRE_F64, 5}, {MOIRE_BF16, 4}, {MOIRE_I32, 3},
                {MOIRE_I64, 3},  {MOIRE_I8, 1},  {MOIRE_U8, 1},  {MOIRE_I16, 1},  {MOIRE_U32, 1}};
    int at = dt_roll(m, 100);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((at -= rows[i].weight) < 0) return rows[i].type;
    return MOIRE_F32;
}

static struct mo_shape pick_shape(struct dt_maker *m) {
    static const int64_t channels[] = {1, 3, 5, 7, 15, 16, 16, 17, 24, 31, 32, 33, 48};
    static const int64_t sizes[] = {1, 2, 3, 5, 7, 8, 9, 12, 13, 16, 17, 31, 32};
    int64_t n = dt_roll(m, 2) ? 1 : 2 + dt_roll(m, 3), c = DT_OF(m, channels);
    switch (dt_roll(m, 20)) {
    case 0: /* 3-D image */
        return (struct mo_shape){5, {n, c, 2 + dt_roll(m, 3), 3 + dt_roll(m, 4), 3 + dt_roll(m, 4)}};
    case 1: /* signal */
        return (struct mo_shape){3, {n, c, 4 + dt_roll(m, 20)}};
    case 2:
    case 3:
    case 4: /* rows */
        return (struct mo_shape){2, {n, DT_OF(m, sizes)}};
    case 5:
    case 6:
    case 7:
    case 8: /* sequence */
        return (struct mo_shape){3, {n, DT_OF(m, sizes), c}};
    case 9: /* heads */
        return (struct mo_shape){4, {n, 1 + dt_roll(m, 4), 2 + dt_roll(m, 9), DT_OF(m, sizes)}};
    default: /* image */
        return (struct mo_shape){4, {n, c, 3 + dt_roll(m, 11), 3 + dt_roll(m, 11)}};
    }
}

static int add_input(struct dt_maker *m, const struct mo_shape *shape) {
    static const char *const names[] = {"x0", "x1", "x2", "x3"};
    struct mo_tensor *t = mo_graph_add_tensor(m->g, names[m->g->n_inputs], m->type, shape);
    if (!t) abort();
    t->is_input = true;
    m->g->inputs[m->g->n_inputs++] = t->id;
    m->live[m->n_live++] = t->id;
    return t->id;
}

static void grow(struct dt_maker *m) {
    int all = 0, x = m->live[dt_roll(m, 5) > 1 ? m->n_live - 1 : dt_roll(m, m->n_live)];
    for (int g = 0; g < GROUPS; g++)
        for (const struct dt_kind *k = groups[g]; k->name; k++)
            all += mo_type_in(dt_type(m, x), k->types) ? k->weight : 0;
    int at = dt_roll(m, all);
    for (int g = 0; g < GROUPS; g++)
        for (const struct dt_kind *k = groups[g]; k->name; k++) {
            if (!mo_type_in(dt_type(m, x), k->types)) continue;
            at -= k->weight;
            if (at < 0) {
                k->grow(m, x);
                return;
            }
        }
}

static void add_output(struct mo_graph *g, int id) {
    struct mo_tensor *t = g->tensors[id];
    if (t->is_output || t->is_input || t->data || g->n_outputs == DT_PORTS) return;
    t->is_output = true;
    g->outputs[g->n_outputs++] = id;
}

/* Tensors that nothing reads, and some that are read as well. */
static void add_outputs(struct dt_maker *m) {
    struct mo_graph *g = m->g;
    mo_graph_index(g);
    for (int k = g->n_nodes; k-- > 0;)
        for (int i = 0; i < g->nodes[k]->n_out; i++)
            if (g->nodes[k]->out[i] >= 0 && !g->tensors[g->nodes[k]->out[i]]->n_uses)
                add_output(g, g->nodes[k]->out[i]);
    for (int i = dt_roll(m, 3); g->n_nodes && i > 0; i--) {
        const struct mo_node *node = g->nodes[dt_roll(m, g->n_nodes)];
        if (node->out[0] >= 0) add_output(g, node->out[0]);
    }
}

struct mo_graph *dt_make(const struct mo_env *env, uint64_t seed) {
    struct dt_maker m = {
        .g = mo_graph_create(env), .random = dt_random_of(seed, 0), .elements = 16000, .products = 1500000};
    if (!m.g) abort();
    m.g->opset = 7 + dt_roll(&m, 19);
    if (dt_roll(&m, 2)) m.g->opset = 13 + dt_roll(&m, 9);
    m.type = pick_type(&m);
    m.g->inputs = mo_region_array(m.g->region, DT_PORTS, sizeof(int));
    m.g->outputs = mo_region_array(m.g->region, DT_PORTS, sizeof(int));
    if (!m.g->inputs || !m.g->outputs) abort();
    struct mo_shape s = pick_shape(&m);
    add_input(&m, &s);
    for (int i = dt_roll(&m, 4) - 1; i > 0; i--) {
        struct mo_shape other = s;
        if (dt_roll(&m, 3) == 0)
            other = pick_shape(&m);
        else if (dt_roll(&m, 2))
            other.d[dt_roll(&m, s.rank)] = 1 + dt_roll(&m, 20);
        add_input(&m, &other);
    }
    int least = 1 + dt_roll(&m, MOST_NODES);
    for (int tries = 0; tries < 4 * least && m.g->n_nodes < least; tries++)
        grow(&m);
    add_outputs(&m);
    return m.g;
}

/* Never 0: a model may divide by it. */
static double whole(struct dt_random *r, bool is_unsigned) {
    int x = 1 + dt_pick(r, 8);
    return is_unsigned || dt_pick(r, 2) ? x : -x;
}

void dt_make_inputs(struct mo_graph *g, uint64_t seed, moire_tensor inputs[DT_PORTS]) {
    struct dt_random r = dt_random_of(seed, 1);
    for (int i = 0; i < g->n_inputs; i++) {
        const struct mo_tensor *t = g->tensors[g->inputs[i]];
        struct mo_value v = mo_tensor_value(t);
        moire_tensor *x = &inputs[i];
        *x = (moire_tensor){.dtype = t->dtype, .rank = t->shape.rank, .bytes = (size_t)mo_tensor_bytes(t)};
        memcpy(x->shape, t->shape.d, sizeof x->shape);
        v.data = x->data = mo_region_alloc(g->region, x->bytes + 64);
        if (!x->data) abort();
        bool floats = mo_type_in(t->dtype, MO_FLOATS), is_unsigned = mo_type_in(t->dtype, MO_UNSIGNED);
        for (int64_t k = 0, n = mo_shape_count(&t->shape); k < n; k++)
            mo_store(&v, k, floats ? dt_normal(&r) : whole(&r, is_unsigned));
    }
}
