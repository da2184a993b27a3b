/* SPDX-License-Identifier: Apache-2.0
 * classic.c - LeNet-5, AlexNet, VGG and SqueezeNet 1.0. */
#include "models/zoo.h"

/* LeNet-5 as in LeCun's paper, with a full second convolution. */
void mo_zoo_lenet(struct mo_build *b, const struct mo_zoo_model *model) {
    (void)model;
    struct mo_bv x = mo_b_image(b, "input", 1, 32, 32);
    x = mo_b_tanh(b, mo_b_conv(b, x, (struct mo_conv_spec){.out = 6, .k = 5, .bias = true}));
    x = mo_b_avgpool(b, x, 2, 2);
    x = mo_b_tanh(b, mo_b_conv(b, x, (struct mo_conv_spec){.out = 16, .k = 5, .bias = true}));
    x = mo_b_avgpool(b, x, 2, 2);
    x = mo_b_flatten(b, x);
    x = mo_b_tanh(b, mo_b_gemm(b, x, 120));
    x = mo_b_tanh(b, mo_b_gemm(b, x, 84));
    mo_b_result(b, mo_b_gemm(b, x, 10), "output", true);
}

static struct mo_bv conv_relu(struct mo_build *b, struct mo_bv x, int64_t out, int k, int stride, int pad) {
    struct mo_conv_spec spec = {.out = out, .k = k, .stride = stride, .pad = pad, .bias = true};
    return mo_b_relu(b, mo_b_conv(b, x, spec));
}

/* Two hidden layers of 4096 and the class scores. */
static void classify(struct mo_build *b, struct mo_bv x) {
    x = mo_b_flatten(b, x);
    x = mo_b_relu(b, mo_b_gemm(b, x, 4096));
    x = mo_b_relu(b, mo_b_gemm(b, x, 4096));
    mo_b_result(b, mo_b_gemm(b, x, 1000), "output", true);
}

/* The single-tower AlexNet ("one weird trick"), without local response normalisation. */
void mo_zoo_alexnet(struct mo_build *b, const struct mo_zoo_model *model) {
    (void)model;
    struct mo_bv x = mo_b_image(b, "input", 3, 224, 224);
    x = mo_b_maxpool(b, conv_relu(b, x, 64, 11, 4, 2), 3, 2, 0, 0, false);
    x = mo_b_maxpool(b, conv_relu(b, x, 192, 5, 1, 2), 3, 2, 0, 0, false);
    x = conv_relu(b, x, 384, 3, 1, 1);
    x = conv_relu(b, x, 256, 3, 1, 1);
    x = mo_b_maxpool(b, conv_relu(b, x, 256, 3, 1, 1), 3, 2, 0, 0, false);
    classify(b, x);
}

void mo_zoo_vgg(struct mo_build *b, const struct mo_zoo_model *model) {
    static const int64_t width[] = {64, 128, 256, 512, 512};
    struct mo_bv x = mo_b_image(b, "input", 3, 224, 224);
    for (int stage = 0; stage < 5; stage++) {
        int convs = stage < 2 ? 2 : model->variant == 19 ? 4 : 3;
        for (int i = 0; i < convs; i++)
            x = conv_relu(b, x, width[stage], 3, 1, 1);
        x = mo_b_maxpool(b, x, 2, 2, 0, 0, false);
    }
    classify(b, x);
}

static struct mo_bv fire(struct mo_build *b, struct mo_bv x, int64_t squeeze, int64_t expand) {
    x = conv_relu(b, x, squeeze, 1, 1, 0);
    struct mo_bv both[] = {conv_relu(b, x, expand, 1, 1, 0), conv_relu(b, x, expand, 3, 1, 1)};
    return mo_b_concat(b, both, 2);
}

void mo_zoo_squeezenet(struct mo_build *b, const struct mo_zoo_model *model) {
    (void)model;
    static const struct {
        int64_t squeeze, expand;
        bool pool; /* a pool follows */
    } fires[] = {{16, 64, false},  {16, 64, false},  {32, 128, true}, {32, 128, false},
                 {48, 192, false}, {48, 192, false}, {64, 256, true}, {64, 256, false}};
    struct mo_bv x = mo_b_image(b, "input", 3, 224, 224);
    x = mo_b_maxpool(b, conv_relu(b, x, 96, 7, 2, 0), 3, 2, 0, 0, true);
    for (int i = 0; i < 8; i++) {
        x = fire(b, x, fires[i].squeeze, fires[i].expand);
        if (fires[i].pool) x = mo_b_maxpool(b, x, 3, 2, 0, 0, true);
    }
    x = mo_b_global_pool(b, conv_relu(b, x, 1000, 1, 1, 0));
    mo_b_result(b, mo_b_flatten(b, x), "output", true);
}
