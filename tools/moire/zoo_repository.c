/* SPDX-License-Identifier: Apache-2.0
 * zoo_repository.c - writes the applications of gpu-let as models and pipelines; see zoo_repository.h. */
#include "tools/moire/zoo_repository.h"

#include <stdio.h>
#include <string.h>
#include "models/glue.h"
#include "runtime/base/output.h"
#include "tools/moire/paths.h"

#define STEP(model, in, out) "  step { model_name: \"" model "\" model_version: -1\n" in out "  }\n"
#define IN(port, tensor)     "    input_map { key: \"" port "\" value: \"" tensor "\" }\n"
#define OUT(port, tensor)    "    output_map { key: \"" port "\" value: \"" tensor "\" }\n"
#define SCORES(name, n)      "output { name: \"" name "\" data_type: TYPE_FP32 dims: [ -1, " n " ] }\n"
#define DIGIT(n)             STEP("lenet", IN("input", "cut-digit" n), OUT("output", "digit" n))
#define CUT(n)               OUT("digit" n, "cut-digit" n)
#define TARGET(ms)           "parameters { key: \"qos_ms\" value: { string_value: \"" ms "\" } }\n"

/* Names of networks are those of `moire zoo list`; targets are the paper's. */
static const struct application {
    const char *name, *config;
} applications[] = {
    {"game",
     "# Six digits and the image of a streamed game, recognised side by side.\n"
     "platform: \"ensemble\"\n"
     "input { name: \"frame\" data_type: TYPE_UINT8 dims: [ -1, 448, 448, 3 ] }\n" SCORES("digit0", "10")
         SCORES("digit1", "10") SCORES("digit2", "10") SCORES("digit3", "10") SCORES("digit4", "10")
             SCORES("digit5", "10") SCORES("image", "1000") "ensemble_scheduling {\n" STEP(
                 "game-cut", IN("frame", "frame"),
                 CUT("0") CUT("1") CUT("2") CUT("3") CUT("4") CUT("5") OUT("image", "cut-image")) DIGIT("0")
                 DIGIT("1") DIGIT("2") DIGIT("3") DIGIT("4") DIGIT("5")
                     STEP("resnet50", IN("input", "cut-image"), OUT("output", "image")) "}\n" TARGET("95")},
    {"traffic",
     "# Objects found in a camera's picture; the best car and the best person are then recognised.\n"
     "platform: \"ensemble\"\n"
     "input { name: \"image\" data_type: TYPE_FP32 dims: [ 1, 3, 300, 300 ] }\n" SCORES("car", "1000") SCORES(
         "person", "1000") "output { name: \"boxes\" data_type: TYPE_FP32 dims: [ 1, 1917, 4 ] }\n"
                           "ensemble_scheduling {\n" STEP("ssd-mobilenet", IN("image", "image"),
                                                          OUT("boxes", "boxes") OUT("scores", "scores"))
                               STEP("traffic-cut",
                                    IN("image", "image") IN("boxes", "boxes") IN("scores", "scores"),
                                    OUT("car", "cut-car") OUT("person", "cut-person"))
                                   STEP("googlenet", IN("input", "cut-car"), OUT("output", "car"))
                                       STEP("vgg16", IN("input", "cut-person"),
                                            OUT("output", "person")) "}\n" TARGET("136")},
};
static const char *const networks[] = {"lenet", "resnet50", "ssd-mobilenet", "googlenet", "vgg16"};
enum {
    N_APPLICATIONS = sizeof applications / sizeof *applications,
    N_NETWORKS = sizeof networks / sizeof *networks
};

/* FOLDER/NAME.onnx or the like, into path[MO_PATH_CAP]. */
static int path_of(char *path, const char *folder, const char *name, const char *end, moire_error *err) {
    if (snprintf(path, MO_PATH_CAP, "%s/%s%s", folder, name, end) >= MO_PATH_CAP)
        return mo_fail(err, MOIRE_EINVAL, "%.80s...: path too long", folder);
    return MOIRE_OK;
}

static void tell(json_t *all, const char *path) {
    if (all)
        json_array_append_new(all, json_pack("{s:s}", "file", path));
    else
        fprintf(stderr, "%s\n", path);
}

static int write_networks(const struct mo_env *env, const char *folder, json_t *all, moire_error *err) {
    char path[MO_PATH_CAP];
    int code = MOIRE_OK;
    for (int i = 0; i < N_NETWORKS && !code; i++) {
        code = path_of(path, folder, networks[i], ".onnx", err);
        if (!code) code = mo_zoo_build(env, mo_zoo_find(networks[i]), MO_ZOO_SEED, path, NULL, err);
        if (!code) tell(all, path);
    }
    return code;
}

static int write_glue(const struct mo_env *env, const char *folder, json_t *all, moire_error *err) {
    int n, code = MOIRE_OK;
    const struct mo_glue *glue = mo_glue_table(&n);
    char path[MO_PATH_CAP];
    for (int i = 0; i < n && !code; i++) {
        code = path_of(path, folder, glue[i].name, ".onnx", err);
        if (!code) code = mo_glue_write(env, &glue[i], path, err);
        if (!code) tell(all, path);
    }
    return code;
}

static int write_pipelines(const struct mo_env *env, const char *folder, json_t *all, moire_error *err) {
    char path[MO_PATH_CAP];
    int code = MOIRE_OK;
    for (int i = 0; i < N_APPLICATIONS && !code; i++) {
        const struct application *a = &applications[i];
        code = path_of(path, folder, a->name, "", err);
        if (!code) code = mo_path_make_folder(env, path, err);
        if (!code) code = path_of(path, folder, a->name, "/config.pbtxt", err);
        if (!code) code = mo_output_write(env, path, a->config, strlen(a->config), err);
        if (!code) tell(all, path);
    }
    return code;
}

int mo_zoo_repository(const struct mo_env *env, const char *folder, json_t *all, moire_error *err) {
    int code = mo_path_make_folder(env, folder, err);
    if (!code) code = write_networks(env, folder, all, err);
    if (!code) code = write_glue(env, folder, all, err);
    return code ? code : write_pipelines(env, folder, all, err);
}
