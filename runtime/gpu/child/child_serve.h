/* SPDX-License-Identifier: Apache-2.0
 * child_serve.h - the process of the GPUs, seen from inside: a plugin, and the queues of child_wire.h. */
#ifndef MO_GPU_CHILD_SERVE_H
#define MO_GPU_CHILD_SERVE_H
#include "runtime/base/env.h"

/* Serves the channel and the pool behind these descriptors until the library is gone or says goodbye, then
 * ends the process.  Returns an exit status when it cannot begin. */
int mo_child_serve(const struct mo_env *env, int link_fd, int channel_fd, int pool_fd);
#endif
