/* SPDX-License-Identifier: Apache-2.0
 * test_predict.c - what queries are predicted to take, as a server asks it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "moire_predict.h"
#include "tests/unit/sched/serve_bed.h"

static void a_tenant_tells_what_a_query_will_take(void **state) {
    (void)state;
    struct serve_bed b;
    int64_t one = 0, least = 0;
    serve_open(&b, 0, 0);
    assert_int_equal(moire_tenant_predict(b.tenant, 1, &one, NULL), MOIRE_OK);
    assert_int_equal(moire_tenant_predict(b.tenant, 0, &least, NULL), MOIRE_OK);
    assert_true(one > 0 && least > 0);
    moire_runtime_destroy(b.runtime, 1);
}

static void wrong_arguments_are_told(void **state) {
    (void)state;
    struct serve_bed b;
    int64_t ns = 7;
    serve_open(&b, 0, 0);
    assert_int_equal(moire_tenant_predict(b.tenant, -1, &ns, NULL), MOIRE_EINVAL);
    assert_int_equal(ns, 0);
    assert_int_equal(moire_tenant_predict(b.tenant, 4096, &ns, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_tenant_predict(NULL, 1, &ns, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_tenant_predict(b.tenant, 1, NULL, NULL), MOIRE_EINVAL);
    moire_runtime_destroy(b.runtime, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_tenant_tells_what_a_query_will_take),
                                       cmocka_unit_test(wrong_arguments_are_told)};
    return cmocka_run_group_tests(tests, serve_setup, serve_teardown);
}
