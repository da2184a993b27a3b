/* SPDX-License-Identifier: Apache-2.0
 * small_zoo.c - small-zoo FOLDER: networks of a few kilobytes under the names of the zoo's files, so that
 * tools/gpu-acceptance runs to its end on the fake driver, which computes every one of its kernels. */
#include <stdio.h>
#include "models/zoo.h"

enum { SIDE = 8, CLASSES = 10 };

static const struct {
    const char *name;
    int channels, layers;
} rows[] = {
    {"lenet", 4, 1}, {"googlenet", 4, 2}, {"resnet50", 4, 3}, {"ssd-mobilenet", 8, 2}, {"vgg16", 8, 3}};

/* The input is the zoo's, pooled to eight by eight at once. */
static void build(struct mo_build *b, const struct mo_zoo_input *input, int channels, int layers) {
    int side = (int)input->shape[2], k = side / SIDE;
    struct mo_bv x = mo_b_image(b, input->name, input->shape[1], side, side);
    x = mo_b_maxpool(b, x, k, k, 0, 0, false);
    for (int i = 0; i < layers; i++)
        x = mo_b_conv_bn_relu(b, x, (struct mo_conv_spec){.out = channels, .k = 3, .pad = 1});
    mo_b_result(b, mo_b_gemm(b, mo_b_flatten(b, x), CLASSES), "output", true);
}

static int write_row(const struct mo_env *env, const char *folder, size_t i, moire_error *err) {
    char file[64], path[1024];
    struct mo_build b;
    int code = mo_build_start(env, rows[i].name, i + 1, &b, err);
    if (code) return code;
    mo_zoo_file(rows[i].name, file, sizeof file);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    build(&b, &mo_zoo_find(rows[i].name)->inputs[0], rows[i].channels, rows[i].layers);
    code = mo_build_write(&b, path, err);
    mo_build_end(&b);
    return code;
}

int main(int argc, char **argv) {
    struct mo_env env = mo_env_default();
    moire_error err = {0};
    int code = argc == 2 ? MOIRE_OK : MOIRE_EINVAL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !code; i++)
        code = write_row(&env, argv[1], i, &err);
    if (code) fprintf(stderr, "small-zoo FOLDER: %s\n", err.message);
    return code ? 1 : 0;
}
