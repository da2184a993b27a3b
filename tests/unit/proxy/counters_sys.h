/* SPDX-License-Identifier: Apache-2.0
 * counters_sys.h - a sys table over the real one in which this machine has counters: a resctrl tree below a
 * folder of the test's, and a libpapi that plays a recorded trace.
 *
 *   struct counters_sys c;
 *   counters_sys_init(&c);          env.sys = &c.table;
 *   counters_resctrl(&c, 0, "4194304", "1000");         files of cache 0; NULL takes the cache away
 *   c.papi = trace; c.papi_rows = 3;                    every read takes a row; after the last one reads fail
 *   counters_sys_close(&c);         removes the folder */
#ifndef COUNTERS_SYS_H
#define COUNTERS_SYS_H
#include <stdbool.h>
#include "tests/unit/base/fault_sys.h"

enum { COUNTERS_EVENTS = 4 };

struct counters_sys {
    struct fault_sys fault; /* counts what is open; its table is the base of ours */
    struct mo_sys table;
    char folder[64];     /* stands for / in paths below /sys/ */
    _Atomic int64_t now; /* the clock, when not 0 */
    /* libpapi; one at a time in a process, as the real one */
    const long long (
        *papi)[COUNTERS_EVENTS]; /* rows of misses, accesses, instructions, cycles; NULL = no libpapi */
    int papi_rows;
    const char *papi_lacks; /* an event that this machine does not know */
    int papi_attach;        /* what attaching to a core returns */
};

void counters_sys_init(struct counters_sys *c);
void counters_sys_close(struct counters_sys *c);
void counters_resctrl(struct counters_sys *c, int cache, const char *occupancy, const char *bytes);
/* Which cache the kernel says a cpu has. */
void counters_cache_of(struct counters_sys *c, int cpu, int cache);
/* Event sets of the fake libpapi that exist. */
int counters_papi_sets(void);
#endif
