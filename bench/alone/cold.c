/* SPDX-License-Identifier: Apache-2.0
 * cold.c - time to the first answers, systems in turn; see cold.h. */
#define _GNU_SOURCE
#include "bench/alone/cold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/data/journal.h"

enum { ROUNDS = 5, FIRST_TIMEOUT_S = 300 };

/* What one system took; the round with the shortest total stands for it. */
struct cold {
    const struct mo_bench_system *system;
    bool generic;
    double load_ms, answers_ms, process_ms, peak_mib;
    int rounds;
    char why[200];
};

static double total(const struct cold *c) {
    return c->load_ms + c->answers_ms;
}

/* The models as tenants of one process. */
struct mix {
    struct mo_bench_tenant tenants[MO_BENCH_MAX_TENANTS];
    int64_t qos_ns[MO_BENCH_MAX_TENANTS];
    int n;
};

static int start_and_ask(struct mo_bench_session *s, const struct mix *mix, int threads,
                         const struct cold *want, struct cold *got, moire_error *err) {
    struct mo_bench_child child = {0};
    const char *answer;
    char *at;
    int64_t since = mo_now(s->env);
    int code = mo_bench_child_start(s, want->system, mix->tenants, mix->qos_ns, mix->n, threads,
                                    want->generic, false, &child, err);
    if (!code) code = mo_bench_child_ask(&child, "first", FIRST_TIMEOUT_S, &answer, err);
    if (!code && strncmp(answer, "first ", 6) != 0)
        code = mo_fail(err, MOIRE_EFAILED, "%s: unexpected answer from its runner", want->system->name);
    if (!code) {
        double now_mib;
        got->process_ms = (double)(mo_now(s->env) - since) * 1e-6;
        got->load_ms = (double)strtoll(answer + 6, &at, 10) * 1e-6;
        got->answers_ms = (double)strtoll(at, NULL, 10) * 1e-6;
        mo_bench_child_memory(&child, &now_mib, &got->peak_mib);
    }
    mo_bench_child_stop(&child);
    return code;
}

/* One round of one system.  A peer that fails is left out from then on. */
static int measure(struct mo_bench_session *s, const struct mix *mix, int threads, struct cold *c,
                   moire_error *err) {
    struct cold now = *c;
    if (c->why[0]) return MOIRE_OK;
    int code = start_and_ask(s, mix, threads, c, &now, err);
    if (code && code != MOIRE_EINTERRUPTED && strcmp(c->system->family, "moire") != 0) {
        snprintf(c->why, sizeof c->why, "%.199s", err->message);
        return MOIRE_OK;
    }
    if (!code && (!c->rounds || total(&now) < total(c))) {
        now.rounds = c->rounds;
        *c = now;
    }
    c->rounds += !code;
    return code;
}

static int line_up(struct mo_bench_session *s, const struct mo_bench_solo_spec *spec, struct cold *out) {
    int n = 0;
    if (spec->moire) out[n++].system = mo_bench_solo_system("moire");
    if (spec->generic) out[n].generic = true, out[n++].system = mo_bench_solo_system("moire");
    for (int i = 0; i < spec->n_families && n < MO_BENCH_MAX_SYSTEMS; i++, n++) {
        out[n].system = mo_bench_solo_system(spec->families[i]);
        const char *why = mo_bench_missing(s, spec->families[i]);
        if (why) snprintf(out[n].why, sizeof out[n].why, "%s", why);
    }
    return n;
}

static int resolve(struct mo_bench_session *s, const struct mo_bench_latency_options *o,
                   struct mo_region *region, struct mix *mix, moire_error *err) {
    if (o->n_models > MO_BENCH_MAX_TENANTS)
        return mo_fail(err, MOIRE_ELIMIT, "more than %d models in one process", MO_BENCH_MAX_TENANTS);
    int code = MOIRE_OK;
    for (mix->n = 0; !code && mix->n < o->n_models; mix->n++)
        code = mo_bench_latency_tenant(s, o, o->models[mix->n], region, &mix->tenants[mix->n], err);
    return code;
}

static void add_rows(const struct mo_bench_journal *journal, const struct cold *c, int n, int threads) {
    for (int i = 0; i < n; i++) {
        const char *family = c[i].system->family;
        if (c[i].rounds)
            json_array_append_new(
                mo_bench_journal_results(journal),
                json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:i}", "system", family, "kind",
                          strcmp(family, "moire") != 0 ? "peer"
                          : c[i].generic               ? "generic"
                                                       : "specialised",
                          "threads", threads, "total_ms", total(&c[i]), "load_ms", c[i].load_ms, "answers_ms",
                          c[i].answers_ms, "process_ms", c[i].process_ms, "peak_mib", c[i].peak_mib, "rounds",
                          c[i].rounds));
        else
            json_array_append_new(mo_bench_journal_left_out(journal),
                                  json_pack("{s:s, s:s}", "system", family, "why", c[i].why));
    }
}

int mo_bench_cold(struct mo_bench_session *session, const struct mo_bench_latency_options *options,
                  json_t **out, moire_error *err) {
    struct mo_region *region = mo_region_create(session->env);
    struct mix *mix = mo_alloc(session->env, sizeof *mix);
    struct cold systems[MO_BENCH_MAX_SYSTEMS] = {{0}};
    struct mo_bench_journal journal;
    int n = 0, code = region && mix ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    if (!code) code = resolve(session, options, region, mix, err);
    if (!code) code = mo_bench_journal_open(session, "cold", MO_BENCH_MEASURED, NULL, false, &journal, err);
    if (!code) {
        n = line_up(session, &options->spec, systems);
        for (int round = 0; !code && round < ROUNDS; round++)
            for (int i = 0; !code && i < n; i++)
                code = measure(session, mix, options->threads[0], &systems[i], err);
        add_rows(&journal, systems, n, options->threads[0]);
        *out = mo_bench_journal_finish(&journal, code == MOIRE_OK);
    }
    mo_free(session->env, mix);
    mo_region_destroy(region);
    return code;
}

void mo_bench_cold_print(const json_t *document) {
    size_t i;
    json_t *row;
    printf("%-12s %-12s %7s %10s %10s %10s %11s %9s\n", "system", "kind", "threads", "total ms", "load ms",
           "first ms", "process ms", "peak MiB");
    json_array_foreach(json_object_get(document, "results"), i, row) {
        printf("%-12s %-12s %7d", json_string_value(json_object_get(row, "system")),
               json_string_value(json_object_get(row, "kind")),
               (int)json_integer_value(json_object_get(row, "threads")));
        static const char *const keys[] = {"total_ms", "load_ms", "answers_ms"};
        for (int k = 0; k < 3; k++)
            printf(" %10.1f", json_number_value(json_object_get(row, keys[k])));
        printf(" %11.1f %9.0f\n", json_number_value(json_object_get(row, "process_ms")),
               json_number_value(json_object_get(row, "peak_mib")));
    }
    json_array_foreach(json_object_get(document, "left_out"), i, row)
        printf("left out: %s: %s\n", json_string_value(json_object_get(row, "system")),
               json_string_value(json_object_get(row, "why")));
}
