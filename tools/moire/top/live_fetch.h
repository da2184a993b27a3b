/* SPDX-License-Identifier: Apache-2.0
 * live_fetch.h - asks a server for what it shows: GET /v2/moire/live (docs/serving-metrics.md), by a socket.
 */
#ifndef MO_LIVE_FETCH_H
#define MO_LIVE_FETCH_H
#include <jansson.h>
#include "moire.h"

/* url: "http://HOST:PORT" (what stands behind is not looked at), "HOST:PORT", or "unix:PATH" of a socket
 * file. On success *out is the caller's. Returns: MOIRE_OK; MOIRE_EINVAL: no such URL; MOIRE_EIO: nobody
 * answers, or with another status than 200; MOIRE_EFORMAT: the answer is none of moire's; MOIRE_ENOMEM. */
int mo_live_fetch(const char *url, json_t **out, moire_error *err);
#endif
