/* SPDX-License-Identifier: Apache-2.0
 * exec_rig.h - a GPU with one let, on the fake driver: what lies around the executor (exec.h) in the plugin.
 *
 *     struct exec_rig r;
 *     exec_rig_open(&r, &(struct exec_rig_options){0});
 *     mo_cuda_exec_load(r.exec, program, 1, &loaded, &err); exec_rig_run(&r, loaded, 0, in, out);
 *     exec_rig_close(&r);        nothing is left in the driver, and no mistake was made */
#ifndef MO_TEST_EXEC_RIG_H
#define MO_TEST_EXEC_RIG_H
#include "runtime/gpu/cuda/driver.h"
#include "runtime/gpu/cuda/exec.h"
#include "runtime/gpu/program.h"
#include "tests/fake/cuda/fake.h"

struct exec_rig_options {
    const struct mo_env *env; /* of the executor alone; NULL: the default one */
    const char *cache;
    const char *gpu; /* name; NULL: "fake" */
    int minor;       /* of the compute capability, 9.minor */
    int sms;         /* of the let; 0: the whole GPU, 132 */
    bool no_libraries, libraries_first;
};

struct exec_rig {
    struct mo_env env;
    struct mo_cuda_object object;
    struct mo_cuda_driver cu;
    const struct mo_fake_cuda *fake;
    mo_cu_context context;
    struct mo_cuda_exec *exec;
    struct mo_cuda_target target;
    char *pinned; /* host memory that the GPU copies from and to */
};

/* What mo_cuda_exec_open() returned; the rest of the rig is there in either case. */
int exec_rig_try(struct exec_rig *r, const struct exec_rig_options *o, moire_error *err);
void exec_rig_open(struct exec_rig *r, const struct exec_rig_options *o); /* fails the test */
void exec_rig_close(struct exec_rig *r);
struct mo_graph;
struct mo_gpu_program *exec_rig_lower(const struct mo_graph *g, enum mo_gpu_precision precision,
                                      uint64_t model);
/* Until the lane's stream is idle. */
void exec_rig_settle(struct exec_rig *r);
/* Segments [begin, end) into the stream, prepared when they are not. */
int exec_rig_queue(struct exec_rig *r, struct mo_gpu_loaded *loaded, int instance, int begin, int end,
                   moire_error *err);
/* Inputs in, all segments one by one, outputs out; their data are free()d by the caller. */
void exec_rig_run(struct exec_rig *r, struct mo_gpu_loaded *loaded, int instance, const moire_tensor *in,
                  moire_tensor *out);
#endif
