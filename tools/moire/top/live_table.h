/* SPDX-License-Identifier: Apache-2.0
 * live_table.h - what a server shows as lines of text: who is below its target, the server, a row a tenant.
 */
#ifndef MO_LIVE_TABLE_H
#define MO_LIVE_TABLE_H
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct mo_live_view {
    bool colours;
    int rows;        /* most tenants; the worst come first */
    const char *end; /* of a line */
};

/* now: a document of mo_live_fetch().  before: an earlier one, `seconds` ago, since when latencies and rates
 * count; NULL: since the start. */
void mo_live_print(const struct mo_live_view *view, const json_t *now, const json_t *before, double seconds,
                   FILE *out);
#endif
