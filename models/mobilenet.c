/* SPDX-License-Identifier: Apache-2.0
 * mobilenet.c - networks of depthwise-separable and inverted-residual blocks: MobileNet-v1, MobileNet-v2,
 * MnasNet 1.0 and EfficientNet-B0. */

#include "models/zoo.h"

/* --- MobileNet-v1: Conv, BN and Relu6; TensorFlow's SAME padding, so stride 2 pads only at the end --- */

static struct mo_bv same(struct mo_build *b, struct mo_bv x, int64_t out, int k, int stride, int64_t groups) {
    struct mo_conv_spec spec = {.out = out, .k = k, .stride = stride, .groups = groups};
    int rest = (int)(x.h % stride ? x.h % stride : stride);
    int total = k > rest ? k - rest : 0;
    spec.pad = total / 2;
    spec.pad_more = total - 2 * spec.pad;
    return mo_b_relu6(b, mo_b_bn(b, mo_b_conv(b, x, spec), 1));
}

struct mo_bv mo_zoo_mobilenet_v1_body(struct mo_build *b, struct mo_bv x, struct mo_bv *mid) {
    static const struct {
        int64_t out;
        int stride;
    } layers[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                  {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
    x = same(b, x, 32, 3, 2, 1);
    for (int i = 0; i < 13; i++) {
        if (i == 11) *mid = x;
        x = same(b, x, x.c, 3, layers[i].stride, x.c);
        x = same(b, x, layers[i].out, 1, 1, 1);
    }
    return x;
}

void mo_zoo_mobilenet_v1(struct mo_build *b, const struct mo_zoo_model *model) {
    (void)model;
    struct mo_bv mid, x = mo_b_image(b, "input", 3, 224, 224);
    x = mo_b_global_pool(b, mo_zoo_mobilenet_v1_body(b, x, &mid));
    mo_b_result(b, mo_b_gemm(b, mo_b_flatten(b, x), 1000), "output", true);
}

/* --- inverted residuals --- */

enum act { RELU, RELU6, SILU };

struct stage {
    int expand; /* width factor of the block's inside */
    int64_t out;
    int blocks, stride, k;
};

struct net {
    enum act act;
    bool squeeze; /* squeeze-and-excitation, to a quarter of the block's input width */
    int64_t stem, head;
    int n;
    struct stage stages[7];
};

static const struct net mobilenet_v2 = {RELU6,
                                        false,
                                        32,
                                        1280,
                                        7,
                                        {{1, 16, 1, 1, 3},
                                         {6, 24, 2, 2, 3},
                                         {6, 32, 3, 2, 3},
                                         {6, 64, 4, 2, 3},
                                         {6, 96, 3, 1, 3},
                                         {6, 160, 3, 2, 3},
                                         {6, 320, 1, 1, 3}}};
static const struct net mnasnet = {RELU,
                                   false,
                                   32,
                                   1280,
                                   7,
                                   {{1, 16, 1, 1, 3},
                                    {3, 24, 3, 2, 3},
                                    {3, 40, 3, 2, 5},
                                    {6, 80, 3, 2, 5},
                                    {6, 96, 2, 1, 3},
                                    {6, 192, 4, 2, 5},
                                    {6, 320, 1, 1, 3}}};
static const struct net efficientnet_b0 = {SILU,
                                           true,
                                           32,
                                           1280,
                                           7,
                                           {{1, 16, 1, 1, 3},
                                            {6, 24, 2, 2, 3},
                                            {6, 40, 2, 2, 5},
                                            {6, 80, 3, 2, 3},
                                            {6, 112, 3, 1, 5},
                                            {6, 192, 4, 2, 5},
                                            {6, 320, 1, 1, 3}}};

static struct mo_bv unit(struct mo_build *b, struct mo_bv x, const struct net *net,
                         struct mo_conv_spec spec) {
    x = mo_b_bn(b, mo_b_conv(b, x, spec), 1);
    return net->act == RELU ? mo_b_relu(b, x) : net->act == RELU6 ? mo_b_relu6(b, x) : mo_b_silu(b, x);
}

/* The gate closes as the level of x rises: SiLU is not homogeneous, so deviations from the expected scale
 * would otherwise grow from layer to layer. */
static struct mo_bv squeeze_excite(struct mo_build *b, struct mo_bv x, int64_t width) {
    struct mo_conv_spec squeeze = {.out = width, .k = 1, .bias = true, .gain = 0.3, .lean = 2};
    struct mo_conv_spec excite = {.out = x.c, .k = 1, .bias = true, .gain = 0.3, .lean = -1.5};
    struct mo_bv gate = mo_b_silu(b, mo_b_conv(b, mo_b_global_pool(b, x), squeeze));
    gate = mo_b_sigmoid(b, mo_b_conv(b, gate, excite));
    gate.ms = 0.06; /* of a sigmoid around -1.3 */
    return mo_b_mul(b, x, gate);
}

static struct mo_bv block(struct mo_build *b, struct mo_bv x, const struct net *net, const struct stage *s,
                          int stride) {
    struct mo_bv y = x;
    int64_t inner = x.c * s->expand;
    struct mo_conv_spec depthwise = {
        .out = inner, .k = s->k, .stride = stride, .pad = s->k / 2, .groups = inner};
    bool skip = stride == 1 && x.c == s->out;
    if (s->expand != 1) y = unit(b, y, net, (struct mo_conv_spec){.out = inner, .k = 1});
    y = unit(b, y, net, depthwise);
    if (net->squeeze) y = squeeze_excite(b, y, x.c / 4);
    y = mo_b_conv(b, y, (struct mo_conv_spec){.out = s->out, .k = 1});
    y = mo_b_bn(b, y, skip ? 0.5 : 1);
    return skip ? mo_b_add(b, x, y) : y;
}

static void inverted(struct mo_build *b, const struct net *net) {
    struct mo_bv x = mo_b_image(b, "input", 3, 224, 224);
    x = unit(b, x, net, (struct mo_conv_spec){.out = net->stem, .k = 3, .stride = 2, .pad = 1});
    for (int i = 0; i < net->n; i++)
        for (int j = 0; j < net->stages[i].blocks; j++)
            x = block(b, x, net, &net->stages[i], j ? 1 : net->stages[i].stride);
    x = mo_b_global_pool(b, unit(b, x, net, (struct mo_conv_spec){.out = net->head, .k = 1}));
    mo_b_result(b, mo_b_gemm(b, mo_b_flatten(b, x), 1000), "output", true);
}

void mo_zoo_mobilenet_v2(struct mo_build *b, const struct mo_zoo_model *model) {
    (void)model;
    inverted(b, &mobilenet_v2);
}
void mo_zoo_mnasnet(struct mo_build *b, const struct mo_zoo_model *model) {
    (void)model;
    inverted(b, &mnasnet);
}
void mo_zoo_efficientnet(struct mo_build *b, const struct mo_zoo_model *model) {
    (void)model;
    inverted(b, &efficientnet_b0);
}
