/* SPDX-License-Identifier: Apache-2.0
 * verb_compile.c - `moire compile`: makes models fast by generating, compiling, checking and timing a kernel
 * for every layer, and keeping the best in the variant store. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "codegen/frontend.h"
#include "tools/moire/compile/compile_all.h"
#include "tools/moire/command_line/flags.h"
#include "tools/moire/paths.h"

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
    "  moire compile --all                    on a new processor, or after an update of moire\n"
    "  moire compile detector.onnx --shape x=1,3,640,640 --budget 60\n"
    "  moire compile resnet50 mobilenet-v2 googlenet --threads 2 --json\n";

enum { WATCH_MS = 200 };

/* One run of the verb, `compile` or `tune`. */
struct work {
    const struct mo_options *o;
    const char *names[MO_OPTION_ROOM];
    char store[MO_PATH_CAP], paths[MO_OPTION_ROOM][MO_PATH_CAP];
    struct mo_finished finished[MO_OPTION_ROOM];
    struct mo_compile_run run;
};

/* The one thing a signal handler may touch.  A second Ctrl-C ends at once: the store is valid at any time. */
static _Atomic int stop_requested;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    atomic_store(&stop_requested, 1);
}

/* --- arguments --- */
static int check_all(const struct mo_options *o, moire_error *err) {
    if (!o->all && !o->operands.n)
        return mo_fail(err, MOIRE_EINVAL,
                       "needs FILE.onnx or NAME, or --all for every model that the store knows");
    if (o->all && (o->operands.n || o->shapes.n || o->exact))
        return mo_fail(err, MOIRE_EINVAL,
                       "--all takes the models, their shapes and --exact from the store; name none here");
    return MOIRE_OK;
}

static int take_options(struct work *w, moire_error *err) {
    const struct mo_options *o = w->o;
    struct mo_compile_options *c = &w->run.compile;
    struct mo_search_options *s = &c->search;
    c->shapes = o->shapes.shape;
    c->n_shapes = o->shapes.n;
    c->n_files = o->operands.n;
    c->exact = o->exact;
    c->precision = mo_precision_of(o->precision);
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
    return check_all(o, err);
}

static int resolve_files(const struct mo_env *env, struct work *w, moire_error *err) {
    for (int i = 0; i < w->o->operands.n; i++) {
        int rc = mo_path_model(env, w->o->operands.word[i], w->paths[i], MO_PATH_CAP, &w->names[i], err);
        if (rc) return rc;
    }
    w->run.compile.files = w->names;
    return MOIRE_OK;
}

/* --- the command --- */
static void catch_interrupts(void) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* Before anything is timed. */
static void warn_busy(const char *verb) {
    const struct mo_others others = mo_others_watch(WATCH_MS);
    char line[160];
    if (mo_compile_busy_line(&others, line, sizeof line))
        fprintf(stderr, "moire %s: %s; times will be too long, and what is chosen by them may be wrong\n",
                verb, line);
}

/* The models of the command line, together. */
static int run_named(const struct mo_env *env, struct work *w) {
    moire_error err = {0};
    if (resolve_files(env, w, &err)) return mo_verb_fail(w->o, &err);
    mo_path_say_elsewhere(env, w->store);
    w->run.model = w->finished;
    int code, rc = mo_compile_run(&w->run, &code, &err);
    if (!rc && !w->o->json) mo_compile_show_table(w->run.search, &w->run.shown);
    if (!rc && w->o->json) rc = mo_compile_show_json(w->run.search, &w->run.shown, &err);
    if (rc) code = mo_verb_fail(w->o, &err);
    mo_compile_run_close(&w->run);
    return code;
}

int mo_verb_compile_run(const struct mo_env *env, const struct mo_options *o) {
    struct work *w = mo_alloc(env, sizeof *w);
    moire_error err = {0};
    const char *verb = o->command == MO_DO_TUNE ? "tune" : "compile";
    if (!w) return mo_verb_fail(o, (mo_fail(&err, MOIRE_ENOMEM, "out of memory"), &err));
    w->o = o;
    w->run = (struct mo_compile_run){
        .env = env, .verb = verb, .store = w->store, .verbose = o->verbose, .interrupted = &stop_requested};
    int rc = take_options(w, &err), code;
    if (!rc) rc = mo_path_store(o->store, w->store, sizeof w->store, &err);
    catch_interrupts();
    if (!rc) warn_busy(verb);
    if (rc)
        code = mo_verb_fail(o, &err);
    else
        code = o->all ? mo_compile_all(&w->run, o) : run_named(env, w);
    mo_free(env, w);
    return code;
}

const struct mo_verb mo_verb_compile = {
    .name = "compile",
    .group = MO_GROUP_KERNELS,
    .summary = "generate, compile and store a fast kernel for every layer of a model",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_COMPILE, .operands = "[FILE.onnx|NAME] ..."}},
    .run = mo_verb_compile_run,
};
