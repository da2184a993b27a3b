/* SPDX-License-Identifier: Apache-2.0
 * cuda_case.h - what tests of the CUDA plugin share: the fake driver beside the test program, a plugin opened
 * on it with a sys table that counts, runs that are kernels of the fake.
 *
 *     struct cuda_case c;
 *     cuda_case_begin(&c, &(struct mo_fake_config){.sms = 132});
 *     cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
 *     ...
 *     cuda_case_end(&c);        nothing leaked, here or in the driver, and no mistake was made
 *
 * Nothing here refers to the plugin's symbols, so that other tests need not link it. */
#ifndef CUDA_CASE_H
#define CUDA_CASE_H
#include "runtime/gpu/cuda/cuda.h"
#include "tests/fake/cuda/fake.h"
#include "tests/unit/base/fault_sys.h"

struct cuda_case {
    struct fault_sys sys;
    struct mo_env env;
    char folder[400]; /* of the fakes */
    void *object;
    const struct mo_fake_cuda *fake;
    unsigned (*launch)(void *stream, const char *name, void (*fn)(void *), const void *args, size_t bytes,
                       double sm_ns);
    const struct mo_gpu_ops *ops;
    struct mo_gpu_system *system;
    bool lost; /* the driver's objects stay behind */
};

void cuda_case_begin(struct cuda_case *c, const struct mo_fake_config *config);
/* env and path of `config` are filled in.  Returns what open() did; err may be NULL. */
int cuda_case_try(struct cuda_case *c, const struct mo_gpu_ops *ops, const struct mo_gpu_config *config,
                  moire_error *err);
void cuda_case_open(struct cuda_case *c, const struct mo_gpu_ops *ops, const struct mo_gpu_config *config);
void cuda_case_end(struct cuda_case *c);
/* No object of the driver is alive. */
void cuda_case_check_empty(struct cuda_case *c);

/* A run of one kernel of that name and time (on one SM; shared by the SMs of the let). */
struct cuda_run {
    struct cuda_case *c;
    const char *name;
    double sm_ns;
    int fail_part; /* 1 + the part whose enqueueing fails with MOIRE_ENOMEM; 0 = none */
    _Atomic int done;
    int code;
    char message[500];
    struct mo_gpu_times times;
    void (*compute)(struct cuda_run *run); /* what the kernel does, on the SMs; NULL: nothing */
    void (*then)(struct cuda_run *run);    /* on the completion thread, before `done` counts */
    struct mo_gpu_let *let;
};
struct mo_cuda_work cuda_run_work(struct cuda_run *run);
/* Until it has been answered `times` times; gives up after 20 s. */
void cuda_run_wait(struct cuda_run *run, int times);
#endif
