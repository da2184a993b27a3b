/* SPDX-License-Identifier: Apache-2.0
 * sys.h - the one table under everything that can fail or must be replayed.
 *
 * Memory, files, threads, futex, clock, random streams, dlopen, processes and affinity are reached only
 * through a `struct mo_sys`.  Tests and the simulator hand in another table; the code above never knows.
 * All functions take `self` first.  Return values are those of the POSIX call with -errno for failures,
 * unless said otherwise. */
#ifndef MO_SYS_H
#define MO_SYS_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct mo_thread {
    uintptr_t handle;
};

/* A program that runs beside us. */
struct mo_child {
    int pid;
    int handle; /* descriptor that names the process whatever becomes of its number, or -1 */
    int link;   /* our end of a stream to it: reads end-of-file when the process is gone, and
                 * -EAGAIN every half second before */
};

/* What the trust rules ask of an open file or folder, and what tells one version of a file from another. */
struct mo_stat {
    uint32_t uid, mode; /* mode: permission bits and sticky bit only */
    int64_t size;
    int is_folder, is_file;
    uint64_t device, inode;
    int64_t modified, changed; /* ns since 1970; every change of contents or owner moves `changed` */
};

enum { MO_MARK_BYTES = 4096 };

struct mo_sys {
    void *self;
    /* memory: zero-filled, aligned (a power of two >= 16); NULL when out of memory.  Pages of a large block
     * that nobody touches take no memory. */
    void *(*alloc)(void *self, size_t align, size_t bytes);
    void (*free)(void *self, void *p);
    /* bytes that this process can have at most: of the machine, its control group, its limits; 0: not known
     */
    int64_t (*memory)(void *self);
    /* clock: monotonic nanoseconds; sleep until such a time (returns early on a signal) */
    int64_t (*now)(void *self);
    void (*sleep_until)(void *self, int64_t when);
    /* processor time of the calling thread, ns: time in which it was not running does not count */
    int64_t (*thread_time)(void *self);
    /* files */
    int (*open)(void *self, const char *path, int flags, int mode);
    ssize_t (*read)(void *self, int fd, void *buffer, size_t n);
    ssize_t (*write)(void *self, int fd, const void *buffer, size_t n);
    int64_t (*size)(void *self, int fd); /* bytes of a regular file; -EINVAL for anything else */
    int64_t (*seek)(void *self, int fd, int64_t offset);
    int (*fsync)(void *self, int fd);
    int (*close)(void *self, int fd);
    int (*rename)(void *self, const char *from, const char *to);
    int (*unlink)(void *self, const char *path);
    int (*mkdir)(void *self, const char *path, int mode);
    int (*rmdir)(void *self, const char *path);                          /* an empty folder */
    int (*read_link)(void *self, const char *path, char *out, size_t n); /* length of the target */
    /* whether the effective user may write to a file or device, or make files in a folder: 0 or -errno */
    int (*may_write)(void *self, const char *path, bool folder);
    int (*change_mode)(void *self, int fd, int mode);
    /* write() to what may be a pipe: -EPIPE, and no signal, when nobody reads */
    ssize_t (*write_pipe)(void *self, int fd, const void *buffer, size_t n);
    int (*lock)(void *self, int fd);     /* exclusive advisory lock on an open file; waits */
    int (*try_lock)(void *self, int fd); /* the same; -EWOULDBLOCK instead of waiting */
    int (*open_at)(void *self, int folder, const char *name, int flags, int mode);
    int (*stat)(void *self, int fd, struct mo_stat *out);
    uint32_t (*euid)(void *self);
    /* folder of the effective user's caches (caches.h has the rule), absolute */
    int (*caches)(void *self, char *out, size_t n);
    /* the path of something that exists, absolute and without symbolic links */
    int (*real_path)(void *self, const char *path, char *out, size_t n);
    /* calls fn for every name in a folder but "." and ".."; stops when fn returns non-zero */
    int (*list)(void *self, const char *folder, int (*fn)(void *ctx, const char *name), void *ctx);
    /* read-only view of the first `bytes` of an open file, shared with every process that maps it; 0 or
     * -errno */
    int (*map)(void *self, int fd, size_t bytes, const void **out);
    void (*unmap)(void *self, const void *at, size_t bytes);
    /* part of such a view that is read next: a hint */
    void (*want)(void *self, const void *at, size_t bytes);
    /* part of such a view that may not be read for long: its whole pages leave this process and come back
     * when they are */
    void (*drop)(void *self, const void *at, size_t bytes);
    /* a word that is 1 here and 0 in every copy of this process that fork() makes: told apart without a call
     * of the system.  Given back by unmap(), MO_MARK_BYTES; 0 or -errno */
    int (*mark_process)(void *self, const _Atomic uint32_t **out);
    /* anonymous file in memory, and what makes it immutable */
    int (*memfd)(void *self, const char *name);
    int (*seal)(void *self, int fd);
    /* memory that processes share: an anonymous file that grows and never shrinks, so that no mapping of it
     * faults; its views, for reading and writing, given back by unmap(); pages of it that nobody needs */
    int (*shared_file)(void *self, const char *name);
    int (*grow)(void *self, int fd, int64_t bytes);
    int (*map_shared)(void *self, int fd, int64_t offset, size_t bytes, void **out);
    int (*discard)(void *self, int fd, int64_t offset, int64_t bytes);
    /* threads: start returns 0 or -errno; all signals are masked on the new thread */
    int (*thread_start)(void *self, struct mo_thread *out, void *(*fn)(void *), void *arg);
    int (*thread_join)(void *self, struct mo_thread thread);
    int64_t (*thread_cpu)(void *self, struct mo_thread thread); /* ns of CPU time used by a live thread */
    /* the calling thread's name for whoever looks at the process, 15 letters of it */
    void (*name_thread)(void *self, const char *name);
    /* from now on what the calling thread does can wait for every other thread, or others wait for what it
     * does, which never takes long: 0 or -errno */
    int (*background)(void *self);
    int (*foreground)(void *self);
    int (*pin)(void *self, int cpu); /* pins the calling thread to one OS cpu; -1 = all allowed */
    int (*cpu)(void *self); /* the OS cpu that the calling thread runs on; -1 = nobody knows.  Some ns */
    /* futex: wait while *word == value, at most until `deadline` (0 = no limit); may return spuriously */
    void (*futex_wait)(void *self, _Atomic uint32_t *word, uint32_t value, int64_t deadline);
    void (*futex_wake)(void *self, _Atomic uint32_t *word, int n);
    /* the same for a word in memory that processes share */
    void (*shared_wait)(void *self, _Atomic uint32_t *word, uint32_t value, int64_t deadline);
    void (*shared_wake)(void *self, _Atomic uint32_t *word, int n);
    /* shared objects; dl_open returns NULL on failure and writes the reason */
    void *(*dl_open)(void *self, const char *path, char *reason, size_t n);
    void *(*dl_sym)(void *self, void *object, const char *symbol);
    void (*dl_close)(void *self, void *object);
    /* what is loaded by this path stays mapped when the last dl_close is done */
    void (*dl_keep)(void *self, const char *path);
    /* runs argv[0] (searched in PATH) and waits; output of the child goes to the file `log` or nowhere.
     * Returns the exit status (128+n for signal n), or -errno: -ETIMEDOUT when it had to be killed, with all
     * that it started, after `limit` ns (0 = no limit). */
    int (*spawn)(void *self, const char *const *argv, const char *log, int64_t limit);
    /* starts the program argv[0] (a path) and returns.  It has our standard error, descriptor 3 is its end of
     * `link`, and fds[i] is its 4 + i.  It does not get the signals of our terminal, and whoever started it
     * calls end_process() in the end. */
    int (*start_process)(void *self, const char *const *argv, const int *fds, int n, struct mo_child *out);
    void (*kill_process)(void *self, const struct mo_child *process); /* SIGKILL; does not wait */
    /* waits until it has ended; closing `link` is the caller's.  Status as spawn() returns it; -ETIMEDOUT
     * when it has not ended by then (0 = no limit): try again. */
    int (*end_process)(void *self, struct mo_child *process, int64_t deadline);
    /* folder of the program, or of the shared object, that this code is part of */
    int (*own_folder)(void *self, char *out, size_t n);
    int (*own_program)(void *self, char *out, size_t n); /* path of the running program */
    /* runs fn in a copy of this process (its other threads do not exist there) and waits; both see `shared`,
     * which comes from share().  Returns as spawn; 0 when fn returned.  Only for programs, never for servers.
     */
    int (*fork)(void *self, void (*fn)(void *ctx, void *shared), void *ctx, void *shared, int64_t limit);
    /* zeroed memory that a forked copy writes to and we read; NULL when there is none */
    void *(*share)(void *self, size_t bytes);
    void (*unshare)(void *self, void *shared, size_t bytes);
    /* a counter of the kernel's (perf_event_open(2): the type of its unit and its event) over everything that
     * runs on a cpu: a descriptor from which the count so far is read, 8 bytes, or -errno */
    int (*count_on_cpu)(void *self, uint32_t type, uint64_t event, int cpu);
};

/* The real machine. */
const struct mo_sys *mo_sys_posix(void);
#endif
