/* SPDX-License-Identifier: Apache-2.0
 * toy_gpu.h - for tests: the smallest thing that behaves like a GPU plugin.  A let takes two runs, one after
 * the other.  One thread ends runs when their time has come; it counts whatever breaks the rules of gpu.h,
 * and fails on demand.
 *
 * A program's every segment s maps x to 2 x + s + 1; one float in, one float out a query. */
#ifndef TOY_GPU_H
#define TOY_GPU_H
#include "runtime/gpu/gpu_ops.h"
#include "runtime/gpu/program.h"

enum { TOY_GPUS = 2, TOY_UNITS = 4 }; /* of a system that ops->open() opens */
enum { TOY_L2 = 2000000 };            /* bytes, of every GPU */

struct toy_gpu_faults {
    int open_let, load, prepare, run; /* the n-th call fails with `code`; 0 = none does */
    int work;                         /* so does the n-th run that was taken; */
    bool hangs;                       /* that one ends only when it counts as hung */
    int code;
};

struct toy_gpu {
    const struct mo_gpu_ops *ops;
    struct mo_gpu_system *system;
};

/* A run of n queries on u units takes (20 + 10 n) / u us, times stretch; one of some segments, their part. */
void toy_gpu_open(struct toy_gpu *toy, const struct mo_env *env, int n_gpus, int units);
void toy_gpu_close(struct toy_gpu *toy);
void toy_gpu_fail(struct toy_gpu *toy, const struct toy_gpu_faults *faults);
void toy_gpu_stretch(struct toy_gpu *toy, double factor);
/* Rules that were broken, and what there is. */
struct toy_gpu_counts {
    int broken, lets, programs, staging, runs, opened;
    int queued; /* of the runs: taken while another was on the let */
};
struct toy_gpu_counts toy_gpu_counts(struct toy_gpu *toy);
/* A lost GPU can be used again, as after a restart of its process. */
void toy_gpu_revive(struct toy_gpu *toy);

/* Its table, for a plugin; open() opens TOY_GPUS of TOY_UNITS. */
const struct mo_gpu_ops *toy_gpu_ops(void);

struct mo_gpu_program toy_gpu_program(int batch, int segments);
float toy_gpu_answer(float x, int segments);
#endif
