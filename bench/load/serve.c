/* SPDX-License-Identifier: Apache-2.0
 * serve.c - the `moire bench serve` command: systems x seeds x loads, and the search for the highest load.
 *
 * One system is up at a time.  All its seeds and loads run in one process, whose memory is read at the end;
 * where systems take turns, those of one seed, before the next system begins.  On GPUs, where the planner is
 * told the rates to expect at the start, as the simulator tells it, another load has a process of its own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/data/experiment.h"
#include "bench/choice/beside.h"
#include "bench/choice/fronts.h"
#include "bench/client/server_table.h"
#include "bench/report/frontier.h"
#include "bench/search/seed_run.h"

/* --- a system that is up ------------------------------------------------------------------------------ */
struct live {
    struct mo_bench_session *session;
    const struct mo_bench_mix *mix;
    const struct mo_bench_system *system;
    bool timeline;
    bool declares; /* its planner is told the rates of a run, so each load has a process of its own */
    double load;   /* that was declared */
    struct mo_bench_child child;
};

static int start_live(struct live *l, double load, moire_error *err) {
    const struct mo_bench_mix *mix = l->mix;
    struct mo_bench_tenant tenants[MO_BENCH_MAX_TENANTS];
    double rates[MO_BENCH_MAX_TENANTS];
    mo_bench_rates(mix, load, rates);
    for (int i = 0; i < mix->scenario.n_tenants; i++) {
        tenants[i] = mix->scenario.tenants[i];
        tenants[i].declared = l->declares ? mo_bench_first_rate(&tenants[i], rates[i]) : 0;
    }
    l->load = load;
    return mo_bench_child_start(l->session, l->system, tenants, mix->qos_ns, mix->scenario.n_tenants,
                                mix->cores, l->session->generic, l->timeline, &l->child, err);
}

/* The simulator begins every run with the rates of its load declared, and so does this. */
static int play_live(void *self, const struct mo_bench_schedule *schedule,
                     const struct mo_bench_budget *budget, struct mo_bench_record *records, int64_t *cut_ns,
                     moire_error *err) {
    struct live *l = self;
    int code = MOIRE_OK;
    if (l->declares && fabs(schedule->load - l->load) > 1e-9) {
        mo_bench_child_stop(&l->child);
        code = start_live(l, schedule->load, err);
    }
    const struct mo_bench_player player = mo_bench_child_player(&l->child);
    return code ? code : player.play(player.self, schedule, budget, records, cut_ns, err);
}

/* On GPUs a run has a second process, and perhaps a new one for each load. */
static pid_t live_pid(void *self) {
    const struct live *l = self;
    if (l->session->device) return 0;
    return l->system->over ? -l->child.pid : l->child.pid;
}

/* Behind a network the load generator is a process beside the server's. */
static pid_t live_client(void *self) {
    const struct live *l = self;
    return l->system->over ? l->child.pid : 0;
}

/* The load of the first run. */
static double first_load(const struct mo_bench_serve_options *o) {
    return o->n_loads ? o->loads[0] : mo_bench_grid_load(o, mo_bench_no_guess(o).guess[0]);
}

/* moire plays a short run of its own for its report, so that cost and timeline belong to one known load; but
 * not where it is recorded: a recording is of the run that was scored, and so is its report. */
static void self_report(struct mo_bench_child *child, const struct mo_bench_player *player,
                        const struct mo_bench_mix *mix, const struct mo_bench_serve_options *options,
                        const struct mo_bench_found *found, uint64_t seed, json_t *row) {
    char path[256], command[300];
    const char *answer;
    moire_error ignored;
    json_t *point = NULL;
    struct mo_bench_serve_options brief = *options;
    double load = mo_bench_telling_load(options, found);
    if (brief.seconds > 3) brief.seconds = 3;
    if (!child->session->record) {
        if (mo_bench_point(child->session->env, player, mix, &brief, load, seed, NULL, &point, &ignored))
            return;
        json_decref(point);
    }
    mo_bench_temporary(child->session, ".report", path, sizeof path);
    snprintf(command, sizeof command, "report %s", path);
    if (mo_bench_child_ask(child, command, 60, &answer, &ignored)) return;
    json_t *report = json_load_file(path, 0, NULL), *part;
    const char *key;
    json_object_foreach(report, key, part) {
        json_object_set_new(part, "load", json_real(load));
        json_object_set(row, key, part);
    }
    json_decref(report);
}

/* The last result of a system carries the memory of its process. */
static void add_memory(const struct mo_bench_child *child, json_t *row) {
    double now, peak;
    mo_bench_child_memory(child, &now, &peak);
    struct mo_resident parts;
    mo_bench_child_resident(child, &parts);
    json_t *memory =
        json_pack("{s:f, s:f, s:f}", "rss_mib", now, "peak_mib", peak, "file_mib", parts.file_mib);
    for (int k = 0; k < MO_RESIDENT_KINDS; k++)
        json_object_set_new(memory, mo_resident_name((enum mo_resident_kind)k), json_real(parts.mib[k]));
    json_object_set_new(row, "memory", memory);
}

static int run_system(struct mo_bench_session *session, const struct mo_bench_serve_options *options,
                      const struct mo_bench_mix *mix, const struct mo_bench_system *system, json_t *results,
                      moire_error *err) {
    bool moire = !strcmp(system->family, "moire");
    struct live live = {.session = session,
                        .mix = mix,
                        .system = system,
                        .timeline = moire && !system->over && options->timeline,
                        .declares = moire && session->device};
    mo_bench_say(session, "bench: starting %s", system->name);
    int code = start_live(&live, first_load(options), err);
    if (code) return code;
    const struct mo_bench_player player = {
        .system = system, .play = play_live, .self = &live, .pid = live_pid, .client = live_client};
    struct mo_bench_found found = mo_bench_no_guess(options);
    for (int i = 0; !code && i < options->n_seeds; i++) {
        json_t *row;
        code = mo_bench_seed(session, &player, mix, options, options->seeds[i], &found, &row, err);
        if (code || (i + 1 == options->n_seeds && !options->comes_again)) {
            add_memory(&live.child, row);
            if (!code && moire && !system->over)
                self_report(&live.child, &player, mix, options, &found, options->seeds[i], row);
        }
        json_array_append_new(results, row);
    }
    mo_bench_child_stop(&live.child);
    return code;
}

/* Said once, however often it is tried. */
static void leave_out(const struct mo_bench_session *s, json_t *left_out, const char *name, const char *why) {
    size_t i;
    json_t *row;
    json_array_foreach(left_out, i, row) {
        if (!strcmp(mo_json_text(row, "system"), name)) return;
    }
    mo_bench_say(s, "bench: left out: %s: %s", name, why);
    json_array_append_new(left_out, json_pack("{s:s, s:s}", "system", name, "why", why));
}

static int run_peer(struct mo_bench_session *s, const struct mo_bench_serve_options *o,
                    const struct mo_bench_mix *mix, const struct mo_bench_system *peer, json_t *results,
                    json_t *left_out, moire_error *err) {
    const char *why = mo_bench_no_applications(&mix->scenario, NULL) ? "knows no applications"
                                                                     : mo_bench_system_missing(s, peer);
    int code = why ? MOIRE_OK : run_system(s, o, mix, peer, results, err);
    if (code == MOIRE_EINTERRUPTED) return code;
    if (code) why = err->message; /* a peer's failure is a finding, not ours */
    if (why) leave_out(s, left_out, peer->name, why);
    return MOIRE_OK;
}

/* Each where it belongs: model servers behind a network, and others in one process. */
static int run_peers(struct mo_bench_session *s, const struct mo_bench_serve_options *o,
                     const struct mo_bench_mix *mix, json_t *results, json_t *left_out, moire_error *err) {
    int code = MOIRE_OK;
    for (int k = 0; k < (o->n_over ? o->n_over : 1); k++)
        for (int i = 0; !code && i < o->n_peers; i++) {
            char name[64];
            struct mo_bench_system peer = *o->peers[i];
            peer.over = o->over[k];
            if (mo_server_is(&peer) != (peer.over != NULL)) continue;
            if (peer.over) snprintf(name, sizeof name, "%.48s/%s", o->peers[i]->name, peer.over);
            if (peer.over) peer.name = name;
            code = run_peer(s, o, mix, &peer, results, left_out, err);
        }
    return code;
}

static int run_policies(struct mo_bench_session *s, const struct mo_bench_serve_options *o,
                        const struct mo_bench_mix *mix, json_t *results, moire_error *err) {
    int code = MOIRE_OK;
    for (int i = 0; !code && i < o->n_policies; i++)
        for (int k = 0; !code && k < (o->n_over ? o->n_over : 1); k++) {
            char name[64];
            const char *over = o->over[k];
            snprintf(name, sizeof name, "moire/%.40s%s%s", o->policies[i], over ? "/" : "", over ? over : "");
            const struct mo_bench_system system = {name, "moire", o->policies[i], "policy of moire", over};
            code = run_system(s, o, mix, &system, results, err);
        }
    return code;
}

/* All systems with one seed after the other, so that a machine that changes meanwhile is the same for all. */
static int run_turns(struct mo_bench_session *s, const struct mo_bench_serve_options *o,
                     const struct mo_bench_mix *mix, json_t *results, json_t *left_out, moire_error *err) {
    int code = MOIRE_OK;
    for (int i = 0; !code && i < o->n_seeds; i++) {
        struct mo_bench_serve_options one = *o;
        one.seeds[0] = o->seeds[i];
        one.n_seeds = 1;
        one.comes_again = i + 1 < o->n_seeds;
        code = run_policies(s, &one, mix, results, err);
        if (!code) code = run_peers(s, &one, mix, results, left_out, err);
    }
    return code;
}

json_t *mo_bench_seeds_json(const struct mo_bench_serve_options *o) {
    json_t *list = json_array();
    for (int i = 0; i < o->n_seeds; i++)
        json_array_append_new(list, json_integer((json_int_t)o->seeds[i]));
    return list;
}

json_t *mo_bench_process_json(const struct mo_bench_serve_options *o) {
    const char *name = mo_process_name(o->process.kind);
    return o->process.cv > 0 ? json_sprintf("%s:%g", name, o->process.cv) : json_string(name);
}

/* A comparison with another policy, or beside a neighbour.  That it fails is a finding, which the document
 * tells, and no reason to lose the rest. */
static int compare(struct mo_bench_session *s, const struct mo_bench_serve_options *o,
                   const struct mo_bench_mix *mix, const char *name,
                   int (*play)(struct mo_bench_session *, const struct mo_bench_serve_options *,
                               const struct mo_bench_mix *, json_t **, moire_error *),
                   json_t **out, json_t *left_out, moire_error *err) {
    int code = play(s, o, mix, out, err);
    if (!code || code == MOIRE_EINTERRUPTED) return code;
    leave_out(s, left_out, name, err->message);
    return MOIRE_OK;
}

/* Both of them, as far as they are asked for. */
static int compare_all(struct mo_bench_session *s, const struct mo_bench_serve_options *o,
                       const struct mo_bench_mix *mix, json_t **versus, json_t **beside, json_t *left_out,
                       moire_error *err) {
    char name[80];
    int code = MOIRE_OK;
    if (o->against) {
        snprintf(name, sizeof name, "comparison with %.60s", o->against);
        code = compare(s, o, mix, name, mo_bench_versus, versus, left_out, err);
    }
    if (!code && o->n_neighbour)
        code = compare(s, o, mix, "comparison beside a neighbour", mo_bench_beside, beside, left_out, err);
    return code;
}

int mo_bench_serve(struct mo_bench_session *session, const struct mo_bench_serve_options *options,
                   json_t **out, moire_error *err) {
    struct mo_bench_mix mix;
    json_t *experiment = mo_bench_experiment(session->command, session->cores);
    int code = mo_bench_calibrate(session, options, &mix, err);
    if (code) {
        json_decref(experiment);
        return code;
    }
    json_t *results = json_array(), *left_out = json_array(), *versus = NULL, *beside = NULL;
    code = options->in_turns ? run_turns(session, options, &mix, results, left_out, err)
                             : run_policies(session, options, &mix, results, err);
    if (!code) code = compare_all(session, options, &mix, &versus, &beside, left_out, err);
    if (!code && !options->in_turns) code = run_peers(session, options, &mix, results, left_out, err);
    json_t *why = json_array();
    mo_bench_doubt_runs(results, why);
    json_object_set_new(experiment, "seeds", mo_bench_seeds_json(options));
    json_object_set_new(experiment, "peers", mo_bench_peer_versions(session));
    *out = json_pack("{s:o, s:s, s:s, s:I, s:o, s:f, s:f, s:f, s:o, s:O, s:{s:b, s:o}, s:o, s:o, s:b}",
                     "experiment", experiment, "scenario", mix.scenario.name, "about", mix.scenario.about,
                     "seed", (json_int_t)options->seeds[0], "seeds", mo_bench_seeds_json(options), "seconds",
                     options->seconds, "warmup_s", options->warmup, "goal", options->find_max, "arrivals",
                     mo_bench_process_json(options), "calibration", mix.calibration, "runs", "trusted",
                     json_array_size(why) == 0, "why", why, "results", results, "left_out", left_out,
                     "complete", code == MOIRE_OK);
    json_object_set_new(*out, "versus", versus ? versus : json_null());
    json_object_set_new(*out, "neighbour", beside ? beside : json_null());
    json_object_set_new(*out, "objective", json_string(session->objective));
    json_object_set_new(*out, "frontier", mo_frontier_json(&mix.scenario, results));
    json_object_set_new(*out, "fronts", mo_bench_fronts(session, &mix, results));
    mo_bench_mix_close(&mix);
    return !*out && !code ? mo_fail(err, MOIRE_ENOMEM, "out of memory") : code;
}
