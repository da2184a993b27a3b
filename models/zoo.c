/* SPDX-License-Identifier: Apache-2.0
 * zoo.c - the table of models and what one does with a row: count, build, find its cached file.
 *
 * Published counts: "torchvision" = the table of that package's weights (parameters; GFLOPS there are
 * multiply-accumulates); "paper" = the paper that introduced the network; "reference" = counted on MLPerf's
 * or the authors' reference code. */
#include "models/zoo.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
#define IMAGE(label, c, s) {{label, MOIRE_F32, 4, {1, c, s, s}}}
#define TOKENS {{"input_ids", MOIRE_I64, 2, {1, 384}}, {"token_type_ids", MOIRE_I64, 2, {1, 384}}, \
                {"attention_mask", MOIRE_I64, 2, {1, 384}}}

/* name, family, served in, source of counts, builder, variant, QoS ms, QoS from, class, params, MMACs */
static const struct mo_zoo_model table[] = {
    {"lenet", "LeNet-5", "gpulet", "paper", mo_zoo_lenet, 5,
     5, "gpulet", MO_LIGHT, 61706, 0.416520, IMAGE("input", 1, 32)},
    {"alexnet", "AlexNet", "inss, wattwiser", "torchvision", mo_zoo_alexnet, 1,
     10, "inss", MO_LIGHT, 61100840, 714.2, IMAGE("input", 3, 224)},
    {"squeezenet1.0", "SqueezeNet", "wattwiser", "torchvision", mo_zoo_squeezenet, 10,
     28, "wattwiser", MO_LIGHT, 1248424, 819, IMAGE("input", 3, 224)},
    {"googlenet", "GoogLeNet", "veltair, gpulet", "torchvision", mo_zoo_googlenet, 1,
     15, "veltair", MO_MEDIUM, 6624904, 1498, IMAGE("input", 3, 224)},
    {"vgg16", "VGG", "gpulet, inss", "torchvision", mo_zoo_vgg, 16,
     65, "inss", MO_HEAVY, 138357544, 15470, IMAGE("input", 3, 224)},
    {"vgg19", "VGG", "inss, wattwiser", "torchvision", mo_zoo_vgg, 19,
     80, "inss", MO_HEAVY, 143667240, 19632, IMAGE("input", 3, 224)},
    {"resnet18", "ResNet", "inss", "torchvision", mo_zoo_resnet, 18,
     15, "inss", MO_MEDIUM, 11689512, 1814, IMAGE("input", 3, 224)},
    {"resnet34", "ResNet", "backbone of ssd-resnet34", "torchvision", mo_zoo_resnet, 34,
     25, "between resnet18 and resnet50", MO_MEDIUM, 21797672, 3664, IMAGE("input", 3, 224)},
    {"resnet50", "ResNet", "veltair, gpulet, inss", "torchvision", mo_zoo_resnet, 50,
     15, "veltair", MO_MEDIUM, 25557032, 4089, IMAGE("input", 3, 224)},
    {"resnet152", "ResNet", "wattwiser", "torchvision", mo_zoo_resnet, 152,
     76, "wattwiser", MO_HEAVY, 60192808, 11514, IMAGE("input", 3, 224)},
    {"resnext101", "ResNeXt 32x8d", "wattwiser", "torchvision", mo_zoo_resnet, 101,
     101, "wattwiser", MO_HEAVY, 88791336, 16414, IMAGE("input", 3, 224)},
    {"mobilenet-v1", "MobileNet", "inss", "paper", mo_zoo_mobilenet_v1, 1,
     15, "inss", MO_LIGHT, 4231976, 568.7, IMAGE("input", 3, 224)},
    {"mobilenet-v2", "MobileNet", "veltair", "torchvision", mo_zoo_mobilenet_v2, 2,
     10, "veltair", MO_LIGHT, 3504872, 301, IMAGE("input", 3, 224)},
    {"mnasnet1.0", "MnasNet", "inss", "torchvision", mo_zoo_mnasnet, 10,
     10, "inss", MO_LIGHT, 4383312, 314, IMAGE("input", 3, 224)},
    {"efficientnet-b0", "EfficientNet", "veltair, inss", "torchvision", mo_zoo_efficientnet, 0,
     10, "veltair", MO_LIGHT, 5288548, 386, IMAGE("input", 3, 224)},
    {"ssd-mobilenet", "SSD", "gpulet", "MLPerf", mo_zoo_ssd_mobilenet, 300,
     136, "gpulet", MO_MEDIUM, 6910000, 1235, IMAGE("image", 3, 300)},
    {"ssd-resnet34-300", "SSD", "veltair", "reference", mo_zoo_ssd_resnet34, 300,
     100, "veltair", MO_HEAVY, 19972534, 15862, IMAGE("image", 3, 300)},
    {"ssd-resnet34-1200", "SSD", "veltair", "reference; MACs MLPerf", mo_zoo_ssd_resnet34, 1200,
     100, "veltair", MO_HEAVY, 19972534, 216500, IMAGE("image", 3, 1200)},
    {"tiny-yolov2", "YOLO", "veltair", "darknet", mo_zoo_tiny_yolo, 2,
     10, "veltair", MO_LIGHT, 15861773, 3485, IMAGE("image", 3, 416)},
    {"bert-base", "BERT", "sibling of bert-large", "reference, sequence 384", mo_zoo_bert, 12,
     45, "bert-large by MACs", MO_HEAVY, 108893186, 35333, TOKENS},
    {"bert-large", "BERT", "veltair", "reference, sequence 384", mo_zoo_bert, 24,
     130, "veltair", MO_HEAVY, 334094338, 123212, TOKENS},
};
/* clang-format on */
enum { N_MODELS = sizeof table / sizeof *table, REVISION = 2 /* of the builders; part of cached names */ };

const struct mo_zoo_model *mo_zoo_table(int *n) {
    *n = N_MODELS;
    return table;
}

const struct mo_zoo_model *mo_zoo_find(const char *name) {
    for (int i = 0; i < N_MODELS; i++)
        if (!strcmp(table[i].name, name)) return &table[i];
    return NULL;
}

const char *mo_weight_class_name(enum mo_weight_class cls) {
    static const char *const names[] = {"light", "medium", "heavy"};
    return names[cls];
}

static int build(const struct mo_env *env, const struct mo_zoo_model *model, uint64_t seed, const char *path,
                 struct mo_zoo_stats *stats, moire_error *err) {
    struct mo_build b;
    int code = mo_build_start(env, model->name, seed, &b, err);
    if (code) return code;
    b.count_only = !path;
    model->build(&b, model);
    if (path)
        code = mo_build_write(&b, path, err);
    else if (b.code)
        code = mo_fail(err, b.code, "model %s: %s", model->name, moire_code_text(b.code));
    if (!code && stats)
        *stats = (struct mo_zoo_stats){.params = b.params, .macs = b.macs, .nodes = (int)b.nodes.n};
    mo_build_end(&b);
    return code;
}

int mo_zoo_build(const struct mo_env *env, const struct mo_zoo_model *model, uint64_t seed, const char *path,
                 struct mo_zoo_stats *stats, moire_error *err) {
    return build(env, model, seed, path, stats, err);
}

int mo_zoo_count(const struct mo_env *env, const struct mo_zoo_model *model, struct mo_zoo_stats *stats,
                 moire_error *err) {
    return build(env, model, MO_ZOO_SEED, NULL, stats, err);
}

static bool exists(const struct mo_env *env, const char *path) {
    const struct mo_sys *sys = env->sys;
    int fd = sys->open(sys->self, path, O_RDONLY, 0);
    if (fd < 0) return false;
    bool full = sys->size(sys->self, fd) > 0;
    sys->close(sys->self, fd);
    return full;
}

void mo_zoo_file(const char *name, char *out, size_t n) {
    snprintf(out, n, "%s-r%d.onnx", name, REVISION);
}

int mo_zoo_path(const struct mo_env *env, const char *name, const char *folder, char *out, size_t n,
                moire_error *err) {
    const struct mo_sys *sys = env->sys;
    const struct mo_zoo_model *model = mo_zoo_find(name);
    if (!model)
        return mo_fail(err, MOIRE_EINVAL, "no model '%s' in the zoo; `moire zoo list` shows all", name);
    char file[64];
    mo_zoo_file(name, file, sizeof file);
    int used = snprintf(out, n, "%s/%s", folder, file);
    if (used < 0 || (size_t)used >= n) return mo_fail(err, MOIRE_EINVAL, "%s: path too long", folder);
    if (exists(env, out)) return MOIRE_OK;
    for (char *at = out + 1; *at; at++) {
        if (*at != '/') continue;
        *at = 0;
        int made = sys->mkdir(sys->self, out, 0777);
        if (made && made != -EEXIST)
            return mo_fail(err, MOIRE_EIO, "%s: cannot make the folder: %s", out, strerror(-made));
        *at = '/';
    }
    return mo_zoo_build(env, model, MO_ZOO_SEED, out, NULL, err);
}
