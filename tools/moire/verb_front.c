/* SPDX-License-Identifier: Apache-2.0
 * verb_front.c - `moire front`: what `moire tune` found for the layers of a model, as table, JSON and page.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/frontend.h"
#include "tools/moire/front.h"
#include "tools/moire/paths.h"
#include "tools/moire/verb.h"

static const char usage[] =
    "usage: moire front FILE.onnx|NAME [LAYER] [--shape INPUT=d,d,...] [--store DIR] [--exact] [--all] "
    "[--json]\n"
    "                   [--html FILE]\n\n"
    "Shows the versions that `moire tune` keeps of every distinct layer: parallelism, blocking, traffic "
    "beyond\n"
    "the private cache, time on one core at six levels of pressure, and from which pressure on a version is "
    "the\n"
    "fastest of its layer.  Tuned or compiled for more than two cores (--cores): units and the time of the "
    "core\n"
    "with most of them; the version for these cores is the one with the least.\n\n"
    "  LAYER          only layers whose signature contains this text, for instance c256:h14\n"
    "  --all          also the implementations that were sampled and not kept, and why\n"
    "  --shape ...    binds an input whose shape is open\n"
    "  --store DIR    folder of compiled variants; the one of `moire compile` by default\n"
    "  --exact        of models tuned with --exact\n"
    "  --json         the same as JSON\n"
    "  --html FILE    a page with the fronts and the times by pressure, drawn\n\n"
    "Exit codes: 0 done, 2 usage, 3 bad model, 4 store not usable, 5 no layer has versions: run `moire "
    "tune`.\n\n"
    "Examples:\n"
    "  moire front resnet50\n"
    "  moire front resnet50 k3x3 --all --html front.html\n";

enum { MAX_SHAPES = 16 };

struct options {
    const char *file, *layer, *store, *html;
    char path[MO_PATH_CAP];
    moire_shape shapes[MAX_SHAPES];
    int n_shapes;
    bool json, all, exact;
};

/* An exit code, or -1 to go on. */
static int parse(struct mo_args *a, struct options *o) {
    while (a->at < a->argc) {
        if (mo_args_flag(a, "--json", false)) {
            o->json = true;
        } else if (mo_args_flag(a, "--all", false)) {
            o->all = true;
        } else if (mo_args_flag(a, "--exact", false)) {
            o->exact = true;
        } else if (mo_args_flag(a, "--store", true)) {
            if (!(o->store = a->value)) return mo_verb_usage("front", "--store wants a folder", NULL);
        } else if (mo_args_flag(a, "--html", true)) {
            if (!(o->html = a->value)) return mo_verb_usage("front", "--html wants a file", NULL);
        } else if (mo_args_flag(a, "--shape", true)) {
            if (o->n_shapes == MAX_SHAPES || !mo_args_shape(a->value, &o->shapes[o->n_shapes]))
                return mo_verb_usage("front", "--shape wants INPUT=d,d,...", NULL);
            o->n_shapes++;
        } else if (a->argv[a->at][0] == '-') {
            return mo_verb_usage("front", "unknown flag", a->argv[a->at]);
        } else if (!o->file) {
            o->file = a->argv[a->at++];
        } else if (!o->layer) {
            o->layer = a->argv[a->at++];
        } else {
            return mo_verb_usage("front", "one model and one layer, not also", a->argv[a->at]);
        }
    }
    if (o->file) return -1;
    return mo_verb_usage("front", "which model? FILE.onnx or a name of the zoo is missing", NULL);
}

static void add_layer(struct mo_fronts *all, const struct mo_store *store, const struct options *o,
                      const struct mo_graph *graph, const struct mo_node *node) {
    char signature[MO_STORE_TEXT];
    if (!mo_layer_signature(graph, node, signature, sizeof signature)) return;
    if (o->layer && !strstr(signature, o->layer)) return;
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
    row->uses = 1;
    all->n++;
}

static int collect(const struct mo_env *env, struct options *o, struct mo_fronts *all, moire_error *err) {
    struct mo_frontend_options front = {.shapes = o->shapes, .n_shapes = o->n_shapes, .exact = o->exact};
    struct mo_store *store = NULL;
    struct mo_graph *graph = NULL;
    int rc = mo_path_model(env, o->file, o->path, sizeof o->path, &o->file, err);
    if (!rc) rc = mo_path_open_store(env, o->store, &store, err);
    if (!rc) rc = mo_frontend_load(env, o->file, &front, &graph, err);
    if (!rc) {
        all->row = mo_alloc(env, ((size_t)graph->n_nodes + 1) * sizeof *all->row);
        if (!all->row) rc = mo_fail(err, MOIRE_ENOMEM, "out of memory");
        for (int i = 0; !rc && i < graph->n_nodes; i++)
            add_layer(all, store, o, graph, graph->nodes[i]);
    }
    mo_graph_destroy(graph);
    mo_store_close(store);
    return rc;
}

static int run(const struct mo_env *env, int argc, char **argv) {
    struct mo_args args = {.argc = argc, .argv = argv, .at = 1};
    struct options o = {0};
    moire_error err = {0};
    int code = parse(&args, &o);
    if (code >= 0 || !o.file) return code; /* without a file it is a usage error */
    struct mo_fronts all = {.model = o.file, .every_point = o.all};
    int rc = collect(env, &o, &all, &err);
    code = MO_EXIT_OK;
    if (!rc && !all.n) {
        fprintf(stderr, "moire front: no layer%s%s has versions in the store: run `moire tune %s`\n",
                o.layer ? " with " : "", o.layer ? o.layer : "", o.file);
        code = MO_EXIT_FAILED;
    } else if (!rc) {
        if (o.html) rc = mo_front_html(env, &all, o.html, &err);
        if (!rc && o.json) rc = mo_front_json(&all, &err);
        if (!rc && !o.json) mo_front_text(&all);
    }
    mo_free(env, all.row);
    return rc ? mo_verb_fail("front", &err) : code;
}

const struct mo_verb mo_verb_front = {
    .name = "front",
    .summary = "show the versions of every layer and from which pressure on each is the fastest",
    .usage = usage,
    .outputs = {"--html"},
    .run = run,
};
