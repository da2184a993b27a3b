/* SPDX-License-Identifier: Apache-2.0
 * sys_posix.h - the parts of the real machine's table that have a file of their own. */
#ifndef MO_SYS_POSIX_H
#define MO_SYS_POSIX_H
#include "runtime/base/sys.h"

/* sys_memory.c */
void *mo_px_alloc(void *self, size_t align, size_t bytes);
void mo_px_free(void *self, void *p);

/* sys_outputs.c */
int mo_px_read_link(void *self, const char *path, char *out, size_t n);
int mo_px_may_write(void *self, const char *path, bool folder);
int mo_px_change_mode(void *self, int fd, int mode);
ssize_t mo_px_write_pipe(void *self, int fd, const void *buffer, size_t n);

/* sys_process.c */
int64_t mo_px_memory(void *self);
int mo_px_spawn(void *self, const char *const *argv, const char *log, int64_t limit);
int mo_px_fork(void *self, void (*fn)(void *ctx, void *shared), void *ctx, void *shared, int64_t limit);
void *mo_px_share(void *self, size_t bytes);
void mo_px_unshare(void *self, void *shared, size_t bytes);
/* sys_shared.c */
int mo_px_shared_file(void *self, const char *name);
int mo_px_grow(void *self, int fd, int64_t bytes);
int mo_px_map_shared(void *self, int fd, int64_t offset, size_t bytes, void **out);
int mo_px_discard(void *self, int fd, int64_t offset, int64_t bytes);
void mo_px_shared_wait(void *self, _Atomic uint32_t *word, uint32_t value, int64_t deadline);
void mo_px_shared_wake(void *self, _Atomic uint32_t *word, int n);

int mo_px_mark_process(void *self, const _Atomic uint32_t **out);

/* sys_posix.c */
int64_t mo_px_now(void *self);

/* sys_background.c */
int mo_px_start_process(void *self, const char *const *argv, const int *fds, int n, struct mo_child *out);
void mo_px_kill_process(void *self, const struct mo_child *process);
int mo_px_end_process(void *self, struct mo_child *process, int64_t deadline);
int mo_px_own_folder(void *self, char *out, size_t n);
int mo_px_own_program(void *self, char *out, size_t n);

/* sys_counters.c */
int mo_px_count_on_cpu(void *self, uint32_t type, uint64_t event, int cpu);

/* sys_priority.c */
int mo_px_background(void *self);
int mo_px_foreground(void *self);

/* sys_user.c */
int mo_px_caches(void *self, char *out, size_t n);
int mo_px_real_path(void *self, const char *path, char *out, size_t n);
#endif
