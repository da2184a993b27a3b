/* SPDX-License-Identifier: Apache-2.0
 * fault_sys.h - a sys table over the real one that counts and makes things fail on demand.
 *
 *   struct fault_sys f;
 *   fault_sys_init(&f);            env.sys = &f.table;
 *   f.fail_alloc = k;              the k-th allocation from now fails (1 = the next); once, or ever after
 *   f.disk_bytes = n;              after n more bytes every write to a file says "no space left"
 *   f.die_at = k;                  the process kills itself (SIGKILL) in the k-th file operation
 *   assert_int_equal(fault_sys_live(&f), 0);     nothing leaked */
#ifndef FAULT_SYS_H
#define FAULT_SYS_H
#include "runtime/base/env.h"

struct fault_sys {
    struct mo_sys table; /* first: its self points to this struct */
    const struct mo_sys *real;
    _Atomic long allocs, frees;  /* so far */
    _Atomic long opened, closed; /* descriptors, mappings, objects loaded by dl_open */
    _Atomic long files;          /* file operations so far: open, write, fsync, rename, unlink, mkdir */
    _Atomic long fail_alloc;     /* counts down; 0 = off */
    int ever_after;              /* every allocation after the failing one fails too */
    _Atomic int failing;         /* set by the first failure when ever_after */
    _Atomic long disk_bytes;     /* -1 = no limit */
    long die_at;                 /* 0 = off */
    int read_only;               /* opening for writing, mkdir, rename: -EROFS */
    int no_memfd;                /* -EPERM */
    int no_spawn;                /* -ENOENT */
    uint32_t other_uid;          /* non-zero: the effective uid to report */
};

void fault_sys_init(struct fault_sys *f);
/* Allocations not freed. */
long fault_sys_live(const struct fault_sys *f);
/* Sets the k-th allocation from now to fail, clears earlier failures. */
void fault_sys_fail(struct fault_sys *f, long k, int ever_after);
/* Runs body(ctx) with the k-th allocation failing, for k = 1, 2, ... until a run needs fewer than k, each
 * time once and "ever after"; body returns what the call under test returned.  Checks that a run either
 * succeeds or says MOIRE_ENOMEM (or `also`) and that nothing leaks.  Returns how many allocations a clean run
 * makes. */
long fault_sys_sweep(struct fault_sys *f, int (*body)(void *ctx), void *ctx, int also);
#endif
