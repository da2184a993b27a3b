/* SPDX-License-Identifier: Apache-2.0
 * seed_run.c - the loads of one seed, and its search; see seed_run.h. */
#include "bench/search/seed_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "bench/search/load_search.h"

struct run {
    struct mo_bench_session *session;
    const struct mo_bench_serve_options *options;
    const struct mo_bench_mix *mix;
    const struct mo_bench_player *player;
    uint64_t seed;
    json_t *loads; /* of the present system and seed */
};

double mo_bench_grid_load(const struct mo_bench_serve_options *o, int i) {
    return round((i + 1) * o->step * 1e6) * 1e-6;
}

/* The interval of the worst tenant's share tells how much its few queries say. */
static void say_point(const struct run *r, double load, const json_t *point) {
    const json_t *interval = json_object_get(point, "worst_interval");
    double late = mo_json_number(point, "issue_late_p99_ms");
    char all[16], worst[16], note[64] = "", likely[64] = "";
    if (late > 2) snprintf(note, sizeof note, ", arrivals issued %.0f ms late", late);
    if (!mo_bench_kept_up(point)) snprintf(note, sizeof note, ", falls behind");
    if (json_is_array(interval))
        snprintf(likely, sizeof likely, " (%.0f to %.0f)",
                 100 * json_number_value(json_array_get(interval, 0)),
                 100 * json_number_value(json_array_get(interval, 1)));
    mo_bench_say(r->session, "bench: %-26s seed %llu load %.2f: %s within QoS, worst tenant %s%s%s%s",
                 r->player->system->name, (unsigned long long)r->seed, load,
                 mo_json_percent(point, "overall", all), mo_json_percent(point, "worst_tenant", worst),
                 likely, json_is_true(json_object_get(point, "stopped_early")) ? ", stopped early" : "",
                 note);
}

/* *point: borrowed; NULL when no scheduler reaches the goal. */
static int measure(struct run *r, double load, double seconds, const struct mo_bench_goal *goal,
                   json_t **point, moire_error *err) {
    struct mo_bench_serve_options o = *r->options;
    o.seconds = seconds;
    int code = mo_bench_point(r->session->env, r->player, r->mix, &o, load, r->seed, goal, point, err);
    if (code) return code;
    if (*point) {
        json_array_append_new(r->loads, *point);
        say_point(r, load, *point);
    } else {
        mo_bench_say(r->session, "bench: %-26s seed %llu load %.2f: out of reach of any scheduler",
                     r->player->system->name, (unsigned long long)r->seed, load);
    }
    return MOIRE_OK;
}

bool mo_bench_kept_up(const json_t *point) {
    return !json_is_false(json_object_get(point, "keeps_up"));
}

/* A run that ended early has failed what it was for: with all queries every tenant's, too, but not the other
 * way round. */
static void remember(const struct run *r, struct mo_bench_search *search, int i, bool for_every,
                     const json_t *point) {
    double goal = r->options->find_max;
    bool whole = point && !json_is_true(json_object_get(point, "stopped_early"));
    bool kept = whole && mo_bench_kept_up(point);
    if (whole || !for_every)
        search->known[MO_BENCH_OVERALL][i] = kept && mo_json_number(point, "overall") >= goal;
    search->known[MO_BENCH_EVERY_TENANT][i] =
        kept && mo_json_number(point, "worst_tenant") >= goal && mo_bench_all_asked(point);
}

bool mo_bench_all_asked(const json_t *point) {
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(point, "tenants"), i, t) {
        if (mo_json_number(t, "qps") > 0 && !(mo_json_number(t, "n") > 0)) return false;
    }
    return true;
}

double mo_bench_probe_seconds(const struct mo_bench_serve_options *o, const double *rates, int n) {
    double least = 0;
    for (int i = 0; i < n; i++)
        if (rates[i] > 0 && (least == 0 || rates[i] < least)) least = rates[i];
    if (!o->enough || !(least > 0)) return o->seconds;
    return fmin(fmax(o->seconds, o->enough / least), MO_BENCH_LONGEST_PROBE * o->seconds);
}

/* How long a probe at this load lasts. */
static double lasts(const struct run *r, double load) {
    double rates[MO_BENCH_MAX_TENANTS];
    mo_bench_rates(r->mix, load, rates);
    return mo_bench_probe_seconds(r->options, rates, r->mix->scenario.n_tenants);
}

static int probe(void *user, int i, struct mo_bench_search *search, moire_error *err) {
    struct run *r = user;
    const struct mo_bench_goal goal = {r->options->find_max, search->criterion == MO_BENCH_EVERY_TENANT};
    const double load = mo_bench_grid_load(r->options, i);
    json_t *point;
    int code = measure(r, load, lasts(r, load), &goal, &point, err);
    if (!code) remember(r, search, i, goal.every, point);
    return code;
}

/* The point of the grid that the search would probe at this load; -1 = none. */
static int probed(const struct run *r, const struct mo_bench_search *search, double load) {
    const struct mo_bench_serve_options *o = r->options;
    int at = (int)(load / o->step + 0.5) - 1;
    bool on = at >= 0 && at < search->n && fabs(mo_bench_grid_load(o, at) - load) < 1e-9;
    return on && o->find_max > 0 ? at : -1;
}

/* All loads of one seed, those that the search knows then for as long as it would probe them; found carries
 * the answers from seed to seed. */
static int run_seed(struct run *r, struct mo_bench_found *found, moire_error *err) {
    const struct mo_bench_serve_options *o = r->options;
    struct mo_bench_search search;
    int code = MOIRE_OK;
    mo_bench_search_init(&search, (int)(o->max_load / o->step + 1e-9), probe, r);
    for (int i = 0; !code && i < o->n_loads; i++) {
        json_t *point;
        int at = probed(r, &search, o->loads[i]);
        code = measure(r, o->loads[i], at < 0 ? o->seconds : lasts(r, o->loads[i]), NULL, &point, err);
        if (!code && at >= 0) remember(r, &search, at, false, point);
    }
    for (int c = 0; c < MO_BENCH_CRITERIA; c++)
        found->max_load[c] = -1;
    for (int c = 0; !code && o->find_max > 0 && c < MO_BENCH_CRITERIA; c++) {
        int best = -1, *guess = found->guess;
        code = mo_bench_search_max(&search, (enum mo_bench_criterion)c, guess[c], &best, err);
        if (code) break;
        guess[c] = best < 0 ? 0 : best;
        if (c + 1 < MO_BENCH_CRITERIA && guess[c + 1] > guess[c]) guess[c + 1] = guess[c];
        found->max_load[c] = best < 0 ? 0 : mo_bench_grid_load(o, best);
    }
    return code;
}

struct mo_bench_found mo_bench_no_guess(const struct mo_bench_serve_options *options) {
    struct mo_bench_found found;
    double begin = options->expected > 0 ? options->expected - options->step : 0.5;
    for (int c = 0; c < MO_BENCH_CRITERIA; c++) {
        found.max_load[c] = -1;
        found.guess[c] = (int)(begin / options->step + 1e-9);
    }
    return found;
}

static int by_load(const void *pa, const void *pb) {
    double a = json_number_value(json_object_get(*(json_t *const *)pa, "load"));
    double b = json_number_value(json_object_get(*(json_t *const *)pb, "load"));
    return (a > b) - (a < b);
}

/* The same points in order of load. */
static json_t *sorted(json_t *loads) {
    size_t n = json_array_size(loads);
    json_t **items = calloc(n + 1, sizeof(json_t *));
    json_t *out = json_array();
    for (size_t i = 0; items && i < n; i++)
        items[i] = json_array_get(loads, i);
    if (items) qsort((void *)items, n, sizeof *items, by_load);
    for (size_t i = 0; items && i < n; i++)
        json_array_append(out, items[i]);
    free((void *)items);
    json_decref(loads);
    return out;
}

static json_t *result_json(struct run *r, const struct mo_bench_found *found) {
    const struct mo_bench_system *system = r->player->system;
    json_t *row =
        json_pack("{s:s, s:s, s:s, s:s, s:I}", "system", system->family, "policy", system->arrangement,
                  "name", system->name, "about", system->about, "seed", (json_int_t)r->seed);
    static const char *const keys[] = {"max_load_overall", "max_load_every_tenant"};
    for (int c = 0; c < MO_BENCH_CRITERIA; c++)
        json_object_set_new(row, keys[c],
                            found->max_load[c] >= 0 ? json_real(found->max_load[c]) : json_null());
    json_object_set_new(row, "loads", sorted(r->loads));
    if (r->mix->scenario.rated) json_object_set_new(row, "rated", json_true()); /* loads multiply its rates */
    if (system->over) json_object_set_new(row, "over", json_string(system->over));
    r->loads = NULL;
    return row;
}

int mo_bench_seed(struct mo_bench_session *session, const struct mo_bench_player *player,
                  const struct mo_bench_mix *mix, const struct mo_bench_serve_options *options, uint64_t seed,
                  struct mo_bench_found *found, json_t **row, moire_error *err) {
    struct run r = {session, options, mix, player, seed, json_array()};
    int code = run_seed(&r, found, err);
    *row = result_json(&r, found);
    return code;
}

double mo_bench_telling_load(const struct mo_bench_serve_options *o, const struct mo_bench_found *found) {
    double load = found->max_load[MO_BENCH_OVERALL];
    for (int i = 0; !(found->max_load[MO_BENCH_OVERALL] > 0) && i < o->n_loads; i++)
        if (o->loads[i] > load) load = o->loads[i];
    return load > 0 ? load : o->step;
}
