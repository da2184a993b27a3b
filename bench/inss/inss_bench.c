/* SPDX-License-Identifier: Apache-2.0
 * inss_bench.c - cases, pieces and runs; see inss_bench.h. */
#include "bench/inss/inss_bench.h"

#include <stdio.h>
#include <string.h>
#include "bench/data/device_kinds.h"
#include "bench/data/journal.h"
#include "bench/inss/inss_bench_rows.h"
#include "bench/sim/settings.h"
#include "bench/sim/workers.h"

enum { SEEN = 4, UNSEEN = 3, MODELS = SEEN + UNSEEN, LABEL = 160, SMALL = 4 };
static const char *const models[MODELS] = {"alexnet", "resnet50",  "vgg19",        "ssd300",
                                           "vgg16",   "googlenet", "ssd-mobilenet"};
static const double default_loads[] = {0.1, 0.2, 0.3}, warmup_s = 20, usual_cv = 4;

/* By default, of these all that there are. */
static const char *const systems[] = {"inss",    "inss-ni", "gpulet",   "gpulet-int", "gslice",
                                      "igniter", "beam",    "beam-x10", "moire-gpu"};
enum { SYSTEMS = sizeof systems / sizeof *systems };

struct kind_of_case {
    const char *name;
    struct mo_process process;
    double true_time;
    bool unseen, each_load; /* at each load, else at the middle one */
};
static const struct kind_of_case cases[] = {
    {"steps", {MO_PROCESS_POISSON, 0}, 1, false, true},
    {"bursts", {MO_PROCESS_MMPP, usual_cv}, 1, false, false},
    {"longer", {MO_PROCESS_POISSON, 0}, 1.2, false, false},
    {"shorter", {MO_PROCESS_POISSON, 0}, 0.8, false, false},
    {"unseen", {MO_PROCESS_POISSON, 0}, 1, true, false},
};
enum { CASES = sizeof cases / sizeof *cases };

struct bench {
    struct mo_bench_session *session;
    const struct mo_inss_bench_options *o;
    struct mo_bench_machine machine;
    struct mo_share_table table[MODELS];
    int n_tables, n_gpus;
    struct mo_inss_demand_model model[MODELS];
    struct mo_policy_file learned;
    struct mo_inss_system system[MO_INSS_BENCH_SYSTEMS];
    int n_systems;
    double load[MO_INSS_BENCH_LOADS], seconds;
    int n_loads;
    struct mo_bench_journal journal;
};

/* --- a piece -------------------------------------------------------------------------------------------- */
struct piece {
    struct bench *b;
    const struct mo_inss_system *system;
    const struct kind_of_case *kind;
    double load;
    int n_models;
    char label[LABEL];
};

static int run_seed(void *self, int index, json_t **row, int64_t *decisions, moire_error *err) {
    const struct piece *p = self;
    const struct bench *b = p->b;
    struct mo_inss_bed bed = {.env = b->session->env,
                              .machine = &b->machine,
                              .learned = &b->learned,
                              .model = p->kind->unseen ? b->model + SEEN : b->model,
                              .n_models = p->kind->unseen ? UNSEEN : SEEN};
    const struct mo_inss_run_options o = {.n_tenants = p->n_models,
                                          .load = p->load,
                                          .true_time = p->kind->true_time,
                                          .process = p->kind->process,
                                          .warmup_s = warmup_s,
                                          .seconds = b->seconds,
                                          .seed = (uint64_t)index + 1,
                                          .needs = b->o->needs};
    struct mo_inss_ran ran;
    int code = mo_inss_run(&bed, p->system, &o, &ran, err);
    if (code) return code;
    *decisions += ran.n_decisions;
    *row = mo_inss_rows_run(&ran, b->seconds);
    return *row ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
}

/* What a result depends on beside the code. */
static json_t *settings(const struct piece *p) {
    const struct bench *b = p->b;
    return json_pack("{s:s, s:i, s:o, s:s, s:I, s:I}", "machine", b->machine.name, "seeds", b->o->n_seeds,
                     "seconds", json_sprintf("%.9g", b->seconds), "policy", b->learned.gpus, "updates",
                     (json_int_t)b->learned.updates, "needs", (json_int_t)b->o->needs);
}

static int play(struct piece *p, json_t *made, moire_error *err) {
    struct bench *b = p->b;
    const struct mo_bench_workers workers = {.session = b->session,
                                             .n_jobs = b->o->jobs > 0 ? b->o->jobs : b->session->cores,
                                             .n_pieces = b->o->n_seeds,
                                             .piece = run_seed,
                                             .self = p};
    int64_t decisions = 0;
    json_t *runs = json_array();
    mo_bench_say(b->session, "inss: %s", p->label);
    int code = mo_bench_workers_run(&workers, runs, &decisions, err);
    if (!code) {
        json_t *row =
            mo_inss_rows_result(runs, p->system->name, b->n_gpus, p->n_models, p->kind->name, p->load);
        if (row) json_object_set_new(row, "piece", json_string(p->label));
        if (row) json_object_set(row, "settings", made);
        code = row && !json_array_append_new(mo_bench_journal_results(&b->journal), row)
                   ? mo_bench_journal_note(&b->journal, p->label, err)
                   : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    }
    json_decref(runs);
    return code;
}

/* Checks a piece that is there; plays one that is not. */
static int one_piece(struct piece *p, bool plays, moire_error *err) {
    struct mo_bench_journal *journal = &p->b->journal;
    snprintf(p->label, sizeof p->label, "%d GPUs, %d models, %s, load %g, %s", p->b->n_gpus, p->n_models,
             p->kind->name, p->load, p->system->name);
    json_t *made = settings(p);
    int code = made ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    if (!code && mo_bench_journal_has(journal, p->label))
        code = mo_bench_settings_check(mo_bench_journal_result(journal, p->label), made, err);
    else if (!code && plays)
        code = play(p, made, err);
    json_decref(made);
    return code;
}

static int all_systems(struct bench *b, const struct kind_of_case *kind, double load, int n_models,
                       bool plays, moire_error *err) {
    int code = MOIRE_OK;
    for (int s = 0; !code && s < b->n_systems; s++) {
        struct piece p = {.b = b, .system = &b->system[s], .kind = kind, .load = load, .n_models = n_models};
        code = one_piece(&p, plays, err);
    }
    return code;
}

static bool is_wanted(const struct mo_inss_bench_options *o, const char *name) {
    bool wanted = !o->n_only;
    for (int i = 0; i < o->n_only; i++)
        wanted |= !strcmp(o->only[i], name);
    return wanted;
}

static int check_cases(const struct mo_inss_bench_options *o, moire_error *err) {
    for (int i = 0; i < o->n_only; i++) {
        bool known = false;
        for (int c = 0; c < CASES; c++)
            known |= !strcmp(o->only[i], cases[c].name);
        if (!known)
            return mo_fail(err, MOIRE_EINVAL,
                           "no case '%s'; there are steps, bursts, longer, shorter and unseen", o->only[i]);
    }
    return MOIRE_OK;
}

static int all_pieces(void *self, bool plays, moire_error *err) {
    struct bench *b = self;
    static const int many[] = {8, 40, 80, 160};
    const double middle = b->load[b->n_loads / 2];
    int code = MOIRE_OK;
    for (size_t i = 0; b->n_gpus > SMALL && !code && i < sizeof many / sizeof *many; i++)
        code = all_systems(b, &cases[0], middle, many[i], plays, err);
    for (int c = 0; b->n_gpus <= SMALL && !code && c < CASES; c++)
        for (int l = 0; !code && l < b->n_loads; l++)
            if (is_wanted(b->o, cases[c].name) && (cases[c].each_load || b->load[l] == middle))
                code = all_systems(b, &cases[c], b->load[l], 10, plays, err);
    return code;
}

/* --- what they need ------------------------------------------------------------------------------------- */
static int read_models(struct bench *b, moire_error *err) {
    int code = MOIRE_OK;
    for (int i = 0; !code && i < MODELS; i++) {
        code = mo_bench_machine_shares(b->session->env, &b->machine, 0, models[i], &b->table[i], err);
        if (code) break;
        b->n_tables++;
        b->model[i] = (struct mo_inss_demand_model){.name = models[i], .profile = b->table[i].profile};
        mo_inss_demand_look(&b->model[i], &b->machine.gpus[0].kind);
    }
    return code;
}

static int find_systems(struct bench *b, moire_error *err) {
    for (int i = 0; i < b->o->n_systems; i++)
        if (!mo_inss_system_find(b->o->system[i], &b->system[b->n_systems++]))
            return mo_fail(err, MOIRE_EINVAL, "no policy or planner '%s' for GPUs", b->o->system[i]);
    for (int i = 0; !b->o->n_systems && i < SYSTEMS; i++)
        b->n_systems += mo_inss_system_find(systems[i], &b->system[b->n_systems]);
    return MOIRE_OK;
}

static int open_bench(struct bench *b, moire_error *err) {
    const struct mo_env *env = b->session->env;
    bool learned = false;
    int code = check_cases(b->o, err);
    if (!code) code = mo_bench_machine_open(env, b->o->machine, &b->machine, err);
    if (!code && b->machine.n_gpus != 1)
        code = mo_fail(err, MOIRE_EINVAL, "%s: needs GPUs of one type, and here are %d types", b->o->machine,
                       b->machine.n_gpus);
    if (!code) code = read_models(b, err);
    if (!code) code = find_systems(b, err);
    for (int i = 0; !code && i < b->n_systems; i++)
        learned |= b->system[i].policy.learned;
    if (!code && learned) code = mo_bench_machine_learned(env, &b->machine, b->o->weights, &b->learned, err);
    if (code) return code;
    b->n_gpus = b->machine.gpus[0].count;
    b->seconds = b->o->seconds > 0 ? b->o->seconds : b->n_gpus > SMALL ? 60 : 300;
    b->n_loads = b->o->n_loads ? b->o->n_loads : (int)(sizeof default_loads / sizeof *default_loads);
    memcpy(b->load, b->o->n_loads ? b->o->load : default_loads, (size_t)b->n_loads * sizeof *b->load);
    return MOIRE_OK;
}

static void close_bench(struct bench *b) {
    for (int i = 0; i < b->n_tables; i++)
        mo_share_table_free(&b->table[i]);
    mo_policy_close(&b->learned);
    mo_bench_machine_close(&b->machine);
}

static int conclude(void *self, json_t *document, moire_error *err) {
    const struct bench *b = self;
    return mo_inss_rows_conclude(b->session->env, b->machine.gpus[0].profiles, document, err);
}

static int make(struct bench *b, json_t **out, moire_error *err) {
    const struct mo_bench_journal_work work = {.kind = "inss",
                                               .output = b->o->output,
                                               .resume = b->o->resume,
                                               .pieces = all_pieces,
                                               .conclude = conclude,
                                               .self = b};
    return mo_bench_journal_make(b->session, &work, &b->journal, out, err);
}

int mo_inss_bench(struct mo_bench_session *session, const struct mo_inss_bench_options *o, json_t **out,
                  moire_error *err) {
    struct bench *b = mo_alloc(session->env, sizeof *b);
    *out = NULL;
    if (!b) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    b->session = session;
    b->o = o;
    int code = open_bench(b, err);
    if (!code) code = make(b, out, err);
    close_bench(b);
    mo_free(session->env, b);
    return code;
}
