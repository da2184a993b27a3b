/* SPDX-License-Identifier: Apache-2.0
 * verb_bench.c - `moire bench`: solo latency and service under load, with peers beside. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include "bench/load/drive.h"
#include "bench/load/moire_backend.h"
#include "bench/report/report.h"
#include "bench/load/serve.h"
#include "tools/moire/bench_options.h"
#include "tools/moire/paths.h"
#include "tools/moire/verb.h"

static const char usage[] =
    "usage: moire bench latency FILE.onnx|NAME ... [--threads 1,2] [--peers P,...] [--shape NAME=d,d,...]\n"
    "                           [--generic] [--only-generic] [--exact] [--seconds S] [--store DIR]\n"
    "                           [--profile] [--output F.json [--resume]] [--json]\n"
    "       moire bench cold FILE.onnx|NAME ... [--threads N] [--peers P,...] [--generic] [--store DIR]\n"
    "                           [--output F.json] [--json]\n"
    "       moire bench kernels FILE.onnx|NAME ... [--threads 1,2] [--peer onednn] [--generic] [--exact]\n"
    "                           [--seconds S] [--store DIR] [--output F.json [--resume]] [--json]\n"
    "       moire bench machine [--output F.json]\n"
    "       moire bench serve SCENARIO [--policy P,...] [--load L,...] [--find-max SHARE] [--seconds S]\n"
    "                           [--seed K,...] [--peers P,...] [--report F.html] [--trace F.json] [--json]\n"
    "       moire bench plans [--machine M] ... [--planner P,...] [--every N] [--load L] [--no-scaling]\n"
    "                           [--jobs N] [--seed N] [--report F.html] [--output F.json] [--json]\n"
    "       moire bench report RESULT.json --report F.html\n\n"
    "latency  time of one model alone on the machine; all systems in turn, in slices of one run\n"
    "cold     from nothing to the first answer of every model, all in one fresh process; best of 5 rounds,\n"
    "         files in the page cache\n"
    "kernels  every distinct layer alone: rates, share of the ceilings measured at the start, roofline, and\n"
    "         the same layer on oneDNN beside\n"
    "machine  those ceilings, as a file for bench/machines\n"
    "serve    open-loop Poisson arrivals on several models; latency counts from the scheduled arrival\n"
    "plans    planners of lets on GPUs, by their model: the 1,023 loads of gpu-let (every N-th, times L), "
    "the\n"
    "         highest rates of its scenarios and applications, the time of a plan by GPUs and models\n"
    "report   draws the page of an earlier `serve --json` again\n\n"
    "SCENARIO is a file, or the name of one in bench/scenarios (mix, light, medium, heavy, ocr).\n"
    "Load 1.0 means: arrival rate x one-core solo time of the fastest system measured = all cores busy.\n\n"
    "NAME is a model of `moire zoo list`; zoo stands for all of them.\n\n"
    "  --peers P,...        latency, cold: openvino, onnxruntime, ncnn, mnn or all; kernels: onednn; serve: "
    "the "
    "first\n"
    "                       two, all, or single arrangements\n"
    "                       (ort-fcfs-all, ort-core-per-query, ort-all-at-once-1t, ort-all-at-once-nt,\n"
    "                       ort-all-at-once-nt-nospin, openvino-latency, openvino-throughput)\n"
    "  --threads N,...      latency, kernels: thread counts, all cores (1 for kernels) by default\n"
    "  --shape NAME=d,d,... latency, kernels: shape of an input that the file leaves open\n"
    "  --generic            latency: the built-in kernels besides; serve, kernels: only these\n"
    "  --only-generic       latency: the built-in kernels, without the specialised ones\n"
    "  --exact              models loaded with `exact`: sums as ONNX writes them, no Winograd, no "
    "Strassen\n"
    "  --profile            latency: moire's time by layer besides\n"
    "  --resume             latency, kernels: skip what the file of --output holds already\n"
    "  --policy P,...       serve: policies of moire (moire, fcfs, fcfs-1), or none\n"
    "  --load L,...         serve: loads to measure\n"
    "  --find-max SHARE     serve: highest load at which SHARE of all queries, and of every tenant's, is in "
    "time\n"
    "  --step S             serve: grid of that search, 0.05 by default\n"
    "  --max-load L         serve: end of that grid, 1.2 by default\n"
    "  --expect L           serve: where that search begins, 0.5 by default; near the answer it is short\n"
    "  --seconds S          measured time of one run (serve, 10) or of each system (latency, 2; kernels,\n"
    "                       0.15 a layer)\n"
    "  --warmup S           serve: time before it that does not count, 1 by default\n"
    "  --seed K,...         serve: seeds of the arrivals, 1 by default; every system gets the same arrivals\n"
    "  --arrivals PROCESS   serve: poisson (default), gamma:CV or mmpp:CV (bursts)\n"
    "  --record F           serve: the trace of moire's last run, for `moire whatif`\n"
    "  --device D           serve: on the GPUs of a plugin, cuda or cuda:FILE, with policies for GPUs\n"
    "                       (moire-gpu, gpulet-int, sbp ...)\n"
    "  --device-process W   serve: where the plugin runs: in (that process), child (one of its own) or\n"
    "                       child:FILE\n"
    "  --device-cache DIR   serve: folder of compiled GPU programs (\"\": keep none);\n"
    "                       $XDG_CACHE_HOME/moire/gpu or ~/.cache/moire/gpu by default\n"
    "  --gpus MACHINE       serve: the machine file of these GPUs, whose profiles plans, targets and rates\n"
    "                       rest on, as in `moire sim`\n"
    "  --precision P        serve: fp32, tf32, fp16 or bf16 on GPUs\n"
    "  --proxy F            serve: pressure of moire's runs from counters, by a file of `moire proxy fit`\n"
    "  --pressure SOURCE    serve: papi, resctrl, slowdown or auto (moire proxy list); what --record "
    "records\n"
    "  --calibrate S        serve: solo time measured of each model and system, 0.6 by default\n"
    "  --calibration F      serve: take QoS targets and solo times from an earlier result\n"
    "  --store DIR          folder of compiled variants\n"
    "  --models DIR         folder of zoo files, built on first use\n"
    "  --report F.html      serve: a self-contained page with plots and a timeline\n"
    "  --trace F.json       serve: the timeline as a Chrome trace (opens in Perfetto)\n"
    "  --json               the result document on stdout instead of the tables\n"
    "  --output F.json      the result document to a file besides; latency, kernels: after every step\n"
    "  --quiet              no progress on stderr\n\n"
    "Examples:\n"
    "  moire bench latency resnet50 mobilenet-v2 --threads 1,2 --peers openvino,onnxruntime\n"
    "  moire bench latency zoo --peers all --output zoo.json --resume\n"
    "  moire bench kernels resnet50 mobilenet-v2 vgg16 --threads 1,2 --peer onednn\n"
    "  moire bench serve mix --policy moire,fcfs --load 0.5 --seconds 5 --report mix.html\n"
    "  moire bench serve mix --find-max 0.95 --peers all --seed 1,2,3 --output mix.json --report mix.html\n"
    "Ctrl-C ends a run in good order; what has been measured is reported, and the exit code is 130.\n";

/* --- serve -------------------------------------------------------------------------------------------- */
static int add_peers(struct mo_bench_options *o, const char *word, moire_error *err) {
    int n, before = o->serve.n_peers;
    const struct mo_bench_system *all = mo_bench_peers(&n);
    for (int i = 0; i < n && o->serve.n_peers < MO_BENCH_MAX_SYSTEMS; i++)
        if (!strcmp(word, "all") || !strcmp(word, all[i].family) || !strcmp(word, all[i].name))
            o->serve.peers[o->serve.n_peers++] = &all[i];
    if (o->serve.n_peers == before && strcmp(word, "none") != 0)
        return mo_bench_bad_flag(err, "--peers", word, "no such peer; see moire bench --help");
    return MOIRE_OK;
}

static int serve(struct mo_bench_session *s, struct mo_bench_options *o, json_t **document,
                 moire_error *err) {
    char path[1024], *parts[16];
    int n = o->peers ? mo_bench_split((char *)o->peers, parts, 16) : 0, code = MOIRE_OK;
    for (int i = 0; !code && i < n; i++)
        code = add_peers(o, parts[i], err);
    if (code) return code;
    if (!o->serve.n_loads && !(o->serve.find_max > 0)) o->serve.loads[o->serve.n_loads++] = 0.5;
    if ((code = mo_bench_check_serve(o, err))) return code;
    if ((code = mo_bench_find_data(s, "scenarios", o->models[0], path, sizeof path, err))) return code;
    o->serve.scenario = path;
    o->serve.timeline = o->report || o->trace;
    if (o->seconds > 0) o->serve.seconds = o->seconds;
    s->generic = o->generic || o->only_generic;
    s->exact = o->exact;
    return mo_bench_serve(s, &o->serve, document, err);
}

/* --- the verb ------------------------------------------------------------------------------------------ */
static int again(struct mo_bench_session *s, struct mo_bench_options *o, json_t **document,
                 moire_error *err) {
    (void)document;
    if (o->latency.n_models != 1 || (!o->report && !o->trace))
        return mo_fail(err, MOIRE_EINVAL,
                       "report needs one result file and --report F.html or --trace F.json");
    struct mo_json_file file;
    int code = mo_json_load(s->env, o->models[0], &file, err);
    if (code) return code;
    if (!json_is_array(json_object_get(file.root, "results")))
        code = mo_json_fail(&file, "", err, "not a result of `moire bench serve`");
    if (!code && o->trace) code = mo_bench_write_trace(s->env, file.root, o->trace, err);
    if (!code && o->report) code = mo_bench_write_html(s->env, file.root, o->report, err);
    mo_json_close(&file);
    return code;
}

static const struct {
    const char *name;
    int (*run)(struct mo_bench_session *session, struct mo_bench_options *options, json_t **document,
               moire_error *err);
    enum mo_bench_reader reader;
} commands[] = {{"latency", mo_bench_run_latency, MO_READS_LATENCY},
                {"cold", mo_bench_run_cold, MO_READS_COLD},
                {"kernels", mo_bench_run_kernels, MO_READS_KERNELS},
                {"machine", mo_bench_run_machine, MO_READS_MACHINE},
                {"serve", serve, MO_READS_SERVE},
                {"report", again, MO_READS_REPORT}};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int run_command(struct mo_bench_session *session, struct mo_bench_options *o, struct mo_args *args,
                       const char *word, json_t **document, moire_error *err) {
    int at = 0;
    while (at < COMMANDS && strcmp(word, commands[at].name) != 0)
        at++;
    if (at == COMMANDS)
        return mo_fail(
            err, MOIRE_EINVAL,
            "needs latency, cold, kernels, machine, serve, plans or report; see moire bench --help");
    o->reader = commands[at].reader;
    int code = mo_bench_options_parse(o, args, err);
    if (code) return code;
    session->quiet = o->quiet;
    session->record = o->record;
    session->pressure = o->pressure;
    session->proxy = o->proxy;
    session->device = o->device;
    session->process = o->process;
    session->device_cache = mo_path_device_cache(o->device_cache, o->cache_path, sizeof o->cache_path);
    session->precision = o->precision;
    if (o->device && !strcmp(word, "serve")) {
        if (!o->gpus)
            return mo_fail(err, MOIRE_EINVAL,
                           "--device needs --gpus: a machine file with profiles (moire profile --device)");
        session->gpus = o->gpus;
    }
    if ((code = mo_bench_use_store(session, o, err))) return code;
    if (o->models_folder) session->models = o->models_folder;
    if (o->reader != MO_READS_REPORT) mo_bench_warn_busy(session);
    return commands[at].run(session, o, document, err);
}

static int dispatch(const struct mo_env *env, int argc, char **argv, moire_error *err) {
    struct mo_bench_options *o = mo_alloc(env, sizeof *o);
    struct mo_bench_session session;
    struct mo_args args = {.argc = argc, .argv = argv, .at = 2};
    json_t *document = NULL;
    if (!o) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    o->serve = mo_bench_serve_defaults();
    int code = mo_bench_session_open(env, argc, argv, &session, err);
    if (!code) {
        code = run_command(&session, o, &args, argc > 1 ? argv[1] : "", &document, err);
        moire_error why;
        int wrote = document ? mo_bench_write_outputs(&session, o, document, &why) : MOIRE_OK;
        if (wrote && !code) {
            *err = why;
            code = wrote;
        }
        json_decref(document);
        mo_bench_session_close(&session);
    }
    mo_free(env, o);
    return code;
}

static int run(const struct mo_env *env, int argc, char **argv) {
    moire_error err = {0};
    if (argc == 3 && !strcmp(argv[1], "runner"))
        return mo_bench_runner(env, mo_bench_moire_backend(), argv[2]);
    bool plans = argc > 1 && !strcmp(argv[1], "plans");
    int code = plans ? mo_bench_run_plans(env, argc, argv, &err) : dispatch(env, argc, argv, &err);
    return code ? mo_verb_fail("bench", &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_bench = {
    .name = "bench",
    .summary = "measure latency alone and service under load, beside other systems",
    .usage = usage,
    .outputs = {"--output", "--report", "--trace", "--record"},
    .run = run,
};
