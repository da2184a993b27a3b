/* SPDX-License-Identifier: Apache-2.0
 * googlenet.c - GoogLeNet (Inception-v1) with batch normalisation and without auxiliary heads.  The third
 * branch has 3x3 kernels, as in the files in use. */
#include "models/zoo.h"

struct inception {
    int64_t one, reduce3, three, reduce5, five, pool;
    int pool_after; /* size of the max pool of stride 2 that follows; 0 = none */
};

static struct mo_bv unit(struct mo_build *b, struct mo_bv x, int64_t out, int k) {
    return mo_b_conv_bn_relu(b, x, (struct mo_conv_spec){.out = out, .k = k, .pad = k / 2});
}

static struct mo_bv inception(struct mo_build *b, struct mo_bv x, const struct inception *s) {
    struct mo_bv branch[4];
    branch[0] = unit(b, x, s->one, 1);
    branch[1] = unit(b, unit(b, x, s->reduce3, 1), s->three, 3);
    branch[2] = unit(b, unit(b, x, s->reduce5, 1), s->five, 3);
    branch[3] = unit(b, mo_b_maxpool(b, x, 3, 1, 1, 0, true), s->pool, 1);
    x = mo_b_concat(b, branch, 4);
    if (s->pool_after) x = mo_b_maxpool(b, x, s->pool_after, 2, 0, 0, true);
    return x;
}

void mo_zoo_googlenet(struct mo_build *b, const struct mo_zoo_model *model) {
    static const struct inception modules[] = {
        {64, 96, 128, 16, 32, 32, 0},     {128, 128, 192, 32, 96, 64, 3},   {192, 96, 208, 16, 48, 64, 0},
        {160, 112, 224, 24, 64, 64, 0},   {128, 128, 256, 24, 64, 64, 0},   {112, 144, 288, 32, 64, 64, 0},
        {256, 160, 320, 32, 128, 128, 2}, {256, 160, 320, 32, 128, 128, 0}, {384, 192, 384, 48, 128, 128, 0},
    };
    (void)model;
    struct mo_bv x = mo_b_image(b, "input", 3, 224, 224);
    x = mo_b_conv_bn_relu(b, x, (struct mo_conv_spec){.out = 64, .k = 7, .stride = 2, .pad = 3});
    x = mo_b_maxpool(b, x, 3, 2, 0, 0, true);
    x = unit(b, unit(b, x, 64, 1), 192, 3);
    x = mo_b_maxpool(b, x, 3, 2, 0, 0, true);
    for (int i = 0; i < 9; i++)
        x = inception(b, x, &modules[i]);
    x = mo_b_global_pool(b, x);
    mo_b_result(b, mo_b_gemm(b, mo_b_flatten(b, x), 1000), "output", true);
}
