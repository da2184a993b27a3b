/* SPDX-License-Identifier: Apache-2.0
 * verb_compile.c - `moire compile`: makes models fast by generating, compiling, checking and timing a kernel
 * for every layer, and keeping the best in the variant store. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/cores.h"
#include "tools/moire/compile_show.h"
#include "tools/moire/neighbour.h"
#include "tools/moire/paths.h"
#include "tools/moire/verb.h"
#include "variants/store.h"

static const char usage[] =
    "usage: moire compile FILE.onnx|NAME ... [--shape INPUT=d,d,...] [--threads N] [--budget SECONDS]\n"
    "                     [--store DIR] [--cc CC] [--isa avx512|avx2|base] [--candidates N] [--exact]\n"
    "                     [--byte-price N] [--cores N] [--refine] [--verbose] [--json]\n\n"
    "Emits C for every convolution and matrix product, compiles it, checks it against a reference, times it\n"
    "and stores the fastest.  Layers that the store already has are skipped, so the command can be "
    "repeated,\n"
    "interrupted and resumed; layers that models share are compiled once.  Several models may be given.\n"
    "Then every model is verified as a whole before it is published: its compiled kernels, in its own "
    "memory\n"
    "plan, against built-in ones.  A kernel that is wrong there leaves the store and is named; the built-in\n"
    "kernel serves.\n\n"
    "  --shape INPUT=d,d,...  binds an input whose shape is open\n"
    "  --threads N            compilers that run at a time; all allowed cores by default\n"
    "  --budget SECONDS       stop after about this time: first two candidates of every layer, largest "
    "first,\n"
    "                         then more where they promise most; without it 12 candidates of every layer\n"
    "  --store DIR            folder of compiled variants; $XDG_CACHE_HOME/moire/store or\n"
    "                         ~/.cache/moire/store by default\n"
    "  --cc CC                C compiler; the first of gcc, clang, cc by default\n"
    "  --isa LEVEL            avx512, avx2 or base; what the machine has by default\n"
    "  --candidates N         most candidates of a layer\n"
    "  --exact                for models run with --exact: no algorithm that rounds more than the sum of "
    "products\n"
    "  --byte-price N         us that a MB of packed weights is worth: the larger, the less memory; 36 by\n"
    "                         default, 0 for the fastest kernels of a model that has the machine to itself\n"
    "  --cores N              that a layer may get; all allowed ones by default.  Where the fastest kernel "
    "has\n"
    "                         fewer units than these, a second that feeds them is looked for and kept too\n"
    "  --refine               try more candidates of layers that the store already has\n"
    "  --versions N           also keep versions for several levels of pressure: see moire tune\n"
    "  --qos MS               with --versions: target of the model\n"
    "  --keep-covered         with --versions: see moire tune\n"
    "  --verbose              say why candidates are rejected\n"
    "  --json                 results as JSON on standard output\n\n"
    "Exit codes: 0 done (layers without a variant run by built-in kernels), 2 usage, 3 bad model,\n"
    "4 no compiler, store not writable or disk full, 5 a compiled kernel was wrong in a model and is out of "
    "use,\n130 interrupted (the store stays valid).\n\n"
    "Examples:\n"
    "  moire compile resnet50.onnx\n"
    "  moire compile detector.onnx --shape x=1,3,640,640 --budget 60\n"
    "  moire compile resnet50 mobilenet-v2 googlenet --threads 2 --json\n";

enum { MAX_FILES = 64, MAX_SHAPES = 64 };

struct options {
    struct mo_compile_options compile;
    const char *verb; /* "compile" or "tune" */
    const char *names[MAX_FILES], *store_given;
    char store[MO_PATH_CAP], paths[MAX_FILES][MO_PATH_CAP];
    moire_shape shapes[MAX_SHAPES];
    bool json, verbose;
    struct mo_finished finished[MAX_FILES];
    struct mo_compile_shown shown;
};

/* The one thing a signal handler may touch.  A second Ctrl-C ends at once: the store is valid at any time. */
static _Atomic int stop_requested;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    atomic_store(&stop_requested, 1);
}

/* --- arguments --- */

static bool parse_isa(const char *text, enum mo_isa *out) {
    for (int i = 0; text && i < MO_ISA_COUNT; i++) {
        if (strcmp(text, mo_isa_name((enum mo_isa)i))) continue;
        *out = (enum mo_isa)i;
        return true;
    }
    return false;
}

/* One flag or file; an exit code, or -1 to go on. */
static int take_argument(struct mo_args *a, struct options *o) {
    struct mo_compile_options *c = &o->compile;
    const int64_t least_versions = strcmp(o->verb, "tune") ? 1 : 2;
    double number;
    int64_t whole;
    if (mo_args_flag(a, "--json", false)) {
        o->json = true;
    } else if (mo_args_flag(a, "--verbose", false)) {
        o->verbose = true;
    } else if (mo_args_flag(a, "--exact", false)) {
        c->exact = true;
    } else if (mo_args_flag(a, "--refine", false)) {
        c->search.refine = true;
    } else if (mo_args_flag(a, "--byte-price", true)) {
        if (!mo_args_number(a->value, 0, 1e6, &number))
            return mo_verb_usage(o->verb, "--byte-price wants us a MB", NULL);
        c->search.byte_ns = number * 1e-3;
    } else if (mo_args_flag(a, "--store", true)) {
        if (!(o->store_given = a->value)) return mo_verb_usage(o->verb, "--store wants a folder", NULL);
    } else if (mo_args_flag(a, "--cc", true)) {
        if (!(c->search.cc = a->value)) return mo_verb_usage(o->verb, "--cc wants a compiler", NULL);
    } else if (mo_args_flag(a, "--isa", true)) {
        if (!parse_isa(a->value, &c->search.isa))
            return mo_verb_usage(o->verb, "--isa is avx512, avx2 or base", NULL);
    } else if (mo_args_flag(a, "--threads", true)) {
        if (!mo_args_whole(a->value, 1, 64, &whole))
            return mo_verb_usage(o->verb, "--threads wants 1 to 64", NULL);
        c->search.jobs = (int)whole;
    } else if (mo_args_flag(a, "--candidates", true)) {
        if (!mo_args_whole(a->value, 1, 20, &whole))
            return mo_verb_usage(o->verb, "--candidates wants 1 to 20", NULL);
        c->search.points = (int)whole;
    } else if (mo_args_flag(a, "--cores", true)) {
        if (!mo_args_whole(a->value, 1, MO_MAX_CORES, &whole))
            return mo_verb_usage(o->verb, "--cores wants 1 to 1024", NULL);
        c->search.cores = (int)whole;
    } else if (mo_args_flag(a, "--versions", true)) {
        if (!mo_args_whole(a->value, least_versions, MO_STORE_VERSIONS, &whole))
            return mo_verb_usage(
                o->verb, least_versions > 1 ? "--versions wants 2 to 5" : "--versions wants 1 to 5", NULL);
        c->search.versions = (int)whole;
    } else if (mo_args_flag(a, "--keep-covered", false)) {
        c->search.keep_covered = true;
    } else if (mo_args_flag(a, "--qos", true)) {
        if (!mo_args_number(a->value, 0.001, 1e7, &number))
            return mo_verb_usage(o->verb, "--qos wants ms", NULL);
        c->search.qos_ns = number * 1e6;
    } else if (mo_args_flag(a, "--budget", true)) {
        if (!mo_args_number(a->value, 0.001, 1e7, &c->search.budget_s))
            return mo_verb_usage(o->verb, "--budget wants seconds", NULL);
    } else if (mo_args_flag(a, "--shape", true)) {
        if (c->n_shapes == MAX_SHAPES || !mo_args_shape(a->value, &o->shapes[c->n_shapes]))
            return mo_verb_usage(o->verb, "--shape wants INPUT=d,d,...", NULL);
        c->n_shapes++;
    } else if (a->argv[a->at][0] == '-') {
        return mo_verb_usage(o->verb, "unknown flag", a->argv[a->at]);
    } else {
        if (c->n_files == MAX_FILES) return mo_verb_usage(o->verb, "too many models", NULL);
        o->names[c->n_files++] = a->argv[a->at++];
    }
    return -1;
}

static int parse(int argc, char **argv, struct options *o) {
    struct mo_args args = {.argc = argc, .at = 1, .argv = argv};
    o->compile.search.isa = mo_isa_detect();
    o->compile.search.byte_ns = MO_BYTE_NS;
    while (args.at < args.argc) {
        int rc = take_argument(&args, o);
        if (rc >= 0) return rc;
    }
    if (!o->compile.n_files)
        return mo_verb_usage(o->verb, "which model? FILE.onnx or a name of the zoo is missing", NULL);
    if (!mo_isa_covers(mo_isa_detect(), o->compile.search.isa))
        return mo_verb_usage(o->verb, "this machine has no", "such ISA level");
    if (o->compile.search.versions < 2 && (o->compile.search.qos_ns > 0 || o->compile.search.keep_covered))
        return mo_verb_usage(o->verb, "--qos and --keep-covered need --versions 2 to 5", NULL);
    o->compile.shapes = o->shapes;
    return -1;
}

static int resolve_files(const struct mo_env *env, struct options *o, moire_error *err) {
    for (int i = 0; i < o->compile.n_files; i++) {
        int rc = mo_path_model(env, o->names[i], o->paths[i], MO_PATH_CAP, &o->names[i], err);
        if (rc) return rc;
    }
    o->compile.files = o->names;
    return mo_path_store(o->store_given, o->store, sizeof o->store, err);
}

/* --- the command --- */

static void print_log(void *user, int level, const char *line) {
    const struct options *o = user;
    if (level == MOIRE_LOG_ERROR || (o->verbose && level <= MOIRE_LOG_WARN))
        fprintf(stderr, "moire %s: %s\n", o->verb, line);
}

/* Verifies and publishes; an exit code. */
static int finish(const struct mo_env *env, struct options *o, struct mo_search *search) {
    struct mo_finish f = {.env = env,
                          .verb = o->verb,
                          .store = o->store,
                          .compile = &o->compile,
                          .search = search,
                          .interrupted = &stop_requested,
                          .model = o->finished,
                          .withdrawn = o->shown.withdrawn};
    int code = mo_compile_finish(&f);
    o->shown.model = o->finished;
    o->shown.n_models = f.n;
    return code;
}

static void catch_interrupts(void) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static int run_with(const struct mo_env *outer, struct options *o) {
    struct mo_env env = *outer;
    env.log = print_log;
    env.log_user = o;
    moire_error err = {0};
    struct mo_search *search = NULL;
    struct mo_compile_progress progress = {
        .env = &env, .started = mo_now(&env), .terminal = isatty(STDERR_FILENO)};
    struct mo_search_options *s = &o->compile.search;
    cpu_set_t set;
    int allowed = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    if (!s->jobs) s->jobs = allowed;
    if (!s->cores) s->cores = allowed;
    s->store = o->store;
    s->interrupted = &stop_requested;
    s->began = mo_compile_show_began;
    s->progress = mo_compile_show_progress;
    progress.versions = s->versions;
    s->ctx = &progress;
    catch_interrupts();
    struct mo_neighbour neighbour = {.stress = NULL};
    int rc = resolve_files(&env, o, &err);
    if (!rc && s->versions > 1) rc = mo_neighbour_open(&env, &neighbour, &err);
    s->stress = neighbour.stress;
    if (!rc) rc = mo_compile_models(&env, &o->compile, &search, &err);
    mo_neighbour_close(&neighbour);
    o->shown.withdrawn = json_array();
    int code = rc ? MO_EXIT_OK : finish(&env, o, search);
    o->shown.compile = &o->compile;
    o->shown.store = o->store;
    o->shown.seconds = (double)(mo_now(&env) - progress.started) * 1e-9;
    if (rc && progress.terminal) fputc('\n', stderr);
    if (rc) code = mo_verb_fail(o->verb, &err);
    if (search && !rc) {
        if (!o->json)
            mo_compile_show_table(search, &o->shown);
        else if (mo_compile_show_json(search, &o->shown))
            code = MO_EXIT_SYSTEM;
    } else if (search && rc == MOIRE_EINTERRUPTED) {
        struct mo_compile_totals t = mo_compile_totals(search);
        fprintf(stderr, "moire %s: %d of %d layers are in the store; run the command again to go on\n",
                o->verb, t.layers - t.pending, t.layers);
    }
    json_decref(o->shown.withdrawn);
    mo_search_destroy(search);
    return code;
}

static int run(const struct mo_env *env, int argc, char **argv) {
    struct options *o = calloc(1, sizeof *o);
    if (!o) {
        fprintf(stderr, "moire %s: out of memory\n", argv[0]);
        return MO_EXIT_SYSTEM;
    }
    o->verb = argv[0];
    int rc = parse(argc, argv, o);
    if (rc < 0) rc = run_with(env, o);
    free(o);
    return rc;
}

const struct mo_verb mo_verb_compile = {
    .name = "compile",
    .summary = "generate, compile and store a fast kernel for every layer of a model",
    .usage = usage,
    .run = run,
};
