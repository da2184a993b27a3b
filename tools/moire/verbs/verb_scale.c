/* SPDX-License-Identifier: Apache-2.0
 * verb_scale.c - `moire scale`: a plan of models on machines as the configuration of an engine that spreads
 * queries over them (tools/moire/scale/). */
#include <stdio.h>
#include "tools/moire/scale/scale.h"
#include "tools/moire/verb.h"

static const char about[] =
    "Writes what HAProxy, KServe on Kubernetes or Ray Serve need to spread queries over machines, each with\n"
    "`moire serve` or moire's Python package.  PLAN.json says which models go where: `moire capacity "
    "--nodes`\n"
    "writes it.\n";

static const char notes[] =
    "haproxy  haproxy.cfg, and nodes/NAME.json for each node's `moire serve --config`\n"
    "kserve   a ServingRuntime; for each model an InferenceService, a scaler and a disruption budget\n"
    "ray      applications of Ray Serve: moire_app.py, config.yaml and ray.env\n"
    "docs/scaling-out.md goes through each.\n"
    "\n"
    "Examples:\n"
    "  moire scale haproxy plan.json -o out\n"
    "  moire scale kserve plan.json -o out --image registry.local/moire:1\n"
    "  moire scale ray plan.json -o out\n";

typedef int (*engine)(const struct mo_scale_plan *plan, const struct mo_scale_options *options,
                      struct mo_scale_folder *folder, moire_error *err);

static engine engine_of(enum mo_command command) {
    if (command == MO_DO_SCALE_HAPROXY) return mo_scale_haproxy;
    return command == MO_DO_SCALE_KSERVE ? mo_scale_kserve : mo_scale_ray;
}

static int show(const struct mo_options *o, const struct mo_scale_folder *folder, moire_error *err) {
    const json_t *name;
    size_t i;
    if (o->json) {
        json_t *document = json_pack("{s:s, s:O}", "folder", folder->path, "files", folder->written);
        const int code =
            document ? mo_print_json(document, err) : mo_fail(err, MOIRE_ENOMEM, "out of memory");
        json_decref(document);
        return code;
    }
    json_array_foreach(folder->written, i, name) printf("%s/%s\n", folder->path, json_string_value(name));
    return MOIRE_OK;
}

static int scale(const struct mo_env *env, const struct mo_options *o, const struct mo_scale_plan *plan,
                 moire_error *err) {
    const struct mo_scale_options options = {
        .listen = o->listen, .agent_step = o->agent_step, .image = o->image};
    struct mo_scale_folder folder;
    int code = mo_scale_folder_open(env, o->output, &folder, err);
    if (!code) code = engine_of(o->command)(plan, &options, &folder, err);
    if (!code) code = show(o, &folder, err);
    mo_scale_folder_close(&folder);
    return code;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err = {0};
    struct mo_scale_plan plan;
    int code = mo_scale_plan_load(env, o->operands.word[0], &plan, &err);
    if (!code) {
        code = scale(env, o, &plan, &err);
        mo_scale_plan_close(&plan);
    }
    return code ? mo_verb_fail(o, &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_scale = {
    .name = "scale",
    .group = MO_GROUP_SIMULATE,
    .summary = "write a plan of models on machines for HAProxy, KServe or Ray Serve",
    .about = about,
    .notes = notes,
    .commands = {{.name = "haproxy", .command = MO_DO_SCALE_HAPROXY, .operands = "PLAN.json"},
                 {.name = "kserve", .command = MO_DO_SCALE_KSERVE, .operands = "PLAN.json"},
                 {.name = "ray", .command = MO_DO_SCALE_RAY, .operands = "PLAN.json"}},
    .run = run,
};
