/* SPDX-License-Identifier: Apache-2.0
 * tables.c - runs the pieces of `moire tables` and reduces each to rows; see tables.h.
 *
 * All means are over seeds.  Ratios are of loads found with the same seed, then averaged, for the seeds'
 * arrivals differ more than the policies do. */
#include "bench/sim/tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/data/journal.h"
#include "bench/report/report_page.h"
#include "bench/sim/by_load.h"
#include "bench/sim/simulate_summary.h"

static const char overall[] = "max_load_overall", every[] = "max_load_every_tenant", gap[] = "core_use_gap";
/* Of the load that layer-wise scheduling holds; the paper's table is at the one of index PAPERS. */
static const double parts[] = {0.25, 0.5, 0.75, 1};
enum { PARTS = sizeof parts / sizeof *parts, PAPERS = 2 };

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
    double below = other ? mo_json_number(other, key) : 0;
    return below > 0 ? mo_json_number(row, key) / below : NAN;
}

static double per(const json_t *counters, const char *key, const char *each) {
    double n = mo_json_number(counters, each);
    return n > 0 ? mo_json_number(counters, key) / n : NAN;
}

/* The columns of a table that are means over seeds. */
enum column {
    OF_BOUND,
    OF_BOUND_EVERY,
    OF_OFFLINE,
    OF_OFFLINE_EVERY,
    OVER_LAYERWISE,
    OVER_VELTAIR,
    OVER_VELTAIR_EVERY,
    LATENCY,
    CONFLICTS,
    CONFLICT_RATE,
    CONFLICT_US,
    COLUMNS
};
static const char *const keys[COLUMNS] = {
    [OF_BOUND] = "of_bound_overall",
    [OF_BOUND_EVERY] = "of_bound_every_tenant",
    [OF_OFFLINE] = "of_offline_overall",
    [OF_OFFLINE_EVERY] = "of_offline_every_tenant",
    [OVER_LAYERWISE] = "over_layerwise",
    [OVER_VELTAIR] = "over_veltair_overall",
    [OVER_VELTAIR_EVERY] = "over_veltair_every_tenant",
    [LATENCY] = "latency_over_solo",
    [CONFLICTS] = "conflicts_a_query",
    [CONFLICT_RATE] = "conflict_rate",
    [CONFLICT_US] = "conflict_us",
};

static void add_seed(struct mean m[COLUMNS], const json_t *simulation, const json_t *row) {
    const json_t *seed = json_object_get(row, "seed");
    const json_t *bound = mo_bench_result(simulation, "bound", seed),
                 *offline = mo_bench_result(simulation, "offline", seed),
                 *layer = mo_bench_result(simulation, "layerwise", seed),
                 *veltair = mo_bench_result(simulation, "veltair", seed);
    const json_t *counters = json_object_get(row, "scheduling");
    const json_t *point = mo_doc_point(row, mo_json_number(row, overall));
    add(&m[OF_BOUND], ratio(row, bound, overall));
    add(&m[OF_BOUND_EVERY], ratio(row, bound, every));
    add(&m[OF_OFFLINE], ratio(row, offline, overall));
    add(&m[OF_OFFLINE_EVERY], ratio(row, offline, every));
    add(&m[OVER_LAYERWISE], ratio(row, layer, overall));
    add(&m[OVER_VELTAIR], ratio(row, veltair, overall));
    add(&m[OVER_VELTAIR_EVERY], ratio(row, veltair, every));
    add(&m[LATENCY], mo_bench_over_solo(simulation, point));
    add(&m[CONFLICTS], per(counters, "conflicts", "accepted"));
    add(&m[CONFLICT_RATE], per(counters, "conflicts", "blocks"));
    if (mo_json_number(counters, "conflicts") > 0)
        add(&m[CONFLICT_US], mo_json_number(counters, "conflict_mean_us"));
}

static json_t *reduce(const json_t *simulation, const char *policy) {
    struct mean m[COLUMNS] = {{0}};
    size_t i;
    json_t *row, *out = json_pack("{s:s}", "policy", policy);
    json_array_foreach(json_object_get(simulation, "results"), i,
                       row) if (!strcmp(mo_json_text(row, "policy"), policy)) add_seed(m, simulation, row);
    for (int c = 0; c < COLUMNS; c++)
        json_object_set_new(out, keys[c], mean_json(&m[c]));
    return out;
}

/* Share of the layers, over the scenario's models, of which no more than three versions are chosen anywhere.
 */
static double few_versions(const json_t *simulation) {
    double layers = 0, few = 0;
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(json_object_get(simulation, "calibration"), "tenants"), i, t) {
        layers += mo_json_number(t, "layers");
        few += mo_json_number(t, "layers_of_three_versions");
    }
    return layers > 0 ? few / layers : 1;
}

json_t *mo_bench_tables_rows(const json_t *simulation) {
    json_t *rows = json_array(), *one;
    size_t i;
    json_array_foreach(json_object_get(simulation, "summary"), i, one) {
        const char *name = mo_json_text(one, "name"), *slash = strchr(name, '/');
        json_t *row = reduce(simulation, slash ? slash + 1 : name);
        json_object_set(row, "seeds", json_object_get(one, "seeds"));
        json_object_set(row, overall, json_object_get(one, overall));
        json_object_set(row, every, json_object_get(one, every));
        json_array_append_new(rows, row);
    }
    return rows;
}

/* All policies once more at the same loads: those asked for, or parts of what layer-wise scheduling held. */
static int same_loads(struct mo_bench_session *session, const struct mo_bench_tables_options *o,
                      const struct mo_bench_simulate_options *s, const json_t *simulation, json_t **out,
                      moire_error *err) {
    double loads[MO_BENCH_MAX_LOADS], held = mo_bench_held(simulation, "layerwise");
    int n = o->n_loads;
    for (int i = 0; i < n; i++)
        loads[i] = o->loads[i];
    for (int i = 0; !o->n_loads && held > 0 && i < PARTS; i++)
        loads[n++] = parts[i] * held;
    *out = json_array();
    if (!n) return MOIRE_OK;
    json_decref(*out);
    return mo_bench_by_load(session, s, loads, n, out, err);
}

static json_t *gap_of(const json_t *at, const char *policy) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(at, "rows"), i, row) {
        if (!strcmp(mo_json_text(row, "policy"), policy)) return json_incref(json_object_get(row, gap));
    }
    return json_null();
}

/* The gap at three quarters of that load, which is what the paper prints, goes into the main rows. */
static void take_gap(const json_t *by_load, json_t *rows) {
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
        json_object_set_new(row, gap, gap_of(json_array_get(by_load, PAPERS), mo_json_text(row, "policy")));
}

static int one_piece(struct mo_bench_session *session, const struct mo_bench_tables_options *o,
                     const char *scenario, const struct mo_process *process, struct mo_bench_journal *journal,
                     moire_error *err) {
    struct mo_bench_simulate_options s = o->simulate;
    char piece[256];
    json_t *simulation = NULL, *by_load = NULL;
    s.serve.scenario = scenario;
    s.serve.process = *process;
    const char *slash = strrchr(scenario, '/');
    snprintf(piece, sizeof piece, "%.160s %s:%g", slash ? slash + 1 : scenario,
             mo_process_name(process->kind), process->cv);
    if (mo_bench_journal_has(journal, piece)) return MOIRE_OK;
    mo_bench_say(session, "tables: %s", piece);
    int code = mo_bench_simulate(session, &s, &simulation, err);
    if (!code) code = same_loads(session, o, &s, simulation, &by_load, err);
    if (!code) {
        json_t *rows = mo_bench_tables_rows(simulation);
        if (!o->n_loads) take_gap(by_load, rows);
        json_t *result = json_pack(
            "{s:O, s:O, s:O, s:O, s:f, s:o, s:O}", "scenario", json_object_get(simulation, "scenario"),
            "arrivals", json_object_get(simulation, "arrivals"), "goal", json_object_get(simulation, "goal"),
            "seconds", json_object_get(simulation, "seconds"), "three_versions_suffice",
            few_versions(simulation), "rows", rows, "by_load", by_load);
        code = result && !json_array_append_new(mo_bench_journal_results(journal), result)
                   ? mo_bench_journal_note(journal, piece, err)
                   : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    }
    json_decref(simulation);
    json_decref(by_load);
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
