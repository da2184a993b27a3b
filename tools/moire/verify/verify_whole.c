/* SPDX-License-Identifier: Apache-2.0
 * verify_whole.c - see verify_whole.h. */
#include "tools/moire/verify/verify_whole.h"

#include <math.h>
#include <string.h>
#include "runtime/ops/trial.h"
#include "tools/moire/verify/verify_values.h"
#include "tools/moire/verify/ways.h"

static const double LAYER = 1e-4, NUDGE = 0x1p-20;

/* Operators whose answer jumps when an input moves by a rounding error: what follows them is not judged. */
static bool jumps(const struct mo_graph *g) {
    static const char *const ops[] = {"ArgMax",    "ArgMin",       "TopK",
                                      "NonZero",   "Unique",       "NonMaxSuppression",
                                      "Round",     "Floor",        "Ceil",
                                      "Sign",      "Greater",      "GreaterOrEqual",
                                      "Less",      "LessOrEqual",  "Equal",
                                      "Mod",       "Bernoulli",    "QuantizeLinear",
                                      "Hardmax",   "Multinomial",  "DynamicQuantizeLinear",
                                      "MaxUnpool", "RandomNormal", "RandomUniform"};
    for (int k = 0; k < g->n_nodes; k++)
        for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
            if (!strcmp(g->nodes[k]->op_type, ops[i])) return true;
    return false;
}

static int compiled_layers(const struct mo_plan *plan) {
    int n = 0;
    for (int k = 0; k < plan->n_steps; k++)
        n += !strcmp(plan->steps[k].kind, "specialised");
    return n;
}

/* The runs of one model. */
struct wholes {
    const struct mo_env *env;
    int n_in, n_out;
    moire_tensor *in, *want, *got;
};

static int make(struct wholes *w, const struct mo_graph *g, uint64_t seed, moire_error *err) {
    size_t in = (size_t)g->n_inputs + 1, out = (size_t)g->n_outputs + 1;
    w->n_in = g->n_inputs;
    w->n_out = g->n_outputs;
    w->in = mo_alloc(w->env, in * sizeof *w->in);
    w->want = mo_alloc(w->env, out * sizeof *w->want);
    w->got = mo_alloc(w->env, out * sizeof *w->got);
    if (!w->in || !w->want || !w->got) return mo_fail(err, MOIRE_ENOMEM, "out of memory verifying a model");
    for (int i = 0; i < g->n_inputs; i++) {
        const struct mo_tensor *t = g->tensors[g->inputs[i]];
        moire_tensor *x = &w->in[i];
        *x = (moire_tensor){.dtype = t->dtype, .rank = t->shape.rank, .bytes = (size_t)mo_tensor_bytes(t)};
        memcpy(x->shape, t->shape.d, sizeof x->shape);
        x->data = mo_alloc(w->env, x->bytes + 1);
        if (!x->data) return mo_fail(err, MOIRE_ENOMEM, "out of memory for input '%s'", t->name);
        mo_trial_random(x, &seed);
    }
    return MOIRE_OK;
}

static void drop(struct wholes *w) {
    if (w->in) mo_way_free(w->env, w->in, w->n_in);
    if (w->want) mo_way_free(w->env, w->want, w->n_out);
    if (w->got) mo_way_free(w->env, w->got, w->n_out);
    mo_free(w->env, w->in);
    mo_free(w->env, w->want);
    mo_free(w->env, w->got);
}

/* Every element `by` up or down. */
static void nudge(const struct mo_spread *s, double by) {
    for (int64_t n = 0; s->dtype == MOIRE_F32 && n < s->images; n++) {
        float *x = (float *)(void *)(s->at + n * s->stride);
        for (size_t i = 0; i < (size_t)s->bytes / sizeof *x; i++)
            x[i] += (float)(((i + (size_t)n) * 2654435761u >> 16 & 1) ? by : -by);
    }
}

/* One layer of the built-in plan, off where it is compiled in the other. */
static int run_nudged(const struct mo_step_verifier *v, struct mo_instance *b, int k, void *scratch) {
    const struct mo_step *step = &v->compiled->steps[k];
    const bool compiled = !strcmp(step->kind, "specialised");
    const double terms = compiled ? mo_verify_terms(v, b, k) : 0;
    int rc = mo_instance_run(b, k, k + 1, scratch);
    for (int i = 0; !rc && compiled && i < step->node->n_out; i++) {
        if (step->node->out[i] < 0) continue;
        struct mo_spread s = mo_spread_of(v->built_in, b, step->node->out[i]);
        nudge(&s, NUDGE * fmax(terms, mo_spread_look(&s).largest));
    }
    return rc;
}

/* The outputs of such a run, in w->got. */
static int run_all_nudged(const struct mo_step_verifier *v, struct wholes *w, moire_error *err) {
    const struct mo_plan *plan = v->built_in;
    struct mo_instance *b = NULL;
    void *scratch = mo_alloc_scratch(w->env, (size_t)plan->scratch_bytes + 64);
    int rc = scratch ? mo_instance_create(plan, &b, err) : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int i = 0; !rc && i < w->n_in; i++)
        rc = mo_instance_set_input(b, i, &w->in[i], err);
    for (int k = 0; !rc && k < plan->n_steps; k++)
        if ((rc = run_nudged(v, b, k, scratch))) mo_fail(err, rc, "%s", mo_instance_message(b));
    if (!rc) rc = mo_way_copy_outputs(b, plan->graph, w->got, err);
    mo_instance_destroy(b);
    mo_free(w->env, scratch);
    return rc;
}

/* Largest difference of the float outputs, relative to each one's range; INFINITY where only one is finite.
 */
static double differ(const struct wholes *w) {
    double worst = 0;
    for (int i = 0; i < w->n_out; i++) {
        const float *a = w->want[i].data, *b = w->got[i].data;
        double largest = 0, range = 0;
        if (w->want[i].dtype != MOIRE_F32 || w->want[i].bytes != w->got[i].bytes) continue;
        for (size_t k = 0; k < w->want[i].bytes / sizeof *a; k++) {
            if (isfinite(a[k]) != isfinite(b[k])) return INFINITY;
            if (!isfinite(a[k])) continue;
            largest = fmax(largest, fabs((double)a[k] - (double)b[k]));
            range = fmax(range, fabs((double)a[k]));
        }
        if (largest > 0) worst = fmax(worst, range > 0 ? largest / range : INFINITY);
    }
    return worst;
}

int mo_verify_whole(const struct mo_step_verifier *v, struct mo_step_findings *out, moire_error *err) {
    struct wholes w = {.env = v->compiled->env};
    const int layers = compiled_layers(v->compiled);
    moire_error why = {0};
    int rc = make(&w, v->built_in->graph, v->seed, err);
    int given = rc ? rc : mo_way_run_built(v->built_in, w.in, w.n_in, w.want, &why);
    if (given == MOIRE_ENOMEM && !rc) rc = mo_fail(err, given, "%s", why.message);
    bool runs = !given && !(rc = mo_way_run_built(v->compiled, w.in, w.n_in, w.got, err));
    if (runs) {
        out->whole = true;
        out->error = differ(&w);
        out->allowed = 0;
        mo_way_free(w.env, w.got, w.n_out);
    }
    if (runs && !jumps(v->built_in->graph) && !(rc = run_all_nudged(v, &w, err)))
        out->allowed = fmax(LAYER * sqrt(layers > 1 ? layers : 1), LAYER / NUDGE * differ(&w));
    drop(&w);
    return rc;
}
