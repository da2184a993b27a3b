/* SPDX-License-Identifier: Apache-2.0
 * detect.c - detectors: SSD-MobileNet 300, SSD-ResNet34 300 and 1200, Tiny-YOLOv2 416.  The SSDs end with the
 * raw scores and boxes of all anchors, without decoding or suppression. */
#include "models/zoo.h"

enum { MAX_LEVELS = 6 };

static struct mo_bv conv_relu(struct mo_build *b, struct mo_bv x, struct mo_conv_spec spec) {
    spec.bias = true;
    return mo_b_relu(b, mo_b_conv(b, x, spec));
}

/* --- SSD-ResNet34, the MLPerf reference: boxes [batch, 4, n], scores [batch, 81, n] --- */

/* One predictor per level, flattened over positions and concatenated. */
static void predict_planar(struct mo_build *b, const struct mo_bv *level, int64_t values, int stride,
                           const char *name) {
    static const int64_t anchors[MAX_LEVELS] = {4, 6, 6, 6, 4, 4};
    const char *parts[MAX_LEVELS];
    int64_t n = 0;
    for (int i = 0; i < MAX_LEVELS; i++) {
        struct mo_conv_spec spec = {
            .out = anchors[i] * values, .k = 3, .stride = stride, .pad = 1, .bias = true};
        struct mo_bv y = mo_b_conv(b, level[i], spec);
        parts[i] = mo_b_op2(b, "Reshape", y.name, mo_b_i64(b, "shape", (int64_t[]){0, values, -1}, 3));
        n += anchors[i] * y.h * y.w;
    }
    const char *all = mo_b_node(b, "Concat", MAX_LEVELS, parts);
    mo_b_int(b, "axis", 2);
    mo_b_output(b, all, name, MOIRE_F32, (int64_t[]){-1, values, n}, 3);
}

void mo_zoo_ssd_resnet34(struct mo_build *b, const struct mo_zoo_model *model) {
    bool large = model->variant == 1200;
    const struct {
        int64_t inside, out;
        int stride, pad;
    } extra[] = {
        {256, 512, 2, 1}, {256, 512, 2, 1}, {128, 256, 2, 1}, {128, 256, large ? 2 : 1, 0}, {128, 256, 1, 0}};
    struct mo_bv level[MAX_LEVELS], x = mo_b_image(b, "image", 3, model->variant, model->variant);
    level[0] = mo_zoo_resnet34_stages(b, x, 3, 1);
    for (int i = 0; i < 5; i++) {
        struct mo_conv_spec spec = {
            .out = extra[i].out, .k = 3, .stride = extra[i].stride, .pad = extra[i].pad};
        x = conv_relu(b, level[i], (struct mo_conv_spec){.out = extra[i].inside, .k = 1});
        level[i + 1] = conv_relu(b, x, spec);
    }
    predict_planar(b, level, 4, large ? 3 : 1, "boxes");
    predict_planar(b, level, 81, large ? 3 : 1, "scores");
}

/* --- SSD-MobileNet-v1, TensorFlow's: boxes [batch, 1917, 4], scores [batch, 1917, 91] --- */

static struct mo_bv same(struct mo_build *b, struct mo_bv x, int64_t out, int k, int stride) {
    int pads = stride == 1 ? k - 1 : x.h % 2 ? k - 1 : k - 2;
    struct mo_conv_spec spec = {.out = out, .k = k, .stride = stride, .pad = pads / 2};
    spec.pad_more = pads - 2 * spec.pad;
    return mo_b_relu6(b, mo_b_bn(b, mo_b_conv(b, x, spec), 1));
}

/* 1x1 predictors; positions before anchors before values, hence the Transpose. */
static void predict_interleaved(struct mo_build *b, const struct mo_bv *level, int64_t values,
                                const char *name) {
    const char *parts[MAX_LEVELS];
    int64_t n = 0;
    for (int i = 0; i < MAX_LEVELS; i++) {
        int64_t anchors = i ? 6 : 3;
        struct mo_conv_spec spec = {.out = anchors * values, .k = 1, .bias = true};
        struct mo_bv y = mo_b_conv(b, level[i], spec);
        y.name = mo_b_op1(b, "Transpose", y.name);
        mo_b_ints(b, "perm", (int64_t[]){0, 2, 3, 1}, 4);
        parts[i] = mo_b_op2(b, "Reshape", y.name, mo_b_i64(b, "shape", (int64_t[]){0, -1, values}, 3));
        n += anchors * y.h * y.w;
    }
    const char *all = mo_b_node(b, "Concat", MAX_LEVELS, parts);
    mo_b_int(b, "axis", 1);
    mo_b_output(b, all, name, MOIRE_F32, (int64_t[]){-1, n, values}, 3);
}

void mo_zoo_ssd_mobilenet(struct mo_build *b, const struct mo_zoo_model *model) {
    static const int64_t extra[][2] = {{256, 512}, {128, 256}, {128, 256}, {64, 128}};
    (void)model;
    struct mo_bv level[MAX_LEVELS], x = mo_b_image(b, "image", 3, 300, 300);
    level[1] = mo_zoo_mobilenet_v1_body(b, x, &level[0]);
    for (int i = 0; i < 4; i++) {
        x = same(b, level[i + 1], extra[i][0], 1, 1);
        level[i + 2] = same(b, x, extra[i][1], 3, 2);
    }
    predict_interleaved(b, level, 4, "boxes");
    predict_interleaved(b, level, 91, "scores");
}

/* --- Tiny-YOLOv2 for the 20 classes of VOC: 5 anchors x (4 + 1 + 20) values on a 13 x 13 grid --- */

void mo_zoo_tiny_yolo(struct mo_build *b, const struct mo_zoo_model *model) {
    (void)model;
    struct mo_bv x = mo_b_image(b, "image", 3, 416, 416);
    for (int i = 0; i < 8; i++) {
        int64_t out = i < 7 ? (int64_t)16 << i : 1024;
        x = mo_b_bn(b, mo_b_conv(b, x, (struct mo_conv_spec){.out = out, .k = 3, .pad = 1}), 1);
        x = mo_b_leaky(b, x, 0.1f);
        if (i < 5) x = mo_b_maxpool(b, x, 2, 2, 0, 0, false);
        if (i == 5) x = mo_b_maxpool(b, x, 2, 1, 0, 1, false); /* keeps 13 x 13 */
    }
    x = mo_b_conv(b, x, (struct mo_conv_spec){.out = 125, .k = 1, .bias = true});
    mo_b_result(b, x, "grid", false);
}
