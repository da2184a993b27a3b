/* SPDX-License-Identifier: Apache-2.0
 * roi_align.c - RoiAlign: x [N][C][H][W], rois [R][4], batch_indices [R]; regions are independent parts. */
#include <math.h>
#include <string.h>
#include "runtime/ops/op_parts.h"
#include "runtime/ops/util.h"

static int infer_roi(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_FLOATS);
    if (rc || (rc = mo_check_rank(ctx, 0, 4, 4)) || (rc = mo_check_rank(ctx, 1, 2, 2))) return rc;
    if ((rc = mo_check_type(ctx, 2, MO_TYPE(MOIRE_I64)))) return rc;
    int64_t rois = ctx->in[1].shape.d[0], h = mo_attr_int(ctx->node, "output_height", 1);
    int64_t w = mo_attr_int(ctx->node, "output_width", 1);
    if (ctx->in[1].shape.d[1] != 4 || mo_count(&ctx->in[2]) != rois || h < 1 || w < 1)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "rois, batch_indices or the output size do not fit");
    struct mo_shape y = {.rank = 4, .d = {rois, ctx->in[0].shape.d[1], h, w}};
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

struct bilinear {
    int64_t at[4];
    double weight[4]; /* all 0 outside */
};

static struct bilinear bilinear_at(double y, double x, int64_t h, int64_t w) {
    struct bilinear b = {{0}, {0}};
    if (!(y >= -1 && y <= (double)h && x >= -1 && x <= (double)w)) return b;
    y = fmax(y, 0);
    x = fmax(x, 0);
    int64_t y0 = (int64_t)y, x0 = (int64_t)x;
    if (y0 >= h - 1) y = (double)(y0 = h - 1);
    if (x0 >= w - 1) x = (double)(x0 = w - 1);
    int64_t y1 = y0 < h - 1 ? y0 + 1 : y0, x1 = x0 < w - 1 ? x0 + 1 : x0;
    double fy = y - (double)y0, fx = x - (double)x0;
    return (struct bilinear){{y0 * w + x0, y0 * w + x1, y1 * w + x0, y1 * w + x1},
                             {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx}};
}

enum { MAX_SAMPLES = 1 << 20, MAX_KEPT = 1 << 16 };

struct roi {
    double y, x, bin_h, bin_w; /* start and bin size */
    int64_t grid_h, grid_w;    /* samples of a bin */
};

static struct roi roi_at(const struct mo_op_ctx *ctx, int64_t r) {
    double scale = (double)mo_attr_float(ctx->node, "spatial_scale", 1), box[4];
    int64_t samples = mo_saturate((double)mo_attr_int(ctx->node, "sampling_ratio", 0), 0, 1 << 16);
    bool half = !strcmp(mo_attr_string(ctx->node, "coordinate_transformation_mode",
                                       ctx->node->opset < 16 ? "output_half_pixel" : "half_pixel"),
                        "half_pixel");
    for (int i = 0; i < 4; i++)
        box[i] = mo_load(&ctx->in[1], r * 4 + i) * scale - (half ? 0.5 : 0);
    double w = box[2] - box[0], h = box[3] - box[1];
    if (!half) w = fmax(w, 1), h = fmax(h, 1);
    double out_h = (double)ctx->out[0].shape.d[2], out_w = (double)ctx->out[0].shape.d[3];
    struct roi roi = {.y = box[1], .x = box[0], .bin_h = h / out_h, .bin_w = w / out_w};
    roi.grid_h = samples > 0 ? samples : mo_saturate(ceil(h / out_h), 1, 1 << 16);
    roi.grid_w = samples > 0 ? samples : mo_saturate(ceil(w / out_w), 1, 1 << 16);
    return roi;
}

/* Where one sample of a bin is read. */
static struct bilinear roi_sample(const struct mo_op_ctx *ctx, const struct roi *roi, int64_t bin,
                                  int64_t k) {
    const int64_t *x = ctx->in[0].shape.d, out_w = ctx->out[0].shape.d[3];
    const int64_t oy = bin / out_w, ox = bin % out_w, iy = k / roi->grid_w, ix = k % roi->grid_w;
    const double py = roi->y + ((double)oy + ((double)iy + 0.5) / (double)roi->grid_h) * roi->bin_h;
    const double px = roi->x + ((double)ox + ((double)ix + 0.5) / (double)roi->grid_w) * roi->bin_w;
    return bilinear_at(py, px, x[2], x[3]);
}

/* The samples of all bins, which are those of every channel; NULL: too many to keep, or no memory. */
static struct bilinear *roi_samples(const struct mo_op_ctx *ctx, const struct roi *roi) {
    const int64_t bins = ctx->out[0].shape.d[2] * ctx->out[0].shape.d[3], each = roi->grid_h * roi->grid_w;
    if (bins > MAX_KEPT / each) return NULL;
    struct bilinear *all = mo_alloc(ctx->env, (size_t)(bins * each) * sizeof *all);
    for (int64_t i = 0; all && i < bins * each; i++)
        all[i] = roi_sample(ctx, roi, i / each, i % each);
    return all;
}

static double mean_of(const float *x, const struct bilinear *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += b[i].weight[0] * (double)x[b[i].at[0]] + b[i].weight[1] * (double)x[b[i].at[1]] +
               b[i].weight[2] * (double)x[b[i].at[2]] + b[i].weight[3] * (double)x[b[i].at[3]];
    return sum / (double)n;
}

/* `kept`: its samples, or NULL. */
static double roi_bin(const struct mo_op_ctx *ctx, const struct roi *roi, int64_t plane, int64_t bin,
                      const struct bilinear *kept, bool max) {
    const struct mo_value *x = &ctx->in[0];
    const int64_t at = plane * x->shape.d[2] * x->shape.d[3], n = roi->grid_h * roi->grid_w;
    double sum = 0, top = -INFINITY;
    if (kept && !max && x->dtype == MOIRE_F32) return mean_of((const float *)x->data + at, kept, n);
    for (int64_t i = 0; i < n; i++) {
        const struct bilinear b = kept ? kept[i] : roi_sample(ctx, roi, bin, i);
        for (int k = 0; k < 4; k++) {
            double v = b.weight[k] * mo_load(x, at + b.at[k]);
            sum += v;
            top = fmax(top, v);
        }
    }
    return max ? top : sum / (double)n;
}

/* A region each. */
static int64_t roi_parts(const struct mo_op_ctx *ctx) {
    const int64_t *y = ctx->out[0].shape.d;
    if (!mo_wanted(ctx, 0) || !mo_count(&ctx->in[0])) return 0;
    for (int64_t r = 0; r < y[0]; r++) {
        const int64_t image = mo_load_int(&ctx->in[2], r);
        if (image < 0 || image >= ctx->in[0].shape.d[0])
            return mo_op_fail(ctx, MOIRE_EINVAL, "batch index %lld is out of range", (long long)image);
        const struct roi roi = roi_at(ctx, r);
        if (roi.grid_h * roi.grid_w > MAX_SAMPLES)
            return mo_op_fail(ctx, MOIRE_ELIMIT, "region %lld needs more than %d samples a bin", (long long)r,
                              MAX_SAMPLES);
    }
    return y[0];
}

static void run_part(const struct mo_op_ctx *ctx, int64_t from, int64_t to) {
    const int64_t *y = ctx->out[0].shape.d, bins = y[2] * y[3];
    const bool max = !strcmp(mo_attr_string(ctx->node, "mode", "avg"), "max");
    for (int64_t r = from; r < to; r++) {
        const int64_t image = mo_load_int(&ctx->in[2], r);
        const struct roi roi = roi_at(ctx, r);
        const int64_t each = roi.grid_h * roi.grid_w;
        struct bilinear *kept = roi_samples(ctx, &roi);
        for (int64_t c = 0; c < y[1]; c++)
            for (int64_t i = 0; i < bins; i++)
                mo_store(&ctx->out[0], (r * y[1] + c) * bins + i,
                         roi_bin(ctx, &roi, image * y[1] + c, i, kept ? kept + i * each : NULL, max));
        mo_free(ctx->env, kept);
    }
}

const struct mo_op_parts mo_roi_align_parts = {"RoiAlign", roi_parts, run_part};

static int run_roi(const struct mo_op_ctx *ctx) {
    return mo_op_run_parts(ctx, &mo_roi_align_parts);
}

const struct mo_op mo_ops_roi_align[] = {
    {"RoiAlign", "", 10, 3, 3, 1, 1, infer_roi, run_roi, MO_OP_PARTS},
    {0},
};
