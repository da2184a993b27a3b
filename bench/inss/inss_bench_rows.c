/* SPDX-License-Identifier: Apache-2.0
 * inss_bench_rows.c - see inss_bench_rows.h. */
#include "bench/inss/inss_bench_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/data/json_read.h"
#include "bench/data/mean.h"
#include "bench/fit/inss_check.h"
#include "runtime/base/numbers.h"

enum { SPLITS = 20, MOST_TIMES = 1 << 16 };
static const double most_violations_pct = 1;

/* What the paper claims for its InSS, in % of the other's throughput; on four GPUs and on 64 (up to). */
static const struct {
    const char *system;
    double four, many;
} claims[] = {{"gpulet", 52.8, 66}, {"gslice", 26.4, 66}, {"igniter", 86.1, 66}};

static double per_cent(double part, double of) {
    return of > 0 ? 100 * part / of : 0;
}

json_t *mo_inss_rows_run(const struct mo_inss_ran *r, double seconds) {
    json_t *times = json_array();
    for (int i = 0; i < r->n_decisions; i++)
        json_array_append_new(times, json_real(r->decision_ms[i]));
    const double came = (double)r->came, in_time = (double)r->in_time, late = (double)r->late;
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:i, s:o}", "arrivals", came / seconds, "throughput",
                     in_time / seconds, "violations_pct", per_cent(came - in_time, came), "late_pct",
                     per_cent(late, in_time + late), "fragments_pct", 100 * r->fragments, "plans", r->plans,
                     "decision_ms", times);
}

static struct mo_mean mean_of(const json_t *runs, const char *key) {
    struct mo_mean m = {0};
    const json_t *run;
    size_t i;
    json_array_foreach((json_t *)runs, i, run) mo_mean_add(&m, mo_json_number(run, key));
    return m;
}

/* null where one value says nothing of how far others lie */
static json_t *interval(const struct mo_mean *m) {
    const double ci = mo_mean_ci95(m);
    return ci < 0 ? json_null() : json_real(ci);
}

/* Median and longest of all decisions of all runs. */
static void put_times(json_t *row, const json_t *runs) {
    double *ms = calloc(MOST_TIMES, sizeof *ms);
    int n = 0;
    size_t i, k;
    const json_t *run, *one;
    json_array_foreach((json_t *)runs, i, run) {
        json_array_foreach(json_object_get(run, "decision_ms"), k, one) {
            if (ms && n < MOST_TIMES) ms[n++] = json_number_value(one);
        }
    }
    if (n) qsort(ms, (size_t)n, sizeof *ms, mo_rising);
    json_object_set_new(row, "decisions", json_integer(n));
    json_object_set_new(row, "decision_ms_p50", n ? json_real(ms[n / 2]) : json_null());
    json_object_set_new(row, "decision_ms_max", n ? json_real(ms[n - 1]) : json_null());
    free(ms);
}

json_t *mo_inss_rows_result(const json_t *runs, const char *system, int gpus, int models, const char *kind,
                            double load) {
    const struct mo_mean throughput = mean_of(runs, "throughput"),
                         violations = mean_of(runs, "violations_pct");
    json_t *by_seed = json_array(), *row;
    const json_t *run;
    size_t i;
    json_array_foreach((json_t *)runs, i, run) json_array_append(by_seed, json_object_get(run, "throughput"));
    row = json_pack("{s:s, s:i, s:i, s:s, s:f, s:f, s:f, s:o, s:f, s:o, s:f, s:f, s:f}", "system", system,
                    "gpus", gpus, "models", models, "case", kind, "load", load, "arrivals",
                    mean_of(runs, "arrivals").mean, "throughput", throughput.mean, "throughput_ci",
                    interval(&throughput), "violations_pct", violations.mean, "violations_ci",
                    interval(&violations), "late_pct", mean_of(runs, "late_pct").mean, "fragments_pct",
                    mean_of(runs, "fragments_pct").mean, "plans", mean_of(runs, "plans").mean);
    if (!row) {
        json_decref(by_seed);
        return NULL;
    }
    put_times(row, runs);
    json_object_set_new(row, "seeds", json_integer((json_int_t)json_array_size(runs)));
    json_object_set_new(row, "by_seed", by_seed);
    return row;
}

/* --- comparisons ---------------------------------------------------------------------------------------- */
/* Served the same arrivals. */
static bool beside(const json_t *a, const json_t *b) {
    return !strcmp(mo_json_text(a, "case"), mo_json_text(b, "case")) &&
           mo_json_number(a, "gpus") == mo_json_number(b, "gpus") &&
           mo_json_number(a, "models") == mo_json_number(b, "models") &&
           mo_json_number(a, "load") == mo_json_number(b, "load");
}

static json_t *claimed(const json_t *row) {
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
        if (!strcmp(claims[i].system, mo_json_text(row, "system")))
            return json_real(mo_json_number(row, "gpus") > 4 ? claims[i].many : claims[i].four);
    return json_null();
}

static json_t *gain(const json_t *own, const json_t *other) {
    const json_t *a = json_object_get(own, "by_seed"), *b = json_object_get(other, "by_seed");
    struct mo_mean m = {0};
    for (size_t i = 0; i < json_array_size(a) && i < json_array_size(b); i++) {
        const double theirs = json_number_value(json_array_get(b, i));
        if (theirs > 0) mo_mean_add(&m, per_cent(json_number_value(json_array_get(a, i)), theirs) - 100);
    }
    return json_pack("{s:O, s:O, s:O, s:O, s:O, s:o, s:o, s:o}", "case", json_object_get(own, "case"), "gpus",
                     json_object_get(own, "gpus"), "models", json_object_get(own, "models"), "load",
                     json_object_get(own, "load"), "over", json_object_get(other, "system"), "gain_pct",
                     m.n ? json_real(m.mean) : json_null(), "gain_ci", interval(&m), "claimed_pct",
                     claimed(other));
}

static json_t *compare(const json_t *results) {
    json_t *out = json_array();
    const json_t *own, *other;
    size_t i, k;
    json_array_foreach((json_t *)results, i, own) {
        if (strcmp(mo_json_text(own, "system"), "inss") != 0) continue;
        json_array_foreach((json_t *)results, k, other) {
            if (other != own && beside(own, other)) json_array_append_new(out, gain(own, other));
        }
    }
    return out;
}

/* The highest load of a system up to which violations stay low; a resumed document has its rows in any
 * order. */
static json_t *capacity(const json_t *results, const json_t *first) {
    const json_t *row;
    double best = 0, least = INFINITY; /* least: of the loads that are too much */
    size_t i;
    for (int way = 0; way < 2; way++)
        json_array_foreach((json_t *)results, i, row) {
            const double load = mo_json_number(row, "load");
            if (strcmp(mo_json_text(row, "system"), mo_json_text(first, "system")) != 0 ||
                strcmp(mo_json_text(row, "case"), "steps") != 0)
                continue;
            if (mo_json_number(row, "violations_pct") >= most_violations_pct)
                least = fmin(least, load);
            else if (way && load < least)
                best = fmax(best, load);
        }
    return json_pack("{s:O, s:O, s:f}", "system", json_object_get(first, "system"), "gpus",
                     json_object_get(first, "gpus"), "load", best);
}

static json_t *capacities(const json_t *results) {
    json_t *out = json_array();
    const json_t *row = json_array_get(results, 0), *one;
    size_t i;
    json_array_foreach((json_t *)results, i, one) {
        if (beside(row, one)) json_array_append_new(out, capacity(results, one));
    }
    return out;
}

/* --- the latency model ---------------------------------------------------------------------------------- */
static json_t *held_out(const json_t *document) {
    static const char *const keys[] = {"model", "case", "n", "mean_error_pct", "max_error_pct", "held_out"};
    json_t *out = json_array();
    const json_t *row;
    size_t i;
    json_array_foreach(json_object_get(document, "latency_model"), i, row) {
        if (strcmp(mo_json_text(row, "predictor"), "inss") != 0 ||
            !json_is_true(json_object_get(row, "held_out")))
            continue;
        json_t *one = json_object();
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            json_object_set(one, keys[k], json_object_get(row, keys[k]));
        json_array_append_new(out, one);
    }
    return out;
}

static int check_latency(const struct mo_env *env, const char *profiles, json_t **out, moire_error *err) {
    const struct mo_inss_options o = {1, SPLITS, mo_inss_grid()};
    struct mo_pairs pairs = {0};
    char path[1100];
    snprintf(path, sizeof path, "%.1000s/pairs.csv", profiles);
    int code = mo_pairs_load(env, path, &pairs, err);
    if (!code) code = mo_inss_document(&pairs, &o, out, err);
    mo_pairs_free(&pairs);
    return code;
}

int mo_inss_rows_conclude(const struct mo_env *env, const char *profiles, json_t *d, moire_error *err) {
    const json_t *results = json_object_get(d, "results");
    moire_error why = {0};
    json_t *fitted = NULL;
    int bad = json_object_set_new(d, "comparison", compare(results));
    bad |= json_object_set_new(d, "capacity", capacities(results));
    if (check_latency(env, profiles, &fitted, &why))
        bad |= json_array_append_new(json_object_get(d, "left_out"),
                                     json_pack("{s:s, s:s}", "what", "latency_model", "why", why.message));
    bad |= json_object_set_new(d, "latency_model", held_out(fitted));
    json_decref(fitted);
    return bad ? mo_fail(err, MOIRE_ENOMEM, "out of memory") : MOIRE_OK;
}
