/* SPDX-License-Identifier: Apache-2.0
 * tables.c - runs the pieces of `moire tables` and reduces each to rows; see tables.h.
 *
 * All means are over seeds.  Ratios are of loads found with the same seed, then averaged, for the seeds'
 * arrivals differ more than the policies do. */
#include "bench/tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/journal.h"
#include "bench/report_page.h"
#include "bench/simulate_summary.h"

static const char overall[] = "max_load_overall", every[] = "max_load_every_tenant";

/* The result of the same seed under another policy; NULL = not simulated. */
static const json_t *partner(const json_t *results, const json_t *row, const char *policy) {
    size_t i;
    json_t *other;
    json_array_foreach((json_t *)results, i, other) {
        if (!strcmp(mo_doc_text(other, "policy"), policy) &&
            json_equal(json_object_get(other, "seed"), json_object_get(row, "seed")))
            return other;
    }
    return NULL;
}

struct mean {
    double sum, n;
};
static void add(struct mean *m, double v) {
    if (!isfinite(v)) return;
    m->sum += v;
    m->n += 1;
}
static json_t *mean_json(const struct mean *m) {
    return m->n > 0 ? json_real(m->sum / m->n) : json_null();
}

static double ratio(const json_t *row, const json_t *other, const char *key) {
    double below = other ? mo_doc_number(other, key) : 0;
    return below > 0 ? mo_doc_number(row, key) / below : NAN;
}

/* Mean latency over the shortest solo time on any number of cores, over queries, at the highest load that
 * held. */
static double over_solo(const json_t *simulation, const json_t *row) {
    const json_t *solo = json_object_get(json_object_get(simulation, "calibration"), "tenants");
    const json_t *point = mo_doc_point(row, mo_doc_number(row, overall));
    double sum = 0, n = 0;
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(point, "tenants"), i, t) {
        double alone = mo_doc_number(json_array_get(solo, i), "fastest_ms"), count = mo_doc_number(t, "n");
        if (!(alone > 0)) continue;
        sum += count * mo_doc_number(t, "mean_ms") / alone;
        n += count;
    }
    return n > 0 ? sum / n : NAN;
}

/* A counter of the run at that load, a query. */
static double a_query(const json_t *row, const char *key) {
    const json_t *s = row ? json_object_get(row, "scheduling") : NULL;
    double n = mo_doc_number(s, "accepted");
    return n > 0 ? mo_doc_number(s, key) / n : NAN;
}

static json_t *reduce(const json_t *simulation, const char *policy) {
    const json_t *results = json_object_get(simulation, "results");
    struct mean bound_all = {0}, bound_every = {0}, layer_all = {0}, veltair_all = {0}, veltair_every = {0},
                solo = {0}, cores = {0}, conflicts = {0};
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)results, i, row) {
        if (strcmp(mo_doc_text(row, "policy"), policy) != 0) continue;
        const json_t *bound = partner(results, row, "bound"), *layer = partner(results, row, "layerwise"),
                     *veltair = partner(results, row, "veltair-as");
        add(&bound_all, ratio(row, bound, overall));
        add(&bound_every, ratio(row, bound, every));
        add(&layer_all, ratio(row, layer, overall));
        add(&veltair_all, ratio(row, veltair, overall));
        add(&veltair_every, ratio(row, veltair, every));
        add(&solo, over_solo(simulation, row));
        add(&cores, a_query(row, "kernel_core_s") / a_query(layer, "kernel_core_s"));
        add(&conflicts, a_query(row, "conflicts"));
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "policy", policy, "of_bound_overall",
                     mean_json(&bound_all), "of_bound_every_tenant", mean_json(&bound_every),
                     "over_layerwise", mean_json(&layer_all), "over_veltair_overall", mean_json(&veltair_all),
                     "over_veltair_every_tenant", mean_json(&veltair_every), "latency_over_solo",
                     mean_json(&solo), "core_time_over_layerwise", mean_json(&cores), "conflicts_a_query",
                     mean_json(&conflicts));
}

json_t *mo_bench_tables_rows(const json_t *simulation) {
    json_t *rows = json_array(), *one;
    size_t i;
    json_array_foreach(json_object_get(simulation, "summary"), i, one) {
        const char *name = mo_doc_text(one, "name"), *slash = strchr(name, '/');
        json_t *row = reduce(simulation, slash ? slash + 1 : name);
        json_object_set(row, "seeds", json_object_get(one, "seeds"));
        json_object_set(row, overall, json_object_get(one, overall));
        json_object_set(row, every, json_object_get(one, every));
        json_array_append_new(rows, row);
    }
    return rows;
}

static int one_piece(struct mo_bench_session *session, const struct mo_bench_tables_options *o,
                     const char *scenario, const struct mo_process *process, struct mo_bench_journal *journal,
                     moire_error *err) {
    struct mo_bench_simulate_options s = o->simulate;
    char piece[256];
    json_t *simulation = NULL;
    s.serve.scenario = scenario;
    s.serve.process = *process;
    const char *slash = strrchr(scenario, '/');
    snprintf(piece, sizeof piece, "%.160s %s:%g", slash ? slash + 1 : scenario,
             mo_process_name(process->kind), process->cv);
    if (mo_bench_journal_has(journal, piece)) return MOIRE_OK;
    mo_bench_say(session, "tables: %s", piece);
    int code = mo_bench_simulate(session, &s, &simulation, err);
    if (!code) {
        json_t *result = json_pack(
            "{s:O, s:O, s:O, s:O, s:o}", "scenario", json_object_get(simulation, "scenario"), "arrivals",
            json_object_get(simulation, "arrivals"), "goal", json_object_get(simulation, "goal"), "seconds",
            json_object_get(simulation, "seconds"), "rows", mo_bench_tables_rows(simulation));
        code = result && !json_array_append_new(mo_bench_journal_results(journal), result)
                   ? mo_bench_journal_note(journal, piece, err)
                   : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    }
    json_decref(simulation);
    return code;
}

int mo_bench_tables(struct mo_bench_session *session, const struct mo_bench_tables_options *o, json_t **out,
                    moire_error *err) {
    struct mo_bench_journal journal;
    int code = mo_bench_journal_open(session, "tables", o->output, o->resume, &journal, err);
    if (code) return code;
    for (int p = 0; !code && p < o->n_processes; p++)
        for (int s = 0; !code && s < o->n_scenarios; s++)
            code = one_piece(session, o, o->scenarios[s], &o->processes[p], &journal, err);
    *out = mo_bench_journal_finish(&journal, code == MOIRE_OK);
    return code;
}
