/* SPDX-License-Identifier: Apache-2.0
 * ocr_repository.c - writes the reading pipeline as models; see ocr_repository.h.
 *
 * ocr is the pipeline; ocr-line is what it runs for each line of text; the other folders are the steps that
 * are no networks (models/ocr_functions.h).  Ports of the networks are named as their files have them. */
#include "tools/moire/ocr_repository.h"

#include <stdio.h>
#include <string.h>
#include "codegen/frontend.h"
#include "runtime/base/file.h"
#include "runtime/base/output.h"
#include "runtime/base/text.h"
#include "tools/moire/paths.h"

int mo_ocr_characters(const struct mo_env *env, struct mo_region *region, const char *path, const char **out,
                      moire_error *err) {
    const moire_shape shape = {.input = "x", .rank = 4, .shape = {1, 3, 48, 320}};
    struct mo_frontend_options options = {.shapes = &shape, .n_shapes = 1, .no_passes = true};
    struct mo_graph *graph;
    int code = mo_frontend_load(env, path, &options, &graph, err);
    if (code) return code;
    code = mo_fail(err, MOIRE_EFORMAT, "%s: no 'character' in its metadata, so it is no recogniser", path);
    for (int i = 0; i < graph->n_meta; i++) {
        if (strcmp(graph->meta_key[i], "character") != 0) continue;
        *out = mo_region_string(region, graph->meta_value[i], strlen(graph->meta_value[i]));
        code = *out ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    }
    mo_graph_destroy(graph);
    return code;
}

/* --- the configurations --- */
#define STEP(model, in, out) "  step { model_name: \"" model "\" model_version: -1\n" in out "  }\n"
#define IN(port, tensor)     "    input_map { key: \"" port "\" value: \"" tensor "\" }\n"
#define OUT(port, tensor)    "    output_map { key: \"" port "\" value: \"" tensor "\" }\n"
#define PORT(way, name, type, dims)                                                                          \
    way " { name: \"" name "\" data_type: TYPE_" type " dims: [ " dims " ] }\n"
#define FUNCTION(name)                                                                                       \
    "backend: \"moire_host\"\n"                                                                              \
    "parameters { key: \"function\" value: { string_value: \"" name "\" } }\n"

/* @din and so on stand for the names of the networks' ports. */
/* clang-format off */ /* as the files look */
static const struct config {
    const char *name, *text;
} configs[] = {
    {"ocr",
     "# Reads the lines of text in an image: 8-bit R, G, B, rows from the top.\n"
     "platform: \"ensemble\"\n"
     PORT("input", "image", "UINT8", "-1, -1, 3")
     PORT("output", "text", "STRING", "-1")
     PORT("output", "score", "FP32", "-1")
     PORT("output", "box", "FP32", "-1, 4, 2")
     PORT("output", "flipped", "BOOL", "-1")
     "ensemble_scheduling {\n"
     STEP("ocr-page", IN("image", "image"), OUT("page", "page"))
     STEP("ocr-det", IN("@din", "page"), OUT("@dout", "map"))
     STEP("ocr-boxes", IN("image", "image") IN("map", "map"),
          OUT("boxes", "boxes") OUT("lines", "upright") OUT("shapes", "upright-shapes"))
     "  # for each line\n"
     STEP("ocr-cls", IN("@cin", "upright") IN("@cin:shapes", "upright-shapes"), OUT("@cout", "directions"))
     STEP("ocr-lines", IN("image", "image") IN("boxes", "boxes") IN("directions", "directions"),
          OUT("lines", "lines") OUT("shapes", "line-shapes"))
     "  # for each line\n"
     STEP("ocr-line", IN("line", "lines") IN("line:shapes", "line-shapes"),
          OUT("classes", "classes") OUT("classes:shapes", "class-shapes") OUT("scores", "scores"))
     STEP("ocr-text",
          IN("boxes", "boxes") IN("directions", "directions") IN("classes", "classes") IN("scores", "scores")
          IN("shapes", "class-shapes"),
          OUT("text", "text") OUT("score", "score") OUT("box", "box") OUT("flipped", "flipped"))
     "}\n"},
    {"ocr-line",
     "# The most probable character at each step along a line of text.\n"
     "platform: \"ensemble\"\n"
     PORT("input", "line", "FP32", "1, 3, 48, -1")
     PORT("output", "classes", "INT32", "1, -1")
     PORT("output", "scores", "FP32", "1, -1")
     "ensemble_scheduling {\n"
     STEP("ocr-rec", IN("@rin", "line"), OUT("@rout", "probabilities"))
     STEP("ocr-best", IN("probabilities", "probabilities"), OUT("classes", "classes") OUT("scores", "scores"))
     "}\n"},
    {"ocr-page", FUNCTION("ocr_page")},
    {"ocr-boxes", FUNCTION("ocr_boxes")},
    {"ocr-lines", FUNCTION("ocr_lines")},
    {"ocr-best", FUNCTION("ocr_best")},
    {"ocr-text", FUNCTION("ocr_text") "default_model_filename: \"characters.txt\"\n"},
};
/* clang-format on */

enum { NETWORKS = 3, PORTS = 2 * NETWORKS, CONFIG_CAP = 8192 };
static const char *const port_mark[PORTS] = {"@din", "@dout", "@cin", "@cout", "@rin", "@rout"};

struct writer {
    const struct mo_env *env;
    const char *folder;
    json_t *all;
    moire_error *err;
    char port[PORTS][128];
};

/* --- files --- */
static int write_file(const struct writer *w, const char *name, const char *end, const char *bytes,
                      size_t n) {
    char path[MO_PATH_CAP];
    if (snprintf(path, sizeof path, "%s/%s%s", w->folder, name, end) >= (int)sizeof path)
        return mo_fail(w->err, MOIRE_EINVAL, "%.80s...: path too long", w->folder);
    const int code = mo_output_write(w->env, path, bytes, n, w->err);
    if (!code && w->all) json_array_append_new(w->all, json_pack("{s:s}", "file", path));
    if (!code && !w->all) fprintf(stderr, "%s\n", path);
    return code;
}

static int make_folder(const struct writer *w, const char *name, const char *end) {
    char path[MO_PATH_CAP];
    if (snprintf(path, sizeof path, "%s/%s%s", w->folder, name, end) >= (int)sizeof path)
        return mo_fail(w->err, MOIRE_EINVAL, "%.80s...: path too long", w->folder);
    return mo_path_make_folder(w->env, path, w->err);
}

/* A network has one input and one output; a name that would need quoting is refused. */
static int read_ports(struct writer *w, const char *path, char (*port)[128]) {
    moire_model *m;
    moire_port p[2];
    int code = moire_model_open(path, &m, w->err);
    if (code) return code;
    if (moire_model_n_inputs(m) != 1 || moire_model_n_outputs(m) != 1 || moire_model_input(m, 0, &p[0]) ||
        moire_model_output(m, 0, &p[1]))
        code = mo_fail(w->err, MOIRE_EUNSUPPORTED, "%s: a network with one input and one output is needed",
                       path);
    for (int i = 0; i < 2 && !code; i++)
        if (strlen(p[i].name) >= sizeof port[i] || strpbrk(p[i].name, "\"\\\n"))
            code = mo_fail(w->err, MOIRE_EUNSUPPORTED, "%s: a port has no plain name", path);
        else
            memcpy(port[i], p[i].name, strlen(p[i].name) + 1);
    moire_model_close(m);
    return code;
}

static int copy_network(struct writer *w, const char *from, const char *name, char (*port)[128]) {
    char *bytes;
    size_t n;
    int code = read_ports(w, from, port);
    if (!code)
        code = mo_file_read(w->env, from, w->env->limits.model_bytes, "model_bytes", &bytes, &n, w->err);
    if (code) return code;
    code = write_file(w, name, ".onnx", bytes, n);
    mo_free(w->env, bytes);
    return code;
}

/* The text with names in place of marks. */
static int write_config(const struct writer *w, const struct config *c) {
    char text[CONFIG_CAP];
    struct mo_text t = mo_text_in(text, sizeof text);
    for (const char *at = c->text; *at;) {
        int k = 0;
        while (k < PORTS && strncmp(at, port_mark[k], strlen(port_mark[k])) != 0)
            k++;
        const bool is_mark = k < PORTS;
        mo_text_put(&t, "%.*s", is_mark ? (int)sizeof w->port[k] : 1, is_mark ? w->port[k] : at);
        at += is_mark ? strlen(port_mark[k]) : 1;
    }
    if (t.cut) return mo_fail(w->err, MOIRE_ELIMIT, "%s: the names of its ports are too long", c->name);
    const int code = make_folder(w, c->name, "");
    return code ? code : write_file(w, c->name, "/config.pbtxt", text, strlen(text));
}

static int write_characters(const struct writer *w, const char *recogniser) {
    struct mo_region *region = mo_region_create(w->env);
    const char *text = NULL;
    if (!region) return mo_fail(w->err, MOIRE_ENOMEM, "out of memory");
    int code = mo_ocr_characters(w->env, region, recogniser, &text, w->err);
    if (!code) code = make_folder(w, "ocr-text", "/1");
    if (!code) code = write_file(w, "ocr-text/1/characters.txt", "", text, strlen(text));
    mo_region_destroy(region);
    return code;
}

int mo_ocr_repository(const struct mo_env *env, const char *folder, const struct mo_ocr_networks *networks,
                      json_t *all, moire_error *err) {
    struct writer w = {.env = env, .folder = folder, .all = all, .err = err};
    int code = mo_path_make_folder(env, folder, err);
    if (!code) code = copy_network(&w, networks->detector, "ocr-det", &w.port[0]);
    if (!code) code = copy_network(&w, networks->classifier, "ocr-cls", &w.port[2]);
    if (!code) code = copy_network(&w, networks->recogniser, "ocr-rec", &w.port[4]);
    for (size_t i = 0; i < sizeof configs / sizeof *configs && !code; i++)
        code = write_config(&w, &configs[i]);
    return code ? code : write_characters(&w, networks->recogniser);
}
