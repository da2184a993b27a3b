/* SPDX-License-Identifier: Apache-2.0
 * watt_bench.c - pairs, pieces and runs; see watt_bench.h. */
#include "bench/wattwiser/watt_bench.h"

#include <stdio.h>
#include <string.h>
#include "bench/data/journal.h"
#include "bench/sim/settings.h"
#include "bench/sim/workers.h"
#include "bench/wattwiser/watt_rows.h"

enum { LABEL = 160 };
static const double default_step_s = 20, warmup_s = 10;

/* Table I. */
static const struct mo_watt_model table[] = {{"resnext101", 140, 101, NULL},
                                             {"resnet152", 150, 76, NULL},
                                             {"vgg19", 320, 41, NULL},
                                             {"alexnet", 1750, 25, NULL},
                                             {"squeezenet1", 2050, 28, NULL}};
enum { MODELS = sizeof table / sizeof *table, PAIRS = 5 };
/* high-high, high-medium, high-low, medium-low, low-low */
static const int pairs[PAIRS][MO_WATT_MODELS] = {{0, 1}, {1, 2}, {0, 4}, {2, 3}, {3, 4}};

struct bench {
    struct mo_bench_session *session;
    const struct mo_watt_bench_options *o;
    struct mo_bench_machine machine;
    struct mo_share_table shares[MODELS];
    int n_shares;
    struct mo_watt_model model[MODELS];
    struct mo_watt_load load;
    const struct mo_policy *policy[MO_WATT_POLICIES];
    int n_policies;
    double step_s;
    struct mo_bench_journal journal;
};

/* --- a piece -------------------------------------------------------------------------------------------- */
struct piece {
    struct bench *b;
    const struct mo_watt_model *model[MO_WATT_MODELS];
    const struct mo_policy *policy;
    char pair[LABEL], label[2 * LABEL];
};

static int run_seed(void *self, int index, json_t **row, int64_t *decisions, moire_error *err) {
    const struct piece *p = self;
    const struct mo_watt_run_options o = {.env = p->b->session->env,
                                          .machine = &p->b->machine,
                                          .model = {p->model[0], p->model[1]},
                                          .load = &p->b->load,
                                          .policy = p->policy,
                                          .step_s = p->b->step_s,
                                          .warmup_s = warmup_s,
                                          .seed = (uint64_t)index + 1};
    struct mo_watt_ran *ran = mo_alloc(o.env, sizeof *ran);
    (void)decisions;
    if (!ran) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a run");
    int code = mo_watt_run(&o, ran, err);
    if (!code && !(*row = mo_watt_rows_run(ran, o.load->n)))
        code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    mo_free(o.env, ran);
    return code;
}

/* What a result depends on beside the code. */
static json_t *settings(const struct bench *b) {
    return json_pack("{s:s, s:i, s:o, s:o}", "machine", b->machine.name, "seeds", b->o->n_seeds, "step_s",
                     json_sprintf("%.9g", b->step_s), "power", mo_watt_rows_power(&b->machine.gpus[0].power));
}

static int play(struct piece *p, json_t *made, moire_error *err) {
    struct bench *b = p->b;
    const struct mo_bench_workers workers = {.session = b->session,
                                             .n_jobs = b->o->jobs > 0 ? b->o->jobs : b->session->cores,
                                             .n_pieces = b->o->n_seeds,
                                             .piece = run_seed,
                                             .self = p};
    int64_t decisions = 0;
    json_t *runs = json_array(), *row = NULL;
    mo_bench_say(b->session, "wattwiser: %s", p->label);
    int code = mo_bench_workers_run(&workers, runs, &decisions, err);
    if (!code && !(row = mo_watt_rows_result(runs, p->pair, p->policy->name)))
        code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    if (!code) {
        json_object_set_new(row, "piece", json_string(p->label));
        json_object_set(row, "settings", made);
        code = json_array_append_new(mo_bench_journal_results(&b->journal), row)
                   ? mo_fail(err, MOIRE_ENOMEM, "out of memory")
                   : mo_bench_journal_note(&b->journal, p->label, err);
    }
    json_decref(runs);
    return code;
}

/* Checks a piece that is there; plays one that is not. */
static int one_piece(struct bench *b, int pair, const struct mo_policy *policy, bool plays,
                     moire_error *err) {
    struct piece p = {
        .b = b, .model = {&b->model[pairs[pair][0]], &b->model[pairs[pair][1]]}, .policy = policy};
    snprintf(p.pair, sizeof p.pair, "%s-%s", p.model[0]->name, p.model[1]->name);
    snprintf(p.label, sizeof p.label, "%s, %s", p.pair, policy->name);
    json_t *made = settings(b);
    int code = made ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    if (!code && mo_bench_journal_has(&b->journal, p.label))
        code = mo_bench_settings_check(mo_bench_journal_result(&b->journal, p.label), made, err);
    else if (!code && plays)
        code = play(&p, made, err);
    json_decref(made);
    return code;
}

static int all_pieces(void *self, bool plays, moire_error *err) {
    struct bench *b = self;
    int code = MOIRE_OK;
    for (int i = 0; i < PAIRS && !code; i++)
        for (int p = 0; p < b->n_policies && !code; p++)
            code = one_piece(b, i, b->policy[p], plays, err);
    return code;
}

/* --- what they need ------------------------------------------------------------------------------------- */
static int read_models(struct bench *b, moire_error *err) {
    char path[1200];
    int code = MOIRE_OK;
    for (int i = 0; !code && i < MODELS; i++) {
        code = mo_bench_machine_shares(b->session->env, &b->machine, 0, table[i].name, &b->shares[i], err);
        if (code) break;
        b->n_shares++;
        b->model[i] = table[i];
        b->model[i].profile = b->shares[i].profile;
    }
    if (code) return code;
    snprintf(path, sizeof path, "%s/load.csv", b->machine.gpus[0].profiles);
    return mo_watt_load_read(b->session->env, path, &b->load, err);
}

static int find_policies(struct bench *b, moire_error *err) {
    char known[300];
    for (int i = 0; i < b->o->n_policies; i++) {
        const struct mo_policy *p = mo_policy_find(b->o->policy[i]);
        if (!p || !p->gpus || p->learned)
            return mo_fail(err, MOIRE_EINVAL, "no policy '%s' for GPUs; there are: %s", b->o->policy[i],
                           mo_policy_names(true, false, known, sizeof known));
        b->policy[b->n_policies++] = p;
    }
    for (const struct mo_policy *const *p = mo_policy_wattwisers(); *p && !b->o->n_policies; p++)
        if (!(*p)->research) b->policy[b->n_policies++] = *p;
    return MOIRE_OK;
}

static int open_bench(struct bench *b, moire_error *err) {
    int code = mo_bench_machine_open(b->session->env, b->o->machine, &b->machine, err);
    if (!code && (b->machine.n_gpus != 1 || !b->machine.gpus[0].has_power))
        code = mo_fail(err, MOIRE_EINVAL, "%s: needs GPUs of one type, and their \"power\"", b->o->machine);
    if (!code) code = read_models(b, err);
    if (!code) code = find_policies(b, err);
    b->step_s = !code && b->o->seconds > 0 ? b->o->seconds / b->load.n : default_step_s;
    return code;
}

static int conclude(void *self, json_t *document, moire_error *err) {
    const struct bench *b = self;
    json_object_set_new(document, "power", mo_watt_rows_power(&b->machine.gpus[0].power));
    return mo_watt_rows_conclude(document, err);
}

static int make(struct bench *b, json_t **out, moire_error *err) {
    const struct mo_bench_journal_work work = {.kind = "wattwiser",
                                               .output = b->o->output,
                                               .resume = b->o->resume,
                                               .pieces = all_pieces,
                                               .conclude = conclude,
                                               .self = b};
    return mo_bench_journal_make(b->session, &work, &b->journal, out, err);
}

int mo_watt_bench(struct mo_bench_session *session, const struct mo_watt_bench_options *o, json_t **out,
                  moire_error *err) {
    struct bench *b = mo_alloc(session->env, sizeof *b);
    *out = NULL;
    if (!b) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    b->session = session;
    b->o = o;
    int code = open_bench(b, err);
    if (!code) code = make(b, out, err);
    for (int i = 0; i < b->n_shares; i++)
        mo_share_table_free(&b->shares[i]);
    mo_bench_machine_close(&b->machine);
    mo_free(session->env, b);
    return code;
}
