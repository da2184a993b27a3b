/* SPDX-License-Identifier: Apache-2.0
 * roi_align.c - RoiAlign: x [N][C][H][W], rois [R][4], batch_indices [R]; regions are independent parts. */
#include <math.h>
#include <string.h>
#include "runtime/ops/image/roi_align.h"
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

/* Where a sample reads along one dimension; nothing outside. */
struct linear {
    int64_t at[2];
    double weight[2];
};

static struct linear linear_at(double x, int64_t n) {
    struct linear l = {{0}, {0}};
    if (!(x >= -1 && x <= (double)n)) return l;
    x = fmax(x, 0);
    int64_t first = (int64_t)x;
    if (first >= n - 1) x = (double)(first = n - 1);
    const double part = x - (double)first;
    return (struct linear){{first, first < n - 1 ? first + 1 : first}, {1 - part, part}};
}

/* MAX_GRID: beyond, finding the places that are read twice takes longer than reading them. */
enum { MAX_SAMPLES = 1 << 20, MAX_KEPT = 1 << 16, MAX_GRID = 64, PLANES = 4 };

struct mo_roi mo_roi_at(const struct mo_op_ctx *ctx, int64_t r) {
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
    struct mo_roi roi = {.y = box[1], .x = box[0], .bin_h = h / out_h, .bin_w = w / out_w};
    roi.grid_h = samples > 0 ? samples : mo_saturate(ceil(h / out_h), 1, 1 << 16);
    roi.grid_w = samples > 0 ? samples : mo_saturate(ceil(w / out_w), 1, 1 << 16);
    return roi;
}

/* Sample i of all along a dimension. */
static struct linear roi_row(const struct mo_op_ctx *ctx, const struct mo_roi *roi, int64_t i) {
    return linear_at(roi->y + ((double)i + 0.5) / (double)roi->grid_h * roi->bin_h, ctx->in[0].shape.d[2]);
}

static struct linear roi_column(const struct mo_op_ctx *ctx, const struct mo_roi *roi, int64_t i) {
    return linear_at(roi->x + ((double)i + 0.5) / (double)roi->grid_w * roi->bin_w, ctx->in[0].shape.d[3]);
}

/* --- any mode and type, sample by sample --- */
static double roi_bin(const struct mo_op_ctx *ctx, const struct mo_roi *roi, int64_t plane, int64_t bin,
                      bool max) {
    const struct mo_value *x = &ctx->in[0];
    const int64_t w = x->shape.d[3], at = plane * x->shape.d[2] * w, n = roi->grid_h * roi->grid_w;
    const int64_t oy = bin / ctx->out[0].shape.d[3], ox = bin % ctx->out[0].shape.d[3];
    double sum = 0, top = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const struct linear row = roi_row(ctx, roi, oy * roi->grid_h + i / roi->grid_w);
        const struct linear column = roi_column(ctx, roi, ox * roi->grid_w + i % roi->grid_w);
        for (int k = 0; k < 4; k++) {
            const double weight = row.weight[k / 2] * column.weight[k % 2];
            const double v = weight * mo_load(x, at + row.at[k / 2] * w + column.at[k % 2]);
            sum += v;
            top = fmax(top, v);
        }
    }
    return max ? top : sum / (double)n;
}

/* --- means of floats: what a bin reads along a dimension is the same for all channels --- */
static void add_tap(struct mo_roi_taps *t, int64_t begin, int64_t *n, int64_t at, double weight) {
    if (weight == 0) return;
    for (int64_t i = *n - 1; i >= begin; i--)
        if (t->tap[i].at == at) {
            t->tap[i].weight += weight;
            return;
        }
    t->tap[(*n)++] = (struct mo_roi_tap){at, weight};
}

/* Of `bins` bins with `grid` samples each; false: they are too many to keep, or there is no memory. */
static bool make_taps(const struct mo_op_ctx *ctx, const struct mo_roi *roi, bool columns,
                      struct mo_roi_taps *t) {
    const int64_t bins = ctx->out[0].shape.d[columns ? 3 : 2], grid = columns ? roi->grid_w : roi->grid_h;
    if (bins > MAX_KEPT / grid || grid > MAX_GRID) return false;
    t->tap = mo_alloc(ctx->env, (size_t)(2 * bins * grid) * sizeof *t->tap);
    t->end = mo_alloc(ctx->env, (size_t)bins * sizeof *t->end);
    if (!t->tap || !t->end) return false;
    int64_t n = 0;
    for (int64_t i = 0; i < bins; i++) {
        const int64_t begin = n;
        for (int64_t k = i * grid; k < (i + 1) * grid; k++) {
            const struct linear l = columns ? roi_column(ctx, roi, k) : roi_row(ctx, roi, k);
            for (int j = 0; j < 2; j++)
                add_tap(t, begin, &n, l.at[j], l.weight[j] / (double)grid);
        }
        t->end[i] = n;
    }
    return true;
}

bool mo_roi_make_taps(const struct mo_op_ctx *ctx, const struct mo_roi *roi, struct mo_roi_taps *rows,
                      struct mo_roi_taps *columns) {
    *rows = *columns = (struct mo_roi_taps){0};
    return make_taps(ctx, roi, false, rows) && make_taps(ctx, roi, true, columns);
}

void mo_roi_free_taps(const struct mo_op_ctx *ctx, struct mo_roi_taps *taps) {
    mo_free(ctx->env, taps->tap);
    mo_free(ctx->env, taps->end);
    *taps = (struct mo_roi_taps){0};
}

/* `n` planes, of which a bin reads the same places: sums beside one another wait for none of their additions.
 * `n` is a constant of each call. */
static inline void mean_planes(const struct mo_roi_taps *rows, const struct mo_roi_taps *columns,
                               const int64_t *in, const int64_t *out, const float *x, float *y, const int n) {
    const int64_t plane = in[2] * in[3];
    for (int64_t i = 0; i < out[2] * out[3]; i++) {
        const int64_t oy = i / out[3], ox = i % out[3], from = ox ? columns->end[ox - 1] : 0;
        double sum[PLANES] = {0};
        for (int64_t r = oy ? rows->end[oy - 1] : 0; r < rows->end[oy]; r++) {
            const float *line = x + rows->tap[r].at * in[3];
            double part[PLANES] = {0};
            for (int64_t c = from; c < columns->end[ox]; c++)
#pragma GCC unroll 4
                for (int k = 0; k < n; k++)
                    part[k] += columns->tap[c].weight * (double)line[columns->tap[c].at + k * plane];
#pragma GCC unroll 4
            for (int k = 0; k < n; k++)
                sum[k] += rows->tap[r].weight * part[k];
        }
        for (int k = 0; k < n; k++)
            y[k * out[2] * out[3] + i] = (float)sum[k];
    }
}

/* Region r by such taps; false: by samples. */
static bool mean_region(const struct mo_op_ctx *ctx, const struct mo_roi *roi, int64_t r, int64_t image) {
    const int64_t *x = ctx->in[0].shape.d, *y = ctx->out[0].shape.d;
    struct mo_roi_taps rows, columns;
    const bool made = mo_roi_make_taps(ctx, roi, &rows, &columns);
    const float *from = (const float *)ctx->in[0].data + image * y[1] * x[2] * x[3];
    float *to = (float *)ctx->out[0].data + r * y[1] * y[2] * y[3];
    for (int64_t c = 0, n = 0; made && c < y[1]; c += n) {
        n = y[1] - c < PLANES ? 1 : PLANES;
        if (n == PLANES)
            mean_planes(&rows, &columns, x, y, from + c * x[2] * x[3], to + c * y[2] * y[3], PLANES);
        else
            mean_planes(&rows, &columns, x, y, from + c * x[2] * x[3], to + c * y[2] * y[3], 1);
    }
    mo_roi_free_taps(ctx, &rows);
    mo_roi_free_taps(ctx, &columns);
    return made;
}

bool mo_roi_is_max(const struct mo_op_ctx *ctx) {
    return !strcmp(mo_attr_string(ctx->node, "mode", "avg"), "max");
}

/* A region each. */
static int64_t roi_parts(const struct mo_op_ctx *ctx) {
    const int64_t *y = ctx->out[0].shape.d;
    if (!mo_wanted(ctx, 0) || !mo_count(&ctx->in[0])) return 0;
    for (int64_t r = 0; r < y[0]; r++) {
        const int64_t image = mo_load_int(&ctx->in[2], r);
        if (image < 0 || image >= ctx->in[0].shape.d[0])
            return mo_op_fail(ctx, MOIRE_EINVAL, "batch index %lld is out of range", (long long)image);
        const struct mo_roi roi = mo_roi_at(ctx, r);
        if (roi.grid_h * roi.grid_w > MAX_SAMPLES)
            return mo_op_fail(ctx, MOIRE_ELIMIT, "region %lld needs more than %d samples a bin", (long long)r,
                              MAX_SAMPLES);
    }
    return y[0];
}

static void run_part(const struct mo_op_ctx *ctx, int64_t from, int64_t to) {
    const int64_t *y = ctx->out[0].shape.d, bins = y[2] * y[3];
    const bool max = mo_roi_is_max(ctx);
    for (int64_t r = from; r < to; r++) {
        const int64_t image = mo_load_int(&ctx->in[2], r);
        const struct mo_roi roi = mo_roi_at(ctx, r);
        if (!max && ctx->in[0].dtype == MOIRE_F32 && mean_region(ctx, &roi, r, image)) continue;
        for (int64_t c = 0; c < y[1]; c++)
            for (int64_t i = 0; i < bins; i++)
                mo_store(&ctx->out[0], (r * y[1] + c) * bins + i,
                         roi_bin(ctx, &roi, image * y[1] + c, i, max));
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
