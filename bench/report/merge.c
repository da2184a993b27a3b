/* SPDX-License-Identifier: Apache-2.0
 * merge.c - see merge.h. */
#include "bench/report/merge.h"

#include <math.h>
#include <string.h>
#include "bench/report/report_page.h"

double mo_merged_share(const struct mo_merged *m) {
    return m->n > 0 ? m->met / m->n : -1;
}

const struct mo_merged *mo_merged_worst(const struct mo_merged_load *m) {
    const struct mo_merged *worst = NULL;
    for (int i = 0; i < m->n_tenants; i++) {
        const struct mo_merged *t = &m->tenants[i];
        if (t->n > 0 && (!worst || mo_merged_share(t) < mo_merged_share(worst))) worst = t;
    }
    return worst;
}

/* --- one more seed ------------------------------------------------------------------------------------ */
static struct mo_merged *tenant_row(struct mo_merged_load *m, const char *name) {
    for (int i = 0; i < m->n_tenants; i++)
        if (!strcmp(m->tenants[i].name, name)) return &m->tenants[i];
    if (m->n_tenants == MO_MERGED_TENANTS) return NULL;
    struct mo_merged *t = &m->tenants[m->n_tenants++];
    *t = (struct mo_merged){.name = name};
    return t;
}

/* The share of one seed widens the range. */
static void widen(double *least, double *most, double share, bool first) {
    if (first || share < *least) *least = share;
    if (first || share > *most) *most = share;
}

/* Counts of a seed; `from` is a point or one of its tenants, whose share has that key. */
static void add_counts(struct mo_merged *m, const json_t *from, const char *share_key) {
    double n = mo_json_number(from, "n"), share = mo_json_number(from, share_key);
    if (!(n > 0)) return;
    widen(&m->least, &m->most, share, m->n == 0);
    m->n += n;
    m->met += round(share * n);
}

/* Lost in one way or another, and answered each second of `seconds`. */
static void add_fates(struct mo_merged *m, const json_t *t, double seconds) {
    double shed = mo_json_number(t, "shed"), failed = mo_json_number(t, "failed"),
           open = mo_json_number(t, "unfinished");
    m->shed += shed;
    m->failed += failed;
    m->unanswered += open;
    if (seconds > 0) m->answered_s += (mo_json_number(t, "n") - shed - failed - open) / seconds;
}

/* Sums here, means at the end. */
static void add_times(struct mo_merged *m, const json_t *t) {
    const json_t *entry = json_object_get(t, "entry");
    if (json_array_size(json_object_get(t, "quantiles")) > 0) {
        m->answering++;
        m->p50 += mo_json_number(t, "p50_ms");
        m->p95 += mo_json_number(t, "p95_ms");
        m->p99 += mo_json_number(t, "p99_ms");
    }
    if (!entry) return;
    m->begun++;
    m->wait_p50 += mo_json_number(entry, "p50_ms");
    m->wait_p99 += mo_json_number(entry, "p99_ms");
}

/* How long the queries of a point arrived: its own word, or the run's; a run that was stopped early has
 * counted as many queries as its rate brings in that time. */
static double measured_seconds(const json_t *document, const json_t *point) {
    double own = mo_json_number(point, "seconds"), rate = mo_json_number(point, "qps");
    if (json_is_true(json_object_get(point, "stopped_early")))
        return rate > 0 ? mo_json_number(point, "n") / rate : 0;
    return own > 0 ? own : mo_json_number(document, "seconds");
}

static void add_point(struct mo_merged_load *m, const json_t *document, const json_t *point) {
    double seconds = measured_seconds(document, point);
    size_t i;
    json_t *t;
    widen(&m->worst_least, &m->worst_most, mo_json_number(point, "worst_tenant"), m->seeds == 0);
    m->seeds++;
    m->stopped |= json_is_true(json_object_get(point, "stopped_early"));
    if (json_is_false(json_object_get(point, "keeps_up"))) {
        m->behind++;
        m->overdue += mo_json_number(json_object_get(point, "backlog"), "queries");
    }
    add_counts(&m->all, point, "overall");
    json_array_foreach(json_object_get(point, "tenants"), i, t) {
        struct mo_merged *row = tenant_row(m, mo_json_text(t, "name"));
        if (!row) continue;
        add_counts(row, t, "within_qos");
        add_fates(row, t, seconds);
        add_fates(&m->all, t, seconds);
        add_times(row, t);
    }
}

/* --- all of them -------------------------------------------------------------------------------------- */
static void finish(struct mo_merged *m, int seeds) {
    double *const times[] = {&m->p50, &m->p95, &m->p99}, *const waits[] = {&m->wait_p50, &m->wait_p99};
    for (int i = 0; i < 3; i++)
        *times[i] = m->answering ? *times[i] / m->answering : -1;
    for (int i = 0; i < 2; i++)
        *waits[i] = m->begun ? *waits[i] / m->begun : -1;
    m->answered_s /= seeds;
}

int mo_merge_load(const json_t *document, const char *system, double load, struct mo_merged_load *out) {
    size_t i;
    json_t *result;
    memset(out, 0, sizeof *out);
    out->load = load;
    json_array_foreach(json_object_get(document, "results"), i, result) {
        if (strcmp(mo_json_text(result, "name"), system) != 0) continue;
        const json_t *point = mo_doc_point(result, load);
        if (point) add_point(out, document, point);
    }
    if (!out->seeds) return 0;
    finish(&out->all, out->seeds);
    for (int k = 0; k < out->n_tenants; k++)
        finish(&out->tenants[k], out->seeds);
    return out->seeds;
}

/* --- latency ------------------------------------------------------------------------------------------ */
/* Share of the answered queries of one run that took at most ms, between the quantiles that it kept. */
static double below(const json_t *quantiles, double ms) {
    double x0 = 0, y0 = 0;
    size_t i;
    json_t *pair;
    json_array_foreach((json_t *)quantiles, i, pair) {
        double y = json_number_value(json_array_get(pair, 0)) * 0.01;
        double x = json_number_value(json_array_get(pair, 1));
        if (x > ms) return i && x > x0 ? y0 + (y - y0) * (ms - x0) / (x - x0) : y0;
        x0 = x;
        y0 = y;
    }
    return y0;
}

double mo_merged_within(const json_t *document, const char *system, double load, const char *tenant,
                        double ms) {
    double asked = 0, answered = 0;
    size_t i, k;
    json_t *result, *t;
    json_array_foreach(json_object_get(document, "results"), i, result) {
        if (strcmp(mo_json_text(result, "name"), system) != 0) continue;
        json_array_foreach(json_object_get(mo_doc_point(result, load), "tenants"), k, t) {
            if (strcmp(mo_json_text(t, "name"), tenant) != 0) continue;
            double n = mo_json_number(t, "n"), lost = mo_json_number(t, "shed") + mo_json_number(t, "failed");
            asked += n; /* a lost query has no latency */
            answered += (n - lost) * below(json_object_get(t, "quantiles"), ms);
        }
    }
    return asked > 0 ? answered / asked : -1;
}
