/* SPDX-License-Identifier: Apache-2.0
 * bodies.c - see bodies.h.
 *
 * A body is inferred with the shapes of what it is given, so that its layers are as static as those around
 * it. The state of a Loop goes round: a copy of the body is inferred with the first state, and what comes out
 * in another shape or type is dynamic, and with that the body is inferred.  Folding changes a graph for good,
 * hence the copy.  A branch that is not known to be taken may contradict the shapes at hand (exporters guard
 * code for other shapes so): it stays as it is, and tells when it is taken. */
#include "codegen/bodies.h"

#include <string.h>
#include "codegen/passes/passes.h"
#include "runtime/graph/copy.h"
#include "runtime/ops/op.h"

static int own_inputs(const struct mo_node *node, const struct mo_graph *body) {
    return node->n_in - body->n_captured;
}

/* --- what a body is given ------------------------------------------------------------------------------- */

static void give(struct mo_graph *body, int k, moire_dtype dtype, const struct mo_shape *shape) {
    struct mo_tensor *t = body->tensors[body->inputs[k]];
    t->dtype = dtype;
    t->dynamic = !shape;
    t->shape = shape ? *shape : (struct mo_shape){.rank = -1};
    t->data = NULL;
}

static void give_tensor(struct mo_graph *body, int k, const struct mo_tensor *from) {
    give(body, k, from->dtype, from->dynamic ? NULL : &from->shape);
}

/* Captured values are the same in every run: constants stay constants. */
static void give_captured(const struct mo_graph *g, const struct mo_node *node, struct mo_graph *body) {
    for (int i = 0; i < body->n_captured; i++) {
        const int k = body->n_inputs - body->n_captured + i;
        const struct mo_tensor *from = g->tensors[node->in[own_inputs(node, body) + i]];
        struct mo_tensor *t = body->tensors[body->inputs[k]];
        give_tensor(body, k, from);
        t->data = from->data;
        t->shared = from->data != NULL;
    }
}

/* --- what it makes -------------------------------------------------------------------------------------- */

static void set_output(struct mo_graph *g, int id, moire_dtype dtype, const struct mo_shape *shape) {
    if (id < 0) return;
    struct mo_tensor *t = g->tensors[id];
    if (dtype != MOIRE_NONE) t->dtype = dtype;
    t->dynamic = !shape;
    t->shape = shape ? *shape : (struct mo_shape){.rank = -1};
}

static const struct mo_tensor *output_of(const struct mo_graph *body, int k) {
    return body->tensors[body->outputs[k]];
}

static bool is_known(const struct mo_tensor *t) {
    return !t->dynamic && mo_shape_count(&t->shape) >= 0 && mo_dtype_bytes(t->dtype);
}

static bool is_same(const struct mo_tensor *a, const struct mo_tensor *b) {
    return is_known(a) && is_known(b) && a->dtype == b->dtype && mo_shape_equal(&a->shape, &b->shape);
}

/* The shape of n slices; false: over a limit. */
static bool stacked(const struct mo_tensor *slice, int64_t n, int64_t axis, struct mo_shape *out) {
    *out = (struct mo_shape){.rank = slice->shape.rank + 1};
    if (axis < 0) axis += out->rank;
    if (out->rank > MOIRE_MAX_RANK || axis < 0 || axis >= out->rank) return false;
    for (int d = 0; d < out->rank; d++)
        out->d[d] = d == axis ? n : slice->shape.d[d < axis ? d : d - 1];
    return mo_shape_count(out) >= 0;
}

static void forget_outputs(struct mo_graph *g, const struct mo_node *node) {
    for (int k = 0; k < node->n_out; k++)
        set_output(g, node->out[k], MOIRE_NONE, NULL);
}

/* --- If ------------------------------------------------------------------------------------------------- */

/* A branch that may never be taken is allowed to be wrong. */
static bool is_excused(int rc) {
    return rc && rc != MOIRE_ENOMEM && rc != MOIRE_ELIMIT;
}

/* Nothing is known of a branch that cannot be inferred. */
static void forget_body(struct mo_graph *body) {
    for (int i = 0; i < body->n_tensors; i++) {
        struct mo_tensor *t = body->tensors[i];
        if (t->data) continue;
        t->dynamic = true;
        t->shape = (struct mo_shape){.rank = -1};
    }
}

static int infer_branch(struct mo_graph *g, struct mo_node *node, struct mo_graph *body,
                        struct mo_fold_budget *budget, moire_error *err) {
    give_captured(g, node, body);
    return mo_infer_within(body, budget, err);
}

static int infer_if(struct mo_graph *g, struct mo_node *node, struct mo_fold_budget *budget,
                    moire_error *err) {
    struct mo_graph *branch[2] = {mo_node_body(node, "else_branch"), mo_node_body(node, "then_branch")};
    const struct mo_tensor *cond = g->tensors[node->in[0]];
    const uint8_t *known = cond->dtype == MOIRE_BOOL && mo_shape_count(&cond->shape) == 1 ? cond->data : NULL;
    moire_error excused = {0};
    if (known) {
        struct mo_graph *taken = branch[*known != 0];
        int rc = infer_branch(g, node, taken, budget, err);
        for (int k = 0; k < node->n_out && !rc; k++) {
            const struct mo_tensor *t = output_of(taken, k);
            set_output(g, node->out[k], t->dtype, is_known(t) ? &t->shape : NULL);
        }
        return rc;
    }
    forget_outputs(g, node);
    for (int i = 0; i < 2; i++) {
        int rc = infer_branch(g, node, branch[i], budget, &excused);
        if (is_excused(rc)) {
            forget_body(branch[0]);
            forget_body(branch[1]);
            return MOIRE_OK;
        }
        if (rc) return mo_fail(err, rc, "%s", excused.message);
    }
    for (int k = 0; k < node->n_out; k++) {
        const struct mo_tensor *a = output_of(branch[0], k), *b = output_of(branch[1], k);
        set_output(g, node->out[k], a->dtype == b->dtype ? a->dtype : MOIRE_NONE,
                   is_same(a, b) ? &a->shape : NULL);
    }
    return MOIRE_OK;
}

/* --- Loop ----------------------------------------------------------------------------------------------- */

static const struct mo_shape scalar = {.rank = 0};

/* fixed[i]: state i keeps type and shape. */
static int infer_trip(struct mo_graph *g, const struct mo_node *node, struct mo_graph *body,
                      const bool *fixed, struct mo_fold_budget *budget, moire_error *err) {
    give(body, 0, MOIRE_I64, &scalar);
    give(body, 1, MOIRE_BOOL, &scalar);
    for (int i = 2; i < own_inputs(node, body); i++) {
        const struct mo_tensor *from = g->tensors[node->in[i]];
        if (fixed[i - 2])
            give_tensor(body, i, from);
        else
            give(body, i, from->dtype, NULL);
    }
    give_captured(g, node, body);
    return mo_infer_within(body, budget, err);
}

/* Which state keeps its shape, by trials on copies: a second one only where the first has found some that do
 * not, and then all are taken for such unless it agrees. */
static int find_fixed(struct mo_graph *g, const struct mo_node *node, const struct mo_graph *body,
                      bool *fixed, struct mo_fold_budget *budget, moire_error *err) {
    const int n = own_inputs(node, body) - 2;
    bool agrees = n == 0;
    for (int turn = 0; turn < 2 && !agrees; turn++) {
        struct mo_graph *trial = mo_graph_copy(body, false);
        if (!trial) return mo_fail(err, MOIRE_ENOMEM, "out of memory inferring node '%.100s'", node->name);
        int rc = infer_trip(g, node, trial, fixed, budget, err);
        agrees = true;
        for (int i = 0; i < n && !rc; i++) {
            if (!fixed[i] || is_same(g->tensors[node->in[2 + i]], output_of(trial, 1 + i))) continue;
            agrees = fixed[i] = false;
        }
        mo_graph_destroy(trial);
        if (rc) return rc;
    }
    for (int i = 0; i < n && !agrees; i++)
        fixed[i] = false;
    return MOIRE_OK;
}

int64_t mo_known_trips(const struct mo_graph *g, const struct mo_node *node, const struct mo_graph *body) {
    const struct mo_tensor *n = g->tensors[node->in[0]], *first = g->tensors[node->in[1]];
    const struct mo_tensor *next = output_of(body, 0);
    const bool number = n->data && n->dtype == MOIRE_I64 && mo_shape_count(&n->shape) == 1;
    const bool flag = first->data && first->dtype == MOIRE_BOOL && mo_shape_count(&first->shape) == 1;
    if (!number || !flag) return -1;
    const int64_t trips = *(const int64_t *)n->data;
    if (trips < 1 || !*(const uint8_t *)first->data) return 0;
    if (trips == 1) return 1;
    if (next->id == body->inputs[1]) return trips; /* the body hands the condition on */
    const struct mo_node *by = next->producer >= 0 ? body->nodes[next->producer] : NULL;
    if (by && mo_node_is(by, "Identity") && by->in[0] == body->inputs[1]) return trips;
    const bool constant = next->data && next->dtype == MOIRE_BOOL && mo_shape_count(&next->shape) == 1;
    return constant ? (*(const uint8_t *)next->data ? trips : 1) : -1;
}

static int infer_loop(struct mo_graph *g, struct mo_node *node, struct mo_fold_budget *budget,
                      moire_error *err) {
    struct mo_graph *body = mo_node_body(node, "body");
    const int n = own_inputs(node, body) - 2;
    bool *fixed = mo_alloc(g->env, (size_t)n + 1);
    if (!fixed) return mo_fail(err, MOIRE_ENOMEM, "out of memory inferring node '%.100s'", node->name);
    for (int i = 0; i < n; i++)
        fixed[i] = is_known(g->tensors[node->in[2 + i]]);
    int rc = find_fixed(g, node, body, fixed, budget, err);
    if (!rc) rc = infer_trip(g, node, body, fixed, budget, err);
    const int64_t trips = rc ? -1 : mo_known_trips(g, node, body);
    for (int k = 0; k < node->n_out && !rc; k++) {
        const struct mo_tensor *made = output_of(body, 1 + k);
        struct mo_shape shape;
        if (k < n) {
            const struct mo_tensor *from = g->tensors[node->in[2 + k]];
            set_output(g, node->out[k], from->dtype, fixed[k] ? &from->shape : NULL);
        } else {
            const bool known = trips >= 0 && is_known(made) && stacked(made, trips, 0, &shape);
            set_output(g, node->out[k], made->dtype, known ? &shape : NULL);
        }
    }
    mo_free(g->env, fixed);
    return rc;
}

/* --- Scan ----------------------------------------------------------------------------------------------- */

static int64_t nth(const struct mo_node *node, const char *name, int n) {
    const struct mo_attr *a = mo_attr_find(node, name);
    return a && a->type == MO_ATTR_INTS && n < a->n ? a->ints[n] : 0;
}

/* A slice of a scanned input; false: there is no such axis. */
static bool slice_of(const struct mo_tensor *whole, int64_t axis, struct mo_shape *out, int64_t *length) {
    const int rank = whole->shape.rank;
    if (axis < 0) axis += rank;
    if (rank < 1 || axis < 0 || axis >= rank) return false;
    *length = whole->shape.d[axis];
    *out = (struct mo_shape){.rank = rank - 1};
    for (int d = 0; d < rank - 1; d++)
        out->d[d] = whole->shape.d[d < axis ? d : d + 1];
    return true;
}

static bool all_known(const struct mo_graph *g, const struct mo_node *node, int n) {
    for (int i = 0; i < n; i++)
        if (!is_known(g->tensors[node->in[i]])) return false;
    return true;
}

static int infer_scan(struct mo_graph *g, struct mo_node *node, struct mo_fold_budget *budget,
                      moire_error *err) {
    struct mo_graph *body = mo_node_body(node, "body");
    const int own = own_inputs(node, body);
    const int64_t scanned = mo_attr_int(node, "num_scan_inputs", 0), n_state = own - scanned;
    int64_t length = -1;
    bool known = node->opset >= 9 && scanned > 0 && n_state >= 0 && all_known(g, node, own);
    forget_outputs(g, node);
    for (int i = 0; i < own; i++) {
        const struct mo_tensor *from = g->tensors[node->in[i]];
        struct mo_shape slice = from->shape;
        if (known && i >= n_state)
            known = slice_of(from, nth(node, "scan_input_axes", i - (int)n_state), &slice, &length);
        give(body, i, from->dtype, known ? &slice : NULL);
    }
    for (int i = 0; i < own && !known; i++)
        give(body, i, g->tensors[node->in[i]]->dtype, NULL);
    give_captured(g, node, body);
    int rc = mo_infer_within(body, budget, err);
    if (rc || !known) return rc;
    for (int k = 0; k < node->n_out; k++) {
        const struct mo_tensor *made = output_of(body, k);
        struct mo_shape shape = made->shape;
        bool sized = is_known(made);
        if (k < n_state && sized && !is_same(made, g->tensors[node->in[k]]))
            return mo_fail(err, MOIRE_EFORMAT,
                           "node '%.100s' (Scan): the body changes type or shape of state %d", node->name, k);
        if (k >= n_state && sized)
            sized = stacked(made, length, nth(node, "scan_output_axes", k - (int)n_state), &shape);
        set_output(g, node->out[k], made->dtype, sized ? &shape : NULL);
    }
    return MOIRE_OK;
}

/* --- SequenceMap ---------------------------------------------------------------------------------------- */

/* Elements of a sequence may have any shape. */
static int infer_map(struct mo_graph *g, struct mo_node *node, struct mo_fold_budget *budget,
                     moire_error *err) {
    struct mo_graph *body = mo_node_body(node, "body");
    for (int i = 0; i < own_inputs(node, body); i++) {
        const struct mo_tensor *from = g->tensors[node->in[i]];
        if (is_known(from) && from->dtype != MO_BUNDLE)
            give_tensor(body, i, from);
        else
            give(body, i, MOIRE_NONE, NULL);
    }
    give_captured(g, node, body);
    for (int k = 0; k < node->n_out; k++)
        set_output(g, node->out[k], MO_BUNDLE, NULL);
    return mo_infer_within(body, budget, err);
}

int mo_prepare_bodies(struct mo_graph *g, const struct mo_frontend_options *options, moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = 0; i < g->n_nodes && !rc; i++) {
        struct mo_graph *body;
        int at = 0;
        if (mo_node_is_ours(g->nodes[i], "Region")) continue; /* its passes run when its shapes are known */
        while (!rc && (body = mo_node_next_body(g->nodes[i], &at))) {
            rc = mo_run_passes(body, options, err);
            if (!rc) rc = mo_prepare_bodies(body, options, err);
        }
        if (rc) mo_fail_context(err, rc, "node '%.64s' (%.40s)", g->nodes[i]->name, g->nodes[i]->op_type);
    }
    return rc;
}

int mo_infer_bodies(struct mo_graph *g, struct mo_node *node, struct mo_fold_budget *budget,
                    moire_error *err) {
    int rc = MOIRE_OK;
    if (mo_node_is_ours(node, "Region"))
        forget_outputs(g, node);
    else if (mo_node_is(node, "If"))
        rc = infer_if(g, node, budget, err);
    else if (mo_node_is(node, "Loop"))
        rc = infer_loop(g, node, budget, err);
    else if (mo_node_is(node, "SequenceMap"))
        rc = infer_map(g, node, budget, err);
    else
        rc = infer_scan(g, node, budget, err);
    return rc ? mo_fail_context(err, rc, "node '%.64s' (%.40s)", node->name, node->op_type) : MOIRE_OK;
}
