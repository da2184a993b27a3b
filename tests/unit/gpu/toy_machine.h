/* SPDX-License-Identifier: Apache-2.0
 * toy_machine.h - for tests: a machine whose device "cuda" is the toy GPU (toy_gpu.h), as a runtime finds it.
 * Closing a device asserts that no rule was broken and nothing is left on it. */
#ifndef TOY_MACHINE_H
#define TOY_MACHINE_H
#include <stdatomic.h>
#include "moire.h"
#include "tests/unit/gpu/toy_gpu.h"

struct toy_machine {
    struct mo_sys sys;
    struct mo_env env;
    struct mo_gpu_ops ops;
    struct mo_gpu_system *system; /* the one that was opened */
    int open;
    _Atomic int64_t taken; /* bytes of memory, given back or not */
};
extern struct toy_machine toy_machine;

/* Makes the machine anew, and a config of a runtime on it: one GPU of TOY_UNITS beside two cores. */
void toy_machine_set_up(moire_config *config);
#endif
