/* SPDX-License-Identifier: Apache-2.0
 * exec_impl.h - the inside of exec.h: what of a program lies on a GPU.
 *
 *   exec      libraries, weights of all programs (content shared within a model), one stream for set-up
 *   loaded    a program: machine code, places of weights, an arena with scratch memory for each instance
 *   choices   for one number of SMs: how every operation is done (library with algorithm, or kernel)
 *   graphs    for one place and instance: a CUDA graph for each segment
 *
 * Choices and graphs are lists that only grow until the program is unloaded or the place forgotten. */
#ifndef MO_CUDA_EXEC_IMPL_H
#define MO_CUDA_EXEC_IMPL_H
#include "runtime/gpu/cuda/blas.h"
#include "runtime/gpu/cuda/dnn.h"
#include "runtime/gpu/cuda/exec.h"
#include "runtime/gpu/cuda/fail.h"
#include "runtime/gpu/cuda/cache.h"
#include "runtime/gpu/cuda/rtc.h"
#include "runtime/base/lock.h"
#include "runtime/gpu/gpu_ops.h"

enum {
    MO_EXEC_ZEROS = 64 << 10,  /* bytes that are zero: the bias of a convolution that has none */
    MO_EXEC_STAGING = 8 << 20, /* page-locked memory that weights go through */
    MO_EXEC_FEW_CHANNELS = 16  /* convolutions with fewer are hard on libraries */
};

/* A weight on the GPU, shared by the programs of one model. */
struct mo_exec_weight {
    struct mo_exec_weight *next;
    uint64_t model, sum;
    int64_t bytes;
    int uses;
    mo_cu_ptr at;
};

struct mo_cuda_exec {
    struct mo_cuda_exec_config config;
    const struct mo_env *env;
    const struct mo_cuda_driver *cu;
    struct mo_cuda_rtc rtc;
    struct mo_cuda_cache *cache; /* NULL: nothing is kept */
    struct mo_cuda_dnn dnn;
    struct mo_cuda_blas blas;
    bool has_dnn, has_blas;
    _Atomic bool abandoned;
    char libraries[400];
    mo_cu_stream stream; /* uploads */
    mo_cu_ptr zeros;
    mo_cu_ptr trial; /* memory in which kernels are tried out, of no program's bytes */
    size_t trial_bytes;
    struct mo_exec_weight *weights;
    struct mo_cuda_loaded *loaded;
};

struct mo_exec_choice {
    enum mo_gpu_way way;
    bool timed; /* way is MO_GPU_BY_KERNEL because that was faster than the library */
    union {
        struct mo_dnn_plan dnn;
        struct mo_blas_plan blas;
    };
};

struct mo_exec_choices {
    struct mo_exec_choices *next;
    int sms;
    struct mo_exec_choice of[]; /* every operation */
};

struct mo_exec_graphs {
    struct mo_exec_graphs *next;
    uint32_t place;
    int instance;
    /* one each, and behind them the whole program where it has several; NULL: not yet */
    mo_cu_graph_exec segment[];
};

struct mo_cuda_loaded {
    struct mo_cuda_loaded *next;
    struct mo_cuda_exec *exec;
    struct mo_region *region;
    struct mo_gpu_program program; /* a copy, in the region; no contents of weights */
    int instances;
    int64_t bytes, arena_bytes; /* arena_bytes: activations, then scratch memory, */
    int64_t space;              /* which is none where no library can have a part */
    struct mo_exec_module *modules;
    mo_cu_function *functions; /* of every kernel; NULL: not compiled */
    struct mo_exec_weight **weights;
    struct mo_exec_core *core; /* of every instance and operation; NULL: the program leaves none to cores */
    struct mo_cuda_failure *failure; /* of every instance */
    void *core_memory;               /* page-locked */
    mo_cu_ptr *arenas;               /* of every instance */
    struct mo_exec_choices *choices;
    struct mo_exec_graphs *graphs;
    struct mo_lock listing; /* guards `graphs`: a run looks for its own while others are made */
};

/* exec.c.  The driver may still be called: the GPU is not lost. */
bool mo_exec_usable(const struct mo_cuda_exec *exec);
/* Waits until the work in a stream has ended; the driver's result.  In place of cuStreamSynchronize, which
 * would never return from a GPU that hangs: MO_CU_LAUNCH_TIMEOUT, and the GPU is abandoned, when it is lost
 * meanwhile or after hang_ns. */
unsigned mo_exec_wait(struct mo_cuda_exec *exec, mo_cu_stream stream);

/* Graphs of a place and instance. */
static inline int mo_exec_graph_count(const struct mo_gpu_program *program) {
    return program->n_segments + (program->n_segments > 1);
}

/* exec_code.c.  Compiles what the program is known to need. */
int mo_exec_code_begin(struct mo_cuda_loaded *loaded, moire_error *err);
/* Compiles those of the kernels (wanted[n_kernels]) that are not there yet. */
int mo_exec_code_load(struct mo_cuda_loaded *loaded, const bool *wanted, moire_error *err);
void mo_exec_code_free(struct mo_cuda_loaded *loaded);
/* Whether an operation's generated kernel runs, or is at least tried beside its library's. */
bool mo_exec_tries_kernel(const struct mo_cuda_exec *exec, const struct mo_gpu_op *op);

/* exec_core.c: layers on cores.  begin(): arenas are there. */
int mo_exec_core_begin(struct mo_cuda_loaded *loaded, moire_error *err);
void mo_exec_core_free(struct mo_cuda_loaded *loaded);
int mo_exec_core_enqueue(struct mo_cuda_loaded *loaded, int index, mo_cu_ptr arena, mo_cu_stream stream,
                         moire_error *err);
/* exec_choose.c.  Where an operand is, with activations in `arena`. */
mo_cu_ptr mo_exec_address(const struct mo_cuda_loaded *loaded, const struct mo_gpu_place *place,
                          mo_cu_ptr arena);

/* exec_recall.c.  Choices for that many SMs that an earlier process made, or else for the nearest number of
 * SMs within a factor of 1.5 that has some, but for the whole GPU.  `end` follows in any case.  That way a
 * let of a new size is ready in milliseconds while others are served. */
struct mo_exec_record;
struct mo_exec_recall {
    char name[MO_SHA256_HEX];
    struct mo_cuda_cache_item cached;
    const struct mo_exec_record *record; /* [n_ops]; NULL: there are none */
    bool of_another;                     /* number of SMs */
};
void mo_exec_recall_begin(const struct mo_cuda_loaded *loaded, int sms, struct mo_exec_recall *out);
void mo_exec_recall_end(const struct mo_cuda_loaded *loaded, struct mo_exec_recall *recall);
/* Where kernels are tried out for that many SMs: in an arena of its own, timed by its two events. */
struct mo_exec_trial {
    struct mo_cuda_loaded *loaded;
    mo_cu_ptr arena;
    mo_cu_stream stream;
    mo_cu_event begin, end;
    int sms;
};
/* The choice for one operation, if its library accepts it still: a convolution runs once. */
bool mo_exec_recall(const struct mo_exec_trial *trial, const struct mo_exec_recall *recall, int index,
                    struct mo_exec_choice *out);
/* Whether two operations differ in addresses alone; and the choice for one that is alike. */
bool mo_exec_alike(const struct mo_gpu_op *a, const struct mo_gpu_op *b);
bool mo_exec_choose_like(const struct mo_exec_trial *trial, const struct mo_exec_choice *like, int index,
                         struct mo_exec_choice *out);
/* Keeps the choices. */
void mo_exec_remember(const struct mo_cuda_loaded *loaded, const struct mo_exec_recall *recall,
                      const struct mo_exec_choices *choices);

/* Bytes of scratch memory behind the activations of an instance. */
size_t mo_exec_space(const struct mo_cuda_exec *exec);
/* Puts operation `index` into the stream, with activations in `arena`. */
int mo_exec_enqueue(struct mo_cuda_loaded *loaded, const struct mo_exec_choice *choice, int index,
                    mo_cu_ptr arena, mo_cu_stream stream, moire_error *err);
/* The choices for that many SMs, made on the stream when there are none yet. */
int mo_exec_choose(struct mo_cuda_loaded *loaded, const struct mo_cuda_target *target,
                   struct mo_exec_choices **out, moire_error *err);
/* exec_ways.c.  A line in the log: what took how long, and which ways were chosen; a warning, though the time
 * was short, where convolutions or products were chosen just now and have no library. */
void mo_exec_tell(const struct mo_cuda_loaded *loaded, const struct mo_exec_choices *choices, bool anew,
                  int64_t choosing_ns, int64_t capturing_ns);
void mo_exec_choices_free(struct mo_cuda_loaded *loaded);
struct mo_dnn_operands mo_exec_conv_operands(const struct mo_cuda_loaded *loaded,
                                             const struct mo_gpu_conv *conv, mo_cu_ptr arena);
#endif
