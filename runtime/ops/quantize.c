/* SPDX-License-Identifier: Apache-2.0
 * quantize.c - numbers to 8 or 16 bits and back, and products and convolutions of such numbers, by reference.
 *
 * A quantized number q stands for (q - zero) x scale.  Scale and zero point are one for the tensor, one for
 * each index along an axis, or one for each block along it.  Products are summed in int32 as the operators
 * define it (QLinear forms scale the sum and round to even). */
#include <math.h>
#include <string.h>
#include "runtime/ops/util.h"

enum {
    SMALL_INTS = MO_TYPE(MOIRE_I8) | MO_TYPE(MOIRE_U8),
    QUANTIZED = SMALL_INTS | MO_TYPE(MOIRE_I16) | MO_TYPE(MOIRE_U16),
    WIDE_INTS = QUANTIZED | MO_TYPE(MOIRE_I32)
};

static void range_of(moire_dtype t, double *low, double *high) {
    double span = t == MOIRE_I8 || t == MOIRE_U8 ? 256 : 65536;
    bool is_signed = t == MOIRE_I8 || t == MOIRE_I16;
    *low = is_signed ? -span / 2 : 0;
    *high = *low + span - 1;
}

/* Nearest integer, ties to even, within the type. */
static void store_rounded(const struct mo_value *y, int64_t i, double x) {
    double low, high;
    range_of(y->dtype, &low, &high);
    mo_store_int(y, i, (int64_t)(x != x ? 0 : fmin(fmax(nearbyint(x), low), high)));
}

/* --- where the scale of an element is --- */
struct grain {
    int64_t inner, axis, block; /* elements behind the axis; its length; indices that share a scale */
    int64_t scales;             /* along the axis; 1: one for all */
};

static int grain_of(const struct mo_op_ctx *ctx, int scale, struct grain *g) {
    const struct mo_shape *x = &ctx->in[0].shape, *s = &ctx->in[scale].shape;
    int64_t n = mo_count(&ctx->in[scale]), block = mo_attr_int(ctx->node, "block_size", 0);
    *g = (struct grain){.inner = 1, .axis = 1, .block = 1, .scales = 1};
    if (n == 1 && s->rank < 2) return MOIRE_OK;
    int axis = mo_axis(ctx, mo_attr_int(ctx->node, "axis", 1), x->rank);
    if (axis < 0) return MOIRE_EINVAL;
    g->axis = x->d[axis];
    g->inner = mo_extent(x, axis + 1, x->rank);
    if (s->rank == 1 && n == g->axis) {
        g->scales = n;
        return MOIRE_OK;
    }
    struct mo_shape wanted = *x;
    if (block > g->axis) block = g->axis;
    if (block > 0) wanted.d[axis] = (g->axis + block - 1) / block;
    if (block < 1 || !mo_shape_equal(&wanted, s))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the scale fits neither the tensor nor its axis %d", axis);
    g->block = block;
    g->scales = -wanted.d[axis]; /* one for each place behind the axis, too */
    return MOIRE_OK;
}

static int64_t scale_at(const struct grain *g, int64_t i) {
    int64_t along = i / g->inner % g->axis;
    if (g->scales > 0) return g->scales == 1 ? 0 : along;
    return (i / g->inner / g->axis * -g->scales + along / g->block) * g->inner + i % g->inner;
}

/* Zero point of an input pair, when it is given, like its scale. */
static int check_zero(const struct mo_op_ctx *ctx, int zero, int scale, unsigned types) {
    if (!mo_given(ctx, zero)) return MOIRE_OK;
    int rc = mo_check_type(ctx, zero, types);
    if (rc || mo_count(&ctx->in[zero]) == mo_count(&ctx->in[scale])) return rc;
    return mo_op_fail(ctx, MOIRE_ESHAPE, "zero point and scale differ in size");
}

static double zero_of(const struct mo_op_ctx *ctx, int zero, int64_t at) {
    return mo_given(ctx, zero) ? (double)mo_load_int(&ctx->in[zero], at) : 0;
}

/* --- QuantizeLinear(x, scale, zero), DequantizeLinear(x, scale, zero) --- */
static int infer_quantize(const struct mo_op_ctx *ctx) {
    struct grain g;
    int rc = mo_check_type(ctx, 0, MO_FLOATS | MO_TYPE(MOIRE_I32));
    if (rc || (rc = mo_check_type(ctx, 1, MO_FLOATS | MO_TYPE(MOIRE_I32)))) return rc;
    if ((rc = check_zero(ctx, 2, 1, QUANTIZED)) || (rc = grain_of(ctx, 1, &g))) return rc;
    int64_t asked = mo_attr_int(ctx->node, "output_dtype", 0);
    moire_dtype type = mo_given(ctx, 2) ? ctx->in[2].dtype : asked ? (moire_dtype)asked : MOIRE_U8;
    if (!mo_type_in(type, QUANTIZED))
        return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "the output type is not supported");
    return mo_set_out(ctx, 0, type, &ctx->in[0].shape);
}

static int run_quantize(const struct mo_op_ctx *ctx) {
    struct grain g = {0};
    int rc = grain_of(ctx, 1, &g);
    for (int64_t i = 0; !rc && mo_wanted(ctx, 0) && i < mo_count(&ctx->out[0]); i++) {
        int64_t at = scale_at(&g, i);
        float quotient = (float)mo_load(&ctx->in[0], i) / (float)mo_load(&ctx->in[1], at);
        store_rounded(&ctx->out[0], i, (double)nearbyintf(quotient) + zero_of(ctx, 2, at));
    }
    return rc;
}

static int infer_dequantize(const struct mo_op_ctx *ctx) {
    struct grain g;
    int rc = mo_check_type(ctx, 0, WIDE_INTS);
    if (rc || (rc = mo_check_type(ctx, 1, MO_FLOATS))) return rc;
    if ((rc = check_zero(ctx, 2, 1, MO_TYPE(ctx->in[0].dtype))) || (rc = grain_of(ctx, 1, &g))) return rc;
    return mo_set_out(ctx, 0, ctx->in[1].dtype, &ctx->in[0].shape);
}

static int run_dequantize(const struct mo_op_ctx *ctx) {
    struct grain g = {0};
    int rc = grain_of(ctx, 1, &g);
    for (int64_t i = 0; !rc && mo_wanted(ctx, 0) && i < mo_count(&ctx->out[0]); i++) {
        int64_t at = scale_at(&g, i);
        double q = (double)mo_load_int(&ctx->in[0], i) - zero_of(ctx, 2, at);
        mo_store(&ctx->out[0], i, (double)((float)q * (float)mo_load(&ctx->in[1], at)));
    }
    return rc;
}

/* --- DynamicQuantizeLinear(x): y, scale, zero; the range always holds 0 --- */
static int infer_dynamic(const struct mo_op_ctx *ctx) {
    struct mo_shape scalar = {.rank = 0};
    int rc = mo_check_type(ctx, 0, MO_TYPE(MOIRE_F32));
    if (rc || (rc = mo_set_out(ctx, 0, MOIRE_U8, &ctx->in[0].shape))) return rc;
    rc = mo_set_out(ctx, 1, MOIRE_F32, &scalar);
    return rc ? rc : mo_set_out(ctx, 2, MOIRE_U8, &scalar);
}

static int run_dynamic(const struct mo_op_ctx *ctx) {
    const float *x = ctx->in[0].data;
    float low = 0, high = 0;
    for (int64_t i = 0; i < mo_count(&ctx->in[0]); i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    float scale = (high - low) / 255;
    float zero = scale > 0 ? fminf(fmaxf(nearbyintf(-low / scale), 0), 255) : 0;
    for (int64_t i = 0; mo_wanted(ctx, 0) && i < mo_count(&ctx->in[0]); i++)
        store_rounded(&ctx->out[0], i, scale > 0 ? (double)nearbyintf(x[i] / scale) + (double)zero : 0);
    if (mo_wanted(ctx, 1)) mo_store(&ctx->out[1], 0, (double)scale);
    if (mo_wanted(ctx, 2)) mo_store(&ctx->out[2], 0, (double)zero);
    return MOIRE_OK;
}

/* --- products and convolutions --- */
/* An operand: its inputs; scale < 0: integers only. */
struct operand {
    int q, scale, zero;
};
struct product {
    struct operand a, b;
    int y_scale, y_zero, bias; /* < 0: none */
};
static const struct product integer = {{0, -1, 2}, {1, -1, 3}, -1, -1, -1};
static const struct product linear = {{0, 1, 2}, {3, 4, 5}, 6, 7, 8};

static const struct product *product_of(const struct mo_op_ctx *ctx) {
    return strncmp(ctx->node->op_type, "QLinear", 7) ? &integer : &linear;
}

/* Scale and zero point of an operand have one element, or `many`. */
static int check_operand(const struct mo_op_ctx *ctx, const struct operand *o, int64_t many) {
    int inputs[] = {o->scale, o->zero};
    int rc = mo_check_type(ctx, o->q, SMALL_INTS);
    for (int i = 0; !rc && i < 2; i++) {
        if (inputs[i] < 0 || (i && !mo_given(ctx, inputs[i]))) continue;
        rc = mo_check_type(ctx, inputs[i], i ? MO_TYPE(ctx->in[o->q].dtype) : MO_FLOATS);
        int64_t n = mo_count(&ctx->in[inputs[i]]);
        if (!rc && n != 1 && n != many)
            rc = mo_op_fail(ctx, MOIRE_ESHAPE, "input %d must have 1 or %lld elements", inputs[i],
                            (long long)many);
    }
    return rc;
}

/* Output type by the form of the operator. */
static int set_product(const struct mo_op_ctx *ctx, const struct mo_shape *y) {
    const struct product *p = product_of(ctx);
    if (p->y_scale < 0) return mo_set_out(ctx, 0, MOIRE_I32, y);
    int rc = mo_check_type(ctx, p->y_scale, MO_FLOATS);
    if (!rc) rc = mo_check_type(ctx, p->y_zero, SMALL_INTS);
    if (!rc && (mo_count(&ctx->in[p->y_scale]) != 1 || mo_count(&ctx->in[p->y_zero]) != 1))
        rc = mo_op_fail(ctx, MOIRE_ESHAPE, "scale and zero point of the output must be scalars");
    return rc ? rc : mo_set_out(ctx, 0, ctx->in[p->y_zero].dtype, y);
}

static int64_t pick(const struct mo_op_ctx *ctx, int input, int64_t at) {
    return mo_count(&ctx->in[input]) > 1 ? at : 0;
}

/* Element of an operand less its zero point; `at` is the index of that among several. */
static int32_t centred(const struct mo_op_ctx *ctx, const struct operand *o, int64_t i, int64_t at) {
    int32_t q = (int32_t)mo_load_int(&ctx->in[o->q], i);
    return mo_given(ctx, o->zero) ? q - (int32_t)mo_load_int(&ctx->in[o->zero], pick(ctx, o->zero, at)) : q;
}

static void store_sum(const struct mo_op_ctx *ctx, int64_t i, uint32_t sum, int64_t a_at, int64_t b_at) {
    const struct product *p = product_of(ctx);
    int32_t whole;
    memcpy(&whole, &sum, sizeof whole);
    if (p->y_scale < 0) {
        mo_store_int(&ctx->out[0], i, whole);
        return;
    }
    float scale = (float)(mo_load(&ctx->in[p->a.scale], pick(ctx, p->a.scale, a_at)) *
                          mo_load(&ctx->in[p->b.scale], pick(ctx, p->b.scale, b_at)) /
                          mo_load(&ctx->in[p->y_scale], 0));
    store_rounded(&ctx->out[0], i,
                  (double)nearbyintf((float)whole * scale) + (double)mo_load_int(&ctx->in[p->y_zero], 0));
}

/* MatMulInteger(A, B, a_zero, b_zero), QLinearMatMul(a, a_scale, a_zero, b, b_scale, b_zero, y_scale,
 * y_zero): matrices with equal batch dimensions, or one B for all. */
struct matrices {
    int64_t batch, m, k, n;
    bool one_b;
    struct mo_shape y;
};

static int matrices_of(const struct mo_op_ctx *ctx, struct matrices *s) {
    const struct product *p = product_of(ctx);
    const struct mo_shape *a = &ctx->in[p->a.q].shape, *b = &ctx->in[p->b.q].shape;
    if (a->rank < 2 || b->rank < 2 || a->d[a->rank - 1] != b->d[b->rank - 2])
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the operands are no matrices whose inner dimensions agree");
    *s = (struct matrices){.batch = mo_extent(a, 0, a->rank - 2),
                           .m = a->d[a->rank - 2],
                           .k = a->d[a->rank - 1],
                           .n = b->d[b->rank - 1],
                           .one_b = mo_extent(b, 0, b->rank - 2) == 1,
                           .y = *a};
    s->y.d[a->rank - 1] = s->n;
    if (!s->one_b && (a->rank != b->rank || memcmp(a->d, b->d, (size_t)(a->rank - 2) * sizeof *a->d)))
        return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "batches of quantized matrices must be equal");
    return MOIRE_OK;
}

static int infer_product(const struct mo_op_ctx *ctx) {
    const struct product *p = product_of(ctx);
    struct matrices s = {0};
    if (!mo_given(ctx, p->a.q) || !mo_given(ctx, p->b.q))
        return mo_op_fail(ctx, MOIRE_EINVAL, "an operand is missing");
    int rc = matrices_of(ctx, &s);
    if (rc || (rc = check_operand(ctx, &p->a, s.m)) || (rc = check_operand(ctx, &p->b, s.n))) return rc;
    return set_product(ctx, &s.y);
}

static int run_product(const struct mo_op_ctx *ctx) {
    const struct product *p = product_of(ctx);
    struct matrices s = {0};
    int rc = matrices_of(ctx, &s);
    if (rc || !mo_wanted(ctx, 0)) return rc;
    for (int64_t row = 0; row < s.batch * s.m; row++)
        for (int64_t j = 0; j < s.n; j++) {
            uint32_t sum = 0;
            int64_t b = s.one_b ? 0 : row / s.m * s.k * s.n;
            for (int64_t i = 0; i < s.k; i++)
                sum += (uint32_t)centred(ctx, &p->a, row * s.k + i, row % s.m) *
                       (uint32_t)centred(ctx, &p->b, b + i * s.n + j, j);
            store_sum(ctx, row * s.n + j, sum, row % s.m, j);
        }
    return MOIRE_OK;
}

/* ConvInteger(x, w, x_zero, w_zero), QLinearConv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero,
 * bias): padding stands for zero. */
static int conv_window(const struct mo_op_ctx *ctx, struct mo_window *w) {
    const struct product *p = product_of(ctx);
    if (!mo_given(ctx, p->a.q) || !mo_given(ctx, p->b.q))
        return mo_op_fail(ctx, MOIRE_EINVAL, "an operand is missing");
    const struct mo_shape *x = &ctx->in[p->a.q].shape, *wt = &ctx->in[p->b.q].shape;
    int64_t group = mo_attr_int(ctx->node, "group", 1);
    int rc = mo_check_rank(ctx, p->a.q, 3, 5);
    if (rc) return rc;
    if (wt->rank != x->rank || group < 1 || x->d[1] % group || x->d[1] / group != wt->d[1] ||
        wt->d[0] % group)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "weights and groups do not fit the input");
    return mo_window_init(ctx, x, wt->d + 2, w);
}

static int infer_conv(const struct mo_op_ctx *ctx) {
    const struct product *p = product_of(ctx);
    struct mo_window w;
    int rc = conv_window(ctx, &w);
    if (rc) return rc;
    int64_t channels = ctx->in[p->b.q].shape.d[0];
    if ((rc = check_operand(ctx, &p->a, 1)) || (rc = check_operand(ctx, &p->b, channels))) return rc;
    if (p->bias >= 0 && mo_given(ctx, p->bias) &&
        ((rc = mo_check_type(ctx, p->bias, MO_TYPE(MOIRE_I32))) || mo_count(&ctx->in[p->bias]) != channels))
        return rc ? rc : mo_op_fail(ctx, MOIRE_ESHAPE, "the bias must have a value a channel");
    struct mo_shape y = mo_window_shape(&w, ctx->in[p->a.q].shape.d[0], channels);
    return set_product(ctx, &y);
}

/* The sum of one output: at[] is its place, x0 and w0 where its input channels and its filter begin. */
static uint32_t conv_sum(const struct mo_op_ctx *ctx, const struct mo_window *w, const int64_t *at,
                         int64_t x0, int64_t w0, int64_t channels, int64_t oc) {
    const struct product *p = product_of(ctx);
    int64_t plane = w->in[0] * w->in[1] * w->in[2], taps = w->k[0] * w->k[1] * w->k[2];
    uint32_t sum = 0;
    for (int64_t tap = 0; tap < taps; tap++) {
        int64_t k[3] = {tap / w->k[2] / w->k[1], tap / w->k[2] % w->k[1], tap % w->k[2]}, place = 0;
        bool inside = true;
        for (int i = 0; i < 3; i++) {
            int64_t in = at[i] * w->stride[i] + k[i] * w->dilation[i] - w->pad[i];
            inside = inside && in >= 0 && in < w->in[i];
            place = place * w->in[i] + in;
        }
        for (int64_t c = 0; inside && c < channels; c++)
            sum += (uint32_t)centred(ctx, &p->a, x0 + c * plane + place, 0) *
                   (uint32_t)centred(ctx, &p->b, w0 + c * taps + tap, oc);
    }
    return sum;
}

static int run_conv(const struct mo_op_ctx *ctx) {
    const struct product *p = product_of(ctx);
    struct mo_window w = {0};
    int rc = conv_window(ctx, &w);
    if (rc || !mo_wanted(ctx, 0)) return rc;
    const struct mo_shape *x = &ctx->in[p->a.q].shape, *wt = &ctx->in[p->b.q].shape;
    int64_t in_plane = mo_extent(x, 2, x->rank), plane = w.out[0] * w.out[1] * w.out[2];
    int64_t per_group = wt->d[0] / mo_attr_int(ctx->node, "group", 1), taps = mo_extent(wt, 2, wt->rank);
    for (int64_t i = 0; i < x->d[0] * wt->d[0] * plane; i++) {
        int64_t oc = i / plane % wt->d[0], n = i / plane / wt->d[0], in = i % plane;
        int64_t at[3] = {in / w.out[2] / w.out[1], in / w.out[2] % w.out[1], in % w.out[2]};
        int64_t first = n * x->d[1] + oc / per_group * wt->d[1];
        uint32_t sum = conv_sum(ctx, &w, at, first * in_plane, oc * wt->d[1] * taps, wt->d[1], oc);
        if (p->bias >= 0 && mo_given(ctx, p->bias)) sum += (uint32_t)mo_load_int(&ctx->in[p->bias], oc);
        store_sum(ctx, i, sum, 0, oc);
    }
    return MOIRE_OK;
}

const struct mo_op mo_ops_quantize[] = {
    {"QuantizeLinear", "", 10, 2, 3, 1, 1, infer_quantize, run_quantize, 0},
    {"DequantizeLinear", "", 10, 2, 3, 1, 1, infer_dequantize, run_dequantize, 0},
    {"DynamicQuantizeLinear", "", 11, 1, 1, 3, 3, infer_dynamic, run_dynamic, 0},
    {"MatMulInteger", "", 10, 2, 4, 1, 1, infer_product, run_product, 0},
    {"QLinearMatMul", "", 10, 8, 8, 1, 1, infer_product, run_product, 0},
    {"ConvInteger", "", 10, 2, 4, 1, 1, infer_conv, run_conv, 0},
    {"QLinearConv", "", 10, 8, 9, 1, 1, infer_conv, run_conv, 0},
    {0},
};
