/* SPDX-License-Identifier: Apache-2.0
 * flexy_rows.c - see flexy_rows.h. */
#include "bench/flexy/flexy_rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/data/json_read.h"
#include "bench/data/mean.h"

enum { POINTS = 32, KEY = 48 };
static const double usual = 0.7;
static const char *const keys[] = {"utilisation", "within_sla_pct", "resets", "batch_slowdown", "lost_ms"};
enum { KEYS = sizeof keys / sizeof *keys };

json_t *mo_flexy_rows_run(const struct mo_flexy_ran *r) {
    const double share = r->user ? 100 * (double)r->in_time / (double)r->user : 0;
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", keys[0], r->utilisation, keys[1], share, keys[2],
                     (double)r->resets, keys[3], r->batch_slowdown, keys[4], r->lost_ms);
}

json_t *mo_flexy_rows_result(const json_t *runs, size_t first, int n, const char *workload,
                             const char *policy, double f) {
    json_t *row = json_pack("{s:s, s:s, s:f}", "workload", workload, "policy", policy, "f", f);
    for (int k = 0; row && k < KEYS; k++) {
        struct mo_mean mean = {0};
        char ci[KEY];
        for (int i = 0; i < n; i++)
            mo_mean_add(&mean, mo_json_number(json_array_get(runs, first + (size_t)i), keys[k]));
        snprintf(ci, sizeof ci, "%s_ci", keys[k]);
        const double half = mo_mean_ci95(&mean);
        json_object_set_new(row, keys[k], json_real(mean.mean));
        json_object_set_new(row, ci, half < 0 ? json_null() : json_real(half));
    }
    return row;
}

/* --- curves --------------------------------------------------------------------------------------------- */
/* A policy's points, by rising utilisation. */
struct curve {
    int n;
    double x[POINTS], y[POINTS];
};

static bool is_of(const json_t *row, const char *workload, const char *policy) {
    return !strcmp(mo_json_text(row, "workload"), workload) && !strcmp(mo_json_text(row, "policy"), policy);
}

static struct curve curve_of(const json_t *results, const char *workload, const char *policy) {
    struct curve c = {0};
    const json_t *row;
    size_t i;
    json_array_foreach((json_t *)results, i, row) {
        if (!is_of(row, workload, policy) || c.n == POINTS) continue;
        const double x = mo_json_number(row, "utilisation"), y = mo_json_number(row, "within_sla_pct");
        int at = c.n++;
        for (; at > 0 && c.x[at - 1] > x; at--) {
            c.x[at] = c.x[at - 1];
            c.y[at] = c.y[at - 1];
        }
        c.x[at] = x;
        c.y[at] = y;
    }
    return c;
}

/* NAN: beyond its ends. */
static double at_utilisation(const struct curve *c, double x) {
    for (int i = 1; i < c->n; i++)
        if (c->x[i - 1] <= x && x <= c->x[i])
            return c->x[i] > c->x[i - 1]
                       ? c->y[i - 1] + (c->y[i] - c->y[i - 1]) * (x - c->x[i - 1]) / (c->x[i] - c->x[i - 1])
                       : c->y[i];
    return NAN;
}

/* The highest utilisation up to which the share is at least that; NAN: it never is. */
static double up_to(const struct curve *c, double share) {
    double best = NAN;
    for (int i = 0; i < c->n; i++) {
        if (c->y[i] >= share) {
            best = c->x[i];
            continue;
        }
        if (i && c->y[i - 1] > share)
            best = c->x[i - 1] + (c->x[i] - c->x[i - 1]) * (c->y[i - 1] - share) / (c->y[i - 1] - c->y[i]);
        break;
    }
    return best;
}

static json_t *known(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

/* Its row is the first of its curve. */
static bool opens(const json_t *results, size_t at) {
    const json_t *row = json_array_get(results, at);
    for (size_t i = 0; i < at; i++)
        if (is_of(json_array_get(results, i), mo_json_text(row, "workload"), mo_json_text(row, "policy")))
            return false;
    return true;
}

static json_t *policies(const json_t *results) {
    json_t *out = json_array();
    const json_t *row;
    size_t i;
    json_array_foreach((json_t *)results, i, row) {
        if (!opens(results, i)) continue;
        const char *workload = mo_json_text(row, "workload"), *policy = mo_json_text(row, "policy");
        const struct curve c = curve_of(results, workload, policy),
                           one = curve_of(results, workload, "flexy-1");
        const double theirs = at_utilisation(&one, usual);
        json_array_append_new(out, json_pack("{s:s, s:s, s:o, s:o, s:f}", "workload", workload, "policy",
                                             policy, "within_sla_pct_at_70", known(at_utilisation(&c, usual)),
                                             "utilisation_as_flexy_1",
                                             known(isnan(theirs) ? NAN : up_to(&c, theirs)),
                                             "highest_utilisation", c.n ? c.x[c.n - 1] : 0));
    }
    return out;
}

static json_t *resets(const json_t *results) {
    json_t *out = json_array();
    const json_t *row, *other;
    size_t i, k;
    json_array_foreach((json_t *)results, i, row) {
        const char *workload = mo_json_text(row, "workload");
        if (strcmp(mo_json_text(row, "policy"), "flexy-reset") != 0) continue;
        json_array_foreach((json_t *)results, k, other) {
            if (!is_of(other, workload, "priority-reset") ||
                mo_json_number(other, "f") != mo_json_number(row, "f"))
                continue;
            const double mine = mo_json_number(row, "resets"), theirs = mo_json_number(other, "resets");
            json_array_append_new(out,
                                  json_pack("{s:s, s:f, s:f, s:f, s:f, s:o}", "workload", workload, "f",
                                            mo_json_number(row, "f"), "utilisation",
                                            mo_json_number(row, "utilisation"), "priority", theirs, "flexy",
                                            mine, "ratio", known(mine > 0 ? theirs / mine : NAN)));
        }
    }
    return out;
}

/* --- what the paper claims ------------------------------------------------------------------------------ */
static double share_at(const json_t *results, const char *workload, const char *policy, double utilisation) {
    const struct curve c = curve_of(results, workload, policy);
    return at_utilisation(&c, utilisation);
}

/* The least and the largest ratio of a workload's resets. */
static void ratios(const json_t *list, const char *workload, double range[2]) {
    const json_t *row;
    size_t i;
    range[0] = range[1] = NAN;
    json_array_foreach((json_t *)list, i, row) {
        const json_t *ratio = json_object_get(row, "ratio");
        if (strcmp(mo_json_text(row, "workload"), workload) != 0 || !json_is_number(ratio)) continue;
        range[0] = fmin(json_number_value(ratio), range[0]);
        range[1] = fmax(json_number_value(ratio), range[1]);
    }
}

static void claim(json_t *out, const char *what, double claimed, double reached) {
    json_array_append_new(
        out, json_pack("{s:s, s:f, s:o}", "what", what, "claimed", claimed, "reached", known(reached)));
}

static json_t *claims(const json_t *results, const json_t *reset) {
    json_t *out = json_array();
    double range[2];
    const double one = share_at(results, "W1", "flexy-1", usual);
    ratios(reset, "W2", range);
    claim(out, "W1, 70 %: user-facing tasks within the SLA by flexy-1, %", 98, one);
    claim(out, "W1, 70 %: more than by flexy-0, points", 10, one - share_at(results, "W1", "flexy-0", usual));
    claim(out, "W1, 80 %: by flexy-0, %", 85, share_at(results, "W1", "flexy-0", 0.8));
    claim(out, "W1, 80 %: by round-robin, % at most", 30, share_at(results, "W1", "round-robin", 0.8));
    claim(out, "W1, 45 %: by flexy-reset, %", 65, share_at(results, "W1", "flexy-reset", 0.45));
    claim(out, "W1, 45 %: by priority-reset, %", 52, share_at(results, "W1", "priority-reset", 0.45));
    claim(out, "W2, 60 %: by flexy-1, %", 77, share_at(results, "W2", "flexy-1", 0.6));
    claim(out, "W2, 60 %: by flexy-0, %", 65, share_at(results, "W2", "flexy-0", 0.6));
    claim(out, "W3, 57 %: by flexy-1, %", 97, share_at(results, "W3", "flexy-1", 0.57));
    claim(out, "W3, 57 %: by flexy-0, %", 95, share_at(results, "W3", "flexy-0", 0.57));
    claim(out, "W2: resets by priority for one by flexy, least", 6, range[0]);
    claim(out, "W2: resets by priority for one by flexy, most", 25, range[1]);
    return out;
}

int mo_flexy_rows_conclude(json_t *d, moire_error *err) {
    const json_t *results = json_object_get(d, "results");
    json_t *reset = resets(results);
    json_t *summary = json_pack("{s:o, s:O, s:o}", "policies", policies(results), "resets", reset, "claims",
                                claims(results, reset));
    json_decref(reset);
    return summary && !json_object_set_new(d, "summary", summary)
               ? MOIRE_OK
               : mo_fail(err, MOIRE_ENOMEM, "out of memory");
}
