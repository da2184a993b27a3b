/* SPDX-License-Identifier: Apache-2.0
 * pass_pointwise.c - trees of pointwise operators become one moire.Fused.
 *
 * From the last operator of a tree upwards, a group takes the producer of an operand when its result has the
 * shape of the group's and nobody outside reads it.  So nothing is computed twice, and no cycle can arise:
 * all that leaves the group is its last result.  What a conv or matrix product has taken into its epilogue is
 * gone by now.  A single operator is left to kernels of its own where there are any. */
#include <string.h>
#include "codegen/passes/quantizer.h"
#include "runtime/ops/moire/fused.h"
#include "runtime/ops/op.h"

struct group {
    struct mo_graph *g;
    const struct mo_node *member[MO_FUSED_STEPS];
    int n, steps;
    int input[MO_FUSED_INPUTS], n_in;
};

/* Operators whose single nodes have kernels: those that take fp32 and give fp32, but Log, Floor, ... */
static bool has_kernel(enum mo_fused_op op) {
    switch (op) {
    case MO_FUSED_ADD:
    case MO_FUSED_SUB:
    case MO_FUSED_MUL:
    case MO_FUSED_DIV:
    case MO_FUSED_ACTIVATION:
    case MO_FUSED_ABS:
    case MO_FUSED_NEG:
    case MO_FUSED_SQRT:
    case MO_FUSED_RECIPROCAL:
    case MO_FUSED_EXP:
    case MO_FUSED_ERF:
        return true;
    default:
        return false;
    }
}

static bool has_type(const struct mo_graph *g, const struct mo_node *node, int k, moire_dtype dtype) {
    return g->tensors[node->in[k]]->dtype == dtype;
}

/* Operand types that the kernels have: fp32, bool for logic, integers that are cast. */
static bool good_types(const struct mo_graph *g, const struct mo_node *node, enum mo_fused_op op) {
    moire_dtype in = g->tensors[node->in[0]]->dtype;
    switch (op) {
    case MO_FUSED_AND:
    case MO_FUSED_OR:
    case MO_FUSED_XOR:
    case MO_FUSED_NOT:
        return true;
    case MO_FUSED_WHERE:
        return has_type(g, node, 1, MOIRE_F32);
    case MO_FUSED_DEQUANTIZE:
        return in == MOIRE_U8 || in == MOIRE_I8;
    case MO_FUSED_TO_FLOAT:
    case MO_FUSED_TO_BOOL:
        return in == MOIRE_F32 || in == MOIRE_BOOL || in == MOIRE_U8 || in == MOIRE_I32 || in == MOIRE_I64;
    default:
        return in == MOIRE_F32 && (mo_fused_operands(op) < 2 || has_type(g, node, 1, MOIRE_F32));
    }
}

/* QuantizeLinear and DequantizeLinear with one scale and zero point for the tensor, both constants. */
static bool quantizer_of(const struct mo_graph *g, const struct mo_node *node, enum mo_fused_op *op,
                         struct mo_quantizer *q) {
    if (mo_quantizer_of(g, node, "DequantizeLinear", q))
        *op = MO_FUSED_DEQUANTIZE;
    else if (mo_quantizer_of(g, node, "QuantizeLinear", q))
        *op = q->dtype == MOIRE_I8 ? MO_FUSED_QUANTIZE_I8 : MO_FUSED_QUANTIZE_U8;
    else
        return false;
    return true;
}

static bool operator_of(const struct mo_graph *g, const struct mo_node *node, enum mo_fused_op *op) {
    struct mo_quantizer q;
    if (quantizer_of(g, node, op, &q)) return true;
    if (mo_is(node, "Cast")) {
        int64_t to = mo_attr_int(node, "to", 0);
        *op = to == MOIRE_BOOL ? MO_FUSED_TO_BOOL : MO_FUSED_TO_FLOAT;
        return to == MOIRE_BOOL || to == MOIRE_F32;
    }
    *op = MO_FUSED_ADD;
    if (mo_is(node, "Sum")) return true;
    for (int i = 0; i < MO_FUSED_COUNT; i++) {
        *op = (enum mo_fused_op)i;
        if (mo_fused_quantizes(*op)) continue;
        if (!strcmp(node->op_type, mo_fused_name(*op)) && !strcmp(node->domain, mo_fused_domain(*op)))
            return true;
    }
    return false;
}

static bool is_static(const struct mo_tensor *t) {
    return t && !t->dynamic && mo_shape_count(&t->shape) > 0;
}

/* Inputs that are values of the program: of a quantizer the first, the others are its parameters. */
static int values_of(const struct mo_node *node) {
    return mo_is(node, "QuantizeLinear") || mo_is(node, "DequantizeLinear") ? 1 : node->n_in;
}

static bool eligible(const struct mo_graph *g, const struct mo_node *node, enum mo_fused_op *op) {
    if (!node || node->dead || node->n_out != 1 || node->out[0] < 0 || !operator_of(g, node, op))
        return false;
    if (values_of(node) != mo_fused_operands(*op) || node->fuse.residual >= 0) return false;
    const struct mo_tensor *y = g->tensors[node->out[0]];
    bool constant = true;
    for (int k = 0; k < values_of(node); k++) {
        const struct mo_tensor *t = mo_node_in(g, node, k);
        if (!is_static(t)) return false;
        constant = constant && t->data;
    }
    bool stored = y->dtype == MOIRE_F32 || y->dtype == MOIRE_BOOL || mo_fused_quantizes(*op);
    return !constant && is_static(y) && stored && good_types(g, node, *op);
}

bool mo_is_pointwise(const struct mo_graph *g, const struct mo_node *node) {
    enum mo_fused_op op;
    return eligible(g, node, &op);
}

/* x^2 and x^3 are products. */
static int small_power(const struct mo_graph *g, const struct mo_node *node, enum mo_fused_op op) {
    float c;
    if (op != MO_FUSED_POW || !mo_scalar(g, node->in[1], &c)) return 0;
    return c == 2 ? 2 : c == 3 ? 3 : 0;
}

/* Steps that a node becomes. */
static int steps_of(const struct mo_graph *g, const struct mo_node *node, enum mo_fused_op op) {
    return (small_power(g, node, op) == 3) + 1 +
           (node->fuse.act != MO_ACT_NONE && !mo_is_moire(node, "Activation"));
}

static bool is_member(const struct group *s, const struct mo_node *node) {
    for (int i = 0; i < s->n; i++)
        if (s->member[i] == node) return true;
    return false;
}

/* How often members read a tensor. */
static int reads(const struct group *s, int tensor) {
    int n = 0;
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < values_of(s->member[i]); k++)
            n += s->member[i]->in[k] == tensor;
    return n;
}

/* Fills the list of what comes from outside; false when it is too long. */
static bool find_inputs(struct group *s) {
    s->n_in = 0;
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < values_of(s->member[i]); k++) {
            int id = s->member[i]->in[k], at = 0;
            if (is_member(s, mo_producer(s->g, id))) continue;
            while (at < s->n_in && s->input[at] != id)
                at++;
            if (at == MO_FUSED_INPUTS) return false;
            s->input[at] = id;
            if (at == s->n_in) s->n_in++;
        }
    return true;
}

/* Takes the producer of one operand of the group in; false when none can be taken. */
static bool grow(struct group *s) {
    const struct mo_shape *shape = &s->g->tensors[s->member[0]->out[0]]->shape;
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < values_of(s->member[i]); k++) {
            const struct mo_tensor *t = s->g->tensors[s->member[i]->in[k]];
            const struct mo_node *p = mo_producer(s->g, t->id);
            enum mo_fused_op op;
            if (is_member(s, p) || !eligible(s->g, p, &op) || !mo_shape_equal(&t->shape, shape)) continue;
            int steps = steps_of(s->g, p, op);
            if (t->is_output || reads(s, t->id) != t->n_uses || s->steps + steps > MO_FUSED_STEPS) continue;
            s->member[s->n++] = p;
            if (find_inputs(s)) {
                s->steps += steps;
                return true;
            }
            s->n--;
            find_inputs(s); /* without it again */
        }
    return false;
}

/* --- the program --------------------------------------------------------------------------------------- */

struct program {
    int64_t code[MO_FUSED_STEPS * MO_FUSED_INTS];
    float params[2 * MO_FUSED_STEPS];
    int n, n_in;
};

/* Adds a step and returns the number of its result. */
static int emit(struct program *p, enum mo_fused_op op, int a, int b, int c) {
    int64_t *code = p->code + (size_t)p->n * MO_FUSED_INTS;
    code[0] = op;
    code[1] = a;
    code[2] = mo_fused_operands(op) > 1 ? b : -1;
    code[3] = mo_fused_operands(op) > 2 ? c : -1;
    return p->n_in + p->n++;
}

static int emit_activation(struct program *p, const struct mo_fuse *fuse, int x) {
    int64_t *code = p->code + (size_t)p->n * MO_FUSED_INTS;
    p->params[2 * p->n] = fuse->a;
    p->params[2 * p->n + 1] = fuse->b;
    code[4] = fuse->act;
    return emit(p, MO_FUSED_ACTIVATION, x, -1, -1);
}

static int emit_node(const struct group *s, struct program *p, const struct mo_node *node, const int arg[3]) {
    enum mo_fused_op op;
    operator_of(s->g, node, &op);
    if (mo_fused_quantizes(op)) {
        struct mo_quantizer q;
        quantizer_of(s->g, node, &op, &q);
        p->params[(size_t)2 * p->n] = q.scale;
        p->params[(size_t)2 * p->n + 1] = (float)q.zero;
        return emit(p, op, arg[0], -1, -1);
    }
    if (op == MO_FUSED_ACTIVATION) return emit_activation(p, &node->fuse, arg[0]);
    int power = small_power(s->g, node, op), y;
    if (power) {
        y = emit(p, MO_FUSED_MUL, arg[0], arg[0], -1);
        if (power == 3) y = emit(p, MO_FUSED_MUL, y, arg[0], -1);
    } else {
        y = emit(p, op, arg[0], arg[1], arg[2]);
    }
    return node->fuse.act == MO_ACT_NONE ? y : emit_activation(p, &node->fuse, y);
}

/* Members in the order of the graph, which is topological. */
static void write_program(struct group *s, struct program *p) {
    int value[MO_FUSED_STEPS];
    for (int i = 1; i < s->n; i++)
        for (int k = i; k > 0 && s->member[k - 1]->id > s->member[k]->id; k--) {
            const struct mo_node *other = s->member[k];
            s->member[k] = s->member[k - 1];
            s->member[k - 1] = other;
        }
    p->n_in = s->n_in;
    for (int i = 0; i < s->n; i++) {
        int arg[3] = {-1, -1, -1};
        for (int k = 0; k < values_of(s->member[i]); k++) {
            for (int at = 0; at < s->n_in; at++)
                if (s->input[at] == s->member[i]->in[k]) arg[k] = at;
            for (int m = 0; m < i; m++)
                if (s->member[m]->out[0] == s->member[i]->in[k]) arg[k] = value[m];
        }
        value[i] = emit_node(s, p, s->member[i], arg);
    }
}

/* The exponent of a small power is no operand any more. */
static void drop_unread(const struct group *s, struct program *p, int *in, int *n_in) {
    int number[MO_FUSED_INPUTS];
    *n_in = 0;
    for (int at = 0; at < s->n_in; at++) {
        bool read = false;
        for (int i = 0; i < p->n; i++)
            for (int k = 1; k <= 3; k++)
                read = read || p->code[i * MO_FUSED_INTS + k] == at;
        number[at] = *n_in;
        if (read) in[(*n_in)++] = s->input[at];
    }
    for (int i = 0; i < p->n; i++)
        for (int k = 1; k <= 3; k++) {
            int64_t *arg = &p->code[i * MO_FUSED_INTS + k];
            if (*arg >= 0) *arg = *arg < s->n_in ? number[*arg] : *arg - s->n_in + *n_in;
        }
}

static int set_program(struct mo_graph *g, struct mo_node *node, const struct program *p, moire_error *err) {
    struct mo_attr *params = mo_node_add_attr(g, node, "params", MO_ATTR_FLOATS);
    float *copy = mo_region_array(g->region, (size_t)p->n * 2, sizeof *copy);
    if (!params || !copy) return mo_no_memory(err);
    memcpy(copy, p->params, (size_t)p->n * 2 * sizeof *copy);
    params->floats = copy;
    params->n = 2 * p->n;
    return mo_set_ints(g, node, "program", p->code, p->n * MO_FUSED_INTS, err);
}

static int rewrite(struct group *s, struct mo_node *root, moire_error *err) {
    struct program p = {.n = 0};
    int in[MO_FUSED_INPUTS], n_in;
    write_program(s, &p);
    drop_unread(s, &p, in, &n_in);
    for (int i = 0; i < s->n; i++)
        s->g->nodes[s->member[i]->id]->dead = s->member[i] != root;
    int rc = mo_become(s->g, root, "Fused", n_in, err);
    if (rc) return rc;
    root->fuse = (struct mo_fuse){.residual = -1};
    memcpy(root->in, in, (size_t)n_in * sizeof *in);
    return set_program(s->g, root, &p, err);
}

int mo_pass_pointwise(struct mo_graph *g, moire_error *err) {
    for (int i = g->n_nodes; i-- > 0;) {
        enum mo_fused_op op;
        if (!eligible(g, g->nodes[i], &op)) continue;
        struct group s = {.g = g, .n = 1, .steps = steps_of(g, g->nodes[i], op)};
        s.member[0] = g->nodes[i];
        if (!find_inputs(&s)) continue;
        while (grow(&s)) {
        }
        if (s.n == 1 && has_kernel(op)) continue;
        int rc = rewrite(&s, g->nodes[i], err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}
