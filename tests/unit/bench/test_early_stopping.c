/* SPDX-License-Identifier: Apache-2.0
 * test_early_stopping.c - how many queries a run needs: the numbers that LoadGen 6 itself printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "bench/data/early_stopping.h"

static void needs_what_loadgen_says(void **state) {
    (void)state;
    assert_int_equal(mo_early_least(1, 0.90, 0.99) + 1, 64);  /* "Need to process at least 64 queries" */
    assert_int_equal(mo_early_least(1, 0.99, 0.99) + 1, 662); /* "at least 662 total queries" */
    /* "Processed 193 queries.  Would need to run at least 266 more queries", none of them late */
    assert_int_equal(mo_early_missing(193, 0, 0.99, 0.99), 266);
    assert_int_equal(mo_early_missing(288, 10, 0.99, 0.99), 1712);
    assert_int_equal(mo_early_missing(0, 1574, 0.99, 0.99), 165258);
}

static void passes_from_there_on(void **state) {
    (void)state;
    const double shares[] = {0.5, 0.9, 0.95, 0.99, 0.999};
    for (int i = 0; i < 5; i++)
        for (int64_t late = 0; late < 40; late += 3) {
            const int64_t least = mo_early_least(late, shares[i], 0.99);
            assert_int_equal(mo_early_missing(least, late, shares[i], 0.99), 0);
            assert_int_equal(mo_early_missing(least + 1000, late, shares[i], 0.99), 0);
            assert_int_equal(mo_early_missing(least - 1, late, shares[i], 0.99), 1);
            assert_true(least < mo_early_least(late + 1, shares[i], 0.99));
        }
    /* the first term of so many queries is no double */
    assert_int_equal(mo_early_missing(1000000, 9000, 0.99, 0.99), 0);
    assert_true(mo_early_missing(1000000, 20000, 0.99, 0.99) > 900000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(needs_what_loadgen_says),
                                       cmocka_unit_test(passes_from_there_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
