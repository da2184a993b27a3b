/* SPDX-License-Identifier: Apache-2.0
 * text.c - texts in memory of the caller's; see text.h. */
#include "runtime/base/text.h"

#include <stdarg.h>
#include <stdio.h>

struct mo_text mo_text_in(char *out, size_t room) {
    out[0] = 0;
    return (struct mo_text){.out = out, .room = room};
}

void mo_text_put(struct mo_text *t, const char *format, ...) {
    va_list values;
    va_start(values, format);
    int n = vsnprintf(t->out + t->n, t->room - t->n, format, values);
    va_end(values);
    if (n < 0) return;
    t->cut |= (size_t)n >= t->room - t->n;
    t->n = t->cut ? t->room - 1 : t->n + (size_t)n;
}
