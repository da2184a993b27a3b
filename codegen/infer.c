/* SPDX-License-Identifier: Apache-2.0
 * infer.c - shape inference and constant folding in one walk over the nodes in topological order.
 *
 * All input shapes are static, so most shape arithmetic (Shape, Gather, Concat, Reshape...) folds away: a
 * node whose inputs are all constants is computed by its reference, and Shape and Size need no more than a
 * static shape.  What would take more steps than the limit fold_steps leaves, or more memory than
 * folded_bytes, is computed in every query instead, so that no file keeps a loading program busy for hours or
 * fills the memory.  Where an output shape needs contents that are known only at run time, the tensor is
 * `dynamic`, and so is all that follows from it. */
#include <string.h>
#include "codegen/bodies.h"
#include "codegen/passes/quantizer.h"
#include "codegen/prepare.h"
#include "runtime/graph/content.h"
#include "runtime/ops/op.h"
#include "variants/packed.h"

enum { SPARE = 16 }; /* absent operands after the last, so that an operator may look at optional ones */

/* Values of one node's operands; room for the widest node, used again for every node. */
struct operands {
    struct mo_value *in, *out;
    struct mo_fold_budget *left; /* that folding may still take */
    bool unsorted;               /* nodes were added */
};

static bool make_operands(struct mo_region *tmp, int n_in, int n_out, struct operands *ops) {
    ops->in = mo_region_array(tmp, (size_t)n_in + SPARE, sizeof *ops->in);
    ops->out = mo_region_array(tmp, (size_t)n_out + SPARE, sizeof *ops->out);
    return ops->in && ops->out;
}

static void gather_operands(const struct mo_graph *g, const struct mo_node *node, struct operands *ops) {
    memset(ops->in, 0, ((size_t)node->n_in + SPARE) * sizeof *ops->in);
    memset(ops->out, 0, ((size_t)node->n_out + SPARE) * sizeof *ops->out);
    for (int k = 0; k < node->n_in; k++)
        if (node->in[k] >= 0) ops->in[k] = mo_tensor_value(g->tensors[node->in[k]]);
}

static struct mo_op_ctx context_of(const struct mo_graph *g, const struct mo_node *node,
                                   const struct operands *ops, moire_error *err) {
    return (struct mo_op_ctx){.node = node,
                              .env = g->env,
                              .n_in = node->n_in,
                              .n_out = node->n_out,
                              .in = ops->in,
                              .out = ops->out,
                              .err = err};
}

static int out_of_memory(const struct mo_node *node, moire_error *err) {
    return mo_fail(err, MOIRE_ENOMEM, "out of memory inferring node '%.100s' (%.60s)", node->name,
                   node->op_type);
}

/* Stores what an operator's infer said; an output of absurd size is refused here, once for all operators. */
static int accept(struct mo_graph *g, const struct mo_node *node, const struct operands *ops,
                  moire_error *err) {
    for (int k = 0; k < node->n_out; k++) {
        if (node->out[k] < 0) continue;
        struct mo_tensor *t = g->tensors[node->out[k]];
        int64_t count = mo_shape_count(&ops->out[k].shape), bytes;
        if (ops->out[k].dtype == MOIRE_NONE || ops->out[k].shape.rank < 0)
            return mo_fail(err, MOIRE_EUNSUPPORTED,
                           "node '%.100s' (%.60s): output %d ('%.60s') is not supported in this form",
                           node->name, node->op_type, k, t->name);
        if (count < 0 || __builtin_mul_overflow(count, (int64_t)mo_dtype_bytes(ops->out[k].dtype), &bytes) ||
            bytes > g->env->limits.tensor_bytes)
            return mo_fail(
                err, MOIRE_ELIMIT,
                "node '%.100s' (%.60s): output '%.60s' is larger than the limit tensor_bytes (%lld)",
                node->name, node->op_type, t->name, (long long)g->env->limits.tensor_bytes);
        t->dtype = ops->out[k].dtype;
        t->shape = ops->out[k].shape;
        t->dynamic = false;
    }
    return MOIRE_OK;
}

static void make_dynamic(struct mo_graph *g, const struct mo_node *node) {
    for (int k = 0; k < node->n_out; k++) {
        if (node->out[k] < 0) continue;
        g->tensors[node->out[k]]->dynamic = true;
        g->tensors[node->out[k]]->shape = (struct mo_shape){.rank = -1};
    }
}

static bool reads_dynamic(const struct mo_graph *g, const struct mo_node *node) {
    for (int k = 0; k < node->n_in; k++)
        if (node->in[k] >= 0 && g->tensors[node->in[k]]->dynamic) return true;
    return false;
}

/* What breaks an operator's rules here comes from the file, not from the caller's arguments. */
static int fault_of_file(int rc, moire_error *err) {
    if (rc == MOIRE_EINVAL && err) err->code = MOIRE_EFORMAT;
    return rc == MOIRE_EINVAL ? MOIRE_EFORMAT : rc;
}

static int infer_with(struct mo_graph *g, const struct mo_node *node, const struct operands *ops,
                      moire_error *err) {
    struct mo_op_ctx ctx = context_of(g, node, ops, err);
    int rc = mo_op_infer(&ctx);
    if (rc == MO_NEED_DATA) make_dynamic(g, node);
    return rc ? fault_of_file(rc, err) : accept(g, node, ops, err);
}

/* --- folding ------------------------------------------------------------------------------------------- */

static bool all_constant(const struct mo_graph *g, const struct mo_node *node) {
    for (int k = 0; k < node->n_in; k++)
        if (node->in[k] >= 0 && !g->tensors[node->in[k]]->data) return false;
    return true;
}

/* Some models have fills in the place of weights. */
static bool is_fill(const struct mo_node *node) {
    return !*node->domain && !strcmp(node->op_type, "ConstantOfShape");
}

/* A fill takes its memory anyhow: if not once at load, then in every query. */
static int64_t most_bytes(const struct mo_graph *g, const struct mo_node *node) {
    return is_fill(node) ? g->env->limits.tensor_bytes : g->env->limits.fold_bytes;
}

/* Each output is small enough, and so are all that were folded with them: results that only other folded
 * nodes read count too, for they stay as long as the graph. */
static bool outputs_fit(const struct mo_graph *g, const struct mo_node *node, struct operands *ops) {
    int64_t left = ops->left->bytes;
    for (int k = 0; k < node->n_out; k++) {
        if (node->out[k] < 0) continue;
        int64_t bytes = mo_tensor_bytes(g->tensors[node->out[k]]);
        if (bytes > most_bytes(g, node) || bytes > left) return false;
        left -= bytes;
    }
    ops->left->bytes = left;
    return true;
}

/* Shape and Size need only the shape of their input. */
static bool is_shape_query(const struct mo_node *node) {
    return !*node->domain && (!strcmp(node->op_type, "Shape") || !strcmp(node->op_type, "Size"));
}

static int64_t clamp_axis(int64_t axis, int rank) {
    if (axis < 0) axis += rank;
    return axis < 0 ? 0 : axis > rank ? rank : axis;
}

static void answer_shape_query(const struct mo_graph *g, struct mo_node *node) {
    const struct mo_shape *in = &g->tensors[node->in[0]]->shape;
    struct mo_tensor *out = g->tensors[node->out[0]];
    int64_t *data = out->data;
    if (!strcmp(node->op_type, "Size")) {
        data[0] = mo_shape_count(in);
        return;
    }
    int64_t start = clamp_axis(mo_attr_int(node, "start", 0), in->rank);
    for (int64_t i = 0, n = mo_shape_count(&out->shape); i < n; i++)
        data[i] = in->d[start + i];
}

static bool affordable(const struct mo_graph *g, const struct mo_node *node, struct operands *ops) {
    int64_t steps = mo_fold_steps(g, node);
    if (steps > ops->left->steps) return false;
    ops->left->steps -= steps;
    return true;
}

/* The one whose shape is known only when all of its work is done, and more than a few steps an element. */
static bool computes_to_infer(const struct mo_node *node) {
    return !strcmp(node->op_type, "NonMaxSuppression");
}

/* Without contents it says that it needs them. */
static void hide_contents(const struct mo_node *node, struct operands *ops) {
    for (int k = 0; k < node->n_in; k++)
        ops->in[k].data = NULL;
}

static int fold(struct mo_graph *g, struct mo_node *node, struct operands *ops, moire_error *err) {
    for (int k = 0; k < node->n_in && !is_shape_query(node); k++)
        if (node->in[k] >= 0 && mo_packed_elided(g, g->tensors[node->in[k]]))
            return mo_fail(err, MOIRE_ESTORE, "node '%.100s' is computed from weights that are elided",
                           node->name);
    for (int k = 0; k < node->n_out; k++) {
        if (node->out[k] < 0) continue;
        struct mo_tensor *t = g->tensors[node->out[k]];
        t->data = mo_region_alloc(g->region, (size_t)mo_tensor_bytes(t));
        if (!t->data) return out_of_memory(node, err);
        ops->out[k] = mo_tensor_value(t);
    }
    struct mo_op_ctx ctx = context_of(g, node, ops, err);
    int rc = MOIRE_OK;
    if (is_shape_query(node))
        answer_shape_query(g, node);
    else
        rc = node->op->run(&ctx);
    node->dead = true;
    return fault_of_file(rc, err);
}

/* Equal fills are weights of equal contents, also in plans of the model at other shapes. */
static void number_fill(const struct mo_graph *g, const struct mo_node *node) {
    struct mo_tensor *t = is_fill(node) ? mo_node_out(g, node, 0) : NULL;
    if (!t || t->dtype != MOIRE_F32 || mo_shape_count(&t->shape) < 1) return;
    int64_t of[2 + MOIRE_MAX_RANK] = {t->shape.rank};
    memcpy(of + 1, t->data, sizeof(float));
    memcpy(of + 2, t->shape.d, (size_t)t->shape.rank * sizeof *of);
    t->content = mo_content_of("fill", NULL, 0, of, sizeof of);
}

/* Filters of 8 bits: passes see what reads them. */
static bool is_small_weights(const struct mo_graph *g, const struct mo_node *node) {
    struct mo_small_weights w;
    return mo_small_weights_of(g, node, &w);
}

static int visit(struct mo_graph *g, struct mo_node *node, struct operands *ops, moire_error *err) {
    if (node->op->flags & MO_OP_BODIES) return mo_infer_bodies(g, node, ops->left, err);
    int aligned = mo_align_broadcast(g, node, &ops->unsorted, err);
    if (aligned) return aligned;
    if (reads_dynamic(g, node)) {
        make_dynamic(g, node);
        return MOIRE_OK;
    }
    gather_operands(g, node, ops);
    bool counted = all_constant(g, node) && computes_to_infer(node);
    if (counted && !affordable(g, node, ops)) hide_contents(node, ops);
    int rc = infer_with(g, node, ops, err);
    if (rc) return rc == MO_NEED_DATA ? MOIRE_OK : rc;
    if (g->keeps_small && is_small_weights(g, node)) return MOIRE_OK;
    bool known = is_shape_query(node) || (all_constant(g, node) && !(node->op->flags & MO_OP_RANDOM));
    bool folds = known && (counted || affordable(g, node, ops)) && outputs_fit(g, node, ops);
    rc = folds ? fold(g, node, ops, err) : MOIRE_OK;
    if (folds && !rc) number_fill(g, node);
    return rc;
}

/* Nodes that nobody reads are dropped, last to first so that chains go at once. */
static void drop_unread(struct mo_graph *g) {
    mo_graph_index(g);
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        struct mo_node *node = g->nodes[i];
        bool read = node->dead;
        for (int k = 0; k < node->n_out; k++)
            if (node->out[k] >= 0 && g->tensors[node->out[k]]->n_uses) read = true;
        if (read) continue;
        node->dead = true;
        for (int k = 0; k < node->n_in; k++)
            if (node->in[k] >= 0) g->tensors[node->in[k]]->n_uses--;
    }
    mo_graph_compact(g);
}

static int visit_all(struct mo_graph *g, struct mo_region *tmp, struct mo_fold_budget *budget,
                     moire_error *err) {
    struct operands ops = {.left = budget};
    int n_in = 0, n_out = 0, rc = MOIRE_OK;
    for (int i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i]->n_in > n_in) n_in = g->nodes[i]->n_in;
        if (g->nodes[i]->n_out > n_out) n_out = g->nodes[i]->n_out;
    }
    if (!make_operands(tmp, n_in, n_out, &ops))
        return mo_fail(err, MOIRE_ENOMEM, "out of memory inferring shapes");
    for (int i = 0; !rc && i < g->n_nodes; i++)
        if (!g->nodes[i]->dead) rc = visit(g, g->nodes[i], &ops, err);
    return rc || !ops.unsorted ? rc : mo_graph_sort(g, err);
}

int mo_infer_within(struct mo_graph *g, struct mo_fold_budget *budget, moire_error *err) {
    struct mo_region *tmp = mo_region_create(g->env);
    int rc =
        tmp ? visit_all(g, tmp, budget, err) : mo_fail(err, MOIRE_ENOMEM, "out of memory inferring shapes");
    mo_region_destroy(tmp);
    if (!rc) drop_unread(g);
    return rc;
}

int mo_infer_and_fold(struct mo_graph *g, moire_error *err) {
    struct mo_fold_budget budget = {.steps = g->env->limits.fold_steps, .bytes = g->env->limits.folded_bytes};
    return mo_infer_within(g, &budget, err);
}
