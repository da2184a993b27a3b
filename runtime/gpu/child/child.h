/* SPDX-License-Identifier: Apache-2.0
 * child.h - a GPU plugin in a process of its own, behind the table of one in this process.
 *
 * A fault of a GPU (illegal access, hang) poisons the process that drives it, for good.  Here that process is
 * a child, `moire-gpu-child`, which loads the plugin and serves queues in shared memory (child_wire.h).  Its
 * end, whatever the reason, is seen by a thread of ours: every run in flight is answered MOIRE_EDEVICE, once;
 * a new child is started (at once, then after 0.1 s, 0.2 s ... 10 s as long as they end early); staging
 * memory, programs and lets are put there again and what was prepared is prepared.  Handles stay valid.  What
 * is asked meanwhile: run() is MOIRE_EDEVICE with the reason, lets and staging memory are made and used
 * later, programs wait for the new child for a while.  What a segment left in a program's activations goes
 * with the process: going on there is MOIRE_EDEVICE too.
 *
 * A GPU that is lost in the child takes the child with it: all its GPUs are started anew.  Staging memory is
 * shared memory that the plugin registers; where it refuses, there is no staging memory.
 *
 * The child ends with this process.  Nothing it writes is believed unless it can be true. */
#ifndef MO_GPU_CHILD_H
#define MO_GPU_CHILD_H
#include "runtime/gpu/gpu_ops.h"

/* The table; open() takes `plugin` and `process` ("child" or "child:FILE" of the program) of its config. */
const struct mo_gpu_ops *mo_gpu_child_ops(void);
/* "child" and "child:FILE" are; NULL and "in" are not; MOIRE_EINVAL for anything else. */
int mo_gpu_child_wanted(const char *process, bool *out, moire_error *err);

struct mo_gpu_child_stats {
    int pid;           /* of the child, -1: there is none now */
    int started, lost; /* children so far: that came up, and that ended without being asked to */
    int64_t down_ns;   /* longest time from a child's end until the next one served */
};
/* Of a system that mo_gpu_child_ops() opened. */
void mo_gpu_child_stats(struct mo_gpu_system *system, struct mo_gpu_child_stats *out);

/* Bounds; zero fields mean the default.  For tests. */
struct mo_gpu_child_bounds {
    int64_t load_timeout_ns; /* how long loading a program waits for a child that is gone: 10 s */
    int64_t stuck_ns;        /* a question without an answer, a record not taken: the child is ended: 120 s */
    int64_t backoff_ns;      /* first wait before a start: 0.1 s */
    int64_t settled_ns;      /* a child that lived so long begins the waits anew: 10 s */
};
void mo_gpu_child_bounds(struct mo_gpu_system *system, const struct mo_gpu_child_bounds *bounds);

/* In the child: serves the channel and the pool behind these descriptors (child_wire.h) until the library is
 * gone or says goodbye, then ends the process.  Returns an exit status when it cannot begin. */
int mo_child_serve(const struct mo_env *env, int link_fd, int channel_fd, int pool_fd);
#endif
