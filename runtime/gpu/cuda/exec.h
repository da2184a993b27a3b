/* SPDX-License-Identifier: Apache-2.0
 * exec.h - programs on one GPU: cuDNN, cuBLASLt, generated kernels, weights, CUDA graphs.
 *
 * The rest of the plugin owns contexts, lets, streams and copies; this part puts a program on a GPU and
 * queues its segments on a stream.  It owns device memory: weights (once a GPU and model) and an arena for
 * each instance.  Libraries are opened with dlopen; without cuDNN or cuBLASLt the generated kernels serve,
 * and mo_cuda_exec_libraries() says so; without NVRTC nothing runs (MOIRE_EUNSUPPORTED).
 *
 * A CUDA graph keeps the context of the stream it was captured on, so there is one for every program,
 * instance and place (the units of a let), and for segments at which runs are cut.  The kernels that
 * libraries offer are chosen once for each (program, number of units), and kept.
 *
 * Threads: of the functions of one mo_cuda_exec one at a time may run, but for ready(), queue() and what only
 * reads a program.  The primary context of the GPU is current in every call but queue(), where that of the
 * let is. */
#ifndef MO_CUDA_EXEC_H
#define MO_CUDA_EXEC_H
#include "runtime/base/env.h"
#include "runtime/gpu/program.h"

struct mo_cuda_driver; /* the driver's entry points */
struct mo_cuda_exec;   /* of one GPU */
struct mo_cuda_loaded; /* a program on it */

struct mo_cuda_exec_config {
    const struct mo_env *env;
    const struct mo_cuda_driver *driver;
    const char *path;  /* folders of the libraries, as in mo_gpu_config */
    const char *cache; /* folder of what is kept (cache.h); NULL: nothing */
    const char *gpu;   /* its name, and the driver's level: choices are kept for these */
    int driver_level;
    int major, minor;         /* compute capability */
    int64_t workspace;        /* bytes that one operation may take of scratch memory; 0: 32 MiB */
    int sms, unit_sms;        /* of the whole GPU, and of a unit; lets are of whole units */
    const _Atomic bool *lost; /* set when the GPU is: whoever waits for it gives up; NULL: it never is */
    int64_t hang_ns;          /* after which a wait gives up in any case; 0: ten seconds */
    bool no_dnn, no_blas;     /* do without that library */
    bool libraries_first;     /* as in mo_gpu_config */
};

/* Where work goes: a stream of a let, and which SMs that is.  Equal `place` means the same context.
 * `marks` are two events of the stream's context, which nobody else uses while a program is prepared: a
 * stream takes no events of another context, and whoever prepares has the primary one current. */
struct mo_cuda_target {
    void *context, *stream; /* CUcontext, CUstream */
    void *marks[2];         /* CUevent */
    uint32_t place;         /* first unit and units of the let, packed by the caller */
    int sms;
};

int mo_cuda_exec_open(const struct mo_cuda_exec_config *config, struct mo_cuda_exec **out, moire_error *err);
void mo_cuda_exec_close(struct mo_cuda_exec *exec);
/* The GPU is lost: unload() and close() give back host memory only from now on, for calls of the driver and
 * the libraries could wait for the GPU for ever. */
void mo_cuda_exec_abandon(struct mo_cuda_exec *exec);
/* "cuDNN 9.x, cuBLASLt 13.x, NVRTC 13.0", or what is missing. */
const char *mo_cuda_exec_libraries(const struct mo_cuda_exec *exec);

/* Compiles what is not kept, uploads, allocates.  The program may be freed afterwards.  MOIRE_ENOMEM says how
 * much was wanted.
 */
int mo_cuda_exec_load(struct mo_cuda_exec *exec, const struct mo_gpu_program *program, int instances,
                      struct mo_cuda_loaded **out, moire_error *err);
void mo_cuda_exec_unload(struct mo_cuda_loaded *loaded);
/* Where the first layer of an instance's run that failed on a core says so, code 0: none; NULL: the program
 * has no such layers.  In the order of the stream: whoever reads it there resets the code. */
struct mo_cuda_failure {
    int code;
    char message[300];
};
struct mo_cuda_failure *mo_cuda_exec_failure(struct mo_cuda_loaded *loaded, int instance);
int64_t mo_cuda_exec_bytes(const struct mo_cuda_loaded *loaded);

/* Device address of an instance's arena: copies of inputs and outputs go to the places of the ports. */
uint64_t mo_cuda_exec_arena(const struct mo_cuda_loaded *loaded, int instance);
/* The ports, segments and batch of the program that was loaded; arrays belong to `loaded`. */
const struct mo_gpu_program *mo_cuda_exec_program(const struct mo_cuda_loaded *loaded);

/* Chooses kernels, and captures graphs of segments [begin, end) at the target's place, for an instance or,
 * -1, for all of them. */
int mo_cuda_exec_prepare(struct mo_cuda_loaded *loaded, int instance, const struct mo_cuda_target *target,
                         int begin, int end, moire_error *err);
/* As mo_gpu_ops.program_ways. */
struct mo_gpu_ways;
int mo_cuda_exec_ways(struct mo_cuda_loaded *loaded, struct mo_gpu_ways *out, int room);
/* Whether all graphs of such a run are there. */
bool mo_cuda_exec_ready(struct mo_cuda_loaded *loaded, int instance, uint32_t place, int begin, int end);
/* Queues segments [begin, end), which are ready, on the target's stream. */
int mo_cuda_exec_queue(struct mo_cuda_loaded *loaded, int instance, const struct mo_cuda_target *target,
                       int begin, int end, moire_error *err);
/* The context of that place goes away: so do the graphs captured there. */
void mo_cuda_exec_forget(struct mo_cuda_exec *exec, uint32_t place);
#endif
