/* SPDX-License-Identifier: Apache-2.0
 * test_verify_values.c - how the verification of compiled kernels compares tensors of bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "tools/moire/verify/verify_values.h"

/* Two images of 20 channels of 3 pixels in blocks of 16: [2][3][16], and room for another behind each. */
enum {
    IMAGES = 2,
    CHANNELS = 20,
    AREA = 3,
    BYTES = 2 * AREA * 16,
    STRIDE = BYTES + 48,
    LAST = STRIDE + BYTES
};

struct pair {
    struct mo_spread want, got;
};

static struct mo_spread spread(moire_dtype type) {
    struct mo_spread s = {.at = malloc(LAST), .images = IMAGES, .bytes = BYTES, .stride = STRIDE};
    s.dtype = type, s.channels = CHANNELS, s.area = AREA;
    memset(s.at, 100, LAST);
    return s;
}

static int open_pair(void **state) {
    static struct pair p;
    p = (struct pair){spread(MOIRE_U8), spread(MOIRE_U8)};
    *state = &p;
    return 0;
}

static int close_pair(void **state) {
    struct pair *p = *state;
    free(p->want.at);
    free(p->got.at);
    return 0;
}

static void a_step_is_none(void **state) {
    struct pair *p = *state;
    p->got.at[5]++, p->got.at[STRIDE + 7]--;
    assert_int_equal(mo_spread_compare(&p->want, &p->got).wrong, 0);
    p->got.at[STRIDE + 7]--;
    const struct mo_spread_gap gap = mo_spread_compare(&p->want, &p->got);
    assert_int_equal(gap.wrong, 1);
    assert_int_equal(gap.wrong_image, 1);
}

static void signs_are_respected(void **state) {
    struct pair *p = *state;
    p->want.at[0] = (char)0xff, p->got.at[0] = 0; /* a step apart as int8, far apart as uint8 */
    assert_int_equal(mo_spread_compare(&p->want, &p->got).wrong, 1);
    p->want.dtype = p->got.dtype = MOIRE_I8;
    assert_int_equal(mo_spread_compare(&p->want, &p->got).wrong, 0);
}

/* What lies behind the last channel, and between the images, is nobody's. */
static void lanes_are_not_compared(void **state) {
    struct pair *p = *state;
    p->got.at[AREA * 16 + 4] = 0, p->got.at[BYTES + 1] = 0;
    assert_int_equal(mo_spread_compare(&p->want, &p->got).wrong, 0);
    p->got.at[AREA * 16 + 3] = 0;
    assert_int_equal(mo_spread_compare(&p->want, &p->got).wrong, 1);
}

/* Bytes are not looked at as floats, which would be four times as many. */
static void bytes_have_no_range(void **state) {
    const struct pair *p = *state;
    assert_true(mo_spread_look(&p->want).largest == 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)
    const struct CMUnitTest tests[] = {
        TEST(a_step_is_none),
        TEST(signs_are_respected),
        TEST(lanes_are_not_compared),
        TEST(bytes_have_no_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
