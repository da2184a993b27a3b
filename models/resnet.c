/* SPDX-License-Identifier: Apache-2.0
 * resnet.c - ResNet-18/-34/-50/-152 and ResNeXt-101 32x8d (v1.5: the stride is in the 3x3 convolution). */
#include <math.h>
#include "models/zoo.h"

struct depth {
    int variant;
    int blocks[4];
    bool bottleneck;
    int64_t groups, group_width; /* of the 3x3 convolution in a bottleneck */
};

static const struct depth depths[] = {
    {18, {2, 2, 2, 2}, false, 1, 64},  {34, {3, 4, 6, 3}, false, 1, 64},  {50, {3, 4, 6, 3}, true, 1, 64},
    {152, {3, 8, 36, 3}, true, 1, 64}, {101, {3, 4, 23, 3}, true, 32, 8},
};

/* One residual block.  `gain` scales the branch, so that the sum over all blocks stays O(1). */
static struct mo_bv block(struct mo_build *b, struct mo_bv x, const struct depth *d, int64_t width,
                          int stride, double gain) {
    int64_t out = d->bottleneck ? 4 * width : width;
    struct mo_bv y = x, skip = x;
    if (d->bottleneck) {
        int64_t inner = width * d->group_width / 64 * d->groups;
        struct mo_conv_spec mid = {.out = inner, .k = 3, .stride = stride, .pad = 1, .groups = d->groups};
        y = mo_b_conv_bn_relu(b, y, (struct mo_conv_spec){.out = inner, .k = 1});
        y = mo_b_conv_bn_relu(b, y, mid);
        y = mo_b_conv(b, y, (struct mo_conv_spec){.out = out, .k = 1});
    } else {
        struct mo_conv_spec first = {.out = width, .k = 3, .stride = stride, .pad = 1};
        y = mo_b_conv_bn_relu(b, y, first);
        y = mo_b_conv(b, y, (struct mo_conv_spec){.out = width, .k = 3, .pad = 1});
    }
    y = mo_b_bn(b, y, gain);
    if (stride != 1 || x.c != out) {
        struct mo_conv_spec spec = {.out = out, .k = 1, .stride = stride};
        skip = mo_b_bn(b, mo_b_conv(b, x, spec), 1);
    }
    struct mo_bv sum = mo_b_add(b, y, skip);
    bool rectified = skip.name == x.name; /* only the small branch can be cut by the Relu */
    sum = mo_b_relu(b, sum);
    if (rectified) sum.ms = x.ms + 0.5 * y.ms;
    return sum;
}

static struct mo_bv stages(struct mo_build *b, struct mo_bv x, const struct depth *d, int n,
                           int last_stride) {
    int total = d->blocks[0] + d->blocks[1] + d->blocks[2] + d->blocks[3];
    double gain = 1 / sqrt(total);
    x = mo_b_conv_bn_relu(b, x, (struct mo_conv_spec){.out = 64, .k = 7, .stride = 2, .pad = 3});
    x = mo_b_maxpool(b, x, 3, 2, 1, 0, false);
    for (int stage = 0; stage < n; stage++)
        for (int i = 0; i < d->blocks[stage]; i++) {
            int stride = i || !stage ? 1 : stage == n - 1 ? last_stride : 2;
            x = block(b, x, d, (int64_t)64 << stage, stride, gain);
        }
    return x;
}

struct mo_bv mo_zoo_resnet34_stages(struct mo_build *b, struct mo_bv x, int n, int last_stride) {
    return stages(b, x, &depths[1], n, last_stride);
}

void mo_zoo_resnet(struct mo_build *b, const struct mo_zoo_model *model) {
    const struct depth *d = depths;
    while (d->variant != model->variant)
        d++;
    struct mo_bv x = mo_b_image(b, "input", 3, 224, 224);
    x = mo_b_global_pool(b, stages(b, x, d, 4, 2));
    mo_b_result(b, mo_b_gemm(b, mo_b_flatten(b, x), 1000), "output", true);
}
