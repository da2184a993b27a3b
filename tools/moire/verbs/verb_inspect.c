/* SPDX-License-Identifier: Apache-2.0
 * verb_inspect.c - `moire inspect`: what is in a model, what the passes made of it, and which kernels run it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/frontend.h"
#include "codegen/family/family.h"
#include "codegen/region_graph.h"
#include "runtime/base/text.h"
#include "runtime/plan/compiled.h"
#include "tools/moire/inspect/graph_svg.h"
#include "tools/moire/inspect/inspect.h"
#include "tools/moire/verb.h"
#include "tools/moire/paths.h"
#include "variants/store.h"

static const char about[] =
    "Shows inputs and outputs, operators before and layers after the graph passes, and for every layer its\n"
    "fused epilogue, output shape and layout, multiply-adds, bytes moved, independent units of\n"
    "work, kernel and kind, and the families that `moire compile` has for it; then parameters and memory, "
    "and\n"
    "what `moire compile` found when it verified the compiled kernels in this model.\n";

static const char notes[] = "Examples:\n"
                            "  moire inspect resnet50.onnx\n"
                            "  moire inspect detector.onnx --shape x=1,3,640,640 --svg detector.svg\n";

/* --- counting ------------------------------------------------------------------------------------------ */

static int by_count(const void *a, const void *b) {
    const struct mo_op_count *x = a, *y = b;
    return x->n != y->n ? y->n - x->n : strcmp(x->op, y->op);
}

static struct mo_op_count *census(struct mo_region *region, const struct mo_graph *g, int *n) {
    struct mo_op_count *rows = mo_region_array(region, (size_t)g->n_nodes + 1, sizeof *rows);
    *n = 0;
    for (int i = 0; rows && i < g->n_nodes; i++) {
        int at = 0;
        while (at < *n && strcmp(rows[at].op, g->nodes[i]->op_type))
            at++;
        if (at == *n) rows[(*n)++].op = g->nodes[i]->op_type;
        rows[at].n++;
    }
    if (rows) qsort(rows, (size_t)*n, sizeof *rows, by_count);
    return rows;
}

/* Elements of the floating-point constants that nodes read, each once. */
static bool count_parameters(struct mo_inspection *in) {
    const struct mo_graph *g = in->before;
    char *seen = mo_region_array(in->region, (size_t)g->n_tensors + 1, 1);
    for (int i = 0; seen && i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++) {
            const struct mo_tensor *t = g->nodes[i]->in[k] < 0 ? NULL : g->tensors[g->nodes[i]->in[k]];
            bool real = t && (t->dtype == MOIRE_F32 || t->dtype == MOIRE_F16 || t->dtype == MOIRE_F64 ||
                              t->dtype == MOIRE_BF16);
            if (!real || !t->data || seen[t->id]) continue;
            seen[t->id] = 1;
            in->parameters += mo_shape_count(&t->shape);
            in->parameter_bytes += mo_tensor_bytes(t);
        }
    return seen;
}

static int show(struct mo_inspection *in, const struct mo_options *o, moire_error *err) {
    int rc = MOIRE_OK;
    in->ops_before = census(in->region, in->before, &in->n_before);
    in->ops_after = census(in->region, in->plan->graph, &in->n_after);
    if (!in->ops_before || !in->ops_after || !count_parameters(in))
        rc = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int i = 0; i < in->plan->n_steps; i++)
        in->macs += mo_step_macs(&in->plan->steps[i]);
    const struct mo_graph_drawing drawing = {.env = in->env, .plan = in->plan, .title = in->file};
    if (!rc && o->svg) rc = mo_graph_draw(&drawing, o->svg, err);
    if (!rc && o->json) rc = mo_inspect_json(in, err);
    if (!rc && !o->json) mo_inspect_text(in);
    return rc;
}

/* Before the plan is built: that releases the constants which families look at. */
static int find_families(struct mo_inspection *in, const struct mo_graph *g, moire_error *err) {
    in->families = mo_region_array(in->region, (size_t)g->n_nodes + 1, sizeof *in->families);
    struct mo_problem *problem = mo_region_alloc(in->region, sizeof *problem);
    if (!in->families || !problem) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int k = 0; k < g->n_nodes; k++) {
        if (!mo_problem_from_node(g, g->nodes[k], mo_isa_detect(), problem)) continue;
        if (mo_problem_on_unit(g, g->nodes[k], problem, MO_UNITS_OWN)) continue;
        struct mo_text t = mo_text_in(in->families[k], MO_INSPECT_FAMILIES);
        for (const struct mo_emit_family *const *f = mo_emit_families(); *f; f++)
            if ((*f)->takes(problem)) mo_text_put(&t, "%s%s", t.n ? " " : "", (*f)->name);
    }
    return MOIRE_OK;
}

static int load(struct mo_inspection *in, const struct mo_options *o, struct mo_graph **before,
                struct mo_plan **plan, const struct mo_store *store, moire_error *err) {
    const struct mo_env *env = in->env;
    struct mo_frontend_options front = {.shapes = o->shapes.shape,
                                        .n_shapes = o->shapes.n,
                                        .batch = o->batch,
                                        .exact = o->exact,
                                        .precision = mo_precision_of(o->precision)};
    struct mo_frontend_options bare = front;
    struct mo_graph *after = NULL;
    bare.no_passes = true;
    int rc = mo_frontend_load(env, in->file, &bare, before, err);
    if (!rc) rc = mo_frontend_load(env, in->file, &front, &after, err);
    struct mo_plan_options planning = {.isa = mo_isa_detect(), .store = store, .shaped = mo_region_graph};
    if (!rc) mo_graph_compact(after);
    if (!rc && (rc = find_families(in, after, err))) mo_graph_destroy(after);
    return rc ? rc : mo_plan_build(after, &planning, plan, err);
}

/* The compiled model of the file, where `moire compile` has left one; without one there is nothing to say. */
static void find_stamp(struct mo_inspection *in, const struct mo_options *o, const struct mo_store *store) {
    const struct mo_compiled_request request = {.path = in->file,
                                                .shapes = o->shapes.shape,
                                                .n_shapes = o->shapes.n,
                                                .exact = o->exact,
                                                .precision = mo_precision_of(o->precision),
                                                .isa = mo_isa_detect()};
    char key[MO_SHA256_HEX];
    if (!store || o->batch || mo_compiled_read_stamp(store, in->env, &request, &in->stamp, NULL)) return;
    if (in->stamp.model[0] && !mo_compiled_key(in->plan, &request, key, NULL))
        in->stamp_current = !strcmp(key, in->stamp.model);
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    struct mo_graph *before = NULL;
    struct mo_plan *plan = NULL;
    struct mo_store *store = NULL;
    moire_error err = {0};
    char path[MO_PATH_CAP];
    struct mo_inspection in = {.env = env, .region = mo_region_create(env), .cores = o->cores};
    int rc = mo_path_model(env, o->operands.word[0], path, sizeof path, &in.file, &err);
    if (!rc && !in.region) rc = mo_fail(&err, MOIRE_ENOMEM, "out of memory");
    if (!rc && !o->generic) rc = mo_path_open_store(env, o->store, &store, &err);
    if (!rc) rc = load(&in, o, &before, &plan, store, &err);
    in.before = before;
    in.plan = plan;
    if (!rc) find_stamp(&in, o, store);
    if (!rc) rc = show(&in, o, &err);
    mo_region_destroy(in.region);
    mo_plan_destroy(plan);
    mo_graph_destroy(before);
    mo_store_close(store);
    return rc ? mo_verb_fail(o, &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_inspect = {
    .name = "inspect",
    .summary = "show a model before and after the graph passes",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_INSPECT, .operands = "FILE.onnx|NAME"}},
    .run = run,
};
