/* SPDX-License-Identifier: Apache-2.0
 * text.h - a text put together in memory of the caller's, cut off where that ends. */
#ifndef MO_TEXT_H
#define MO_TEXT_H
#include <stdbool.h>
#include <stddef.h>

struct mo_text {
    char *out; /* always ends with a NUL */
    size_t room, n;
    bool cut; /* more was put than there was room for */
};

/* An empty text in out[room], room at least 1. */
struct mo_text mo_text_in(char *out, size_t room);
void mo_text_put(struct mo_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
