/* SPDX-License-Identifier: Apache-2.0
 * sys_counters.c - counters of the kernel, by perf_event_open(2). */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "runtime/base/sys_posix.h"

/* Counts from now on, in all processes, until it is closed. */
int mo_px_count_on_cpu(void *self, uint32_t type, uint64_t event, int cpu) {
    (void)self;
    struct perf_event_attr what = {.type = type, .size = sizeof what, .config = event};
    const long fd = syscall(SYS_perf_event_open, &what, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}
