/* SPDX-License-Identifier: Apache-2.0
 * gpulet_plan.c - rates and plans of the server on lets.
 *
 * The rate of a tenant is the count of its arrivals, forgotten exponentially with a time of ten seconds; the
 * standard deviation of that estimate under Poisson arrivals is sqrt(rate / 20 s).  A plan stays while every
 * rate is within three deviations of what it was made for, or below that by no more than a quarter.  A new
 * one is made for two deviations more than the estimate, and for the estimate itself where the GPUs cannot
 * serve that much.  The declared rates of the first plan are no estimate and are taken as they are.  A new
 * plan is made, too, when a GPU is lost or back, where the planner sees those that are there, and with the
 * first query of a tenant that came after the latest plan.
 *
 * Lets serve while the next plan's are prepared, on every GPU whose memory holds both.  So a plan fills no
 * more than half of a GPU's memory, where such a plan serves all rates. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "runtime/planner/inss/inss_plan.h"
#include "runtime/policy/gpulet.h"

static const double MEMORY_S = 10, KEEP = 0.25, TOLERATED = 3, HEADROOM = 2, TIGHT = 0.85;

void mo_gpulet_init(void *state, const struct mo_view *view) {
    struct mo_gpulet_state *s = state;
    const struct mo_gpulet_options *o = view->options;
    s->planner = mo_planner_find(o->planner);
    if (!s->planner) s->planner = mo_inss_planner(o->planner);
    for (int i = 0; i < MO_PLAN_TENANTS; i++) {
        s->rate[i] = -1;
        s->best_ns[i] = MO_SHARE_NEVER;
        snprintf(s->names[i], sizeof s->names[i], "t%d", i);
    }
}

static double deviation(double rate) {
    return sqrt((rate > 1 / MEMORY_S ? rate : 1 / MEMORY_S) / (2 * MEMORY_S));
}

static int count_tenants(const struct mo_view *view) {
    return view->n_tenants < MO_PLAN_TENANTS ? view->n_tenants : MO_PLAN_TENANTS;
}

/* Before anything is known a tenant is taken to ask once a target. */
static double first_rate(const struct mo_view_tenant *t) {
    if (t->declared > 0) return t->declared;
    return t->qos_ns ? 1e9 / (double)t->qos_ns : 1;
}

static void count(struct mo_gpulet_state *s, const struct mo_view *view) {
    double elapsed = (double)(view->now - s->counted) * 1e-9;
    for (int i = 0; i < count_tenants(view); i++) {
        if (s->rate[i] < 0)
            s->rate[i] = first_rate(&view->tenants[i]);
        else if (elapsed > 0)
            s->rate[i] += (1 - exp(-elapsed / MEMORY_S)) * ((double)s->arrivals[i] / elapsed - s->rate[i]);
        s->arrivals[i] = 0;
    }
    s->counted = view->now;
}

/* Does the plan in force still fit the rates? */
static bool fits(const struct mo_gpulet_state *s, const struct mo_view *view) {
    if (!view->lets || s->stale) return false;
    for (int i = 0; i < count_tenants(view); i++) {
        double planned = s->planned[i], slack = TOLERATED * deviation(planned);
        double rate = view->tenants[i].open ? s->rate[i] : 0;
        if (rate > planned + slack || rate < (1 - KEEP) * planned - slack) return false;
    }
    return true;
}

/* What a planner takes: nobody's odd target or rate shall keep the others from being planned for. */
static void bound(struct mo_plan_tenant *t) {
    if (t->rate > MO_PLAN_RATE) t->rate = MO_PLAN_RATE;
    if (t->target_ns > MO_PLAN_TARGET_NS) t->target_ns = MO_PLAN_TARGET_NS;
    if (!t->target_ns && !t->best_effort) t->target_ns = 1;
}

static void describe(struct mo_gpulet_state *s, const struct mo_view *view, double factor, double tight) {
    for (int i = 0; i < count_tenants(view); i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        struct mo_plan_tenant *to = &s->tenants[i];
        *to = (struct mo_plan_tenant){.name = s->names[i],
                                      .rate = t->open && t->share ? factor * s->planned[i] : 0,
                                      .target_ns = (int64_t)((double)t->qos_ns * tight),
                                      .best_effort = t->best_effort || !t->qos_ns};
        bound(to);
        for (int k = 0; t->share && k < view->gpus->n_kinds; k++)
            to->profile[k] = t->share[k];
    }
}

/* The GPUs that are there, and what of the plan in force is on them; NULL: there is none. */
static const struct mo_lets_plan *number_gpus(struct mo_gpulet_state *s, const struct mo_view *view) {
    int at[MO_PLAN_GPUS];
    s->n_gpus = 0;
    for (int g = 0; g < view->gpus->n_gpus; g++) {
        at[g] = view->gpu_lost[g] ? -1 : s->n_gpus;
        if (at[g] < 0) continue;
        s->gpu[s->n_gpus] = g;
        s->gpu_kind[s->n_gpus++] = view->gpus->kind[g];
    }
    if (!view->lets || s->n_gpus == view->gpus->n_gpus) return view->lets;
    s->known = *view->lets;
    s->known.n_lets = 0;
    for (int i = 0; i < view->lets->n_lets; i++) {
        struct mo_planned_let *let = &s->known.lets[s->known.n_lets];
        *let = view->lets->lets[i];
        let->gpu = at[let->gpu];
        s->known.n_lets += let->gpu >= 0;
    }
    return &s->known;
}

/* A plan for the rates times a factor, and for targets that are shorter by another. */
static int make(struct mo_gpulet_state *s, const struct mo_view *view, double factor, double tight) {
    const struct mo_gpulet_options *o = view->options;
    moire_error ignored;
    const struct mo_lets_plan *in_force = number_gpus(s, view);
    describe(s, view, factor, tight);
    struct mo_plan_view pv = {.n_tenants = count_tenants(view),
                              .n_kinds = view->gpus->n_kinds,
                              .n_gpus = s->n_gpus,
                              .tenants = s->tenants,
                              .kinds = s->kinds,
                              .gpu_kind = s->gpu_kind,
                              .max_share = MO_LET_TENANTS,
                              .burst = o->burst,
                              .budget = (int64_t)o->steps * count_tenants(view),
                              .in_force = in_force,
                              .learned = view->gpus->learned};
    int code = mo_plan_make(s->planner, &pv, view->scratch, view->scratch_bytes, &s->fresh, &ignored);
    for (int i = 0; !code && i < s->fresh.n_lets; i++)
        s->fresh.lets[i].gpu = s->gpu[s->fresh.lets[i].gpu];
    return code;
}

/* The plan for the largest of n rising factors that is complete; that for the first when none is. */
static int search(struct mo_gpulet_state *s, const struct mo_view *view, const double *factor, int n,
                  double tight) {
    int code = make(s, view, factor[0], tight), good = 0, latest = 0, bad = n;
    if (code || !s->fresh.complete) return code;
    while (!code && bad - good > 1) {
        latest = (good + bad) / 2;
        code = make(s, view, factor[latest], tight);
        if (!code && s->fresh.complete)
            good = latest;
        else
            bad = latest;
    }
    return code || latest == good ? code : make(s, view, factor[good], tight);
}

/* For the estimates and so many deviations more.  With stretch: for as much more as is served, with targets
 * that leave room for what the model of times does not know, where that is served at all; and where the
 * rates are too much, for the same part of every tenant's, so that none goes without. */
static int make_for(struct mo_gpulet_state *s, const struct mo_view *view, double headroom) {
    static const double more[] = {1, 1.1, 1.2, 1.35, 1.5, 1.7, 2},
                        less[] = {0.1, 0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9};
    enum { MORE = sizeof more / sizeof *more, LESS = sizeof less / sizeof *less };
    const struct mo_gpulet_options *o = view->options;
    for (int i = 0; i < count_tenants(view); i++)
        s->planned[i] = s->rate[i] + headroom * deviation(s->rate[i]);
    if (!o->stretch) return make(s, view, 1, 1);
    int code = search(s, view, more, MORE, TIGHT);
    if (!code && !s->fresh.complete) code = search(s, view, more, MORE, 1);
    if (code || s->fresh.complete || headroom > 0) return code;
    code = search(s, view, less, LESS, 1);
    s->fresh.complete = false; /* it was made for a part of the rates only */
    return code;
}

/* For what is asked with some room, or else without. */
static int make_with(struct mo_gpulet_state *s, const struct mo_view *view, int64_t memory_parts,
                     double headroom) {
    for (int k = 0; k < view->gpus->n_kinds; k++) {
        s->kinds[k] = view->gpus->kinds[k];
        if (!s->kinds[k].shared_weights) s->kinds[k].memory_bytes /= memory_parts;
    }
    int code = make_for(s, view, headroom);
    return code || s->fresh.complete || !(headroom > 0) ? code : make_for(s, view, 0);
}

/* Does a GPU hold so much of the plan that another one cannot be prepared beside it?  What lets share needs
 * no second place. */
static bool is_heavy(const struct mo_gpulet_state *s, const struct mo_view *view) {
    int64_t held[MO_PLAN_GPUS] = {0};
    bool heavy = false;
    for (int i = 0; i < s->fresh.n_lets; i++) {
        const struct mo_planned_let *let = &s->fresh.lets[i];
        const struct mo_plan_kind *kind = mo_gpus_kind(view->gpus, let->gpu);
        for (int e = 0; e < let->n_entries && !kind->shared_weights; e++)
            held[let->gpu] += mo_view_share(view, let->entries[e].tenant, let->gpu)->memory_bytes;
        heavy |= held[let->gpu] > kind->memory_bytes / 2;
    }
    return heavy;
}

static int make_light(struct mo_gpulet_state *s, const struct mo_view *view, double headroom) {
    int code = make_with(s, view, 1, headroom);
    if (code || !is_heavy(s, view)) return code;
    double planned[MO_PLAN_TENANTS];
    s->spare = s->fresh;
    memcpy(planned, s->planned, sizeof planned);
    code = make_with(s, view, 2, headroom);
    if (code || s->fresh.complete) return code;
    s->fresh = s->spare;
    memcpy(s->planned, planned, sizeof planned);
    return MOIRE_OK;
}

void mo_gpulet_forget(struct mo_gpulet_state *s, int tenant) {
    s->rate[tenant] = -1;
    s->arrivals[tenant] = 0;
    s->met[tenant] = false;
}

bool mo_gpulet_has_new_tenant(const struct mo_gpulet_state *s, const struct mo_view *view) {
    for (int i = 0; i < count_tenants(view); i++)
        if (view->tenants[i].open && view->tenants[i].n_waiting && !s->met[i]) return true;
    return false;
}

void mo_gpulet_plan(void *state, const struct mo_view *view) {
    struct mo_gpulet_state *s = state;
    double headroom = s->begun ? HEADROOM : 0; /* what is declared is not an estimate */
    count(s, view);
    if (!s->planner || view->lets_coming || fits(s, view)) return;
    const int code = make_light(s, view, headroom);
    for (int i = 0; i < count_tenants(view); i++)
        s->met[i] = view->tenants[i].open;
    s->ask = !code && !s->fresh.kept;
    s->stale = false;
    s->begun = true;
}
