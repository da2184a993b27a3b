/* SPDX-License-Identifier: Apache-2.0
 * verb_zoo.c - `moire zoo`: lists the built-in networks and writes them as ONNX files. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "models/zoo.h"
#include "runtime/base/output.h"
#include "runtime/base/text.h"
#include "tools/moire/command_line/known.h"
#include "tools/moire/ocr_repository.h"
#include "tools/moire/paths.h"
#include "tools/moire/verb.h"
#include "tools/moire/zoo_repository.h"

static const char about[] =
    "list   shows every network with its size, latency target and class\n"
    "build  writes one network (or all) with weights drawn from the seed\n"
    "repository  writes a folder for `moire serve`: networks, and two pipelines of them; with --det, --cls\n"
    "       and --rec the pipeline that reads text, as `moire ocr` does\n";

static const char notes[] = "Examples:\n"
                            "  moire zoo list\n"
                            "  moire zoo build resnet50 -o resnet50.onnx\n"
                            "  moire zoo build all -o models/ --seed 7\n"
                            "  moire zoo repository models && moire serve --model-repository models\n"
                            "  moire zoo repository models --det det.onnx --cls cls.onnx --rec rec.onnx\n";

static json_t *row_json(const struct mo_zoo_model *m, const struct mo_zoo_stats *s) {
    json_t *inputs = json_array();
    char file[64];
    mo_zoo_file(m->name, file, sizeof file);
    for (int i = 0; i < 3 && m->inputs[i].name; i++) {
        json_t *shape = json_array();
        for (int j = 0; j < m->inputs[i].rank; j++)
            json_array_append_new(shape, json_integer(m->inputs[i].shape[j]));
        json_array_append_new(inputs, json_pack("{s:s, s:s, s:o}", "name", m->inputs[i].name, "type",
                                                m->inputs[i].dtype == MOIRE_F32 ? "float32" : "int64",
                                                "shape", shape));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:i, s:f, s:s, s:s, s:s, s:I, s:f, s:o}", "name",
                     m->name, "in_folder", file, "family", m->family, "served_in", m->paper, "params",
                     (json_int_t)s->params, "macs", (json_int_t)s->macs, "nodes", s->nodes, "qos_ms",
                     m->qos_ms, "qos_from", m->qos_from, "class", mo_weight_class_name(m->cls), "source",
                     m->source, "published_params", (json_int_t)m->params, "published_mmacs", m->mmacs,
                     "inputs", inputs);
}

/* Prints the rows of a verb that ended well, as JSON if there are any; its exit code. */
static int conclude(const struct mo_options *o, json_t *all, int rc, moire_error *err) {
    if (!rc && o->json) rc = mo_print_json(all, err);
    json_decref(all);
    return rc ? mo_verb_fail(o, err) : MO_EXIT_OK;
}

static void print_row(const struct mo_zoo_model *m, const struct mo_zoo_stats *s) {
    char shape[64];
    struct mo_text t = mo_text_in(shape, sizeof shape);
    for (int i = 0; i < m->inputs[0].rank; i++)
        mo_text_put(&t, "%s%lld", i ? "x" : "", (long long)m->inputs[0].shape[i]);
    printf("%-18s %-14s %10.2f %10.1f %7.0f %-7s %s\n", m->name, shape, (double)s->params / 1e6,
           (double)s->macs / 1e6, m->qos_ms, mo_weight_class_name(m->cls), m->paper);
}

static int list(const struct mo_env *env, const struct mo_options *o) {
    int n;
    const struct mo_zoo_model *table = mo_zoo_table(&n);
    json_t *all = o->json ? json_array() : NULL;
    moire_error err = {0};
    int rc = MOIRE_OK;
    if (!all)
        printf("%-18s %-14s %10s %10s %7s %-7s %s\n", "name", "input", "M params", "M MACs", "QoS ms",
               "class", "served in");
    for (int i = 0; i < n && !rc; i++) {
        struct mo_zoo_stats stats;
        rc = mo_zoo_count(env, &table[i], &stats, &err);
        if (!rc && all)
            json_array_append_new(all, row_json(&table[i], &stats));
        else if (!rc)
            print_row(&table[i], &stats);
    }
    return conclude(o, all, rc, &err);
}

static int build_one(const struct mo_env *env, const struct mo_zoo_model *m, uint64_t seed, const char *path,
                     json_t *all, moire_error *err) {
    struct mo_zoo_stats stats;
    int rc = mo_zoo_build(env, m, seed, path, &stats, err);
    if (rc) return rc;
    if (all) {
        json_t *row = row_json(m, &stats);
        json_object_set_new(row, "file", json_string(path));
        json_array_append_new(all, row);
    } else {
        /* a model that goes to standard output has it for itself */
        fprintf(mo_output_replaces(env, path) ? stdout : stderr,
                "%s: %d nodes, %.2f M parameters, %.1f M MACs\n", path, stats.nodes,
                (double)stats.params / 1e6, (double)stats.macs / 1e6);
    }
    return MOIRE_OK;
}

static int build_all(const struct mo_env *env, uint64_t seed, const char *folder, json_t *all,
                     moire_error *err) {
    int n;
    const struct mo_zoo_model *table = mo_zoo_table(&n);
    int rc = mo_path_make_folder(env, folder, err);
    if (rc) return rc;
    for (int i = 0; i < n; i++) {
        char path[4096];
        if (snprintf(path, sizeof path, "%s/%s.onnx", folder, table[i].name) >= (int)sizeof path)
            return mo_fail(err, MOIRE_EINVAL, "%.80s...: path too long", folder);
        rc = build_one(env, &table[i], seed, path, all, err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

static int build(const struct mo_env *env, const struct mo_options *o) {
    const char *name = o->operands.word[0];
    const struct mo_zoo_model *model = mo_zoo_find(name);
    const uint64_t seed = (uint64_t)o->seed;
    const bool every = !strcmp(name, "all");
    json_t *all = o->json ? json_array() : NULL;
    moire_error err = {0};
    int rc = MOIRE_OK;
    if (every)
        rc = build_all(env, seed, o->output, all, &err);
    else if (!model)
        rc = mo_known_fail(MO_KNOWN_MODELS, NULL, name, &err);
    else if (!(rc = mo_output_check(env, o->output, &err)))
        rc = build_one(env, model, seed, o->output, all, &err);
    return conclude(o, all, rc, &err);
}

static int repository(const struct mo_env *env, const struct mo_options *o) {
    json_t *all = o->json ? json_array() : NULL;
    const struct mo_ocr_networks n = {o->detector, o->classifier, o->recogniser};
    const char *folder = o->operands.word[0];
    moire_error err = {0};
    int rc;
    if (n.detector && n.classifier && n.recogniser)
        rc = mo_ocr_repository(env, folder, &n, all, &err);
    else if (n.detector || n.classifier || n.recogniser)
        rc = mo_fail(&err, MOIRE_EINVAL, "the pipeline that reads text needs --det, --cls and --rec");
    else
        rc = mo_zoo_repository(env, folder, all, &err);
    return conclude(o, all, rc, &err);
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    if (o->command == MO_DO_ZOO_REPOSITORY) return repository(env, o);
    return o->command == MO_DO_ZOO_LIST ? list(env, o) : build(env, o);
}

const struct mo_verb mo_verb_zoo = {
    .name = "zoo",
    .summary = "list and build the networks of the model zoo",
    .about = about,
    .notes = notes,
    .commands = {{.name = "list", .command = MO_DO_ZOO_LIST},
                 {.name = "build", .command = MO_DO_ZOO_BUILD, .operands = "NAME|all"},
                 {.name = "repository", .command = MO_DO_ZOO_REPOSITORY, .operands = "DIR"}},
    .run = run,
};
