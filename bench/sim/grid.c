/* SPDX-License-Identifier: Apache-2.0
 * grid.c - plays the cells of `moire grid`; see grid.h. */
#include "bench/sim/grid.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/data/journal.h"
#include "bench/report/report_page.h"
#include "bench/report/series.h"
#include "bench/sim/by_load.h"
#include "bench/sim/settings.h"
#include "bench/sim/simulate_summary.h"
#include "runtime/base/text.h"

/* --- axes ----------------------------------------------------------------------------------------------- */
bool mo_bench_axis_parse(const char *text, struct mo_bench_axis *out) {
    const char *sign = strchr(text, '=');
    memset(out, 0, sizeof *out);
    if (!sign || sign == text || sign - text >= MO_BENCH_AXIS_TEXT) return false;
    memcpy(out->key, text, (size_t)(sign - text));
    for (const char *at = sign + 1;; at++) {
        size_t n = strcspn(at, ",");
        if (!n || n >= MO_BENCH_AXIS_TEXT || out->n == MO_BENCH_AXIS_VALUES) return false;
        memcpy(out->value[out->n++], at, n);
        at += n;
        if (!*at) return true;
    }
}

/* One combination: an index of a value for each axis. */
struct cell {
    int at[MO_BENCH_AXES];
};

/* The next one, the last axis fastest; false: that was the last. */
static bool next(const struct mo_bench_grid_options *o, struct cell *c) {
    for (int a = o->n_axes - 1; a >= 0; a--) {
        if (++c->at[a] < o->axes[a].n) return true;
        c->at[a] = 0;
    }
    return false;
}

static const char *value_of(const struct mo_bench_grid_options *o, const struct cell *c, const char *key,
                            int *index) {
    for (int a = 0; a < o->n_axes; a++) {
        *index = c->at[a];
        if (!strcmp(o->axes[a].key, key)) return o->axes[a].value[c->at[a]];
    }
    *index = 0;
    return NULL;
}

/* Whether an earlier cell is the same machine: caches count under memory's contention alone. */
static bool repeats(const struct mo_bench_grid_options *o, const struct cell *c) {
    int index;
    const char *contention = value_of(o, c, "contention", &index);
    (void)value_of(o, c, "last_level", &index);
    return contention && strcmp(contention, "memory") != 0 && index > 0;
}

/* --- a cell --------------------------------------------------------------------------------------------- */
struct values {
    char text[MO_BENCH_AXES][2 * MO_BENCH_AXIS_TEXT]; /* "KEY=VALUE" */
};

/* The options of a cell; they point into *values. */
static void set(const struct mo_bench_grid_options *o, const struct cell *c, struct values *values,
                struct mo_bench_simulate_options *out) {
    *out = o->simulate;
    for (int a = 0; a < o->n_axes && out->n_with < MO_BENCH_WITH; a++) {
        snprintf(values->text[a], sizeof values->text[a], "%s=%s", o->axes[a].key,
                 o->axes[a].value[c->at[a]]);
        out->with[out->n_with++] = values->text[a];
    }
}

static int check(const struct mo_env *env, const struct mo_bench_grid_options *o, moire_error *err) {
    struct cell c = {{0}};
    int code = MOIRE_OK;
    do {
        struct values values;
        struct mo_bench_simulate_options s;
        struct mo_bench_machine machine;
        set(o, &c, &values, &s);
        code = mo_bench_machine_open_with(env, s.machine, s.with, s.n_with, &machine, err);
        if (!code) mo_bench_machine_close(&machine);
    } while (!code && next(o, &c));
    return code;
}

static json_t *cell_json(const struct mo_bench_grid_options *o, const struct cell *c) {
    json_t *out = json_object();
    for (int a = 0; a < o->n_axes; a++)
        json_object_set_new(out, o->axes[a].key, json_string(o->axes[a].value[c->at[a]]));
    return out;
}

static void label(const struct values *values, int n, const char *scenario, char *out, size_t size) {
    const char *slash = strrchr(scenario, '/');
    struct mo_text t = mo_text_in(out, size);
    mo_text_put(&t, "%s", slash ? slash + 1 : scenario);
    for (int a = 0; a < n; a++)
        mo_text_put(&t, " %s", values->text[a]);
}

/* A cell is one simulation of all policies, so they are settings of it, too. */
static json_t *cell_settings(const struct mo_bench_simulate_options *s) {
    json_t *out = mo_bench_settings(s), *policies = json_array();
    for (int i = 0; i < s->serve.n_policies; i++)
        json_array_append_new(policies, json_string(s->serve.policies[i]));
    return out && !json_object_set_new(out, "policies", policies) ? out : NULL;
}

static json_t *result_json(const struct mo_bench_grid_options *o, const struct cell *c, const char *piece,
                           json_t *made, const json_t *simulation) {
    return json_pack("{s:O, s:O, s:O, s:o, s:o, s:s, s:O}", "scenario",
                     json_object_get(simulation, "scenario"), "goal", json_object_get(simulation, "goal"),
                     "arrivals", json_object_get(simulation, "arrivals"), "cell", cell_json(o, c), "rows",
                     mo_bench_grid_rows(simulation), "piece", piece, "settings", made);
}

static int play_cell(struct mo_bench_session *session, const struct mo_bench_grid_options *o,
                     const struct mo_bench_simulate_options *s, const struct cell *c, const char *piece,
                     json_t *made, struct mo_bench_journal *journal, moire_error *err) {
    json_t *simulation = NULL;
    mo_bench_say(session, "grid: %s", piece);
    int code = mo_bench_simulate(session, s, &simulation, err);
    if (!code) {
        json_t *result = result_json(o, c, piece, made, simulation);
        code = result && !json_array_append_new(mo_bench_journal_results(journal), result)
                   ? mo_bench_journal_note(journal, piece, err)
                   : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    }
    json_decref(simulation);
    return code;
}

/* Checks a cell that is there; plays one that is not, if it is to play at all. */
static int one_cell(struct mo_bench_session *session, const struct mo_bench_grid_options *o,
                    const char *scenario, const struct cell *c, bool plays, struct mo_bench_journal *journal,
                    moire_error *err) {
    struct values values;
    struct mo_bench_simulate_options s;
    char piece[512];
    set(o, c, &values, &s);
    s.serve.scenario = scenario;
    label(&values, o->n_axes, scenario, piece, sizeof piece);
    json_t *made = cell_settings(&s);
    if (!made) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    int code = MOIRE_OK;
    if (mo_bench_journal_has(journal, piece))
        code = mo_bench_settings_check(mo_bench_journal_result(journal, piece), made, err);
    else if (plays)
        code = play_cell(session, o, &s, c, piece, made, journal, err);
    json_decref(made);
    return code;
}

static int all_cells(struct mo_bench_session *session, const struct mo_bench_grid_options *o, bool plays,
                     struct mo_bench_journal *journal, moire_error *err) {
    int code = MOIRE_OK;
    for (int s = 0; !code && s < o->n_scenarios; s++) {
        struct cell c = {{0}};
        do {
            if (!repeats(o, &c)) code = one_cell(session, o, o->scenarios[s], &c, plays, journal, err);
        } while (!code && next(o, &c));
    }
    return code;
}

int mo_bench_grid(struct mo_bench_session *session, const struct mo_bench_grid_options *o, json_t **out,
                  moire_error *err) {
    struct mo_bench_journal journal;
    *out = NULL;
    int code = check(session->env, o, err);
    if (!code)
        code =
            mo_bench_journal_open(session, "grid", MO_BENCH_SIMULATED, o->output, o->resume, &journal, err);
    if (code) return code;
    if ((code = all_cells(session, o, false, &journal, err))) {
        mo_bench_journal_drop(&journal);
        return code;
    }
    code = all_cells(session, o, true, &journal, err);
    *out = mo_bench_journal_finish(&journal, code == MOIRE_OK);
    return code;
}

/* --- rows ----------------------------------------------------------------------------------------------- */
static const char held[] = "max_load_overall";

enum value { LOAD, QPS, OVER_LAYERWISE, LATENCY, CONFLICT_RATE, VALUES };
static const char *const keys[VALUES] = {[LOAD] = held,
                                         [QPS] = "qps",
                                         [OVER_LAYERWISE] = "over_layerwise",
                                         [LATENCY] = "latency_over_solo",
                                         [CONFLICT_RATE] = "conflict_rate"};

/* No load held is a load of 0, and no latency. */
static void add_seed(struct mo_mean mean[VALUES], const json_t *simulation, const json_t *row) {
    const json_t *other = mo_bench_result(simulation, "layerwise", json_object_get(row, "seed"));
    double load = mo_json_number_or_nan(row, held), below = mo_json_number_or_nan(other, held);
    const json_t *point = mo_doc_point(row, load);
    mo_mean_add_known(&mean[LOAD], load);
    mo_mean_add_known(&mean[OVER_LAYERWISE], below > 0 ? load / below : NAN);
    mo_mean_add_known(&mean[QPS], load > 0 ? mo_json_number_or_nan(point, "qps") : load);
    mo_mean_add_known(&mean[LATENCY], mo_bench_over_solo(simulation, row, point));
    mo_mean_add_known(&mean[CONFLICT_RATE], mo_json_number_or_nan(point, "conflict_rate"));
}

json_t *mo_bench_grid_rows(const json_t *simulation) {
    json_t *rows = json_array(), *one, *row;
    size_t i, k;
    json_array_foreach(json_object_get(simulation, "summary"), i, one) {
        struct mo_mean mean[VALUES] = {{0}};
        json_array_foreach(json_object_get(simulation, "results"), k, row) {
            if (!strcmp(mo_json_text(row, "name"), mo_json_text(one, "name")))
                add_seed(mean, simulation, row);
        }
        json_t *out = json_pack("{s:s}", "policy", mo_series_policy(mo_json_text(one, "name")));
        for (int v = 0; v < VALUES; v++)
            json_object_set_new(out, keys[v], mo_bench_mean_json(&mean[v]));
        json_array_append_new(rows, out);
    }
    return rows;
}
