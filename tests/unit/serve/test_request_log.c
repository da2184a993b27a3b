/* SPDX-License-Identifier: Apache-2.0
 * test_request_log.c - which ids of clients are taken, and the lines of the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "serve/net/request_log.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN  "00f067aa0ba902b7"

static struct ms_ids take(const char *name, const char *value) {
    struct ms_ids ids = {0};
    assert_true(ms_ids_take(&ids, name, strlen(name), value, strlen(value)));
    return ids;
}

static void traceparents_are_checked(void **state) {
    (void)state;
    static const struct {
        const char *value, *kept;
    } rows[] = {
        {"00-" TRACE "-" SPAN "-01", "00-" TRACE "-" SPAN "-01"},
        {"cc-" TRACE "-" SPAN "-00-what-comes-later", "cc-" TRACE "-" SPAN "-00"},
        {"00-" TRACE "-" SPAN "-01-more", ""},
        {"cc-" TRACE "-" SPAN "-00.more", ""},
        {"ff-" TRACE "-" SPAN "-01", ""},
        {"00-00000000000000000000000000000000-" SPAN "-01", ""},
        {"00-" TRACE "-0000000000000000-01", ""},
        {"00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01", ""},
        {"00-" TRACE "-" SPAN "-0", ""},
        {"00-" TRACE "-" SPAN, ""},
        {"00_" TRACE "-" SPAN "-01", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(take("traceparent", rows[i].value).traceparent, rows[i].kept);
    assert_string_equal(take("Traceparent", rows[0].value).traceparent, rows[0].kept);
}

static void ids_of_requests_are_checked(void **state) {
    (void)state;
    char longest[MS_REQUEST_ID + 1];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_string_equal(take("x-request-id", "a-1").request, "a-1");
    assert_string_equal(take("X-Request-Id", "a b").request, "");
    assert_string_equal(take("x-request-id", "a\nb").request, "");
    assert_string_equal(take("x-request-id", "\xff").request, "");
    assert_string_equal(take("x-request-id", longest).request, "");
    assert_string_equal(take("x-request-id", longest + 1).request, longest + 1);
    struct ms_ids ids = {0};
    assert_false(ms_ids_take(&ids, "x-request", 9, "a", 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traceparents_are_checked),
        cmocka_unit_test(ids_of_requests_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
