/* SPDX-License-Identifier: Apache-2.0
 * fidelity.c - live runs beside their simulation; see fidelity.h. */
#include "bench/fidelity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "bench/journal.h"
#include "bench/replay.h"
#include "bench/report_page.h"

enum { ENOUGH = 20, OTHER_SEED = 1000 };

struct work {
    struct mo_bench_session *session;
    const struct mo_bench_fidelity_options *options;
    struct mo_bench_mix mix;
    char costs[160], run[160]; /* traces */
};

/* One live run into the trace at `path`. */
static int record(struct work *w, const char *policy, double load, uint64_t seed, const char *path,
                  moire_error *err) {
    struct mo_bench_session *s = w->session;
    const struct mo_bench_mix *mix = &w->mix;
    const struct mo_bench_system system = {policy, "moire", policy, "policy of moire"};
    struct mo_bench_child child;
    json_t *point = NULL;
    mo_bench_say(s, "fidelity: policy %s at load %.2f", policy, load);
    s->record = path;
    int code = mo_bench_child_start(s, &system, mix->scenario.tenants, mix->qos_ns, mix->scenario.n_tenants,
                                    mix->cores, s->generic, false, &child, err);
    if (!code) {
        const struct mo_bench_player player = mo_bench_child_player(&child);
        code = mo_bench_point(s->env, &player, mix, &w->options->serve, load, seed, -1, &point, err);
        mo_bench_child_stop(&child);
    }
    s->record = NULL;
    json_decref(point);
    return code;
}

/* What one simulation says beside the recording: shares, and the largest differences. */
static json_t *compare(const json_t *real, const json_t *guess) {
    double points = fabs(mo_doc_number(real, "overall") - mo_doc_number(guess, "overall")), p95 = 0;
    json_t *tenants = json_array(), *t;
    size_t i;
    json_array_foreach(json_object_get(real, "tenants"), i, t) {
        const json_t *g = json_array_get(json_object_get(guess, "tenants"), i);
        double was = mo_doc_number(t, "p95_ms"), is = mo_doc_number(g, "p95_ms"), n = mo_doc_number(t, "n");
        double within = mo_doc_number(g, "within_qos") - mo_doc_number(t, "within_qos");
        double off = was > 0 ? is / was - 1 : 0;
        if (n >= ENOUGH) {
            p95 = fmax(p95, fabs(off));
            points = fmax(points, fabs(within));
        }
        json_array_append_new(tenants, json_pack("{s:s, s:f, s:f, s:f, s:f}", "name", mo_doc_text(t, "name"),
                                                 "n", n, "points", 100 * within, "p95", off, "p95_ms", is));
    }
    return json_pack("{s:f, s:f, s:f, s:o}", "overall", mo_doc_number(guess, "overall"), "points",
                     100 * points, "p95", p95, "tenants", tenants);
}

/* Simulates a recorded run; costs NULL: on the profiles alone. */
static int predict(struct work *w, const char *costs, json_t *row, const char *key, moire_error *err) {
    const struct mo_bench_replay_options o = {.trace = w->run, .costs = costs};
    json_t *document = NULL;
    int code = mo_bench_replay(w->session->env, &o, &document, err);
    if (code) return code;
    const json_t *results = json_object_get(document, "results");
    json_t *real = json_array_get(results, 0);
    json_object_set(row, "overall", json_object_get(real, "overall"));
    json_object_set(row, "recorded", json_object_get(real, "tenants"));
    json_object_set(row, "block_ratio", json_object_get(document, "block_ratio"));
    json_object_set(row, "stall_ms", json_object_get(document, "stall_ms"));
    json_object_set_new(row, key, compare(real, json_array_get(results, 1)));
    json_decref(document);
    return MOIRE_OK;
}

static int one_piece(struct work *w, struct mo_bench_journal *journal, const char *policy, double load,
                     moire_error *err) {
    const struct mo_bench_serve_options *o = &w->options->serve;
    char piece[128];
    snprintf(piece, sizeof piece, "%s at %.3f", policy, load);
    if (mo_bench_journal_has(journal, piece)) return MOIRE_OK;
    if (mo_bench_interrupted(w->session)) return mo_fail(err, MOIRE_EINTERRUPTED, "interrupted");
    int code = MOIRE_OK;
    if (!w->costs[0]) {
        mo_bench_temporary(w->session, ".costs", w->costs, sizeof w->costs);
        code = record(w, o->policies[0], o->loads[o->n_loads / 2], o->seeds[0] + OTHER_SEED, w->costs, err);
    }
    json_t *row = json_pack("{s:s, s:f}", "policy", policy, "load", load);
    mo_bench_temporary(w->session, ".trace", w->run, sizeof w->run);
    if (!code) code = record(w, policy, load, o->seeds[0], w->run, err);
    if (!code) code = predict(w, NULL, row, "solo", err);
    if (!code) code = predict(w, w->costs, row, "measured", err);
    unlink(w->run);
    if (code) {
        json_decref(row);
        return code;
    }
    if (json_array_append_new(mo_bench_journal_results(journal), row))
        return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    return mo_bench_journal_note(journal, piece, err);
}

int mo_bench_fidelity(struct mo_bench_session *session, const struct mo_bench_fidelity_options *o,
                      json_t **out, moire_error *err) {
    struct work w = {.session = session, .options = o};
    struct mo_bench_journal journal;
    int code = mo_bench_journal_open(session, "fidelity", o->output, o->resume, &journal, err);
    if (code) return code;
    code = mo_bench_calibrate(session, &o->serve, &w.mix, err);
    bool open = !code;
    for (int l = 0; !code && l < o->serve.n_loads; l++)
        for (int p = 0; !code && p < o->serve.n_policies; p++)
            code = one_piece(&w, &journal, o->serve.policies[p], o->serve.loads[l], err);
    if (w.costs[0]) unlink(w.costs);
    if (open) {
        json_object_set_new(journal.document, "scenario", json_string(w.mix.scenario.name));
        mo_bench_mix_close(&w.mix);
    }
    *out = mo_bench_journal_finish(&journal, code == MOIRE_OK);
    return code;
}

static void print_row(const json_t *row) {
    const json_t *solo = json_object_get(row, "solo"), *with = json_object_get(row, "measured");
    size_t i;
    json_t *t;
    printf("%-14.14s %5.2f %9.2f %%  %8.2f %% %7.1f %7.1f %%  %8.2f %% %7.1f %7.1f %%   %.3f, %.0f\n",
           mo_doc_text(row, "policy"), mo_doc_number(row, "load"), 100 * mo_doc_number(row, "overall"),
           100 * mo_doc_number(solo, "overall"), mo_doc_number(solo, "points"),
           100 * mo_doc_number(solo, "p95"), 100 * mo_doc_number(with, "overall"),
           mo_doc_number(with, "points"), 100 * mo_doc_number(with, "p95"), mo_doc_number(row, "block_ratio"),
           mo_doc_number(row, "stall_ms"));
    json_array_foreach(json_object_get(row, "recorded"), i, t) {
        const json_t *s = json_array_get(json_object_get(solo, "tenants"), i);
        const json_t *m = json_array_get(json_object_get(with, "tenants"), i);
        printf("    %-20.20s %5.0f queries %6.2f %% in time, p95 %8.2f ms;  %+6.1f points %+6.1f %%;  %+6.1f "
               "points %+6.1f %%\n",
               mo_doc_text(t, "name"), mo_doc_number(t, "n"), 100 * mo_doc_number(t, "within_qos"),
               mo_doc_number(t, "p95_ms"), mo_doc_number(s, "points"), 100 * mo_doc_number(s, "p95"),
               mo_doc_number(m, "points"), 100 * mo_doc_number(m, "p95"));
    }
}

void mo_bench_fidelity_print(const json_t *document) {
    size_t i;
    json_t *row;
    printf(
        "share of queries in time, live and simulated; largest differences over all and the tenants with %d "
        "queries\n%-14s %5s %11s  %10s %7s %9s  %10s %7s %9s   %s\n",
        ENOUGH, "policy", "load", "live", "profiles", "points", "p95", "measured", "points", "p95",
        "blocks / profile, stalls ms");
    json_array_foreach(json_object_get(document, "results"), i, row) print_row(row);
}
