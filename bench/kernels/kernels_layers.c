/* SPDX-License-Identifier: Apache-2.0
 * kernels_layers.c - the distinct layers of a model; see kernels.h.
 *
 * What a layer is (its signature, its numbers for the peer) is read before the plan is built: a plan releases
 * the constants that it has packed. */
#include <stdio.h>
#include <string.h>
#include "bench/kernels/kernels.h"
#include "bench/data/layer_spec.h"
#include "bench/kernels/timing.h"
#include "runtime/ops/op.h"
#include "runtime/ops/trial.h"
#include "runtime/plan/describe.h"

static void shape_text(const struct mo_graph *g, int id, char *out, size_t n) {
    snprintf(out, n, "-");
    if (id >= 0) mo_shape_text(&g->tensors[id]->shape, out, n);
}

static void describe(const struct mo_graph *g, int k, struct mo_bench_layer *l) {
    const struct mo_node *node = g->nodes[k];
    struct mo_layer_spec spec;
    char signature[256];
    *l = (struct mo_bench_layer){.step = k, .uses = 1};
    if (node->op) mo_layer_text(g, node, l->text, sizeof l->text);
    shape_text(g, node->n_in ? node->in[0] : -1, l->input, sizeof l->input);
    shape_text(g, node->n_out ? node->out[0] : -1, l->output, sizeof l->output);
    if (mo_layer_signature(g, node, signature, sizeof signature))
        snprintf(l->key, sizeof l->key, "%s", signature);
    else
        snprintf(l->key, sizeof l->key, "%s %s %s", l->text, l->input, l->output);
    if (mo_layer_spec_of(g, node, &spec)) mo_layer_spec_print(&spec, l->spec, sizeof l->spec);
}

/* All layers, equal ones counted once. */
static int collect(void *ctx, const struct mo_graph *g, moire_error *err) {
    struct mo_bench_layers *out = ctx;
    mo_free(out->env, out->layer);
    out->n = 0;
    out->layer = mo_alloc(out->env, ((size_t)g->n_nodes + 1) * sizeof *out->layer);
    if (!out->layer) return mo_fail(err, MOIRE_ENOMEM, "out of memory for %d layers", g->n_nodes);
    for (int k = 0; k < g->n_nodes; k++) {
        struct mo_bench_layer *l = &out->layer[out->n];
        int same = 0;
        describe(g, k, l);
        while (same < out->n && strcmp(out->layer[same].key, l->key) != 0)
            same++;
        if (same < out->n)
            out->layer[same].uses++;
        else
            out->n++;
    }
    return MOIRE_OK;
}

/* Views move nothing, and layers whose shapes depend on data cannot run apart from the model. */
static void drop_unmeasurable(struct mo_bench_layers *out) {
    int n = 0;
    for (int i = 0; i < out->n; i++) {
        const struct mo_step *s = &out->plan->steps[out->layer[i].step];
        if (s->run && !s->dynamic) out->layer[n++] = out->layer[i];
    }
    out->n = n;
}

static int fill_inputs(const struct mo_bench_layers *l, moire_error *err) {
    const struct mo_graph *g = l->plan->graph;
    int rc = MOIRE_OK;
    for (int i = 0; !rc && i < g->n_inputs; i++) {
        const struct mo_tensor *t = g->tensors[g->inputs[i]];
        moire_tensor value = {.dtype = t->dtype, .rank = t->shape.rank};
        for (int k = 0; k < t->shape.rank; k++)
            value.shape[k] = t->shape.d[k];
        value.bytes = (size_t)mo_tensor_bytes(t);
        value.data = mo_alloc(l->env, value.bytes + 64);
        if (!value.data) return mo_fail(err, MOIRE_ENOMEM, "out of memory for input '%s'", t->name);
        mo_trial_fill(g, i, value.data);
        rc = mo_instance_set_input(l->instance, i, &value, err);
        mo_free(l->env, value.data);
    }
    return rc;
}

static int run_once(const struct mo_bench_layers *l, moire_error *err) {
    struct mo_timing timing;
    const struct mo_timing_options once = {.threads = 1, .repeat = 1};
    int rc = mo_timing_run(l->env, l->plan, l->instance, &once, &timing, err);
    mo_timing_free(l->env, &timing);
    return rc;
}

int mo_bench_layers_open(const struct mo_env *env, const char *path, const struct mo_frontend_options *front,
                         const char *store, struct mo_bench_layers *out, moire_error *err) {
    *out = (struct mo_bench_layers){.env = env};
    int rc = store ? mo_store_open(env, store, &out->store, err) : MOIRE_OK;
    const struct mo_plan_options planning = {.isa = mo_isa_detect(), .store = out->store};
    const struct mo_model_ask ask = {
        .env = env, .path = path, .front = front, .planning = &planning, .look = collect, .look_ctx = out};
    if (!rc) rc = mo_model_plan_open(&ask, &out->model, err);
    out->plan = out->model.plan;
    if (!rc) rc = mo_instance_create(out->plan, &out->instance, err);
    if (!rc) rc = fill_inputs(out, err);
    if (!rc) rc = run_once(out, err);
    if (!rc)
        drop_unmeasurable(out);
    else
        mo_bench_layers_close(out);
    return rc;
}

void mo_bench_layers_close(struct mo_bench_layers *layers) {
    mo_instance_destroy(layers->instance);
    mo_model_plan_close(&layers->model);
    mo_store_close(layers->store);
    mo_free(layers->env, layers->layer);
    *layers = (struct mo_bench_layers){.env = layers->env};
}
