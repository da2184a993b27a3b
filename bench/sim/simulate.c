/* SPDX-License-Identifier: Apache-2.0
 * simulate.c - `moire sim`: policies x seeds in worker processes, and the document; see simulate.h. */
#define _GNU_SOURCE
#include "bench/sim/simulate.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include "bench/load/moire_report.h"
#include "bench/report/frontier.h"
#include "bench/report/report_page.h"
#include "bench/search/seed_run.h"
#include "bench/sim/run_counters.h"
#include "bench/sim/simulate_summary.h"
#include "bench/sim/workers.h"

/* --- what a run needs to know --------------------------------------------------------------------------- */
/* Solo times come from the profile: one core for the load's unit, the scenario's count for the target. */
static int aim(struct mo_bench_simulation *m, int i, json_t *list) {
    const struct mo_bench_tenant *t = &m->mix.scenario.tenants[i];
    const struct mo_profile *p = m->profile[i];
    int cores = t->qos.cores > 0 ? (int)t->qos.cores : m->machine.sim.n_cores;
    int wide = mo_profile_fastest(p, 0, m->machine.sim.n_cores);
    double one = (double)mo_profile_time(p, 1, 0, p->n_layers) * 1e-6;
    double solo = (double)mo_profile_time(p, cores, 0, p->n_layers) * 1e-6;
    double qos = t->qos.ms > 0 ? t->qos.ms : t->qos.times_solo * solo;
    m->mix.qos_ns[i] = (int64_t)(qos * 1e6);
    m->mix.solo_ms[i] = one;
    int few = p->level ? p->needed[1] + p->needed[2] + p->needed[3] : p->n_layers;
    return json_array_append_new(
        list, json_pack("{s:s, s:i, s:i, s:o, s:f, s:f, s:[{s:s, s:i, s:f, s:f}]}", "name", t->name, "layers",
                        p->n_layers, "layers_of_three_versions", few, "qos_ms", mo_json_known(qos > 0, qos),
                        "solo_ms", one, "fastest_ms", (double)mo_profile_time(p, wide, 0, p->n_layers) * 1e-6,
                        "solo", "system", "moire", "threads", cores, "min_ms", solo, "median_ms", solo));
}

int mo_bench_simulation_aim(struct mo_bench_simulation *m, moire_error *err) {
    json_t *list = json_array();
    int bad = 0;
    for (int i = 0; i < m->mix.scenario.n_tenants; i++)
        bad |= aim(m, i, list);
    m->mix.calibration = json_pack("{s:o}", "tenants", list);
    mo_bench_simulation_needs(m, m->mix.qos_ns, m->mix.need);
    m->mix.proved = true;
    return bad || !m->mix.calibration ? mo_fail(err, MOIRE_ENOMEM, "out of memory") : MOIRE_OK;
}

/* A model that the machine does not know is the scenario's error, at its line. */
static int open_profile(struct mo_bench_simulation *m, int i, moire_error *err) {
    const struct mo_bench_scenario *s = &m->mix.scenario;
    moire_error why = {0};
    char where[40];
    int code = mo_bench_machine_profile(m->env, &m->machine, s->tenants[i].model, &m->profile[i], &why);
    snprintf(where, sizeof where, "tenants[%d].model", i);
    if (code == MOIRE_EINVAL) return mo_json_fail(&s->file, where, err, "%s", why.message);
    if (code && err) *err = why;
    return code;
}

static int open_cores(struct mo_bench_simulation *m, const struct mo_bench_simulate_options *o,
                      moire_error *err) {
    int code = mo_bench_no_applications(&m->mix.scenario, err);
    m->mix.cores = m->machine.sim.n_cores;
    for (int i = 0; !code && i < m->mix.scenario.n_tenants; i++)
        code = open_profile(m, i, err);
    if (code) return code;
    if (!o->serve.calibration) return mo_bench_simulation_aim(m, err);
    code = mo_bench_reuse(m->env, o->serve.calibration, &m->mix, err);
    if (!code) mo_bench_simulation_needs(m, m->mix.qos_ns, m->mix.need);
    m->mix.proved = !code;
    return code;
}

/* Once, whoever else asks for it. */
static int read_learned(struct mo_bench_simulation *m, const struct mo_bench_simulate_options *o,
                        moire_error *err) {
    if (m->learned) return MOIRE_OK;
    m->learned = mo_alloc(m->env, sizeof *m->learned);
    m->side->gpus.learned = m->learned;
    return m->learned ? mo_bench_machine_learned(m->env, &m->machine, o->weights, m->learned, err)
                      : mo_fail(err, MOIRE_ENOMEM, "out of memory");
}

static int open_gpus(struct mo_bench_simulation *m, const struct mo_bench_simulate_options *o,
                     moire_error *err) {
    if (o->serve.calibration)
        return mo_fail(err, MOIRE_EINVAL,
                       "--calibration is for machines of cores: on GPUs targets are the scenario's");
    int code = mo_bench_no_closed_loops(&m->mix.scenario, "a machine of GPUs", err);
    if (code) return code;
    m->side = mo_alloc(m->env, sizeof *m->side);
    if (!m->side) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    code = mo_bench_gpu_side_open(m->env, &m->machine, &m->mix, m->side, err);
    m->machine.sim.gpus = &m->side->gpus;
    m->machine.sim.n_cores = m->side->gpus.n_units;
    for (int i = 0; !code && i < o->serve.n_policies; i++) {
        const struct mo_policy *p = mo_policy_find(o->serve.policies[i]);
        if (p && p->learned) code = read_learned(m, o, err);
    }
    return code;
}

int mo_bench_simulation_open(const struct mo_env *env, const struct mo_bench_simulate_options *o,
                             struct mo_bench_simulation *out, moire_error *err) {
    memset(out, 0, sizeof *out);
    out->env = env;
    out->cost = o->cost;
    int code = mo_bench_machine_open_with(env, o->machine, o->with, o->n_with, &out->machine, err);
    if (!code) code = mo_bench_scenario_load(env, o->serve.scenario, &out->mix.scenario, err);
    if (!code) mo_bench_scenario_strive(&out->mix.scenario, o->serve.objective);
    if (!code)
        code = mo_bench_on_gpus(&out->machine, &o->serve) ? open_gpus(out, o, err) : open_cores(out, o, err);
    if (!code) mo_bench_weigh(&out->mix);
    if (!code && mo_bench_machine_powered(&out->machine, out->side != NULL, &out->power))
        out->machine.sim.power = &out->power;
    if (code) mo_bench_simulation_close(out);
    return code;
}

void mo_bench_simulation_close(struct mo_bench_simulation *m) {
    for (int i = 0; i < MO_BENCH_MAX_TENANTS; i++)
        mo_profile_destroy(m->profile[i]);
    if (m->side) mo_bench_gpu_side_close(m->side);
    if (m->side) mo_free(m->env, m->side);
    if (m->learned) mo_policy_close(m->learned);
    mo_free(m->env, m->learned);
    mo_bench_mix_close(&m->mix);
    mo_bench_machine_close(&m->machine);
    memset(m, 0, sizeof *m);
}

/* --- pieces of work ------------------------------------------------------------------------------------- */
/* One policy and one seed; the player's self. */
struct piece {
    const struct mo_bench_simulation *simulation;
    const struct mo_policy *policy;
    uint64_t seed;
    double goal;                 /* share in time that is strived for */
    struct mo_bench_played last; /* run; */
    double load;                 /* of that, when it was played to its end; else 0 */
    int64_t decisions;           /* of all runs: blocks that began, and blocks that got other cores */
    struct mo_bench_run_counters counters;
};

static int play(void *self, const struct mo_bench_schedule *schedule, const struct mo_bench_budget *budget,
                struct mo_bench_record *records, int64_t *cut_ns, moire_error *err) {
    struct piece *p = self;
    int code = mo_bench_simulate_play(p->simulation, p->policy, p->seed, schedule, budget, records, cut_ns,
                                      &p->last, err);
    p->load = *cut_ns == INT64_MAX ? schedule->load : 0;
    p->decisions += p->last.stats.blocks + p->last.stats.resized;
    mo_bench_run_counters_note(&p->counters, schedule->load, &p->last);
    return code;
}

static int play_bound(void *self, const struct mo_bench_schedule *schedule,
                      const struct mo_bench_budget *budget, struct mo_bench_record *records, int64_t *cut_ns,
                      moire_error *err) {
    (void)budget;
    *cut_ns = INT64_MAX;
    return mo_bench_simulate_bound(((struct piece *)self)->simulation, schedule, records, err);
}

static int play_offline(void *self, const struct mo_bench_schedule *schedule,
                        const struct mo_bench_budget *budget, struct mo_bench_record *records,
                        int64_t *cut_ns, moire_error *err) {
    const struct piece *p = self;
    (void)budget;
    *cut_ns = INT64_MAX;
    return mo_bench_simulate_offline(p->simulation, p->seed, p->goal, schedule, records, err);
}

/* Counters of a run as a live system reports them, into row[key]; one that has to be played again lasts as
 * long as it did. */
static void report(struct piece *p, const struct mo_bench_player *player,
                   const struct mo_bench_serve_options *o, double load, const char *key, json_t *row) {
    json_t *point = NULL;
    moire_error ignored;
    struct mo_bench_serve_options again = *o;
    const double lasted = mo_json_number(mo_doc_point(row, load), "seconds");
    if (lasted > 0) again.seconds = lasted;
    if (p->load != load && mo_bench_point(p->simulation->env, player, &p->simulation->mix, &again, load,
                                          p->seed, NULL, &point, &ignored))
        return;
    json_decref(point);
    json_t *counters = mo_bench_scheduling_json(&p->last.stats);
    json_object_set_new(counters, "load", json_real(load));
    json_object_set_new(row, key, counters);
}

/* Who plays: a policy, or one that knows all arrivals. */
static const struct {
    const char *name, *about;
    int (*play)(void *self, const struct mo_bench_schedule *schedule, const struct mo_bench_budget *budget,
                struct mo_bench_record *records, int64_t *cut_ns, moire_error *err);
} clairvoyant[] = {{"bound", "upper limit for any scheduler", play_bound},
                   {"offline", "best schedule found with all arrivals known", play_offline}};

/* What the pieces have in common. */
struct pieces {
    struct mo_bench_session *session;
    const struct mo_bench_simulation *simulation;
    const struct mo_bench_serve_options *options;
};

static int work(void *self, int index, json_t **row, int64_t *decisions, moire_error *err) {
    const struct pieces *all = self;
    const struct mo_bench_simulation *m = all->simulation;
    const struct mo_bench_serve_options *o = all->options;
    const char *name = o->policies[index / o->n_seeds];
    struct piece piece = {.simulation = m,
                          .policy = mo_policy_find(name),
                          .seed = o->seeds[index % o->n_seeds],
                          .goal = o->find_max > 0 ? o->find_max : 1};
    char label[64];
    snprintf(label, sizeof label, "moire/%.40s", name);
    struct mo_bench_system system = {label, "moire", name, "policy of moire, simulated", NULL};
    struct mo_bench_player player = {.system = &system, .play = piece.policy ? play : NULL, .self = &piece};
    for (size_t i = 0; i < sizeof clairvoyant / sizeof *clairvoyant; i++)
        if (!strcmp(name, clairvoyant[i].name)) {
            system.about = clairvoyant[i].about;
            player.play = clairvoyant[i].play;
            player.limit = player.play == play_bound;
        }
    struct mo_bench_found found = mo_bench_no_guess(o);
    *row = NULL;
    if (m->side && player.play != play)
        return mo_fail(err, MOIRE_EINVAL, "'%s' knows machines of cores only, '%s' has GPUs", name,
                       m->machine.name);
    if (!player.play) return mo_fail(err, MOIRE_EINVAL, "no policy '%s'", name);
    int code = mo_bench_seed(all->session, &player, &m->mix, o, piece.seed, &found, row, err);
    double load = code ? 0 : mo_bench_telling_load(o, &found);
    if (!code && piece.policy) {
        report(&piece, &player, o, load, "scheduling", *row);
        mo_bench_run_counters_add(&piece.counters, *row);
    }
    *decisions += piece.decisions;
    return code;
}

/* CPU time of all processes that were waited for. */
static double children_seconds(void) {
    struct rusage u = {0};
    getrusage(RUSAGE_CHILDREN, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static int run_workers(struct mo_bench_session *session, const struct mo_bench_simulate_options *o,
                       const struct mo_bench_simulation *m, json_t *results, moire_error *err) {
    struct pieces pieces = {.session = session, .simulation = m, .options = &o->serve};
    const struct mo_bench_workers workers = {.session = session,
                                             .n_jobs = o->jobs > 0 ? o->jobs : session->cores,
                                             .n_pieces = o->serve.n_policies * o->serve.n_seeds,
                                             .piece = work,
                                             .self = &pieces};
    int64_t decisions = 0;
    const double before = children_seconds();
    int code = mo_bench_workers_run(&workers, results, &decisions, err);
    double seconds = children_seconds() - before;
    if (!code && seconds > 0)
        mo_bench_say(
            session,
            "sim: %lld decisions (blocks begun or given other cores) in %.1f s of CPU time: %.2f million a "
            "second, %.2f us each with all that simulates it",
            (long long)decisions, seconds, (double)decisions * 1e-6 / seconds,
            decisions ? seconds * 1e6 / (double)decisions : 0.0);
    return code;
}

static json_t *machine_json(const struct mo_bench_simulation *m) {
    json_t *root = m->machine.file.root;
    return root ? json_incref(root)
                : json_pack("{s:s, s:i}", "name", "as recorded", "cores", m->machine.sim.n_cores);
}

static json_t *document_of(const struct mo_bench_session *session, const struct mo_bench_serve_options *o,
                           const struct mo_bench_simulation *m, json_t *results, bool complete) {
    json_t *experiment =
        json_pack("{s:o, s:s, s:s, s:o}", "machine", machine_json(m), "moire", moire_version(), "command",
                  session->command, "seeds", mo_bench_seeds_json(o));
    return json_pack("{s:o, s:s, s:s, s:s, s:I, s:o, s:f, s:f, s:f, s:o, s:O, s:o, s:o, s:o, s:[], s:b}",
                     "experiment", experiment, "scenario", m->mix.scenario.name, "about",
                     m->mix.scenario.about, "objective", mo_objective_name(m->mix.scenario.objective), "seed",
                     (json_int_t)o->seeds[0], "seeds", mo_bench_seeds_json(o), "seconds", o->seconds,
                     "warmup_s", o->warmup, "goal", o->find_max, "arrivals", mo_bench_process_json(o),
                     "calibration", m->mix.calibration, "summary", mo_bench_summary(results), "frontier",
                     mo_frontier_json(&m->mix.scenario, results), "results", results, "left_out", "complete",
                     complete);
}

/* What happened as the first result, then the policies, all on the recorded arrivals. */
static int replay(struct mo_bench_session *session, struct mo_bench_simulate_options *o, json_t **out,
                  moire_error *err) {
    struct mo_bench_replay *r = NULL;
    struct mo_bench_serve_options *serve = &o->serve;
    json_t *results = json_array(), *row = NULL;
    int code = mo_bench_replay_open(session->env, &o->replay, &r, err);
    if (code) {
        json_decref(results);
        return code;
    }
    const struct mo_bench_simulation *m = mo_bench_replay_simulation(r);
    serve->given = mo_bench_replay_schedule(r);
    serve->seconds = (double)serve->given->window_ns * 1e-9;
    serve->warmup = serve->find_max = 0;
    serve->loads[0] = serve->n_loads = 1;
    if (!serve->n_policies) serve->policies[serve->n_policies++] = mo_bench_replay_policy(r);
    const struct mo_bench_player recorded = mo_bench_replay_recorded(r);
    struct mo_bench_found found = mo_bench_no_guess(serve);
    code = mo_bench_seed(session, &recorded, &m->mix, serve, serve->seeds[0], &found, &row, err);
    json_array_append_new(results, row);
    if (!code) code = run_workers(session, o, m, results, err);
    *out = document_of(session, serve, m, results, code == MOIRE_OK);
    mo_bench_replay_close(r);
    return !*out && !code ? mo_fail(err, MOIRE_ENOMEM, "out of memory") : code;
}

int mo_bench_simulate(struct mo_bench_session *session, const struct mo_bench_simulate_options *o,
                      json_t **out, moire_error *err) {
    struct mo_bench_simulation m;
    struct mo_bench_simulate_options own = *o;
    if (o->replay.trace) return replay(session, &own, out, err);
    int code = mo_bench_simulation_open(session->env, o, &m, err);
    if (code) return code;
    json_t *results = json_array();
    code = run_workers(session, o, &m, results, err);
    *out = document_of(session, &o->serve, &m, results, code == MOIRE_OK);
    mo_bench_simulation_close(&m);
    return !*out && !code ? mo_fail(err, MOIRE_ENOMEM, "out of memory") : code;
}
