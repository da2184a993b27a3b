/* SPDX-License-Identifier: Apache-2.0
 * test_roi_align.c - RoiAlign in vectors gives what the reference gives, on every ISA level, in any split of
 * the regions: maps that are packed whole and in crops, channels that fill no block, several images, regions
 * outside and turned around, many samples, and what the reference is to do (other types, the mode max).  Maps
 * and outputs end where their memory does, so that an address sanitizer sees every step beyond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/ops/image/roi_align.h"
#include "runtime/ops/util.h"
#include "tests/unit/kernels/op_case.h"
#include "variants/simd/simd.h"

struct shape_case {
    int images, channels, h, w, regions, out_h, out_w, samples;
    const char *mode;
    moire_dtype type;
};

/* Large maps are those of more than 2048 pixels, or of more pixels than a few regions read. */
static const struct shape_case cases[] = {
    {1, 32, 10, 10, 20, 7, 7, 2, "avg", MOIRE_F32},   {2, 37, 9, 11, 70, 3, 4, 0, "avg", MOIRE_F32},
    {1, 16, 1, 1, 3, 1, 1, 1, "avg", MOIRE_F32},      {3, 5, 13, 1, 9, 2, 19, 3, "avg", MOIRE_F32},
    {1, 16, 50, 67, 9, 7, 7, 2, "avg", MOIRE_F32},    {2, 33, 61, 40, 7, 14, 14, 0, "avg", MOIRE_F32},
    {1, 19, 30, 60, 1, 2, 3, 2, "avg", MOIRE_F32},    {1, 16, 3000, 2, 5, 5, 2, 2, "avg", MOIRE_F32},
    {1, 3, 70, 80, 2, 3, 3, 64, "avg", MOIRE_F32},    {1, 3, 20, 20, 2, 2, 2, 70, "avg", MOIRE_F32},
    {1, 4, 300, 310, 3, 64, 64, 4, "avg", MOIRE_F32}, {1, 16, 17, 15, 40, 16, 1, 2, "max", MOIRE_F32},
    {1, 18, 17, 15, 12, 4, 4, 2, "avg", MOIRE_F64},   {1, 18, 12, 13, 5, 3, 5, 2, "avg", MOIRE_F16},
};

static int draw(unsigned *seed, int n) {
    *seed = *seed * 1664525 + 1013904223;
    return (int)((*seed >> 8) % (unsigned)n);
}

static double *draw_numbers(unsigned *seed, int64_t n) {
    double *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = draw(seed, 256) / 16.0 - 8;
    return x;
}

/* Within the map, across its borders, beside it, larger than it, empty, and with the end before the start. */
static void draw_regions(unsigned *seed, const struct shape_case *s, double *box, double *image) {
    for (int i = 0; i < s->regions; i++) {
        image[i] = draw(seed, s->images);
        for (int k = 0; k < 2; k++) {
            const int n = k ? s->h : s->w;
            box[i * 4 + k] = draw(seed, 3 * n * 8) / 8.0 - n;
            box[i * 4 + k + 2] = box[i * 4 + k] + draw(seed, (draw(seed, 2) ? 2 * n : 5) * 8) / 8.0;
            if (!draw(seed, 12)) box[i * 4 + k + 2] = box[i * 4 + k] - 1;
        }
    }
}

static void open_case(struct op_case *c, const struct shape_case *s, unsigned *seed, bool half_pixel) {
    char text[160];
    double *x = draw_numbers(seed, (int64_t)s->images * s->channels * s->h * s->w);
    double *box = malloc((size_t)s->regions * 4 * sizeof *box);
    double *image = malloc((size_t)s->regions * sizeof *image);
    assert_true(box && image);
    draw_regions(seed, s, box, image);
    op_case_open(c, "RoiAlign", 16);
    snprintf(text, sizeof text,
             "output_height=%d output_width=%d sampling_ratio=%d mode:%s spatial_scale=0.75 "
             "coordinate_transformation_mode:%s",
             s->out_h, s->out_w, s->samples, s->mode, half_pixel ? "half_pixel" : "output_half_pixel");
    op_case_attrs(c, text);
    snprintf(text, sizeof text, "%dx%dx%dx%d", s->images, s->channels, s->h, s->w);
    op_case_input(c, s->type, text, x);
    snprintf(text, sizeof text, "%dx4", s->regions);
    op_case_input(c, s->type, text, box);
    snprintf(text, sizeof text, "%d", s->regions);
    op_case_input(c, MOIRE_I64, text, image);
    free(x);
    free(box);
    free(image);
}

/* All regions by this level, in pieces of up to `most`. */
static void run_level(enum mo_isa isa, const struct mo_op_ctx *ctx, int64_t most) {
    const int64_t n = ctx->out[0].shape.d[0];
    for (int64_t from = 0; from < n; from += most)
        mo_simd_of(isa)->roi_align(ctx, from, from + most < n ? from + most : n);
}

static void compare(const struct mo_value *got, const struct op_case *c, int number, int isa) {
    for (int64_t i = 0; i < mo_count(got); i++) {
        const double want = op_case_out(c, 0, i), is = mo_load(got, i);
        if (!(fabs(is - want) <= 1e-5 * (1 + fabs(want))))
            fail_msg("case %d, %s, number %lld: %g, not %g", number, mo_isa_name((enum mo_isa)isa),
                     (long long)i, is, want);
    }
}

static void check(int number, bool half_pixel) {
    struct op_case c;
    unsigned seed = (unsigned)number * 2 + half_pixel;
    open_case(&c, &cases[number], &seed, half_pixel);
    if (op_case_run(&c, 1)) fail_msg("case %d: %s", number, c.err.message);
    struct mo_value in[3] = {c.in[0], c.in[1], c.in[2]}, out = c.out[0];
    const size_t x_bytes = (size_t)mo_count(&in[0]) * mo_dtype_bytes(in[0].dtype);
    const size_t y_bytes = (size_t)mo_count(&out) * mo_dtype_bytes(out.dtype);
    in[0].data = malloc(x_bytes);
    out.data = malloc(y_bytes);
    assert_true(in[0].data && out.data);
    memcpy(in[0].data, c.in[0].data, x_bytes);
    const struct mo_op_ctx ctx = {
        .node = c.node, .env = &c.env, .n_in = 3, .n_out = 1, .in = in, .out = &out, .err = &c.err};
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa))
        for (int64_t most = 1; most <= 70; most += 23) {
            memset(out.data, 0xff, y_bytes);
            run_level((enum mo_isa)isa, &ctx, most);
            compare(&out, &c, number, isa);
        }
    free(in[0].data);
    free(out.data);
    op_case_close(&c);
}

static void vectors_agree_with_the_reference(void **state) {
    (void)state;
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        check(i, true);
        check(i, false);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(vectors_agree_with_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
