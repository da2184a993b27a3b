/* SPDX-License-Identifier: Apache-2.0
 * verb_run.c - `moire run`: one model, its inputs from files or a seed, its outputs to the terminal and
 * files. */
#include <stdio.h>
#include <string.h>
#include "codegen/model_plan.h"
#include "codegen/region_graph.h"
#include "runtime/ops/trial.h"
#include "tools/moire/command_line/flags.h"
#include "tools/moire/inspect/graph_svg.h"
#include "tools/moire/verify/npy.h"
#include "tools/moire/paths.h"
#include "tools/moire/run.h"
#include "tools/moire/run_shapes.h"
#include "tools/moire/tolerance.h"
#include "variants/store.h"

static const char notes[] =
    "Examples:\n"
    "  moire run resnet50.onnx --input data=image.npy --output-dir out\n"
    "  moire run resnet50.onnx --repeat 20 --threads 2\n"
    "  moire run detector.onnx --shape x=1,3,640,640 --profile --threads 2 --trace layers.json\n"
    "  moire run detector.onnx --shape x=1,3,640,640 --profile --svg detector.svg\n";

enum { PROFILE_NS = 500000000 };

/* What the report needs to know of the command line. */
static int take_options(const struct mo_options *o, struct mo_run_options *r, moire_error *err) {
    *r = (struct mo_run_options){.file = o->operands.word[0],
                                 .output_dir = o->output_dir,
                                 .trace = o->trace,
                                 .svg = o->svg,
                                 .n_inputs = o->inputs.n,
                                 .threads = o->threads,
                                 .repeat = o->repeat,
                                 .seed = o->seed,
                                 .isa = mo_isa_detect(),
                                 .reference = o->reference,
                                 .profile = o->profile || o->trace || o->svg,
                                 .json = o->json};
    for (int i = 0; i < o->inputs.n; i++) {
        const char *at = strchr(o->inputs.word[i], '=');
        if (!at) return mo_flag_bad(err, "--input", o->inputs.word[i], "must look like NAME=FILE.npy");
        r->input_name[i] = o->inputs.word[i];
        r->input_split[i] = (size_t)(at - o->inputs.word[i]);
        r->input_file[i] = at + 1;
    }
    for (int i = 0; o->isa && i < MO_ISA_COUNT; i++)
        if (!strcmp(o->isa, mo_isa_name((enum mo_isa)i))) r->isa = (enum mo_isa)i;
    if (!mo_isa_covers(mo_isa_detect(), r->isa))
        return mo_flag_bad(err, "--isa", o->isa, "this machine has no such level");
    return MOIRE_OK;
}

/* --- inputs ------------------------------------------------------------------------------------------ */

static int set_input(const struct mo_env *env, const struct mo_run_options *o, struct mo_instance *instance,
                     const struct mo_graph *g, int index, uint64_t *state, moire_error *err) {
    const struct mo_tensor *t = g->tensors[g->inputs[index]];
    moire_tensor value = {.dtype = t->dtype, .rank = t->shape.rank};
    int from = -1, rc;
    for (int i = 0; i < o->n_inputs; i++)
        if (!strncmp(o->input_name[i], t->name, o->input_split[i]) && !t->name[o->input_split[i]]) from = i;
    if (from >= 0) {
        rc = mo_npy_read(env, o->input_file[from], &value, err);
    } else {
        for (int i = 0; i < t->shape.rank; i++)
            value.shape[i] = t->shape.d[i];
        value.bytes = (size_t)mo_tensor_bytes(t);
        value.data = mo_alloc(env, value.bytes + 1);
        if (!value.data) return mo_fail(err, MOIRE_ENOMEM, "out of memory for input '%s'", t->name);
        mo_trial_random(&value, state);
        mo_trial_repair(g, index, value.data);
        rc = MOIRE_OK;
    }
    if (!rc) rc = mo_instance_set_input(instance, index, &value, err);
    mo_free(env, value.data);
    return rc;
}

static int set_inputs(const struct mo_env *env, const struct mo_run_options *o, const struct mo_graph *g,
                      struct mo_instance *instance, moire_error *err) {
    uint64_t state = (uint64_t)o->seed;
    for (int i = 0; i < o->n_inputs; i++) {
        bool known = false;
        for (int k = 0; k < g->n_inputs; k++) {
            const char *name = g->tensors[g->inputs[k]]->name;
            known =
                known || (!strncmp(o->input_name[i], name, o->input_split[i]) && !name[o->input_split[i]]);
        }
        if (!known)
            return mo_fail(err, MOIRE_EINVAL, "the model has no input '%.*s'; its first is '%s'",
                           (int)o->input_split[i], o->input_name[i],
                           g->n_inputs ? g->tensors[g->inputs[0]]->name : "none");
    }
    for (int i = 0; i < g->n_inputs; i++) {
        int rc = set_input(env, o, instance, g, i, &state, err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

/* --- outputs ----------------------------------------------------------------------------------------- */

/* File name of an output: characters that could leave the folder become '_'. */
static void output_path(const char *folder, const char *name, char *out, size_t n) {
    int at = snprintf(out, n, "%s/", folder);
    for (const char *s = name; *s && at > 0 && (size_t)at + 5 < n; s++)
        out[at++] = *s == '/' || *s == '\\' || (unsigned char)*s < 32 ? '_' : *s;
    if (at > 0 && (size_t)at + 5 <= n) memcpy(out + at, ".npy", 5);
}

static int save_outputs(const struct mo_env *env, const struct mo_run_options *o, const struct mo_graph *g,
                        struct mo_instance *instance, moire_error *err) {
    int rc = mo_path_make_folder(env, o->output_dir, err);
    if (rc) return rc;
    for (int i = 0; i < g->n_outputs; i++) {
        char path[4096];
        moire_tensor value;
        output_path(o->output_dir, g->tensors[g->outputs[i]]->name, path, sizeof path);
        rc = mo_instance_output(instance, i, &value);
        rc = rc ? mo_fail(err, rc, "output '%s' was not computed", g->tensors[g->outputs[i]]->name)
                : mo_npy_write(env, path, &value, err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

/* --- the run ----------------------------------------------------------------------------------------- */

static int run_plan(const struct mo_env *env, const struct mo_run_options *o, const struct mo_plan *plan,
                    moire_error *err) {
    struct mo_instance *instance = NULL;
    struct mo_timing times = {0};
    struct mo_ceiling ceiling;
    const struct mo_timing_options timing = {.threads = o->threads,
                                             .repeat = o->repeat || o->profile ? o->repeat : 1,
                                             .budget_ns = PROFILE_NS,
                                             .by_layer = o->profile};
    int rc = mo_instance_create(plan, &instance, err);
    if (!rc) rc = set_inputs(env, o, plan->graph, instance, err);
    if (!rc && o->profile) rc = mo_ceiling_measure(env, o->isa, o->threads, &ceiling, err);
    if (!rc) rc = mo_timing_run(env, plan, instance, &timing, &times, err);
    if (!rc && o->output_dir) rc = save_outputs(env, o, plan->graph, instance, err);
    if (!rc && o->trace) rc = mo_profile_write_trace(env, plan, &times, &ceiling, o->trace, err);
    const struct mo_graph_drawing drawing = {
        .env = env, .plan = plan, .title = o->file, .ns = times.min_ns, .threads = o->threads};
    if (!rc && o->svg) rc = mo_graph_draw(&drawing, o->svg, err);
    if (!rc) {
        const struct mo_slow slow = mo_slow_find(plan, o->profile && o->threads == 1 ? times.min_ns : NULL);
        mo_run_report(o, plan, instance, &times, o->profile ? &ceiling : NULL, o->reference ? NULL : &slow);
    }
    mo_timing_free(env, &times);
    mo_instance_destroy(instance);
    return rc;
}

/* Where the packed weights came from, and what was wrong with a compiled model. */
static void say(void *user, int level, const char *line) {
    (void)user;
    if (level <= MOIRE_LOG_INFO) fprintf(stderr, "moire run: %s\n", line);
}

/* What the command line says of the plan. */
static int run_planned(const struct mo_env *env, const struct mo_options *o, struct mo_run_options *r,
                       const struct mo_store *store, const struct mo_run_shapes *shapes, moire_error *err) {
    struct mo_model_plan model;
    struct mo_frontend_options front = {.shapes = shapes->shape,
                                        .n_shapes = shapes->n,
                                        .no_passes = o->no_passes,
                                        .exact = o->exact,
                                        .precision = mo_precision_of(o->precision)};
    const struct mo_plan_options planning = {
        .isa = r->isa, .store = store, .reference_only = o->reference, .shaped = mo_region_graph};
    const struct mo_model_ask ask = {.env = env,
                                     .path = r->file,
                                     .front = &front,
                                     .planning = &planning,
                                     .n_found = shapes->n - o->shapes.n};
    mo_settle_precision(env, o, r->file, &planning, &front);
    int rc = mo_model_plan_open(&ask, &model, err);
    r->mapped_bytes = (int64_t)model.compiled.file.n;
    if (!rc) rc = run_plan(env, r, model.plan, err);
    mo_model_plan_close(&model);
    return rc;
}

static int run(const struct mo_env *given, const struct mo_options *o) {
    struct mo_env logging = *given;
    const struct mo_env *env = &logging;
    struct mo_run_options r;
    struct mo_run_shapes *shapes = mo_alloc(env, sizeof *shapes);
    struct mo_store *store = NULL;
    moire_error err = {0};
    char path[MO_PATH_CAP];
    if (!logging.log) logging.log = say;
    int rc = shapes ? take_options(o, &r, &err) : mo_fail(&err, MOIRE_ENOMEM, "out of memory");
    if (!rc) rc = mo_settle_check(o, &err);
    if (!rc) rc = mo_path_model(env, r.file, path, sizeof path, &r.file, &err);
    if (!rc && !o->generic && !o->reference) rc = mo_path_open_store(env, o->store, &store, &err);
    if (!rc) rc = mo_run_shapes(env, o, shapes, &err);
    if (!rc) rc = run_planned(env, o, &r, store, shapes, &err);
    mo_store_close(store);
    mo_free(env, shapes);
    return rc ? mo_verb_fail(o, &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_run = {
    .name = "run",
    .summary = "run a model on given or generated inputs",
    .notes = notes,
    .commands = {{.command = MO_DO_RUN, .operands = "FILE.onnx|NAME"}},
    .run = run,
};
