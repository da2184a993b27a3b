/* SPDX-License-Identifier: Apache-2.0
 *
 * moire_stats.h - what a server shows of a runtime: statistics, tenants with their states, limits.  moire.h
 * includes it.
 *
 * Statistics are cheap to take: no lock is held longer than for a copy of some kilobytes, and none while a
 * kernel runs.  Counters and histograms of a tenant are of one moment; so are, of a later one, the numbers
 * that say what is under way.  Both count from the load, or from the runtime's creation, and never go back:
 * rates are the difference of two looks.
 */
#ifndef MOIRE_STATS_H
#define MOIRE_STATS_H
#include "moire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- histograms ------------------------------------------------------------------------------------------
 *
 * Buckets of a histogram of nanoseconds.  Below 8 each value has its own; above, every power of two has eight
 * of one width: bucket 8 * (k - 2) + j, with k >= 3 and 0 <= j < 8, counts values v with
 *   (8 + j) * 2^(k-3) <= v < (9 + j) * 2^(k-3)
 * so that a bucket's bounds are at most an eighth apart.  The last one also has what is longer (73 minutes
 * and more), the first what is negative. */
enum { MOIRE_HISTOGRAM_BUCKETS = 320 };

typedef struct moire_histogram {
    int64_t count, sum_ns, max_ns; /* sum_ns stops at INT64_MAX */
    int64_t bucket[MOIRE_HISTOGRAM_BUCKETS];
} moire_histogram;

/* Largest value that a bucket counts.  Returns: ns; INT64_MAX for the last one; -1 when there is no such
 * bucket. */
MOIRE_API int64_t moire_histogram_bound(int bucket);
/* Quantile q of what was counted: 0.99 is the 99th percentile.  q outside 0..1 counts as the nearer end.
 * Returns: the bound of the bucket that holds it, or the maximum where that is less, ns; 0 when the histogram
 * is NULL or empty. */
MOIRE_API int64_t moire_histogram_quantile(const moire_histogram *histogram, double q);

/* --- statistics ----------------------------------------------------------------------------------------- */
/* Valid queries by what became of them.  At any moment
 *   submitted = rejected + open + ok + expired + shed + cancelled + failed + unloaded + shutdown
 * whichever device they ran on; one that a GPU failed and cores took over counts once.  A query counts under
 * its outcome before its callback runs. */
typedef struct moire_counts {
    int64_t submitted;   /* given to moire_submit() and its like with valid arguments */
    int64_t rejected;    /* of these, not accepted: all but what follows */
    int64_t open;        /* accepted and without an outcome, or just being submitted */
    int64_t ok, in_time; /* in_time: of ok, those that ended by their deadline, or had none */
    int64_t expired, shed, cancelled, failed, unloaded, shutdown;
} moire_counts;

/* Times of the queries that were answered MOIRE_OK: the count of each is counts.ok. */
typedef struct moire_times {
    moire_histogram queue;   /* from arrival to the start of the first block */
    moire_histogram compute; /* in blocks, whatever number of cores they had */
    moire_histogram total;   /* from arrival to the end; the rest of it is pauses between blocks */
} moire_times;

/* Memory by part, bytes.  Weights that a compiled model keeps in its file are mapped, and shared with every
 * process that has it loaded.  Those that tenants of one file share count for each of them, and once for the
 * runtime. */
typedef struct moire_memory {
    int64_t weights;        /* packed weights and constants */
    int64_t plans;          /* graphs and plans */
    int64_t inputs;         /* copies of inputs, of waiting queries too; kept for some seconds */
    int64_t activations;    /* of one query of a tenant; of a runtime, the pools that tenants share */
    int64_t scratch;        /* what a kernel of the tenant needs at most on each core; of a runtime, of all */
    int64_t device_weights; /* on GPUs, all together */
    int64_t device_staging; /* host memory that GPUs read inputs from and write outputs to */
} moire_memory;

enum { MOIRE_LINE_BYTES = 400, MOIRE_VERSIONS = 8 };

enum moire_tenant_state {
    MOIRE_TENANT_LOADING = 0,  /* moire_load() has not returned */
    MOIRE_TENANT_READY = 1,    /* queries are accepted */
    MOIRE_TENANT_DRAINING = 2, /* queries are answered, none are accepted */
    MOIRE_TENANT_UNLOADED = 3  /* it is gone, or its load failed */
};

typedef struct moire_tenant_stats {
    size_t size; /* set by the caller: sizeof(moire_tenant_stats) */
    uint64_t id; /* see moire_tenants() */
    int state;   /* enum moire_tenant_state */
    moire_counts counts;
    moire_times times;
    int waiting, paused; /* queries without a block yet; between two blocks */
    int blocks;          /* that run now, on cores and GPUs */
    int cores, units;    /* cores, and units of GPUs (SMs), that they hold */
    moire_memory memory;
    /* Layers, those run by compiled kernels and by the slow reference ones; and the share of the model's
     * operations that is in compiled kernels, 0..1.  0 for a tenant that runs on GPUs only. */
    int layers, compiled_layers, reference_layers;
    double compiled_share;
    /* Hot layers that run by the slow reference because moire has no fast kernel for their kind, and their
     * share of the model's time on one core, 0..1, as the load measured it.  0 and "" when that is less than
     * 5 %. `slow` is the line that moire_load() logs: "20 of 23 layers, 99 % of the work, run by the slow
     * reference: 3-D Conv (20)". */
    int slow_layers;
    double slow_share;
    char slow[MOIRE_LINE_BYTES];
    /* Runs of layers that have several compiled versions (moire tune), by the version that was chosen: 0 is
     * the fastest on a quiet machine, the others are for pressure and for other numbers of cores. */
    int64_t version_runs[MOIRE_VERSIONS];
    int64_t shared_weights; /* of memory.weights, what tenants of the same file may have, too */
} moire_tenant_stats;
/* Statistics of a tenant since its load.  *out is the caller's, out->size set.
 * Returns: MOIRE_OK; MOIRE_EINVAL: an argument is NULL, or out->size is none; MOIRE_EFORKED. */
MOIRE_API int moire_tenant_get_stats(moire_tenant *tenant, moire_tenant_stats *out, moire_error *err);

typedef struct moire_runtime_stats {
    size_t size;         /* set by the caller: sizeof(moire_runtime_stats) */
    int64_t uptime_ns;   /* since the runtime was made */
    int tenants;         /* loaded */
    moire_counts counts; /* of all tenants there were */
    moire_times times;
    int waiting, paused, blocks;        /* of all tenants, as in moire_tenant_stats */
    int cores, cores_held;              /* of the runtime; of these, under a block */
    int units, units_held;              /* of its GPUs, likewise */
    double pressure;                    /* on shared caches, as decisions see it: 0 (none) to 1 */
    moire_memory memory;                /* parts of all tenants, and the pools they share */
    int64_t blocks_run, blocks_refused; /* blocks that were started; decisions that broke a rule */
    moire_histogram block, decision;    /* times of blocks; of the scheduler's decisions */
    double pace;         /* times their usual time that blocks take at the moment, on cores; 1 = as usual */
    int64_t stalls;      /* blocks that were late by far: a core stood still, or memory was short */
    int64_t stall_ns;    /* by which those of them that have ended were late */
    int64_t stall_sheds; /* of shed and expired: given up by the policy while a block was late */
    /* Activations on cores, a part of memory.activations.  A started query has an arena, or is spilled:
     * paused, with what it still needs in a buffer of that size, because another query of its tenant took its
     * arena. */
    int arenas_taken, spilled; /* queries of each kind */
    int64_t spilled_bytes;     /* of such buffers, free ones too */
    int64_t arenas_most;       /* bytes of arenas and buffers together, at their highest so far */
    int64_t spills;            /* so far */
    int64_t stucks;            /* blocks and callbacks that were stuck (moire_stuck()), so far */
} moire_runtime_stats;
/* Statistics of a runtime since it was made.  *out is the caller's, out->size set.
 * Returns: MOIRE_OK; MOIRE_EINVAL: an argument is NULL, or out->size is none; MOIRE_EFORKED. */
MOIRE_API int moire_runtime_get_stats(moire_runtime *runtime, moire_runtime_stats *out, moire_error *err);

/* --- tenants -------------------------------------------------------------------------------------------- */
enum { MOIRE_NAME_BYTES = 256 };

typedef struct moire_tenant_row {
    uint64_t id;          /* counts loads from 1; never given again in this runtime */
    moire_tenant *tenant; /* NULL while it loads; whoever unloads it must see that nobody uses this */
    int state;            /* enum moire_tenant_state */
    char name[MOIRE_NAME_BYTES];
} moire_tenant_row;
/* Lists the tenants of a runtime, those that load now too, oldest first: at most `room` of them into rows
 * (NULL when room is 0), which are the caller's, and how many there are into *n. Returns: MOIRE_OK, also when
 * *n > room; MOIRE_EINVAL: runtime or n is NULL, room is negative, or rows is NULL and room is not 0;
 * MOIRE_EFORKED. */
MOIRE_API int moire_tenants(moire_runtime *runtime, moire_tenant_row *rows, int room, int *n,
                            moire_error *err);
/* State of the tenant with that id, into *state; safe whoever unloads it.
 * Returns: MOIRE_OK; MOIRE_EINVAL: an argument is NULL, or no load had that id yet; MOIRE_EFORKED. */
MOIRE_API int moire_tenant_get_state(moire_runtime *runtime, uint64_t id, int *state, moire_error *err);
/* A tenant's id.  Returns: the id; 0 when tenant is NULL. */
MOIRE_API uint64_t moire_tenant_id(const moire_tenant *tenant);

/* --- blocks ----------------------------------------------------------------------------------------------
 */
/* A core's share of a block of layers. */
typedef struct moire_block_row {
    uint64_t tenant;            /* its id; it may be gone */
    int core;                   /* 0 .. cores - 1 of the runtime */
    int first_layer, end_layer; /* of the block: the layer after its last */
    int64_t start_ns, end_ns; /* when the core began and ended, as moire_now() tells it; end_ns 0: not yet */
} moire_block_row;
/* Lists what cores have worked on lately: shares that were not over before since_ns, core by core, oldest
 * first.  At most `room` of them go into rows (NULL when room is 0), which are the caller's, and how many
 * there are into *n.  The runtime begins to remember with the first call, which therefore gives none, and
 * ends when nobody has called for ten seconds; of each core it keeps the last 4096.  Until somebody calls it
 * costs nothing; then some 70 ns a block and 160 KiB a core.  Work on GPUs is not in it.
 * Returns: MOIRE_OK, also when *n > room; MOIRE_EINVAL: runtime or n is NULL, room is negative, or rows is
 * NULL and room is not 0; MOIRE_ENOMEM; MOIRE_EFORKED. */
MOIRE_API int moire_recent_blocks(moire_runtime *runtime, int64_t since_ns, moire_block_row *rows, int room,
                                  int *n, moire_error *err);

/* --- what is stuck -------------------------------------------------------------------------------------- */
enum moire_stuck_kind {
    MOIRE_STUCK_BLOCK = 1,    /* layers do not end: a kernel hangs, or its thread stands still */
    MOIRE_STUCK_CALLBACK = 2, /* a callback does not return */
    MOIRE_STUCK_DEVICE = 3    /* all that the tenant may run on is lost: every GPU, where it is device_only */
};

typedef struct moire_stuck_row {
    uint64_t tenant;            /* its id */
    int kind;                   /* enum moire_stuck_kind */
    int unit;                   /* core, or first unit of a GPU, that does not come back; -1: of none */
    int first_layer, end_layer; /* of a block: the layer after its last; else 0 */
    int64_t overdue_ns;         /* by how long, of a block and a callback */
} moire_stuck_row;
/* Lists what does not come back now: blocks that are overdue by half a second and by ten times their
 * predicted time, callbacks that have not returned for half a second, and lost devices.  At most `room` of
 * them go into rows (NULL when room is 0), which are the caller's, and how many there are into *n.
 * *cores_left (NULL: not asked for) is how many of the runtime's cores can still serve: 0 where nothing is
 * served.  A tenant in the list may still be served on other cores, and goes on when the block or callback
 * ends; the log has a line with its name then, and one when it is found to be stuck.  Cheap, for whoever is
 * asked whether the tenant is ready.  Returns: MOIRE_OK, also when *n > room; MOIRE_EINVAL: runtime or n is
 * NULL, room is negative, or rows is NULL and room is not 0; MOIRE_ENOMEM; MOIRE_EFORKED. */
MOIRE_API int moire_stuck(moire_runtime *runtime, moire_stuck_row *rows, int room, int *n, int *cores_left,
                          moire_error *err);

/* --- how GPUs compute ----------------------------------------------------------------------------------- */
/* Operations of one kind in a program, by who computes them on lets of one size. */
typedef struct moire_way_row {
    int gpu, batch, sms; /* of the device; the program's; multiprocessors of the let */
    char kind[16];       /* "convolution", "product" (of matrices), "other", "core" */
    int cudnn, cublaslt; /* by these libraries */
    int generated;       /* by moire's own kernels */
    int fallen;          /* of these, convolutions and products for want of a library that takes them */
    int cores;           /* by a core, to which their tensors go and come back */
} moire_way_row;
/* Lists how a tenant's programs compute on GPUs, four rows (all kinds) for every batch and size of let for
 * which one was prepared, which may take some seconds after the load: at most `room` of them into rows (NULL
 * when room is 0), which are the caller's, and how many there are into *n; 0 for a tenant of cores.  Nobody
 * may unload the tenant meanwhile.  Waits while lets are prepared.  Returns: MOIRE_OK, also when *n > room;
 * MOIRE_EINVAL: tenant or n is NULL, room is negative, or rows is NULL and room is not 0; MOIRE_ENOMEM;
 * MOIRE_EFORKED. */
MOIRE_API int moire_ways(moire_tenant *tenant, moire_way_row *rows, int room, int *n, moire_error *err);

/* --- energy --------------------------------------------------------------------------------------------- */
/* Joules of a part of the machine since the runtime's first call of moire_energy().  A measured one is of
 * everything that ran there, other processes too; a modelled one is of this runtime's work and of the
 * device's idling. */
typedef struct moire_energy_row {
    char device[32]; /* "cpu", or "cuda:0" and so on */
    char domain[64]; /* of the device: "package-0", "package-0/dram", "board" */
    char source[16]; /* "rapl", "perf", "nvml": counters of the hardware; "model": computed */
    int measured;    /* 0: computed from assumed or published watts */
    int part;        /* 1: another row has it, or some of it; a sum leaves it out */
    int gone;        /* 1: its counter cannot be read any more; joules are those up to then */
    double joules;   /* never goes back */
} moire_energy_row;
/* Lists what is known of the energy of a runtime's devices: at most `room` rows into rows (NULL when room is
 * 0), which are the caller's, and how many there are into *n; 0 where nothing measures and nothing is
 * modelled.  The first call opens the counters, and the log says which, or why none.  They begin anew every
 * few minutes: two calls should not be further apart than a minute.  Returns: MOIRE_OK, also when *n > room;
 * MOIRE_EINVAL: runtime or n is NULL, room is negative, or rows is NULL and room is not 0; MOIRE_ENOMEM;
 * MOIRE_EFORKED. */
MOIRE_API int moire_energy(moire_runtime *runtime, moire_energy_row *rows, int room, int *n,
                           moire_error *err);

/* --- limits --------------------------------------------------------------------------------------------- */
typedef struct moire_limit_row {
    const char *name; /* for moire_config.limits, and in messages */
    const char *text; /* what it bounds */
    const char *unit; /* "bytes" or what is counted */
    int64_t value;    /* in force */
    int64_t standard; /* the default */
    int64_t most;     /* that it can be set to; the least is 1 */
    int code;         /* what a breach returns; MOIRE_OK: nothing, what is more waits */
} moire_limit_row;
/* Lists the limits of a runtime (NULL: the defaults): at most `room` rows into rows (NULL when room is 0),
 * which are the caller's (the texts are the library's), and how many there are into *n. Returns: MOIRE_OK,
 * also when *n > room; MOIRE_EINVAL: n is NULL, room is negative, or rows is NULL and room is not 0. */
MOIRE_API int moire_limits(const moire_runtime *runtime, moire_limit_row *rows, int room, int *n,
                           moire_error *err);

#ifdef __cplusplus
}
#endif
#endif
