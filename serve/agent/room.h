/* SPDX-License-Identifier: Apache-2.0
 * room.h - how much room a model has on this server, as a load balancer weighs it.
 *
 * Room is the part of the model's latency target that is left when all queries that the server has taken are
 * worked off: 100 % with none, 1 % when they take the whole target.  How long they take is the mean of each
 * model's answered queries, shared out over the cores.  A model without a target counts as with one second.
 */
#ifndef MS_ROOM_H
#define MS_ROOM_H
#include "serve/repository/repository.h"

enum { MS_ROOM_TEXT = 64 };

/* 1 to 100.  backlog_ns: of all queries that wait or run, on all cores; target_ns 0: none. */
int ms_room_percent(int64_t backlog_ns, int64_t target_ns);
/* What HAProxy's agent check takes, a line: "up ready 75%", "drain" when the server is to end, "down #why"
 * where the model is not ready.  name "": the server, by the tightest target. */
void ms_room_say(struct ms_repository *repository, const char *name, char out[MS_ROOM_TEXT]);
#endif
