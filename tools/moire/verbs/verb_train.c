/* SPDX-License-Identifier: Apache-2.0
 * verb_train.c - `moire train inss`: trains the learned scheduler of InSS for a machine. */
#include <stdio.h>
#include <string.h>
#include "bench/data/experiment.h"
#include "bench/inss/inss_demand.h"
#include "bench/learn/inss_train.h"
#include "bench/data/machine.h"
#include "bench/load/session.h"
#include "tools/moire/verbs/bench_common.h"

static const char about[] =
    "Trains InSS's two-stage scheduler (docs/inss.md): soft actor-critic places models on the GPUs of a\n"
    "machine, TD3 divides each GPU among them and chooses batches.  It learns in a simulated world, from "
    "the\n"
    "profiles of the models, at rates and targets that are drawn; no GPU is needed.  Beside the policy lie\n"
    "POLICY.checkpoint, from which --resume goes on, and the learning curves POLICY.csv and POLICY.svg.\n";

static const char notes[] =
    "Ctrl-C ends after the episode with all files written.  A seed gives the same bytes on one processor,\n"
    "interrupted or not.  Exit code 4: also when there is no OpenBLAS (libopenblas0-pthread).\n"
    "\n"
    "Examples:\n"
    "  moire train inss --machine gpus4-v100-mps --models alexnet,resnet50,vgg19,ssd300 -o policy.mo\n"
    "  moire train inss --machine gpus4-v100-mps --models alexnet,resnet50,vgg19,ssd300 --tenants 10 -o "
    "ten.mo\n"
    "  moire plan inss-four --machine gpus4-v100-mps --policy inss --weights policy.mo\n";

static const double usual_load = 0.2;

struct training {
    struct mo_bench_session session;
    const struct mo_options *o;
    struct mo_bench_machine machine;
    struct mo_share_table table[MO_INSS_WORLD_MODELS];
    const struct mo_share_profile *profile[MO_INSS_WORLD_MODELS];
    int n_tables;
    struct mo_inss_world_tenant tenant[MO_INSS_CROWD];
    int64_t begun;
    int first; /* episode of this run */
    struct mo_inss_trained result;
    char path[1024];
};

static bool stop(void *ctx) {
    return mo_bench_interrupted(&((struct training *)ctx)->session);
}

static void progress(void *ctx, int episode, const struct mo_inss_point *p) {
    struct training *t = ctx;
    const double s = (double)(mo_now(t->session.env) - t->begun) * 1e-9;
    if (t->first < 0) t->first = episode;
    const double each = s / (episode - t->first + 1);
    mo_bench_say(&t->session, "\repisode %d of %d: reward %.2f, %.1f %% served, %.1f %% late; %.0f s left   ",
                 episode + 1, t->o->episodes, p->reward, p->served_pct, p->late_pct,
                 each * (t->o->episodes - episode - 1));
}

/* The machine, and the profiles of the models on its GPUs. */
static int read_inputs(struct training *t, moire_error *err) {
    const struct mo_env *env = t->session.env;
    int code = mo_known_find_data(MO_KNOWN_MACHINES, t->o->machine, t->path, sizeof t->path, err);
    if (!code) code = mo_bench_machine_open(env, t->path, &t->machine, err);
    if (code) return code;
    if (t->machine.n_gpus != 1)
        return mo_fail(err, MOIRE_EINVAL, "%s: inss needs GPUs of one type, and here are %d", t->path,
                       t->machine.n_gpus);
    if (!t->o->tenants && (t->o->needs || t->o->load > 0))
        return mo_fail(err, MOIRE_EINVAL, "--needs and --load go with --tenants");
    if (t->o->learned.n > MO_INSS_WORLD_MODELS)
        return mo_fail(err, MOIRE_EINVAL, "--models: %d of them; %d at most", t->o->learned.n,
                       MO_INSS_WORLD_MODELS);
    for (int i = 0; !code && i < t->o->learned.n; i++) {
        for (int j = 0; j < i; j++)
            if (!strcmp(t->o->learned.word[i], t->o->learned.word[j]))
                return mo_fail(err, MOIRE_EINVAL, "--models: '%s' twice", t->o->learned.word[i]);
        code = mo_bench_machine_shares(env, &t->machine, 0, t->o->learned.word[i], &t->table[i], err);
        if (code) return code;
        t->profile[i] = t->table[i].profile;
        t->n_tables++;
    }
    return code;
}

/* As `moire bench inss` draws them. */
static void draw_tenants(struct training *t) {
    struct mo_inss_demand_model model[MO_INSS_WORLD_MODELS];
    double rate[MO_INSS_CROWD];
    for (int i = 0; i < t->n_tables; i++) {
        model[i] = (struct mo_inss_demand_model){.profile = t->profile[i]};
        mo_inss_demand_look(&model[i], &t->machine.gpus[0].kind);
    }
    mo_inss_demand_rates(
        &(struct mo_inss_demand_options){.model = model,
                                         .n_models = t->n_tables,
                                         .n_tenants = t->o->tenants,
                                         .gpus_a_tenant = t->o->load > 0 ? t->o->load : usual_load,
                                         .needs = t->o->needs ? (uint64_t)t->o->needs : 1},
        rate);
    for (int i = 0; i < t->o->tenants; i++)
        t->tenant[i] = (struct mo_inss_world_tenant){
            .model = i % t->n_tables, .target_ns = model[i % t->n_tables].target_ns, .rate = rate[i]};
}

static int train(struct training *t, moire_error *err) {
    int code = read_inputs(t, err);
    if (code) return code;
    struct mo_inss_train_options o = mo_inss_train_options();
    const struct mo_bench_gpus *gpus = &t->machine.gpus[0];
    o.machine = t->machine.name;
    o.kind = &gpus->kind;
    o.n_gpus = gpus->count < MO_INSS_GROUP ? gpus->count : MO_INSS_GROUP;
    o.n_models = t->o->learned.n;
    o.names = t->o->learned.word;
    o.profiles = t->profile;
    draw_tenants(t);
    o.tenants = t->tenant;
    o.n_tenants = t->o->tenants;
    o.seed = (uint64_t)t->o->seed;
    o.episodes = t->o->episodes;
    o.resume = t->o->resume;
    o.output = t->o->output;
    o.stop = stop;
    o.progress = progress;
    o.ctx = t;
    t->begun = mo_now(t->session.env);
    code = mo_inss_train(t->session.env, &o, &t->result, err);
    mo_bench_say(&t->session, "\n");
    return code;
}

static int show(const struct training *t, moire_error *err) {
    const struct mo_inss_trained *r = &t->result;
    if (!t->o->json) {
        printf("%s: %d episodes, %lld updates of either agent (%.2f ms and %.2f ms each)\n", t->o->output,
               r->episodes, (long long)r->updates, r->update_ms[0], r->update_ms[1]);
        printf("last episode: reward %.3f, %.2f %% served, %.2f %% late\n", r->last.reward,
               r->last.served_pct, r->last.late_pct);
        return MOIRE_OK;
    }
    json_t *d =
        json_pack("{s:{s:s}, s:s, s:i, s:I, s:[f,f], s:{s:f, s:f, s:f}}", "experiment", "kind", "train inss",
                  "policy", t->o->output, "episodes", r->episodes, "updates", (json_int_t)r->updates,
                  "update_ms", r->update_ms[0], r->update_ms[1], "last_episode", "reward", r->last.reward,
                  "served_pct", r->last.served_pct, "late_pct", r->last.late_pct);
    int code = d ? mo_bench_describe(t->session.env, d, t->o->argc, t->o->argv, err)
                 : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    if (!code) code = mo_print_json(d, err);
    json_decref(d);
    return code;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err = {0};
    struct training *t = mo_alloc(env, sizeof *t);
    if (!t) {
        mo_fail(&err, MOIRE_ENOMEM, "out of memory");
        return mo_verb_fail(o, &err);
    }
    t->o = o;
    t->first = -1;
    int code = mo_bench_session_open(env, o->argc, o->argv, &t->session, &err);
    bool interrupted = false;
    if (!code) {
        t->session.quiet = o->quiet;
        code = train(t, &err);
        if (!code) code = show(t, &err);
        for (int i = 0; i < t->n_tables; i++)
            mo_share_table_free(&t->table[i]);
        mo_bench_machine_close(&t->machine);
        interrupted = t->session.interrupted;
        mo_bench_session_close(&t->session);
    }
    mo_free(env, t);
    if (code) return mo_verb_fail(o, &err);
    return interrupted ? MO_EXIT_INTERRUPTED : MO_EXIT_OK;
}

const struct mo_verb mo_verb_train = {
    .name = "train",
    .group = MO_GROUP_SIMULATE,
    .summary = "train a scheduler that learns",
    .about = about,
    .notes = notes,
    .commands = {{.name = "inss", .command = MO_DO_TRAIN}},
    .run = run,
};
