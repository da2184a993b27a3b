/* SPDX-License-Identifier: Apache-2.0
 * layer_rates.c - times of layers from those of another plan of the same model; see common.h.
 *
 * What a layer takes is foreseen by its operator and its work (runtime/plan/estimate.h), which may be wrong
 * by some factor on this machine.  A measured plan tells that factor of each layer, at each number of cores;
 * the layer of that name has it at other shapes, too.  One without a namesake has the factor of all. */
#include <string.h>
#include "runtime/engine/calibrate.h"
#include "runtime/plan/estimate.h"
#include "runtime/serve/common.h"

/* Factors beyond these are no property of the layer: the time was disturbed, or next to nothing. */
static const double LEAST = 1.0 / 16, MOST = 16;

struct mo_layer_rates {
    struct mo_region *region;
    int n, cores;
    const char **name;
    double *rate;    /* [n][cores + 1] */
    double *overall; /* [cores + 1] */
};

/* ns of a layer by its work. */
static double expected(const struct mo_plan *plan, int k, int cores) {
    const struct mo_step *s = &plan->steps[k];
    return 1 + mo_step_estimate(plan->graph, s) / mo_step_workers(s, cores);
}

static double bounded(double rate) {
    return rate < LEAST ? LEAST : rate > MOST ? MOST : rate;
}

static void fill(struct mo_layer_rates *r, const struct mo_plan *plan, const struct mo_profile *measured) {
    for (int c = 1; c <= r->cores; c++) {
        double all = 0;
        for (int k = 0; k < r->n; k++) {
            const double by_work = expected(plan, k, c);
            r->rate[k * (r->cores + 1) + c] =
                bounded((double)mo_profile_time(measured, c, k, k + 1) / by_work);
            all += by_work;
        }
        r->overall[c] = bounded((double)mo_profile_time(measured, c, 0, r->n) / all);
    }
}

struct mo_layer_rates *mo_layer_rates_create(const struct mo_plan *plan, const struct mo_profile *measured) {
    struct mo_region *region = mo_region_create(plan->env);
    struct mo_layer_rates *r = region ? mo_region_alloc(region, sizeof *r) : NULL;
    if (!r) {
        mo_region_destroy(region);
        return NULL;
    }
    const size_t n = (size_t)plan->n_steps, columns = (size_t)measured->max_cores + 1;
    *r = (struct mo_layer_rates){.region = region, .n = plan->n_steps, .cores = measured->max_cores};
    r->name = mo_region_array(region, n, sizeof *r->name);
    r->rate = mo_region_array(region, n * columns, sizeof *r->rate);
    r->overall = mo_region_array(region, columns, sizeof *r->overall);
    bool ok = r->name && r->rate && r->overall;
    for (size_t k = 0; k < n && ok; k++) {
        const char *name = plan->steps[k].node->name;
        ok = (r->name[k] = mo_region_string(region, name, strlen(name))) != NULL;
    }
    if (ok) {
        fill(r, plan, measured);
        return r;
    }
    mo_region_destroy(region);
    return NULL;
}

void mo_layer_rates_destroy(struct mo_layer_rates *r) {
    if (r) mo_region_destroy(r->region);
}

/* The layer of that name, looked for from where the last one was; -1: there is none. */
static int namesake(const struct mo_layer_rates *r, const char *name, int from) {
    for (int i = 0; i < r->n; i++)
        if (!strcmp(r->name[(from + i) % r->n], name)) return (from + i) % r->n;
    return -1;
}

static void foresee(const struct mo_layer_rates *r, const struct mo_plan *plan, int cores, int64_t *ns) {
    int at = 0;
    for (int k = 0; k < plan->n_steps; k++) {
        const int same = r ? namesake(r, plan->steps[k].node->name, at) : -1;
        if (same >= 0) at = (same + 1) % r->n;
        const double rate = !r ? 1 : same < 0 ? r->overall[cores] : r->rate[same * (r->cores + 1) + cores];
        ns[k] = (int64_t)(rate * expected(plan, k, cores)) + 1;
    }
}

int mo_layer_rates_foresee(const struct mo_layer_rates *r, const struct mo_plan *plan, int cores,
                           struct mo_profile **out, moire_error *err) {
    struct mo_profile *p = *out = mo_profile_create(plan->env, plan->n_steps, cores);
    int64_t *ns = mo_alloc(plan->env, (size_t)plan->n_steps * sizeof *ns);
    for (int c = 1; p && ns && c <= cores; c = mo_calibrate_next(c, cores)) {
        foresee(r, plan, c, ns);
        mo_profile_record(p, c, ns);
    }
    const bool bad = !p || !ns;
    mo_free(plan->env, ns);
    if (bad) {
        mo_profile_destroy(p);
        *out = NULL;
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for a profile");
    }
    mo_profile_finish(p);
    return MOIRE_OK;
}
