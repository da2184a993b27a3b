/* SPDX-License-Identifier: Apache-2.0
 * gpu_child.c - moire-gpu-child: the process in which a GPU plugin runs (runtime/gpu/child/child.h).  The
 * library starts it with its descriptors in place; it is of no use by hand.
 *
 * Before the driver is started it asks for as many hardware queues as there can be: with the driver's 8, the
 * ninth stream shares one, and lets of disjoint SMs wait for each other.  What the user has set stays. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "runtime/gpu/child/child.h"
#include "runtime/gpu/child/child_wire.h"

int main(void) {
    const struct mo_env env = mo_env_default();
    if (fcntl(MO_CHILD_POOL, F_GETFD) < 0) {
        fprintf(stderr, "moire-gpu-child drives the GPUs of a program that uses moire, which starts it\n");
        return 2;
    }
    if (setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0)) return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    syscall(SYS_close_range, MO_CHILD_POOL + 1, ~0U, 0); /* what our parent left open for its children */
    return mo_child_serve(&env, MO_CHILD_LINK, MO_CHILD_CHANNEL, MO_CHILD_POOL);
}
