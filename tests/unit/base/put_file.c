/* SPDX-License-Identifier: Apache-2.0
 * put_file.c - see put_file.h. */
#define _GNU_SOURCE
#include "tests/unit/base/put_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <sys/stat.h>

void put_file(const char *folder, const char *name, const char *text, unsigned mode) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, (mode_t)mode), 0);
}
