/* SPDX-License-Identifier: Apache-2.0
 * survey.c - one network after the other, at each batch and number of threads; see survey.h.
 *
 * A network is a piece of work for each batch and number of threads, noted when it is done.  What fails of
 * one network is its row's `why` and no end of the survey. */
#include "tools/moire/survey/survey.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/data/journal.h"
#include "bench/data/json_read.h"
#include "bench/kernels/kernels.h"
#include "bench/kernels/layer_profile.h"
#include "variants/store.h"

enum { PROFILE_NS = 300000000 };
/* Of the range of an output: what sums in another order may differ by in a deep network. */
static const double right_within = 1e-3;

/* One network at one batch. */
struct subject {
    struct mo_bench_session *s;
    const struct mo_survey_options *o;
    const struct mo_survey_entry *entry;
    int batch;
    bool has_data;
    struct mo_dataset data;
    struct mo_bench_tenant tenant;
};

/* --- answers ------------------------------------------------------------------------------------------- */
static int read_data(struct subject *u, moire_error *err) {
    u->tenant = (struct mo_bench_tenant){.name = u->entry->name, .model = u->entry->model};
    for (int i = 0; i < u->o->alone.n_shapes && i < MO_BENCH_MAX_INPUTS; i++)
        u->tenant.shapes[u->tenant.n_shapes++] = u->o->alone.shapes[i];
    if (!u->entry->data)
        return u->batch == 1
                   ? MOIRE_OK
                   : mo_fail(err, MOIRE_EUNSUPPORTED,
                             "a batch needs a folder `data` beside the model: its inputs say the shapes");
    int code = mo_dataset_open(u->s->env, u->entry->model, u->entry->data, &u->data, err);
    u->has_data = true;
    if (!code) code = mo_survey_batch(&u->data, u->batch, err);
    for (int i = 0; !code && i < u->data.n_in && u->tenant.n_shapes < MO_BENCH_MAX_INPUTS; i++)
        if (u->data.in[i].dtype != MOIRE_NONE) u->tenant.shapes[u->tenant.n_shapes++] = u->data.shape[i];
    return code;
}

/* "right", "wrong" or "unchecked" into the row, and how far it is off; also with compiled kernels, if any. */
static int check(struct subject *u, json_t *row, moire_error *err) {
    const struct mo_frontend_options front = mo_bench_front(u->s, &u->tenant);
    struct mo_store *store = NULL;
    double worst = 0, compiled = 0;
    if (!u->has_data) return json_object_set_new(row, "answers", json_string("unchecked"));
    int code = mo_survey_check(u->s->env, u->entry, &u->data, &front, NULL, &worst, err);
    if (!code && u->o->alone.spec.moire) code = mo_store_open(u->s->env, u->s->store, &store, err);
    if (!code && store) code = mo_survey_check(u->s->env, u->entry, &u->data, &front, store, &compiled, err);
    mo_store_close(store);
    if (code) return code;
    worst = fmax(worst, compiled);
    json_object_set_new(row, "answers", json_string(worst <= right_within ? "right" : "wrong"));
    if (isfinite(worst)) json_object_set_new(row, "off_by", json_real(worst));
    return MOIRE_OK;
}

/* --- times --------------------------------------------------------------------------------------------- */
static void put_times(json_t *row, const struct mo_bench_solo *solo, int n) {
    double own[2] = {0, 0}, peer = 0;
    const char *by = NULL;
    json_t *left_out = json_array();
    for (int i = 0; i < n; i++) {
        const char *family = solo[i].system ? solo[i].system->family : "";
        if (!solo[i].n) {
            if (solo[i].why[0]) json_array_append_new(left_out, json_sprintf("%s: %s", family, solo[i].why));
        } else if (!strcmp(family, "moire")) {
            own[!solo[i].generic] = solo[i].min_ms;
            if (!solo[i].generic && solo[i].specialised >= 0)
                json_object_set_new(row, "specialised_share", json_real(solo[i].specialised));
        } else {
            char key[40];
            snprintf(key, sizeof key, "%s_ms", family);
            json_object_set_new(row, key, json_real(solo[i].min_ms));
            if (!by || solo[i].min_ms < peer) by = family, peer = solo[i].min_ms;
        }
    }
    static const char *const times[] = {"builtin_ms", "compiled_ms"}, *const ratios[] = {"builtin",
                                                                                         "compiled"};
    for (int k = 0; k < 2; k++) {
        if (!(own[k] > 0)) continue;
        json_object_set_new(row, times[k], json_real(own[k]));
        if (by) json_object_set_new(row, ratios[k], json_real(peer / own[k]));
    }
    if (by) json_object_set_new(row, "best_peer", json_string(by));
    json_object_set_new(row, "left_out", left_out);
}

static int put_latency(struct subject *u, int threads, json_t *row, moire_error *err) {
    struct mo_bench_solo solo[MO_BENCH_MAX_SYSTEMS];
    int n = 0;
    const int code = mo_bench_solo_measure(u->s, &u->tenant, threads, &u->o->alone.spec, solo, &n, err);
    if (!code) put_times(row, solo, n);
    mo_bench_solo_free(solo, n);
    return code;
}

/* The network's own: what layers of run-time shape do depends on them. */
static int set_inputs(const struct subject *u, struct mo_instance *instance, moire_error *err) {
    int code = MOIRE_OK;
    for (int i = 0; !code && u->has_data && i < u->data.n_in; i++)
        if (u->data.in[i].dtype != MOIRE_NONE) code = mo_instance_set_input(instance, i, &u->data.in[i], err);
    return code;
}

/* The floors, and the layer in which most time goes beyond what the roofline allows. */
static int put_layers(struct subject *u, int threads, const struct mo_ceiling *ceiling, json_t *row,
                      moire_error *err) {
    const struct mo_frontend_options front = mo_bench_front(u->s, &u->tenant);
    const struct mo_timing_options by_layer = {.threads = threads, .budget_ns = PROFILE_NS, .by_layer = true};
    struct mo_bench_layers layers;
    struct mo_timing timing = {0};
    double most = 0;
    int code = mo_bench_layers_open(u->s->env, u->entry->model, &front,
                                    u->o->alone.spec.moire ? u->s->store : NULL, &layers, err);
    if (code) return code;
    const struct mo_floor floor = mo_profile_floor(layers.plan, ceiling);
    json_object_set_new(row, "floor_ms", json_real(floor.written_ms));
    json_object_set_new(row, "executed_floor_ms", json_real(floor.executed_ms));
    code = set_inputs(u, layers.instance, err);
    if (!code) code = mo_timing_run(u->s->env, layers.plan, layers.instance, &by_layer, &timing, err);
    for (int k = 0; !code && k < layers.plan->n_steps; k++) {
        struct mo_profile_row r;
        mo_profile_judge(layers.plan, k, &timing, ceiling, &r);
        const double lost = r.min_ms * (1 - fmin(1, r.bound_share));
        if (lost <= most) continue;
        most = lost;
        json_object_set_new(row, "worst_layer",
                            json_pack("{s:i, s:s, s:s, s:s, s:s, s:f, s:f, s:f}", "layer", k, "text", r.text,
                                      "output", r.shape, "kernel", layers.plan->steps[k].kernel, "kind",
                                      layers.plan->steps[k].kind, "ms", r.min_ms, "share", r.share,
                                      "roofline_share", r.bound_share));
    }
    mo_timing_free(u->s->env, &timing);
    mo_bench_layers_close(&layers);
    return code;
}

/* --- pieces -------------------------------------------------------------------------------------------- */
/* A failure of the network, and of nothing else, is told in its row. */
static int tolerate(json_t *row, int code, const moire_error *why, moire_error *err) {
    if (code == MOIRE_EINTERRUPTED || code == MOIRE_ENOMEM) *err = *why;
    if (!code || code == MOIRE_EINTERRUPTED || code == MOIRE_ENOMEM) return code;
    json_object_set_new(row, "why", json_string(why->message));
    if (!json_object_get(row, "answers")) json_object_set_new(row, "answers", json_string("none"));
    return MOIRE_OK;
}

static int measure(struct subject *u, int threads, const struct mo_ceiling *ceiling, json_t *row,
                   moire_error *err) {
    int code = check(u, row, err);
    if (!code) code = put_latency(u, threads, row, err);
    return code ? code : put_layers(u, threads, ceiling, row, err);
}

static int piece(struct mo_bench_journal *journal, struct subject *u, int threads,
                 const struct mo_ceiling *ceiling, moire_error *err) {
    char key[200];
    moire_error why = {0};
    snprintf(key, sizeof key, "%.120s batch %d x%d", u->entry->name, u->batch, threads);
    if (mo_bench_journal_has(journal, key)) return MOIRE_OK;
    mo_bench_say(u->s, "%s, batch %d, %d thread%s", u->entry->name, u->batch, threads,
                 threads == 1 ? "" : "s");
    json_t *row = json_pack("{s:s, s:s, s:i, s:i}", "piece", key, "model", u->entry->name, "batch", u->batch,
                            "threads", threads);
    if (!row) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    const int code = tolerate(row, measure(u, threads, ceiling, row, &why), &why, err);
    if (code) {
        json_decref(row);
        return code;
    }
    if (json_array_append_new(mo_bench_journal_results(journal), row))
        return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    return mo_bench_journal_note(journal, key, err);
}

/* A network that cannot take this batch, or whose data cannot be read, is left out, with the reason. */
static int network(struct mo_bench_journal *journal, struct mo_bench_session *s,
                   const struct mo_survey_options *o, const struct mo_survey_entry *entry, int batch,
                   const struct mo_ceiling *ceiling, moire_error *err) {
    struct subject u = {.s = s, .o = o, .entry = entry, .batch = batch};
    moire_error why = {0};
    int code = read_data(&u, &why);
    if (code && code != MOIRE_ENOMEM) {
        json_array_append_new(
            mo_bench_journal_left_out(journal),
            json_pack("{s:s, s:i, s:s}", "model", entry->name, "batch", batch, "why", why.message));
        code = MOIRE_OK;
    } else if (code) {
        *err = why;
    } else {
        for (int i = 0; !code && i < o->alone.n_threads; i++)
            code = piece(journal, &u, o->alone.threads[i], &ceiling[i], err);
    }
    if (u.has_data) mo_dataset_close(&u.data);
    return code;
}

/* --- what it sums up to -------------------------------------------------------------------------------- */
static json_t *mean_of(const json_t *results, const char *ratio, int batch, int threads) {
    double sum = 0, least = INFINITY;
    int n = 0, below = 0;
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)results, i, row) {
        const double v = mo_json_number(row, ratio);
        if (!(v > 0) || (int)mo_json_number(row, "batch") != batch ||
            (int)mo_json_number(row, "threads") != threads)
            continue;
        sum += log(v);
        least = fmin(least, v);
        below += v < 1;
        n++;
    }
    if (!n) return NULL;
    return json_pack("{s:s, s:i, s:i, s:i, s:f, s:f, s:i}", "kernels", ratio, "batch", batch, "threads",
                     threads, "models", n, "geomean", exp(sum / n), "least", least, "below_1", below);
}

static json_t *summarize(const json_t *results, const struct mo_survey_options *o) {
    static const char *const ratios[] = {"compiled", "builtin"};
    json_t *summary = json_array();
    for (int k = 0; k < 2; k++)
        for (int b = 0; b < o->n_batches; b++)
            for (int t = 0; t < o->alone.n_threads; t++) {
                json_t *row = mean_of(results, ratios[k], o->batch[b], o->alone.threads[t]);
                if (row) json_array_append_new(summary, row);
            }
    return summary;
}

int mo_survey(struct mo_bench_session *s, const struct mo_survey_options *o, json_t **out, moire_error *err) {
    struct mo_bench_journal journal;
    struct mo_ceiling ceiling[8];
    int code =
        mo_bench_journal_open(s, "survey", MO_BENCH_MEASURED, o->alone.save, o->alone.resume, &journal, err);
    if (code) return code;
    for (int t = 0; !code && t < o->alone.n_threads; t++)
        code = mo_ceiling_measure(s->env, mo_isa_detect(), o->alone.threads[t], &ceiling[t], err);
    for (int i = 0; !code && i < o->list->n; i++)
        for (int b = 0; !code && b < o->n_batches; b++)
            code = network(&journal, s, o, &o->list->entry[i], o->batch[b], ceiling, err);
    json_object_set_new(journal.document, "summary", summarize(mo_bench_journal_results(&journal), o));
    *out = mo_bench_journal_finish(&journal, code == MOIRE_OK);
    return code;
}
