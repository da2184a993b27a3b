/* SPDX-License-Identifier: Apache-2.0
 * exec.h - programs on one GPU: cuDNN, cuBLASLt, generated kernels, weights, CUDA graphs.
 *
 * The rest of the plugin owns contexts, lets, streams and copies; this part puts a program on a GPU and
 * queues its segments on a stream.  It owns device memory: weights (once a GPU and model) and an arena for
 * each instance.  Libraries are opened with dlopen; without cuDNN or cuBLASLt the generated kernels serve,
 * and `libraries` says so; without NVRTC nothing runs (MOIRE_EUNSUPPORTED).
 *
 * A CUDA graph keeps the context of the stream it was captured on, so there is one for every program,
 * instance and place (the units of a let), and for segments at which runs are cut.  The kernels that
 * libraries offer are chosen once for each (program, number of units), and kept.
 *
 *   exec      libraries, weights of all programs (content shared within a model), one stream for set-up
 *   loaded    a program: machine code, places of weights, an arena with scratch memory for each instance
 *   choices   for one number of SMs: how every operation is done (library with algorithm, or kernel)
 *   graphs    for one place and instance: a CUDA graph for each segment
 *
 * Choices and graphs are lists that only grow until the program is unloaded or the place forgotten.
 *
 * Threads: of the functions of one mo_cuda_exec one at a time may run, but for ready(), queue() and what only
 * reads a program.  The primary context of the GPU is current in every call but queue(), where that of the
 * let is. */
#ifndef MO_CUDA_EXEC_H
#define MO_CUDA_EXEC_H
#include "runtime/base/lock.h"
#include "runtime/gpu/cuda/blas.h"
#include "runtime/gpu/cuda/cache.h"
#include "runtime/gpu/cuda/dnn.h"
#include "runtime/gpu/cuda/rtc.h"
#include "runtime/gpu/gpu_ops.h"

enum {
    MO_EXEC_ZEROS = 64 << 10,  /* bytes that are zero: the bias of a convolution that has none */
    MO_EXEC_STAGING = 8 << 20, /* page-locked memory that weights go through */
    MO_EXEC_FEW_CHANNELS = 16  /* convolutions with fewer are hard on libraries */
};

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

/* Where the first layer of an instance's run that failed on a core says so, code 0: none.  In the order of
 * the stream: whoever reads it there resets the code. */
struct mo_cuda_failure {
    int code;
    char message[300];
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
    /* The GPU is lost: unload() and close() give back host memory only from now on, for calls of the driver
     * and the libraries could wait for the GPU for ever. */
    _Atomic bool abandoned;
    char libraries[400]; /* "cuDNN 9.x, cuBLASLt 13.x, NVRTC 13.0", or what is missing */
    mo_cu_stream stream; /* uploads */
    mo_cu_ptr zeros;
    mo_cu_ptr trial; /* memory in which kernels are tried out, of no program's bytes */
    size_t trial_bytes;
    struct mo_exec_weight *weights;
    struct mo_gpu_loaded *loaded;
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

struct mo_gpu_loaded {
    struct mo_gpu_loaded *next;
    struct mo_cuda_exec *exec;
    struct mo_cuda_gpu *gpu; /* of the plugin's that loaded it (program_run.c) */
    struct mo_region *region;
    struct mo_gpu_program program; /* a copy, in the region; no contents of weights */
    int instances;
    int64_t bytes;       /* of device memory: what was taken for it */
    int64_t arena_bytes; /* activations, then scratch memory, */
    int64_t space;       /* which is none where no library can have a part */
    struct mo_exec_module *modules;
    mo_cu_function *functions; /* of every kernel; NULL: not compiled */
    struct mo_exec_weight **weights;
    struct mo_exec_core *core; /* of every instance and operation; NULL: the program leaves none to cores */
    struct mo_cuda_failure *failure; /* of every instance; NULL likewise */
    void *core_memory;               /* page-locked */
    mo_cu_ptr *arenas;               /* of every instance */
    struct mo_exec_choices *choices;
    struct mo_exec_graphs *graphs;
    struct mo_lock listing; /* guards `graphs`: a run looks for its own while others are made */
};

/* --- for the rest of the plugin ------------------------------------------------------------------------- */
int mo_cuda_exec_open(const struct mo_cuda_exec_config *config, struct mo_cuda_exec **out, moire_error *err);
void mo_cuda_exec_close(struct mo_cuda_exec *exec);

/* Compiles what is not kept, uploads, allocates.  The program may be freed afterwards.  MOIRE_ENOMEM says how
 * much was wanted.
 */
int mo_cuda_exec_load(struct mo_cuda_exec *exec, const struct mo_gpu_program *program, int instances,
                      struct mo_gpu_loaded **out, moire_error *err);
void mo_cuda_exec_unload(struct mo_gpu_loaded *loaded);
/* Chooses kernels, and captures graphs of segments [begin, end) at the target's place, for an instance or,
 * -1, for all of them. */
int mo_cuda_exec_prepare(struct mo_gpu_loaded *loaded, int instance, const struct mo_cuda_target *target,
                         int begin, int end, moire_error *err);
/* As mo_gpu_ops.program_ways. */
int mo_cuda_exec_ways(struct mo_gpu_loaded *loaded, struct mo_gpu_ways *out, int room);
/* Whether all graphs of such a run are there. */
bool mo_cuda_exec_ready(struct mo_gpu_loaded *loaded, int instance, uint32_t place, int begin, int end);
/* Queues segments [begin, end), which are ready, on the target's stream. */
int mo_cuda_exec_queue(struct mo_gpu_loaded *loaded, int instance, const struct mo_cuda_target *target,
                       int begin, int end, moire_error *err);
/* The context of that place goes away: so do the graphs captured there. */
void mo_cuda_exec_forget(struct mo_cuda_exec *exec, uint32_t place);

/* --- inside --------------------------------------------------------------------------------------------- */
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
int mo_exec_code_begin(struct mo_gpu_loaded *loaded, moire_error *err);
/* Compiles those of the kernels (wanted[n_kernels]) that are not there yet. */
int mo_exec_code_load(struct mo_gpu_loaded *loaded, const bool *wanted, moire_error *err);
void mo_exec_code_free(struct mo_gpu_loaded *loaded);
/* Whether an operation's generated kernel runs, or is at least tried beside its library's. */
bool mo_exec_tries_kernel(const struct mo_cuda_exec *exec, const struct mo_gpu_op *op);

/* exec_core.c: layers on cores.  begin(): arenas are there. */
int mo_exec_core_begin(struct mo_gpu_loaded *loaded, moire_error *err);
void mo_exec_core_free(struct mo_gpu_loaded *loaded);
int mo_exec_core_enqueue(struct mo_gpu_loaded *loaded, int index, mo_cu_ptr arena, mo_cu_stream stream,
                         moire_error *err);
/* exec_choose.c.  Where an operand is, with activations in `arena`. */
mo_cu_ptr mo_exec_address(const struct mo_gpu_loaded *loaded, const struct mo_gpu_place *place,
                          mo_cu_ptr arena);

/* exec_recall.c.  How one operation is done, as it is kept. */
struct mo_exec_record {
    uint32_t way, algorithm, fused, timed; /* algorithm and fused: of cuDNN; timed: of a kernel */
    uint64_t space;                        /* bytes of scratch memory */
    struct mo_blas_algorithm blas;
};
struct mo_exec_record mo_exec_record_of(const struct mo_exec_choice *choice);
/* Choices for that many SMs that an earlier process made, or else for the nearest number of
 * SMs within a factor of 1.5 that has some, but for the whole GPU.  `cached` is to be given back.  That way a
 * let of a new size is ready in milliseconds while others are served. */
struct mo_exec_recall {
    char name[MO_SHA256_HEX];
    struct mo_cuda_cache_item cached;
    const struct mo_exec_record *record; /* [n_ops]; NULL: there are none */
    bool of_another;                     /* number of SMs */
};
void mo_exec_recall_begin(const struct mo_gpu_loaded *loaded, int sms, struct mo_exec_recall *out);
/* Where kernels are tried out for that many SMs: in an arena of its own, timed by its two events. */
struct mo_exec_trial {
    struct mo_gpu_loaded *loaded;
    mo_cu_ptr arena;
    mo_cu_stream stream;
    mo_cu_event begin, end;
    int sms;
};
/* The choice for one operation as the record says, if its library accepts it: a convolution runs once. */
bool mo_exec_choose_as(const struct mo_exec_trial *trial, const struct mo_exec_record *record, int index,
                       struct mo_exec_choice *out);
/* Whether two operations differ in addresses alone. */
bool mo_exec_alike(const struct mo_gpu_op *a, const struct mo_gpu_op *b);
/* Keeps the choices. */
void mo_exec_remember(const struct mo_gpu_loaded *loaded, const struct mo_exec_recall *recall,
                      const struct mo_exec_choices *choices);

/* Bytes of scratch memory behind the activations of an instance. */
size_t mo_exec_space(const struct mo_cuda_exec *exec);
/* Puts operation `index` into the stream, with activations in `arena`. */
int mo_exec_enqueue(struct mo_gpu_loaded *loaded, const struct mo_exec_choice *choice, int index,
                    mo_cu_ptr arena, mo_cu_stream stream, moire_error *err);
/* The choices for that many SMs, made on the stream when there are none yet. */
int mo_exec_choose(struct mo_gpu_loaded *loaded, const struct mo_cuda_target *target,
                   struct mo_exec_choices **out, moire_error *err);
/* exec_ways.c.  A line in the log: what took how long, and which ways were chosen; a warning, though the time
 * was short, where convolutions or products were chosen just now and have no library. */
void mo_exec_tell(const struct mo_gpu_loaded *loaded, const struct mo_exec_choices *choices, bool anew,
                  int64_t choosing_ns, int64_t capturing_ns);
void mo_exec_choices_free(struct mo_gpu_loaded *loaded);
struct mo_dnn_operands mo_exec_conv_operands(const struct mo_gpu_loaded *loaded,
                                             const struct mo_gpu_conv *conv, mo_cu_ptr arena);
#endif
