/* SPDX-License-Identifier: Apache-2.0
 * make_window.c - random convolutions, transposed convolutions, pools and resizing. */
#include <math.h>
#include <string.h>
#include "runtime/ops/util.h"
#include "tests/differential/make.h"

static const int64_t widths[] = {1, 3, 5, 7, 8, 15, 16, 17, 24, 31, 32, 33, 48};

/* Kernel sizes that fit the image; equal ones mostly. */
static void pick_kernel(struct dt_maker *m, const struct mo_shape *s, int64_t *k) {
    static const int64_t sizes[] = {1, 1, 1, 2, 3, 3, 3, 3, 4, 5, 5, 6, 7};
    int64_t square = DT_OF(m, sizes);
    bool same = dt_roll(m, 4) > 0;
    for (int i = 0; i < s->rank - 2; i++)
        k[i] = same ? square : DT_OF(m, sizes);
}

/* Padding: none, "same", or any that is smaller than the kernel. */
static void put_pads(struct dt_maker *m, struct mo_node *n, int nd, const int64_t *k) {
    int64_t pads[2 * MOIRE_MAX_RANK];
    int how = dt_roll(m, 8);
    if (how == 0) return;
    if (how == 1) {
        static const char *const modes[] = {"SAME_UPPER", "SAME_LOWER", "VALID", "SAME_UPPER"};
        dt_string(m, n, "auto_pad", DT_OF(m, modes));
        return;
    }
    for (int i = 0; i < 2 * nd; i++)
        pads[i] = how < 5 ? k[i % nd] / 2 : dt_roll(m, (int)k[i % nd]);
    dt_ints(m, n, "pads", 2 * nd, pads);
}

/* "Same" padding of a kernel smaller than the stride would be negative, which implementations take
 * differently. */
static void put_strides(struct dt_maker *m, struct mo_node *n, int nd, const int64_t *k, bool dilated) {
    int64_t strides[MOIRE_MAX_RANK], dilations[MOIRE_MAX_RANK];
    int64_t stride = 1 + dt_roll(m, 4) / 2, dilation = 1 + dt_roll(m, 6) / 5;
    for (int i = 0; i < nd; i++) {
        strides[i] = dt_roll(m, 6) ? stride : 1 + dt_roll(m, 3);
        if (mo_attr_find(n, "auto_pad") && strides[i] > k[i]) strides[i] = k[i];
        dilations[i] = dilation;
    }
    if (dt_roll(m, 4)) dt_ints(m, n, "strides", nd, strides);
    if (dilated && dilation > 1 && !mo_attr_find(n, "auto_pad")) dt_ints(m, n, "dilations", nd, dilations);
}

static int64_t divisor(struct dt_maker *m, int64_t n) {
    int64_t d = 1 + dt_roll(m, (int)n);
    while (n % d)
        d--;
    return d;
}

static void conv(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    int64_t w[MOIRE_MAX_RANK], group = 1, nd = s.rank - 2, area = 1;
    if (s.rank < 3 || s.rank > 5) return;
    pick_kernel(m, &s, w + 2);
    w[0] = DT_OF(m, widths);
    int how = dt_roll(m, 8);
    if (how == 0) {
        group = divisor(m, s.d[1]);
        w[0] = group * (1 + dt_roll(m, 5));
    } else if (how < 3) {
        group = s.d[1];
        w[0] = s.d[1] * (1 + dt_roll(m, 6) / 4);
    }
    w[1] = s.d[1] / group;
    for (int i = 0; i < nd; i++)
        area *= w[2 + i];
    int in[] = {x, dt_const(m, dt_type(m, x), s.rank, w, 1.5 / sqrt((double)(w[1] * area)), 0),
                dt_vector(m, dt_type(m, x), w[0], 0.5, 0)};
    struct mo_node *n = dt_node(m, "Conv", 2 + dt_roll(m, 2), in, 1);
    put_pads(m, n, (int)nd, w + 2);
    put_strides(m, n, (int)nd, w + 2, true);
    if (group > 1 || dt_roll(m, 2)) dt_int(m, n, "group", group);
    if (dt_roll(m, 2)) dt_ints(m, n, "kernel_shape", (int)nd, w + 2);
    dt_keep(m, n);
}

/* Two or three convolutions of many channels, square and small: what fast algorithms take. */
static void tower(struct dt_maker *m, int x) {
    static const int64_t wide[] = {16, 17, 24, 32, 33, 48, 64, 128};
    moire_dtype type = dt_type(m, x);
    bool thin = dt_roll(m, 3) == 0; /* 1x1 and wider still */
    if (dt_shape(m, x)->rank != 4) return;
    for (int i = 2 + dt_roll(m, 2); i > 0 && x >= 0; i--) {
        struct mo_shape s = *dt_shape(m, x);
        int64_t k = thin ? 1 : 1 + 2 * dt_roll(m, 3),
                w[] = {thin ? 64 + 64 * dt_roll(m, 2) : DT_OF(m, wide), s.d[1], k, k};
        int in[] = {x, dt_const(m, type, 4, w, 1.5 / sqrt((double)(s.d[1] * k * k)), 0),
                    dt_vector(m, type, w[0], 0.5, 0)};
        struct mo_node *n = dt_node(m, "Conv", 2 + dt_roll(m, 2), in, 1);
        if (dt_roll(m, 6)) dt_ints(m, n, "pads", 4, (int64_t[]){k / 2, k / 2, k / 2, k / 2});
        if (!thin && dt_roll(m, 4) == 0) dt_ints(m, n, "strides", 2, (int64_t[]){2, 2});
        x = dt_keep(m, n) ? n->out[0] : -1;
        if (x >= 0 && dt_roll(m, 2)) x = dt_chain(m, "Relu", 1, &x);
    }
}

static void conv_transpose(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    int64_t w[MOIRE_MAX_RANK], group = 1, nd = s.rank - 2;
    if (s.rank < 3 || s.rank > 5) return;
    pick_kernel(m, &s, w + 2);
    w[0] = s.d[1];
    w[1] = DT_OF(m, widths);
    if (dt_roll(m, 4) == 0) group = divisor(m, s.d[1]), w[1] = 1 + dt_roll(m, 4);
    int in[] = {x, dt_const(m, dt_type(m, x), s.rank, w, 0.4, 0),
                dt_vector(m, dt_type(m, x), w[1] * group, 0.5, 0)};
    struct mo_node *n = dt_node(m, "ConvTranspose", 2 + dt_roll(m, 2), in, 1);
    put_strides(m, n, (int)nd, w + 2, false);
    if (dt_roll(m, 2)) {
        int64_t pads[2 * MOIRE_MAX_RANK];
        for (int i = 0; i < 2 * nd; i++)
            pads[i] = dt_roll(m, (int)(w[2 + i % nd] + 1) / 2);
        dt_ints(m, n, "pads", (int)(2 * nd), pads);
    }
    if (group > 1) dt_int(m, n, "group", group);
    dt_keep(m, n);
}

static void pool(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    int64_t k[MOIRE_MAX_RANK], pads[2 * MOIRE_MAX_RANK];
    int nd = s.rank - 2, opset = m->g->opset;
    if (s.rank < 3 || s.rank > 5) return;
    bool most = dt_roll(m, 2);
    for (int i = 0; i < nd; i++)
        k[i] = 1 + dt_roll(m, s.d[2 + i] < 4 ? (int)s.d[2 + i] : 4);
    bool places = most && opset >= 8 && m->g->tensors[x]->is_input && dt_roll(m, 2);
    struct mo_node *n = dt_node(m, most ? "MaxPool" : "AveragePool", 1, &x, 1 + places);
    dt_ints(m, n, "kernel_shape", nd, k);
    if (dt_roll(m, 2)) {
        int64_t each = dt_roll(m, 2);
        for (int i = 0; i < 2 * nd; i++)
            pads[i] = dt_roll(m, 3) ? each * (k[i % nd] / 2) : dt_roll(m, (int)k[i % nd]);
        dt_ints(m, n, "pads", 2 * nd, pads);
    } else if (dt_roll(m, 5) == 0) {
        dt_string(m, n, "auto_pad", dt_roll(m, 2) ? "SAME_UPPER" : "SAME_LOWER");
    }
    put_strides(m, n, nd, k, opset >= (most ? 10 : 19));
    if (opset >= 10 && dt_roll(m, 3) == 0 && !mo_attr_find(n, "auto_pad")) dt_int(m, n, "ceil_mode", 1);
    if (!most && dt_roll(m, 2)) dt_int(m, n, "count_include_pad", 1);
    dt_keep(m, n);
}

static void global_pool(struct dt_maker *m, int x) {
    static const char *const names[] = {"GlobalAveragePool", "GlobalMaxPool", "GlobalAveragePool"};
    if (dt_shape(m, x)->rank >= 3) dt_chain(m, DT_OF(m, names), 1, &x);
}

static void put_coordinates(struct dt_maker *m, struct mo_node *n, bool linear) {
    static const char *const modes[] = {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"};
    static const char *const nearest[] = {"floor", "round_prefer_floor", "ceil", "round_prefer_ceil"};
    dt_string(m, n, "coordinate_transformation_mode", DT_OF(m, modes));
    if (!linear && dt_roll(m, 2)) dt_string(m, n, "nearest_mode", DT_OF(m, nearest));
}

/* Old Upsample, or Resize with scales or sizes. */
static void resize(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    float scales[MOIRE_MAX_RANK];
    int64_t sizes[MOIRE_MAX_RANK], rank = s.rank, none = 0;
    int opset = m->g->opset;
    if (s.rank != 4) return;
    static const float steps[] = {2, 2, 3, 1, 4, 1.5f, 0.5f};
    float both = DT_OF(m, steps);
    for (int i = 0; i < rank; i++) {
        scales[i] = i < 2 ? 1 : dt_roll(m, 4) ? both : DT_OF(m, steps);
        if (opset < 11 && scales[i] < 1) scales[i] = 2;
        sizes[i] = i < 2 ? s.d[i] : 1 + dt_roll(m, 20);
    }
    bool linear = dt_roll(m, 2);
    int factor = dt_vector(m, MOIRE_F32, rank, 0, 1);
    memcpy(m->g->tensors[factor]->data, scales, (size_t)rank * sizeof *scales);
    if (opset < 10) { /* the older operator */
        int with[] = {x, factor};
        struct mo_node *n = dt_node(m, "Upsample", opset < 9 ? 1 : 2, with, 1);
        if (opset < 9) dt_floats(m, n, "scales", (int)rank, scales);
        dt_string(m, n, "mode", linear ? "linear" : "nearest");
        dt_keep(m, n);
        return;
    }
    /* nearest: what lies halfway between two pixels depends on how a fractional ratio is rounded */
    for (int i = 2; i < rank && !linear; i++)
        sizes[i] = s.d[i] * (1 + dt_roll(m, 3));
    bool by_size = opset >= 11 && dt_roll(m, 3) == 0;
    int roi = opset >= 13 ? -1 : dt_const(m, MOIRE_F32, 1, &none, 0, 0);
    int empty = opset >= 13 ? -1 : dt_const(m, MOIRE_F32, 1, &none, 0, 0);
    int in[] = {x, roi, by_size ? empty : factor, by_size ? dt_list(m, rank, sizes) : -1};
    int old[] = {x, factor};
    struct mo_node *n =
        opset < 11 ? dt_node(m, "Resize", 2, old, 1) : dt_node(m, "Resize", by_size ? 4 : 3, in, 1);
    dt_string(m, n, "mode", linear ? "linear" : "nearest");
    bool whole = true; /* where a scaled length is no integer, implementations align corners differently */
    for (int i = 2; i < rank && !by_size; i++)
        whole &= fmodf(scales[i] * (float)s.d[i], 1) == 0;
    if (opset >= 11 && whole && dt_roll(m, 4)) put_coordinates(m, n, linear);
    dt_keep(m, n);
}

/* Squeeze and excite: a gate for every channel. */
static void excite(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    if (s.rank != 4) return;
    int64_t few = 1 + s.d[1] / 4, down[] = {few, s.d[1], 1, 1}, up[] = {s.d[1], few, 1, 1};
    moire_dtype type = dt_type(m, x);
    int mean = dt_chain(m, "GlobalAveragePool", 1, &x);
    int less[] = {mean, dt_const(m, type, 4, down, 0.5, 0), dt_vector(m, type, few, 0.3, 0)};
    int relu = dt_chain(m, "Conv", 3, less);
    relu = dt_chain(m, "Relu", 1, &relu);
    int more[] = {relu, dt_const(m, type, 4, up, 0.5, 0), dt_vector(m, type, s.d[1], 0.3, 0)};
    int conv = dt_chain(m, "Conv", 2 + dt_roll(m, 2), more);
    int gate = dt_chain(m, dt_roll(m, 3) ? "Sigmoid" : "HardSigmoid", 1, &conv);
    int both[] = {dt_roll(m, 2) ? x : gate, gate};
    both[1] = both[0] == x ? gate : x;
    int gated = dt_chain(m, "Mul", 2, both);
    if (gated >= 0 && dt_roll(m, 2)) {
        int64_t w[] = {DT_OF(m, widths), s.d[1], 1, 1};
        int in[] = {gated, dt_const(m, type, 4, w, 1.2 / sqrt((double)s.d[1]), 0)};
        dt_chain(m, "Conv", 2, in);
    }
}

const struct dt_kind dt_kinds_window[] = {
    {"conv", 26, MO_FLOATS, conv},
    {"tower", 6, MO_FLOATS, tower},
    {"conv transpose", 5, MO_FLOATS, conv_transpose},
    {"pool", 8, MO_FLOATS, pool},
    {"global pool", 2, MO_FLOATS, global_pool},
    {"resize", 5, MO_FLOATS, resize},
    {"excite", 5, MO_FLOATS, excite},
    {0},
};
