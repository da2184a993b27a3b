/* SPDX-License-Identifier: Apache-2.0
 * sys_posix.h - the parts of the real machine's table that have a file of their own. */
#ifndef MO_SYS_POSIX_H
#define MO_SYS_POSIX_H
#include "runtime/base/sys.h"

/* sys_process.c */
int mo_px_spawn(void *self, const char *const *argv, const char *log, int64_t limit);
int mo_px_fork(void *self, void (*fn)(void *ctx, void *shared), void *ctx, void *shared, int64_t limit);
void *mo_px_share(void *self, size_t bytes);
void mo_px_unshare(void *self, void *shared, size_t bytes);
#endif
