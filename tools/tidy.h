/* SPDX-License-Identifier: Apache-2.0
 * tidy.h - what the analyzer of `make lint` cannot see for itself, because it reads one file at a time;
 * run-tidy includes it before every file, no build does.
 *
 *   mo_fail, mo_fail_context        return the code that they are given: after `if (!x) rc = mo_fail(...)`
 *                                   rc is set
 *   mo_csv_fail, mo_csv_fail_cell   return MOIRE_EFORMAT
 *   _fail                           cmocka's fail_msg does not return */
#ifndef MO_TIDY_H
#define MO_TIDY_H
#define _GNU_SOURCE /* before the first system header, for the files that ask for it */
#include "runtime/base/csv.h"

static inline int mo_tidy_code(int returned, int code) {
    (void)returned;
    return code;
}
#define mo_fail(err, code, ...)         mo_tidy_code((mo_fail)(err, code, __VA_ARGS__), code)
#define mo_fail_context(err, code, ...) mo_tidy_code((mo_fail_context)(err, code, __VA_ARGS__), code)
#define mo_csv_fail(csv, ...)           mo_tidy_code((mo_csv_fail)(csv, __VA_ARGS__), MOIRE_EFORMAT)
#define mo_csv_fail_cell(csv, ...)      mo_tidy_code((mo_csv_fail_cell)(csv, __VA_ARGS__), MOIRE_EFORMAT)

_Noreturn void _fail(const char *file, int line);
#endif
