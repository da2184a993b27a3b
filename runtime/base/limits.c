/* SPDX-License-Identifier: Apache-2.0
 * limits.c - the table of limits. */
#include "runtime/base/limits.h"

static const struct mo_limit_row rows[] = {
#define ROW(name, value, text) {#name, text, value},
    MO_LIMITS(ROW)
#undef ROW
};

struct mo_limits mo_limits_default(void) {
    return (struct mo_limits){
#define FIELD(name, value, text) .name = value,
        MO_LIMITS(FIELD)
#undef FIELD
    };
}

const struct mo_limit_row *mo_limits_table(int *n) {
    *n = (int)(sizeof rows / sizeof *rows);
    return rows;
}
