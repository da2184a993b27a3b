/* SPDX-License-Identifier: Apache-2.0
 * verb_bench.c - `moire bench`: solo latency and service under load, with peers beside. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include "bench/choice/beside.h"
#include "bench/client/net_backend.h"
#include "bench/client/client.h"
#include "bench/client/server_table.h"
#include "bench/load/drive.h"
#include "bench/load/moire_backend.h"
#include "bench/report/report.h"
#include "tools/moire/verbs/bench_common.h"

static const char about[] =
    "latency  time of one model alone on the machine; all systems in turn, in slices of one run\n"
    "cold     from nothing to the first answer of every model, all in one fresh process; best of 5 rounds,\n"
    "         files in the page cache\n"
    "survey   many networks: whether their answers are right, their speed beside the best peer, and the "
    "layer\n"
    "         in which most time is lost; DIR has NAME/model.onnx, with the right inputs and outputs of a\n"
    "         batch of 1 in NAME/data/ (NAME.npy), LIST a path a line\n"
    "loadgen  one model as the system under test of MLPerf's LoadGen, which makes the load, measures and "
    "judges;\n"
    "         exit code 5 where its verdict is INVALID (docs/loadgen.md)\n"
    "kernels  every distinct layer alone: rates, share of the ceilings measured at the start, roofline, and\n"
    "         the same layer on oneDNN beside\n"
    "machine  those ceilings, and what it takes two cores to share work, as a file for bench/machines\n"
    "serve    open-loop Poisson arrivals on several models; latency counts from the scheduled arrival;\n"
    "         with --over http or grpc as clients of a model server see it\n"
    "plans    planners of lets on GPUs, by their model: the 1,023 loads of gpu-let (every N-th, times L), "
    "the\n"
    "         highest rates of its scenarios and applications, the time of a plan by GPUs and models\n"
    "inss     InSS's experiments in simulation: throughput, violations, fragments and time of a decision, "
    "of\n"
    "         its trained policy and of its rivals (docs/inss.md)\n"
    "wattwiser  WattWiser's experiments in simulation: power and tail of five pairs of models on four\n"
    "         GPUs (docs/energy.md)\n"
    "flexy    Flexy's experiments in simulation: tasks with a target beside long ones on four devices, by\n"
    "         its policies, what it was compared with, and moire (docs/classes.md)\n"
    "report   draws the page of an earlier `serve --json` again\n"
    "\n"
    "SCENARIO is a file, or the name of one in bench/scenarios (mix, light, medium, heavy, ocr).\n"
    "Load 1.0 means: arrival rate x one-core solo time of the fastest system measured = all cores busy.\n"
    "\n"
    "NAME is a model of `moire zoo list`; zoo stands for all of them.\n";

static const char notes[] =
    "Ctrl-C ends a run in good order: what has been measured is reported, and the exit code is 130.\n"
    "\n"
    "Examples:\n"
    "  moire bench latency resnet50 mobilenet-v2 --threads 1,2 --peers openvino,onnxruntime\n"
    "  moire bench latency zoo --peers all --output zoo.json --resume\n"
    "  moire bench survey networks/ --peers all --threads 1,2 --batch 1,8 --output survey.json --resume\n"
    "  moire bench loadgen resnet50 --scenario Server --qps 40 --latency-ms 100 --output logs\n"
    "  moire bench kernels resnet50 mobilenet-v2 vgg16 --threads 1,2 --peer onednn\n"
    "  moire bench serve mix --policy moire,fcfs --load 0.5 --seconds 5 --report mix.html\n"
    "  moire bench serve mix --find-max 0.95 --peers all --seed 1,2,3 --output mix.json --report mix.html\n";

/* --- serve -------------------------------------------------------------------------------------------- */
/* By name or family, or all of them, of the peers or of the model servers. */
static void add_named(struct mo_bench_serve_options *serve, const struct mo_bench_system *all, int n,
                      const char *word) {
    for (int i = 0; i < n && serve->n_peers < MO_BENCH_MAX_SYSTEMS; i++)
        if (!strcmp(word, all[i].name) ||
            (!mo_bench_by_class(&all[i]) && (!strcmp(word, "all") || !strcmp(word, all[i].family))))
            serve->peers[serve->n_peers++] = &all[i];
}

/* Whether any system of --over is behind a network, or none of them. */
static bool goes_over(const struct mo_bench_serve_options *serve, bool network) {
    bool any = !serve->n_over && !network;
    for (int i = 0; i < serve->n_over; i++)
        any |= (serve->over[i] != NULL) == network;
    return any;
}

static int add_peers(struct mo_bench_serve_options *serve, const char *word, moire_error *err) {
    int n, before = serve->n_peers;
    const struct mo_bench_system *rows = mo_bench_peers(&n);
    if (goes_over(serve, false)) add_named(serve, rows, n, word);
    rows = mo_bench_servers(&n);
    if (goes_over(serve, true)) add_named(serve, rows, n, word);
    if (serve->n_peers > before || !strcmp(word, "none")) return MOIRE_OK;
    for (int i = 0; i < n; i++)
        if (!strcmp(word, rows[i].name) || !strcmp(word, rows[i].family))
            return mo_flag_bad(err, "--peers", word, "is a model server: say --over http or grpc, too");
    if (!goes_over(serve, false))
        return mo_flag_bad(err, "--peers", word,
                           "is no model server (triton, mlserver, onnxruntime-uvicorn)");
    return mo_known_fail(MO_KNOWN_PEERS, "--peers", word, err);
}

/* What a server is not told, and comparisons of which it has no part. */
static int check_over(const struct mo_options *o, const struct mo_bench_serve_options *serve,
                      moire_error *err) {
    const struct {
        const char *flag;
        bool given;
    } flags[] = {{"--against", o->against.n > 0},       {"--neighbour", o->neighbour.n > 0},
                 {"--gpus", o->gpus != NULL},           {"--record", o->record != NULL},
                 {"--pressure", o->pressure != NULL},   {"--proxy", o->proxy != NULL},
                 {"--objective", o->objective != NULL}, {"--exact", o->exact}};
    for (size_t i = 0; goes_over(serve, true) && i < sizeof flags / sizeof *flags; i++)
        if (flags[i].given)
            return mo_fail(err, MOIRE_EINVAL, "%s does not go with --over: the server is not told of it",
                           flags[i].flag);
    return MOIRE_OK;
}

static int choose_over(const struct mo_options *o, struct mo_bench_serve_options *serve, moire_error *err) {
    for (int i = 0; i < o->over.n; i++) {
        const char *word = o->over.word[i];
        const bool none = !strcmp(word, "none");
        if (!none && !mo_client_protocol(word))
            return mo_flag_bad(err, "--over", word, "must be none, http or grpc");
        serve->over[serve->n_over++] = none ? NULL : word;
    }
    return check_over(o, serve, err);
}

static int choose_against(const struct mo_options *o, struct mo_bench_serve_options *serve,
                          moire_error *err) {
    const char *name = o->against.word[0];
    const struct mo_policy *policy = mo_policy_find(name);
    if (!serve->n_policies)
        return mo_fail(err, MOIRE_EINVAL, "--against needs a policy to compare (--policy)");
    if (!policy) return mo_known_fail(MO_KNOWN_POLICIES, "--against", name, err);
    if (policy->gpus || o->gpus)
        return mo_flag_bad(err, "--against", name, "only policies of cores are compared");
    serve->against = name;
    return MOIRE_OK;
}

static int choose_neighbour(const struct mo_options *o, struct mo_bench_serve_options *serve,
                            moire_error *err) {
    bool any = false;
    for (int i = 0; i < serve->n_policies; i++)
        any |= mo_bench_without_choice(serve->policies[i]) != NULL;
    if (!any)
        return mo_fail(err, MOIRE_EINVAL,
                       "--neighbour: none of --policy chooses versions by pressure (moire, veltair do)");
    if (o->gpus) return mo_fail(err, MOIRE_EINVAL, "--neighbour: versions of kernels are for cores");
    for (int i = 0; i < o->neighbour.n; i++)
        serve->neighbour[serve->n_neighbour++] = (int)o->neighbour.value[i];
    return MOIRE_OK;
}

static int choose_stalls(const struct mo_options *o, struct mo_bench_serve_options *serve, moire_error *err) {
    if (o->stalls && !mo_bench_stalls_parse(o->stalls, &serve->stalls))
        return mo_flag_bad(err, "--stalls", o->stalls, "must be like 2:10-50, times a second and ms");
    if (o->slow && !mo_bench_slow_parse(o->slow, &serve->stalls))
        return mo_flag_bad(err, "--slow", o->slow, "must be like 2:1:0.5, a factor and seconds");
    if (o->gpus && mo_bench_stalls_any(&serve->stalls))
        return mo_fail(err, MOIRE_EINVAL, "--stalls and --slow: cores stall, and GPUs do not");
    return MOIRE_OK;
}

static int serve(struct mo_bench_session *s, const struct mo_options *o, json_t **document,
                 moire_error *err) {
    char path[1024];
    struct mo_bench_serve_options serve;
    if (o->device && !o->gpus)
        return mo_fail(err, MOIRE_EINVAL,
                       "--device needs --gpus: a machine file with profiles (moire profile --device)");
    int code = mo_bench_serve_options(o, false, &serve, err);
    if (!code) code = choose_over(o, &serve, err);
    for (int i = 0; !code && i < o->peers.n; i++)
        code = add_peers(&serve, o->peers.word[i], err);
    if (!code && o->against.n) code = choose_against(o, &serve, err);
    if (!code && o->neighbour.n) code = choose_neighbour(o, &serve, err);
    if (!code) code = choose_stalls(o, &serve, err);
    if (!code) code = mo_bench_check_serve(&serve, err);
    if (!code) code = mo_bench_check_weights(o, &serve, err);
    if (!code) code = mo_known_find_data(MO_KNOWN_SCENARIOS, o->operands.word[0], path, sizeof path, err);
    if (code) return code;
    if (!serve.n_loads && !(serve.find_max > 0)) serve.loads[serve.n_loads++] = 0.5;
    serve.scenario = path;
    s->servers = o->server_peers;
    serve.timeline = o->report || o->trace;
    serve.pairs = o->rounds;
    serve.in_turns = o->in_turns;
    if (o->threads && o->threads < s->cores) s->cores = o->threads;
    return mo_bench_serve(s, &serve, document, err);
}

/* --- the verb ------------------------------------------------------------------------------------------ */
static int again(struct mo_bench_session *s, const struct mo_options *o, json_t **document,
                 moire_error *err) {
    (void)document;
    if (!o->report && !o->trace)
        return mo_fail(err, MOIRE_EINVAL, "report needs --report FILE.html or --trace FILE.json");
    struct mo_json_file file;
    int code = mo_json_load(s->env, o->operands.word[0], &file, err);
    if (code) return code;
    if (!json_is_array(json_object_get(file.root, "results")))
        code = mo_json_fail(&file, "", err, "not a result of `moire bench serve`");
    if (!code && o->trace) code = mo_bench_write_trace(s->env, file.root, o->trace, err);
    if (!code && o->report) code = mo_bench_write_html(s->env, file.root, o->report, err);
    mo_json_close(&file);
    if (code || !o->json) return code;
    json_t *written = json_pack("{s:s*, s:s*}", "report", o->report, "trace", o->trace);
    code = mo_print_json(written, err);
    json_decref(written);
    return code;
}

static int run_command(struct mo_bench_session *s, const struct mo_options *o, json_t **document,
                       moire_error *err) {
    static int (*const commands[MO_COMMANDS])(struct mo_bench_session * session, const struct mo_options *o,
                                              json_t **document,
                                              moire_error *err) = {[MO_DO_LATENCY] = mo_bench_run_latency,
                                                                   [MO_DO_COLD] = mo_bench_run_cold,
                                                                   [MO_DO_SURVEY] = mo_bench_run_survey,
                                                                   [MO_DO_LOADGEN] = mo_bench_run_loadgen,
                                                                   [MO_DO_KERNELS] = mo_bench_run_kernels,
                                                                   [MO_DO_MACHINE] = mo_bench_run_machine,
                                                                   [MO_DO_SERVE] = serve,
                                                                   [MO_DO_PLANS] = mo_bench_run_plans,
                                                                   [MO_DO_INSS] = mo_bench_run_inss,
                                                                   [MO_DO_WATTWISER] = mo_bench_run_wattwiser,
                                                                   [MO_DO_FLEXY] = mo_bench_run_flexy,
                                                                   [MO_DO_REPORT] = again};
    /* serve looks by itself: what disturbs its calibration is part of its result */
    if (o->command != MO_DO_REPORT && o->command != MO_DO_PLANS && o->command != MO_DO_INSS &&
        o->command != MO_DO_WATTWISER && o->command != MO_DO_FLEXY && o->command != MO_DO_SERVE)
        mo_bench_warn_busy(s);
    return commands[o->command](s, o, document, err);
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err = {0};
    struct mo_bench_session session;
    struct mo_bench_paths paths;
    json_t *document = NULL;
    if (o->command == MO_DO_RUNNER || o->command == MO_DO_CLIENT)
        return mo_bench_runner(env, o->command == MO_DO_CLIENT ? mo_net_backend() : mo_bench_moire_backend(),
                               o->operands.word[0]);
    int code = mo_bench_open(env, o, &session, &paths, &err);
    if (code) return mo_verb_fail(o, &err);
    (void)run_command(&session, o, &document, &err);
    code = mo_bench_conclude(&session, o, document, &err);
    json_decref(document);
    mo_bench_session_close(&session);
    return code;
}

const struct mo_verb mo_verb_bench = {
    .name = "bench",
    .group = MO_GROUP_MEASURE,
    .summary = "measure latency alone and service under load, beside other systems",
    .about = about,
    .notes = notes,
    .commands = {{.name = "latency", .command = MO_DO_LATENCY, .operands = "FILE.onnx|NAME ..."},
                 {.name = "cold", .command = MO_DO_COLD, .operands = "FILE.onnx|NAME ..."},
                 {.name = "survey", .command = MO_DO_SURVEY, .operands = "DIR|LIST|FILE.onnx ..."},
                 {.name = "loadgen", .command = MO_DO_LOADGEN, .operands = "FILE.onnx|NAME"},
                 {.name = "kernels", .command = MO_DO_KERNELS, .operands = "FILE.onnx|NAME ..."},
                 {.name = "machine", .command = MO_DO_MACHINE},
                 {.name = "serve", .command = MO_DO_SERVE, .operands = "SCENARIO"},
                 {.name = "plans", .command = MO_DO_PLANS},
                 {.name = "inss", .command = MO_DO_INSS},
                 {.name = "wattwiser", .command = MO_DO_WATTWISER},
                 {.name = "flexy", .command = MO_DO_FLEXY},
                 {.name = "report", .command = MO_DO_REPORT, .operands = "RESULT.json"},
                 {.name = "runner", .command = MO_DO_RUNNER, .operands = "ARRANGEMENT", .hidden = true},
                 {.name = "client", .command = MO_DO_CLIENT, .operands = "ARRANGEMENT", .hidden = true}},
    .run = run,
};
