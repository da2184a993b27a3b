/* SPDX-License-Identifier: Apache-2.0
 * fidelity.c - live runs beside their simulation; see fidelity.h. */
#include "bench/sim/fidelity.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "bench/data/journal.h"
#include "bench/sim/replay.h"
#include "bench/report/report_page.h"
#include "bench/search/seed_run.h"

enum { OTHER_SEED = 1000, DRAWS = 20, SEARCH_SECONDS = 60 };
static const double search_step = 0.02, first_load = 0.4, of_limit[] = {0.5, 0.7, 0.9};

/* One more quantity as measured, line by line. */
static const struct {
    const char *with;
    unsigned pieces;
} steps[] = {
    {"profiles", 0},
    {"service", MO_REPLAY_SERVICE},
    {"starts", MO_REPLAY_MEASURED},
    {"arrivals", MO_REPLAY_MEASURED | MO_REPLAY_LATE},
    {"speed", MO_REPLAY_MEASURED | MO_REPLAY_LATE | MO_REPLAY_SPEED},
    {"stalls", MO_REPLAY_MEASURED | MO_REPLAY_LATE | MO_REPLAY_SPEED | MO_REPLAY_STALLS},
};

struct work {
    struct mo_bench_session *session;
    const struct mo_bench_fidelity_options *options;
    struct mo_bench_journal journal;
    struct mo_bench_mix mix;
    char costs[160], run[160]; /* traces */
    double limit;              /* of the policy that `costs` were recorded under */
};

/* One live run into the trace at `path`. */
static int record(struct work *w, const char *policy, double load, uint64_t seed, const char *path,
                  moire_error *err) {
    struct mo_bench_session *s = w->session;
    const struct mo_bench_mix *mix = &w->mix;
    const struct mo_bench_system system = {policy, "moire", policy, "policy of moire", NULL};
    struct mo_bench_child child;
    json_t *point = NULL;
    mo_bench_say(s, "fidelity: policy %s at load %.2f", policy, load);
    s->record = path;
    int code = mo_bench_child_start(s, &system, mix->scenario.tenants, mix->qos_ns, mix->scenario.n_tenants,
                                    mix->cores, s->generic, false, &child, err);
    if (!code) {
        const struct mo_bench_player player = mo_bench_child_player(&child);
        code = mo_bench_point(s->env, &player, mix, &w->options->serve, load, seed, NULL, &point, err);
        mo_bench_child_stop(&child);
    }
    s->record = NULL;
    json_decref(point);
    return code;
}

/* The highest load at which a policy has 95 % of all queries in time, simulated with its costs. */
static int find_limit(struct work *w, const char *policy, moire_error *err) {
    const struct mo_bench_replay_options r = {
        .trace = w->costs, .policies = {policy}, .n_policies = 1, .pieces = MO_REPLAY_MEASURED};
    struct mo_bench_serve_options o = w->options->serve;
    struct mo_bench_replay *replay = NULL;
    json_t *row = NULL;
    o.n_loads = 0;
    o.find_max = 0.95;
    o.seconds = SEARCH_SECONDS;
    o.step = search_step;
    struct mo_bench_found found = mo_bench_no_guess(&o);
    int code = mo_bench_replay_open(w->session->env, &r, &replay, err);
    if (code) return code;
    const struct mo_bench_player player = mo_bench_replay_player(replay);
    code = mo_bench_seed(w->session, &player, &w->mix, &o, o.seeds[0], &found, &row, err);
    json_decref(row);
    mo_bench_replay_close(replay);
    w->limit = found.max_load[0] > o.step ? found.max_load[0] : o.step;
    return code;
}

/* The recording of a policy that its service times and starts come from, and its limit. */
static int know(struct work *w, const char *policy, moire_error *err) {
    const struct mo_bench_serve_options *o = &w->options->serve;
    if (w->costs[0]) return MOIRE_OK;
    mo_bench_temporary(w->session, ".costs", w->costs, sizeof w->costs);
    int code =
        record(w, policy, o->n_loads ? o->loads[0] : first_load, o->seeds[0] + OTHER_SEED, w->costs, err);
    return code || o->n_loads ? code : find_limit(w, policy, err);
}

static void forget(struct work *w) {
    if (w->costs[0]) unlink(w->costs);
    w->costs[0] = 0;
    w->limit = 0;
}

/* Simulates the recorded run with a step's quantities. */
static int predict(struct work *w, int step, json_t *row, moire_error *err) {
    const struct mo_bench_replay_options o = {
        .trace = w->run, .costs = w->costs, .pieces = steps[step].pieces, .draws = DRAWS};
    json_t *document = NULL;
    static const char *const keys[] = {"late_us", "block_ratio", "stalls", "stall_ms"};
    int code = mo_bench_replay(w->session->env, &o, &document, err);
    if (code) return code;
    const json_t *results = json_object_get(document, "results");
    json_t *real = json_array_get(results, 0);
    json_t *compared = mo_bench_fidelity_compare(real, json_array_get(results, 1));
    json_object_set_new(compared, "with", json_string(steps[step].with));
    json_object_set(row, "live", real);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set(row, keys[i], json_object_get(document, keys[i]));
    if (json_array_append_new(json_object_get(row, "predicted"), compared))
        code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    json_decref(document);
    return code;
}

/* A policy at one of its loads. */
static int one_piece(struct work *w, int p, int l, moire_error *err) {
    const struct mo_bench_serve_options *o = &w->options->serve;
    double load = o->n_loads ? o->loads[l] : of_limit[l];
    char piece[128];
    snprintf(piece, sizeof piece, "%s at %.3f%s", o->policies[p], load, o->n_loads ? "" : " of its limit");
    if (mo_bench_journal_has(&w->journal, piece)) return MOIRE_OK;
    if (mo_bench_interrupted(w->session)) return mo_fail(err, MOIRE_EINTERRUPTED, "interrupted");
    int code = know(w, o->policies[p], err);
    if (!o->n_loads) load *= w->limit;
    mo_bench_temporary(w->session, ".trace", w->run, sizeof w->run);
    if (!code) code = record(w, o->policies[p], load, o->seeds[0], w->run, err);
    json_t *row = json_pack("{s:s, s:f, s:f, s:[]}", "policy", o->policies[p], "load", load, "limit",
                            w->limit, "predicted");
    for (size_t i = 0; !code && i < sizeof steps / sizeof *steps; i++)
        code = predict(w, (int)i, row, err);
    unlink(w->run);
    if (code) {
        json_decref(row);
        return code;
    }
    if (json_array_append_new(mo_bench_journal_results(&w->journal), row))
        return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    return mo_bench_journal_note(&w->journal, piece, err);
}

/* The first row's run once more, with the same arrivals. */
static int again(struct work *w, moire_error *err) {
    const struct mo_bench_serve_options *o = &w->options->serve;
    const json_t *first = json_array_get(mo_bench_journal_results(&w->journal), 0);
    if (mo_bench_journal_has(&w->journal, "again")) return MOIRE_OK;
    if (mo_bench_interrupted(w->session)) return mo_fail(err, MOIRE_EINTERRUPTED, "interrupted");
    mo_bench_temporary(w->session, ".trace", w->run, sizeof w->run);
    json_t *document = NULL;
    const struct mo_bench_replay_options r = {.trace = w->run};
    int code =
        record(w, mo_json_text(first, "policy"), mo_json_number(first, "load"), o->seeds[0], w->run, err);
    if (!code) code = mo_bench_replay(w->session->env, &r, &document, err);
    unlink(w->run);
    if (code) return code;
    json_t *row = mo_bench_fidelity_compare(json_object_get(first, "live"),
                                            json_array_get(json_object_get(document, "results"), 0));
    json_object_set_new(row, "with", json_string("live again"));
    json_object_set_new(w->journal.document, "again", row);
    json_decref(document);
    return mo_bench_journal_note(&w->journal, "again", err);
}

/* Targets and rates of a document that goes on stay as they were. */
static int prepare(struct work *w, moire_error *err) {
    struct mo_bench_serve_options serve = w->options->serve;
    if (json_object_get(w->journal.document, "calibration")) serve.calibration = w->options->output;
    int code = mo_bench_calibrate(w->session, &serve, &w->mix, err);
    if (code) return code;
    json_object_set(w->journal.document, "calibration", w->mix.calibration);
    json_object_set_new(w->journal.document, "scenario", json_string(w->mix.scenario.name));
    return MOIRE_OK;
}

int mo_bench_fidelity(struct mo_bench_session *session, const struct mo_bench_fidelity_options *o,
                      json_t **out, moire_error *err) {
    struct work w = {.session = session, .options = o};
    int n_loads = o->serve.n_loads ? o->serve.n_loads : (int)(sizeof of_limit / sizeof *of_limit);
    int code =
        mo_bench_journal_open(session, "fidelity", MO_BENCH_MEASURED, o->output, o->resume, &w.journal, err);
    if (code) return code;
    code = prepare(&w, err);
    bool open = !code;
    for (int p = 0; !code && p < o->serve.n_policies; p++) {
        for (int l = 0; !code && l < n_loads; l++)
            code = one_piece(&w, p, l, err);
        forget(&w);
    }
    if (!code) code = again(&w, err);
    if (open) mo_bench_mix_close(&w.mix);
    *out = mo_bench_journal_finish(&w.journal, code == MOIRE_OK);
    return code;
}
