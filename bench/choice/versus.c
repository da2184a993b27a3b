/* SPDX-License-Identifier: Apache-2.0
 * versus.c - two policies in turns; see versus.h. */
#include "bench/choice/versus.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "bench/data/mean.h"

static const double TURN_S = 2, WARMUP_S = 0.3;

/* --- comparing ---------------------------------------------------------------------------------------- */
bool mo_versus_read(const json_t *point, const json_t *report, struct mo_versus_turn *out) {
    const json_t *scheduling = json_object_get(report, "scheduling");
    double accepted = mo_json_number(scheduling, "accepted"), n = 0;
    size_t i;
    json_t *tenant;
    *out = (struct mo_versus_turn){.within = mo_json_number(point, "overall")};
    json_array_foreach(json_object_get(point, "tenants"), i, tenant) {
        double of = mo_json_number(tenant, "n"), ms = mo_json_number(tenant, "mean_ms");
        if (!(of > 0 && ms > 0)) continue;
        out->latency += of * log(ms);
        n += of;
    }
    if (!(n > 0 && accepted > 0)) return false;
    out->n = (int)n;
    out->latency /= n;
    out->core_s = mo_json_number(scheduling, "kernel_core_s") / accepted;
    return out->core_s > 0;
}

static json_t *interval(const struct mo_mean *m, bool quotient) {
    double half = mo_mean_ci95(m), v[3] = {m->mean, m->mean - half, m->mean + half};
    for (int i = 0; quotient && i < 3; i++)
        v[i] = exp(v[i]);
    bool known = half >= 0;
    return json_pack("{s:f, s:o, s:o}", "mean", v[0], "low", mo_json_known(known, v[1]), "high",
                     mo_json_known(known, v[2]));
}

json_t *mo_versus_json(const struct mo_versus_turn *a, const struct mo_versus_turn *b, int n) {
    struct mo_mean within = {0}, latency = {0}, core = {0};
    json_int_t queries = 0;
    for (int i = 0; i < n; i++) {
        mo_mean_add(&within, 100 * (a[i].within - b[i].within));
        mo_mean_add(&latency, a[i].latency - b[i].latency);
        mo_mean_add(&core, log(a[i].core_s / b[i].core_s));
        queries += a[i].n + b[i].n;
    }
    return json_pack("{s:i, s:I, s:o, s:o, s:o}", "pairs", n, "queries", queries, "within_points",
                     interval(&within, false), "latency_ratio", interval(&latency, true), "core_time_ratio",
                     interval(&core, true));
}

/* --- turns -------------------------------------------------------------------------------------------- */
int mo_versus_begin(struct mo_bench_session *s, const struct mo_bench_mix *mix, const char *policy,
                    bool trace, struct mo_versus_side *side, moire_error *err) {
    snprintf(side->name, sizeof side->name, "moire/%.40s", policy);
    side->system = (struct mo_bench_system){side->name, "moire", policy, "policy of moire", NULL};
    return mo_bench_child_start(s, &side->system, mix->scenario.tenants, mix->qos_ns, mix->scenario.n_tenants,
                                mix->cores, s->generic, trace, &side->child, err);
}

void mo_versus_end(struct mo_versus_side *side) {
    if (side->child.session) mo_bench_child_stop(&side->child);
}

/* What the runner knows about the turn that is over. */
static int ask_report(struct mo_bench_child *child, json_t **out, moire_error *err) {
    char path[256], command[300];
    const char *answer;
    mo_bench_temporary(child->session, ".report", path, sizeof path);
    snprintf(command, sizeof command, "report %s", path);
    int code = mo_bench_child_ask(child, command, 60, &answer, err);
    if (code) return code;
    *out = json_load_file(path, 0, NULL);
    unlink(path);
    return *out ? MOIRE_OK : mo_fail(err, MOIRE_EIO, "%s: no report", child->system->name);
}

int mo_versus_take(const struct mo_bench_mix *mix, const struct mo_bench_serve_options *o, double load,
                   uint64_t seed, struct mo_versus_side *side, struct mo_versus_turn *out, json_t **choices,
                   moire_error *err) {
    const struct mo_bench_player player = mo_bench_child_player(&side->child);
    json_t *point = NULL, *report = NULL;
    int code = mo_bench_point(side->child.session->env, &player, mix, o, load, seed, NULL, &point, err);
    if (!code) code = ask_report(&side->child, &report, err);
    if (!code && !mo_versus_read(point, report, out))
        code = mo_fail(err, MOIRE_EFAILED, "%s answered no query of a turn", side->name);
    if (choices) *choices = code ? NULL : json_incref(json_object_get(report, "choices"));
    json_decref(report);
    json_decref(point);
    return code;
}

struct mo_bench_serve_options mo_versus_brief(const struct mo_bench_serve_options *options) {
    struct mo_bench_serve_options brief = *options;
    if (brief.seconds > TURN_S) brief.seconds = TURN_S;
    if (brief.warmup > WARMUP_S) brief.warmup = WARMUP_S;
    return brief;
}

double mo_versus_load(const struct mo_bench_serve_options *o) {
    double load = o->step;
    for (int i = 0; i < o->n_loads; i++)
        if (!i || o->loads[i] > load) load = o->loads[i];
    return load;
}

/* --- two policies ------------------------------------------------------------------------------------- */
struct match {
    struct mo_versus_side side[2];
    struct mo_versus_turn turn[2][MO_VERSUS_PAIRS];
};

static int play(struct mo_bench_session *s, const struct mo_bench_serve_options *o,
                const struct mo_bench_mix *mix, double load, struct match *m, moire_error *err) {
    int code = mo_versus_begin(s, mix, o->policies[0], false, &m->side[0], err);
    if (!code) code = mo_versus_begin(s, mix, o->against, false, &m->side[1], err);
    for (int k = 0; !code && k < MO_VERSUS_PAIRS; k++)
        for (int turn = 0; !code && turn < 2; turn++) {
            const int who = (turn + k) % 2;
            code = mo_versus_take(mix, o, load, o->seeds[0] + (uint64_t)k, &m->side[who], &m->turn[who][k],
                                  NULL, err);
        }
    for (int i = 0; i < 2; i++)
        mo_versus_end(&m->side[i]);
    return code;
}

/* One measure as text: in per cent, quotients as what they differ from one. */
static const char *measure_text(const json_t *versus, const char *key, bool quotient, char out[64]) {
    const json_t *m = json_object_get(versus, key);
    double less = quotient ? 1 : 0, by = quotient ? 100 : 1;
    snprintf(out, 64, "%+.1f %s (%+.1f to %+.1f)", by * (mo_json_number(m, "mean") - less),
             quotient ? "%" : "points", by * (mo_json_number(m, "low") - less),
             by * (mo_json_number(m, "high") - less));
    return out;
}

static void tell(const struct mo_bench_session *s, const struct mo_bench_serve_options *o, const json_t *v) {
    char text[3][64];
    mo_bench_say(s, "bench: %s against %s: in time %s, mean latency %s, core time of a query %s",
                 o->policies[0], o->against, measure_text(v, "within_points", false, text[0]),
                 measure_text(v, "latency_ratio", true, text[1]),
                 measure_text(v, "core_time_ratio", true, text[2]));
}

int mo_bench_versus(struct mo_bench_session *session, const struct mo_bench_serve_options *options,
                    const struct mo_bench_mix *mix, json_t **out, moire_error *err) {
    struct match *match = mo_alloc(session->env, sizeof *match);
    const struct mo_bench_serve_options brief = mo_versus_brief(options);
    const double load = mo_versus_load(options);
    if (!match) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    mo_bench_say(session, "bench: %s and %s in turns at load %.2f", options->policies[0], options->against,
                 load);
    int code = play(session, &brief, mix, load, match, err);
    if (!code) {
        *out = mo_versus_json(match->turn[0], match->turn[1], MO_VERSUS_PAIRS);
        tell(session, options, *out);
        json_object_set_new(*out, "policy", json_string(options->policies[0]));
        json_object_set_new(*out, "against", json_string(options->against));
        json_object_set_new(*out, "load", json_real(load));
        json_object_set_new(*out, "seconds", json_real(brief.seconds));
    }
    mo_free(session->env, match);
    return code;
}
