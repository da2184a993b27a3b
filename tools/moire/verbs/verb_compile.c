/* SPDX-License-Identifier: Apache-2.0
 * verb_compile.c - `moire compile`: makes models fast by generating, compiling, checking and timing a kernel
 * for every layer, and keeping the best in the variant store. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "tools/moire/compile_show.h"
#include "tools/moire/flags.h"
#include "tools/moire/neighbour.h"
#include "tools/moire/paths.h"
#include "variants/store.h"

static const char about[] =
    "Emits C for every convolution and matrix product, compiles it, checks it against a reference, times it\n"
    "and stores the fastest.  Layers that the store already has are skipped, so the command can be "
    "repeated,\n"
    "interrupted and resumed; layers that models share are compiled once.  Several models may be given.\n"
    "Then every model is verified as a whole before it is published: its compiled kernels, in its own "
    "memory\n"
    "plan, against built-in ones.  A kernel that is wrong there leaves the store and is named; the built-in\n"
    "kernel serves.\n";

static const char notes[] =
    "Exit code 5: a compiled kernel was wrong in a model and is out of use.  A layer without a\n"
    "compiled kernel is no failure: a built-in one runs it.  After 130 the store is valid.\n"
    "\n"
    "Examples:\n"
    "  moire compile resnet50.onnx\n"
    "  moire compile detector.onnx --shape x=1,3,640,640 --budget 60\n"
    "  moire compile resnet50 mobilenet-v2 googlenet --threads 2 --json\n";

/* What verifying and publishing may take beyond the budget before they are given up. */
enum { OVER_NS = 500000000 };

/* One run of the verb, `compile` or `tune`. */
struct work {
    const struct mo_options *o;
    struct mo_compile_options compile;
    const char *verb, *names[MO_OPTION_ROOM];
    char store[MO_PATH_CAP], paths[MO_OPTION_ROOM][MO_PATH_CAP];
    struct mo_finished finished[MO_OPTION_ROOM];
    struct mo_compile_shown shown;
    int64_t ends;        /* of the budget and what is over it at most; 0: there is none */
    moire_error trouble; /* the last of a model that was compiled */
};

/* The one thing a signal handler may touch.  A second Ctrl-C ends at once: the store is valid at any time. */
static _Atomic int stop_requested;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    atomic_store(&stop_requested, 1);
}

/* --- arguments --- */
static int take_options(struct work *w, moire_error *err) {
    const struct mo_options *o = w->o;
    struct mo_search_options *s = &w->compile.search;
    w->compile.shapes = o->shapes.shape;
    w->compile.n_shapes = o->shapes.n;
    w->compile.n_files = o->operands.n;
    w->compile.exact = o->exact;
    *s = (struct mo_search_options){.isa = mo_isa_detect(),
                                    .cc = o->cc,
                                    .refine = o->refine,
                                    .byte_ns = o->byte_price / 1000,
                                    .jobs = o->threads,
                                    .points = o->candidates,
                                    .cores = o->cores,
                                    .versions = o->versions,
                                    .keep_covered = o->keep_covered,
                                    .qos_ns = o->qos_ms * 1e6,
                                    .budget_s = o->budget};
    for (int i = 0; o->isa && i < MO_ISA_COUNT; i++)
        if (!strcmp(o->isa, mo_isa_name((enum mo_isa)i))) s->isa = (enum mo_isa)i;
    if (!mo_isa_covers(mo_isa_detect(), s->isa))
        return mo_flag_bad(err, "--isa", o->isa, "this machine has no such level");
    if (s->versions < 2 && (s->qos_ns > 0 || s->keep_covered))
        return mo_fail(err, MOIRE_EINVAL, "--qos and --keep-covered need --versions 2 to 5");
    return MOIRE_OK;
}

static int resolve_files(const struct mo_env *env, struct work *w, moire_error *err) {
    for (int i = 0; i < w->compile.n_files; i++) {
        int rc = mo_path_model(env, w->o->operands.word[i], w->paths[i], MO_PATH_CAP, &w->names[i], err);
        if (rc) return rc;
    }
    w->compile.files = w->names;
    return mo_path_store(w->o->store, w->store, sizeof w->store, err);
}

/* --- the command --- */

static void print_log(void *user, int level, const char *line) {
    const struct work *w = user;
    if (level == MOIRE_LOG_ERROR || (w->o->verbose && level <= MOIRE_LOG_WARN))
        fprintf(stderr, "moire %s: %s\n", w->verb, line);
}

/* Verifies and publishes; an exit code. */
static int finish(const struct mo_env *env, struct work *w, struct mo_search *search) {
    struct mo_finish f = {.env = env,
                          .verb = w->verb,
                          .store = w->store,
                          .compile = &w->compile,
                          .search = search,
                          .interrupted = &stop_requested,
                          .ends = w->ends,
                          .model = w->finished,
                          .withdrawn = w->shown.withdrawn};
    int code = mo_compile_finish(&f);
    w->shown.model = w->finished;
    w->shown.n_models = f.n;
    w->trouble = f.err;
    return code;
}

static void catch_interrupts(void) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static int run_with(const struct mo_env *outer, struct work *w) {
    struct mo_env env = *outer;
    env.log = print_log;
    env.log_user = w;
    moire_error err = {0};
    struct mo_search *search = NULL;
    struct mo_compile_progress progress = {
        .env = &env, .started = mo_now(&env), .terminal = isatty(STDERR_FILENO)};
    struct mo_search_options *s = &w->compile.search;
    cpu_set_t set;
    int allowed = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    if (!s->jobs) s->jobs = allowed;
    if (!s->cores) s->cores = allowed;
    s->store = w->store;
    s->interrupted = &stop_requested;
    s->began = mo_compile_show_began;
    s->progress = mo_compile_show_progress;
    progress.versions = s->versions;
    s->budget_began = progress.started;
    if (s->budget_s > 0) w->ends = s->budget_began + (int64_t)(s->budget_s * 1e9) + OVER_NS;
    s->ctx = &progress;
    catch_interrupts();
    struct mo_neighbour neighbour = {.stress = NULL};
    int rc = resolve_files(&env, w, &err);
    if (!rc && s->versions > 1) rc = mo_neighbour_open(&env, &neighbour, &err);
    s->stress = neighbour.stress;
    if (!rc) rc = mo_compile_models(&env, &w->compile, &search, &err);
    mo_neighbour_close(&neighbour);
    w->shown.withdrawn = json_array();
    int code = rc ? MO_EXIT_OK : finish(&env, w, search);
    w->shown.compile = &w->compile;
    w->shown.store = w->store;
    w->shown.err = &w->trouble;
    w->shown.seconds = (double)(mo_now(&env) - progress.started) * 1e-9;
    if (rc && progress.terminal) fputc('\n', stderr);
    if (rc) code = mo_verb_fail(w->o, &err);
    if (search && !rc) {
        if (!w->o->json)
            mo_compile_show_table(search, &w->shown);
        else if (mo_compile_show_json(search, &w->shown, &err))
            code = mo_verb_fail(w->o, &err);
    } else if (search && rc == MOIRE_EINTERRUPTED) {
        struct mo_compile_totals t = mo_compile_totals(search);
        fprintf(stderr, "moire %s: %d of %d layers are in the store; run the command again to go on\n",
                w->verb, t.layers - t.pending, t.layers);
    }
    json_decref(w->shown.withdrawn);
    mo_search_destroy(search);
    return code;
}

int mo_verb_compile_run(const struct mo_env *env, const struct mo_options *o) {
    struct work *w = mo_alloc(env, sizeof *w);
    moire_error err = {0};
    const char *verb = o->command == MO_DO_TUNE ? "tune" : "compile";
    if (!w) return mo_verb_fail(o, (mo_fail(&err, MOIRE_ENOMEM, "out of memory"), &err));
    w->o = o;
    w->verb = verb;
    int code = take_options(w, &err) ? mo_verb_fail(o, &err) : run_with(env, w);
    mo_free(env, w);
    return code;
}

const struct mo_verb mo_verb_compile = {
    .name = "compile",
    .group = MO_GROUP_KERNELS,
    .summary = "generate, compile and store a fast kernel for every layer of a model",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_COMPILE, .operands = "FILE.onnx|NAME ..."}},
    .run = mo_verb_compile_run,
};
