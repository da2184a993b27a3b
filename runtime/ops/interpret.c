/* SPDX-License-Identifier: Apache-2.0
 * interpret.c - one pass over the nodes; a value is freed after its last reader. */
#include "runtime/ops/interpret.h"

#include <string.h>

struct interpreter {
    const struct mo_graph *graph;
    struct mo_value *value;                 /* of every tensor */
    int *uses;                              /* readers that have not run yet */
    bool *owned;                            /* value[t].data is ours to free */
    struct mo_value *io;                    /* operands of the node at work */
    const struct mo_interpret_watch *watch; /* or NULL */
    const struct mo_body_host *host;        /* or NULL */
    moire_error *err;
};

enum { SPARE = 16 }; /* absent operands after the last, so that an operator may look at optional ones */

static bool allocate(struct interpreter *it) {
    const struct mo_graph *g = it->graph;
    size_t widest = 0, n = (size_t)g->n_tensors + 1;
    for (int i = 0; i < g->n_nodes; i++) {
        size_t operands = (size_t)g->nodes[i]->n_in + (size_t)g->nodes[i]->n_out;
        if (operands > widest) widest = operands;
    }
    it->value = mo_alloc(g->env, n * sizeof *it->value);
    it->uses = mo_alloc(g->env, n * sizeof *it->uses);
    it->owned = mo_alloc(g->env, n * sizeof *it->owned);
    it->io = mo_alloc(g->env, (widest + 2 * SPARE) * sizeof *it->io);
    return it->value && it->uses && it->owned && it->io;
}

static void release(struct interpreter *it) {
    const struct mo_env *env = it->graph->env;
    for (int i = 0; it->value && it->owned && i < it->graph->n_tensors; i++)
        if (it->owned[i]) mo_free(env, it->value[i].data);
    mo_free(env, it->value);
    mo_free(env, it->uses);
    mo_free(env, it->owned);
    mo_free(env, it->io);
}

static int64_t value_bytes(const struct mo_value *v) {
    int64_t count = mo_shape_count(&v->shape), bytes;
    if (count < 0 || __builtin_mul_overflow(count, (int64_t)mo_dtype_bytes(v->dtype), &bytes)) return -1;
    return bytes;
}

static int bind_input(struct interpreter *it, int i, const moire_tensor *in) {
    const struct mo_tensor *t = it->graph->tensors[it->graph->inputs[i]];
    struct mo_value *v = &it->value[t->id];
    *v = (struct mo_value){.dtype = in->dtype, .shape = {.rank = in->rank}, .data = in->data};
    char got[120], want[120];
    if (in->rank < 0 || in->rank > MOIRE_MAX_RANK)
        return mo_fail(it->err, MOIRE_ESHAPE, "input '%s' has rank %d", t->name, in->rank);
    for (int d = 0; d < in->rank; d++)
        v->shape.d[d] = in->shape[d];
    if (in->dtype != t->dtype || !mo_shape_equal(&v->shape, &t->shape))
        return mo_fail(it->err, MOIRE_ESHAPE, "input '%s' is %s%s, the model wants %s%s", t->name,
                       mo_dtype_name(in->dtype), mo_shape_text(&v->shape, got, sizeof got),
                       mo_dtype_name(t->dtype), mo_shape_text(&t->shape, want, sizeof want));
    if (value_bytes(v) != (int64_t)in->bytes || (in->bytes && !in->data))
        return mo_fail(it->err, MOIRE_ESHAPE, "input '%s' has %zu bytes", t->name, in->bytes);
    return MOIRE_OK;
}

static void bind_constants(struct interpreter *it) {
    const struct mo_graph *g = it->graph;
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i]->data) it->value[i] = mo_tensor_value(g->tensors[i]);
}

static void count_uses(struct interpreter *it) {
    const struct mo_graph *g = it->graph;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++)
            if (!g->nodes[i]->dead && g->nodes[i]->in[k] >= 0) it->uses[g->nodes[i]->in[k]]++;
    for (int i = 0; i < g->n_outputs; i++)
        it->uses[g->outputs[i]]++;
}

static int bind(struct interpreter *it, const moire_tensor *inputs, int n_inputs) {
    const struct mo_graph *g = it->graph;
    if (n_inputs != g->n_inputs)
        return mo_fail(it->err, MOIRE_EINVAL, "%d inputs given, the model has %d", n_inputs, g->n_inputs);
    bind_constants(it);
    for (int i = 0; i < n_inputs; i++) {
        int rc = bind_input(it, i, &inputs[i]);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

static int allocate_output(struct interpreter *it, const struct mo_node *node, int k, struct mo_value *out) {
    int64_t bytes = value_bytes(out);
    if (out->dtype == MOIRE_NONE || bytes < 0)
        return mo_fail(it->err, MOIRE_EUNSUPPORTED, "node '%.100s' (%.60s): output %d is not supported",
                       node->name, node->op_type, k);
    out->data = mo_alloc(it->graph->env, (size_t)bytes + 1);
    if (!out->data) return mo_fail(it->err, MOIRE_ENOMEM, "node '%.100s': out of memory", node->name);
    it->value[node->out[k]] = *out;
    it->owned[node->out[k]] = true;
    return MOIRE_OK;
}

static void drop(struct interpreter *it, int id) {
    if (id < 0 || --it->uses[id] > 0 || !it->owned[id]) return;
    mo_free(it->graph->env, it->value[id].data);
    it->value[id].data = NULL;
    it->owned[id] = false;
}

static int compute_outputs(struct interpreter *it, const struct mo_op_ctx *of) {
    const struct mo_node *node = of->node;
    struct mo_op_ctx ctx = *of;
    void *kept = NULL;
    ctx.kept = &kept;
    int rc = mo_op_infer(&ctx);
    if (rc == MO_NEED_DATA) rc = mo_op_fail(&ctx, MOIRE_EUNSUPPORTED, "the shape cannot be inferred");
    for (int k = 0; k < node->n_out && !rc; k++)
        if (node->out[k] >= 0) rc = allocate_output(it, node, k, &ctx.out[k]);
    if (!rc) rc = node->op->run(&ctx);
    mo_free(ctx.env, kept);
    return rc;
}

/* Of an operator that allocates what it makes. */
static int make_outputs(struct interpreter *it, const struct mo_op_ctx *ctx) {
    const struct mo_node *node = ctx->node;
    int rc = node->op->run(ctx);
    for (int k = 0; k < node->n_out; k++) {
        if (node->out[k] < 0) {
            mo_free(ctx->env, ctx->out[k].data);
            continue;
        }
        it->value[node->out[k]] = ctx->out[k];
        it->owned[node->out[k]] = true;
    }
    return rc;
}

static int run_node(struct interpreter *it, const struct mo_node *node) {
    struct mo_value *in = it->io, *out = it->io + node->n_in + SPARE;
    memset(it->io, 0, (size_t)(node->n_in + node->n_out + 2 * SPARE) * sizeof *it->io);
    for (int k = 0; k < node->n_in; k++)
        if (node->in[k] >= 0) in[k] = it->value[node->in[k]];
    struct mo_op_ctx ctx = {.node = node,
                            .env = it->graph->env,
                            .n_in = node->n_in,
                            .n_out = node->n_out,
                            .in = in,
                            .out = out,
                            .err = it->err,
                            .host = it->host};
    int rc = node->op->flags & MO_OP_MAKES ? make_outputs(it, &ctx) : compute_outputs(it, &ctx);
    if (it->watch && !rc) rc = it->watch->made(it->watch->ctx, &ctx);
    for (int k = 0; k < node->n_in; k++)
        drop(it, node->in[k]);
    return rc;
}

/* Hands the outputs over; one that is an input or a constant is copied. */
static int move_outputs(struct interpreter *it, struct mo_value *outputs) {
    const struct mo_graph *g = it->graph;
    for (int i = 0; i < g->n_outputs; i++) {
        struct mo_value *v = &it->value[g->outputs[i]];
        int64_t bytes = value_bytes(v);
        outputs[i] = *v;
        if (it->owned[g->outputs[i]]) {
            it->owned[g->outputs[i]] = false;
            continue;
        }
        outputs[i].data = bytes < 0 ? NULL : mo_alloc(g->env, (size_t)bytes + 1);
        if (!outputs[i].data) return mo_fail(it->err, MOIRE_ENOMEM, "out of memory");
        if (bytes) memcpy(outputs[i].data, v->data, (size_t)bytes);
    }
    return MOIRE_OK;
}

int mo_interpret(const struct mo_graph *graph, const moire_tensor *inputs, int n_inputs,
                 struct mo_value *outputs, moire_error *err) {
    return mo_interpret_watched(graph, inputs, n_inputs, NULL, outputs, err);
}

/* After the inputs are bound. */
static int run_bound(struct interpreter *it, struct mo_value *outputs) {
    const struct mo_graph *graph = it->graph;
    int rc = MOIRE_OK;
    count_uses(it);
    for (int i = 0; i < graph->n_nodes && !rc; i++)
        if (!graph->nodes[i]->dead) rc = run_node(it, graph->nodes[i]);
    return rc ? rc : move_outputs(it, outputs);
}

int mo_interpret_watched(const struct mo_graph *graph, const moire_tensor *inputs, int n_inputs,
                         const struct mo_interpret_watch *watch, struct mo_value *outputs, moire_error *err) {
    struct interpreter it = {.graph = graph, .watch = watch, .err = err};
    memset(outputs, 0, (size_t)graph->n_outputs * sizeof *outputs);
    int rc = allocate(&it) ? bind(&it, inputs, n_inputs) : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    if (!rc) rc = run_bound(&it, outputs);
    release(&it);
    if (rc) mo_interpret_free(graph->env, outputs, graph->n_outputs);
    return rc;
}

int mo_interpret_body(const struct mo_graph *body, const struct mo_value *inputs,
                      const struct mo_body_host *host, struct mo_value *outputs, moire_error *err) {
    struct interpreter it = {.graph = body, .host = host, .err = err};
    memset(outputs, 0, (size_t)body->n_outputs * sizeof *outputs);
    int rc = allocate(&it) ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    if (!rc) bind_constants(&it);
    for (int i = 0; i < body->n_inputs && !rc; i++)
        it.value[body->inputs[i]] = inputs[i];
    if (!rc) rc = run_bound(&it, outputs);
    release(&it);
    if (rc) mo_interpret_free(body->env, outputs, body->n_outputs);
    return rc;
}

void mo_interpret_free(const struct mo_env *env, struct mo_value *outputs, int n) {
    for (int i = 0; i < n; i++) {
        mo_free(env, outputs[i].data);
        outputs[i].data = NULL;
    }
}
