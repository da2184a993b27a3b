/* SPDX-License-Identifier: Apache-2.0
 * latency.c - the `moire bench latency` command: all models, all thread counts, one document. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/experiment.h"
#include "bench/latency.h"

static const char *kind_of(const struct mo_bench_solo *solo) {
    if (strcmp(solo->system->family, "moire") != 0) return "peer";
    return solo->generic ? "generic" : "specialised";
}

static void add_rows(json_t *results, json_t *left_out, const char *model, const struct mo_bench_solo *solo,
                     int n) {
    for (int i = 0; i < n; i++) {
        if (solo[i].n) {
            json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:i, s:f, s:f, s:i}", "model", model, "system",
                                    solo[i].system->family, "kind", kind_of(&solo[i]), "precision", "fp32",
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

/* The tenant that stands for one model of the command line. */
static int prepare(struct mo_bench_session *s, const struct mo_bench_latency_options *o, const char *model,
                   struct mo_region *region, struct mo_bench_tenant *t, moire_error *err) {
    const char *slash = strrchr(model, '/');
    *t = (struct mo_bench_tenant){.name = slash ? slash + 1 : model, .model = model};
    for (int i = 0; i < o->n_shapes && i < MO_BENCH_MAX_INPUTS; i++)
        t->shapes[t->n_shapes++] = o->shapes[i];
    return mo_bench_resolve(s, region, t, err);
}

static int measure_model(struct mo_bench_session *s, const struct mo_bench_latency_options *o,
                         const char *model, json_t *results, json_t *left_out, moire_error *err) {
    struct mo_region *region = mo_region_create(s->env);
    if (!region) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    struct mo_bench_tenant tenant;
    int code = prepare(s, o, model, region, &tenant, err);
    for (int i = 0; !code && i < o->n_threads; i++) {
        struct mo_bench_solo solo[MO_BENCH_MAX_SYSTEMS];
        int n = 0;
        mo_bench_say(s, "bench: %s, %d thread%s", tenant.name, o->threads[i], o->threads[i] == 1 ? "" : "s");
        code = mo_bench_solo_measure(s, &tenant, o->threads[i], &o->spec, solo, &n, err);
        add_rows(results, left_out, tenant.name, solo, n);
        mo_bench_solo_free(solo, n);
    }
    mo_region_destroy(region);
    return code;
}

/* --- ratios ------------------------------------------------------------------------------------------- */
static bool same_run(const json_t *a, const json_t *b) {
    return json_equal(json_object_get(a, "model"), json_object_get(b, "model")) &&
           json_equal(json_object_get(a, "threads"), json_object_get(b, "threads"));
}

static const char *text_of(const json_t *row, const char *key) {
    const char *s = json_string_value(json_object_get(row, key));
    return s ? s : "";
}

static double number_of(const json_t *row, const char *key) {
    return json_number_value(json_object_get(row, key));
}

/* Smallest value of `key` among the peers of the same model and threads; 0 = no peer. */
static double best_peer(const json_t *results, const json_t *row, const char *key) {
    double best = 0;
    size_t i;
    json_t *other;
    json_array_foreach((json_t *)results, i, other) {
        if (strcmp(text_of(other, "kind"), "peer") != 0 || !same_run(row, other)) continue;
        double v = number_of(other, key);
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
                if (strcmp(text_of(row, "kind"), kinds[k]) != 0 ||
                    (int)number_of(row, "threads") != o->threads[t])
                    continue;
                double peer = best_peer(results, row, "min_ms"), own = number_of(row, "min_ms");
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
    json_t *results = json_array(), *left_out = json_array();
    json_t *experiment = mo_bench_experiment(session->command, session->cores);
    json_object_set_new(experiment, "peers", mo_bench_peer_versions(session));
    int code = MOIRE_OK;
    for (int i = 0; !code && i < options->n_models; i++)
        code = measure_model(session, options, options->models[i], results, left_out, err);
    json_t *summary = summarize(results, options);
    *out = json_pack("{s:o, s:o, s:o, s:o, s:b}", "experiment", experiment, "results", results, "summary",
                     summary, "left_out", left_out, "complete", code == MOIRE_OK);
    if (!*out && !code) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    return code;
}

void mo_bench_latency_print(const json_t *document) {
    size_t i;
    json_t *row;
    printf("%-24s %-12s %-12s %7s %10s %10s %9s\n", "model", "system", "kind", "threads", "min ms",
           "median ms", "vs peer");
    json_array_foreach(json_object_get(document, "results"), i, row) {
        printf("%-24.24s %-12s %-12s %7d %10.3f %10.3f", text_of(row, "model"), text_of(row, "system"),
               text_of(row, "kind"), (int)number_of(row, "threads"), number_of(row, "min_ms"),
               number_of(row, "median_ms"));
        double speed = number_of(row, "speed_vs_best_peer");
        if (speed > 0)
            printf(" %8.2fx\n", speed);
        else
            printf("\n");
    }
    json_array_foreach(json_object_get(document, "left_out"), i, row)
        printf("left out: %s: %s\n", text_of(row, "system"), text_of(row, "why"));
    json_array_foreach(json_object_get(document, "summary"), i, row)
        printf("%s, %d thread%s: speed against the best peer, geometric mean over %d models: %.2fx\n",
               text_of(row, "kind"), (int)number_of(row, "threads"), number_of(row, "threads") > 1 ? "s" : "",
               (int)number_of(row, "models"), number_of(row, "geomean_speed_vs_best_peer"));
}
