/* SPDX-License-Identifier: Apache-2.0
 * test_detection_ops.c - TopK, NonMaxSuppression, RoiAlign and Resize give what their definitions say,
 * written down here in the plainest way, for random operands with ties, borders and what lies outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/ops/util.h"
#include "tests/unit/kernels/op_case.h"

enum { ROUNDS = 200, MOST = 4096 };
static double numbers[MOST];

static int draw(unsigned *seed, int n) {
    *seed = *seed * 1664525 + 1013904223;
    return (int)((*seed >> 8) % (unsigned)n);
}

/* --- TopK --- */
static bool is_better(double a, double b, bool largest) {
    if (isnan(a) || isnan(b)) return !isnan(b) && largest ? true : isnan(b) && !isnan(a) && !largest;
    return largest ? a > b : a < b;
}

/* Of n numbers, `inner` apart: the position that is the k-th. */
static int kth(const double *x, int n, int inner, int k, bool largest) {
    static bool taken[MOST];
    int best = -1;
    memset(taken, 0, sizeof taken);
    for (int round = 0; round <= k; round++) {
        best = -1;
        for (int i = 0; i < n; i++)
            if (!taken[i] && (best < 0 || is_better(x[i * inner], x[best * inner], largest))) best = i;
        taken[best] = true;
    }
    return best;
}

static void check_topk(unsigned *seed, int round) {
    static const moire_dtype types[] = {MOIRE_F32, MOIRE_I64, MOIRE_I32, MOIRE_F64};
    const moire_dtype type = types[round % 4];
    const int n = 1 + draw(seed, 60), inner = 1 + draw(seed, 3), k = 1 + draw(seed, n);
    const bool largest = draw(seed, 2), sums = type == MOIRE_F32 && draw(seed, 2);
    char text[40];
    struct op_case c;
    for (int i = 0; i < 2 * n * inner; i++)
        numbers[i] = sums && !draw(seed, 9) ? NAN : draw(seed, 20) - 10;
    op_case_open(&c, "TopK", 11);
    op_case_attrs(&c, largest ? "axis=1" : "axis=-2 largest=0");
    snprintf(text, sizeof text, "2x%dx%d", n, inner);
    op_case_input(&c, type, text, numbers);
    op_case_input(&c, MOIRE_I64, "1", (const double[]){k});
    if (op_case_run(&c, 2)) fail_msg("round %d: %s", round, c.err.message);
    for (int i = 0; i < 2 * k * inner; i++) {
        const double *row = numbers + i / inner / k * n * inner + i % inner;
        const int want = kth(row, n, inner, i / inner % k, largest);
        const double got = op_case_out(&c, 0, i);
        if (op_case_out(&c, 1, i) != want || (got != row[want * inner] && !isnan(row[want * inner])))
            fail_msg("round %d, number %d of %d of %d", round, i, k, n);
    }
    op_case_close(&c);
}

static void finds_the_best(void **state) {
    unsigned seed = 1;
    (void)state;
    for (int round = 0; round < ROUNDS; round++)
        check_topk(&seed, round);
}

/* --- NonMaxSuppression: y1, x1, y2, x2 --- */
static float shared(const double *a, const double *b) {
    const float h = (float)(fmin(a[2], b[2]) - fmax(a[0], b[0])),
                w = (float)(fmin(a[3], b[3]) - fmax(a[1], b[1]));
    if (h <= 0 || w <= 0) return 0;
    const float both = h * w, sum = (float)((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]));
    return sum - both > 0 ? both / (sum - both) : 0;
}

static void check_boxes(unsigned *seed, int round) {
    enum { BOXES = 40 };
    static const double thresholds[] = {0, 0.3, 0.7, -0.5};
    double box[BOXES * 4], score[BOXES];
    const double overlap = thresholds[round % 4];
    int chosen[BOXES], n = 0;
    struct op_case c;
    for (int i = 0; i < BOXES; i++) {
        for (int k = 0; k < 2; k++) {
            box[i * 4 + k] = draw(seed, 20);
            box[i * 4 + k + 2] = box[i * 4 + k] + draw(seed, 8); /* some are empty, some touch */
        }
        score[i] = draw(seed, 30) / 32.0;
    }
    for (int k = 0; k < BOXES; k++) {
        const int i = kth(score, BOXES, 1, k, true);
        bool stays = true;
        for (int j = 0; j < n && stays; j++)
            stays = !(shared(box + (size_t)chosen[j] * 4, box + (size_t)i * 4) > (float)overlap);
        if (stays) chosen[n++] = i;
    }
    op_case_open(&c, "NonMaxSuppression", 11);
    op_case_input(&c, MOIRE_F32, "1x40x4", box);
    op_case_input(&c, MOIRE_F32, "1x1x40", score);
    op_case_input(&c, MOIRE_I64, "1", (const double[]){BOXES});
    op_case_input(&c, MOIRE_F32, "1", &overlap);
    if (op_case_run(&c, 1)) fail_msg("round %d: %s", round, c.err.message);
    if (c.out[0].shape.d[0] != n)
        fail_msg("round %d: %lld, not %d", round, (long long)c.out[0].shape.d[0], n);
    for (int i = 0; i < n; i++)
        if (op_case_out(&c, 0, i * 3 + 2) != chosen[i]) fail_msg("round %d, box %d", round, i);
    op_case_close(&c);
}

static void drops_boxes_that_overlap(void **state) {
    unsigned seed = 2;
    (void)state;
    for (int round = 0; round < ROUNDS; round++)
        check_boxes(&seed, round);
}

/* --- RoiAlign --- */
enum { H = 9, W = 11, OUT_H = 3, OUT_W = 4, REGIONS = 6, CHANNELS = 5 };

static double pixel_at(const double *x, double row, double column) {
    if (row < -1 || row > H || column < -1 || column > W) return 0;
    row = fmin(fmax(row, 0), H - 1);
    column = fmin(fmax(column, 0), W - 1);
    const int r = (int)row, c = (int)column, below = r < H - 1 ? r + 1 : r, right = c < W - 1 ? c + 1 : c;
    const double fr = row - r, fc = column - c;
    return (1 - fr) * ((1 - fc) * x[r * W + c] + fc * x[r * W + right]) +
           fr * ((1 - fc) * x[below * W + c] + fc * x[below * W + right]);
}

static double mean_at(const double *x, const double *box, int bin, int sampling) {
    const double h = (box[3] - box[1]) / OUT_H, w = (box[2] - box[0]) / OUT_W;
    const int rows = sampling ? sampling : (int)ceil(h), columns = sampling ? sampling : (int)ceil(w);
    const int oy = bin / OUT_W, ox = bin % OUT_W;
    double sum = 0;
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < columns; k++)
            sum += pixel_at(x, box[1] - 0.5 + (oy + (i + 0.5) / rows) * h,
                            box[0] - 0.5 + (ox + (k + 0.5) / columns) * w);
    return sum / (rows * columns);
}

static void check_regions(unsigned *seed, int round) {
    static const int samplings[] = {0, 1, 2, 5, 70};
    const int sampling = samplings[round % 5];
    const moire_dtype type = round % 3 ? MOIRE_F32 : MOIRE_F64;
    double box[REGIONS * 4], image[REGIONS];
    char attrs[80];
    struct op_case c;
    for (int i = 0; i < 2 * CHANNELS * H * W; i++)
        numbers[i] = draw(seed, 64) - 32;
    for (int i = 0; i < REGIONS; i++) {
        image[i] = draw(seed, 2);
        for (int k = 0; k < 2; k++) {
            box[i * 4 + k] = draw(seed, 28) / 2.0 - 3;
            box[i * 4 + k + 2] = box[i * 4 + k] + 0.25 + draw(seed, 40) / 4.0;
        }
    }
    snprintf(attrs, sizeof attrs, "output_height=%d output_width=%d sampling_ratio=%d", OUT_H, OUT_W,
             sampling);
    op_case_open(&c, "RoiAlign", 16);
    op_case_attrs(&c, attrs);
    op_case_input(&c, type, "2x5x9x11", numbers);
    op_case_input(&c, type, "6x4", box);
    op_case_input(&c, MOIRE_I64, "6", image);
    if (op_case_run(&c, 1)) fail_msg("round %d: %s", round, c.err.message);
    for (int i = 0; i < REGIONS * CHANNELS * OUT_H * OUT_W; i++) {
        const int region = i / (CHANNELS * OUT_H * OUT_W), channel = i / (OUT_H * OUT_W) % CHANNELS;
        const double *plane = numbers + ((int)image[region] * CHANNELS + channel) * H * W;
        const double want = mean_at(plane, box + (size_t)region * 4, i % (OUT_H * OUT_W), sampling);
        if (fabs(op_case_out(&c, 0, i) - want) > 2e-5)
            fail_msg("round %d, number %d: %g, not %g", round, i, op_case_out(&c, 0, i), want);
    }
    op_case_close(&c);
}

static void means_of_regions(void **state) {
    unsigned seed = 3;
    (void)state;
    for (int round = 0; round < ROUNDS; round++)
        check_regions(&seed, round);
}

/* --- Resize, as masks are pasted --- */
/* Linear between the pixels of a tensor of rank 4 at a place, of which `axis` and those behind are left. */
static double between(const double *x, const int64_t *d, const double *place, int axis, int64_t at) {
    if (axis == 4) return x[at];
    const double low = floor(place[axis]), part = place[axis] - low;
    const int64_t last = d[axis] - 1, first = (int64_t)fmin(fmax(low, 0), (double)last);
    const int64_t second = (int64_t)fmin(fmax(low + 1, 0), (double)last);
    double sum = (1 - part) * between(x, d, place, axis + 1, at * d[axis] + first);
    if (part > 0) sum += part * between(x, d, place, axis + 1, at * d[axis] + second);
    return sum;
}

static void check_resize(unsigned *seed, int round) {
    int64_t from[4], to[4];
    double sizes[4];
    char text[60];
    struct op_case c;
    for (int i = 0; i < 4; i++) {
        from[i] = 1 + draw(seed, 6);
        to[i] = draw(seed, 3) ? 1 + draw(seed, 9) : from[i];
        sizes[i] = (double)to[i];
    }
    for (int i = 0; i < MOST; i++)
        numbers[i] = draw(seed, 200) - 100;
    snprintf(text, sizeof text, "%lldx%lldx%lldx%lld", (long long)from[0], (long long)from[1],
             (long long)from[2], (long long)from[3]);
    op_case_open(&c, "Resize", 13);
    op_case_attrs(&c, "mode:linear");
    op_case_input(&c, round % 2 ? MOIRE_F32 : MOIRE_F64, text, numbers);
    op_case_input(&c, MOIRE_F32, "-", NULL);
    op_case_input(&c, MOIRE_F32, "-", NULL);
    op_case_input(&c, MOIRE_I64, "4", sizes);
    if (op_case_run(&c, 1)) fail_msg("round %d: %s", round, c.err.message);
    for (int64_t i = 0; i < to[0] * to[1] * to[2] * to[3]; i++) {
        double place[4];
        int64_t rest = i;
        for (int k = 3; k >= 0; k--) {
            place[k] = ((double)(rest % to[k]) + 0.5) * (double)from[k] / (double)to[k] - 0.5;
            rest /= to[k];
        }
        if (fabs(op_case_out(&c, 0, i) - between(numbers, from, place, 0, 0)) > 1e-4)
            fail_msg("round %d, number %lld", round, (long long)i);
    }
    op_case_close(&c);
}

static void resizes_along_all_axes(void **state) {
    unsigned seed = 4;
    (void)state;
    for (int round = 0; round < ROUNDS; round++)
        check_resize(&seed, round);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_best),
        cmocka_unit_test(drops_boxes_that_overlap),
        cmocka_unit_test(means_of_regions),
        cmocka_unit_test(resizes_along_all_axes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
