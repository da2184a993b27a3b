/* SPDX-License-Identifier: Apache-2.0
 * nearest.h - "did you mean": of all names that there are, the one that a mistyped word was meant to be.
 *
 * Names are offered one by one, so every table of names can be asked in its own way.  The distance is that of
 * Damerau and Levenshtein with neighbours swapped once: a letter more, less, another, or two swapped cost 1;
 * upper and lower case are the same.  A name that begins with the word costs 1. */
#ifndef MO_NEAREST_H
#define MO_NEAREST_H
#include <stddef.h>

struct mo_nearest {
    const char *word; /* what was typed; the caller's */
    const char *name; /* the nearest so far; NULL: none is near enough */
    int distance;     /* of name */
};

/* Edits from a to b; texts longer than 63 are as far as can be (64). */
int mo_edit_distance(const char *a, const char *b);
/* One name that there is; it must live as long as `nearest`.  The first of several that are as near stays.
 * Farther than a third of the word's letters (one edit at least; none for a single letter) is not near
 * enough. */
void mo_nearest_offer(struct mo_nearest *nearest, const char *name);
/* "; did you mean 'NAME'?" or "": in out, which is returned. */
const char *mo_nearest_text(const struct mo_nearest *nearest, char *out, size_t n);
#endif
