/* SPDX-License-Identifier: Apache-2.0
 * cells.h - cells of a line of comma-separated values, and the numbers in them. */
#ifndef MO_CELLS_H
#define MO_CELLS_H
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Cuts the next cell off *at, in place; NULL when the line is over. */
static inline char *mo_cell_next(char **at) {
    char *cell = *at;
    if (!cell) return NULL;
    char *comma = strchr(cell, ',');
    *at = comma ? comma + 1 : NULL;
    if (comma) *comma = 0;
    return cell;
}

/* A whole cell that is a number within [min, max], both finite; false (NULL, empty, no number, outside)
 * leaves no promise about *out.  A number too large for a double is outside; one too small is the nearest
 * there is. */
static inline bool mo_cell_number(const char *text, double min, double max, double *out) {
    char *end;
    if (!text || !*text) return false;
    *out = strtod(text, &end);
    return !*end && *out >= min && *out <= max;
}
#endif
