/* SPDX-License-Identifier: Apache-2.0
 * test_ocr.c - the reading pipeline without networks: images, boxes, decoding, and the whole with a runner
 * that answers from the test. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "models/ocr.h"

struct fixture {
    struct mo_env env;
    struct mo_region *region;
};

static int setup(void **state) {
    struct fixture *f = malloc(sizeof *f);
    f->env = mo_env_default();
    f->region = mo_region_create(&f->env);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    mo_region_destroy(f->region);
    free(f);
    return 0;
}

static int read_ppm(struct fixture *f, const char *bytes, size_t n, struct mo_image *image,
                    moire_error *err) {
    char path[] = "/tmp/moire-ocr-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
    int code = mo_image_read(&f->env, f->region, path, image, err);
    unlink(path);
    return code;
}

static void ppm_is_read(void **state) {
    static const char good[] = "P6 # a comment\n2 1\n255\nabcdef";
    struct mo_image image;
    assert_int_equal(read_ppm(*state, good, sizeof good - 1, &image, NULL), MOIRE_OK);
    assert_int_equal(image.w, 2);
    assert_int_equal(image.h, 1);
    assert_memory_equal(image.px, "abcdef", 6);
}

static void bad_ppm_is_refused(void **state) {
    static const char *const bad[] = {
        "",           "P5 2 1 255\nabcdef",  "P6 2 1 255\nabcde", "P6 2 1 65535\nabcdef",
        "P6 2",       "P6 0 1 255\nabcdef",  "P6 -2 1 255\nabc",  "P6 99999999999 1 255\na",
        "P6 2 1 255", "P6 16384 16384 255\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mo_image image;
        moire_error err;
        assert_int_equal(read_ppm(*state, bad[i], strlen(bad[i]), &image, &err), MOIRE_EFORMAT);
    }
    struct mo_image image;
    struct fixture *f = *state;
    assert_int_equal(mo_image_read(&f->env, f->region, "/nonexistent.ppm", &image, NULL), MOIRE_EIO);
}

static struct mo_image gradient(struct fixture *f, int w, int h) {
    struct mo_image image = {.w = w, .h = h, .px = mo_region_alloc(f->region, (size_t)w * 3 * (size_t)h)};
    for (int i = 0; i < 3 * w * h; i++)
        image.px[i] = (uint8_t)(i * 7 % 251);
    return image;
}

static void resize_keeps_and_interpolates(void **state) {
    struct fixture *f = *state;
    struct mo_image in = gradient(f, 7, 5), same, wide;
    assert_int_equal(mo_image_resize(f->region, &in, 7, 5, &same), MOIRE_OK);
    assert_memory_equal(same.px, in.px, 105);
    struct mo_image two = {.w = 2, .h = 1, .px = (uint8_t[]){0, 0, 0, 100, 200, 40}};
    assert_int_equal(mo_image_resize(f->region, &two, 4, 1, &wide), MOIRE_OK);
    static const uint8_t expected[] = {0, 0, 0, 25, 50, 10, 75, 150, 30, 100, 200, 40};
    assert_memory_equal(wide.px, expected, sizeof expected);
}

static void crop_of_upright_box_copies_pixels(void **state) {
    struct fixture *f = *state;
    struct mo_image in = gradient(f, 20, 12), out;
    struct mo_quad box = {{{3, 2}, {15, 2}, {15, 8}, {3, 8}}};
    assert_int_equal(mo_image_crop(f->region, &in, &box, &out), MOIRE_OK);
    assert_int_equal(out.w, 12);
    assert_int_equal(out.h, 6);
    for (int y = 0; y < 6; y++)
        assert_memory_equal(out.px + y * 36, in.px + ((y + 2) * 20 + 3) * 3, 36);
    struct mo_quad tall = {{{3, 1}, {7, 1}, {7, 11}, {3, 11}}}, flat = {{{3, 2}, {9, 2}, {9, 2}, {3, 2}}};
    assert_int_equal(mo_image_crop(f->region, &in, &tall, &out), MOIRE_OK);
    assert_int_equal(out.w, 10);
    assert_int_equal(out.h, 4);
    assert_memory_equal(out.px, in.px + (1 * 20 + 6) * 3, 3); /* the upper right corner comes first */
    assert_int_equal(mo_image_crop(f->region, &in, &flat, &out), MOIRE_EINVAL);
}

static void turning_twice_is_nothing(void **state) {
    struct fixture *f = *state;
    struct mo_image a = gradient(f, 5, 3), b = gradient(f, 5, 3);
    mo_image_turn(&a);
    assert_memory_equal(a.px, b.px + 3 * 14, 3);
    mo_image_turn(&a);
    assert_memory_equal(a.px, b.px, 45);
}

static void smallest_rectangle_is_tilted(void **state) {
    (void)state;
    struct mo_ocr_point p[11] = {{0, 2}, {2, 0}, {8, 6}, {6, 8}, {4, 4}};
    double side;
    struct mo_quad q = mo_min_rectangle(p, 5, &side);
    assert_true(fabs(side - sqrt(8)) < 1e-9);
    assert_true(fabs(mo_distance(q.p[0], q.p[1]) * mo_distance(q.p[0], q.p[3]) - 24) < 1e-9);
    struct mo_ocr_point one[3] = {{4, 5}};
    q = mo_min_rectangle(one, 1, &side);
    assert_true(side == 0 && q.p[2].x == 4 && q.p[2].y == 5);
}

/* --- boxes --- */

enum { MAP_W = 64, MAP_H = 48 };

static void paint(float *map, int x0, int y0, int x1, int y1, float p) {
    for (int y = y0; y <= y1; y++)
        for (int x = x0; x <= x1; x++)
            map[y * MAP_W + x] = p;
}

static moire_tensor tensor(float *data, int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    return (moire_tensor){.dtype = MOIRE_F32, .rank = rank, .shape = {a, b, c, d}, .data = data};
}

static void boxes_come_from_the_map_in_reading_order(void **state) {
    struct fixture *f = *state;
    static float map[MAP_W * MAP_H];
    paint(map, 36, 5, 55, 8, 0.9f);   /* right half of the first line */
    paint(map, 6, 6, 25, 9, 0.8f);    /* left half, a pixel lower */
    paint(map, 8, 30, 40, 33, 0.35f); /* over the threshold, but unsure */
    paint(map, 50, 40, 50, 40, 1);    /* too small */
    paint(map, 10, 20, 50, 24, 0.7f);
    moire_tensor t = tensor(map, 4, 1, 1, MAP_H, MAP_W);
    struct mo_quad *box;
    int n;
    assert_int_equal(mo_ocr_boxes(f->region, &t, 2 * MAP_W, 2 * MAP_H, &box, &n, NULL), MOIRE_OK);
    assert_int_equal(n, 3);
    assert_true(box[0].p[0].x < box[1].p[0].x && box[1].p[0].y < box[2].p[0].y);
    /* twice the map's size, and grown past the painted core */
    assert_true(box[2].p[0].x < 20 && box[2].p[0].x >= 8);
    assert_true(box[2].p[2].y > 48 && box[2].p[2].y <= 60);
    t.shape[1] = 2;
    assert_int_equal(mo_ocr_boxes(f->region, &t, 64, 48, &box, &n, NULL), MOIRE_ESHAPE);
}

/* --- text --- */

static void decoding_merges_repeats(void **state) {
    struct fixture *f = *state;
    struct mo_ocr_dictionary d;
    assert_int_equal(mo_ocr_dictionary(f->region, "a\r\n\xc3\xa9\nc\n", &d), MOIRE_OK);
    assert_int_equal(d.n, 5);
    assert_string_equal(d.text[1], "a");
    assert_string_equal(d.text[4], " ");
    static const int path[] = {0, 1, 1, 0, 1, 2, 2, 4, 3, 0};
    float p[10][5] = {{0}};
    for (int i = 0; i < 10; i++)
        p[i][path[i]] = i == 9 ? 0.1f : 0.75f;
    moire_tensor t = tensor(&p[0][0], 3, 1, 10, 5, 0);
    const char *text;
    double score;
    assert_int_equal(mo_ocr_decode(f->region, &d, &t, &text, &score, NULL), MOIRE_OK);
    assert_string_equal(text, "aa\xc3\xa9 c");
    assert_true(fabs(score - 0.75) < 1e-6);
    t.shape[2] = 6;
    assert_int_equal(mo_ocr_decode(f->region, &d, &t, &text, &score, NULL), MOIRE_ESHAPE);
    assert_int_equal(mo_ocr_dictionary(f->region, "", &d), MOIRE_OK);
    assert_int_equal(d.n, 2);
}

/* --- the whole --- */

struct script {
    float map[736 * 736], turned[2], text[4][4];
    int calls[3], fail_at;
    int64_t width;
};

static int answer(void *self, enum mo_ocr_stage stage, const moire_tensor *in, moire_tensor *out,
                  moire_error *err) {
    struct script *s = self;
    s->calls[stage]++;
    if (s->fail_at == (int)stage) return mo_fail(err, MOIRE_EIO, "made to fail");
    if (stage == MO_OCR_DETECT) {
        assert_int_equal(in->shape[2], 736);
        assert_int_equal(in->shape[3], 736);
        *out = tensor(s->map, 4, 1, 1, 736, 736);
    } else if (stage == MO_OCR_ORIENT) {
        assert_int_equal(in->shape[3], 192);
        *out = tensor(s->turned, 2, 1, 2, 0, 0);
    } else {
        s->width = in->shape[3];
        *out = tensor(&s->text[0][0], 3, 1, 4, 4, 0);
    }
    return MOIRE_OK;
}

static void page_is_read(void **state) {
    struct fixture *f = *state;
    static struct script s = {.turned = {0.02f, 0.98f}, .fail_at = -1};
    static const int path[] = {1, 0, 2, 3};
    for (int i = 0; i < 4; i++)
        s.text[i][path[i]] = 0.9f;
    for (int y = 100; y < 120; y++)
        for (int x = 100; x < 500; x++)
            s.map[y * 736 + x] = 0.9f;
    struct mo_image image = gradient(f, 736, 736);
    struct mo_ocr_dictionary d;
    struct mo_ocr_page page;
    struct mo_ocr_runner runner = {&s, answer};
    assert_int_equal(mo_ocr_dictionary(f->region, "x\ny", &d), MOIRE_OK);
    assert_int_equal(mo_ocr_read(f->region, &image, &d, &runner, &page, NULL), MOIRE_OK);
    assert_int_equal(page.n, 1);
    assert_string_equal(page.lines[0].text, "xy ");
    assert_true(page.lines[0].flipped);
    assert_true(page.lines[0].box.p[0].x < 100 && page.lines[0].box.p[1].x > 500);
    assert_true(s.width > 320); /* as wide as the line asks */
    for (int stage = 0; stage < 3; stage++) {
        moire_error err;
        s.fail_at = stage;
        assert_int_equal(mo_ocr_read(f->region, &image, &d, &runner, &page, &err), MOIRE_EIO);
        assert_string_equal(err.message, "made to fail");
    }
}

/* A sys table whose k-th allocation fails, and all after it. */
struct weak {
    struct mo_sys sys;
    int left;
};
static void *weak_alloc(void *self, size_t align, size_t bytes) {
    struct weak *w = self;
    return w->left-- > 0 ? mo_sys_posix()->alloc(NULL, align, bytes) : NULL;
}

static void lack_of_memory_is_reported(void **state) {
    (void)state;
    static struct script s = {.turned = {0.98f, 0.02f}, .fail_at = -1};
    for (int y = 100; y < 120; y++)
        for (int x = 100; x < 500; x++)
            s.map[y * 736 + x] = 0.9f;
    struct weak weak = {.sys = *mo_sys_posix()};
    weak.sys.self = &weak;
    weak.sys.alloc = weak_alloc;
    struct mo_env env = mo_env_default();
    env.sys = &weak.sys;
    struct mo_image image = {.w = 736, .h = 736, .px = calloc(736, 3 * 736)};
    int code = MOIRE_ENOMEM;
    for (int k = 2; code == MOIRE_ENOMEM && k < 200; k++) {
        weak.left = k;
        struct mo_region *region = mo_region_create(&env);
        struct mo_ocr_dictionary d;
        struct mo_ocr_page page;
        struct mo_ocr_runner runner = {&s, answer};
        code = mo_ocr_dictionary(region, "x\ny", &d);
        if (!code) code = mo_ocr_read(region, &image, &d, &runner, &page, NULL);
        mo_region_destroy(region);
    }
    assert_int_equal(code, MOIRE_OK);
    assert_true(weak.left == 0); /* the last run used all it was given, so every allocation has failed once */
    free(image.px);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ppm_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_ppm_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(resize_keeps_and_interpolates, setup, teardown),
        cmocka_unit_test_setup_teardown(crop_of_upright_box_copies_pixels, setup, teardown),
        cmocka_unit_test_setup_teardown(turning_twice_is_nothing, setup, teardown),
        cmocka_unit_test(smallest_rectangle_is_tilted),
        cmocka_unit_test_setup_teardown(boxes_come_from_the_map_in_reading_order, setup, teardown),
        cmocka_unit_test_setup_teardown(decoding_merges_repeats, setup, teardown),
        cmocka_unit_test_setup_teardown(page_is_read, setup, teardown),
        cmocka_unit_test(lack_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
