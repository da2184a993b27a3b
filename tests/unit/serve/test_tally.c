/* SPDX-License-Identifier: Apache-2.0
 * test_tally.c - what becomes of a model's queries: who counts for the target, the last minute, buckets; and
 * the page's policy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "serve/page/live_page.h"
#include "serve/query/tally.h"

static const int64_t SECOND = 1000000000;

static void the_last_minute_forgets_what_is_older(void **state) {
    (void)state;
    struct ms_tally t = {0};
    const int64_t start = 1000 * SECOND;
    for (int i = 0; i < 90; i++)
        ms_tally_end(&t, MOIRE_OK, i % 3 != 0, start + i * SECOND);
    const struct ms_share now = ms_tally_lately(&t, start + 89 * SECOND);
    assert_int_equal(now.due, 60);
    assert_int_equal(now.in_time, 40);
    assert_int_equal(t.share.due, 90);
    assert_int_equal(t.share.in_time, 60);
    assert_int_equal(ms_tally_lately(&t, start + 119 * SECOND).due, 30);
    assert_int_equal(ms_tally_lately(&t, start + 200 * SECOND).due, 0);
}

static void a_clients_own_faults_are_not_due(void **state) {
    (void)state;
    static const struct {
        int code, due;
    } rows[] = {{MOIRE_OK, 1},      {MOIRE_EBUSY, 1},     {MOIRE_EEXPIRED, 1},   {MOIRE_ESHED, 1},
                {MOIRE_EFAILED, 1}, {MOIRE_EUNLOADED, 1}, {MOIRE_ESHUTDOWN, 1},  {MOIRE_ENOMEM, 1},
                {MOIRE_EINVAL, 0},  {MOIRE_ESHAPE, 0},    {MOIRE_ECANCELLED, 0}, {MOIRE_EUNSUPPORTED, 0},
                {MOIRE_EFORMAT, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ms_tally t = {0};
        ms_tally_end(&t, rows[i].code, true, SECOND);
        assert_int_equal(t.ended[-rows[i].code], 1);
        assert_int_equal(t.share.due, rows[i].due);
        assert_int_equal(t.share.in_time, rows[i].code == MOIRE_OK);
        assert_int_equal(ms_tally_failed(&t), rows[i].code != MOIRE_OK);
    }
}

static void a_code_that_there_is_not_is_an_internal_error(void **state) {
    (void)state;
    struct ms_tally t = {0};
    ms_tally_end(&t, -1000, false, SECOND);
    ms_tally_end(&t, 7, false, SECOND);
    assert_int_equal(t.ended[-MOIRE_EINTERNAL], 2);
}

static void buckets_have_their_bounds(void **state) {
    (void)state;
    struct ms_times t = {0};
    for (int i = 0; i < MS_BOUNDS; i++) {
        assert_true(!i || ms_tally_bound[i] > ms_tally_bound[i - 1]);
        ms_times_add(&t, (int64_t)(ms_tally_bound[i] * 1e9)); /* the bound itself belongs to it */
        assert_int_equal(t.bucket[i], 1);
    }
    ms_times_add(&t, 11 * SECOND);
    ms_times_add(&t, -1);
    assert_int_equal(t.bucket[MS_BOUNDS], 1);
    assert_int_equal(t.bucket[0], 2);
    assert_int_equal(t.count, MS_BOUNDS + 2);
}

static void the_page_runs_its_own_script_only(void **state) {
    (void)state;
    struct ms_bytes page = {0};
    char nonce[MS_NONCE], policy[MS_PAGE_POLICY];
    ms_page_write(&page, nonce);
    ms_page_policy(nonce, policy);
    ms_bytes_put(&page, "", 1);
    assert_false(page.failed);
    assert_int_equal(strlen(nonce), MS_NONCE - 1);
    assert_null(strstr(page.at, "@nonce@"));
    assert_null(strstr(page.at, "@script@"));
    assert_null(strstr(page.at, "@style@"));
    assert_non_null(strstr(page.at, "</html>"));
    assert_non_null(strstr(policy, nonce));
    assert_non_null(strstr(policy, "frame-ancestors 'none'"));
    ms_bytes_free(&page);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_minute_forgets_what_is_older),
        cmocka_unit_test(a_clients_own_faults_are_not_due),
        cmocka_unit_test(a_code_that_there_is_not_is_an_internal_error),
        cmocka_unit_test(buckets_have_their_bounds),
        cmocka_unit_test(the_page_runs_its_own_script_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
