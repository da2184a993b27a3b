/* SPDX-License-Identifier: Apache-2.0
 * oracle.c - what a layer must compute, point by point in double precision, and the check of a kernel
 * against it.  Written from the definition of the operators, with nothing shared with kernels, packing or
 * the reference operators, so that a mistake there shows here. */
#include <math.h>
#include <string.h>
#include "codegen/search/oracle.h"
#include "codegen/search/small_layer.h"
#include "runtime/base/numbers.h"

size_t mo_oracle_element(const struct mo_harness *h, const struct mo_tensor *t, const int64_t index[4]) {
    const int64_t *d = t->shape.d;
    int64_t at = index[0] * (mo_alias_stride(h->graph, t->id) / (int64_t)mo_dtype_bytes(t->dtype));
    if (t->layout == MO_C16)
        return (size_t)(at + ((index[1] / 16 * d[2] + index[2]) * d[3] + index[3]) * 16 + index[1] % 16);
    return (size_t)(at + (index[1] * d[2] + index[2]) * d[3] + index[3]);
}

double mo_oracle_activate(enum mo_act act, double a, double b, double x) {
    switch (act) {
    case MO_ACT_RELU:
        return x > 0 ? x : 0;
    case MO_ACT_CLIP:
        return fmin(fmax(x, a), b);
    case MO_ACT_LEAKY:
        return x < 0 ? a * x : x;
    case MO_ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    case MO_ACT_SILU:
        return x / (1 + exp(-x));
    case MO_ACT_HSIGMOID:
        return fmin(fmax(a * x + b, 0), 1);
    case MO_ACT_HSWISH:
        return x * fmin(fmax(a * x + b, 0), 1);
    case MO_ACT_TANH:
        return tanh(x);
    case MO_ACT_GELU:
        return x / 2 * (1 + erf(x * 0.70710678118654752440));
    case MO_ACT_GELU_TANH:
        return x / 2 * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case MO_ACT_NONE:
    case MO_ACT_COUNT:
        break;
    }
    return x;
}

static double bias_at(const struct mo_harness *h, int64_t channel) {
    const struct mo_tensor *b = h->node->fuse.residual == 2 ? NULL : mo_node_in(h->graph, h->node, 2);
    return b ? ((const float *)b->data)[channel] : 0;
}

struct sum {
    double value, magnitude;
};

static void add(struct sum *s, double x) {
    s->value += x;
    s->magnitude += fabs(x);
}

int64_t mo_oracle_pad(const struct mo_harness *h, int axis, int64_t k, int64_t s, int64_t d) {
    const char *mode = mo_attr_string(h->node, "auto_pad", "NOTSET");
    int64_t pads[4] = {0};
    if (!strcmp(mode, "VALID")) return 0;
    if (!strncmp(mode, "SAME_", 5)) {
        int64_t in = mo_node_in(h->graph, h->node, 0)->shape.d[2 + axis], out = h->out->shape.d[2 + axis];
        int64_t total = (out - 1) * s + (k - 1) * d + 1 - in;
        if (total < 0) total = 0;
        return !strcmp(mode, "SAME_UPPER") ? total / 2 : total - total / 2;
    }
    mo_attr_ints(h->node, "pads", pads, 4);
    return pads[axis];
}

static void conv_sum(const struct mo_harness *h, const int64_t at[4], struct sum *sum) {
    const struct mo_tensor *x = mo_node_in(h->graph, h->node, 0), *w = mo_node_in(h->graph, h->node, 1);
    const float *data = h->args.in[0], *weights = w->data;
    int64_t s[2] = {1, 1}, d[2] = {1, 1}, p[2];
    mo_attr_ints(h->node, "strides", s, 2);
    mo_attr_ints(h->node, "dilations", d, 2);
    const int64_t *k = w->shape.d + 2, per_group = w->shape.d[1];
    for (int i = 0; i < 2; i++)
        p[i] = mo_oracle_pad(h, i, k[i], s[i], d[i]);
    const struct mo_tensor *gate = h->node->fuse.gated ? mo_node_in(h->graph, h->node, MO_GATE_IN) : NULL;
    int64_t group = at[1] / (w->shape.d[0] / mo_attr_int(h->node, "group", 1));
    for (int64_t c = 0; c < per_group; c++)
        for (int64_t i = 0; i < k[0]; i++)
            for (int64_t j = 0; j < k[1]; j++) {
                int64_t from[4] = {at[0], group * per_group + c, at[2] * s[0] + i * d[0] - p[0],
                                   at[3] * s[1] + j * d[1] - p[1]};
                if (from[2] < 0 || from[2] >= x->shape.d[2] || from[3] < 0 || from[3] >= x->shape.d[3])
                    continue;
                double weight = weights[((at[1] * per_group + c) * k[0] + i) * k[1] + j];
                if (gate)
                    weight *= ((const float *)h->args.in[MO_GATE_IN])[mo_oracle_element(
                        h, gate, (const int64_t[4]){from[0], from[1], 0, 0})];
                add(sum, weight * data[mo_oracle_element(h, x, from)]);
            }
    add(sum, bias_at(h, at[1]));
}

/* Flat logical index to indices and the position in memory of tensor t; false for layouts not known here. */
static bool position(const struct mo_harness *h, const struct mo_tensor *t, int64_t flat, int64_t at[4],
                     size_t *where) {
    if (t->shape.rank != 4) {
        int64_t image = mo_shape_count(&t->shape) / t->shape.d[0];
        int64_t stride = mo_alias_stride(h->graph, t->id) / (int64_t)mo_dtype_bytes(t->dtype);
        *where = (size_t)(flat / image * stride + flat % image);
        return t->layout == MO_PLAIN;
    }
    for (int i = 3; i >= 0; i--) {
        at[i] = flat % t->shape.d[i];
        flat /= t->shape.d[i];
    }
    *where = mo_oracle_element(h, t, at);
    return true;
}

static void gemm_sum(const struct mo_harness *h, int64_t row, int64_t column, struct sum *sum) {
    const struct mo_tensor *a = mo_node_in(h->graph, h->node, 0), *w = mo_node_in(h->graph, h->node, 1);
    const float *left = h->args.in[0], *right = w->data;
    bool transposed = mo_attr_int(h->node, "transB", 0) && !strcmp(h->node->op_type, "Gemm");
    int64_t k_count = a->shape.d[a->shape.rank - 1], n = w->shape.d[!transposed], at[4];
    size_t start;
    position(h, a, row * k_count, at, &start);
    for (int64_t k = 0; k < k_count; k++)
        add(sum, (double)left[start + (size_t)k] * right[transposed ? column * k_count + k : k * n + column]);
    add(sum, bias_at(h, column));
}

/* Terms, bias and residual (unless that comes last) of an element, before the activation; *late: a residual
 * that is added after it. */
static bool sum_at(const struct mo_harness *h, int64_t flat, struct sum *sum, double *late) {
    const struct mo_fuse *f = &h->node->fuse;
    int64_t at[4] = {0};
    size_t where;
    *sum = (struct sum){0};
    *late = 0;
    if (!position(h, h->out, flat, at, &where)) return false;
    if (!strcmp(h->node->op_type, "Conv")) {
        conv_sum(h, at, sum);
    } else {
        if (h->out->layout != MO_PLAIN || mo_node_in(h->graph, h->node, 0)->layout != MO_PLAIN) return false;
        int64_t n = h->out->shape.d[h->out->shape.rank - 1];
        gemm_sum(h, flat / n, flat % n, sum);
    }
    if (f->residual < 0) return true;
    const struct mo_tensor *r = mo_node_in(h->graph, h->node, f->residual);
    if (!position(h, r, flat, at, &where)) return false;
    double residual = ((const float *)h->args.residual)[where];
    if (f->residual_last)
        *late = residual;
    else
        add(sum, residual);
    return true;
}

bool mo_oracle(const struct mo_harness *h, int64_t flat, double *want, double *magnitude) {
    const struct mo_fuse *f = &h->node->fuse;
    struct sum sum;
    double late;
    if (!sum_at(h, flat, &sum, &late)) return false;
    *want = mo_oracle_activate(f->act, f->a, f->b, sum.value) + late;
    *magnitude = sum.magnitude + fabs(late);
    return true;
}

/* Largest tolerated error: rounding grows with the magnitude of what was summed; activations that are
 * approximated add their own.  Kernels that mix a whole tile before they sum have errors bounded by 1e-4
 * of the layer's rms before the activation (`rms`; 0 for other kernels). */
static double tolerance(const struct mo_harness *h, double want, double magnitude, double rms) {
    bool smooth = h->node->fuse.act >= MO_ACT_SIGMOID && h->node->fuse.act != MO_ACT_HSIGMOID &&
                  h->node->fuse.act != MO_ACT_HSWISH;
    return (rms > 0 ? 1e-4 * rms : 1e-5 * magnitude) + 1e-6 + (smooth ? 1e-5 * fmax(1, fabs(want)) : 0);
}

/* An element of the output, or of a copy of it. */
static double value_at(const struct mo_harness *h, const void *data, size_t at) {
    if (h->out->dtype == MOIRE_U8) return ((const uint8_t *)data)[at];
    if (h->out->dtype == MOIRE_I8) return ((const int8_t *)data)[at];
    return ((const float *)data)[at];
}

static bool expected(const struct mo_harness *h, int64_t flat, const int64_t at[4], double rms, double *want,
                     double *allowed) {
    double magnitude;
    if (mo_is_qconv(h->node)) return mo_small_oracle(h, flat, at, want, allowed);
    if (!mo_oracle(h, flat, want, &magnitude)) return false;
    *allowed = tolerance(h, *want, magnitude, rms);
    return true;
}

static bool check_point(const struct mo_harness *h, int64_t flat, double rms, moire_error *why) {
    double want, allowed;
    int64_t at[4] = {0};
    size_t where;
    if (!position(h, h->out, flat, at, &where) || !expected(h, flat, at, rms, &want, &allowed)) {
        mo_fail(why, MOIRE_EUNSUPPORTED, "no oracle for this layer");
        return false;
    }
    double got = value_at(h, h->args.out[0], where);
    if (fabs(got - want) <= allowed) return true;
    mo_fail(why, MOIRE_EFAILED, "element %lld is %.8g, expected %.8g", (long long)flat, got, want);
    return false;
}

/* An index below n: half of the time one of the first or last two, where tiles and padding have their cases.
 */
static int64_t pick(uint64_t *state, int64_t n) {
    uint64_t r = mo_lcg(state);
    if (r & 1 || n < 4) return (int64_t)(mo_lcg(state) % (uint64_t)n);
    return r & 2 ? (int64_t)(r >> 2 & 1) : n - 1 - (int64_t)(r >> 2 & 1);
}

static int64_t pick_element(const struct mo_harness *h, uint64_t *state) {
    int64_t flat = 0;
    for (int k = 0; k < h->out->shape.rank; k++)
        flat = flat * h->out->shape.d[k] + pick(state, h->out->shape.d[k]);
    return flat;
}

static double rms_of(const struct mo_harness *h) {
    enum { SAMPLES = 100 };
    uint64_t state = 88172645463325252ULL;
    double squares = 0, late;
    struct sum sum;
    for (int i = 0; i < SAMPLES; i++)
        if (sum_at(h, pick_element(h, &state), &sum, &late)) squares += sum.value * sum.value;
    return sqrt(squares / SAMPLES);
}

/* A fixed pseudo-random sample of points, fewer for deep sums. */
static bool check_points(const struct mo_harness *h, bool mixes, moire_error *why) {
    const struct mo_tensor *weights = mo_node_in(h->graph, h->node, 1);
    int64_t depth = mo_shape_count(&weights->shape) / weights->shape.d[0];
    int samples = depth > 10000 ? 100 : 400;
    uint64_t state = 88172645463325252ULL;
    double rms = mixes ? rms_of(h) : 0;
    for (int i = 0; i < samples; i++)
        if (!check_point(h, pick_element(h, &state), rms, why)) return false;
    return true;
}

/* Rows of the output (runs of the last logical dimension): first element and step in memory. */
static int64_t rows(const struct mo_tensor *t) {
    return mo_shape_count(&t->shape) / t->shape.d[t->shape.rank - 1];
}

static size_t row_start(const struct mo_harness *h, int64_t row, int *step) {
    const struct mo_tensor *t = h->out;
    int64_t at[4], length = t->shape.d[t->shape.rank - 1];
    size_t where;
    *step = t->layout == MO_C16 ? 16 : 1;
    position(h, t, row * length, at, &where);
    return where;
}

static double largest_of(const struct mo_harness *h, const void *data) {
    const struct mo_tensor *t = h->out;
    double largest = 0;
    for (int64_t r = 0, n = rows(t); r < n; r++) {
        int step;
        const size_t start = row_start(h, r, &step);
        for (int64_t i = 0; i < t->shape.d[t->shape.rank - 1]; i++)
            largest = fmax(largest, fabs(value_at(h, data, start + (size_t)(i * step))));
    }
    return largest;
}

/* Every element against the generic kernel's, which the oracle has accepted. */
static bool check_golden(const struct mo_harness *h, moire_error *why) {
    const struct mo_tensor *t = h->out;
    const bool bytes = mo_dtype_bytes(t->dtype) == 1; /* of these, one step */
    double allowed = bytes ? 1 : 1e-4 * largest_of(h, h->golden) + 1e-6;
    for (int64_t r = 0, n = rows(t); r < n; r++) {
        int step;
        size_t start = row_start(h, r, &step);
        for (int64_t i = 0; i < t->shape.d[t->shape.rank - 1]; i++) {
            size_t at = start + (size_t)(i * step);
            const double got = value_at(h, h->args.out[0], at), want = value_at(h, h->golden, at);
            if (fabs(got - want) <= allowed) continue;
            mo_fail(why, MOIRE_EFAILED, "row %lld, element %lld is %.8g, the generic kernel gives %.8g",
                    (long long)r, (long long)i, got, want);
            return false;
        }
    }
    return true;
}

/* Hash of the bits of all logical elements in order: equal runs give equal numbers. */
static uint64_t fingerprint(const struct mo_harness *h) {
    const struct mo_tensor *t = h->out;
    uint64_t sum = 1469598103934665603ULL;
    for (int64_t r = 0, n = rows(t); r < n; r++) {
        int step;
        const size_t start = row_start(h, r, &step), size = mo_dtype_bytes(t->dtype);
        for (int64_t i = 0; i < t->shape.d[t->shape.rank - 1]; i++) {
            uint32_t bits = 0;
            memcpy(&bits, (const char *)h->args.out[0] + (start + (size_t)(i * step)) * size, size);
            sum = (sum ^ bits) * 1099511628211ULL;
        }
    }
    return sum;
}

static bool verify_on(struct mo_harness *h, const struct mo_runnable *r, enum mo_trial_data data,
                      moire_error *why) {
    mo_harness_fill(h, data);
    mo_harness_poison(h);
    mo_harness_run(h, r, 1);
    if (!mo_harness_guards(h)) {
        mo_fail(why, MOIRE_EFAILED, "it writes outside its output or scratch");
        return false;
    }
    if (!check_points(h, r->mixes, why)) return false;
    if (data == MO_DATA_RANDOM && h->golden && !check_golden(h, why)) return false;
    uint64_t whole = fingerprint(h);
    mo_harness_poison(h);
    mo_harness_run(h, r, 5);
    if (fingerprint(h) == whole && mo_harness_guards(h)) return true;
    mo_fail(why, MOIRE_EFAILED, "its result depends on how the units are split");
    return false;
}

bool mo_verify(struct mo_harness *h, const struct mo_runnable *r, moire_error *why) {
    if (mo_harness_reserve(h, (size_t)r->scratch_bytes, why)) return false;
    for (int data = MO_DATA_COUNT; data-- > 0;) /* the random set last: timing runs on it */
        if (!verify_on(h, r, (enum mo_trial_data)data, why)) return false;
    return true;
}

int mo_harness_keep_golden(struct mo_harness *h, moire_error *err) {
    h->golden = mo_alloc(h->env, h->output_bytes);
    if (!h->golden) return mo_fail(err, MOIRE_ENOMEM, "out of memory: copy of an output");
    memcpy(h->golden, h->args.out[0], h->output_bytes);
    return MOIRE_OK;
}
