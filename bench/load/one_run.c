/* SPDX-License-Identifier: Apache-2.0
 * one_run.c - one system under one load with one seed; see serve.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/data/early_stopping.h"
#include "bench/load/worth.h"

/* Latency quantiles kept for the distribution plots. */
static const double quantiles[] = {1,  5,  10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60,   65,
                                   70, 75, 80, 85, 90, 92, 94, 95, 96, 97, 98, 99, 99.5, 100};

static json_t *interval_json(int met, int n) {
    double interval[2];
    mo_bench_wilson(met, n, interval);
    return n ? json_pack("[f,f]", interval[0], interval[1]) : json_null();
}

/* A tenant without queries has no share, and one without answers no latency: null. */
static json_t *tenant_json(const struct mo_bench_tenant *t, const struct mo_bench_tenant_score *s,
                           double rate) {
    json_t *q = json_array();
    for (size_t i = 0; s->n_latency && i < sizeof quantiles / sizeof quantiles[0]; i++)
        json_array_append_new(q, json_pack("[f,f]", quantiles[i],
                                           mo_bench_percentile(s->latency_ms, s->n_latency, quantiles[i])));
    const bool any = s->n_latency > 0;
    json_t *out =
        json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:i, s:o, s:o, s:f, s:o}", "name", t->name,
                  "n", s->n, "within_qos", mo_json_known(s->n > 0, s->within), "within_interval",
                  interval_json(s->met, s->n), "p50_ms", mo_json_known(any, s->p50_ms), "p95_ms",
                  mo_json_known(any, s->p95_ms), "p99_ms", mo_json_known(any, s->p99_ms), "shed", s->shed,
                  "failed", s->failed, "unfinished", s->unfinished, "mean_ms", mo_json_known(any, s->mean_ms),
                  "max_ms", mo_json_known(any, s->max_ms), "qps", rate, "quantiles", q);
    if (s->n_entry)
        json_object_set_new(out, "entry",
                            json_pack("{s:f, s:f, s:f}", "p50_ms", s->entry_p50_ms, "p99_ms", s->entry_p99_ms,
                                      "max_ms", s->entry_max_ms));
    if (s->n && (t->qos.ms > 0 || t->qos.times_solo > 0)) {
        const int64_t missing = mo_early_missing(s->met, s->n - s->met, 0.99, 0.99);
        json_object_set_new(
            out, "early_stopping",
            json_pack("{s:f, s:b, s:I}", "share", 0.99, "met", missing == 0, "missing", (json_int_t)missing));
    }
    return out;
}

static json_t *point_json(const struct mo_bench_mix *mix, const struct mo_bench_score *s, double load,
                          uint64_t seed, const double *rates, double seconds) {
    const struct mo_bench_tenant_score none = {0}, *worst = &none;
    double qps = 0;
    if (s->worst_tenant >= 0) worst = &s->tenants[s->worst_tenant];
    json_t *tenants = json_array();
    for (int i = 0; i < mix->scenario.n_tenants; i++) {
        qps += rates[i];
        json_array_append_new(tenants, tenant_json(&mix->scenario.tenants[i], &s->tenants[i], rates[i]));
    }
    return json_pack("{s:f, s:f, s:f, s:o, s:o, s:o, s:o, s:i, s:I, s:b, s:f, s:o}", "load", load, "qps", qps,
                     "seconds", seconds, "overall", mo_json_known(s->n > 0, s->overall), "overall_interval",
                     interval_json(s->met, s->n), "worst_tenant", mo_json_known(worst->n > 0, s->worst),
                     "worst_interval", interval_json(worst->met, worst->n), "n", s->n, "seed",
                     (json_int_t)seed, "stopped_early", s->cut_ns != INT64_MAX, "issue_late_p99_ms",
                     s->issue_late_ms, "tenants", tenants);
}

static int draw(const struct mo_env *env, const struct mo_bench_mix *mix,
                const struct mo_bench_serve_options *o, const double *rates, uint64_t seed,
                struct mo_bench_schedule *out, moire_error *err) {
    if (o->given) return mo_bench_schedule_copy(env, o->given, out, err);
    int64_t longest = 0, warmup = (int64_t)(o->warmup * 1e9), window = (int64_t)(o->seconds * 1e9);
    for (int i = 0; i < mix->scenario.n_tenants; i++)
        if (mix->qos_ns[i] > longest) longest = mix->qos_ns[i];
    struct mo_bench_curve curves[MO_BENCH_MAX_TENANTS];
    for (int i = 0; i < mix->scenario.n_tenants; i++)
        curves[i] = mix->scenario.tenants[i].curve;
    int code = mo_bench_schedule_draw(env, &o->process, seed, rates, curves, mix->scenario.n_tenants, warmup,
                                      window, warmup + window + longest, out, err);
    if (!code) mo_bench_close_loops(mix, out);
    return code;
}

/* What was left unanswered, and what no scheduler exceeds, beside what was reached. */
static int add_judgement(const struct mo_bench_mix *mix, const struct mo_bench_schedule *schedule,
                         const struct mo_bench_record *records, const struct mo_bench_limits *limits,
                         bool is_limit, json_t *point, moire_error *err) {
    const struct mo_bench_backlog left =
        mo_bench_backlog(schedule, records, mix->need, mix->scenario.n_tenants, mix->qos_ns);
    bool keeps_up = mo_bench_keeps_up(&left);
    const struct mo_bound_shares *bound =
        keeps_up && limits->keeping.overall >= 0 ? &limits->keeping : &limits->any;
    json_t *backlog = json_pack("{s:i, s:f, s:f}", "queries", left.queries, "core_s", left.core_ns * 1e-9,
                                "limit_s", left.limit_ns * 1e-9);
    bool bad = json_object_set_new(point, "backlog", backlog) ||
               json_object_set_new(point, "keeps_up", json_boolean(keeps_up));
    if (!bad && bound->overall >= 0)
        bad = json_object_set_new(point, "bound", json_real(bound->overall)) ||
              json_object_set_new(point, "bound_worst", json_real(bound->every));
    if (!bad && is_limit && bound->overall >= 0)
        bad = json_object_set_new(point, "overall", json_real(bound->overall)) ||
              json_object_set_new(point, "worst_tenant", json_real(bound->every));
    return bad ? mo_fail(err, MOIRE_ENOMEM, "out of memory") : MOIRE_OK;
}

static struct mo_bench_budget budget_of(const struct mo_bench_schedule *s, int n_tenants,
                                        const struct mo_bench_goal *goal) {
    struct mo_bench_budget out = {.all = -1};
    int n = 0, of[MO_BENCH_MAX_TENANTS] = {0};
    if (!goal) return out;
    for (int i = 0; i < s->n; i++) {
        bool counts = mo_bench_counts(s, s->items[i].at_ns);
        of[s->items[i].tenant] += counts;
        n += counts;
    }
    out.all = (int)((1 - goal->share) * n + 1e-9);
    out.n_tenants = goal->every ? n_tenants : 0;
    for (int i = 0; i < out.n_tenants; i++)
        out.tenant[i] = (int)((1 - goal->share) * of[i] + 1e-9);
    return out;
}

/* No scheduler reaches the goal and keeps up: that is proved. */
static bool hopeless(const struct mo_bench_mix *mix, const struct mo_bench_limits *limits,
                     const struct mo_bench_goal *goal) {
    if (!goal || !mix->proved || limits->any.overall < 0) return false;
    return (goal->every ? limits->keeping.every : limits->keeping.overall) < goal->share;
}

/* What a run took of the processors. */
struct usage {
    struct mo_others others;
    double client_cores, server_cores; /* of a system behind a network; -1 = it is none */
};

/* Has the schedule played, and notes what others used of the processors meanwhile, and who asked. */
static int play_watched(const struct mo_bench_player *player, const struct mo_bench_schedule *schedule,
                        const struct mo_bench_budget *budget, struct mo_bench_record *records,
                        int64_t *cut_ns, struct usage *used, moire_error *err) {
    const pid_t pid = player->pid ? player->pid(player->self) : 0;
    const pid_t client = player->client ? player->client(player->self) : 0;
    *used = (struct usage){.client_cores = -1, .server_cores = -1};
    if (!pid) return player->play(player->self, schedule, budget, records, cut_ns, err);
    const double asked = mo_cpu_time_of(client), all = mo_cpu_time_of(pid);
    const struct mo_cpu_moment from = mo_cpu_moment_now(pid);
    int code = player->play(player->self, schedule, budget, records, cut_ns, err);
    const struct mo_cpu_moment to = mo_cpu_moment_now(pid);
    mo_others_add(&used->others, &from, &to);
    if (!client || !(to.now_s > from.now_s)) return code;
    used->client_cores = (mo_cpu_time_of(client) - asked) / (to.now_s - from.now_s);
    used->server_cores = (mo_cpu_time_of(pid) - all) / (to.now_s - from.now_s) - used->client_cores;
    return code;
}

static void note_usage(json_t *point, const struct usage *used) {
    if (used->client_cores >= 0) {
        json_object_set_new(point, "client_cores", json_real(used->client_cores));
        json_object_set_new(point, "server_cores", json_real(used->server_cores));
    }
    if (!(used->others.seconds > 0)) return;
    json_object_set_new(point, "others_cores", json_real(mo_others_cores(&used->others)));
    json_object_set_new(point, "others_busy", json_boolean(mo_others_busy(&used->others)));
}

void mo_bench_doubt_runs(const json_t *results, json_t *why) {
    int runs = 0, busy = 0;
    double most = 0;
    size_t i, k;
    json_t *result, *point;
    json_array_foreach((json_t *)results, i, result) {
        json_array_foreach(json_object_get(result, "loads"), k, point) {
            runs++;
            if (!json_is_true(json_object_get(point, "others_busy"))) continue;
            busy++;
            most = fmax(most, mo_json_number(point, "others_cores"));
        }
    }
    if (busy)
        json_array_append_new(why,
                              json_sprintf("other programs ran during %d of %d runs under load, and kept up "
                                           "to %.2f cores busy",
                                           busy, runs, most));
}

/* A runner that was built before there were closed loops plays the arrivals only. */
static int check_loops(const struct mo_bench_child *child, const struct mo_bench_schedule *s,
                       const struct mo_bench_record *records, moire_error *err) {
    for (int k = 0; k < s->n_closed; k++)
        if (records[s->n + k * s->room].issue_ns < 0)
            return mo_fail(err, MOIRE_EFAILED, "%s: its runner knows no closed loops; run `make peers`",
                           child->system->name);
    return MOIRE_OK;
}

/* Has the runner play the schedule; fills records. */
static int play(void *self, const struct mo_bench_schedule *schedule, const struct mo_bench_budget *budget,
                struct mo_bench_record *records, int64_t *cut_ns, moire_error *err) {
    struct mo_bench_child *child = self;
    char from[256], to[256], misses[MO_BENCH_MAX_TENANTS * 12 + 16], command[600 + sizeof misses];
    const char *answer;
    mo_bench_temporary(child->session, ".schedule", from, sizeof from);
    mo_bench_temporary(child->session, ".records", to, sizeof to);
    int code = mo_bench_schedule_write(schedule, from, err);
    mo_bench_budget_write(budget, misses, sizeof misses);
    snprintf(command, sizeof command, "serve %s\t%s\t%s", from, to, misses);
    int timeout_s = (int)(schedule->total_ns / 1000000000) + 120;
    if (!code) code = mo_bench_child_ask(child, command, timeout_s, &answer, err);
    if (!code) code = mo_bench_records_read(to, records, mo_bench_slots(schedule), cut_ns, err);
    if (!code) code = check_loops(child, schedule, records, err);
    unlink(from);
    unlink(to);
    return code;
}

struct mo_bench_player mo_bench_child_player(struct mo_bench_child *child) {
    return (struct mo_bench_player){.system = child->system, .play = play, .self = child};
}

/* Plays, scores and judges; *out is one element of "loads". */
static int measure(const struct mo_env *env, const struct mo_bench_player *player,
                   const struct mo_bench_mix *mix, const struct mo_bench_schedule *schedule,
                   const struct mo_bench_budget *budget, const struct mo_bench_limits *limits, uint64_t seed,
                   struct mo_bench_record *records, json_t **out, moire_error *err) {
    double rates[MO_BENCH_MAX_TENANTS];
    struct mo_bench_score score;
    struct usage used;
    int64_t cut_ns;
    mo_bench_rates(mix, schedule->load, rates);
    int code = play_watched(player, schedule, budget, records, &cut_ns, &used, err);
    if (!code)
        code =
            mo_bench_score(env, schedule, records, mix->qos_ns, mix->scenario.n_tenants, cut_ns, &score, err);
    if (code) return code;
    *out = point_json(mix, &score, schedule->load, seed, rates, (double)schedule->window_ns * 1e-9);
    json_t *classes =
        *out ? mo_bench_classes_json(mix, player->system->family, schedule, records, &score, cut_ns) : NULL;
    if (classes) json_object_set_new(*out, "classes", classes);
    mo_bench_score_free(env, &score);
    if (!*out) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    note_usage(*out, &used);
    if (cut_ns == INT64_MAX) code = add_judgement(mix, schedule, records, limits, player->limit, *out, err);
    if (!code) return MOIRE_OK;
    json_decref(*out);
    *out = NULL;
    return code;
}

static void note_stalls(json_t *point, int64_t burnt_ns) {
    if (point && burnt_ns > 0)
        json_object_set_new(point, "stalled_core_s", json_real((double)burnt_ns * 1e-9));
}

int mo_bench_point(const struct mo_env *env, const struct mo_bench_player *player,
                   const struct mo_bench_mix *mix, const struct mo_bench_serve_options *options, double load,
                   uint64_t seed, const struct mo_bench_goal *goal, json_t **out, moire_error *err) {
    double rates[MO_BENCH_MAX_TENANTS];
    struct mo_bench_schedule schedule;
    struct mo_bench_limits limits;
    struct mo_bench_stalling *stalling = NULL;
    struct mo_bench_player watched = *player;
    *out = NULL;
    mo_bench_rates(mix, load, rates);
    int code = draw(env, mix, options, rates, seed, &schedule, err);
    if (code) return code;
    schedule.load = load;
    const struct mo_bench_budget budget = budget_of(&schedule, mix->scenario.n_tenants, goal);
    code = mo_bench_limit(env, &schedule, mix->need, mix->scenario.n_tenants, mix->qos_ns, mix->cores,
                          &limits, err);
    if (!code && !hopeless(mix, &limits, goal)) {
        const int slots = mo_bench_slots(&schedule);
        struct mo_bench_record *records = mo_alloc(env, ((size_t)slots + 1) * sizeof *records);
        if (records) mo_bench_records_clear(records, slots);
        const struct mo_bench_stalling_config bad_day = {.env = env,
                                                         .stalls = &options->stalls,
                                                         .n_cores = mix->cores,
                                                         .length_ns = schedule.total_ns,
                                                         .seed = seed};
        code = records ? mo_bench_stalling_start(&bad_day, &stalling, err)
                       : mo_fail(err, MOIRE_ENOMEM, "out of memory");
        if (stalling) watched.pid = NULL; /* what that takes of the processors is not others' */
        if (!code) code = measure(env, &watched, mix, &schedule, &budget, &limits, seed, records, out, err);
        note_stalls(code ? NULL : *out, mo_bench_stalling_stop(stalling));
        mo_free(env, records);
    }
    mo_bench_schedule_free(env, &schedule);
    return code;
}
