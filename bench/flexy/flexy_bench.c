/* SPDX-License-Identifier: Apache-2.0
 * flexy_bench.c - pieces and runs; see flexy_bench.h. */
#include "bench/flexy/flexy_bench.h"

#include <stdio.h>
#include <string.h>
#include "bench/data/journal.h"
#include "bench/flexy/flexy_rows.h"
#include "bench/flexy/flexy_systems.h"
#include "bench/sim/settings.h"
#include "bench/sim/workers.h"

enum { LABEL = 100 };
static const double reset_ms = 1000;
/* The paper's range; 0.375 is there because utilisation is near 70 % at it. */
static const double default_loads[] = {0.125, 0.25, 0.375, 0.5, 0.75, 1, 1.5, 2, 3, 4};

struct bench {
    struct mo_bench_session *session;
    const struct mo_flexy_bench_options *o;
    struct mo_flexy_chosen system[MO_FLEXY_BENCH_SYSTEMS];
    const struct mo_flexy_workload *workload[MO_FLEXY_BENCH_CASES];
    double load[MO_FLEXY_BENCH_LOADS];
    int n_systems, n_workloads, n_loads;
    struct mo_bench_journal journal;
};

struct piece {
    struct bench *b;
    const struct mo_flexy_system *system;
    const struct mo_flexy_workload *workload;
    char label[LABEL];
};

/* --- a piece -------------------------------------------------------------------------------------------- */
static int run_instance(void *self, int index, json_t **row, int64_t *decisions, moire_error *err) {
    const struct piece *p = self;
    const int seeds = p->b->o->n_seeds;
    const struct mo_flexy_run_options o = {.workload = p->workload,
                                           .f = p->b->load[index / seeds],
                                           .sla_ms = MO_FLEXY_SLA_MS,
                                           .reset_ms = reset_ms,
                                           .devices = MO_FLEXY_DEVICES,
                                           .seed = (uint64_t)(index % seeds) + 1};
    struct mo_flexy_ran ran;
    const int code = mo_flexy_run(p->b->session->env, p->system, &o, &ran, err);
    if (code) return code;
    *decisions += ran.decisions;
    *row = mo_flexy_rows_run(&ran);
    return *row ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
}

/* What a result depends on beside the code. */
static json_t *settings(const struct bench *b) {
    json_t *loads = json_array();
    for (int i = 0; i < b->n_loads; i++)
        json_array_append_new(loads, json_sprintf("%.9g", b->load[i]));
    return json_pack("{s:i, s:o}", "seeds", b->o->n_seeds, "loads", loads);
}

static int append(struct piece *p, const json_t *runs, json_t *made, moire_error *err) {
    struct bench *b = p->b;
    for (int l = 0; l < b->n_loads; l++) {
        json_t *row = mo_flexy_rows_result(runs, (size_t)l * (size_t)b->o->n_seeds, b->o->n_seeds,
                                           p->workload->name, p->system->name, b->load[l]);
        if (row) json_object_set_new(row, "piece", json_string(p->label));
        if (row) json_object_set(row, "settings", made);
        if (!row || json_array_append_new(mo_bench_journal_results(&b->journal), row))
            return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    }
    return mo_bench_journal_note(&b->journal, p->label, err);
}

static int play(struct piece *p, json_t *made, moire_error *err) {
    struct bench *b = p->b;
    const struct mo_bench_workers workers = {.session = b->session,
                                             .n_jobs = b->o->jobs > 0 ? b->o->jobs : b->session->cores,
                                             .n_pieces = b->o->n_seeds * b->n_loads,
                                             .piece = run_instance,
                                             .self = p};
    int64_t decisions = 0;
    json_t *runs = json_array();
    mo_bench_say(b->session, "flexy: %s", p->label);
    int code = mo_bench_workers_run(&workers, runs, &decisions, err);
    if (!code) code = append(p, runs, made, err);
    json_decref(runs);
    return code;
}

/* Checks pieces that are there; plays those that are not. */
static int all_pieces(void *self, bool plays, moire_error *err) {
    struct bench *b = self;
    struct mo_bench_journal *journal = &b->journal;
    json_t *made = settings(b);
    int code = made ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int i = 0; !code && i < b->n_workloads * b->n_systems; i++) {
        struct piece p = {
            .b = b, .workload = b->workload[i / b->n_systems], .system = &b->system[i % b->n_systems].system};
        snprintf(p.label, sizeof p.label, "%s, %s", p.workload->name, p.system->name);
        if (mo_bench_journal_has(journal, p.label))
            code = mo_bench_settings_check(mo_bench_journal_result(journal, p.label), made, err);
        else if (plays)
            code = play(&p, made, err);
    }
    json_decref(made);
    return code;
}

/* --- what is asked for ---------------------------------------------------------------------------------- */
static int open_bench(struct bench *b, moire_error *err) {
    const struct mo_flexy_bench_options *o = b->o;
    const char *const *names = o->n_systems ? o->system : mo_flexy_system_names();
    int code = MOIRE_OK;
    for (int i = 0; !code && i < MO_FLEXY_BENCH_SYSTEMS && (o->n_systems ? i < o->n_systems : !!names[i]);
         i++)
        code = mo_flexy_system_find(names[i], MO_FLEXY_DEVICES, &b->system[b->n_systems++], err);
    for (int i = 0; !code && i < o->n_workloads; i++)
        if (!(b->workload[b->n_workloads++] = mo_flexy_workload_find(o->workload[i])))
            code =
                mo_fail(err, MOIRE_EINVAL, "no case '%s'; there are W1, W2, W3 and bursts", o->workload[i]);
    for (int i = 0; !o->n_workloads && i < MO_FLEXY_WORKLOADS; i++)
        b->workload[b->n_workloads++] = &mo_flexy_workloads[i];
    b->n_loads = o->n_loads ? o->n_loads : (int)(sizeof default_loads / sizeof *default_loads);
    memcpy(b->load, o->n_loads ? o->load : default_loads, (size_t)b->n_loads * sizeof *b->load);
    return code;
}

static int conclude(void *self, json_t *document, moire_error *err) {
    (void)self;
    return mo_flexy_rows_conclude(document, err);
}

static int make(struct bench *b, json_t **out, moire_error *err) {
    const struct mo_bench_journal_work work = {.kind = "flexy",
                                               .output = b->o->output,
                                               .resume = b->o->resume,
                                               .pieces = all_pieces,
                                               .conclude = conclude,
                                               .self = b};
    return mo_bench_journal_make(b->session, &work, &b->journal, out, err);
}

int mo_flexy_bench(struct mo_bench_session *session, const struct mo_flexy_bench_options *o, json_t **out,
                   moire_error *err) {
    struct bench *b = mo_alloc(session->env, sizeof *b);
    *out = NULL;
    if (!b) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    b->session = session;
    b->o = o;
    int code = open_bench(b, err);
    if (!code) code = make(b, out, err);
    mo_free(session->env, b);
    return code;
}
