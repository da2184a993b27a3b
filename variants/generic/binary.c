/* SPDX-License-Identifier: Apache-2.0
 * binary.c - binds elementwise operators of two tensors: broadcasting folded into as few dimensions as
 * possible.
 *
 * In MO_C16 the dimensions are [N][blocks][spatial...][16]; a constant per channel is padded and blocked
 * once, a scalar stays.  Div reads ones in the padding of its divisor, so that no NaN appears there. */
#include <string.h>
#include "variants/generic/bind.h"
#include "variants/generic/broadcast.h"

static const struct {
    const char *op_type;
    enum mo_binary op;
    bool blocked; /* the padding stays finite in MO_C16 */
} operators[] = {
    {"Add", MO_BINARY_ADD, true}, {"Sub", MO_BINARY_SUB, true},     {"Mul", MO_BINARY_MUL, true},
    {"Div", MO_BINARY_DIV, true}, {"Min", MO_BINARY_MIN, true},     {"Max", MO_BINARY_MAX, true},
    {"Sum", MO_BINARY_ADD, true}, {"PRelu", MO_BINARY_PRELU, true}, {"Pow", MO_BINARY_POW, false},
};

static int find(const struct mo_node *node) {
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (mo_node_is(node, operators[i].op_type)) return (int)i;
    return -1;
}

static bool blocked_operand(const struct mo_tensor *t, const struct mo_tensor *y, bool divisor) {
    if (t->data) {
        for (int64_t i = 0; divisor && i < mo_shape_count(&t->shape); i++)
            if (((const float *)t->data)[i] == 0.0f) return false;
        return mo_is_scalar(t) || mo_is_per_channel(t, y);
    }
    if (divisor || t->shape.rank != y->shape.rank || t->shape.d[1] != y->shape.d[1]) return false;
    return true;
}

static unsigned layouts(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *a = mo_node_in(g, node, 0), *b = mo_node_in(g, node, 1),
                           *y = mo_node_out(g, node, 0);
    int i = find(node);
    if (i < 0 || node->n_in != 2 || !mo_f32(a) || !mo_f32(b) || !mo_f32(y) || (a->data && b->data)) return 0;
    if (!mo_broadcasts(a, y) || !mo_broadcasts(b, y)) return 0;
    bool blocked = operators[i].blocked && y->shape.rank >= 3 && blocked_operand(a, y, false) &&
                   blocked_operand(b, y, operators[i].op == MO_BINARY_DIV);
    return MO_CAN_PLAIN | (blocked ? MO_CAN_C16 : 0);
}

static void fill(struct mo_binary_params *p, int n, const int64_t *d, int64_t stride[][MO_MAX_DIMS]) {
    struct mo_operand *operand[2] = {&p->a, &p->b};
    p->columns = n > 0 ? d[0] : 1;
    p->rows = n > 1 ? d[1] : 1;
    p->rank = n > 2 ? n - 2 : 0;
    p->outer = 1;
    for (int i = 0; i < p->rank; i++) {
        p->dims[i] = d[n - 1 - i];
        p->outer *= p->dims[i];
    }
    for (int k = 0; k < 2; k++) {
        operand[k]->step = n > 0 ? stride[k][0] : 0;
        operand[k]->row = n > 1 ? stride[k][1] : 0;
        for (int i = 0; i < p->rank; i++)
            operand[k]->outer[i] = stride[k][n - 1 - i];
    }
    p->column_group = p->columns > 2 * MO_CHUNK ? MO_CHUNK : p->columns;
    p->column_groups = (p->columns + p->column_group - 1) / p->column_group;
    p->row_group = p->columns < MO_CHUNK ? MO_CHUNK / p->columns : 1;
    p->row_groups = (p->rows + p->row_group - 1) / p->row_group;
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    const struct mo_graph *g = binder->graph;
    const struct mo_tensor *in[2] = {mo_node_in(g, node, 0), mo_node_in(g, node, 1)},
                           *y = mo_node_out(g, node, 0);
    struct mo_binary_params p = {.op = operators[find(node)].op, .fuse = node->fuse, .images = 1};
    struct mo_operand *operand[2] = {&p.a, &p.b};
    struct mo_broadcast s = {.operands = 2};
    int64_t d[MO_MAX_DIMS], stride[2][MO_MAX_DIMS];
    p.padding = mo_padding_of(y);
    bool blocked = y->layout == MO_C16, dense = mo_dense(g, y) && !p.padding.used;
    if (!in[0] || !in[1] || (blocked && !(layouts(g, node) & MO_CAN_C16))) return MOIRE_EUNSUPPORTED;
    mo_broadcast_output(&s, y);
    for (int k = 0; k < 2; k++) {
        if (!in[k]->data && in[k]->layout != y->layout) return MOIRE_EUNSUPPORTED;
        mo_broadcast_operand(g, &s, k, in[k], y);
        dense = dense && mo_dense(g, in[k]);
        if (!blocked || !in[k]->data || mo_is_scalar(in[k])) continue;
        operand[k]->blocked =
            mo_keep_padded(binder, in[k]->data, y->shape.d[1], p.op == MO_BINARY_DIV && k == 1 ? 1.0f : 0.0f);
        if (!operand[k]->blocked)
            return mo_fail(err, MOIRE_ENOMEM, "out of memory while binding '%s'", node->name);
    }
    if (!dense) {
        p.images = y->shape.d[0];
        for (int k = 0; k < 2; k++)
            operand[k]->per_image = s.stride[k][0] != 0;
    }
    int dims = mo_broadcast_fold(&s, dense ? 0 : 1, d, stride);
    if (dims < 0) return MOIRE_EUNSUPPORTED;
    fill(&p, dims, d, stride);
    return mo_bound(step, mo_simd_of(binder->isa)->binary, "binary", mo_keep(binder, &p, sizeof p),
                    p.images * p.outer * p.row_groups * p.column_groups, err);
}

const struct mo_family mo_family_binary = {"binary", layouts, bind};
