/* SPDX-License-Identifier: Apache-2.0
 * bytes.c - a buffer that grows; see bytes.h. */
#include "serve/protocol/bytes.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *ms_bytes_extend(struct ms_bytes *b, size_t more) {
    if (b->failed || more > SIZE_MAX / 4 || b->n > SIZE_MAX / 4) {
        b->failed = true;
        return NULL;
    }
    if (!b->at || b->n + more > b->room) {
        size_t room = b->room ? b->room : 256;
        while (room < b->n + more)
            room *= 2;
        char *at = realloc(b->at, room);
        if (!at) {
            b->failed = true;
            return NULL;
        }
        b->at = at;
        b->room = room;
    }
    char *to = b->at + b->n;
    b->n += more;
    return to;
}

void ms_bytes_reserve(struct ms_bytes *b, size_t room) {
    char *at = room > b->room ? realloc(b->at, room) : NULL;
    if (!at) return;
    b->at = at;
    b->room = room;
}

void ms_bytes_put(struct ms_bytes *b, const void *data, size_t n) {
    char *to = ms_bytes_extend(b, n);
    if (to && n) memcpy(to, data, n);
}

void ms_bytes_print(struct ms_bytes *b, const char *format, ...) {
    char text[1024]; /* longer texts are put, not printed */
    va_list values;
    va_start(values, format);
    const int n = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (n < 0 || n >= (int)sizeof text)
        b->failed = true;
    else
        ms_bytes_put(b, text, (size_t)n);
}

void ms_bytes_quote(struct ms_bytes *b, const char *text) {
    json_t *string = json_string(text);
    char *quoted = json_dumps(string, JSON_ENCODE_ANY);
    if (quoted)
        ms_bytes_put(b, quoted, strlen(quoted));
    else
        ms_bytes_print(b, "\"\xEF\xBF\xBD\"");
    free(quoted);
    json_decref(string);
}

void ms_bytes_free(struct ms_bytes *b) {
    free(b->at);
    *b = (struct ms_bytes){0};
}
