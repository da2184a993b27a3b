/* SPDX-License-Identifier: Apache-2.0
 * sys_priority.c - a thread whose work can wait for all others, and one that others wait for.
 *
 * A high niceness alone keeps nobody from waiting: a thread that computes keeps its core for the time slice
 * that it was promised, some milliseconds, also when one of lower niceness wakes up.  From Linux 6.12 on a
 * thread may ask for a slice of its own, and whoever wakes up with a shorter one takes the core at once.  So
 * a thread in the background asks for the longest slice there is, and one that works for microseconds at a
 * time, to pass something on, for the shortest.  Neither needs a right; niceness cannot be taken back without
 * one. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "runtime/base/sys_posix.h"

/* A tenth of the time of a core that others want always: what waits shall not wait for ever. */
enum { NICENESS = 10, LONGEST_NS = 100000000, SHORTEST_NS = 100000 };

/* struct sched_attr of sched_setattr(2), which the C library does not declare. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

/* Threads of other policies than the usual one stay what their owner made them. */
static int set_slice(int least_nice, uint64_t ns) {
    struct attributes a = {.size = sizeof a};
    if (syscall(SYS_sched_getattr, 0, &a, (unsigned)sizeof a, 0)) return -errno;
    if (a.policy != SCHED_OTHER) return 0;
    a.size = sizeof a;
    a.flags = 0;
    a.runtime = ns; /* older kernels look at the niceness only */
    if (a.nice < least_nice) a.nice = least_nice;
    return syscall(SYS_sched_setattr, 0, &a, 0) ? -errno : 0;
}

int mo_px_background(void *self) {
    (void)self;
    return set_slice(NICENESS, LONGEST_NS);
}

int mo_px_foreground(void *self) {
    (void)self;
    return set_slice(INT32_MIN, SHORTEST_NS);
}
