/* SPDX-License-Identifier: Apache-2.0
 * signal.c - windows, mel filter bank, DFT and STFT (direct sums, any length). */
#include <math.h>
#include <string.h>
#include "runtime/ops/signal.h"

static const double PI = 3.14159265358979323846;
enum { INDEX_TYPES = MO_TYPE(MOIRE_I32) | MO_TYPE(MOIRE_I64), MAX_LENGTH = 1 << 28 };

/* Scalar integer input; 0, MO_NEED_DATA or an error. */
static int read_scalar(const struct mo_op_ctx *ctx, int i, int64_t *out) {
    int rc = mo_check_type(ctx, i, INDEX_TYPES);
    if (rc) return rc;
    if (mo_count(&ctx->in[i]) != 1) return mo_op_fail(ctx, MOIRE_ESHAPE, "input %d must be a scalar", i);
    if (!ctx->in[i].data) return MO_NEED_DATA;
    *out = mo_load_int(&ctx->in[i], 0);
    return MOIRE_OK;
}

static moire_dtype output_type(const struct mo_op_ctx *ctx) {
    int64_t type = mo_attr_int(ctx->node, "output_datatype", MOIRE_F32);
    return type > 0 && type < 32 && mo_type_in((moire_dtype)type, MO_NUMBERS) ? (moire_dtype)type
                                                                              : MOIRE_NONE;
}

/* --- HannWindow, HammingWindow, BlackmanWindow: a0 - a1 cos(2 pi i / N) + a2 cos(4 pi i / N) --- */
static int infer_window(const struct mo_op_ctx *ctx) {
    int64_t n = 0;
    ctx->out[0].dtype = output_type(ctx);
    if (!ctx->out[0].dtype) return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "the output type is not supported");
    int rc = read_scalar(ctx, 0, &n);
    if (rc) return rc;
    if (n < 0 || n > MAX_LENGTH)
        return mo_op_fail(ctx, MOIRE_EINVAL, "size %lld is out of range", (long long)n);
    struct mo_shape y = {.rank = 1, .d = {n}};
    return mo_set_out(ctx, 0, ctx->out[0].dtype, &y);
}

static int run_window(const struct mo_op_ctx *ctx) {
    static const struct {
        const char *op;
        double a0, a1, a2;
    } windows[] = {{"HannWindow", 0.5, 0.5, 0},
                   {"HammingWindow", 25.0 / 46, 1 - 25.0 / 46, 0},
                   {"BlackmanWindow", 0.42, 0.5, 0.08}};
    int64_t n = mo_count(&ctx->out[0]);
    double period = (double)(mo_attr_int(ctx->node, "periodic", 1) ? n : n - 1);
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        if (strcmp(windows[w].op, ctx->node->op_type) || !mo_wanted(ctx, 0)) continue;
        for (int64_t i = 0; i < n; i++) {
            double angle = period > 0 ? 2 * PI * (double)i / period : 0;
            mo_store(&ctx->out[0], i,
                     windows[w].a0 - windows[w].a1 * cos(angle) + windows[w].a2 * cos(2 * angle));
        }
    }
    return MOIRE_OK;
}

/* --- MelWeightMatrix(num_mel_bins, dft_length, sample_rate, lower_hz, upper_hz) --- */
static int infer_mel(const struct mo_op_ctx *ctx) {
    int64_t bins = 0, length = 0, rate = 0;
    ctx->out[0].dtype = output_type(ctx);
    if (!ctx->out[0].dtype) return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "the output type is not supported");
    int rc = read_scalar(ctx, 0, &bins);
    if (rc || (rc = read_scalar(ctx, 1, &length)) || (rc = read_scalar(ctx, 2, &rate))) return rc;
    for (int i = 3; i < 5; i++)
        if (mo_count(&ctx->in[i]) != 1 || (rc = mo_check_type(ctx, i, MO_FLOATS)))
            return rc ? rc : mo_op_fail(ctx, MOIRE_ESHAPE, "the band edges must be scalars");
    if (bins < 1 || bins > 1 << 20 || length < 1 || length > MAX_LENGTH || rate < 1)
        return mo_op_fail(ctx, MOIRE_EINVAL, "bins, length or rate are out of range");
    struct mo_shape y = {.rank = 2, .d = {length / 2 + 1, bins}};
    return mo_set_out(ctx, 0, ctx->out[0].dtype, &y);
}

static double to_mel(double hz) {
    return 2595 * log10(1 + hz / 700);
}

/* Spectrogram bin of the k-th edge of the filters. */
static int64_t mel_edge(const struct mo_op_ctx *ctx, int64_t k, int64_t bins) {
    int64_t length = mo_load_int(&ctx->in[1], 0), rate = mo_load_int(&ctx->in[2], 0);
    double low = to_mel(mo_load(&ctx->in[3], 0)), high = to_mel(mo_load(&ctx->in[4], 0));
    double mel = (double)k * ((high - low) / (double)(bins + 2)) + low;
    return mo_saturate(floor((double)(length + 1) * (700 * (pow(10, mel / 2595) - 1)) / (double)rate), 0,
                       length);
}

static int run_mel(const struct mo_op_ctx *ctx) {
    const struct mo_value *y = &ctx->out[0];
    int64_t rows = y->shape.d[0], bins = y->shape.d[1];
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    for (int64_t i = 0; i < rows * bins; i++)
        mo_store(y, i, 0);
    for (int64_t b = 0; b < bins; b++) {
        int64_t low = mel_edge(ctx, b, bins), mid = mel_edge(ctx, b + 1, bins),
                high = mel_edge(ctx, b + 2, bins);
        for (int64_t i = low; i <= mid && i < rows; i++) /* a band without width has its peak only */
            if (low == mid)
                mo_store(y, i * bins + b, 1);
            else
                mo_store(y, i * bins + b, (double)(i - low) / (double)(mid - low));
        for (int64_t i = mid; i < high && i < rows; i++)
            mo_store(y, i * bins + b, (double)(high - i) / (double)(high - mid));
    }
    return MOIRE_OK;
}

/* --- DFT of strided complex or real data --- */
struct signal {
    const struct mo_value *x;
    int64_t at, stride;            /* first element and distance, in samples */
    int parts;                     /* 1 real, 2 complex */
    const struct mo_value *window; /* NULL: none */
    int64_t window_offset;
};

double *mo_turns(const struct mo_op_ctx *ctx, int64_t length) {
    double *turn = mo_scratch(ctx, 2 * length, sizeof *turn);
    for (int64_t i = 0; turn && i < length; i++) {
        turn[2 * i] = cos(2 * PI * (double)i / (double)length);
        turn[2 * i + 1] = sin(2 * PI * (double)i / (double)length);
    }
    return turn;
}

/* The samples of a transform, windowed: real and imaginary part side by side. */
static void load_signal(const struct signal *s, int64_t n, double *sample) {
    for (int64_t t = 0; t < n; t++) {
        int64_t i = t - s->window_offset, at = (s->at + t * s->stride) * s->parts;
        double w = 1;
        if (s->window) w = i >= 0 && i < mo_count(s->window) ? mo_load(s->window, i) : 0;
        sample[2 * t] = w * mo_load(s->x, at);
        sample[2 * t + 1] = s->parts == 2 ? w * mo_load(s->x, at + 1) : 0;
    }
}

/* `bins` outputs from element `at` on, `step` numbers of so many parts apart (1: only the real one): sums
 * over samples of x e^(-+ 2 pi i k t / length). */
static void transform(const struct mo_value *y, int64_t at, int64_t step, int64_t bins, int parts,
                      const double *sample, int64_t n, const double *turn, int64_t length, bool inverse) {
    double sign = inverse ? 1 : -1, scale = inverse ? 1 / (double)length : 1;
    for (int64_t k = 0; k < bins; k++) {
        double re = 0, im = 0;
        for (int64_t t = 0, angle = 0; t < n; t++) { /* angle = k t modulo length */
            double c = turn[2 * angle], sn = sign * turn[2 * angle + 1];
            re += sample[2 * t] * c - sample[2 * t + 1] * sn;
            im += sample[2 * t] * sn + sample[2 * t + 1] * c;
            angle += k;
            if (angle >= length) angle -= length;
        }
        mo_store(y, at + parts * k * step, re * scale);
        if (parts == 2) mo_store(y, at + 2 * k * step + 1, im * scale);
    }
}

bool mo_dft_to_real(const struct mo_op_ctx *ctx) {
    return mo_attr_int(ctx->node, "inverse", 0) && mo_attr_int(ctx->node, "onesided", 0);
}

/* Axis: attribute (17) or third input (20).  Length: second input. */
int mo_dft_describe(const struct mo_op_ctx *ctx, int *axis, int64_t *length) {
    int rank = ctx->in[0].shape.rank, rc;
    int64_t value = mo_attr_int(ctx->node, "axis", ctx->node->opset < 20 ? 1 : -2);
    if (mo_given(ctx, 2) && (rc = read_scalar(ctx, 2, &value))) return rc;
    if ((*axis = mo_axis(ctx, value, rank)) < 0) return MOIRE_EINVAL;
    if (*axis == rank - 1)
        return mo_op_fail(ctx, MOIRE_EINVAL, "the last axis holds real and imaginary parts");
    *length = mo_dft_to_real(ctx) ? 2 * (ctx->in[0].shape.d[*axis] - 1) : ctx->in[0].shape.d[*axis];
    if (mo_given(ctx, 1) && mo_count(&ctx->in[1]) && (rc = read_scalar(ctx, 1, length))) return rc;
    if (*length < 1 || *length > MAX_LENGTH)
        return mo_op_fail(ctx, MOIRE_EINVAL, "the length is out of range");
    return MOIRE_OK;
}

static int infer_dft(const struct mo_op_ctx *ctx) {
    int axis = 0, rc = mo_check_type(ctx, 0, MO_FLOATS);
    int64_t length = 0;
    if (rc || (rc = mo_check_rank(ctx, 0, 2, MOIRE_MAX_RANK))) return rc;
    struct mo_shape y = ctx->in[0].shape;
    ctx->out[0].dtype = ctx->in[0].dtype;
    if (y.d[y.rank - 1] != 1 && y.d[y.rank - 1] != 2)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the last axis must have 1 (real) or 2 (complex) elements");
    const bool to_real = mo_dft_to_real(ctx), half = mo_attr_int(ctx->node, "onesided", 0) && !to_real;
    if (to_real && y.d[y.rank - 1] != 2)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the inverse of one side needs complex numbers");
    if ((rc = mo_dft_describe(ctx, &axis, &length))) return rc;
    y.d[axis] = half ? length / 2 + 1 : length;
    y.d[y.rank - 1] = to_real ? 1 : 2;
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

/* One side of the spectrum of a real signal becomes the whole: the other side is its conjugate.  Returns: how
 * many of sample[2 * length] count. */
static int64_t mirror(double *sample, int64_t n, int64_t length) {
    const int64_t half = length / 2 + 1;
    memset(sample + 2 * n, 0, (size_t)(2 * (length - n)) * sizeof *sample);
    for (int64_t k = half; k < length; k++) {
        sample[2 * k] = sample[2 * (length - k)];
        sample[2 * k + 1] = -sample[2 * (length - k) + 1];
    }
    return length;
}

static int run_dft(const struct mo_op_ctx *ctx) {
    int axis = 0, rc;
    int64_t length = 0;
    if ((rc = mo_dft_describe(ctx, &axis, &length)) || !mo_wanted(ctx, 0)) return rc;
    const struct mo_shape *x = &ctx->in[0].shape, *y = &ctx->out[0].shape;
    bool inverse = mo_attr_int(ctx->node, "inverse", 0) != 0;
    int64_t inner = mo_extent(x, axis + 1, x->rank - 1), outer = mo_extent(x, 0, axis), bins = y->d[axis];
    const bool to_real = mo_dft_to_real(ctx);
    const int parts = to_real ? 1 : 2;
    int64_t n = x->d[axis] < length ? x->d[axis] : length;
    if (to_real && n > length / 2 + 1) n = length / 2 + 1;
    double *turn = mo_turns(ctx, length), *sample = mo_scratch(ctx, 2 * length, sizeof *sample);
    for (int64_t row = 0; turn && sample && row < outer * inner; row++) {
        struct signal s = {.x = &ctx->in[0], .stride = inner, .parts = (int)x->d[x->rank - 1]};
        s.at = row / inner * x->d[axis] * inner + row % inner;
        load_signal(&s, n, sample);
        const int64_t used = to_real ? mirror(sample, n, length) : n;
        transform(&ctx->out[0], (row / inner * bins * inner + row % inner) * parts, inner, bins, parts,
                  sample, used, turn, length, inverse);
    }
    rc = turn && sample ? MOIRE_OK : MOIRE_ENOMEM;
    mo_free(ctx->env, turn);
    mo_free(ctx->env, sample);
    return rc;
}

/* --- STFT(signal [B][L][1 or 2], frame_step, window, frame_length); a real signal may come as [B][L] --- */
static int parts_of(const struct mo_shape *signal) {
    return signal->rank == 3 ? (int)signal->d[2] : 1;
}

int mo_stft_describe(const struct mo_op_ctx *ctx, struct mo_frames *f) {
    int rc = read_scalar(ctx, 1, &f->step);
    if (rc) return rc;
    if (!mo_given(ctx, 2) && !mo_given(ctx, 3))
        return mo_op_fail(ctx, MOIRE_EINVAL, "neither a window nor a frame length is given");
    f->length = mo_given(ctx, 2) ? mo_count(&ctx->in[2]) : 0;
    if (mo_given(ctx, 3) && (rc = read_scalar(ctx, 3, &f->length))) return rc;
    int64_t samples = ctx->in[0].shape.d[1];
    if (f->step < 1 || f->length < 1 || f->length > samples)
        return mo_op_fail(ctx, MOIRE_EINVAL, "frame step or length is out of range");
    f->count = (samples - f->length) / f->step + 1;
    f->bins = mo_attr_int(ctx->node, "onesided", 1) ? f->length / 2 + 1 : f->length;
    return MOIRE_OK;
}

static int infer_stft(const struct mo_op_ctx *ctx) {
    struct mo_frames f = {0};
    int rc = mo_check_type(ctx, 0, MO_FLOATS);
    if (rc || (rc = mo_check_rank(ctx, 0, 2, 3))) return rc;
    ctx->out[0].dtype = ctx->in[0].dtype;
    int parts = parts_of(&ctx->in[0].shape);
    if (parts != 1 && parts != 2)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the last axis must have 1 or 2 elements");
    if ((rc = mo_stft_describe(ctx, &f))) return rc;
    struct mo_shape y = {.rank = 4, .d = {ctx->in[0].shape.d[0], f.count, f.bins, 2}};
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

static int run_stft(const struct mo_op_ctx *ctx) {
    struct mo_frames f = {0};
    int rc = mo_stft_describe(ctx, &f);
    if (rc || !mo_wanted(ctx, 0)) return rc;
    const struct mo_shape *x = &ctx->in[0].shape;
    double *turn = mo_turns(ctx, f.length), *sample = mo_scratch(ctx, 2 * f.length, sizeof *sample);
    struct signal s = {.x = &ctx->in[0], .stride = 1, .parts = parts_of(x)};
    if (mo_given(ctx, 2)) {
        s.window = &ctx->in[2];
        s.window_offset = (f.length - mo_count(s.window)) / 2;
    }
    for (int64_t i = 0; turn && sample && i < x->d[0] * f.count; i++) {
        s.at = i / f.count * x->d[1] + i % f.count * f.step;
        load_signal(&s, f.length, sample);
        transform(&ctx->out[0], i * f.bins * 2, 1, f.bins, 2, sample, f.length, turn, f.length, false);
    }
    rc = turn && sample ? MOIRE_OK : MOIRE_ENOMEM;
    mo_free(ctx->env, turn);
    mo_free(ctx->env, sample);
    return rc;
}

const struct mo_op mo_ops_signal[] = {
    {"HannWindow", "", 17, 1, 1, 1, 1, infer_window, run_window, 0},
    {"HammingWindow", "", 17, 1, 1, 1, 1, infer_window, run_window, 0},
    {"BlackmanWindow", "", 17, 1, 1, 1, 1, infer_window, run_window, 0},
    {"MelWeightMatrix", "", 17, 5, 5, 1, 1, infer_mel, run_mel, 0},
    {"DFT", "", 17, 1, 3, 1, 1, infer_dft, run_dft, 0},
    {"STFT", "", 17, 2, 4, 1, 1, infer_stft, run_stft, 0},
    {0},
};
