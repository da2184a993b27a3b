/* SPDX-License-Identifier: Apache-2.0
 * recorded.h - for tests: what was recorded in memory, given to the history checker. */
#ifndef MO_HISTORY_RECORDED_H
#define MO_HISTORY_RECORDED_H
#include "runtime/engine/device.h"
#include "runtime/sched/events.h"

/* Fails the test unless the checker accepts the events and finds `queries` queries in them. */
void history_of_events(struct mo_events *events, int n_cores, int64_t queries);
/* The same for what a drained device has recorded. */
void history_of_device(struct mo_device *device, int64_t queries);
#endif
