/* SPDX-License-Identifier: Apache-2.0
 * batch_rows.c - carries where tensors have their rows from inputs to outputs; see batch_rows.h. */
#include "codegen/batch_rows.h"

#include <string.h>
#include "codegen/batch_rows_rules.h"

/* --- the two graphs side by side --- */
/* The tensor of the other graph: files give both the same tensors in the same order. */
static const struct mo_tensor *twin(const struct mo_rows *r, int id) {
    const struct mo_tensor *many = r->many->tensors[id];
    const struct mo_tensor *one = id < r->one->n_tensors ? r->one->tensors[id] : NULL;
    return one && !strcmp(one->name, many->name) && one->dtype == many->dtype ? one : NULL;
}

static bool same_bytes(const struct mo_tensor *a, const struct mo_tensor *b) {
    const int64_t bytes = mo_shape_count(&a->shape) * (int64_t)mo_dtype_bytes(a->dtype);
    return a->dtype != MOIRE_STRING && bytes >= 0 && memcmp(a->data, b->data, (size_t)bytes) == 0;
}

bool mo_rows_const_same(const struct mo_rows *r, int id) {
    const struct mo_tensor *many = r->many->tensors[id], *one = twin(r, id);
    return one && one->data && many->data && mo_shape_equal(&one->shape, &many->shape) &&
           same_bytes(one, many);
}

/* Has the shape of its twin, but n times as much at `axis`. */
static bool shape_grows(const struct mo_rows *r, const struct mo_tensor *one, const struct mo_tensor *many,
                        int axis) {
    if (one->shape.rank != many->shape.rank || axis >= many->shape.rank) return false;
    for (int i = 0; i < many->shape.rank; i++)
        if (many->shape.d[i] != one->shape.d[i] * (i == axis ? r->n : 1)) return false;
    return true;
}

static bool repeats(const struct mo_rows *r, const struct mo_tensor *one, const struct mo_tensor *many,
                    int axis) {
    if (many->dtype == MOIRE_STRING || !shape_grows(r, one, many, axis)) return false;
    int64_t before = 1, part = (int64_t)mo_dtype_bytes(many->dtype);
    for (int i = 0; i < one->shape.rank; i++)
        *(i < axis ? &before : &part) *= one->shape.d[i];
    const char *a = one->data, *b = many->data;
    for (int64_t i = 0; i < before; i++, a += part)
        for (int64_t k = 0; k < r->n; k++, b += part)
            if (memcmp(a, b, (size_t)part) != 0) return false;
    return true;
}

bool mo_rows_const_fits(const struct mo_rows *r, int id, int axis) {
    const struct mo_tensor *many = r->many->tensors[id], *one = twin(r, id);
    if (axis < 0 || axis >= many->shape.rank || many->shape.d[axis] == 1) return mo_rows_const_same(r, id);
    return one && one->data && many->data && repeats(r, one, many, axis);
}

/* --- the walk --- */
static void no(const struct mo_node *node, const char *why, moire_error *err) {
    mo_fail(err, MOIRE_EUNSUPPORTED, "node '%.100s' (%.60s): %s", node->name, node->op_type, why);
}

/* What a rule says holds only where the result has its twin's shape, n times as long there. */
static void take(const struct mo_rows *r, const struct mo_node *node, const int *out) {
    for (int k = 0; k < node->n_out; k++) {
        if (node->out[k] < 0) continue;
        const struct mo_tensor *many = r->many->tensors[node->out[k]], *one = twin(r, node->out[k]);
        const bool holds =
            out[k] >= 0 && one && !one->data && !many->dynamic && shape_grows(r, one, many, out[k]);
        r->axis[node->out[k]] = holds ? out[k] : MO_ROWS_UNKNOWN;
    }
}

/* Rows of the operands that there are: none, some, or one of them unknown. */
static int operands(const struct mo_rows *r, const struct mo_node *node) {
    int found = MO_ROWS_SAME;
    for (int k = 0; k < node->n_in; k++) {
        const int axis = node->in[k] < 0 ? MO_ROWS_SAME : r->axis[node->in[k]];
        if (axis == MO_ROWS_UNKNOWN) return MO_ROWS_UNKNOWN;
        if (axis >= 0) found = axis;
    }
    return found;
}

/* *first tells of the first node from which on rows are not known to be apart. */
static void visit(struct mo_rows *r, const struct mo_node *node, int *out, moire_error *first) {
    for (int k = 0; k < node->n_out; k++)
        out[k] = MO_ROWS_UNKNOWN;
    const struct mo_rows_node c = {.rows = r, .node = node, .out = out};
    const mo_rows_rule rule = mo_rows_rule_of(node);
    const int has = operands(r, node);
    if (rule && has >= 0) rule(&c);
    take(r, node, out);
    if (first->code || has == MO_ROWS_UNKNOWN) return;
    if (!rule || has < 0)
        no(node,
           r->in ? "it is not known to keep positions apart"
                 : "it is not known to keep rows of a batch apart",
           first);
    else if (node->n_out && node->out[0] >= 0 && r->axis[node->out[0]] == MO_ROWS_UNKNOWN)
        no(node,
           r->in ? "it mixes positions, or cannot be shown not to"
                 : "it mixes rows of the batch, or cannot be shown not to",
           first);
}

static int no_rows(const struct mo_rows *r, const char *what, int id, int axis, moire_error *err) {
    return mo_fail(err, MOIRE_EUNSUPPORTED, "%s '%.100s': its dimension %d is not %s", what,
                   r->many->tensors[id]->name, axis, r->in ? "that of the positions" : "the batch");
}

static int check_outputs(const struct mo_rows *r, int *out, const moire_error *first, moire_error *err) {
    for (int i = 0; i < r->many->n_outputs; i++) {
        const int id = r->many->outputs[i], axis = r->axis[id];
        if (out && axis >= 0) out[i] = axis;
        if (out ? axis >= 0 : axis == r->in) continue;
        if (axis == MO_ROWS_UNKNOWN && first->code) {
            if (err) *err = *first;
            return first->code;
        }
        return no_rows(r, "output", id, r->in, err);
    }
    return MOIRE_OK;
}

/* Inputs have their rows at axis `in`, constants are constants, and nothing else is known yet. */
static int begin(const struct mo_rows *r, moire_error *err) {
    for (int i = 0; i < r->many->n_tensors; i++)
        r->axis[i] = r->many->tensors[i]->data ? MO_ROWS_SAME : MO_ROWS_UNKNOWN;
    for (int i = 0; i < r->many->n_inputs; i++) {
        const int id = r->many->inputs[i];
        const struct mo_tensor *one = twin(r, id), *many = r->many->tensors[id];
        if (!one || one->shape.rank <= r->in || one->shape.d[r->in] != 1 || !shape_grows(r, one, many, r->in))
            return no_rows(r, "input", id, r->in, err);
        r->axis[id] = r->in;
    }
    return MOIRE_OK;
}

int mo_rows_are_separate(const struct mo_graph *one, const struct mo_graph *many, int64_t n, int in, int *out,
                         moire_error *err) {
    moire_error first = {0};
    int widest = 1;
    for (int i = 0; i < many->n_nodes; i++)
        if (many->nodes[i]->n_out > widest) widest = many->nodes[i]->n_out;
    const size_t entries = (size_t)many->n_tensors + (size_t)widest;
    int *memory = mo_alloc(many->env, entries * sizeof *memory);
    if (!memory) return mo_fail(err, MOIRE_ENOMEM, "out of memory looking for rows of a batch");
    struct mo_rows r = {.one = one, .many = many, .n = n, .axis = memory, .in = in};
    int rc = n < 2 ? mo_fail(err, MOIRE_EINVAL, "a batch of %lld", (long long)n) : begin(&r, err);
    for (int i = 0; !rc && i < many->n_nodes; i++)
        visit(&r, many->nodes[i], memory + many->n_tensors, &first);
    if (!rc) rc = check_outputs(&r, out, &first, err);
    mo_free(many->env, memory);
    return rc;
}
