/* SPDX-License-Identifier: Apache-2.0
 * watt_rows.c - see watt_rows.h. */
#include "bench/wattwiser/watt_rows.h"

#include <math.h>
#include <string.h>
#include "bench/data/json_read.h"
#include "bench/data/mean.h"

static const char uniform[] = "wattwiser-uniform";

/* What the paper claims that a policy saves of uniform's power, %. */
static const struct {
    const char *policy;
    double saved;
} claims[] = {
    {"wattwiser-packed-uniform", 24}, {"wattwiser-sharing-aware", 20}, {"wattwiser-sharing-load-aware", 34}};

static double per_cent(double part, double of) {
    return of > 0 ? 100 * part / of : 0;
}

json_t *mo_watt_rows_run(const struct mo_watt_ran *r, int n_steps) {
    json_t *watts = json_array(), *awake = json_array(),
           *model[MO_WATT_MODELS] = {json_array(), json_array()};
    double worst[MO_WATT_MODELS] = {0}, gpus = 0;
    int over = 0;
    for (int s = 0; s < n_steps; s++) {
        const struct mo_watt_step *step = &r->step[s];
        json_array_append_new(watts, json_real(step->watts));
        json_array_append_new(awake, json_real(step->awake));
        gpus += step->awake / n_steps;
        for (int m = 0; m < MO_WATT_MODELS; m++) {
            json_array_append_new(model[m], json_real(step->p95_over_slo[m]));
            worst[m] = fmax(worst[m], step->p95_over_slo[m]);
            over += step->p95_over_slo[m] > 1;
        }
    }
    const double came = (double)r->came;
    return json_pack("{s:f, s:[f, f], s:[f, f], s:f, s:f, s:f, s:f, s:f, s:{s:o, s:o, s:o, s:o}}", "watts",
                     r->joules / r->seconds, "p95_over_slo", r->p95_over_slo[0], r->p95_over_slo[1],
                     "worst_step_over_slo", worst[0], worst[1], "steps_over_slo_pct",
                     per_cent(over, n_steps * MO_WATT_MODELS), "violations_pct",
                     per_cent((double)r->late, came), "awake", gpus, "joules_per_query", r->joules / came,
                     "bound_joules_per_query", r->bound_joules / came, "timeline", "watts", watts, "awake",
                     awake, "first", model[0], "second", model[1]);
}

static struct mo_mean mean_of(const json_t *runs, const char *key) {
    struct mo_mean m = {0};
    const json_t *run;
    size_t i;
    json_array_foreach((json_t *)runs, i, run) mo_mean_add(&m, mo_json_number(run, key));
    return m;
}

/* Of the k-th value of a list in each run. */
static double mean_at(const json_t *runs, const char *key, size_t k) {
    struct mo_mean m = {0};
    const json_t *run;
    size_t i;
    json_array_foreach((json_t *)runs, i, run)
        mo_mean_add(&m, json_number_value(json_array_get(json_object_get(run, key), k)));
    return m.mean;
}

/* null where one value says nothing of how far others lie */
static json_t *interval(const struct mo_mean *m) {
    const double ci = mo_mean_ci95(m);
    return ci < 0 ? json_null() : json_real(ci);
}

json_t *mo_watt_rows_result(const json_t *runs, const char *pair, const char *policy) {
    const struct mo_mean watts = mean_of(runs, "watts"), late = mean_of(runs, "violations_pct"),
                         query = mean_of(runs, "joules_per_query"),
                         bound = mean_of(runs, "bound_joules_per_query");
    json_t *by_seed = json_array();
    const json_t *run;
    size_t i;
    json_array_foreach((json_t *)runs, i, run) json_array_append(by_seed, json_object_get(run, "watts"));
    return json_pack("{s:s, s:s, s:f, s:o, s:n, s:n, s:[f, f], s:[f, f], s:f, s:f, s:o, s:f, s:f, s:f, s:f, "
                     "s:I, s:o, s:O}",
                     "pair", pair, "policy", policy, "watts", watts.mean, "watts_ci", interval(&watts),
                     "saved_vs_uniform_pct", "saved_ci", "p95_over_slo", mean_at(runs, "p95_over_slo", 0),
                     mean_at(runs, "p95_over_slo", 1), "worst_step_over_slo",
                     mean_at(runs, "worst_step_over_slo", 0), mean_at(runs, "worst_step_over_slo", 1),
                     "steps_over_slo_pct", mean_of(runs, "steps_over_slo_pct").mean, "violations_pct",
                     late.mean, "violations_ci", interval(&late), "awake", mean_of(runs, "awake").mean,
                     "joules_per_query", query.mean, "bound_joules_per_query", bound.mean, "over_bound_pct",
                     per_cent(query.mean, bound.mean) - 100, "seeds", (json_int_t)json_array_size(runs),
                     "by_seed", by_seed, "timeline", json_object_get(json_array_get(runs, 0), "timeline"));
}

/* --- what is saved -------------------------------------------------------------------------------------- */
static const json_t *uniform_of(const json_t *results, const json_t *row) {
    const json_t *other;
    size_t i;
    json_array_foreach((json_t *)results, i, other) {
        if (!strcmp(mo_json_text(other, "policy"), uniform) &&
            !strcmp(mo_json_text(other, "pair"), mo_json_text(row, "pair")))
            return other;
    }
    return NULL;
}

static void put_saved(json_t *row, const json_t *base) {
    const json_t *own = json_object_get(row, "by_seed"), *theirs = json_object_get(base, "by_seed");
    struct mo_mean m = {0};
    for (size_t i = 0; i < json_array_size(own) && i < json_array_size(theirs); i++)
        mo_mean_add(&m, 100 - per_cent(json_number_value(json_array_get(own, i)),
                                       json_number_value(json_array_get(theirs, i))));
    json_object_set_new(row, "saved_vs_uniform_pct", m.n ? json_real(m.mean) : json_null());
    json_object_set_new(row, "saved_ci", interval(&m));
}

static json_t *claimed(const char *policy) {
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
        if (!strcmp(claims[i].policy, policy)) return json_real(claims[i].saved);
    return json_null();
}

static bool is_first(const json_t *results, size_t at, const char *policy) {
    for (size_t i = 0; i < at; i++)
        if (!strcmp(mo_json_text(json_array_get(results, i), "policy"), policy)) return false;
    return true;
}

/* Over the pairs. */
static json_t *mean_row(const json_t *results, const char *policy) {
    struct mo_mean saved = {0}, late = {0}, over = {0};
    const json_t *row;
    size_t i;
    json_array_foreach((json_t *)results, i, row) {
        if (strcmp(mo_json_text(row, "policy"), policy) != 0) continue;
        if (json_is_number(json_object_get(row, "saved_vs_uniform_pct")))
            mo_mean_add(&saved, mo_json_number(row, "saved_vs_uniform_pct"));
        mo_mean_add(&late, mo_json_number(row, "violations_pct"));
        mo_mean_add(&over, mo_json_number(row, "over_bound_pct"));
    }
    return json_pack("{s:s, s:o, s:o, s:f, s:f, s:o, s:i}", "policy", policy, "saved_vs_uniform_pct",
                     saved.n ? json_real(saved.mean) : json_null(), "saved_ci", interval(&saved),
                     "violations_pct", late.mean, "over_bound_pct", over.mean, "claimed_pct", claimed(policy),
                     "pairs", late.n);
}

int mo_watt_rows_conclude(json_t *document, moire_error *err) {
    json_t *results = json_object_get(document, "results"), *means = json_array(), *row;
    size_t i;
    json_array_foreach(results, i, row) {
        const json_t *base = uniform_of(results, row);
        if (base) put_saved(row, base);
    }
    json_array_foreach(results, i, row) {
        const char *policy = mo_json_text(row, "policy");
        if (is_first(results, i, policy)) json_array_append_new(means, mean_row(results, policy));
    }
    return json_object_set_new(document, "means", means) ? mo_fail(err, MOIRE_ENOMEM, "out of memory")
                                                         : MOIRE_OK;
}

json_t *mo_watt_rows_power(const struct mo_power_kind *kind) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:i, s:s, s:s}", "off_w", kind->off_w, "idle_w", kind->idle_w,
                     "active_w", kind->active_w, "wake_ms", (double)kind->wake_ns * 1e-6, "wake_j",
                     kind->wake_j, "clocks", kind->n_clocks, "basis", mo_power_basis_name(kind->basis),
                     "source", kind->source);
}
