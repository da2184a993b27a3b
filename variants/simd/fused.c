/* SPDX-License-Identifier: Apache-2.0
 * fused.c - pointwise programs, strip by strip.
 *
 * A strip is a run of output elements: part of a row, or several whole rows.  Operands that lie like it are
 * read where they are; others are laid out in scratch first (broadcast, converted), once for as many strips
 * as they do not change in.  Then each step is one loop over the strip, all within the L1 cache, and the last
 * writes the output.  A result never lies where an operand does, so loops need no check of overlap. */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

static inline __attribute__((always_inline)) float truth(bool x) {
    return x ? 1.0f : 0.0f;
}

/* One step on one element; `op` is a compile-time constant of each loop.  NaN wins Min and Max. */
static inline __attribute__((always_inline)) float apply(const enum mo_fused_op op, float a, float b,
                                                         float c) {
    switch (op) {
    case MO_FUSED_ADD:
        return a + b;
    case MO_FUSED_SUB:
        return a - b;
    case MO_FUSED_MUL:
        return a * b;
    case MO_FUSED_DIV:
        return a / b;
    case MO_FUSED_MIN:
        return nan_least(a, b);
    case MO_FUSED_MAX:
        return nan_most(a, b);
    case MO_FUSED_POW:
        return powf(a, b);
    case MO_FUSED_EQUAL:
        return truth(a == b);
    case MO_FUSED_LESS:
        return truth(a < b);
    case MO_FUSED_LESS_EQUAL:
        return truth(a <= b);
    case MO_FUSED_GREATER:
        return truth(a > b);
    case MO_FUSED_GREATER_EQUAL:
        return truth(a >= b);
    case MO_FUSED_AND:
        return a * b;
    case MO_FUSED_OR:
        return most(a, b);
    case MO_FUSED_XOR:
        return truth(a != b);
    case MO_FUSED_NOT:
        return 1.0f - a;
    case MO_FUSED_IS_NAN:
        return truth(a != a);
    case MO_FUSED_WHERE:
        return a != 0.0f ? b : c;
    case MO_FUSED_TO_BOOL:
        return truth(a != 0.0f);
    case MO_FUSED_ABS:
        return fabsf(a);
    case MO_FUSED_NEG:
        return -a;
    case MO_FUSED_SQRT:
        return sqrtf(a);
    case MO_FUSED_RECIPROCAL:
        return 1.0f / a;
    case MO_FUSED_EXP:
        return full_exp(a);
    case MO_FUSED_LOG:
        return fast_log(a);
    case MO_FUSED_ERF:
        return fast_erf(a);
    case MO_FUSED_FLOOR:
        return floorf(a);
    case MO_FUSED_CEIL:
        return ceilf(a);
    case MO_FUSED_ROUND:
        return rintf(a);
    case MO_FUSED_SIGN:
        return truth(a > 0.0f) - truth(a < 0.0f);
    default: /* a cast of what is a float here already, or an activation, which has rows of its own */
        return a;
    }
}

struct strip {
    const float *a, *b, *c;
    float *y;
    int64_t n;
};

static inline __attribute__((always_inline)) void loop(const enum mo_fused_op op, const int operands,
                                                       const struct strip *s) {
    const float *a = s->a, *b = s->b, *c = s->c;
    float *restrict y = s->y;
    const int64_t n = s->n;
    if (operands == 1)
        for (int64_t i = 0; i < n; i++)
            y[i] = apply(op, a[i], 0.0f, 0.0f);
    else if (operands == 2)
        for (int64_t i = 0; i < n; i++)
            y[i] = apply(op, a[i], b[i], 0.0f);
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = apply(op, a[i], b[i], c[i]);
}

/* Nearest whole number, ties to even, plus the zero point, within the type; NaN becomes 0. */
static void quantize(const struct mo_fused_step *step, float low, float high, const struct strip *s) {
    const struct divisor scale = divisor_of(step->a);
    const float *a = s->a, zero = step->b;
    float *restrict y = s->y;
    for (int64_t i = 0; i < s->n; i++) {
        float x = rintf(quotient(a[i], scale)) + zero;
        x = x < low ? low : x;
        x = x > high ? high : x;
        y[i] = x == x ? x : 0.0f;
    }
}

static void dequantize(const struct mo_fused_step *step, const struct strip *s) {
    const float *a = s->a, scale = step->a, zero = step->b;
    float *restrict y = s->y;
    for (int64_t i = 0; i < s->n; i++)
        y[i] = (a[i] - zero) * scale;
}

static void run_step(const struct mo_fused_step *step, const struct strip *s) {
    if (step->op == MO_FUSED_ACTIVATION) {
        activate_row(step->act, step->a, step->b, s->a, s->y, s->n);
        return;
    }
    if (mo_fused_quantizes(step->op)) {
        if (step->op == MO_FUSED_DEQUANTIZE) dequantize(step, s);
        if (step->op == MO_FUSED_QUANTIZE_U8) quantize(step, 0.0f, 255.0f, s);
        if (step->op == MO_FUSED_QUANTIZE_I8) quantize(step, -128.0f, 127.0f, s);
        return;
    }
    switch (step->op) {
#define CASE(id, name, domain, operands)                                                                     \
    case MO_FUSED_##id:                                                                                      \
        loop(MO_FUSED_##id, operands, s);                                                                    \
        return;
        MO_FUSED_OPS(CASE)
#undef CASE
    default:
        return;
    }
}

/* n elements of any type as floats; bools become 0 and 1. */
static void convert(moire_dtype dtype, const void *from, int64_t at, int64_t n, float *restrict to) {
    const uint8_t *bytes = from;
    const int8_t *small = from;
    const int32_t *ints = from;
    const int64_t *longs = from;
    switch (dtype) {
    case MOIRE_BOOL:
        for (int64_t i = 0; i < n; i++)
            to[i] = truth(bytes[at + i] != 0);
        return;
    case MOIRE_U8:
        for (int64_t i = 0; i < n; i++)
            to[i] = (float)bytes[at + i];
        return;
    case MOIRE_I8:
        for (int64_t i = 0; i < n; i++)
            to[i] = (float)small[at + i];
        return;
    case MOIRE_I32:
        for (int64_t i = 0; i < n; i++)
            to[i] = (float)ints[at + i];
        return;
    case MOIRE_I64:
        for (int64_t i = 0; i < n; i++)
            to[i] = (float)longs[at + i];
        return;
    default:
        memcpy(to, (const float *)from + at, (size_t)n * sizeof *to);
    }
}

/* What a worker keeps from strip to strip. */
struct work {
    const struct mo_fused_params *p;
    float *scratch;
    const void *base[MO_FUSED_INPUTS];      /* of every operand, in this image and at these outer indices */
    int64_t origin[MO_FUSED_INPUTS];        /* ... and the element there */
    const void *laid_base[MO_FUSED_INPUTS]; /* what the operand's strip in scratch holds */
    int64_t laid_at[MO_FUSED_INPUTS];
};

/* Rows [0, rows) of `n` elements from element `at` on, laid out in `to`. */
static void lay_out(const struct work *w, int k, int64_t at, int64_t rows, int64_t n, float *to) {
    const struct mo_operand *o = &w->p->in[k];
    for (int64_t r = 0; r < rows; r++) {
        if (o->step) {
            convert(w->p->dtype[k], w->base[k], at + r * o->row, n, to + r * n);
            continue;
        }
        float x;
        convert(w->p->dtype[k], w->base[k], at + r * o->row, 1, &x);
        for (int64_t i = 0; i < n; i++)
            to[r * n + i] = x;
    }
}

/* Operand k of the strip that begins at (row, column) and has `rows` rows of n elements.  What neither
 * depends on the row nor (being a scalar) on the column is laid out for the longest strip and kept. */
static const float *operand(struct work *w, int k, int64_t row, int64_t column, int64_t rows, int64_t n) {
    const struct mo_operand *o = &w->p->in[k];
    int64_t at = w->origin[k] + row * o->row + column * o->step;
    bool plain = w->p->dtype[k] == MOIRE_F32 && o->step && (rows == 1 || o->row == n);
    float *to = w->scratch + k * MO_STRIP;
    if (plain) return (const float *)w->base[k] + at;
    bool stays = !o->row && (!o->step || n == w->p->columns);
    if (stays && w->laid_base[k] == w->base[k] && w->laid_at[k] == at) return to;
    lay_out(w, k, at, stays ? (n < MO_STRIP ? MO_STRIP / n : 1) : rows, n, to);
    if (stays && !o->step)
        for (int64_t i = MO_STRIP / n * n; i < MO_STRIP; i++)
            to[i] = to[0];
    w->laid_base[k] = stays ? w->base[k] : NULL;
    w->laid_at[k] = at;
    return to;
}

/* Floats that are whole numbers of the type, or truths. */
static void store_bytes(moire_dtype dtype, const float *from, uint8_t *restrict to, int64_t n) {
    if (dtype == MOIRE_BOOL)
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i] != 0.0f;
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = (uint8_t)(int32_t)from[i];
}

static void run_strip(struct work *w, int64_t row, int64_t column, int64_t rows, int64_t n, void *y,
                      int64_t at) {
    const struct mo_fused *f = &w->p->program;
    const float *value[MO_FUSED_INPUTS + MO_FUSED_STEPS];
    bool in_place = w->p->out_dtype == MOIRE_F32;
    for (int k = 0; k < f->n_in; k++)
        value[k] = operand(w, k, row, column, rows, n);
    float *result = NULL;
    for (int i = 0; i < f->n; i++) {
        const int *arg = f->step[i].arg;
        result = w->scratch + (f->n_in + w->p->result[i]) * MO_STRIP;
        if (i == f->n - 1 && in_place) result = (float *)y + at;
        struct strip s = {.a = value[arg[0]],
                          .b = arg[1] >= 0 ? value[arg[1]] : NULL,
                          .c = arg[2] >= 0 ? value[arg[2]] : NULL,
                          .y = result,
                          .n = rows * n};
        run_step(&f->step[i], &s);
        value[f->n_in + w->p->result[i]] = result;
    }
    if (in_place)
        mo_clear_padding(&w->p->padding, (float *)y + at, at, rows * n);
    else
        store_bytes(w->p->out_dtype, result, (uint8_t *)y + at, rows * n);
}

/* Bases of the operands at an index over the outer dimensions and in an image. */
static void enter(struct work *w, const struct mo_kargs *args, int64_t image, int64_t outer) {
    const struct mo_fused_params *p = w->p;
    for (int k = 0; k < p->program.n_in; k++) {
        const struct mo_operand *o = &p->in[k];
        int64_t rest = outer;
        w->base[k] = o->blocked ? (const void *)o->blocked
                                : (const char *)args->in[k] + (o->per_image ? image * args->in_image[k] : 0);
        w->origin[k] = 0;
        for (int d = p->rank - 1; d >= 0; d--) {
            w->origin[k] += rest % p->dims[d] * o->outer[d];
            rest /= p->dims[d];
        }
    }
}

void MO_SIMD(fused)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_fused_params *p = args->params;
    struct work w = {.p = p, .scratch = scratch};
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t left = unit, column = left % p->column_groups * p->column_group;
        left /= p->column_groups;
        int64_t row = left % p->row_groups * p->row_group;
        left /= p->row_groups;
        int64_t outer = left % p->outer, image = left / p->outer;
        int64_t rows = p->rows - row < p->row_group ? p->rows - row : p->row_group;
        int64_t n = p->columns - column < p->column_group ? p->columns - column : p->column_group;
        int64_t step = n <= MO_STRIP ? MO_STRIP / n : 1, width = n < MO_STRIP ? n : MO_STRIP;
        char *y = (char *)args->out[0] + image * args->out_image[0];
        enter(&w, args, image, outer);
        for (int64_t r = 0; r < rows; r += step)
            for (int64_t c = 0; c < n; c += width)
                run_strip(&w, row + r, column + c, rows - r < step ? rows - r : step,
                          n - c < width ? n - c : width, y,
                          (outer * p->rows + row + r) * p->columns + column + c);
    }
}
