/* SPDX-License-Identifier: Apache-2.0
 * binary.c - elementwise operators of two tensors with broadcasting, both layouts, fused activation.
 *
 * The binder folds every case into [outer...][rows][columns] with strides; inside a row an operand either
 * advances by one or stays.  The operator is a compile-time constant of the loops. */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

static inline __attribute__((always_inline)) float combine(const enum mo_binary op, float a, float b) {
    switch (op) {
    case MO_BINARY_ADD:
        return a + b;
    case MO_BINARY_SUB:
        return a - b;
    case MO_BINARY_MUL:
        return a * b;
    case MO_BINARY_DIV:
        return a / b;
    case MO_BINARY_MIN:
        return nan_least(a, b);
    case MO_BINARY_MAX:
        return nan_most(a, b);
    case MO_BINARY_PRELU:
        return a < 0.0f ? a * b : a;
    default:
        return powf(a, b);
    }
}

struct rows {
    const float *a, *b;
    float *y;
    int64_t n_rows, n, a_row, b_row, y_row;
    bool a_moves, b_moves;
};

/* Rows of 16: the channel blocks of MO_C16.  Copies in and out tell the compiler that nothing overlaps. */
static inline __attribute__((always_inline)) void blocks_of(const enum mo_binary op, const struct rows *r) {
    for (int64_t i = 0; i < r->n_rows; i++) {
        float a[16], b[16], y[16];
        memcpy(a, r->a + i * r->a_row, sizeof a);
        memcpy(b, r->b + i * r->b_row, sizeof b);
        for (int j = 0; j < 16; j++)
            y[j] = combine(op, a[j], b[j]);
        memcpy(r->y + i * r->y_row, y, sizeof y);
    }
}

static inline __attribute__((always_inline)) void rows_of(const enum mo_binary op, const struct rows *r) {
    if (r->a_moves && r->b_moves && r->n == 16) {
        blocks_of(op, r);
        return;
    }
    for (int64_t i = 0; i < r->n_rows; i++) {
        const float *a = r->a + i * r->a_row, *b = r->b + i * r->b_row;
        float *y = r->y + i * r->y_row;
        if (r->a_moves && r->b_moves) {
            for (int64_t j = 0; j < r->n; j++)
                y[j] = combine(op, a[j], b[j]);
        } else if (r->a_moves) {
            const float s = *b;
            for (int64_t j = 0; j < r->n; j++)
                y[j] = combine(op, a[j], s);
        } else {
            const float s = *a;
            for (int64_t j = 0; j < r->n; j++)
                y[j] = combine(op, s, b[r->b_moves ? j : 0]);
        }
    }
}

static void run_rows(enum mo_binary op, const struct rows *r) {
    switch (op) {
    case MO_BINARY_ADD:
        rows_of(MO_BINARY_ADD, r);
        return;
    case MO_BINARY_SUB:
        rows_of(MO_BINARY_SUB, r);
        return;
    case MO_BINARY_MUL:
        rows_of(MO_BINARY_MUL, r);
        return;
    case MO_BINARY_DIV:
        rows_of(MO_BINARY_DIV, r);
        return;
    case MO_BINARY_MIN:
        rows_of(MO_BINARY_MIN, r);
        return;
    case MO_BINARY_MAX:
        rows_of(MO_BINARY_MAX, r);
        return;
    case MO_BINARY_PRELU:
        rows_of(MO_BINARY_PRELU, r);
        return;
    default:
        rows_of(MO_BINARY_POW, r);
        return;
    }
}

static const float *operand_at(const struct mo_operand *o, const void *base, int64_t image_bytes,
                               int64_t image) {
    if (o->blocked) return o->blocked;
    return (const float *)((const char *)base + (o->per_image ? image * image_bytes : 0));
}

/* Activation and padding of rows that begin with float `at` of their image. */
static void finish_rows(const struct mo_binary_params *p, const struct rows *r, int64_t at) {
    bool whole = r->n == p->columns;
    int64_t n = whole ? r->n_rows * r->n : r->n;
    for (int64_t i = 0; i < (whole ? 1 : r->n_rows); i++) {
        if (p->fuse.act != MO_ACT_NONE) finish_row(&p->fuse, NULL, r->y + i * r->y_row, n);
        mo_clear_padding(&p->padding, r->y + i * r->y_row, at + i * p->columns, n);
    }
}

void MO_SIMD(binary)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_binary_params *p = args->params;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t left = unit, column = left % p->column_groups * p->column_group;
        left /= p->column_groups;
        int64_t row = left % p->row_groups * p->row_group;
        left /= p->row_groups;
        int64_t outer = left % p->outer, image = left / p->outer, a_at = 0, b_at = 0, rest = outer;
        for (int d = p->rank - 1; d >= 0; d--) {
            a_at += rest % p->dims[d] * p->a.outer[d];
            b_at += rest % p->dims[d] * p->b.outer[d];
            rest /= p->dims[d];
        }
        struct rows r = {.a_row = p->a.row,
                         .b_row = p->b.row,
                         .y_row = p->columns,
                         .a_moves = p->a.step != 0,
                         .b_moves = p->b.step != 0};
        r.n_rows = p->rows - row < p->row_group ? p->rows - row : p->row_group;
        r.n = p->columns - column < p->column_group ? p->columns - column : p->column_group;
        r.a = operand_at(&p->a, args->in[0], args->in_image[0], image) + a_at + row * p->a.row +
              column * p->a.step;
        r.b = operand_at(&p->b, args->in[1], args->in_image[1], image) + b_at + row * p->b.row +
              column * p->b.step;
        r.y = (float *)((char *)args->out[0] + image * args->out_image[0]) +
              (outer * p->rows + row) * p->columns + column;
        run_rows(p->op, &r);
        finish_rows(p, &r, (outer * p->rows + row) * p->columns + column);
    }
}
