/* SPDX-License-Identifier: Apache-2.0
 * bytes.h - a buffer that grows: bodies of requests and answers.  A buffer that could not grow is `failed`
 * and takes nothing more; who has filled it looks once, at the end. */
#ifndef MS_BYTES_H
#define MS_BYTES_H
#include <stdbool.h>
#include <stddef.h>

struct ms_bytes {
    char *at; /* NULL: empty */
    size_t n, room;
    bool failed;
};

/* Room for `more` bytes behind what is there.  Returns: where they go; NULL: out of memory. */
char *ms_bytes_extend(struct ms_bytes *b, size_t more);
/* Room for `room` bytes in all, where there is memory: so many need no moves. */
void ms_bytes_reserve(struct ms_bytes *b, size_t room);
void ms_bytes_put(struct ms_bytes *b, const void *data, size_t n);
void ms_bytes_print(struct ms_bytes *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* `text` as a JSON string, quotes and all.  Bytes that are no UTF-8 become U+FFFD. */
void ms_bytes_quote(struct ms_bytes *b, const char *text);
void ms_bytes_free(struct ms_bytes *b);
#endif
