/* SPDX-License-Identifier: Apache-2.0
 * verb_front.c - `moire front`: what `moire tune` found for the layers of a model, as table, JSON and page.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include "codegen/frontend.h"
#include "runtime/base/text.h"
#include "runtime/plan/describe.h"
#include "tools/moire/front/front_show.h"
#include "tools/moire/paths.h"
#include "tools/moire/verb.h"
#include "variants/conv_geometry.h"

static const char about[] =
    "Shows the versions that `moire tune` keeps of every distinct layer: "
    "parallelism, blocking, traffic beyond\n"
    "the private cache, time on one core at six levels of pressure, and from which "
    "pressure on a version is the\n"
    "fastest of its layer.  For layers that were tuned or compiled for more than two "
    "cores (--cores) also the\n"
    "busiest core's units and time; the fastest version is used.\n"
    "\n"
    "--html begins with the whole model: its time by pressure, and what the choice among "
    "versions saves.  For\n"
    "each layer it says why every sampled kernel was kept or not.\n"
    "\n"
    "LAYER: only layers whose signature contains this text, for instance c256:h14.\n";

static const char notes[] = "Exit code 5: no layer has versions; run `moire tune`.\n"
                            "\n"
                            "Examples:\n"
                            "  moire front resnet50\n"
                            "  moire front resnet50 k3x3 --all --html front.html\n";

static void describe(const struct mo_env *env, const struct mo_store *store, const struct mo_graph *graph,
                     const struct mo_node *node, struct mo_front_row *row) {
    const struct mo_tensor *y = mo_node_out(graph, node, 0);
    struct mo_text t = mo_text_in(row->layer, sizeof row->layer);
    char text[80], shape[100] = "";
    mo_layer_text(graph, node, text, sizeof text);
    if (y) mo_shape_text(&y->shape, shape, sizeof shape);
    mo_text_put(&t, "%s %s", text, shape);
    row->uses = 1;
    for (int i = 0; i < row->front.n; i++) {
        int64_t packing = row->front.point[i].packing; /* from a file */
        bool known = packing > MO_PACK_NONE && packing < MO_PACK_COUNT;
        row->packed_bytes[i] = known ? mo_pack_bytes((enum mo_packing)packing, graph, node) : -1;
    }
    mo_front_read_refused(env, store, row);
}

static void add_layer(struct mo_fronts *all, const struct mo_store *store, const char *layer,
                      const struct mo_graph *graph, const struct mo_node *node) {
    char signature[MO_STORE_TEXT];
    if (!mo_layer_signature(graph, node, signature, sizeof signature)) return;
    if (layer && !strstr(signature, layer)) return;
    for (int i = 0; i < all->n; i++)
        if (!strcmp(all->row[i].front.signature, signature)) {
            all->row[i].uses++;
            return;
        }
    struct mo_front_row *row = &all->row[all->n];
    if (!mo_store_read_front(store, signature, mo_isa_detect(), &row->front)) {
        all->untuned++;
        return;
    }
    describe(graph->env, store, graph, node, row);
    all->n++;
}

static int collect(const struct mo_env *env, const struct mo_options *o, struct mo_fronts *all,
                   moire_error *err) {
    struct mo_frontend_options front = {.shapes = o->shapes.shape,
                                        .n_shapes = o->shapes.n,
                                        .exact = o->exact,
                                        .precision = mo_precision_of(o->precision)};
    char path[MO_PATH_CAP];
    const char *file;
    struct mo_store *store = NULL;
    struct mo_graph *graph = NULL;
    int rc = mo_path_model(env, o->operands.word[0], path, sizeof path, &file, err);
    if (!rc) rc = mo_path_open_store(env, o->store, &store, err);
    if (!rc) rc = mo_frontend_load(env, file, &front, &graph, err);
    if (!rc) {
        all->row = mo_alloc(env, ((size_t)graph->n_nodes + 1) * sizeof *all->row);
        if (!all->row) rc = mo_fail(err, MOIRE_ENOMEM, "out of memory");
        for (int i = 0; !rc && i < graph->n_nodes; i++)
            add_layer(all, store, o->operands.word[1], graph, graph->nodes[i]);
    }
    mo_graph_destroy(graph);
    mo_store_close(store);
    return rc;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    const char *file = o->operands.word[0], *layer = o->operands.word[1];
    struct mo_fronts all = {.model = file, .every_point = o->all};
    moire_error err = {0};
    int rc = collect(env, o, &all, &err);
    if (!rc && !all.n) {
        rc =
            mo_fail(&err, MOIRE_EFAILED, "no layer%s%.80s has versions in the store: run `moire tune %.200s`",
                    layer ? " with " : "", layer ? layer : "", file);
    } else if (!rc) {
        if (o->html) rc = mo_front_html(env, &all, o->html, &err);
        if (!rc && o->json) rc = mo_front_json(&all, &err);
        if (!rc && !o->json) mo_front_text(&all);
    }
    mo_free(env, all.row);
    return rc ? mo_verb_fail(o, &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_front = {
    .name = "front",
    .group = MO_GROUP_KERNELS,
    .summary = "show the versions of every layer and from which pressure on each is the fastest",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_FRONT, .operands = "FILE.onnx|NAME [LAYER]"}},
    .run = run,
};
