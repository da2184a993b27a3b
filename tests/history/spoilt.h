/* SPDX-License-Identifier: Apache-2.0
 * spoilt.h - for tests of the checker: a good history passes, and each of its spoilt copies is refused for
 * the right reason. */
#ifndef MO_HISTORY_SPOILT_H
#define MO_HISTORY_SPOILT_H
#include <stddef.h>

/* How a copy is spoilt: lines from..to go, text (or nothing) comes in their place; from > to only inserts. */
struct spoilt {
    const char *rule, *what; /* the promise that it breaks, and how */
    int from, to;
    const char *text;
};

/* Writes the lines of a history, spoilt, into out[size]; returns their length. */
size_t history_spoil(const char *const *list, int count, char *out, size_t size, int from, int to,
                     const char *text);
/* Fails the test unless the history passes and every spoilt copy breaks its promise. */
void history_compare(const char *const *list, int count, const struct spoilt *bad, size_t n_bad);
#endif
