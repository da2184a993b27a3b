/* SPDX-License-Identifier: Apache-2.0
 * cmocka.h - the part of cmocka that the unit tests run under qemu use; Debian has no cmocka for a foreign
 * processor beside the native one.  Same names, same output, so the tests are compiled unchanged. */
#ifndef MO_CROSS_CMOCKA_H
#define MO_CROSS_CMOCKA_H
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
    int (*setup_func)(void **state), (*teardown_func)(void **state);
    void *initial_state;
};
#define cmocka_unit_test(function)                                                                           \
    { #function, function, NULL, NULL, NULL }

/* Runs the tests in order, each to its first failed assertion; returns how many failed. */
int cross_run(const struct CMUnitTest *tests, size_t n);
#define cmocka_run_group_tests(tests, setup, teardown)                                                       \
    ((void)(setup), (void)(teardown), cross_run(tests, sizeof(tests) / sizeof *(tests)))

/* Ends the test that runs. */
_Noreturn void cross_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define fail_msg(...)      cross_fail(__FILE__, __LINE__, __VA_ARGS__)
#define assert_true(c)     ((c) ? (void)0 : fail_msg("%s", #c))
#define assert_non_null(p) assert_true((p) != NULL)
#define assert_int_equal(a, b)                                                                               \
    ((long long)(a) == (long long)(b)                                                                        \
         ? (void)0                                                                                           \
         : fail_msg("%s is %lld, not %lld", #a, (long long)(a), (long long)(b)))
#define assert_in_range(v, least, most) assert_true((v) >= (least) && (v) <= (most))
#define assert_string_equal(a, b)       assert_true(!strcmp(a, b))
#define assert_string_not_equal(a, b)   assert_true(strcmp(a, b))
#define print_message(...)              printf(__VA_ARGS__)
#define print_error(...)                printf(__VA_ARGS__)
#endif
