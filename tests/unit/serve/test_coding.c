/* SPDX-License-Identifier: Apache-2.0
 * test_coding.c - compressed bodies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "serve/net/coding.h"

static void test_headers(void **state) {
    (void)state;
    assert_int_equal(ms_coding_of(NULL), MS_CODING_NONE);
    assert_int_equal(ms_coding_of("Identity"), MS_CODING_NONE);
    assert_int_equal(ms_coding_of("GZIP"), MS_CODING_GZIP);
    assert_int_equal(ms_coding_of("deflate"), MS_CODING_DEFLATE);
    assert_int_equal(ms_coding_of("gzip, gzip"), MS_CODING_UNKNOWN);
    assert_int_equal(ms_coding_accepted(NULL), MS_CODING_NONE);
    assert_int_equal(ms_coding_accepted("br, deflate, gzip"), MS_CODING_GZIP);
    assert_int_equal(ms_coding_accepted("deflate;q=0.5"), MS_CODING_DEFLATE);
    assert_int_equal(ms_coding_accepted("gzip;q=0, deflate; q=0.0"), MS_CODING_NONE);
    assert_int_equal(ms_coding_accepted("gzipped,,"), MS_CODING_NONE);
}

static void test_there_and_back(void **state) {
    (void)state;
    struct ms_zlib zlib;
    moire_error err;
    if (ms_zlib_open(&zlib, &err)) skip();
    for (int coding = MS_CODING_GZIP; coding <= MS_CODING_DEFLATE; coding++)
        for (size_t n = 0; n < 1000000; n = n * 7 + 1) {
            struct ms_bytes b = {0}, was = {0};
            for (size_t i = 0; i < n; i++)
                ms_bytes_put(&b, &(char){(char)(i * i % 251)}, 1);
            ms_bytes_put(&was, b.at, b.n);
            assert_true(ms_coding_compress(&zlib, (enum ms_coding)coding, &b));
            assert_int_equal(ms_coding_expand(&zlib, &b, n, &err), MOIRE_OK);
            assert_int_equal(b.n, n);
            if (n) assert_memory_equal(b.at, was.at, n);
            if (n > 1) {
                assert_true(ms_coding_compress(&zlib, (enum ms_coding)coding, &b));
                assert_int_equal(ms_coding_expand(&zlib, &b, n - 1, &err), MOIRE_ELIMIT);
                b.n--;
                assert_int_equal(ms_coding_expand(&zlib, &b, n, &err), MOIRE_EINVAL); /* cut off */
            }
            ms_bytes_free(&b);
            ms_bytes_free(&was);
        }
    ms_zlib_close(&zlib);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
