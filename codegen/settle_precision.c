/* SPDX-License-Identifier: Apache-2.0
 * settle_precision.c - see settle_precision.h. */
#include "codegen/settle_precision.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "codegen/precision_choice.h"
#include "runtime/device/fpu.h"
#include "runtime/ops/trial.h"
#include "variants/matrix/matrix.h"

/* Three inputs are compared; runs go on until the budget is spent, which a short model needs for times that
 * can be trusted and a long one spends in the least number. */
enum { INPUTS = 3, MOST_RUNS = 20, MOST_TRIALS = 3, SEED = 1 };
static const int64_t BUDGET_NS = 200000000;

/* The model in one precision, ready to run. */
struct side {
    struct mo_plan *plan;
    struct mo_instance *instance;
    void *scratch;
    int64_t least_ns;
};

struct contest {
    const struct mo_precision_ask *ask;
    struct side fp32;
    moire_tensor *in;          /* of every input, with memory of its own */
    struct mo_output_gap *gap; /* of every output */
    moire_error err;
};

static void close_side(const struct mo_env *env, struct side *s) {
    mo_instance_destroy(s->instance);
    mo_free(env, s->scratch);
    mo_plan_destroy(s->plan);
    *s = (struct side){0};
}

static int load_graph(const struct mo_precision_ask *ask, enum moire_precision precision,
                      struct mo_graph **out, moire_error *err) {
    struct mo_frontend_options front = *ask->front;
    front.precision = precision;
    front.share = NULL; /* what others share is not to hold weights of a precision that is not taken */
    return mo_frontend_load(ask->env, ask->path, &front, out, err);
}

/* Takes over the graph. */
static int open_side(const struct mo_precision_ask *ask, struct mo_graph *g, struct side *s,
                     moire_error *err) {
    const struct mo_env *env = ask->env;
    int rc = mo_plan_build(g, ask->planning, &s->plan, err);
    if (!rc) rc = mo_instance_create(s->plan, &s->instance, err);
    if (!rc && !(s->scratch = mo_alloc_scratch(env, (size_t)s->plan->scratch_bytes + 1)))
        rc = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    s->least_ns = INT64_MAX;
    return rc;
}

/* --- inputs --- */

static int make_inputs(struct contest *c) {
    const struct mo_env *env = c->ask->env;
    const struct mo_graph *g = c->fp32.plan->graph;
    c->in = mo_alloc(env, ((size_t)g->n_inputs + 1) * sizeof *c->in);
    c->gap = mo_alloc(env, ((size_t)g->n_outputs + 1) * sizeof *c->gap);
    if (!c->in || !c->gap) return mo_fail(&c->err, MOIRE_ENOMEM, "out of memory");
    for (int i = 0; i < g->n_inputs; i++) {
        const struct mo_tensor *t = g->tensors[g->inputs[i]];
        moire_tensor *x = &c->in[i];
        *x = (moire_tensor){.dtype = t->dtype, .rank = t->shape.rank, .bytes = (size_t)mo_tensor_bytes(t)};
        memcpy(x->shape, t->shape.d, sizeof x->shape);
        x->data = mo_alloc(env, x->bytes + 1);
        if (!x->data) return mo_fail(&c->err, MOIRE_ENOMEM, "out of memory for input '%.100s'", t->name);
    }
    return MOIRE_OK;
}

static void fill_inputs(struct contest *c, uint64_t *state) {
    const struct mo_graph *g = c->fp32.plan->graph;
    for (int i = 0; i < g->n_inputs; i++) {
        mo_trial_random(&c->in[i], state);
        mo_trial_repair(g, i, c->in[i].data);
    }
}

/* --- runs --- */

static int run_side(struct contest *c, struct side *s) {
    const struct mo_graph *g = s->plan->graph;
    int rc = MOIRE_OK;
    mo_instance_reset(s->instance);
    for (int i = 0; !rc && i < g->n_inputs; i++)
        rc = mo_instance_set_input(s->instance, i, &c->in[i], &c->err);
    if (rc) return rc;
    const unsigned state = mo_fpu_flush();
    const int64_t start = mo_now(c->ask->env);
    rc = mo_instance_run(s->instance, 0, s->plan->n_steps, s->scratch);
    const int64_t took = mo_now(c->ask->env) - start;
    mo_fpu_restore(state);
    if (rc) return mo_fail(&c->err, rc, "%s", mo_instance_message(s->instance));
    if (took < s->least_ns) s->least_ns = took;
    return MOIRE_OK;
}

static void compare(struct contest *c, struct side *other) {
    for (int i = 0; i < c->fp32.plan->graph->n_outputs; i++) {
        moire_tensor want, got;
        if (mo_instance_output(c->fp32.instance, i, &want) || mo_instance_output(other->instance, i, &got))
            c->gap[i].begun = c->gap[i].apart = true;
        else
            mo_output_gap_add(&c->gap[i], &want, &got);
    }
}

/* Float32 and another precision in turns, so that what slows the machine slows both. */
static int take_turns(struct contest *c, struct side *other, struct mo_precision_trial *t) {
    const int n_outputs = c->fp32.plan->graph->n_outputs;
    uint64_t state = SEED;
    int64_t spent = 0;
    memset(c->gap, 0, (size_t)n_outputs * sizeof *c->gap);
    c->fp32.least_ns = INT64_MAX;
    for (int k = 0; k < MOST_RUNS && (k < INPUTS || spent < BUDGET_NS); k++) {
        if (k < INPUTS) fill_inputs(c, &state);
        int rc = run_side(c, &c->fp32);
        if (!rc) rc = run_side(c, other);
        if (rc) return rc;
        if (k < INPUTS) compare(c, other);
        spent += c->fp32.least_ns + other->least_ns;
    }
    t->fp32_ns = (double)c->fp32.least_ns;
    t->ns = (double)other->least_ns;
    for (int i = 0; i < n_outputs; i++)
        t->difference = fmax(t->difference, mo_output_gap_of(&c->gap[i]));
    return MOIRE_OK;
}

/* --- what there is to choose from --- */

/* Float32 is apart. */
static int list_trials(const struct mo_precision_ask *ask, const struct mo_graph *g,
                       struct mo_precision_trial out[MOST_TRIALS]) {
    struct mo_frontend_options halves = *ask->front;
    int n = 0;
    if (g->converts) {
        out[0] = (struct mo_precision_trial){.precision = MOIRE_PRECISION_INT8, .exempt = true};
        return 1;
    }
    /* float32 all the same, on a matrix unit where that is faster */
    if (!g->n_halves && !g->exact && mo_matrix_of(mo_isa_detect(), MO_MATRIX_FLOATS))
        out[n++] = (struct mo_precision_trial){.precision = MOIRE_PRECISION_AUTO, .exempt = true};
    halves.precision = MOIRE_PRECISION_BF16;
    if (mo_halves_unit(&halves, g)) out[n++] = (struct mo_precision_trial){.precision = MOIRE_PRECISION_BF16};
    if (mo_float16_of(MOIRE_PRECISION_FP16, g))
        out[n++] = (struct mo_precision_trial){.precision = MOIRE_PRECISION_FP16};
    return n;
}

/* Whether every layer runs by the same kernel: then there is nothing to gain. */
static bool is_same(const struct mo_plan *a, const struct mo_plan *b) {
    if (a->n_steps != b->n_steps) return false;
    for (int k = 0; k < a->n_steps; k++)
        if (strcmp(a->steps[k].kernel, b->steps[k].kernel) || a->steps[k].packing != b->steps[k].packing)
            return false;
    return true;
}

/* *same: nothing was measured, as it is float32. */
static int try_one(struct contest *c, struct mo_precision_trial *t, bool *same) {
    struct mo_graph *g;
    struct side other = {0};
    *same = false;
    int rc = load_graph(c->ask, t->precision, &g, &c->err);
    if (rc) return rc;
    rc = open_side(c->ask, g, &other, &c->err);
    if (!rc) *same = is_same(c->fp32.plan, other.plan);
    if (!rc && !*same) rc = take_turns(c, &other, t);
    close_side(c->ask->env, &other);
    return rc;
}

static int hold(struct contest *c, struct mo_precision_trial trial[MOST_TRIALS], int *n) {
    struct mo_graph *g;
    struct mo_precision_trial all[MOST_TRIALS];
    *n = 0;
    int rc = load_graph(c->ask, MOIRE_PRECISION_FP32, &g, &c->err);
    if (rc) return rc;
    const int n_all = list_trials(c->ask, g, all);
    if (!n_all) {
        mo_graph_destroy(g);
        return MOIRE_OK;
    }
    rc = open_side(c->ask, g, &c->fp32, &c->err);
    if (!rc) rc = make_inputs(c);
    for (int i = 0; !rc && i < n_all; i++) {
        bool same;
        rc = try_one(c, &all[i], &same);
        if (!rc && !same) trial[(*n)++] = all[i];
    }
    return rc;
}

static void close_contest(struct contest *c) {
    const struct mo_env *env = c->ask->env;
    for (int i = 0; c->in && i < c->fp32.plan->graph->n_inputs; i++)
        mo_free(env, c->in[i].data);
    mo_free(env, c->in);
    mo_free(env, c->gap);
    close_side(env, &c->fp32);
}

struct mo_precision_settled mo_precision_settle(const struct mo_precision_ask *ask) {
    struct mo_precision_settled out = {.precision = ask->front->precision};
    struct mo_precision_trial trial[MOST_TRIALS];
    struct contest c = {.ask = ask};
    const bool plain = ask->front->no_passes || ask->front->no_layout || ask->planning->reference_only;
    int n;
    if (out.precision != MOIRE_PRECISION_AUTO || !(ask->tolerance > 0) || plain) return out;
    const int rc = hold(&c, trial, &n);
    if (rc) {
        snprintf(out.said, sizeof out.said, "not measured: %.200s", c.err.message);
    } else {
        const int best = mo_precision_choose(trial, n, ask->tolerance);
        out.precision = best < 0 ? MOIRE_PRECISION_FP32 : trial[best].precision;
        mo_precision_say(trial, n, ask->tolerance, out.said, sizeof out.said);
    }
    close_contest(&c);
    return out;
}
