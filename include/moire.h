/* SPDX-License-Identifier: Apache-2.0
 *
 * moire.h - the public interface of libmoire, a multi-tenant DNN inference runtime.
 *
 * Errors.  Every call that can fail returns 0 (MOIRE_OK) or a negative `enum moire_code`, and, when its
 * last argument is not NULL, fills a `moire_error` with a one-line message that says what is wrong and
 * what to do.  No call exits, aborts on bad input, prints, or reads the environment.
 *
 * Time is in nanoseconds of one monotonic clock.  Shapes are row-major, outermost dimension first.
 *
 * Threads.  Every call may be made from any thread, except that a handle must not be used after the call
 * that destroys it.  Callbacks run on a runtime worker: they must be short and may call moire_submit().
 *
 * fork().  A runtime has threads, and the child of a fork() has none of them.  What the child calls with a
 * runtime or tenant from before fails at once with MOIRE_EFORKED (moire_runtime_destroy() returns and frees
 * nothing; the parent is not touched); names and shapes of ports can be read.  Create runtimes after fork():
 * the child may, too.
 */
#ifndef MOIRE_H
#define MOIRE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOIRE_VERSION_MAJOR  0
#define MOIRE_VERSION_MINOR  1
#define MOIRE_VERSION_STRING "0.1.0"

#if defined(__GNUC__)
#define MOIRE_API __attribute__((visibility("default")))
#else
#define MOIRE_API
#endif

/* One list of codes: enum, name and text all come from it.  X(NAME, value, "text") */
#define MOIRE_CODES(X)                                                                                       \
    X(OK, 0, "ok")                                                                                           \
    X(EINVAL, -1, "invalid argument")                                                                        \
    X(ENOMEM, -2, "out of memory")                                                                           \
    X(EIO, -3, "file or system error")                                                                       \
    X(EFORMAT, -4, "malformed file")                                                                         \
    X(EUNSUPPORTED, -5, "unsupported operator, type or version")                                             \
    X(ESHAPE, -6, "shape mismatch or unbound dimension")                                                     \
    X(ELIMIT, -7, "a limit was exceeded")                                                                    \
    X(EBUSY, -8, "queue full, try later")                                                                    \
    X(EEXPIRED, -9, "deadline passed before an answer")                                                      \
    X(ESHED, -10, "shed: the deadline could no longer be met")                                               \
    X(ECANCELLED, -11, "cancelled by the caller")                                                            \
    X(EFAILED, -12, "execution failed")                                                                      \
    X(EUNLOADED, -13, "tenant unloaded")                                                                     \
    X(ESHUTDOWN, -14, "runtime shutting down")                                                               \
    X(ESTORE, -15, "variant store unusable or entry damaged")                                                \
    X(ECOMPILER, -16, "no usable C compiler, or it failed")                                                  \
    X(EINTERRUPTED, -17, "interrupted")                                                                      \
    X(ESTALE, -18, "handle no longer valid")                                                                 \
    X(EINTERNAL, -19, "internal error")                                                                      \
    X(EDEVICE, -20, "device lost")                                                                           \
    X(EFORKED, -21, "the runtime stayed behind in the process that forked")

enum moire_code {
#define MOIRE_CODE_ENUM(name, value, text) MOIRE_##name = value,
    MOIRE_CODES(MOIRE_CODE_ENUM)
#undef MOIRE_CODE_ENUM
};

/* A code and its one-line message.  Owned by the caller; filled only on failure. */
typedef struct moire_error {
    int code;
    char message[500];
} moire_error;

/* Name ("MOIRE_EINVAL") and text of a code; never NULL. */
MOIRE_API const char *moire_code_name(int code);
MOIRE_API const char *moire_code_text(int code);
MOIRE_API const char *moire_version(void);

/* Element types; the values are those of ONNX TensorProto.DataType. */
typedef enum moire_dtype {
    MOIRE_NONE = 0,
    MOIRE_F32 = 1,
    MOIRE_U8 = 2,
    MOIRE_I8 = 3,
    MOIRE_U16 = 4,
    MOIRE_I16 = 5,
    MOIRE_I32 = 6,
    MOIRE_I64 = 7,
    MOIRE_STRING = 8,
    MOIRE_BOOL = 9,
    MOIRE_F16 = 10,
    MOIRE_F64 = 11,
    MOIRE_U32 = 12,
    MOIRE_U64 = 13,
    MOIRE_BF16 = 16
} moire_dtype;

#define MOIRE_MAX_RANK 8

/* A dense row-major tensor that the caller owns. */
typedef struct moire_tensor {
    moire_dtype dtype;
    int rank;
    int64_t shape[MOIRE_MAX_RANK];
    void *data;
    size_t bytes; /* size of data */
} moire_tensor;

typedef struct moire_runtime moire_runtime; /* worker teams, queues, policy: one a process, usually */
typedef struct moire_tenant moire_tenant;   /* a loaded model with its QoS */
typedef uint64_t moire_query;               /* handle of one accepted query; carries a generation */

/* Message levels of the log callback. */
enum { MOIRE_LOG_ERROR = 0, MOIRE_LOG_WARN = 1, MOIRE_LOG_INFO = 2, MOIRE_LOG_DEBUG = 3 };

/* Set `size` to sizeof(moire_config), or use moire_config_init(); zero fields mean the default. */
typedef struct moire_config {
    size_t size;
    int threads;        /* cores to use; 0 = all that affinity and cgroup quota allow */
    const char *policy; /* name of a policy; NULL = "moire" */
    /* Folder of compiled variants: a path without symbolic links that only its owner writes to.  NULL = where
     * `moire compile` writes unless it is told otherwise: $XDG_CACHE_HOME/moire/store;
     * $HOME/.cache/moire/store when XDG_CACHE_HOME is no absolute path; below the home of the user database
     * when HOME is none either. Of the environment the library reads these two variables and nothing else,
     * and not in a program that has more rights than its caller.  The log says at MOIRE_LOG_INFO which folder
     * it is and whether anything is there. */
    const char *store;
    int generic_only; /* 1: ignore the store, use the built-in kernels */
    int64_t block_ns; /* bound on a block's predicted time; 0 = policy's default */
    int max_queries;  /* accepted and unanswered queries over all tenants; 0 = limits table */
    int no_pin;       /* 1: leave worker threads unpinned */
    void (*log)(void *user, int level, const char *line); /* NULL = silent */
    void *log_user;
    int lend_workers; /* 1: start no worker threads; the host's threads work by moire_work() */
    int64_t record;   /* events that every core remembers for moire_record(), 64 bytes each; 0 = none */
    /* What tells how much neighbours press on shared caches, for policies that choose versions by it: "papi",
     * "resctrl" (counters), "slowdown" (of the models' own blocks); NULL or "auto" = what the proxy is for,
     * without a proxy slowdown.  Counters that are not there, or that vanish later, cost a line in the log,
     * and slowdown takes their place.  Without a proxy counters are only recorded. */
    const char *pressure;
    const char *proxy; /* file of `moire proxy fit`: turns counters into pressure; NULL = none */
    /* GPUs beside the cores: "cuda", or "cuda:FILE" of a plugin; NULL = none.  Tenants that can run there do,
     * on lets that `device_policy` (NULL = "moire-gpu") cuts, at most `device_lets` a GPU (0 = 8), in batches
     * of at most `device_batch` (0 = 32), computing in "fp32" (NULL), "tf32", "fp16" or "bf16". */
    const char *device, *device_policy, *device_precision;
    int device_lets, device_batch;
    const char *device_profiles; /* folder of share profiles, NAME.csv of NAME.onnx or NAME-r2.onnx; NULL, or
                                    none of the model's file: it is measured at load */
    /* Where the device's plugin runs: NULL or "in", in this process; "child", in one of its own, or
     * "child:FILE" of moire-gpu-child.  A GPU that is lost (illegal access, hang) stays lost for its process:
     * a child is started anew then, and queries go on, here they do not. */
    const char *device_process;
    /* Folder where the device keeps compiled programs and choices of kernels for the next process: a path
     * without symbolic links that only its owner writes to.  NULL = "gpu" beside the default "store" (see
     * there); "" = nothing is kept. */
    const char *device_cache;
} moire_config;
MOIRE_API void moire_config_init(moire_config *config);

/* Lends the calling thread as worker `core` (0 .. threads-1) of a runtime made with lend_workers; returns
 * when the runtime is destroyed.  Every core needs one before models load.  For hosts that have a team
 * already: #pragma omp parallel num_threads(n + 1) { if (omp_get_thread_num()) moire_work(rt,
 * omp_get_thread_num() - 1); else { serve(rt); destroy(rt); } } MOIRE_EINVAL: no such core, or it has its
 * worker. */
MOIRE_API int moire_work(moire_runtime *runtime, int core);

/* Binds a symbolic or unknown input shape at load: name of the graph input and its whole shape. */
typedef struct moire_shape {
    const char *input;
    int rank;
    int64_t shape[MOIRE_MAX_RANK];
} moire_shape;

enum moire_class { MOIRE_LATENCY_CRITICAL = 0, MOIRE_BEST_EFFORT = 1 };

typedef struct moire_tenant_config {
    size_t size;
    const char *name; /* for reports; NULL = the file name */
    int64_t qos_ns;   /* latency target; 0 = none */
    enum moire_class cls;
    int priority;  /* higher first among equals */
    int queue;     /* accepted and waiting queries; 0 = limits table */
    int shed_late; /* 1: a query that can no longer make its deadline is answered MOIRE_ESHED */
    const moire_shape *shapes;
    int n_shapes;
    /* 1: convolutions and matrix products are summed as ONNX writes them.  0: 3x3 convolutions may go by
     * Winograd's algorithm, which does 2 to 5 times less work; its rounding errors are up to ten times larger
     * (some 1e-5 of an output's range), and a NaN, an infinity or a value beyond 1e37 spreads over up to six
     * pixels instead of three.  Compiled 1x1 convolutions and matrix products may go by one step of
     * Strassen's, an eighth less work, errors up to three times larger; there such a value spreads to one
     * other pixel or row. */
    int exact;
    /* On a runtime with a device.  1: only there, and nothing is prepared for cores; a model that cannot run
     * there is MOIRE_EUNSUPPORTED, and a query that a GPU fails is answered so (MOIRE_EDEVICE).  0: cores
     * take over. */
    int device_only;
    double rate; /* queries/s that are expected at first, for the plan of lets; 0 = not known */
} moire_tenant_config;
MOIRE_API void moire_tenant_config_init(moire_tenant_config *config);

/* Starts worker threads.  On success *out must be given to moire_runtime_destroy(). */
MOIRE_API int moire_runtime_create(const moire_config *config, moire_runtime **out, moire_error *err);
/* Answers what is accepted (drain != 0) or resolves it MOIRE_ESHUTDOWN, joins the threads, frees all. */
MOIRE_API void moire_runtime_destroy(moire_runtime *runtime, int drain);

/* Loads an ONNX file as a tenant: import, passes, kernels, packed weights, solo profile. */
MOIRE_API int moire_load(moire_runtime *runtime, const char *path, const moire_tenant_config *config,
                         moire_tenant **out, moire_error *err);
/* Queries still unanswered end MOIRE_EUNLOADED; returns when none is left. */
MOIRE_API int moire_unload(moire_tenant *tenant, moire_error *err);

/* Inputs and outputs of a loaded model; names stay valid while the tenant lives. */
typedef struct moire_port {
    const char *name;
    moire_dtype dtype;
    int rank; /* -1: known only after a run */
    int64_t shape[MOIRE_MAX_RANK];
} moire_port;
MOIRE_API int moire_n_inputs(const moire_tenant *tenant);
MOIRE_API int moire_n_outputs(const moire_tenant *tenant);
MOIRE_API int moire_input(const moire_tenant *tenant, int index, moire_port *out);
MOIRE_API int moire_output(const moire_tenant *tenant, int index, moire_port *out);

/* The answer of one query.  `outputs` (n_outputs of them) belong to the runtime and are valid only inside
 * the callback; code is MOIRE_OK or the reason why there is no result (then outputs is NULL). */
typedef struct moire_answer {
    moire_query query;
    int code;
    const char *message;
    const moire_tensor *outputs;
    int n_outputs;
    int64_t arrival_ns, start_ns, end_ns, deadline_ns;
} moire_answer;
typedef void (*moire_callback)(void *user, const moire_answer *answer);

/* Submits one query; `inputs` (one for each input, in order) are copied before the call returns.
 * arrival_ns: scheduled arrival, 0 = now; the deadline is arrival + QoS.  Accepted = returned MOIRE_OK:
 * then `callback` runs exactly once.  Otherwise it never runs. */
MOIRE_API int moire_submit(moire_tenant *tenant, const moire_tensor *inputs, int n_inputs, int64_t arrival_ns,
                           moire_callback callback, void *user, moire_query *handle, moire_error *err);
/* Submits and waits; outputs[i].data must hold outputs[i].bytes; shape and bytes are set to the result's. */
MOIRE_API int moire_run(moire_tenant *tenant, const moire_tensor *inputs, int n_inputs, moire_tensor *outputs,
                        int n_outputs, moire_error *err);
/* Asks that a query end MOIRE_ECANCELLED; MOIRE_ESTALE when it has been answered already. */
MOIRE_API int moire_cancel(moire_runtime *runtime, moire_query query);
/* Waits until nothing accepted is unanswered. */
MOIRE_API int moire_drain(moire_runtime *runtime);
/* Writes what the runtime has done to a text file, as far as `record` events of every core reach back:
 * arrivals, decisions, block times, answers, and each tenant's profile.  `moire whatif` reads it. Call it
 * drained.  Where tenants run on GPUs it tells of these, on the GPUs' units, and of no others.  MOIRE_EINVAL:
 * the runtime was made without `record`; MOIRE_EIO: not written. */
MOIRE_API int moire_record(moire_runtime *runtime, const char *path, moire_error *err);
/* The runtime's clock, ns. */
MOIRE_API int64_t moire_now(const moire_runtime *runtime);

#ifdef __cplusplus
}
#endif
#endif
