/* SPDX-License-Identifier: Apache-2.0
 * gpu_lets.h - programs on lets of the fake GPU, by the plugin as it is built: loaded, prepared, run,
 * unloaded.
 *
 * Each program gets the next let of one or two units, so that many of them use all SMs, and none the whole
 * GPU. What a library can take it must compute; products of one row are all that the fake cuBLASLt refuses.
 */
#ifndef MO_TEST_GPU_LETS_H
#define MO_TEST_GPU_LETS_H
#include "runtime/gpu/gpu_ops.h"
#include "runtime/gpu/program.h"

struct gpu_lets;

struct gpu_lets_counts {
    int programs;
    int lets;                           /* different ones */
    int sms, most_sms;                  /* of the GPU; of a let, at most */
    int way[MO_GPU_KINDS][MO_GPU_WAYS]; /* operations, by enum mo_gpu_op_kind and enum mo_gpu_way */
    int refused;                        /* products of one row */
};

/* `fakes` is the folder of the fakes, build/tests/fake; the plugin is build/libmoire-cuda.so. */
int gpu_lets_open(const struct mo_env *env, const char *fakes, struct gpu_lets **out, moire_error *err);
/* As gpu_host_run().  MOIRE_EFAILED also where an operation does not go by its library. */
int gpu_lets_run(struct gpu_lets *lets, struct mo_gpu_program *program, const moire_tensor *inputs,
                 moire_tensor *outputs, moire_error *err);
void gpu_lets_counts(const struct gpu_lets *lets, struct gpu_lets_counts *out);
/* MOIRE_EFAILED: the driver has seen a mistake, or something was left there. */
int gpu_lets_close(struct gpu_lets *lets, moire_error *err);
#endif
