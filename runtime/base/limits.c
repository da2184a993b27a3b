/* SPDX-License-Identifier: Apache-2.0
 * limits.c - the table of limits. */
#include "runtime/base/limits.h"

#include <stddef.h>
#include <string.h>
#include "runtime/base/error.h"

struct row {
    moire_limit_row shown; /* value: the default */
    size_t at;             /* of its field in struct mo_limits */
};
static const struct row rows[] = {
#define ROW(name, value, unit, most, code, text)                                                             \
    {{#name, text, unit, value, value, most, MOIRE_##code}, offsetof(struct mo_limits, name)},
    MO_LIMITS(ROW)
#undef ROW
};
enum { ROWS = sizeof rows / sizeof *rows };
_Static_assert((int)ROWS <= (int)MO_LIMIT_ROWS, "MO_LIMIT_ROWS is too small");

struct mo_limits mo_limits_default(void) {
    return (struct mo_limits){
#define FIELD(name, value, unit, most, code, text) .name = value,
        MO_LIMITS(FIELD)
#undef FIELD
    };
}

void mo_limits_table(const struct mo_limits *limits, moire_limit_row out[MO_LIMIT_ROWS], int *n) {
    for (*n = 0; *n < ROWS; ++*n) {
        out[*n] = rows[*n].shown;
        memcpy(&out[*n].value, (const char *)limits + rows[*n].at, sizeof out[*n].value);
    }
}

int mo_limits_set(struct mo_limits *limits, const char *name, int64_t value, moire_error *err) {
    for (int i = 0; name && i < ROWS; i++) {
        const moire_limit_row *row = &rows[i].shown;
        if (strcmp(row->name, name) != 0) continue;
        if (value < 1 || value > row->most)
            return mo_fail(err, MOIRE_EINVAL, "limit '%s' must be 1 to %lld, not %lld", name,
                           (long long)row->most, (long long)value);
        memcpy((char *)limits + rows[i].at, &value, sizeof value);
        return MOIRE_OK;
    }
    return mo_fail(err, MOIRE_EINVAL, "no limit '%s'; `moire limits` lists them", name ? name : "(none)");
}
