/* SPDX-License-Identifier: Apache-2.0
 * gpu_ops.h - the interface between the library and a plugin that drives GPUs (libmoire-cuda.so).
 *
 * A plugin exports one function, `mo_gpu_plugin`, which returns its table.  The library opens it, sees each
 * GPU as a run of *units* (the smallest group of SMs that can be set apart; 8 on an H200), opens *lets* of
 * consecutive units, loads programs once a GPU, and runs segments of them on lets.  Everything that the
 * plugin needs of the machine (memory, threads, clock, shared objects) it takes from the mo_env it is given,
 * so that faults can be injected under it.
 *
 * Which let runs what is the scheduler's business.  Lets may overlap (a larger one lends idle units; a
 * smaller one follows after a change of plan); a plugin promises only that lets of disjoint units have
 * disjoint SMs.  Opening and closing lets never waits for work on other lets.
 *
 * Errors are MOIRE_* codes with a one-line message:
 *   MOIRE_EDEVICE       the GPU is lost (illegal access, hang, fell off the bus): this GPU answers everything
 *                       with it from now on, in this process.  Only a new process can use the GPU again.
 *   MOIRE_ENOMEM        host or device memory is exhausted; nothing else is affected
 *   MOIRE_EBUSY         the let's bound on queued work is reached
 *   MOIRE_EUNSUPPORTED  driver, device or library too old, or not there; the message says what is missing
 *   MOIRE_EINVAL        an argument is out of range (a bug of the caller)
 *   MOIRE_EFAILED       this work failed, the GPU is fine
 *
 * Threads.  Every function may be called from any thread, but not two of them with the same let, or the same
 * program, at once (run() on different lets with one program is fine when the instances differ). */
#ifndef MO_GPU_H
#define MO_GPU_H
#include <stdbool.h>
#include "runtime/base/env.h"
#include "runtime/gpu/program.h"

enum {
    MO_GPU_ABI = 9,       /* raised with every change of this file, of struct mo_sys or of mo_gpu_program */
    MO_GPU_MAX = 64,      /* GPUs */
    MO_GPU_UNITS = 16,    /* units a GPU; a unit is made large enough that there are not more */
    MO_GPU_SM_WORDS = 8,  /* bitmap of SM ids */
    MO_GPU_PRIORITIES = 3 /* priority of a let: 0 urgent, 1 usual, 2 best effort */
};

struct mo_gpu_system; /* an opened plugin; the plugin's own */
struct mo_gpu_let;
struct mo_gpu_loaded; /* a program on one GPU: weights, activations, graphs */

/* Zero fields mean the default.  Copied by open(), strings too; `env` must outlive the system. */
struct mo_gpu_config {
    const struct mo_env *env;
    int queue;       /* runs accepted and not ended on one let; default 2: one runs, one is ready */
    int64_t hang_ns; /* a run that takes longer has hung and the GPU is lost; default 10 s */
    int64_t memory;  /* bytes of one GPU's memory to use at most; default: what is free */
    /* Folder for what took long to make: compiled programs, choices of kernels.  A path without symbolic
     * links, of whom nobody else can write to; made when it is missing.  NULL, "": nothing is kept. */
    const char *cache;
    /* For tests of libraries: what a library takes it computes, though a generated kernel may be faster. */
    bool libraries_first;
    /* Folders in which libcuda.so.1, NVML, NVRTC, cuDNN and cuBLASLt are looked for, separated by colons;
     * what is in none of them is found as the loader finds it.  NULL, "": all is. */
    const char *path;
    /* Not for plugins: the process that the plugin runs in.  NULL, "in": this one; "child", "child:FILE": one
     * of its own, which the library starts, watches and starts anew (runtime/gpu/child/child.h).  `plugin` is
     * the file that a child loads. */
    const char *process, *plugin;
};

struct mo_gpu_info {
    char name[96], bus[32];
    int sms;
    int units, unit_sms;      /* units * unit_sms <= sms; the let of all units has the remaining SMs too */
    int least_sms, align_sms; /* of a let, as the driver says */
    int64_t memory_total, memory_free; /* bytes */
    int64_t l2_bytes;
    int driver;       /* level of the driver's interface: 1000 * major + 10 * minor, 13000 = 13.0 */
    int major, minor; /* compute capability */
    int copy_engines;
    int clock_khz;
};

/* Of one run, in the clock of config->env.  GPU times are those of events around the work. */
struct mo_gpu_times {
    int64_t submitted;  /* run() was called */
    int64_t start, end; /* the GPU began (the first copy) and ended (the last) */
    int64_t copy_in_ns, compute_ns, copy_out_ns;
};

/* A run: segments [begin, end) of a program for `batch` queries, at most the program's, on a let. */
struct mo_gpu_run {
    struct mo_gpu_let *let;
    struct mo_gpu_loaded *program;
    /* 0 .. instances - 1: which activations; what a segment leaves there the next one reads.  Runs in the
     * queue of one let, which are done one after the other, may name the same one. */
    int instance;
    int begin, end, batch;
    /* In staging memory, [batch * n_inputs], query by query: inputs[q * n_inputs + i] is input i of query q,
     * dense.  Read when begin == 0, and must stay until done.  Neighbouring queries whose data lie one behind
     * the other are copied at once. */
    const void *const *inputs;
    void *const *outputs; /* likewise, [batch * n_outputs]; written when end is the number of segments */
    int64_t hang_ns;      /* 0 = the system's */
    /* Called exactly once for every accepted run, on the plugin's completion thread, in order on one let.  It
     * must be short; it may call run().  code: MOIRE_OK, MOIRE_EDEVICE or MOIRE_EFAILED (from a plugin in a
     * child process also what its run() returned, before the runs that it has taken end); `message` and
     * `times` (MOIRE_OK only) are valid inside. */
    void (*done)(void *ctx, int code, const char *message, const struct mo_gpu_times *times);
    void *ctx;
};

/* Who computes an operation of a program: a library, a kernel that moire generated, or a core. */
enum mo_gpu_way { MO_GPU_BY_KERNEL, MO_GPU_BY_DNN, MO_GPU_BY_BLAS, MO_GPU_BY_CORE, MO_GPU_WAYS };

/* How many operations of a program are done which way on lets of `sms` SMs: a row for each enum
 * mo_gpu_op_kind. */
struct mo_gpu_ways {
    int sms;
    int count[MO_GPU_KINDS][MO_GPU_WAYS];
    int fused;                /* of those by cuDNN: with bias, residual and activation in one call */
    int fallen[MO_GPU_KINDS]; /* convolutions and products whose generated kernel runs for want of a library
                   that takes them and not because it was the faster one */
};

/* What could be read; a counter that is not there is negative, and `missing` says why (empty: all there). */
struct mo_gpu_counters {
    int64_t memory_total, memory_free, memory_ours; /* bytes; ours: taken by this system */
    double power_w, energy_j;                       /* energy since the driver was loaded */
    double busy; /* share of the last sampling period with a kernel running */
    int celsius;
    char missing[160];
};

struct mo_gpu_ops {
    int abi;          /* MO_GPU_ABI */
    size_t env_bytes; /* sizeof(struct mo_env) + sizeof(struct mo_sys): built from the same headers */
    const char *name; /* "cuda" */

    /* Loads the driver and finds GPUs.  MOIRE_EUNSUPPORTED: no driver, driver too old, a function is missing,
     * no GPU; the message is one line for `moire devices`. */
    int (*open)(const struct mo_gpu_config *config, struct mo_gpu_system **out, moire_error *err);
    /* Waits for accepted runs (at most until they count as hung), closes lets and programs.  NULL is fine. */
    void (*close)(struct mo_gpu_system *system);
    int (*count)(const struct mo_gpu_system *system);
    int (*describe)(struct mo_gpu_system *system, int gpu, struct mo_gpu_info *out, moire_error *err);
    /* MOIRE_EDEVICE: the GPU is lost, and what happened.  out NULL: only that is asked. */
    int (*counters)(struct mo_gpu_system *system, int gpu, struct mo_gpu_counters *out, moire_error *err);

    /* A let of units [first, first + units).  Its context comes ready-made from a pool when these units were
     * a let before, else it is made now; no other let is disturbed.  Any number may be open. */
    int (*let_open)(struct mo_gpu_system *system, int gpu, int first, int units, int priority,
                    struct mo_gpu_let **out, moire_error *err);
    /* No more runs; what is accepted still ends, then the let is gone.  Does not wait.  NULL is fine. */
    void (*let_close)(struct mo_gpu_let *let);
    /* Runs a kernel that notes the SMs it sees, and waits for it (so not from a completion).  Bit i of sms:
     * SM i. For proofs, not for service. */
    int (*let_probe)(struct mo_gpu_let *let, uint64_t sms[MO_GPU_SM_WORDS], moire_error *err);

    /* Puts a program, which is for one batch, on a GPU: weights once for all lets and all programs of the
     * model, `instances` sets of activations.  The program may be freed afterwards.  MOIRE_EUNSUPPORTED names
     * the node that has no kernel. */
    int (*program_load)(struct mo_gpu_system *system, int gpu, const struct mo_gpu_program *program,
                        int instances, struct mo_gpu_loaded **out, moire_error *err);
    /* No run of it may be outstanding.  NULL is fine. */
    void (*program_unload)(struct mo_gpu_loaded *program);
    int64_t (*program_bytes)(const struct mo_gpu_loaded *program); /* device memory it holds */
    /* Makes what run() needs on lets of the same units as `let` (chooses kernels, captures the CUDA graph of
     * each segment and instance); run() does it itself otherwise, and is then slow once. */
    int (*prepare)(struct mo_gpu_loaded *program, struct mo_gpu_let *let, moire_error *err);
    /* How it computes on every size of let that it was prepared for, at most `room` of them (MO_GPU_UNITS are
     * all); returns how many.  May wait for a prepare().  NULL in the table: it does not tell. */
    int (*program_ways)(struct mo_gpu_loaded *program, struct mo_gpu_ways *out, int room);
    /* Queues a run and returns.  MOIRE_OK: `done` will be called.  Otherwise it never is. */
    int (*run)(const struct mo_gpu_run *run, moire_error *err);

    /* Page-locked host memory that every GPU of the system copies from and to; 256-byte aligned. */
    int (*staging_alloc)(struct mo_gpu_system *system, size_t bytes, void **out, moire_error *err);
    void (*staging_free)(struct mo_gpu_system *system, void *at); /* NULL is fine */
    /* Makes memory of the caller's staging memory until it is forgotten; whole pages.  NULL in the table: all
     * memory is. */
    int (*staging_register)(struct mo_gpu_system *system, void *at, size_t bytes, moire_error *err);
    void (*staging_forget)(struct mo_gpu_system *system, void *at);
};

/* The plugin's one exported symbol; the table is static. */
#define MO_GPU_PLUGIN_SYMBOL "mo_gpu_plugin"
typedef const struct mo_gpu_ops *mo_gpu_plugin_function(void);
#endif
