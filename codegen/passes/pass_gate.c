/* SPDX-License-Identifier: Apache-2.0
 * pass_gate.c - x + x * s with a small s (one value a channel: squeeze and excite with a shortcut) becomes
 * x * (s + 1): one pass over x instead of two. */
#include "codegen/passes/passes.h"
#include "runtime/ops/op.h"

/* s when `product` is x * s, read once, and s is small beside x; -1 otherwise. */
static int gate_of(const struct mo_graph *g, int x, int product) {
    const struct mo_node *mul = mo_producer(g, product);
    const struct mo_tensor *t = g->tensors[x];
    if (!mo_is(mul, "Mul") || mul->n_in != 2 || g->tensors[product]->n_uses != 1) return -1;
    int s = mul->in[0] == x ? mul->in[1] : mul->in[1] == x ? mul->in[0] : -1;
    if (s < 0 || !mo_is_f32(t) || !mo_is_f32(g->tensors[s]) || g->tensors[s]->data) return -1;
    if (!mo_shape_equal(&t->shape, &g->tensors[product]->shape)) return -1;
    int64_t small = mo_shape_count(&g->tensors[s]->shape), large = mo_shape_count(&t->shape);
    return small >= 0 && small <= large / 4 ? s : -1;
}

static int rewrite(struct mo_graph *g, struct mo_node *add, int x, int s, moire_error *err) {
    struct mo_tensor *one = mo_graph_add_const(g, "one", MOIRE_F32, &(struct mo_shape){.rank = 0});
    struct mo_tensor *more = mo_graph_add_tensor(g, g->tensors[s]->name, MOIRE_F32, &g->tensors[s]->shape);
    struct mo_node *plus = mo_graph_add_node(g, "gate", "Add", "", 2, 1);
    if (!one || !more || !plus) return mo_no_memory(err);
    *(float *)one->data = 1;
    plus->op = mo_op_find("Add", "");
    plus->in[0] = s;
    plus->in[1] = one->id;
    plus->out[0] = more->id;
    add->op_type = "Mul";
    add->op = mo_op_find("Mul", "");
    add->in[0] = x;
    add->in[1] = more->id;
    return plus->op && add->op ? MOIRE_OK : mo_fail(err, MOIRE_EINTERNAL, "no operators Add and Mul");
}

int mo_pass_gate(struct mo_graph *g, moire_error *err) {
    int n = g->n_nodes; /* Adds are appended behind */
    for (int i = 0; i < n; i++) {
        struct mo_node *add = g->nodes[i];
        if (!mo_is(add, "Add") || add->n_in != 2 || add->in[0] == add->in[1]) continue;
        for (int k = 0; k < 2; k++) {
            int s = gate_of(g, add->in[k], add->in[1 - k]);
            if (s < 0) continue;
            int rc = rewrite(g, add, add->in[k], s, err);
            if (rc) return rc;
            break;
        }
    }
    return MOIRE_OK;
}
