/* SPDX-License-Identifier: Apache-2.0
 * child_serve_impl.h - the inside of the process of the GPUs: child_serve.c (the ring: runs),
 * child_serve_ask.c (the slots: all else).
 *
 * The main thread takes records off the ring and hands them to the plugin; each slot has a thread of its own,
 * so that what takes long (kernels chosen, weights copied) holds up nothing; the plugin's thread writes
 * answers.  A question waits until the records before it have been taken, so that calls are seen by the
 * plugin in the order in which they were made.  `lock` guards the tables and the ring of answers. */
#ifndef MO_GPU_CHILD_SERVE_IMPL_H
#define MO_GPU_CHILD_SERVE_IMPL_H
#include "runtime/base/lock.h"
#include "runtime/gpu/child/child.h"
#include "runtime/gpu/child/child_wire.h"
#include "runtime/gpu/program.h"

struct mo_serving_program {
    struct mo_gpu_loaded *loaded; /* NULL: none */
    int n_inputs, n_outputs, n_segments;
    int64_t *port_bytes; /* [n_inputs + n_outputs] of one query */
};

struct mo_serving_buffer {
    char *at; /* the library's memory; NULL: none */
    size_t bytes;
};

struct mo_serving_slot {
    struct mo_serving *serving;
    struct mo_child_slot *slot;
};

struct mo_serving {
    const struct mo_env *env;
    struct mo_child_channel *channel;
    int pool_fd;
    const struct mo_gpu_ops *ops;
    void *object;
    struct mo_gpu_system *system;
    struct mo_lock lock;
    struct mo_gpu_let *lets[MO_CHILD_LETS];
    struct mo_serving_program programs[MO_CHILD_PROGRAMS];
    struct mo_serving_buffer buffers[MO_CHILD_BUFFERS];
    struct mo_serving_slot slots[MO_CHILD_SLOTS];
};

/* The thread of a struct mo_serving_slot. */
void *mo_serving_answer_slot(void *slot);
#endif
