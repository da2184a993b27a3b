/* SPDX-License-Identifier: Apache-2.0
 * live_data.h - what happens in the server now, as the JSON of GET /v2/moire/live: the live page and `moire
 * top` read it.  docs/serving-metrics.md has its fields. */
#ifndef MS_LIVE_H
#define MS_LIVE_H
#include "serve/page/look.h"

/* The timeline of cores comes in bins of that length, for so many seconds back at most. */
enum { MS_BIN_NS = 5000000, MS_LIVE_SECONDS = 10 };

/* Appends the document.  since: the first bin of the timeline that is wanted, 0: all there are; -1: no
 * timeline. */
void ms_live_write(struct ms_repository *repository, moire_runtime *runtime, int64_t since,
                   struct ms_bytes *to);

/* timeline.c.  Appends the value of "timeline". */
void ms_timeline_write(const struct ms_look *look, moire_runtime *runtime, int64_t since,
                       struct ms_bytes *to);
#endif
