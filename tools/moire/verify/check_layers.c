/* SPDX-License-Identifier: Apache-2.0
 * check_layers.c - see check_layers.h.  A layer becomes a graph of its own: blocked inputs and outputs are
 * reordered from and to plain ones, so that reference and kernels see the same numbers. */
#include "codegen/region_graph.h"
#include "tools/moire/verify/check_layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/numbers.h"
#include "runtime/base/text.h"
#include "runtime/ops/op.h"
#include "runtime/plan/describe.h"
#include "runtime/ops/trial.h"

enum { PORTS = MO_KERNEL_IN, TEXT = 240, LARGE = 10000 };
static const char layer_name[] = "layer";

/* --- a layer as a graph --- */

static int reordered(struct mo_graph *g, int from, enum mo_layout layout) {
    struct mo_node *node = mo_graph_add_node(g, "reorder", "Reorder", "moire", 1, 1);
    const struct mo_tensor *x = g->tensors[from];
    struct mo_tensor *t = node ? mo_graph_add_tensor(g, "t", x->dtype, &x->shape) : NULL;
    if (!t) return -1;
    t->layout = layout;
    node->op = mo_op_find("Reorder", "moire");
    node->in[0] = from;
    node->out[0] = t->id;
    return t->id;
}

/* The copy of input tensor t: a constant that shares its contents, or a graph input. */
static int add_input(struct mo_graph *g, const struct mo_tensor *t) {
    struct mo_tensor *copy = mo_graph_add_tensor(g, "x", t->dtype, &t->shape);
    if (!copy) return -1;
    if (t->data) {
        copy->data = t->data;
        return copy->id;
    }
    copy->is_input = true;
    g->inputs[g->n_inputs++] = copy->id;
    return t->layout != MO_PLAIN ? reordered(g, copy->id, MO_C16) : copy->id;
}

static bool add_layer(struct mo_graph *g, const struct mo_graph *from, const struct mo_node *node) {
    int in[PORTS], out[PORTS];
    for (int i = 0; i < node->n_in; i++) {
        in[i] = -1;
        for (int k = 0; k < i && node->in[i] >= 0; k++)
            if (node->in[k] == node->in[i]) in[i] = in[k];
        if (in[i] < 0 && node->in[i] >= 0 && (in[i] = add_input(g, from->tensors[node->in[i]])) < 0)
            return false;
    }
    struct mo_node *copy =
        mo_graph_add_node(g, layer_name, node->op_type, node->domain, node->n_in, node->n_out);
    if (!copy) return false;
    copy->op = node->op, copy->opset = node->opset, copy->fuse = node->fuse;
    copy->n_attrs = node->n_attrs, copy->attrs = node->attrs;
    for (int i = 0; i < node->n_in; i++)
        copy->in[i] = in[i];
    for (int i = 0; i < node->n_out; i++) {
        const struct mo_tensor *t = node->out[i] < 0 ? NULL : from->tensors[node->out[i]];
        struct mo_tensor *y = t ? mo_graph_add_tensor(g, "y", t->dtype, &t->shape) : NULL;
        if (t && !y) return false;
        if (y) y->layout = t->layout == MO_PLAIN ? MO_PLAIN : MO_C16;
        copy->out[i] = out[i] = y ? y->id : -1;
    }
    for (int i = 0; i < node->n_out; i++) {
        if (out[i] < 0) continue;
        int id = g->tensors[out[i]]->layout == MO_C16 ? reordered(g, out[i], MO_PLAIN) : out[i];
        if (id < 0) return false;
        g->tensors[id]->is_output = true;
        g->outputs[g->n_outputs++] = id;
    }
    return true;
}

/* NULL: out of memory. */
static struct mo_graph *layer_graph(const struct mo_graph *from, const struct mo_node *node) {
    struct mo_graph *g = mo_graph_create(from->env);
    if (!g) return NULL;
    g->opset = from->opset;
    g->exact = from->exact;
    g->inputs = mo_region_array(g->region, PORTS, sizeof(int));
    g->outputs = mo_region_array(g->region, PORTS, sizeof(int));
    if (g->inputs && g->outputs && add_layer(g, from, node)) {
        mo_graph_compact(g);
        return g;
    }
    mo_graph_destroy(g);
    return NULL;
}

/* --- data --- */

static void fill(moire_tensor *t, enum mo_layer_data data, uint64_t *state) {
    static const float edges[] = {0, -0.0f, 1e-40f, -1e-40f, 1e-30f, 1, -1, LARGE, -LARGE, 0.5f};
    static const float special[] = {NAN, INFINITY, -INFINITY, 1e30f, -1e30f};
    enum { EDGES = sizeof edges / sizeof *edges, SPECIAL = sizeof special / sizeof *special };
    float *x = t->data;
    mo_trial_random(t, state);
    if (t->dtype != MOIRE_F32) return;
    size_t n = t->bytes / sizeof *x, sparse = n < 1000 ? 13 : 97;
    for (size_t i = 0; i < n; i++) {
        uint64_t r = mo_lcg(state);
        if (data == MO_LAYER_EDGES) x[i] = edges[r % EDGES];
        if (data == MO_LAYER_SPECIAL && r % sparse == 0) x[i] = special[r / sparse % SPECIAL];
    }
}

static bool make_inputs(const struct mo_graph *g, moire_tensor *in) {
    for (int i = 0; i < g->n_inputs; i++) {
        const struct mo_tensor *t = g->tensors[g->inputs[i]];
        in[i] = (moire_tensor){.dtype = t->dtype, .rank = t->shape.rank, .bytes = (size_t)mo_tensor_bytes(t)};
        memcpy(in[i].shape, t->shape.d, sizeof in[i].shape);
        if (!(in[i].data = mo_alloc(g->env, in[i].bytes + 1))) return false;
    }
    return true;
}

/* --- comparison --- */

/* What a kernel may do with NaN, infinities and 1e30. */
struct allowance {
    bool spreads; /* to neighbours */
    bool drops;   /* take a NaN for absent */
};

/* Bytes that differ by more than a step: a sum between two steps may be rounded to either. */
static int64_t count_far(const moire_tensor *want, const moire_tensor *got) {
    int64_t far = 0;
    for (size_t i = 0; i < want->bytes; i++) {
        int w = ((const uint8_t *)want->data)[i], g = ((const uint8_t *)got->data)[i];
        if (want->dtype == MOIRE_I8) w ^= 128, g ^= 128; /* in the order of what they stand for */
        far += w - g > 1 || g - w > 1;
    }
    return far;
}

/* `range`: the least that errors are relative to. */
static void judge(const moire_tensor *want, const moire_tensor *got, struct allowance may,
                  enum mo_layer_data data, double range, struct mo_layer_check *c) {
    const float *w = want->data, *g = got->data;
    double error = 0;
    int64_t wrong = 0;
    if (want->bytes == got->bytes && (want->dtype == MOIRE_U8 || want->dtype == MOIRE_I8)) {
        wrong = count_far(want, got);
    } else if (want->dtype != MOIRE_F32 || want->bytes != got->bytes) {
        wrong = want->bytes != got->bytes || (want->bytes && memcmp(w, g, want->bytes) != 0);
    } else {
        for (size_t i = 0; i < want->bytes / sizeof *w; i++) {
            if (isfinite(w[i])) range = fmax(range, fabs((double)w[i]));
            if (isfinite(w[i]) && isfinite(g[i])) error = fmax(error, fabs((double)w[i] - (double)g[i]));
            /* after 1e30 only the class of a number is compared: sums cancel there */
            else if (isfinite(w[i]) ? !may.spreads : isfinite(g[i]) && !(may.drops && isnan(w[i])))
                wrong++;
        }
        error = range > 0 ? error / range : error;
    }
    c->error[data] = fmax(c->error[data], error);
    if (wrong && !c->wrong) c->data = data;
    c->wrong += wrong;
}

/* --- running --- */

struct layer_run {
    const struct mo_layer_checker *checker;
    struct mo_graph *reference;
    moire_tensor in[PORTS], want[MO_LAYER_DATA][PORTS];
    struct mo_layer_check check;
};

static int run_references(struct layer_run *r, moire_error *err) {
    int rc = make_inputs(r->reference, r->in) ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int d = 0; !rc && d < MO_LAYER_DATA; d++) {
        uint64_t state = r->checker->seed + (uint64_t)d;
        for (int i = 0; i < r->reference->n_inputs; i++)
            fill(&r->in[i], (enum mo_layer_data)d, &state);
        rc = mo_way_run_reference(r->reference, r->in, r->reference->n_inputs, r->want[d], err);
    }
    return rc;
}

static const struct mo_step *layer_step(const struct mo_plan *plan) {
    for (int i = 0; i < plan->n_steps; i++)
        if (!strcmp(plan->steps[i].node->name, layer_name)) return &plan->steps[i];
    return &plan->steps[0];
}

static struct allowance allowance_of(const struct mo_step *step) {
    const char *op = step->node->op_type;
    return (struct allowance){.spreads = step->mixes,
                              .drops = !strcmp(op, "MaxPool") || !strcmp(op, "GlobalMaxPool")};
}

static int run_target(struct layer_run *r, const struct mo_plan *plan, moire_error *err) {
    const struct mo_step *step = layer_step(plan);
    moire_tensor got[PORTS];
    int rc = MOIRE_OK;
    r->check.kernel = step->kernel;
    for (int d = 0; !rc && d < MO_LAYER_DATA; d++) {
        uint64_t state = r->checker->seed + (uint64_t)d;
        for (int i = 0; i < r->reference->n_inputs; i++)
            fill(&r->in[i], (enum mo_layer_data)d, &state);
        memset(got, 0, sizeof got);
        rc = mo_way_run_built(plan, r->in, r->reference->n_inputs, got, err);
        for (int i = 0; !rc && i < r->reference->n_outputs; i++)
            judge(&r->want[d][i], &got[i], allowance_of(step), (enum mo_layer_data)d,
                  d == MO_LAYER_EDGES ? LARGE : 0, &r->check);
        mo_way_free(plan->env, got, r->reference->n_outputs);
    }
    r->check.good = !r->check.wrong;
    for (int d = 0; d < MO_LAYER_SPECIAL; d++)
        r->check.good = r->check.good && r->check.error[d] <= r->checker->tolerance;
    return rc;
}

static int check_layer(const struct mo_layer_checker *c, const struct mo_node *node, const char *text,
                       moire_error *err) {
    struct layer_run r = {.checker = c, .reference = layer_graph(c->graph, node)};
    int rc = r.reference ? run_references(&r, err) : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int t = 0; !rc && t < c->n_targets; t++) {
        struct mo_plan_options options = {
            .isa = c->targets[t].isa, .store = c->targets[t].store, .shaped = mo_region_graph};
        struct mo_graph *g = layer_graph(c->graph, node);
        struct mo_plan *plan = NULL;
        r.check = (struct mo_layer_check){.layer = node->id, .text = text, .target = c->targets[t]};
        rc = g ? mo_plan_build(g, &options, &plan, err) : mo_fail(err, MOIRE_ENOMEM, "out of memory");
        if (!rc) rc = run_target(&r, plan, err);
        if (!rc) c->report(c->ctx, &r.check);
        mo_plan_destroy(plan);
    }
    mo_way_free(c->graph->env, r.in, PORTS);
    for (int d = 0; d < MO_LAYER_DATA; d++)
        mo_way_free(c->graph->env, r.want[d], PORTS);
    mo_graph_destroy(r.reference);
    return rc ? mo_fail_context(err, rc, "layer %d, %s", node->id, text) : MOIRE_OK;
}

/* --- which layers --- */

static bool has_fixed_shape(const struct mo_graph *g, const struct mo_node *node) {
    for (int i = 0; i < node->n_in + node->n_out; i++) {
        int id = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
        const struct mo_tensor *t = id < 0 ? NULL : g->tensors[id];
        if (t && (t->dynamic || mo_shape_count(&t->shape) < 1 || t->dtype == MOIRE_NONE)) return false;
    }
    return node->n_in <= PORTS && node->n_out <= PORTS;
}

/* Two layers of one text do the same but for their constants. */
static void layer_text(const struct mo_graph *g, const struct mo_node *node, char *out) {
    char layer[80], shape[64];
    mo_layer_text(g, node, layer, sizeof layer);
    struct mo_text t = mo_text_in(out, TEXT);
    mo_text_put(&t, "%s", layer);
    for (int i = 0; i < node->n_in + node->n_out; i++) {
        int id = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
        if (id < 0 || t.n + sizeof shape >= TEXT) continue;
        if (i < node->n_in && g->tensors[id]->data) continue;
        mo_shape_text(&g->tensors[id]->shape, shape, sizeof shape);
        mo_text_put(&t, "%s%s", i == node->n_in ? " > " : " ", shape);
    }
}

int mo_check_layers(const struct mo_layer_checker *c, moire_error *err) {
    const struct mo_graph *g = c->graph;
    char(*texts)[TEXT] = mo_alloc(g->env, ((size_t)g->n_nodes + 1) * sizeof *texts);
    int n = 0, rc = texts ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int k = 0; !rc && k < g->n_nodes; k++) {
        const struct mo_node *node = g->nodes[k];
        if (!has_fixed_shape(g, node)) continue;
        layer_text(g, node, texts[n]);
        int same = 0;
        while (strcmp(texts[same], texts[n]) != 0)
            same++;
        if (same < n) continue;
        rc = check_layer(c, node, texts[n++], err);
    }
    mo_free(g->env, texts);
    return rc;
}
