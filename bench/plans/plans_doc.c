/* SPDX-License-Identifier: Apache-2.0
 * plans_doc.c - what `moire bench plans` compares, and the document of it; see plans.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench/plans/plans_impl.h"
#include "runtime/base/numbers.h"

static int find_planner(const struct mo_plans_options *o, const char *name) {
    for (int p = 0; p < o->n_planners; p++)
        if (!strcmp(o->planner[p]->name, name)) return p;
    return -1;
}

/* Mean over the scenarios of this planner's rate, that holds or that it claims, over another's that holds
 * (-1: the bound's); -1: not to be had. */
static double rate_over(const struct mo_plans_work *w, int machine, int planner, int other, bool claimed) {
    double sum = 0;
    for (int s = 0; s < w->o->n_scenarios; s++) {
        const struct mo_plans_rate *r = mo_plans_rate_of(w, machine, planner, s);
        double base = other < 0 ? r->bound : mo_plans_rate_of(w, machine, other, s)->load;
        if (!(base > 0)) return -1;
        sum += (claimed ? r->claimed : r->load) / base;
    }
    return w->o->n_scenarios ? sum / w->o->n_scenarios : -1;
}

static json_t *or_null(double v) {
    return v < 0 ? json_null() : json_real(v);
}

static json_t *rates_json(const struct mo_plans_work *w, int machine, int planner) {
    json_t *out = json_object();
    for (int s = 0; s < w->o->n_scenarios; s++) {
        const struct mo_plans_rate *r = mo_plans_rate_of(w, machine, planner, s);
        json_object_set_new(out, w->views[machine * w->o->n_scenarios + s].scenario.name,
                            json_real(r->load * r->queries));
    }
    return out;
}

/* ms: room for n_loads times. */
static json_t *result(const struct mo_plans_work *w, int machine, int planner, double *ms) {
    const struct mo_plans_options *o = w->o;
    int placed = 0, holding = 0, missed = 0, ideal = find_planner(o, "ideal"), sbp = find_planner(o, "sbp");
    double violations = 0;
    for (int i = 0; i < w->n_loads; i++) {
        const struct mo_plans_try *t = mo_plans_grid(w, machine, planner, i);
        bool holds = t->complete && !(t->violations > 0);
        placed += t->complete;
        holding += holds;
        violations += t->complete ? t->violations : 0;
        missed += ideal >= 0 && mo_plans_grid(w, machine, ideal, i)->complete && !holds;
        ms[i] = t->ms;
    }
    qsort(ms, (size_t)w->n_loads, sizeof *ms, mo_rising);
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:f, s:o}", "planner",
                     o->planner[planner]->name, "profile", w->views[machine * o->n_scenarios].machine.name,
                     "scenarios", w->n_loads, "placed", placed, "holding", holding, "missed_vs_ideal",
                     ideal < 0 ? json_null() : json_integer(missed), "rate_vs_ideal",
                     or_null(ideal < 0 ? -1 : rate_over(w, machine, planner, ideal, false)),
                     "throughput_vs_sbp", or_null(sbp < 0 ? -1 : rate_over(w, machine, planner, sbp, false)),
                     "claimed_vs_sbp", or_null(sbp < 0 ? -1 : rate_over(w, machine, planner, sbp, true)),
                     "rate_vs_bound", or_null(rate_over(w, machine, planner, -1, false)), "violations",
                     placed ? violations / placed : 0.0, "plan_ms_p50", ms[w->n_loads / 2], "plan_ms_max",
                     ms[w->n_loads - 1], "rates", rates_json(w, machine, planner));
}

static json_t *scaling_row(const struct mo_plans_work *w, int planner, int index) {
    const struct mo_plans_try *t = mo_plans_scaling(w, planner, index);
    double ms[MO_PLANS_DRAWS];
    int complete = 0;
    for (int d = 0; d < MO_PLANS_DRAWS; d++) {
        ms[d] = t[d].ms;
        complete += t[d].complete;
    }
    qsort(ms, MO_PLANS_DRAWS, sizeof *ms, mo_rising);
    return json_pack("{s:s, s:i, s:i, s:f, s:f, s:i, s:i}", "planner", w->o->planner[planner]->name, "gpus",
                     mo_plans_gpus[index / MO_PLANS_SIZES], "models", mo_plans_models[index % MO_PLANS_SIZES],
                     "plan_ms_p50", ms[MO_PLANS_DRAWS / 2], "plan_ms_max", ms[MO_PLANS_DRAWS - 1], "complete",
                     complete, "draws", MO_PLANS_DRAWS);
}

static int make_document(const struct mo_plans_work *w, json_t **out, moire_error *err) {
    const struct mo_plans_options *o = w->o;
    json_t *results = json_array(), *scaling = json_array();
    double *ms = mo_alloc(w->env, (size_t)w->n_loads * sizeof *ms);
    int failed = !results || !scaling || !ms;
    for (int m = 0; !failed && m < o->n_machines; m++)
        for (int p = 0; !failed && p < o->n_planners; p++)
            failed = json_array_append_new(results, result(w, m, p, ms));
    for (int p = 0; !failed && o->scaling && p < o->n_planners; p++)
        for (int i = 0; !failed && i < MO_PLANS_SCALINGS; i++)
            if (!mo_plans_scaling(w, p, i)->refused)
                failed = json_array_append_new(scaling, scaling_row(w, p, i));
    mo_free(w->env, ms);
    if (!failed)
        *out = json_pack("{s:{s:s, s:i, s:f, s:I, s:s}, s:O, s:O}", "experiment", "kind", "plans", "loads",
                         w->n_loads, "load", o->load, "seed", (json_int_t)o->seed, "moire", moire_version(),
                         "results", results, "scaling", scaling);
    json_decref(results);
    json_decref(scaling);
    return *out ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for the document");
}

/* The slow pieces first, so that the workers end together. */
static void list_pieces(struct mo_plans_work *w) {
    const struct mo_plans_options *o = w->o;
    struct mo_plans_piece *at = w->pieces;
    for (int i = MO_PLANS_SCALINGS - 1; o->scaling && i >= 0; i--)
        for (int p = 0; p < o->n_planners; p++)
            *at++ = (struct mo_plans_piece){MO_PLANS_SCALING, 0, p, i};
    for (int m = 0; m < o->n_machines; m++)
        for (int p = 0; p < o->n_planners; p++) {
            for (int s = 0; s < o->n_scenarios; s++)
                *at++ = (struct mo_plans_piece){MO_PLANS_RATE, m, p, s};
            for (int i = 0; i < w->n_loads; i++)
                *at++ = (struct mo_plans_piece){MO_PLANS_GRID, m, p, i};
        }
    w->n_pieces = (int)(at - w->pieces);
}

/* The first scenario has the models of the grid, in its order. */
static int check_models(const struct mo_bench_plan_view *v, moire_error *err) {
    bool same = v->view.n_tenants == MO_LOADS_MODELS;
    for (int i = 0; same && i < MO_LOADS_MODELS; i++)
        same = !strcmp(v->scenario.tenants[i].name, mo_loads_models[i].name) &&
               v->view.tenants[i].target_ns == mo_loads_models[i].target_ns;
    return same ? MOIRE_OK
                : mo_fail(err, MOIRE_EINVAL,
                          "the first scenario must have the five models of the grid, as "
                          "gpulet-equal has");
}

static int run(struct mo_plans_work *w, int *opened, json_t **out, moire_error *err) {
    const struct mo_plans_options *o = w->o;
    const int rows = o->n_machines * o->n_planners;
    w->views = mo_alloc(w->env, (size_t)(o->n_machines * o->n_scenarios) * sizeof *w->views);
    w->pieces =
        mo_alloc(w->env, (size_t)(rows * (w->n_loads + o->n_scenarios) + o->n_planners * MO_PLANS_SCALINGS) *
                             sizeof *w->pieces);
    w->grid = mo_alloc(w->env, (size_t)(rows * w->n_loads) * sizeof *w->grid);
    w->rate = mo_alloc(w->env, (size_t)(rows * o->n_scenarios) * sizeof *w->rate);
    w->scaling =
        mo_alloc(w->env, (size_t)(o->n_planners * MO_PLANS_SCALINGS * MO_PLANS_DRAWS) * sizeof *w->scaling);
    int code = w->views && w->pieces && w->grid && w->rate && w->scaling
                   ? MOIRE_OK
                   : mo_fail(err, MOIRE_ENOMEM, "out of memory for %d planners", o->n_planners);
    for (int i = 0; !code && i < o->n_machines * o->n_scenarios; i++) {
        code = mo_bench_plan_open(w->env, o->machine[i / o->n_scenarios], o->scenario[i % o->n_scenarios],
                                  &w->views[i], err);
        *opened += !code;
        if (!code && i % o->n_scenarios == 0) code = check_models(&w->views[i], err);
    }
    if (code) return code;
    list_pieces(w);
    code = mo_plans_run(w, err);
    return code ? code : make_document(w, out, err);
}

int mo_plans_document(const struct mo_env *env, const struct mo_plans_options *o, json_t **out,
                      moire_error *err) {
    *out = NULL;
    if (o->n_machines < 1 || o->n_planners < 1 || o->n_scenarios < 1 || o->every < 1)
        return mo_fail(err, MOIRE_EINVAL, "needs machines, planners and scenarios");
    struct mo_plans_work w = {.env = env, .o = o, .n_loads = (MO_LOADS_GRID + o->every - 1) / o->every};
    int opened = 0, code = run(&w, &opened, out, err);
    for (int i = 0; i < opened; i++)
        mo_bench_plan_close(env, &w.views[i]);
    mo_free(env, w.views);
    mo_free(env, w.pieces);
    mo_free(env, w.grid);
    mo_free(env, w.rate);
    mo_free(env, w.scaling);
    return code;
}
