/* SPDX-License-Identifier: Apache-2.0
 * matrix_shape.c - the copy of the input that tiles are read from, and weights in the order of its steps. */
#include "variants/matrix/matrix_shape.h"

#include <string.h>

static int64_t divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* As many rows in a pixel as a step has room for. */
static int64_t fold_of(const struct mo_conv *c, int64_t pixel) {
    if (c->dh != 1 || c->dw != 1) return 1;
    int64_t fold = 1;
    while (fold * 2 < c->kh + fold && fold < 4 && c->kw * pixel * fold * 2 <= MO_MATRIX_STEP)
        fold *= 2;
    return fold;
}

bool mo_matrix_shape_of(const struct mo_conv *c, enum mo_matrix_type type, bool narrow,
                        struct mo_matrix_shape *s) {
    *s = (struct mo_matrix_shape){.type = type,
                                  .narrow = narrow,
                                  .element = type == MO_MATRIX_BYTES ? 1 : 2,
                                  .terms = type == MO_MATRIX_FLOATS ? MO_MATRIX_TERMS : 1};
    if (c->depthwise || (narrow && (c->c > 4 || c->groups != 1 || c->merge != 1))) return false;
    int64_t block = (narrow ? 4 : 16) * s->element;
    s->fold = narrow ? fold_of(c, block) : 1;
    s->planes = narrow ? 1 : MO_MATRIX_STEP / block;
    if (s->planes > c->icb) s->planes = c->icb;
    s->width = block * s->planes * s->fold;
    s->chunks = (c->icb + s->planes - 1) / s->planes;
    s->filter_rows = (c->kh + s->fold - 1) / s->fold;
    s->runs = c->dw == 1 ? 1 : c->kw;
    int64_t run = (c->dw == 1 ? c->kw : 1) * s->width;
    s->run_steps = (run + MO_MATRIX_STEP - 1) / MO_MATRIX_STEP;
    s->steps = s->chunks * s->filter_rows * s->runs * s->run_steps;
    s->row_step = s->filter_rows == 1 ? c->sh : divisor(c->sh, s->fold * c->dh);
    s->column_step = c->kw == 1 ? c->sw : 1;
    return true;
}

bool mo_matrix_narrow(const struct mo_conv *c) {
    return c->c <= 4 && c->groups == 1 && c->merge == 1 && !c->rows &&
           (c->x->dtype != MOIRE_F32 || c->x->layout == MO_PLAIN);
}

void mo_matrix_product(int64_t k, int64_t columns, struct mo_conv *c) {
    *c = (struct mo_conv){.n = 1, .c = k, .h = 1, .w = 1, .o = columns, .oh = 1, .ow = 1, .kh = 1, .kw = 1};
    c->sh = c->sw = c->dh = c->dw = c->groups = c->merge = 1;
    c->cg = k, c->og = columns;
    c->icb = (k + 15) / 16, c->ocb = (columns + 15) / 16;
    c->rows = true;
}

int64_t mo_matrix_weight_bytes(const struct mo_matrix_shape *s, const struct mo_conv *c) {
    return c->groups * c->ocb * s->steps * s->terms * MO_MATRIX_TILE;
}

int64_t mo_matrix_block_at(const struct mo_matrix_shape *s, int64_t ocb, int64_t group, int64_t block) {
    return (group * ocb + block / 2 * 2) * s->steps * s->terms * MO_MATRIX_TILE;
}

/* Where a weight of the first output channel of its block lies behind the block's place; `blocks` share it.
 */
static int64_t place(const struct mo_matrix_shape *s, int64_t blocks, int64_t channel, int64_t ky,
                     int64_t kx) {
    int64_t pixel = s->width / s->element, per_chunk = s->narrow ? 4 : pixel;
    int64_t inside = s->narrow ? ky % s->fold * 4 + channel : channel % per_chunk;
    int64_t row = (s->narrow ? 0 : channel / per_chunk * s->filter_rows) + ky / s->fold;
    int64_t run = s->runs == 1 ? 0 : kx, at = (s->runs == 1 ? kx * pixel : 0) + inside;
    int64_t in_step = MO_MATRIX_STEP / s->element, per_lane = 4 / s->element;
    int64_t step = (row * s->runs + run) * s->run_steps + at / in_step;
    at %= in_step;
    return step * s->terms * blocks * MO_MATRIX_TILE + at / per_lane * MO_MATRIX_STEP +
           at % per_lane * s->element;
}

/* One weight of each of `lanes` outputs, to places four bytes apart. */
static void put_bytes(const int8_t *w, int64_t stride, int64_t lanes, char *to, int32_t *sums) {
    for (int64_t l = 0; l < lanes; l++) {
        to[l * 4] = (char)w[l * stride];
        if (sums) sums[l] += w[l * stride];
    }
}

/* The terms of a weight go to tiles that lie apart. */
static void put_floats(const float *w, int64_t stride, int64_t lanes, float scale, int terms, int64_t apart,
                       char *to) {
    for (int64_t l = 0; l < lanes; l++) {
        uint16_t term[MO_MATRIX_TERMS] = {mo_bfloat16(w[l * stride] * scale)};
        if (terms == MO_MATRIX_TERMS) mo_bfloat16_terms(w[l * stride] * scale, term);
        for (int t = 0; t < terms; t++)
            memcpy(to + t * apart + l * 4, &term[t], 2);
    }
}

/* Outputs [first, first + lanes) of a block, which begins at `to`: all of one group of the model. */
static void pack_lanes(const struct mo_matrix_shape *s, const struct mo_conv *c,
                       const struct mo_matrix_filter *f, int64_t blocks, int64_t first, int64_t lanes,
                       char *to, int32_t *sums) {
    const int64_t taps = c->kh * c->kw, cg = c->cg / c->merge, og = c->og / c->merge;
    const int64_t channel = first % c->og / og * cg;
    for (int64_t i = 0; i < cg; i++)
        for (int64_t t = 0; t < taps; t++) {
            const int64_t from = first * f->o_stride + i * f->c_stride + t;
            char *at = to + place(s, blocks, channel + i, t / c->kw, t % c->kw);
            if (s->type == MO_MATRIX_BYTES)
                put_bytes((const int8_t *)f->data + from, f->o_stride, lanes, at, sums);
            else
                put_floats((const float *)f->data + from, f->o_stride, lanes, f->scale, s->terms,
                           blocks * MO_MATRIX_TILE, at);
        }
}

void mo_matrix_pack(const struct mo_matrix_shape *s, const struct mo_conv *c,
                    const struct mo_matrix_filter *f, char *out, int32_t *sums) {
    const int64_t og = c->og / c->merge;
    for (int64_t o = 0, lanes; o < c->o; o += lanes) {
        const int64_t group = o / c->og, block = o % c->og / 16, lane = o % c->og % 16;
        const int64_t blocks = c->ocb - block / 2 * 2 < 2 ? 1 : 2;
        lanes = 16 - lane < og - o % og ? 16 - lane : og - o % og;
        char *to = out + mo_matrix_block_at(s, c->ocb, group, block) + block % 2 * MO_MATRIX_TILE + lane * 4;
        pack_lanes(s, c, f, blocks, o, lanes, to, sums ? sums + (group * c->ocb + block) * 16 + lane : NULL);
    }
}
