/* SPDX-License-Identifier: Apache-2.0
 * verb_check_model.c - `moire check-model`: can moire run this model, and does it run it right?
 *
 * Three questions, each answered only when the one before is yes: are all operators there; does the model
 * import with these shapes; do the ways of running it agree with given data or with the reference. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "codegen/region_graph.h"
#include "runtime/base/text.h"
#include "tools/moire/census.h"
#include "tools/moire/verify/check_layers.h"
#include "tools/moire/verify/dataset.h"
#include "tools/moire/paths.h"
#include "runtime/ops/trial.h"
#include "tools/moire/slow_show.h"
#include "tools/moire/verb.h"
#include "tools/moire/verify/doubt.h"
#include "tools/moire/verify/ways.h"
#include "variants/store.h"

static const char about[] = "Lists every operator with its version, and names those that are missing.\n";

static const char notes[] =
    "A warning names hot layers that run by the slow reference, and with --verify outputs that are NaN, "
    "zero\n"
    "everywhere or constant.\n"
    "\n"
    "Exit code 3: the model cannot be run, and the reason is named; 5: outputs differ.\n"
    "\n"
    "Examples:\n"
    "  moire check-model resnet50.onnx\n"
    "  moire check-model detector.onnx --shape x=1,3,640,640 --verify\n"
    "  moire check-model relu/model.onnx --data relu/test_data_set_0\n";

/* What was found; `checks` is the JSON list of comparisons. */
struct findings {
    const struct mo_env *env;
    const struct mo_options *o;
    const char *file;
    struct mo_census census;
    json_t *checks, *layers, *doubts;
    struct mo_slow slow; /* of its built-in kernels, or those of --store */
    int n_checks, n_wrong;
};

/* --- operators --- */
static const char *domain_text(const char *domain) {
    return *domain ? domain : "ai.onnx";
}

static void state_text(const struct mo_census_row *row, char *out, size_t n) {
    if (row->supported)
        snprintf(out, n, "yes");
    else if (row->since)
        snprintf(out, n, "NO: needs version %d", row->since);
    else
        snprintf(out, n, "NO: no such operator");
}

static void print_census(const struct mo_census *c) {
    char state[60];
    printf("graph '%s' by '%s', IR %lld, opset %d: %d nodes, %d operators\n\n", c->graph, c->producer,
           (long long)c->ir_version, c->opset, c->n_nodes, c->n_rows);
    printf("%-28s %-10s %7s %6s  %s\n", "operator", "domain", "version", "nodes", "supported");
    for (int i = 0; i < c->n_rows; i++) {
        const struct mo_census_row *row = &c->rows[i];
        state_text(row, state, sizeof state);
        printf("%-28s %-10s %7d %6d  %s\n", row->op, domain_text(row->domain), row->version, row->count,
               state);
    }
    if (c->n_strings)
        printf("\n%d inputs or initializers are no dense tensors of numbers: NO\n", c->n_strings);
    putchar('\n');
}

static json_t *census_json(const struct mo_census *c) {
    json_t *rows = json_array();
    for (int i = 0; i < c->n_rows; i++) {
        const struct mo_census_row *row = &c->rows[i];
        json_array_append_new(rows, json_pack("{s:s, s:s, s:i, s:i, s:b, s:i}", "operator", row->op, "domain",
                                              domain_text(row->domain), "version", row->version, "nodes",
                                              row->count, "supported", row->supported, "since", row->since));
    }
    return rows;
}

/* --- comparisons --- */
static void add_check(struct findings *f, const char *way, const char *against, const char *output,
                      const struct mo_difference *d, bool good) {
    f->n_checks++;
    f->n_wrong += !good;
    if (!f->o->json)
        printf("%-24s against %-10s  %-24.24s max abs %-10.3g of range %-10.3g %s%s\n", way, against, output,
               d->max_abs, d->max_rel, good ? "ok" : "DIFFERS ",
               good       ? ""
               : d->shape ? d->shape
                          : "");
    json_array_append_new(f->checks, json_pack("{s:s, s:s, s:s, s:f, s:f, s:b}", "way", way, "against",
                                               against, "output", output, "max_abs", d->max_abs, "max_rel",
                                               d->max_rel, "agrees", good));
}

/* "generic avx2": how a target is called in reports. */
static void target_text(const struct mo_way_target *t, char *out, size_t n) {
    snprintf(out, n, "%s%s%s", mo_way_name(t->way), t->way >= MO_WAY_PLAN ? " " : "",
             t->way >= MO_WAY_PLAN ? mo_isa_name(t->isa) : "");
}

/* With the data of a folder: ONNX's own rule (relative 1e-3 an element). */
static int check_data(struct findings *f, struct mo_dataset *data, const struct mo_frontend_options *front,
                      moire_error *err) {
    int rc = MOIRE_OK, n;
    for (int way = MO_WAY_REFERENCE; !rc && way <= MO_WAY_PLAN; way++) {
        struct mo_way_target target = {.way = (enum mo_way)way, .isa = mo_isa_detect()};
        moire_tensor got[MO_DATASET_PORTS];
        char text[60];
        target_text(&target, text, sizeof text);
        rc =
            mo_way_run(f->env, &target, f->file, front, data->in, data->n_in, got, MO_DATASET_PORTS, &n, err);
        for (int i = 0; !rc && i < n && i < data->n_out; i++) {
            struct mo_difference d;
            if (data->out[i].dtype == MOIRE_NONE) continue;
            bool good = mo_tensors_agree(&data->out[i], &got[i], 1e-3, 1e-5, &d);
            add_check(f, text, "data", data->out_name[i], &d, good);
        }
        if (!rc) mo_way_free(f->env, got, n);
    }
    return rc;
}

/* Everything that --verify compares: passes, built-in kernels of every level this machine has, the store. */
static int list_targets(const struct mo_store *store, struct mo_way_target *out) {
    int n = 0;
    out[n++] = (struct mo_way_target){.way = MO_WAY_PASSES};
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa))
        out[n++] = (struct mo_way_target){.way = MO_WAY_PLAN, .isa = (enum mo_isa)isa};
    if (store) out[n++] = (struct mo_way_target){.way = MO_WAY_STORE, .isa = mo_isa_detect(), .store = store};
    return n;
}

/* Outputs that agree whatever the kernels do. */
static void note_doubt(struct findings *f, const char *output, const moire_tensor *t) {
    char why[MO_DOUBT_TEXT];
    if (!mo_output_doubt(t, why, sizeof why)) return;
    fprintf(stderr, "moire check-model: warning: output '%.60s' %s; a comparison says little of it\n", output,
            why);
    json_array_append_new(f->doubts, json_pack("{s:s, s:s}", "output", output, "why", why));
}

/* Where numbers are rounded to 8 bits within the model, a sum that lies between two steps may go either way,
 * and what follows differs by as much: a few steps of the 255 of a range.  bfloat16 has 8 bits, too. */
static double tolerance_of(const struct findings *f, const struct mo_frontend_options *front,
                           const struct mo_graph *g) {
    enum { STEPS = 8 };
    const double rounded = STEPS / 255.0, halves = 0.02, float16 = 0.01;
    if (mo_halves_unit(front, g) && f->o->tolerance < halves) {
        fprintf(stderr, "moire check-model: layers are of bfloat16: %.2f of a range are allowed\n", halves);
        return halves;
    }
    if (front->precision == MOIRE_PRECISION_FP16 && f->o->tolerance < float16) {
        fprintf(stderr, "moire check-model: weights are of float16: %.2f of a range are allowed\n", float16);
        return float16;
    }
    for (int i = 0; i < g->n_nodes; i++) {
        const char *op = g->nodes[i]->op_type;
        bool rounds = strstr(op, "QuantizeLinear") || !strncmp(op, "QLinear", 7);
        if (!rounds || !strcmp(op, "DequantizeLinear") || f->o->tolerance >= rounded) continue;
        fprintf(stderr,
                "moire check-model: the model rounds to 8 bits: %d of 255 steps of an output's range are "
                "allowed, %.3f\n",
                STEPS, rounded);
        return rounded;
    }
    return f->o->tolerance;
}

/* The kernels against the reference, on the same inputs. */
static int verify(struct findings *f, const moire_tensor *in, int n_in, const struct mo_dataset *names,
                  const struct mo_frontend_options *front, double tolerance, const struct mo_store *store,
                  moire_error *err) {
    moire_tensor want[MO_DATASET_PORTS], got[MO_DATASET_PORTS];
    struct mo_way_target targets[MO_ISA_COUNT + 2], reference = {.way = MO_WAY_REFERENCE};
    int n, m, n_targets = list_targets(store, targets);
    int rc = mo_way_run(f->env, &reference, f->file, front, in, n_in, want, MO_DATASET_PORTS, &n, err);
    if (rc) return rc;
    for (int i = 0; i < n; i++)
        note_doubt(f, names->out_name[i], &want[i]);
    for (int t = 0; !rc && t < n_targets; t++) {
        char text[60];
        target_text(&targets[t], text, sizeof text);
        rc = mo_way_run(f->env, &targets[t], f->file, front, in, n_in, got, MO_DATASET_PORTS, &m, err);
        for (int i = 0; !rc && i < n && i < m; i++) {
            struct mo_difference d;
            bool same = mo_tensors_agree(&want[i], &got[i], tolerance, 1e-6, &d);
            bool good = same || (!d.shape && d.finite && d.max_rel <= tolerance);
            add_check(f, text, "reference", names->out_name[i], &d, good);
        }
        if (!rc) mo_way_free(f->env, got, m);
    }
    mo_way_free(f->env, want, n);
    return rc;
}

static void add_layer(void *ctx, const struct mo_layer_check *c) {
    static const char *const data[] = {"random", "edges", "special"};
    struct findings *f = ctx;
    char way[60];
    target_text(&c->target, way, sizeof way);
    f->n_checks++;
    f->n_wrong += !c->good;
    if (!f->o->json)
        printf("%5d  %-60.60s %-26.26s error %-9.2g edges %-9.2g %s%s\n", c->layer, c->text, c->kernel,
               c->error[MO_LAYER_RANDOM], c->error[MO_LAYER_EDGES],
               c->good    ? "ok"
               : c->wrong ? "WRONG on "
                          : "TOO FAR",
               c->wrong ? data[c->data] : "");
    json_array_append_new(f->layers,
                          json_pack("{s:i, s:s, s:s, s:s, s:f, s:f, s:I, s:b}", "layer", c->layer, "text",
                                    c->text, "way", way, "kernel", c->kernel, "error",
                                    c->error[MO_LAYER_RANDOM], "error_edges", c->error[MO_LAYER_EDGES],
                                    "wrong", (json_int_t)c->wrong, "agrees", (int)c->good));
}

/* Every layer by itself. */
static int check_layers(struct findings *f, const struct mo_frontend_options *front, moire_error *err) {
    struct mo_way_target targets[MO_ISA_COUNT + 2];
    struct mo_store *store = NULL;
    struct mo_graph *g = NULL;
    int rc = f->o->store ? mo_path_open_store(f->env, f->o->store, &store, err) : MOIRE_OK;
    if (!rc) rc = mo_frontend_load(f->env, f->file, front, &g, err);
    int n = list_targets(store, targets) - 1; /* without the first, which has no kernels */
    struct mo_layer_checker checker = {.graph = g,
                                       .targets = targets + 1,
                                       .n_targets = n,
                                       .seed = (uint64_t)f->o->seed,
                                       .tolerance = f->o->tolerance / 10,
                                       .report = add_layer,
                                       .ctx = f};
    if (!rc) rc = mo_check_layers(&checker, err);
    mo_graph_destroy(g);
    mo_store_close(store);
    return rc;
}

/* Random contents for every input, in the shapes that the import settled. */
static int fill_inputs(const struct mo_env *env, const struct mo_graph *g, int64_t seed, moire_tensor *in,
                       moire_error *err) {
    uint64_t state = (uint64_t)seed;
    for (int i = 0; i < g->n_inputs; i++) {
        const struct mo_tensor *t = g->tensors[g->inputs[i]];
        in[i] = (moire_tensor){.dtype = t->dtype, .rank = t->shape.rank, .bytes = (size_t)mo_tensor_bytes(t)};
        memcpy(in[i].shape, t->shape.d, sizeof in[i].shape);
        in[i].data = mo_alloc(env, in[i].bytes + 1);
        if (!in[i].data) return mo_fail(err, MOIRE_ENOMEM, "out of memory for input '%s'", t->name);
        mo_trial_random(&in[i], &state);
    }
    return MOIRE_OK;
}

static int run_verify(struct findings *f, const struct mo_frontend_options *front,
                      const struct mo_dataset *data, moire_error *err) {
    moire_tensor in[MO_DATASET_PORTS] = {{0}};
    struct mo_store *store = NULL;
    struct mo_frontend_options plain = *front;
    struct mo_graph *g = NULL;
    plain.no_passes = true;
    int rc = mo_frontend_load(f->env, f->file, &plain, &g, err);
    if (!rc && g->n_inputs > MO_DATASET_PORTS) rc = mo_fail(err, MOIRE_ELIMIT, "too many inputs");
    if (!rc) rc = fill_inputs(f->env, g, f->o->seed, in, err);
    if (!rc && f->o->store) rc = mo_path_open_store(f->env, f->o->store, &store, err);
    if (!rc) rc = verify(f, in, g->n_inputs, data, front, tolerance_of(f, front, g), store, err);
    mo_store_close(store);
    mo_way_free(f->env, in, MO_DATASET_PORTS);
    mo_graph_destroy(g);
    return rc;
}

/* Whether the model can be made ready to run, and which hot layers have no fast kernel. */
static int check_plan(struct findings *f, const struct mo_frontend_options *front, moire_error *err) {
    struct mo_plan_options options = {.isa = mo_isa_detect(), .shaped = mo_region_graph};
    struct mo_store *store = NULL;
    struct mo_graph *g = NULL;
    struct mo_plan *plan = NULL;
    int rc = f->o->store ? mo_store_open(f->env, f->o->store, &store, err) : MOIRE_OK;
    if (!rc) rc = mo_frontend_load(f->env, f->file, front, &g, err);
    options.store = store;
    if (!rc) rc = mo_plan_build(g, &options, &plan, err);
    if (!rc) f->slow = mo_slow_find(plan, NULL);
    mo_plan_destroy(plan);
    mo_store_close(store);
    return rc;
}

/* Imports, and runs what was asked for. */
static int check_running(struct findings *f, moire_error *err) {
    const struct mo_options *o = f->o;
    struct mo_frontend_options front = {.shapes = o->shapes.shape,
                                        .n_shapes = o->shapes.n,
                                        .exact = o->exact,
                                        .precision = mo_precision_of(o->precision)};
    struct mo_dataset data;
    int rc = mo_dataset_open(f->env, f->file, o->data ? o->data : "", &data, err);
    if (!rc && o->data && !o->shapes.n) {
        front.shapes = data.shape;
        front.n_shapes = data.n_in;
    }
    for (int i = 0; !rc && o->data && i < data.n_in; i++)
        if (data.in[i].dtype == MOIRE_NONE)
            rc = mo_fail(err, MOIRE_EIO, "'%s' has no file for input %d ('%.60s'): input_%d.pb or %.60s.npy",
                         o->data, i, data.in_name[i], i, data.in_name[i]);
    if (!rc) rc = check_plan(f, &front, err);
    if (!rc && o->data) rc = check_data(f, &data, &front, err);
    if (!rc && o->layers) rc = check_layers(f, &front, err);
    if (!rc && o->verify) rc = run_verify(f, &front, &data, err);
    mo_dataset_close(&data);
    return rc;
}

/* --- conclusion --- */
static void print_json(struct findings *f, bool runs, const char *reason, const moire_error *err) {
    json_t *all =
        json_pack("{s:s, s:b, s:s, s:i, s:i, s:i, s:o, s:O, s:O, s:O, s:o}", "model", f->file, "runs", runs,
                  "reason", reason, "opset", f->census.opset, "nodes", f->census.n_nodes, "unsupported_nodes",
                  f->census.n_unsupported, "operators", census_json(&f->census), "checks", f->checks,
                  "layers", f->layers, "warnings", f->doubts, "slow", mo_slow_json(&f->slow));
    if (all && err->code) mo_failure_put(all, err);
    (void)mo_print_json(all, NULL);
    json_decref(all);
}

/* One line that names what is missing, and what to do. */
static void refuse(const struct mo_census *c, moire_error *err) {
    char list[300];
    struct mo_text t = mo_text_in(list, sizeof list);
    for (int i = 0; i < c->n_rows; i++) {
        const struct mo_census_row *row = &c->rows[i];
        if (row->supported) continue;
        mo_text_put(&t, "%s%.60s-%d", t.n ? ", " : "", row->op, row->version);
    }
    if (c->n_unsupported)
        mo_fail(err, MOIRE_EUNSUPPORTED,
                "%d of %d nodes use operators that are not supported: %s; export the model without them",
                c->n_unsupported, c->n_nodes, list);
    else
        mo_fail(err, MOIRE_EUNSUPPORTED, "%d inputs or initializers are no dense tensors of numbers",
                c->n_strings);
}

/* `err` as the checks left it. */
static int conclude(struct findings *f, moire_error *err) {
    bool missing = f->census.n_unsupported || f->census.n_strings;
    bool runs = !err->code && !missing;
    if (missing && !err->code) refuse(&f->census, err);
    if (!err->code && f->n_wrong)
        mo_fail(err, MOIRE_EFAILED, "%d of %d comparisons do not agree", f->n_wrong, f->n_checks);
    if (f->o->json)
        print_json(f, runs, runs ? "" : missing ? "operators or types are not supported" : err->message, err);
    else if (runs && !f->n_checks)
        printf("moire can run this model\n");
    else if (runs)
        printf("\n%d of %d comparisons agree\n", f->n_checks - f->n_wrong, f->n_checks);
    fflush(stdout);
    mo_slow_warn("check-model", f->file, &f->slow);
    return err->code ? mo_failure_say(f->o->argv[0], false, err) : MO_EXIT_OK;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err = {0};
    struct findings f = {
        .env = env, .o = o, .checks = json_array(), .layers = json_array(), .doubts = json_array()};
    char path[MO_PATH_CAP];
    int rc = mo_path_model(env, o->operands.word[0], path, sizeof path, &f.file, &err);
    if (!rc) rc = mo_census_take(env, f.file, &f.census, &err);
    if (rc) {
        rc = mo_verb_fail(o, &err);
    } else {
        if (!o->json) print_census(&f.census);
        if (!f.census.n_unsupported && !f.census.n_strings) (void)check_running(&f, &err);
        rc = conclude(&f, &err);
    }
    json_decref(f.checks);
    json_decref(f.layers);
    json_decref(f.doubts);
    mo_census_free(&f.census);
    return rc;
}

const struct mo_verb mo_verb_check_model = {
    .name = "check-model",
    .summary = "say whether a model runs, and whether it runs right",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_CHECK_MODEL, .operands = "FILE.onnx|NAME"}},
    .run = run,
};
