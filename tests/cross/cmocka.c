/* SPDX-License-Identifier: Apache-2.0
 * cmocka.c - see cmocka.h. */
#include "tests/cross/cmocka.h"

#include <setjmp.h>
#include <stdarg.h>

static jmp_buf failed; /* back to cross_run() */

_Noreturn void cross_fail(const char *file, int line, const char *format, ...) {
    va_list ap;
    printf("%s:%d: ", file, line);
    va_start(ap, format);
    vprintf(format, ap);
    va_end(ap);
    putchar('\n');
    longjmp(failed, 1);
}

int cross_run(const struct CMUnitTest *tests, size_t n) {
    volatile int wrong = 0;
    for (volatile size_t i = 0; i < n; i++) {
        void *state = tests[i].initial_state;
        printf("[ RUN      ] %s\n", tests[i].name);
        if (setjmp(failed) == 0) {
            tests[i].test_func(&state);
            printf("[       OK ] %s\n", tests[i].name);
        } else {
            wrong++;
            printf("[  FAILED  ] %s\n", tests[i].name);
        }
        fflush(stdout);
    }
    return wrong;
}
