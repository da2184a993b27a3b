/* SPDX-License-Identifier: Apache-2.0
 * solo_times.c - measures solo times until they agree; see solo_times.h.
 *
 * Targets are multiples of the best peer's solo latency (of moire's own when no peer is measured); loads
 * count in one-core times of the fastest system measured, moire included. */
#include "bench/load/solo_times.h"

#include <math.h>
#include <string.h>
#include "bench/client/server_table.h"
#include "bench/trust/others.h"

/* Least and most slices of a series; each of the least has its part of the calibration's seconds.  Five, as
 * two of three were seen to agree on a time a quarter too long while the host was slow. */
enum { LEAST_ROUNDS = 5, MOST_ROUNDS = 10, WATCH_MS = 500 };

static const double agree_within = 0.05;
static const double spare_s = 30;        /* for all rounds beyond the least, of all tenants together */
static const double held_at_most = 0.25; /* of the memory, by the runners of tenants that take turns */

/* A tenant's runners; number i of its set is series[first + i]. */
struct measured {
    struct mo_bench_solo_set set;
    int first;
};

struct calibration {
    struct mo_bench_session *session;
    const struct mo_bench_serve_options *options;
    struct mo_bench_mix *mix;
    struct mo_solo_rule rule;
    struct mo_others before, during;
    json_t *tenants;
    json_t *why; /* of single series, in the order of tenants */
    struct measured *measured;
    struct mo_solo_series *series;
    int n_series;
    int first, last; /* the tenants that take turns now: [first, last) */
    int round;       /* that was said */
};

/* The families of the peers asked for, each once; of a model server, what runs its models. */
static int families(const struct mo_bench_serve_options *o, const char **out) {
    int n = 0;
    for (int i = 0; i < o->n_peers; i++) {
        const struct mo_server_family *server = mo_server_family(o->peers[i]->family);
        const char *family = server ? server->engine : o->peers[i]->family;
        bool seen = false;
        for (int k = 0; k < n; k++)
            seen |= !strcmp(out[k], family);
        if (!seen && n < MO_BENCH_MAX_SYSTEMS / 2 - 2) out[n++] = family;
    }
    return n;
}

/* --- what is made of the series ------------------------------------------------------------------------- */
double mo_bench_solo_best(const struct mo_solo_series *series, int n, int threads, bool peers) {
    double best = 0;
    for (int i = 0; i < n; i++) {
        const struct mo_solo_series *s = &series[i];
        if (s->lost || !s->n || s->threads > threads || (peers && !strcmp(s->system, "moire"))) continue;
        double ms = mo_solo_least(s);
        if (best == 0 || ms < best) best = ms;
    }
    return best;
}

static json_t *doubt(const char *tenant, const struct mo_solo_series *series, int n, int i,
                     const struct mo_solo_rule *rule) {
    const struct mo_solo_series *s = &series[i];
    const int fewer = mo_solo_faster_with_fewer(series, n, i, rule);
    const char *plural = s->threads == 1 ? "" : "s";
    switch (mo_solo_judge(series, n, i, rule)) {
    case MO_SOLO_APART:
        return json_sprintf(
            "%s on %s with %d thread%s: the two shortest of %d times, %.1f ms and more, differ "
            "by %.1f %%",
            tenant, s->system, s->threads, plural, s->n, mo_solo_least(s), 100 * mo_solo_spread(s));
    case MO_SOLO_SLOWER:
        return json_sprintf("%s on %s: %.1f ms with %d threads, but %.1f ms with %d, in %d slices", tenant,
                            s->system, mo_solo_least(s), s->threads, mo_solo_least(&series[fewer]),
                            series[fewer].threads, s->n);
    case MO_SOLO_BUSY:
        return json_sprintf("%s on %s with %d thread%s: other programs ran during %d of its %d slices",
                            tenant, s->system, s->threads, plural, s->n - mo_solo_quiet(s), s->n);
    default:
        return NULL;
    }
}

void mo_bench_doubt_series(const char *tenant, const struct mo_solo_series *series, int n,
                           const struct mo_solo_rule *rule, json_t *why) {
    for (int i = 0; i < n; i++) {
        json_t *sentence = series[i].lost ? NULL : doubt(tenant, series, n, i, rule);
        if (sentence) json_array_append_new(why, sentence);
    }
}

void mo_bench_doubt_machine(const struct mo_others *others, const char *when, json_t *why) {
    if (!mo_others_busy(others)) return;
    json_array_append_new(
        why, json_sprintf("other programs kept %.2f of %d cores busy %s; on a quiet machine "
                          "it is at most %.2f",
                          mo_others_cores(others), others->cpus, when, mo_others_limit(others->cpus)));
}

static json_t *rows_json(const struct calibration *c, const struct measured *m) {
    const struct mo_solo_series *series = &c->series[m->first];
    json_t *rows = json_array();
    for (int i = 0; i < m->set.n; i++) {
        const struct mo_solo_series *s = &series[i];
        if (s->lost || !s->n) continue;
        bool agreed = mo_solo_judge(series, m->set.n, i, &c->rule) == MO_SOLO_AGREED;
        json_array_append_new(rows, json_pack("{s:s, s:i, s:f, s:f, s:i, s:f, s:b}", "system", s->system,
                                              "threads", s->threads, "min_ms", mo_solo_least(s), "median_ms",
                                              m->set.solo[i].median_ms, "slices", s->n, "spread",
                                              mo_solo_spread(s), "agreed", (int)agreed));
    }
    return rows;
}

/* Cores that a query of this tenant may have. */
static int most_threads(const struct calibration *c, const struct mo_bench_tenant *t) {
    return t->qos.cores > 0 ? (int)t->qos.cores : c->mix->cores;
}

/* Target and rates of a tenant from its series, and what stands against them. */
static int conclude(struct calibration *c, int tenant, moire_error *err) {
    const struct mo_bench_tenant *t = &c->mix->scenario.tenants[tenant];
    const struct measured *m = &c->measured[tenant];
    const struct mo_solo_series *series = &c->series[m->first];
    const int most = most_threads(c, t);
    const double solo_ms = mo_bench_solo_best(series, m->set.n, 1, false);
    if (solo_ms == 0) return mo_fail(err, MOIRE_EFAILED, "%s: no system could run it alone", t->name);
    double base = mo_bench_solo_best(series, m->set.n, most, true);
    if (base == 0) base = mo_bench_solo_best(series, m->set.n, most, false);
    const double qos_ms = t->qos.ms > 0 ? t->qos.ms : t->qos.times_solo * base;
    c->mix->qos_ns[tenant] = (int64_t)(qos_ms * 1e6);
    c->mix->solo_ms[tenant] = solo_ms;
    mo_bench_doubt_series(t->name, series, m->set.n, &c->rule, c->why);
    json_array_append_new(c->tenants, json_pack("{s:s, s:o, s:f, s:o}", "name", t->name, "qos_ms",
                                                mo_json_known(qos_ms > 0, qos_ms), "solo_ms", solo_ms, "solo",
                                                rows_json(c, m)));
    return MOIRE_OK;
}

/* --- tenants in turns ----------------------------------------------------------------------------------- */
static int slice(void *self, int i, struct mo_solo_slice *out, moire_error *err) {
    struct calibration *c = self;
    const int at = c->measured[c->first].first + i;
    int k = c->first;
    while (k + 1 < c->last && c->measured[k + 1].first <= at)
        k++;
    struct measured *m = &c->measured[k];
    struct mo_bench_solo_taken taken;
    const int ms = (int)(c->options->calibration_seconds * 1e3 / LEAST_ROUNDS);
    if (c->series[at].n == c->round) {
        c->round++;
        mo_bench_say(c->session, "bench: solo latency, slice %d of %s", c->round,
                     c->round <= LEAST_ROUNDS ? "all" : "those that do not agree yet");
    }
    int code = mo_bench_solo_slice(&m->set, at - m->first, ms, &taken, err);
    if (code) return code;
    c->series[at].lost = !m->set.child[at - m->first].pid;
    *out = (struct mo_solo_slice){taken.least_ms, mo_others_busy(&taken.others)};
    mo_others_sum(&c->during, &taken.others);
    return MOIRE_OK;
}

static double now_s(void *self) {
    const struct calibration *c = self;
    return (double)mo_now(c->session->env) * 1e-9;
}

static int open_tenant(struct calibration *c, int tenant, moire_error *err) {
    const struct mo_bench_serve_options *o = c->options;
    const struct mo_bench_tenant *t = &c->mix->scenario.tenants[tenant];
    struct measured *m = &c->measured[tenant];
    const char *names[MO_BENCH_MAX_SYSTEMS];
    const struct mo_bench_solo_spec spec = {.moire = o->n_policies > 0 && !c->session->generic,
                                            .generic = o->n_policies > 0 && c->session->generic,
                                            .families = names,
                                            .n_families = families(o, names)};
    const int most = most_threads(c, t), threads[] = {1, most};
    mo_bench_say(c->session, "bench: solo latency of %s: loading it on every system", t->name);
    const bool wide = most != 1 && (t->qos.times_solo > 0 || t->outstanding);
    int code = mo_bench_solo_open(c->session, t, threads, wide ? 2 : 1, &spec, &m->set, err);
    m->first = c->n_series;
    for (int i = 0; i < m->set.n; i++)
        c->series[c->n_series++] = (struct mo_solo_series){.model = tenant,
                                                           .system = m->set.solo[i].system->family,
                                                           .threads = m->set.solo[i].threads,
                                                           .lost = !m->set.child[i].pid};
    return code;
}

/* Resident memory of the runners that are loaded, bytes. */
static double held(const struct calibration *c) {
    double mib = 0;
    for (int k = c->first; k < c->last; k++)
        for (int i = 0; i < c->measured[k].set.n; i++) {
            struct mo_resident parts;
            if (!c->measured[k].set.child[i].pid) continue;
            mo_bench_child_resident(&c->measured[k].set.child[i], &parts);
            for (int kind = 0; kind < MO_RESIDENT_KINDS; kind++)
                mib += parts.mib[kind];
        }
    return mib * (1 << 20);
}

/* Measures the tenants from c->first on that fit into memory together, at least one; c->last: behind them. */
static int take_turns(struct calibration *c, moire_error *err) {
    const struct mo_sys *sys = c->session->env->sys;
    const double room = held_at_most * (double)sys->memory(sys->self);
    const struct mo_solo_source source = {.slice = slice, .now_s = now_s, .self = c};
    int code = MOIRE_OK;
    c->last = c->first;
    do {
        code = open_tenant(c, c->last++, err);
    } while (!code && c->last < c->mix->scenario.n_tenants && held(c) < room);
    for (int k = c->first; k < c->last; k++)
        c->measured[k].set.beside = &c->measured[k + 1 < c->last ? k + 1 : c->first].set;
    const int begin = c->measured[c->first].first;
    c->round = 0;
    if (!code) code = mo_solo_rounds(&source, &c->series[begin], c->n_series - begin, &c->rule, err);
    for (int k = c->first; k < c->last; k++)
        mo_bench_solo_close(&c->measured[k].set);
    for (int k = c->first; !code && k < c->last; k++)
        code = conclude(c, k, err);
    for (int k = c->first; k < c->last; k++)
        mo_bench_solo_free(c->measured[k].set.solo, c->measured[k].set.n);
    return code;
}

static int measure_all(struct calibration *c, moire_error *err) {
    const struct mo_env *env = c->session->env;
    const size_t n = (size_t)c->mix->scenario.n_tenants;
    int code = MOIRE_OK;
    c->measured = mo_alloc(env, n * sizeof *c->measured);
    c->series = mo_alloc(env, n * MO_BENCH_MAX_SYSTEMS * sizeof *c->series);
    if (!c->measured || !c->series) code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (c->first = 0; !code && c->first < (int)n; c->first = c->last)
        code = take_turns(c, err);
    mo_free(env, c->series);
    mo_free(env, c->measured);
    return code;
}

/* --- all ------------------------------------------------------------------------------------------------ */
static json_t *others_json(const struct calibration *c) {
    const double before = mo_others_cores(&c->before), during = mo_others_cores(&c->during);
    return json_pack("{s:o, s:o, s:i, s:f}", "before_cores", mo_json_known(before >= 0, before),
                     "during_cores", mo_json_known(during >= 0, during), "cores", c->before.cpus,
                     "limit_cores", mo_others_limit(c->before.cpus));
}

/* What stands against the calibration, the machine first: most of the rest follows from it. */
static json_t *doubts(const struct calibration *c) {
    json_t *why = json_array();
    mo_bench_doubt_machine(&c->before, "before the measurement", why);
    mo_bench_doubt_machine(&c->during, "during the measurement", why);
    json_array_extend(why, c->why);
    return why;
}

static void say_doubts(const struct mo_bench_session *s, const json_t *why) {
    if (json_array_size(why) > 0)
        mo_bench_say(s, "bench: the calibration cannot be trusted: %s%s",
                     json_string_value(json_array_get(why, 0)),
                     json_array_size(why) > 1 ? "; more in the report" : "");
}

int mo_bench_measure_targets(struct mo_bench_session *session, const struct mo_bench_serve_options *options,
                             struct mo_bench_mix *mix, moire_error *err) {
    struct calibration c = {.session = session,
                            .options = options,
                            .mix = mix,
                            .rule = {agree_within, LEAST_ROUNDS, MOST_ROUNDS, spare_s},
                            .before = mo_others_watch(WATCH_MS),
                            .tenants = json_array(),
                            .why = json_array()};
    int code = measure_all(&c, err);
    json_t *why = doubts(&c);
    if (!code) say_doubts(session, why);
    mix->calibration =
        json_pack("{s:b, s:o, s:o, s:{s:f, s:i, s:i}, s:o}", "trusted", json_array_size(why) == 0, "why", why,
                  "others", others_json(&c), "rule", "within", c.rule.within, "least_slices",
                  c.rule.least_rounds, "most_slices", c.rule.most_rounds, "tenants", c.tenants);
    json_decref(c.why);
    return code || mix->calibration ? code : mo_fail(err, MOIRE_ENOMEM, "out of memory");
}
