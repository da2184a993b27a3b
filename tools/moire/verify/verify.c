/* SPDX-License-Identifier: Apache-2.0
 * verify.c - see verify.h. */
#include "tools/moire/verify/verify.h"

#include <stdio.h>
#include <string.h>
#include "codegen/frontend.h"
#include "codegen/region_graph.h"
#include "codegen/search/writer.h"
#include "runtime/plan/versions.h"
#include "tools/moire/verify/verify_steps.h"

/* One round: the model as the store serves it now. */
struct round {
    const struct mo_env *env;
    const struct mo_verifier *v;
    struct mo_store *store;
    struct mo_plan *compiled, *built_in;
    double *gain;
    struct mo_step_findings found;
};

static int load_graph(const struct round *r, struct mo_graph **out, moire_error *err) {
    const struct mo_compiled_request *q = &r->v->request;
    struct mo_frontend_options front = {
        .shapes = q->shapes, .n_shapes = q->n_shapes, .exact = q->exact, .precision = q->precision};
    int rc = mo_frontend_load(r->env, q->path, &front, out, err);
    if (!rc) mo_graph_compact(*out);
    return rc;
}

static int load_compiled(struct round *r, moire_error *err) {
    struct mo_plan_options options = {.isa = r->v->request.isa, .store = r->store, .shaped = mo_region_graph};
    struct mo_graph *g;
    int rc = load_graph(r, &g, err);
    if (rc) return rc;
    size_t n = (size_t)g->n_nodes + 1;
    r->gain = mo_alloc(r->env, n * sizeof *r->gain);
    r->found.step = mo_alloc(r->env, n * sizeof *r->found.step);
    if (!r->gain || !r->found.step) {
        mo_graph_destroy(g);
        return mo_fail(err, MOIRE_ENOMEM, "out of memory verifying '%.200s'", r->v->request.path);
    }
    char signature[MO_STORE_TEXT];
    for (int k = 0; k < g->n_nodes; k++)
        if (mo_layer_signature(g, g->nodes[k], signature, sizeof signature))
            r->gain[k] = mo_verify_gain(g, g->nodes[k]);
    return mo_plan_build(g, &options, &r->compiled, err);
}

static int load_built_in(struct round *r, moire_error *err) {
    struct mo_plan_options options = {.isa = r->v->request.isa, .shaped = mo_region_graph};
    struct mo_graph *g;
    int rc = load_graph(r, &g, err);
    return rc ? rc : mo_plan_build(g, &options, &r->built_in, err);
}

static void close_round(struct round *r) {
    mo_plan_destroy(r->compiled);
    mo_plan_destroy(r->built_in);
    mo_store_close(r->store); /* after the plans that run its code */
    mo_free(r->env, r->gain);
    mo_free(r->env, r->found.step);
}

static bool has_compiled(const struct mo_plan *plan) {
    for (int k = 0; k < plan->n_steps; k++)
        if (!strcmp(plan->steps[k].kind, "specialised")) return true;
    return false;
}

/* Notes when time is up. */
static bool over(struct round *r) {
    r->found.cut = r->v->ends && mo_now(r->env) >= r->v->ends;
    return r->found.cut;
}

static int look(struct round *r, moire_error *err) {
    if (over(r)) return MOIRE_OK;
    int rc = mo_store_open(r->env, r->v->store, &r->store, err);
    if (!rc) rc = load_compiled(r, err);
    if (rc || !has_compiled(r->compiled) || over(r)) return rc;
    rc = load_built_in(r, err);
    struct mo_step_verifier steps = {.compiled = r->compiled,
                                     .built_in = r->built_in,
                                     .gain = r->gain,
                                     .seed = r->v->seed,
                                     .ends = r->v->ends};
    return rc || over(r) ? rc : mo_verify_steps(&steps, &r->found, err);
}

/* --- wrong layers --- */

static const char *kernel_of(const struct mo_step *step, int version) {
    return step->n_versions > 1 ? step->version[version].kernel : step->kernel;
}

/* Out of the store, unless a layer of the same signature was wrong before it. */
static int withdraw(const struct round *r, struct mo_writer *writer, const char *signature,
                    const struct mo_withdrawn *layer, moire_error *err) {
    struct mo_store_index index;
    char why[MO_STORE_TEXT];
    if (!mo_store_peek(r->store, signature, r->v->request.isa, &index) || !index.best[0]) return MOIRE_OK;
    snprintf(why, sizeof why, "in a model, compiled kernel `%.60s` %.150s", layer->kernel, layer->why);
    return mo_writer_withdraw(writer, &index, why, err);
}

static int withdraw_all(const struct round *r, struct mo_verified *out, moire_error *err) {
    struct mo_writer *writer;
    char signature[MO_STORE_TEXT];
    int rc = mo_writer_open(r->env, r->v->store, &writer, err);
    for (int k = 0; !rc && k < r->compiled->n_steps; k++) {
        const struct mo_step *step = &r->compiled->steps[k];
        const struct mo_step_finding *f = &r->found.step[k];
        if (f->state != MO_STEP_WRONG) continue;
        if (!mo_layer_signature(r->compiled->graph, step->node, signature, sizeof signature))
            rc = mo_fail(err, MOIRE_EINTERNAL, "a compiled layer has no signature");
        struct mo_withdrawn layer = {.layer = step->node->name,
                                     .op = step->node->op_type,
                                     .signature = signature,
                                     .kernel = kernel_of(step, f->version),
                                     .why = f->why,
                                     .version = f->version,
                                     .error = f->error};
        if (!rc) rc = withdraw(r, writer, signature, &layer, err);
        if (!rc && r->v->withdrawn) r->v->withdrawn(r->v->ctx, &layer);
        out->withdrawn++;
    }
    mo_writer_close(writer);
    return rc;
}

/* --- the result --- */

/* Plain text: names of a model may be anything. */
static void note_layer(const struct mo_node *node, char *out, size_t n) {
    snprintf(out, n, "%.70s (%.20s)", node->name, node->op_type);
    for (; *out; out++)
        if (*out < 32 || *out > 126) *out = '?';
}

/* Would have a compiled kernel, were its shapes known. */
static bool is_kind_that_compiles(const struct mo_node *node) {
    return !strcmp(node->op_type, "Conv") || !strcmp(node->op_type, "MatMul") ||
           !strcmp(node->op_type, "Gemm");
}

static void sum_up(const struct round *r, struct mo_verified *out) {
    for (int k = 0; k < r->compiled->n_steps; k++) {
        const struct mo_step *step = &r->compiled->steps[k];
        const struct mo_step_finding *f = &r->found.step[k];
        out->unverified +=
            f->state == MO_STEP_SKIPPED || (step->dynamic && is_kind_that_compiles(step->node));
        if (f->state != MO_STEP_RIGHT) continue;
        out->layers++;
        out->versions += step->n_versions > 1 ? step->n_versions : 1;
        if (out->layer[0] && f->error <= out->error) continue;
        out->error = f->error;
        note_layer(step->node, out->layer, sizeof out->layer);
    }
    out->whole = r->found.whole;
    out->whole_error = r->found.error;
    out->whole_allowed = r->found.allowed;
}

static bool any_wrong(const struct round *r) {
    for (int k = 0; k < r->compiled->n_steps; k++)
        if (r->found.step[k].state == MO_STEP_WRONG) return true;
    return false;
}

/* *again: layers were withdrawn. */
static int one_round(const struct mo_env *env, const struct mo_verifier *v, struct mo_verified *out,
                     bool *again, moire_error *err) {
    struct round r = {.env = env, .v = v};
    int rc = look(&r, err);
    out->cut = !rc && r.found.cut;
    *again = !rc && !out->cut && any_wrong(&r);
    if (*again) rc = withdraw_all(&r, out, err);
    const bool known = !rc && !*again && !out->cut;
    if (known) rc = mo_compiled_state(r.compiled, &v->request, out->state, err);
    if (known && !rc) sum_up(&r, out);
    close_round(&r);
    return rc;
}

int mo_verify_model(const struct mo_env *env, const struct mo_verifier *v, struct mo_verified *out,
                    moire_error *err) {
    enum { MOST_ROUNDS = 1000 }; /* one finds all that is wrong, or one layer that crashes */
    bool again = true;
    int rc = MOIRE_OK;
    *out = (struct mo_verified){0};
    for (int i = 0; !rc && again; i++) {
        rc = one_round(env, v, out, &again, err);
        if (!rc && again && i == MOST_ROUNDS)
            rc = mo_fail(err, MOIRE_EBUSY, "somebody keeps putting wrong kernels into the store");
    }
    return rc ? mo_fail_context(err, rc, "verifying '%.150s'", v->request.path) : MOIRE_OK;
}

bool mo_verified_is_wrong(const struct mo_verified *v) {
    return v->whole && v->whole_allowed > 0 && !(v->whole_error <= v->whole_allowed);
}
