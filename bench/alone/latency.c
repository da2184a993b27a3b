/* SPDX-License-Identifier: Apache-2.0
 * latency.c - the `moire bench latency` command: all models, all thread counts, one document. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/alone/latency.h"
#include "bench/alone/scaling.h"
#include "bench/data/journal.h"
#include "bench/data/json_read.h"
#include "bench/kernels/kernels.h"
#include "bench/kernels/layer_profile.h"
#include "codegen/settle_precision.h"

enum { PROFILE_NS = 500000000 };

static const char *kind_of(const struct mo_bench_solo *solo) {
    if (strcmp(solo->system->family, "moire") != 0) return "peer";
    return solo->generic ? "generic" : "specialised";
}

struct mo_frontend_options mo_bench_front(const struct mo_bench_session *s,
                                          const struct mo_bench_tenant *tenant) {
    return (struct mo_frontend_options){.shapes = tenant->shapes,
                                        .n_shapes = tenant->n_shapes,
                                        .exact = s->exact,
                                        .precision = mo_precision_of(s->precision)};
}

/* Of the model as moire prepares it; peers read the same file. */
static const char *precision_of(const struct mo_bench_session *s, const struct mo_bench_tenant *tenant) {
    const struct mo_frontend_options front = mo_bench_front(s, tenant);
    struct mo_graph *g = NULL;
    const char *name = "fp32";
    if (mo_frontend_load(s->env, tenant->model, &front, &g, NULL)) return name;
    name = mo_precision_used(g);
    mo_graph_destroy(g);
    return name;
}

static void add_rows(json_t *results, json_t *left_out, const char *model, const char *precision,
                     const struct mo_bench_solo *solo, int n) {
    for (int i = 0; i < n; i++) {
        if (solo[i].n) {
            json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:i, s:f, s:f, s:i}", "model", model, "system",
                                    solo[i].system->family, "kind", kind_of(&solo[i]), "precision", precision,
                                    "threads", solo[i].threads, "min_ms", solo[i].min_ms, "median_ms",
                                    solo[i].median_ms, "n", solo[i].n);
            if (solo[i].specialised >= 0)
                json_object_set_new(row, "specialised_share", json_real(solo[i].specialised));
            json_array_append_new(results, row);
        } else if (solo[i].system && solo[i].why[0]) {
            json_array_append_new(left_out, json_pack("{s:s, s:s, s:i, s:s}", "model", model, "system",
                                                      solo[i].system->family, "threads", solo[i].threads,
                                                      "why", solo[i].why));
        }
    }
}

int mo_bench_latency_tenant(struct mo_bench_session *s, const struct mo_bench_latency_options *o,
                            const char *model, struct mo_region *region, struct mo_bench_tenant *t,
                            moire_error *err) {
    const char *slash = strrchr(model, '/');
    *t = (struct mo_bench_tenant){.name = slash ? slash + 1 : model, .model = model};
    for (int i = 0; i < o->n_shapes && i < MO_BENCH_MAX_INPUTS; i++)
        t->shapes[t->n_shapes++] = o->shapes[i];
    return mo_bench_resolve(s, region, t, err);
}

/* Time by layer of the kernels that the runtime would choose, to the list "profiles" of the document. */
static int profile(struct mo_bench_journal *journal, const struct mo_bench_session *s,
                   const struct mo_bench_latency_options *o, const struct mo_bench_tenant *tenant,
                   int threads, moire_error *err) {
    const struct mo_frontend_options front = mo_bench_front(s, tenant);
    const struct mo_timing_options by_layer = {.threads = threads, .budget_ns = PROFILE_NS, .by_layer = true};
    struct mo_bench_layers layers;
    struct mo_ceiling ceiling;
    struct mo_timing timing = {0};
    int code = mo_ceiling_measure(s->env, mo_isa_detect(), threads, &ceiling, err);
    if (code) return code;
    code = mo_bench_layers_open(s->env, tenant->model, &front, o->spec.moire ? s->store : NULL, &layers, err);
    if (code) return code;
    code = mo_timing_run(s->env, layers.plan, layers.instance, &by_layer, &timing, err);
    json_t *row = code ? NULL
                       : json_pack("{s:s, s:i, s:o, s:o}", "model", tenant->name, "threads", threads,
                                   "ceilings", mo_ceiling_json(&ceiling), "layers",
                                   mo_profile_json(layers.plan, &timing, &ceiling));
    json_t *list = json_object_get(journal->document, "profiles");
    if (!list && row) json_object_set_new(journal->document, "profiles", list = json_array());
    if (!code && json_array_append_new(list, row)) code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    mo_timing_free(s->env, &timing);
    mo_bench_layers_close(&layers);
    return code;
}

/* What was measured of one model on one number of threads. */
static int measure_piece(struct mo_bench_journal *journal, struct mo_bench_session *s,
                         const struct mo_bench_latency_options *o, const struct mo_bench_tenant *tenant,
                         int threads, moire_error *err) {
    struct mo_bench_solo solo[MO_BENCH_MAX_SYSTEMS];
    char key[200];
    int n = 0;
    snprintf(key, sizeof key, "%.160s x%d", tenant->name, threads);
    if (mo_bench_journal_has(journal, key)) return MOIRE_OK;
    mo_bench_say(s, "%s, %d thread%s", tenant->name, threads, threads == 1 ? "" : "s");
    int code = mo_bench_solo_measure(s, tenant, threads, &o->spec, solo, &n, err);
    if (!code)
        add_rows(mo_bench_journal_results(journal), mo_bench_journal_left_out(journal), tenant->name,
                 precision_of(s, tenant), solo, n);
    mo_bench_solo_free(solo, n);
    if (!code && o->profile) code = profile(journal, s, o, tenant, threads, err);
    return code ? code : mo_bench_journal_note(journal, key, err);
}

/* The precision of this model by its tolerance, for moire; peers read the file as it is. */
static void settle(struct mo_bench_session *s, const struct mo_bench_latency_options *o,
                   const struct mo_bench_tenant *tenant) {
    const struct mo_frontend_options front = mo_bench_front(s, tenant);
    const struct mo_plan_options planning = {.isa = mo_isa_detect()};
    const struct mo_precision_ask ask = {.env = s->env,
                                         .path = tenant->model,
                                         .front = &front,
                                         .planning = &planning,
                                         .tolerance = o->tolerance};
    const struct mo_precision_settled settled = mo_precision_settle(&ask);
    if (settled.said[0]) mo_bench_say(s, "%s: auto: %s", tenant->name, settled.said);
    s->precision = mo_precision_name(settled.precision);
}

static int measure_model(struct mo_bench_journal *journal, struct mo_bench_session *s,
                         const struct mo_bench_latency_options *o, const char *model, moire_error *err) {
    struct mo_region *region = mo_region_create(s->env);
    if (!region) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    struct mo_bench_tenant tenant;
    const char *asked = s->precision;
    int code = mo_bench_latency_tenant(s, o, model, region, &tenant, err);
    if (!code && o->tolerance > 0) settle(s, o, &tenant);
    for (int i = 0; !code && i < o->n_threads; i++)
        code = measure_piece(journal, s, o, &tenant, o->threads[i], err);
    if (!code) code = mo_bench_scaling(journal, s, o, &tenant, err);
    s->precision = asked;
    mo_region_destroy(region);
    return code;
}

/* --- ratios ------------------------------------------------------------------------------------------- */
static bool same_run(const json_t *a, const json_t *b) {
    return json_equal(json_object_get(a, "model"), json_object_get(b, "model")) &&
           json_equal(json_object_get(a, "threads"), json_object_get(b, "threads"));
}

/* Smallest value of `key` among the peers of the same model and threads; 0 = no peer. */
static double best_peer(const json_t *results, const json_t *row, const char *key) {
    double best = 0;
    size_t i;
    json_t *other;
    json_array_foreach((json_t *)results, i, other) {
        if (strcmp(mo_json_text(other, "kind"), "peer") != 0 || !same_run(row, other)) continue;
        double v = mo_json_number(other, key);
        if (best == 0 || v < best) best = v;
    }
    return best;
}

/* Adds "speed_vs_best_peer" to each row of moire, and the geometric means as a list of summaries. */
static json_t *summarize(json_t *results, const struct mo_bench_latency_options *o) {
    json_t *summary = json_array();
    static const char *const kinds[] = {"specialised", "generic"};
    for (int k = 0; k < 2; k++) {
        for (int t = 0; t < o->n_threads; t++) {
            double log_sum = 0;
            int n = 0;
            size_t i;
            json_t *row;
            json_array_foreach(results, i, row) {
                if (strcmp(mo_json_text(row, "kind"), kinds[k]) != 0 ||
                    (int)mo_json_number(row, "threads") != o->threads[t])
                    continue;
                double peer = best_peer(results, row, "min_ms"), own = mo_json_number(row, "min_ms");
                if (!(peer > 0) || !(own > 0)) continue;
                json_object_set_new(row, "speed_vs_best_peer", json_real(peer / own));
                log_sum += log(peer / own);
                n++;
            }
            if (n)
                json_array_append_new(summary, json_pack("{s:s, s:i, s:i, s:f}", "kind", kinds[k], "threads",
                                                         o->threads[t], "models", n,
                                                         "geomean_speed_vs_best_peer", exp(log_sum / n)));
        }
    }
    return summary;
}

int mo_bench_latency(struct mo_bench_session *session, const struct mo_bench_latency_options *options,
                     json_t **out, moire_error *err) {
    struct mo_bench_journal journal;
    int code = mo_bench_journal_open(session, "latency", MO_BENCH_MEASURED, options->save, options->resume,
                                     &journal, err);
    if (code) return code;
    for (int i = 0; !code && i < options->n_models; i++)
        code = measure_model(&journal, session, options, options->models[i], err);
    json_object_set_new(journal.document, "summary", summarize(mo_bench_journal_results(&journal), options));
    *out = mo_bench_journal_finish(&journal, code == MOIRE_OK);
    return code;
}

void mo_bench_latency_print(const json_t *document) {
    size_t i;
    json_t *row;
    printf("%-24s %-12s %-12s %7s %10s %10s %9s\n", "model", "system", "kind", "threads", "min ms",
           "median ms", "vs peer");
    json_array_foreach(json_object_get(document, "results"), i, row) {
        printf("%-24.24s %-12s %-12s %7d %10.3f %10.3f", mo_json_text(row, "model"),
               mo_json_text(row, "system"), mo_json_text(row, "kind"), (int)mo_json_number(row, "threads"),
               mo_json_number(row, "min_ms"), mo_json_number(row, "median_ms"));
        double speed = mo_json_number(row, "speed_vs_best_peer");
        if (speed > 0)
            printf(" %8.2fx\n", speed);
        else
            printf("\n");
    }
    json_array_foreach(json_object_get(document, "left_out"), i, row)
        printf("left out: %s: %s\n", mo_json_text(row, "system"), mo_json_text(row, "why"));
    json_array_foreach(json_object_get(document, "summary"), i, row)
        printf("%s, %d thread%s: speed against the best peer, geometric mean over %d models: %.2fx\n",
               mo_json_text(row, "kind"), (int)mo_json_number(row, "threads"),
               mo_json_number(row, "threads") > 1 ? "s" : "", (int)mo_json_number(row, "models"),
               mo_json_number(row, "geomean_speed_vs_best_peer"));
    mo_bench_scaling_print(document);
    json_array_foreach(json_object_get(document, "profiles"), i, row) {
        printf("\n%s, %d thread%s", mo_json_text(row, "model"), (int)mo_json_number(row, "threads"),
               mo_json_number(row, "threads") > 1 ? "s" : "");
        mo_profile_print(json_object_get(row, "layers"), json_object_get(row, "ceilings"));
    }
}
