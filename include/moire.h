/* SPDX-License-Identifier: Apache-2.0
 * moire.h - the public interface of libmoire, a multi-tenant DNN inference runtime.
 *
 * A program creates a runtime, loads ONNX files as tenants, submits queries and is called back with their
 * answers.  This page has those calls and includes moire_stats.h (what a server shows of them), moire_model.h
 * (what a file says before it is loaded) and moire_threads.h (threads of the host).  Each call says what it
 * does, who owns what, and at its end under "Returns" every code that it gives and when.
 *
 * Errors.  Every call that can fail returns 0 (MOIRE_OK) or a negative `enum moire_code`.  One whose last
 * argument is a `moire_error` fills it, unless it is NULL, with a line that says what is wrong and what to
 * do. No call exits, aborts on bad input, prints, or reads the environment but for moire_config's folders.
 *
 * Units.  Time is in nanoseconds of one monotonic clock, moire_now(); sizes are in bytes.  Shapes are
 * row-major, outermost dimension first.
 *
 * Ownership.  What a call takes (paths, names, tensors, configs) is the caller's again when it returns.
 *
 * Threads.  Every call may be made from any thread at any time, except that a handle must not be used after
 * the call that destroys it began.  Callbacks run on a thread of the runtime, one at a time for a query but
 * several for several queries.  They must be short, and may call moire_submit(), moire_submit_with(),
 * moire_submit_many(), moire_cancel() and whatever only reads; they must not wait for other queries
 * (moire_run(), moire_drain(), moire_tenant_drain()), load, unload or destroy.
 *
 * fork().  A runtime has threads, and the child of a fork() has none of them.  What the child calls with a
 * runtime or tenant from before fails at once with MOIRE_EFORKED (moire_runtime_destroy() returns and frees
 * nothing; the parent is not touched); names and shapes of ports, the clock and limits can be read.  Create
 * runtimes after fork(): the child may, too.
 *
 * Versions.  A struct that begins with `size` may grow at its end, and is filled or read as far as its caller
 * knows it: set size to sizeof, or use its _init().  moire_answer, which only the runtime makes, may grow
 * too. All other structs and all calls stay as they are while MOIRE_ABI_VERSION does. */
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
/* Of the binary interface; the number in the library's name, libmoire.so.N. */
#define MOIRE_ABI_VERSION 0

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

/* Name of a code.  Returns: "MOIRE_EINVAL" or the like, "MOIRE_UNKNOWN" for none; never NULL. */
MOIRE_API const char *moire_code_name(int code);
/* A code in words.  Returns: a text without a line's end, "unknown code" for none; never NULL. */
MOIRE_API const char *moire_code_text(int code);
/* Version of the library, which may be newer than this header.  Returns: "0.1.0" or the like. */
MOIRE_API const char *moire_version(void);
/* Returns: the binary interface's version; a program of another MOIRE_ABI_VERSION must call nothing else. */
MOIRE_API int moire_abi_version(void);

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
typedef uint64_t moire_query;               /* handle of one accepted query; never 0, carries a generation */

/* Message levels of the log callback. */
enum { MOIRE_LOG_ERROR = 0, MOIRE_LOG_WARN = 1, MOIRE_LOG_INFO = 2, MOIRE_LOG_DEBUG = 3 };

/* A limit by its name in moire_limits(), and the value it is to have. */
typedef struct moire_limit_setting {
    const char *name;
    int64_t value;
} moire_limit_setting;

/* --- runtimes ------------------------------------------------------------------------------------------- */
/* Set `size` to sizeof(moire_config), or use moire_config_init(); zero fields mean the default. */
typedef struct moire_config {
    size_t size;
    int threads;        /* cores to use; 0 = all that affinity and cgroup quota allow */
    const char *policy; /* name of a policy for service (docs/policies.md); NULL = "moire" */
    /* Folder of compiled variants: a path without symbolic links that only its owner writes to.  NULL = where
     * `moire compile` writes unless it is told otherwise: $XDG_CACHE_HOME/moire/store;
     * $HOME/.cache/moire/store when XDG_CACHE_HOME is no absolute path; below the home of the user database
     * when HOME is none either. Of the environment the library reads these two variables and nothing else,
     * and not in a program that has more rights than its caller.  The log says which folder it is. */
    const char *store;
    int generic_only; /* 1: ignore the store, use the built-in kernels */
    int64_t block_ns; /* bound on a block's predicted time; 0 = policy's default */
    int max_queries;  /* accepted and unanswered queries over all tenants; 0 = limits table */
    int no_pin;       /* 1: leave worker threads unpinned */
    void (*log)(void *user, int level, const char *line); /* NULL = silent */
    void *log_user;
    int lend_workers; /* 1: start no worker threads; the host's threads work by moire_work() */
    int64_t record;   /* events that every core remembers for moire_record(), 64 bytes each; 0 = none */
    /* Source of the pressure that neighbours put on shared caches, by which policies choose versions: "papi"
     * or "resctrl" (counters) or "slowdown" (of the models' own blocks).  NULL or "auto": the source that the
     * proxy was fitted for; slowdown where there is none, or counters are missing or vanish (the log says
     * so). Without a proxy counters are recorded only. */
    const char *pressure;
    const char *proxy; /* file of `moire proxy fit`: turns counters into pressure; NULL = none */
    /* GPUs beside the cores: "cuda", or "cuda:FILE" of a plugin; NULL = none.  Tenants that can run there do,
     * on lets that `device_policy` (NULL = "moire-gpu") cuts, at most `device_lets` a GPU (0 = 8), in batches
     * of at most `device_batch` (0 = 32), computing in "fp32" (NULL), "tf32", "fp16" or "bf16". */
    const char *device, *device_policy, *device_precision;
    int device_lets, device_batch;
    const char *device_profiles; /* folder of NAME.csv for NAME.onnx or NAME-r2.onnx; else measured at load */
    /* Where the device's plugin runs: NULL or "in", in this process; "child", in one of its own, or
     * "child:FILE" of moire-gpu-child.  A GPU that is lost (illegal access, hang) stays lost for its process:
     * a child is started anew then, and queries go on, here they do not. */
    const char *device_process;
    /* Folder of compiled programs and choices of kernels for the next process, as safe a path as `store`.
     * NULL = "gpu" beside the default store; "" = nothing is kept. */
    const char *device_cache;
    /* Limits that are to differ from their defaults, n_limits of them; moire_limits() has the table. */
    const moire_limit_setting *limits;
    int n_limits;
    /* What the policy `moire` strives for when not every query can be in time: "every" (NULL), that no tenant
     * has a smaller share in time than it must; "all", as many queries as possible, whosever they are;
     * "weighted", the same, a query of priority p > 0 counting p + 1 times, one of p < 0 1 / (1 - p). */
    const char *objective;
    const char *device_weights; /* of `moire train`, for device_policy "inss" (docs/inss.md); NULL = none */
    const char
        *device_libraries; /* "DIR:DIR", searched for driver and CUDA before the loader does; or NULL */
} moire_config;
/* Sets every field to its default, and size.  Returns: nothing. */
MOIRE_API void moire_config_init(moire_config *config);

/* Makes a runtime and starts its threads.  config NULL: all defaults.  On success *out is the caller's, to be
 * given to moire_runtime_destroy(); else it is NULL.
 * Returns: MOIRE_OK; MOIRE_EINVAL: out is NULL, a field of the config is out of its range, or it names no
 * policy for service, objective, limit, precision or source of pressure that there is; MOIRE_ELIMIT: more
 * queries or cores than the limits allow; MOIRE_ENOMEM; MOIRE_EIO: threads cannot be started, or the file of
 * a proxy not read; MOIRE_EFORMAT: the proxy's file is malformed; MOIRE_EUNSUPPORTED, MOIRE_EDEVICE: the
 * device's plugin is not there or not of this version, there is no GPU, or it fails. */
MOIRE_API int moire_runtime_create(const moire_config *config, moire_runtime **out, moire_error *err);
/* Ends a runtime: answers what is accepted (drain != 0) or ends it MOIRE_ESHUTDOWN, unloads every tenant,
 * joins the threads and frees all.  NULL is fine.  No other call may be under way but moire_work().
 * Returns: nothing, when every callback has returned. */
MOIRE_API void moire_runtime_destroy(moire_runtime *runtime, int drain);
/* Waits until nothing accepted is unanswered and every callback has returned.  It ends while others submit
 * only if there is such a moment.
 * Returns: MOIRE_OK; MOIRE_EINVAL: runtime is NULL; MOIRE_EFORKED. */
MOIRE_API int moire_drain(moire_runtime *runtime);
/* Writes what the runtime has done to a text file, as far as `record` events of every core reach back:
 * arrivals with the tags of queries, decisions, block times, answers, and each tenant's profile.  `moire
 * whatif` reads it.  Call it drained.  Where tenants run on GPUs it tells of these alone, on GPUs' units.
 * Returns: MOIRE_OK; MOIRE_EINVAL: an argument is NULL, or the runtime was made without `record`;
 * MOIRE_EIO: not written; MOIRE_ENOMEM; MOIRE_EFORKED. */
MOIRE_API int moire_record(moire_runtime *runtime, const char *path, moire_error *err);
/* The runtime's clock, which arrivals, deadlines and answers are told in.
 * Returns: ns since a fixed moment; 0 when runtime is NULL. */
MOIRE_API int64_t moire_now(const moire_runtime *runtime);

/* --- tenants -------------------------------------------------------------------------------------------- */
/* Binds a symbolic or unknown input shape at load: name of the graph input and its whole shape. */
typedef struct moire_shape {
    const char *input;
    int rank;
    int64_t shape[MOIRE_MAX_RANK];
} moire_shape;

enum moire_class { MOIRE_LATENCY_CRITICAL = 0, MOIRE_BEST_EFFORT = 1 };
/* Of layers (docs/precision.md).  AUTO: what the model is in, where this processor multiplies that fast. */
enum moire_precision {
    MOIRE_PRECISION_AUTO,
    MOIRE_PRECISION_FP32,
    MOIRE_PRECISION_INT8,
    MOIRE_PRECISION_BF16,
    MOIRE_PRECISION_FP16
};
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
     * Winograd's algorithm, compiled 1x1 ones and products by a step of Strassen's: less work, rounding
     * errors up to ten times larger (some 1e-5 of an output's range), and a NaN, an infinity or a value
     * beyond 1e37 spreads over up to six pixels instead of three. */
    int exact;
    /* On a runtime with a device.  1: only there, nothing is prepared for cores; a model that cannot run
     * there is MOIRE_EUNSUPPORTED, a query that a GPU fails is MOIRE_EDEVICE.  0: cores take over. */
    int device_only;
    double rate;   /* queries/s that are expected at first, for the plan of lets; 0 = not known */
    int at_once;   /* 1: in milliseconds beside a tenant of its file, else as 0; 2: else MOIRE_ESTORE */
    int cores;     /* its queries have no more at once, all together; 0 = no bound.  Not on a device */
    double weight; /* 0 (= 1) to 1000: its share in overload under policy "moire" (docs/sharing.md) */
    enum moire_precision precision; /* on cores */
    /* With AUTO, 0 to 1.  Above 0: the fastest whose outputs differ by at most this part of their range. */
    double tolerance;
} moire_tenant_config;
/* Sets every field to its default, and size.  Returns: nothing. */
MOIRE_API void moire_tenant_config_init(moire_tenant_config *config);
/* Loads an ONNX file as a tenant, which takes from milliseconds (a compiled model) to many seconds; one load
 * is at work at a time, while others are served.  Tenants of one file share its weights, but for those of
 * compiled models.  On success *out is the caller's until moire_unload() or moire_runtime_destroy(); else
 * NULL. Returns: MOIRE_OK; MOIRE_EINVAL: an argument is NULL or a field of the config out of its range, or a
 * shape is for an input that the model does not have; MOIRE_EIO: a file cannot be read; MOIRE_EFORMAT: it is
 * no valid model; MOIRE_EUNSUPPORTED: an operator, type or opset that is not known, or with device_only not
 * on the device; MOIRE_ESHAPE: shapes do not fit or are not bound; MOIRE_ELIMIT: a limit, which the message
 * names, or the process's memory; MOIRE_ENOMEM; MOIRE_ESTORE: at_once is 2; MOIRE_EFAILED: the compiler of
 * the device's programs failed; MOIRE_EDEVICE: the device did; MOIRE_EFORKED. */
MOIRE_API int moire_load(moire_runtime *runtime, const char *path, const moire_tenant_config *config,
                         moire_tenant **out, moire_error *err);
/* Unloads a tenant at once: queries still unanswered end MOIRE_EUNLOADED.  The handle is invalid from the
 * call's beginning on.  To answer them first, call moire_tenant_drain() before.
 * Returns: MOIRE_OK when every callback has returned; MOIRE_EINVAL: tenant is NULL; MOIRE_EFORKED. */
MOIRE_API int moire_unload(moire_tenant *tenant, moire_error *err);
/* Drains a tenant for good: from now on it takes no query (MOIRE_EUNLOADED), and what it has accepted is
 * answered.  The tenant stays until moire_unload().  Others are not touched.
 * Returns: MOIRE_OK when every callback of it has returned; MOIRE_EINVAL: tenant is NULL; MOIRE_EFORKED. */
MOIRE_API int moire_tenant_drain(moire_tenant *tenant, moire_error *err);

/* An input or output of a model; the name stays valid while the tenant, or the model, does. */
typedef struct moire_port {
    const char *name;
    moire_dtype dtype;
    int rank; /* -1: known only after a run */
    int64_t shape[MOIRE_MAX_RANK];
} moire_port;
/* Inputs of the model, in the order that queries give them.  Returns: how many; 0 when tenant is NULL. */
MOIRE_API int moire_n_inputs(const moire_tenant *tenant);
/* Outputs of the model, in the order of answers.  Returns: how many; 0 when tenant is NULL. */
MOIRE_API int moire_n_outputs(const moire_tenant *tenant);
/* Describes input `index`, from 0, in *out.
 * Returns: MOIRE_OK; MOIRE_EINVAL: tenant or out is NULL, or there is no such input. */
MOIRE_API int moire_input(const moire_tenant *tenant, int index, moire_port *out);
/* Describes output `index`, from 0, in *out.
 * Returns: MOIRE_OK; MOIRE_EINVAL: tenant or out is NULL, or there is no such output. */
MOIRE_API int moire_output(const moire_tenant *tenant, int index, moire_port *out);

/* --- queries -------------------------------------------------------------------------------------------- */
/* The answer of one query.  `outputs` (n_outputs of them) and `message` belong to the runtime and are valid
 * only inside the callback.  code is MOIRE_OK or the reason why there is no result (then outputs is NULL):
 * MOIRE_EEXPIRED, MOIRE_ESHED, MOIRE_ECANCELLED, MOIRE_EUNLOADED, MOIRE_ESHUTDOWN, or of a run that failed
 * MOIRE_EFAILED, MOIRE_EDEVICE, MOIRE_ENOMEM. */
typedef struct moire_answer {
    moire_query query;
    int code;
    const char *message;
    const moire_tensor *outputs;
    int n_outputs;
    /* start_ns: of its first block, 0 = never started; deadline_ns: absolute, 0 = it had none */
    int64_t arrival_ns, start_ns, end_ns, deadline_ns;
    int64_t compute_ns; /* that its blocks took, without the pauses between them */
    uint64_t tag;       /* of its options */
} moire_answer;
typedef void (*moire_callback)(void *user, const moire_answer *answer);

#define MOIRE_NO_DEADLINE INT64_MAX

/* What a query may say for itself; zero fields mean the default. */
typedef struct moire_query_options {
    size_t size;
    int64_t arrival_ns; /* scheduled arrival on the runtime's clock; 0 = now */
    /* Absolute, on the runtime's clock.  0: arrival + the tenant's QoS, which the scheduler tries to meet and
     * a late answer misses.  Other values: the same, and a query without an answer by then is answered
     * MOIRE_EEXPIRED at once, whether it waits or runs.  MOIRE_NO_DEADLINE: it has none. */
    int64_t deadline_ns;
    /* In place of the tenant's priority where own_priority is 1.  Of a tenant's queries of one deadline those
     * of higher priority go first.  "prema" and GPUs' policies that cut batches weigh it among tenants. */
    int own_priority, priority;
    uint64_t tag; /* the caller's: comes back in the answer, and in what moire_record() writes */
    /* NULL: the call that submits copies the inputs.  Else they are lent: their data, aligned in any way,
     * stay as they are until `returned` is called with the callback's `user`, which happens exactly once for
     * each query that is accepted, on a thread of the runtime or inside of the call that submits, and of it
     * holds what is said of callbacks.  It is before the answer for a query that has begun (mostly soon after
     * it did), at the answer for one that never began, and may be after it for one that was cancelled or
     * expired when it began.  The runtime reads lent data once, into memory of its own. */
    void (*returned)(void *user);
    int late_goes_on; /* 1: deadline_ns is a target as the tenant's is: what misses it goes on */
} moire_query_options;
/* Sets every field to its default, and size.  Returns: nothing. */
MOIRE_API void moire_query_options_init(moire_query_options *options);

/* Submits one query; `inputs` (one for each input, in order, of the shapes the model was loaded for) are
 * copied before the call returns (unless its options lend them).  arrival_ns: scheduled arrival, 0 = now; the
 * deadline is arrival + QoS. Accepted = returned MOIRE_OK: then `callback` (NULL: nobody is told) runs
 * exactly once, perhaps before this returns, and *handle, unless handle is NULL, names the query.  Otherwise
 * it never runs. Returns: MOIRE_OK; MOIRE_EINVAL: tenant is NULL, arrival_ns is negative, or another number
 * of inputs; MOIRE_ESHAPE: an input's type, shape or size is not the model's; MOIRE_EBUSY: the tenant's queue
 * or the runtime is full; MOIRE_EUNLOADED: the tenant drains or is being unloaded; MOIRE_ESHUTDOWN: the
 * runtime is being destroyed; MOIRE_ENOMEM; MOIRE_EFORKED. */
MOIRE_API int moire_submit(moire_tenant *tenant, const moire_tensor *inputs, int n_inputs, int64_t arrival_ns,
                           moire_callback callback, void *user, moire_query *handle, moire_error *err);
/* As moire_submit(), with options (NULL: all defaults), which are copied.
 * Returns: as moire_submit(); MOIRE_EINVAL also: options->size is none, or a time is negative.  A deadline
 * that has passed is no error: the query is accepted and answered MOIRE_EEXPIRED. */
MOIRE_API int moire_submit_with(moire_tenant *tenant, const moire_tensor *inputs, int n_inputs,
                                const moire_query_options *options, moire_callback callback, void *user,
                                moire_query *handle, moire_error *err);

/* One of many queries: the caller fills the first three, the call the last two. */
typedef struct moire_submission {
    const moire_tensor *inputs;         /* as many as the model has, in order */
    const moire_query_options *options; /* NULL = defaults */
    void *user;                         /* for the callback */
    moire_query handle;                 /* 0: not accepted */
    int code;                           /* as moire_submit_with() would return */
} moire_submission;
/* Submits n queries of a tenant (each as if by moire_submit_with()) at once: the scheduler sees them together
 * and decides once, so that a GPU can run them as one batch, and workers are woken once.  Not all or nothing:
 * each is accepted or not on its own, in order, and says so in its code; for each accepted one the callback
 * runs once.
 * Returns: MOIRE_OK: all are accepted (n = 0 too); MOIRE_EINVAL: tenant is NULL, n is negative, or n > 0 and
 * queries is NULL; MOIRE_ENOMEM: no room for n descriptions; MOIRE_EFORKED; of these three no query's code
 * is set.  Else the code of the first that is not accepted, of which err tells. */
MOIRE_API int moire_submit_many(moire_tenant *tenant, moire_submission *queries, int n,
                                moire_callback callback, moire_error *err);
/* Submits one query and waits.  outputs[i].data must hold outputs[i].bytes; dtype, shape and bytes are set to
 * the result's.  Not for callbacks.
 * Returns: MOIRE_OK; MOIRE_EINVAL: as moire_submit(), or another number of outputs; MOIRE_ESHAPE: as
 * moire_submit(), or an output is larger than its tensor; all codes of moire_submit() and of answers. */
MOIRE_API int moire_run(moire_tenant *tenant, const moire_tensor *inputs, int n_inputs, moire_tensor *outputs,
                        int n_outputs, moire_error *err);
/* Asks that a query end MOIRE_ECANCELLED; its callback tells when it has.
 * Returns: MOIRE_OK: it will; MOIRE_ESTALE: it has been answered, or is about to be, or there is none;
 * MOIRE_EINVAL: runtime is NULL; MOIRE_EFORKED. */
MOIRE_API int moire_cancel(moire_runtime *runtime, moire_query query);

#ifdef __cplusplus
}
#endif
#include "moire_model.h"
#include "moire_stats.h"
#include "moire_threads.h"
#endif
