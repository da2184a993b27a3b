/* SPDX-License-Identifier: Apache-2.0
 * live_fetch.h - asks a server for what it shows: GET /v2/moire/live (docs/serving-metrics.md). */
#ifndef MO_LIVE_FETCH_H
#define MO_LIVE_FETCH_H
#include <jansson.h>
#include "tools/moire/top/live_link.h"

/* On success *out is the caller's.  Returns: MOIRE_OK; what mo_live_open() returns; MOIRE_EIO: an answer with
 * another status than 200; MOIRE_EFORMAT: the answer is none of moire's. */
int mo_live_fetch(const struct mo_live_server *server, json_t **out, moire_error *err);
/* The token that a file holds: its first line, without what surrounds it; to be freed.
 * Returns: MOIRE_OK; MOIRE_EIO; MOIRE_EFORMAT: there is no token that a header can carry; MOIRE_ENOMEM. */
int mo_live_read_token(const char *path, char **out, moire_error *err);
#endif
