/* SPDX-License-Identifier: Apache-2.0
 * tables.c - plays the pieces of `moire tables` and keeps what rows are made of; see tables.h. */
#include "bench/sim/tables.h"

#include <stdio.h>
#include <string.h>
#include "bench/data/journal.h"
#include "bench/report/report_page.h"
#include "bench/sim/by_load.h"
#include "bench/sim/settings.h"
#include "bench/sim/simulate_summary.h"
#include "runtime/sched/policy.h"

enum { LABEL = 256 };
/* Of the load that layer-wise scheduling holds; the paper's table is at the one of index PAPERS. */
static const double parts[] = {0.25, 0.5, 0.75, 1};
enum { PARTS = sizeof parts / sizeof *parts, PAPERS = 2 };
static const char gap[] = "core_use_gap";

/* One scenario under one process. */
struct piece {
    struct mo_bench_session *session;
    const struct mo_bench_tables_options *options;
    struct mo_bench_simulate_options simulate;
    struct mo_bench_journal *journal;
    char label[LABEL];
    int at, of;       /* which of how many pieces */
    json_t *document; /* borrowed from the journal */
};

/* --- what is kept of a simulation ----------------------------------------------------------------------- */
/* The points at the highest loads, or all, without their distributions: they are most of the bytes. */
static json_t *pruned(const json_t *row, bool all) {
    json_t *out = json_copy((json_t *)row), *points = json_array(), *point, *tenant;
    double overall = mo_json_number(row, "max_load_overall"),
           every = mo_json_number(row, "max_load_every_tenant");
    size_t i, k;
    json_array_foreach(json_object_get(row, "loads"), i, point) {
        if (!all && point != mo_doc_point(row, overall) && point != mo_doc_point(row, every)) continue;
        json_t *copy = json_deep_copy(point);
        json_array_foreach(json_object_get(copy, "tenants"), k, tenant) json_object_del(tenant, "quantiles");
        json_array_append_new(points, copy);
    }
    json_object_set_new(out, "loads", points);
    return out;
}

static void keep(const json_t *simulation, bool all, json_t *list) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(simulation, "results"), i, row)
        json_array_append_new(list, pruned(row, all));
}

/* --- the document of a piece ---------------------------------------------------------------------------- */
/* Policies are results of their own: another list of them goes on with the document. */
static json_t *settings(const struct piece *p) {
    json_t *out = mo_bench_settings(&p->simulate), *loads = json_array();
    for (int i = 0; i < p->options->n_loads; i++)
        json_array_append_new(loads, json_sprintf("%.9g", p->options->loads[i]));
    return out && !json_object_set_new(out, "loads", loads) ? out : NULL;
}

static json_t *new_document(struct piece *p, json_t *made) {
    json_t *out = json_pack("{s:s, s:O, s:[], s:[], s:[], s:[]}", "piece", p->label, "settings", made,
                            "results", "same_loads", "rows", "by_load");
    return out && !json_array_append_new(mo_bench_journal_results(p->journal), out) ? out : NULL;
}

/* The one that an earlier run began; if there is none and it is to play, a new one. */
static int find_document(struct piece *p, bool plays, moire_error *err) {
    json_t *made = settings(p);
    int code = made ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    p->document = mo_bench_journal_result(p->journal, p->label);
    if (!code && p->document) code = mo_bench_settings_check(p->document, made, err);
    if (!code && plays && !p->document && !(p->document = new_document(p, made)))
        code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    json_decref(made);
    return code;
}

static void describe(json_t *document, const json_t *simulation) {
    static const char *const same[] = {"scenario", "arrivals", "goal", "seconds", "objective", "calibration"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        json_object_set(document, same[i], json_object_get(simulation, same[i]));
    json_object_set_new(document, "three_versions_suffice",
                        json_real(mo_bench_tables_few_versions(simulation)));
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

/* Rows anew from all results so far. */
static void tabulate(const struct piece *p) {
    const json_t *results = json_object_get(p->document, "same_loads");
    json_t *same =
        json_pack("{s:O, s:O, s:o}", "results", results, "calibration",
                  json_object_get(p->document, "calibration"), "summary", mo_bench_summary(results));
    json_t *by_load = mo_bench_by_load_rows(same), *rows = mo_bench_tables_rows(p->document);
    if (!p->options->n_loads) take_gap(by_load, rows);
    json_object_set_new(p->document, "by_load", by_load);
    json_object_set_new(p->document, "rows", rows);
    json_decref(same);
}

/* --- a policy ------------------------------------------------------------------------------------------- */
/* The search of one policy, or with n > 0 its runs at these loads. */
static int one_policy(const struct piece *p, int index, const double *loads, int n, moire_error *err) {
    const char *policy = p->options->simulate.serve.policies[index];
    struct mo_bench_simulate_options s = p->simulate;
    char label[LABEL + 64];
    json_t *simulation = NULL;
    snprintf(label, sizeof label, "%s %.40s%s", p->label, policy, n ? " at the same loads" : "");
    if (mo_bench_journal_has(p->journal, label)) return MOIRE_OK;
    mo_bench_say(p->session, "tables: piece %d of %d, policy %d of %d: %s", p->at + 1, p->of, index + 1,
                 p->options->simulate.serve.n_policies, label);
    s.serve.policies[0] = policy;
    s.serve.n_policies = 1;
    if (n) s.serve.find_max = 0;
    s.serve.n_loads = n;
    if (n) memcpy(s.serve.loads, loads, (size_t)n * sizeof *loads);
    int code = mo_bench_simulate(p->session, &s, &simulation, err);
    if (!code) {
        if (!n) describe(p->document, simulation);
        keep(simulation, n > 0, json_object_get(p->document, n ? "same_loads" : "results"));
        tabulate(p);
        code = mo_bench_journal_note(p->journal, label, err);
    }
    json_decref(simulation);
    return code;
}

/* All policies that could run once more at the same loads: those asked for, or parts of what layer-wise
 * scheduling held. */
static int same_loads(const struct piece *p, moire_error *err) {
    const struct mo_bench_tables_options *o = p->options;
    double loads[MO_BENCH_MAX_LOADS], held = mo_bench_held(p->document, "layerwise");
    int n = o->n_loads, code = MOIRE_OK;
    for (int i = 0; i < n; i++)
        loads[i] = o->loads[i];
    for (int i = 0; !o->n_loads && held > 0 && i < PARTS; i++)
        loads[n++] = parts[i] * held;
    for (int i = 0; n && !code && i < p->simulate.serve.n_policies; i++)
        if (mo_policy_find(p->simulate.serve.policies[i])) code = one_policy(p, i, loads, n, err);
    return code;
}

static struct piece piece_at(struct mo_bench_session *session, const struct mo_bench_tables_options *o,
                             int at, struct mo_bench_journal *journal) {
    const char *scenario = o->scenarios[at % o->n_scenarios], *slash = strrchr(scenario, '/');
    const struct mo_process *process = &o->processes[at / o->n_scenarios];
    struct piece p = {.session = session,
                      .options = o,
                      .simulate = o->simulate,
                      .journal = journal,
                      .at = at,
                      .of = o->n_scenarios * o->n_processes};
    snprintf(p.label, sizeof p.label, "%.160s %s:%g", slash ? slash + 1 : scenario,
             mo_process_name(process->kind), process->cv);
    p.simulate.serve.scenario = scenario;
    p.simulate.serve.process = *process;
    return p;
}

static int one_piece(struct piece *p, moire_error *err) {
    int code = find_document(p, true, err);
    for (int i = 0; !code && i < p->simulate.serve.n_policies; i++)
        code = one_policy(p, i, NULL, 0, err);
    return code ? code : same_loads(p, err);
}

/* Checks what an earlier run made of all pieces, or plays them. */
static int all_pieces(struct mo_bench_session *session, const struct mo_bench_tables_options *o, bool plays,
                      struct mo_bench_journal *journal, moire_error *err) {
    int code = MOIRE_OK;
    for (int at = 0; !code && at < o->n_scenarios * o->n_processes; at++) {
        struct piece p = piece_at(session, o, at, journal);
        code = plays ? one_piece(&p, err) : find_document(&p, false, err);
    }
    return code;
}

int mo_bench_tables(struct mo_bench_session *session, const struct mo_bench_tables_options *o, json_t **out,
                    moire_error *err) {
    struct mo_bench_journal journal;
    *out = NULL;
    int code =
        mo_bench_journal_open(session, "tables", MO_BENCH_SIMULATED, o->output, o->resume, &journal, err);
    if (code) return code;
    if ((code = all_pieces(session, o, false, &journal, err))) {
        mo_bench_journal_drop(&journal);
        return code;
    }
    code = all_pieces(session, o, true, &journal, err);
    *out = mo_bench_journal_finish(&journal, code == MOIRE_OK);
    return code;
}
