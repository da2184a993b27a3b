/* SPDX-License-Identifier: Apache-2.0
 * resize.c - Resize (10 to 19) and Upsample (7, 9): nearest, linear, cubic over any dimensions.
 *
 * Interpolation is separable, so each axis is described by a short list of (source, weight) taps for every
 * output coordinate; an output element is the product form over the axes that change. */
#include "runtime/ops/image/resize.h"

#include <math.h>
#include <string.h>

enum { MAX_TAPS = 256 }; /* of one axis; antialias widens the filter by 1/scale */

struct resize {
    struct mo_shape y;
    double scale[MOIRE_MAX_RANK];
    double roi_start[MOIRE_MAX_RANK], roi_end[MOIRE_MAX_RANK];
    char mode; /* n, l, c */
    const char *transform, *nearest;
    double cubic, extrapolation;
    bool exclude_outside, antialias;
};

/* Inputs by version: Upsample (x, scales); Resize-10 (x, scales); Resize-11+ (x, roi, scales, sizes). */
static void input_slots(const struct mo_op_ctx *ctx, int *roi, int *scales, int *sizes) {
    bool old = !strcmp(ctx->node->op_type, "Upsample") || ctx->node->opset < 11;
    *roi = old ? -1 : 1;
    *scales = old ? 1 : 2;
    *sizes = old ? -1 : 3;
}

/* Of a tensor that is there, also an empty one. */
static bool is_there(const struct mo_op_ctx *ctx, int i) {
    return i > 0 && mo_given(ctx, i);
}

static bool has_elements(const struct mo_op_ctx *ctx, int i) {
    return i > 0 && mo_given(ctx, i) && mo_count(&ctx->in[i]) > 0;
}

static int scaled_size(const struct mo_op_ctx *ctx, struct resize *r, int axis, double scale) {
    double size = floor((double)ctx->in[0].shape.d[axis] * scale);
    /* an infinite scale of an empty axis is no number */
    if (!(scale > 0) || !(size <= 1e9))
        return mo_op_fail(ctx, MOIRE_EINVAL, "scale %g is out of range", scale);
    r->scale[axis] = scale;
    r->y.d[axis] = (int64_t)size;
    return MOIRE_OK;
}

static int read_scales(const struct mo_op_ctx *ctx, struct resize *r, int slot, const int *axes, int n_axes) {
    const struct mo_attr *attr = mo_attr_find(ctx->node, "scales");
    const float *listed = attr && attr->type == MO_ATTR_FLOATS ? attr->floats : NULL;
    bool given = has_elements(ctx, slot);
    if (given && !ctx->in[slot].data) return MO_NEED_DATA;
    if (!n_axes && is_there(ctx, slot) && !given) return MOIRE_OK;
    if (!given && !listed) return mo_op_fail(ctx, MOIRE_EINVAL, "neither scales nor sizes are given");
    int64_t n = given ? mo_count(&ctx->in[slot]) : attr->n;
    if (n != n_axes) return mo_op_fail(ctx, MOIRE_EINVAL, "%lld scales for %d axes", (long long)n, n_axes);
    int rc = MOIRE_OK;
    for (int i = 0; i < n_axes && !rc; i++)
        rc = scaled_size(ctx, r, axes[i], given ? mo_load(&ctx->in[slot], i) : (double)listed[i]);
    return rc;
}

/* keep_aspect_ratio_policy: one scale for all axes, the smallest or largest that the sizes imply. */
static int keep_aspect(const struct mo_op_ctx *ctx, struct resize *r, const int *axes, int n,
                       const char *policy) {
    const struct mo_shape *x = &ctx->in[0].shape;
    bool larger = !strcmp(policy, "not_smaller");
    double scale = larger ? 0 : INFINITY;
    for (int i = 0; i < n; i++) {
        double s = (double)r->y.d[axes[i]] / (double)x->d[axes[i]];
        scale = larger ? fmax(scale, s) : fmin(scale, s);
    }
    for (int i = 0; i < n; i++) {
        const double size = floor(scale * (double)x->d[axes[i]] + 0.5);
        if (!(size <= 1e9))
            return mo_op_fail(ctx, MOIRE_EINVAL, "sizes that keep the aspect ratio scale by %g, out of range",
                              scale);
        r->scale[axes[i]] = scale;
        r->y.d[axes[i]] = (int64_t)size;
    }
    return MOIRE_OK;
}

static int read_sizes(const struct mo_op_ctx *ctx, struct resize *r, int slot, const int *axes, int n_axes) {
    const struct mo_shape *x = &ctx->in[0].shape;
    int64_t sizes[MOIRE_MAX_RANK];
    bool need = false;
    int n = mo_read_ints(ctx, slot, sizes, MOIRE_MAX_RANK, &need);
    if (n < 0 || need) return need ? MO_NEED_DATA : n;
    if (n != n_axes) return mo_op_fail(ctx, MOIRE_EINVAL, "%d sizes for %d axes", n, n_axes);
    for (int i = 0; i < n; i++) {
        if (sizes[i] < 0 || sizes[i] > 1000000000)
            return mo_op_fail(ctx, MOIRE_EINVAL, "size %lld is out of range", (long long)sizes[i]);
        r->y.d[axes[i]] = sizes[i];
        r->scale[axes[i]] = (double)sizes[i] / (double)x->d[axes[i]];
    }
    const char *policy = mo_attr_string(ctx->node, "keep_aspect_ratio_policy", "stretch");
    return strcmp(policy, "stretch") ? keep_aspect(ctx, r, axes, n, policy) : MOIRE_OK;
}

/* How many axes scales, sizes and roi are of.  An empty list is a list where what it is of is empty as well;
 * else it means all axes, as for ONNX Runtime. */
static int read_axes(const struct mo_op_ctx *ctx, int scales, int sizes, int *axes) {
    int64_t listed[MOIRE_MAX_RANK];
    int rank = ctx->in[0].shape.rank, n = mo_attr_sizes(ctx, "axes", listed, MOIRE_MAX_RANK);
    unsigned seen = 0;
    for (int i = 0; i < n; i++) {
        if ((axes[i] = mo_axis(ctx, listed[i], rank)) < 0) return MOIRE_EINVAL;
        if (seen >> axes[i] & 1)
            return mo_op_fail(ctx, MOIRE_EINVAL, "attribute axes names axis %d twice", axes[i]);
        seen |= 1u << axes[i];
    }
    bool none = mo_attr_find(ctx->node, "axes") && is_there(ctx, scales) != is_there(ctx, sizes) &&
                !has_elements(ctx, scales) && !has_elements(ctx, sizes);
    if (n || none) return n;
    for (int i = 0; i < rank; i++)
        axes[i] = i;
    return rank;
}

static int read_roi(const struct mo_op_ctx *ctx, struct resize *r, int slot, const int *axes, int n_axes) {
    for (int i = 0; i < MOIRE_MAX_RANK; i++)
        r->roi_start[i] = 0, r->roi_end[i] = 1;
    if (strcmp(r->transform, "tf_crop_and_resize")) return MOIRE_OK;
    if (slot < 0 || !mo_given(ctx, slot) || mo_count(&ctx->in[slot]) != 2 * n_axes)
        return mo_op_fail(ctx, MOIRE_EINVAL, "tf_crop_and_resize needs a roi of %d numbers", 2 * n_axes);
    if (!ctx->in[slot].data) return MO_NEED_DATA;
    for (int i = 0; i < n_axes; i++) {
        r->roi_start[axes[i]] = mo_load(&ctx->in[slot], i);
        r->roi_end[axes[i]] = mo_load(&ctx->in[slot], i + n_axes);
    }
    return MOIRE_OK;
}

static int check_words(const struct mo_op_ctx *ctx, const struct resize *r) {
    static const char *const transforms[] = {
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
        "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil",
                                            "simple"};
    bool found = false, rounds = false;
    for (size_t i = 0; i < sizeof transforms / sizeof *transforms; i++)
        found = found || !strcmp(transforms[i], r->transform);
    for (size_t i = 0; i < sizeof roundings / sizeof *roundings; i++)
        rounds = rounds || !strcmp(roundings[i], r->nearest);
    if (found && rounds && strchr("nlc", r->mode)) return MOIRE_OK;
    return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "an unknown mode, nearest_mode or coordinate transformation");
}

static int resolve(const struct mo_op_ctx *ctx, struct resize *r) {
    int roi, scales, sizes, axes[MOIRE_MAX_RANK];
    bool old = !strcmp(ctx->node->op_type, "Upsample") || ctx->node->opset < 11;
    input_slots(ctx, &roi, &scales, &sizes);
    r->mode = *mo_attr_string(ctx->node, "mode", "nearest");
    if (r->mode == 'b') r->mode = 'l'; /* Upsample-1 says bilinear */
    r->transform =
        old ? "asymmetric" : mo_attr_string(ctx->node, "coordinate_transformation_mode", "half_pixel");
    r->nearest = old ? "simple" : mo_attr_string(ctx->node, "nearest_mode", "round_prefer_floor");
    r->cubic = (double)mo_attr_float(ctx->node, "cubic_coeff_a", -0.75f);
    r->extrapolation = (double)mo_attr_float(ctx->node, "extrapolation_value", 0);
    r->exclude_outside = mo_attr_int(ctx->node, "exclude_outside", 0) != 0;
    r->antialias = mo_attr_int(ctx->node, "antialias", 0) != 0 && r->mode != 'n';
    r->y = ctx->in[0].shape;
    for (int i = 0; i < MOIRE_MAX_RANK; i++)
        r->scale[i] = 1;
    int n = read_axes(ctx, scales, sizes, axes), rc = check_words(ctx, r);
    if (n < 0 || rc) return rc ? rc : n;
    if (has_elements(ctx, scales) && is_there(ctx, sizes))
        return mo_op_fail(ctx, MOIRE_EINVAL, "scales and sizes are given, one of them is wanted");
    rc = is_there(ctx, sizes) && (has_elements(ctx, sizes) || !n) ? read_sizes(ctx, r, sizes, axes, n)
                                                                  : read_scales(ctx, r, scales, axes, n);
    return rc ? rc : read_roi(ctx, r, roi, axes, n);
}

static int infer_resize(const struct mo_op_ctx *ctx) {
    struct resize r = {0};
    int rc = mo_check_type(ctx, 0, MO_NUMBERS);
    if (rc) return rc;
    ctx->out[0].dtype = ctx->in[0].dtype;
    if ((rc = resolve(ctx, &r))) return rc;
    int64_t n = mo_shape_count(&r.y);
    if (n && !mo_count(&ctx->in[0]))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the input is empty, the output is not");
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &r.y);
}

/* --- one axis --- */
static double source_coordinate(const struct resize *r, int axis, double out, double n_in, double n_out) {
    double scale = r->scale[axis];
    if (!strcmp(r->transform, "asymmetric")) return out / scale;
    if (!strcmp(r->transform,
                "align_corners")) /* the resized length before it is rounded, as the tests have it */
        return n_out == 1 || scale * n_in <= 1 ? 0 : out * (n_in - 1) / (scale * n_in - 1);
    if (!strcmp(r->transform, "pytorch_half_pixel")) return n_out > 1 ? (out + 0.5) / scale - 0.5 : 0;
    if (!strcmp(r->transform, "tf_half_pixel_for_nn")) return (out + 0.5) / scale;
    if (!strcmp(r->transform, "half_pixel_symmetric")) {
        double adjustment = n_out / (scale * n_in), center = n_in / 2;
        return center * (1 - adjustment) + (out + 0.5) / scale - 0.5;
    }
    if (!strcmp(r->transform, "tf_crop_and_resize")) {
        double start = r->roi_start[axis], end = r->roi_end[axis];
        if (n_out == 1) return 0.5 * (start + end) * (n_in - 1);
        return start * (n_in - 1) + out * (end - start) * (n_in - 1) / (n_out - 1);
    }
    return (out + 0.5) / scale - 0.5;
}

static double nearest_of(const struct resize *r, double x, double scale) {
    if (!strcmp(r->nearest, "simple")) return scale < 1 ? ceil(x) : floor(x); /* before opset 11 */
    if (!strcmp(r->nearest, "floor")) return floor(x);
    if (!strcmp(r->nearest, "ceil")) return ceil(x);
    if (!strcmp(r->nearest, "round_prefer_ceil")) return floor(x + 0.5);
    return ceil(x - 0.5);
}

static double filter(const struct resize *r, double distance) {
    double x = fabs(distance), a = r->cubic;
    if (r->mode == 'l') return x < 1 ? 1 - x : 0;
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Taps of one output coordinate; weights sum to 1. */
static void fill_taps(const struct resize *r, struct mo_resize_taps *t, int axis, int64_t o, int64_t n_in) {
    double x = source_coordinate(r, axis, (double)o, (double)n_in, (double)r->y.d[axis]);
    int half = t->n / 2;
    double stretch = r->antialias && r->scale[axis] < 1 ? r->scale[axis] : 1;
    double first = r->mode == 'n' ? nearest_of(r, x, r->scale[axis]) : floor(x) - half + 1, sum = 0;
    int32_t *source = t->source + o * t->n;
    float *weight = t->weight + o * t->n;
    t->outside[o] = !strcmp(r->transform, "tf_crop_and_resize") && (x < 0 || x > (double)(n_in - 1));
    for (int k = 0; k < t->n; k++) {
        double at = first + k, w = r->mode == 'n' ? 1 : filter(r, (at - x) * stretch);
        bool in = at >= 0 && at <= (double)(n_in - 1);
        if (!in && r->exclude_outside) w = 0;
        source[k] = (int32_t)mo_saturate(at, 0, n_in - 1);
        weight[k] = (float)w;
        sum += w;
    }
    for (int k = 0; k < t->n; k++)
        weight[k] = sum != 0 ? (float)((double)weight[k] / sum) : weight[k];
}

static int make_taps(const struct mo_op_ctx *ctx, const struct resize *r, int axis,
                     struct mo_resize_taps *t) {
    int64_t n_in = ctx->in[0].shape.d[axis], n_out = r->y.d[axis];
    double wide = r->mode == 'n' ? 1 : r->mode == 'l' ? 2 : 4;
    if (r->antialias && r->scale[axis] < 1) wide = 2 * ceil(wide / 2 / r->scale[axis]);
    if (wide > MAX_TAPS || n_in > INT32_MAX) {
        mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "a scale of %g is not supported", r->scale[axis]);
        return MOIRE_EUNSUPPORTED;
    }
    bool unchanged = n_in == n_out && r->scale[axis] == 1 && strcmp(r->transform, "tf_crop_and_resize");
    t->n = unchanged ? 1 : (int)wide;
    t->source = mo_scratch(ctx, n_out * t->n, sizeof *t->source);
    t->weight = mo_scratch(ctx, n_out * t->n, sizeof *t->weight);
    t->outside = mo_scratch(ctx, n_out, sizeof *t->outside);
    if (!t->source || !t->weight || !t->outside) return MOIRE_ENOMEM;
    for (int64_t o = 0; o < n_out; o++)
        if (unchanged) {
            t->source[o] = (int32_t)o;
            t->weight[o] = 1;
        } else {
            fill_taps(r, t, axis, o, n_in);
        }
    return MOIRE_OK;
}

/* One line of the input, with what it weighs for a line of the output. */
static void add_line(const double *line, double weight, const struct mo_resize_taps *t, int64_t n,
                     double *sum) {
    for (int64_t o = 0; o < n; o++)
        for (int k = 0; k < t->n; k++) {
            const double w = weight * (double)t->weight[o * t->n + k];
            if (w != 0) sum[o] += w * line[t->source[o * t->n + k]];
        }
}

/* The output line at `index`: a sum over the product of the taps of all axes but the last. */
static void interpolate(const struct mo_value *x, const struct resize *r, const struct mo_resize_taps *taps,
                        const int64_t *index, double *line, double *sum) {
    const int last = r->y.rank - 1;
    const int64_t n = r->y.d[last];
    int at[MOIRE_MAX_RANK] = {0};
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (bool more = true; more;) {
        double weight = 1;
        int64_t from = 0;
        for (int d = 0; d < last; d++) {
            weight *= (double)taps[d].weight[index[d] * taps[d].n + at[d]];
            from = (from + taps[d].source[index[d] * taps[d].n + at[d]]) * x->shape.d[d + 1];
        }
        if (weight != 0) {
            mo_load_span(x, from, 1, x->shape.d[last], line);
            add_line(line, weight, &taps[last], n, sum);
        }
        more = false;
        for (int d = last - 1; d >= 0 && !more; d--) {
            more = ++at[d] < taps[d].n;
            if (!more) at[d] = 0;
        }
    }
}

/* sum: what the output line at `index` is. */
static void store_line(const struct mo_value *y, const struct resize *r, const struct mo_resize_taps *taps,
                       const int64_t *index, int64_t i, double *sum) {
    const int last = r->y.rank - 1;
    bool outside = false;
    for (int d = 0; d < last; d++)
        outside = outside || taps[d].outside[index[d]];
    for (int64_t o = 0; o < r->y.d[last]; o++)
        if (outside || taps[last].outside[o]) sum[o] = r->extrapolation;
    mo_store_span(y, i, 1, r->y.d[last], sum);
}

static int resize_all(const struct mo_op_ctx *ctx, const struct resize *r,
                      const struct mo_resize_taps *taps) {
    const struct mo_value *x = &ctx->in[0], *y = &ctx->out[0];
    const int last = r->y.rank - 1;
    const int64_t all = mo_count(y);
    if (r->y.rank < 1) mo_copy_elem(y, 0, x, 0, 1);
    if (r->y.rank < 1 || !all) return MOIRE_OK;
    const int64_t n_in = x->shape.d[last], n = r->y.d[last];
    int64_t index[MOIRE_MAX_RANK] = {0};
    double *line = mo_scratch(ctx, n_in + n, sizeof *line);
    if (!line) return MOIRE_ENOMEM;
    for (int64_t i = 0; i < all; i += n) {
        interpolate(x, r, taps, index, line, line + n_in);
        store_line(y, r, taps, index, i, line + n_in);
        for (int d = last - 1; d >= 0; d--) {
            if (++index[d] < r->y.d[d]) break;
            index[d] = 0;
        }
    }
    mo_free(ctx->env, line);
    return MOIRE_OK;
}

void mo_resize_free(const struct mo_op_ctx *ctx, struct mo_resize_taps *taps) {
    for (int i = 0; i < MOIRE_MAX_RANK; i++) {
        mo_free(ctx->env, taps[i].source);
        mo_free(ctx->env, taps[i].weight);
        mo_free(ctx->env, taps[i].outside);
    }
}

int mo_resize_describe(const struct mo_op_ctx *ctx, struct mo_resize_taps *taps, float *extrapolation) {
    struct resize r = {0};
    int rc = resolve(ctx, &r);
    if (rc == MO_NEED_DATA) rc = mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "sizes must be constant");
    *extrapolation = (float)r.extrapolation;
    for (int i = 0; i < r.y.rank && !rc; i++)
        rc = make_taps(ctx, &r, i, &taps[i]);
    return rc;
}

static int run_resize(const struct mo_op_ctx *ctx) {
    struct resize r = {0};
    struct mo_resize_taps taps[MOIRE_MAX_RANK] = {{0}};
    int rc = resolve(ctx, &r);
    if (rc || !mo_wanted(ctx, 0)) return rc;
    for (int i = 0; i < r.y.rank && !rc; i++)
        rc = make_taps(ctx, &r, i, &taps[i]);
    if (!rc) rc = resize_all(ctx, &r, taps);
    mo_resize_free(ctx, taps);
    return rc ? rc : mo_epilogue(ctx);
}

const struct mo_op mo_ops_resize[] = {
    {"Resize", "", 10, 1, 4, 1, 1, infer_resize, run_resize, 0},
    {"Upsample", "", 7, 1, 2, 1, 1, infer_resize, run_resize, 0},
    {0},
};
