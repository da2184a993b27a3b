/* SPDX-License-Identifier: Apache-2.0
 * gpu_host.h - runs a program of a GPU by its generated kernels alone, on the host, for tests of lowering. */
#ifndef MO_TEST_GPU_HOST_H
#define MO_TEST_GPU_HOST_H
#include "runtime/base/env.h"
#include "runtime/gpu/program.h"

/* The folder of the fakes of CUDA's libraries, beside the test's program. */
const char *gpu_host_fakes(void);
/* Compiles the kernels for the host by the NVRTC in that folder and runs all operations.  Inputs as the
 * program's ports say; outputs get memory of malloc(), which the caller frees.  Every operation must stay
 * inside the places that the program gives it: the arena is poisoned with NaN before. */
int gpu_host_run(const struct mo_env *env, const char *fakes, const struct mo_gpu_program *program,
                 const moire_tensor *inputs, moire_tensor *outputs, moire_error *err);
#endif
