/* SPDX-License-Identifier: Apache-2.0
 * trace.h - reads what moire_record() wrote: queries with what became of them, tenants, profiles.
 *
 * "# moire-history 1" tells of cores only; 2 may tell of GPUs, whose units are then what `cores` are below.
 *
 * Refused with file and line: what is no trace, is cut off (it ends with "# end N", N its events), has lost
 * events to a ring that was too small, contradicts itself, or tells of a pressure, of counters or of versions
 * that cannot be. */
#ifndef MO_BENCH_TRACE_H
#define MO_BENCH_TRACE_H
#include "bench/data/scenario.h"
#include "runtime/proxy/source.h"
#include "runtime/sched/gpus.h"
#include "runtime/profile/profile.h"
#include "runtime/sim/sim.h"

struct mo_trace_tenant {
    char name[128];
    int n_layers;
    int64_t qos_ns; /* 0 = none */
    bool best_effort, shed_late;
    int priority, n_counts;
    int cores;             /* that it has at once at most; 0 = no bound */
    double weight;         /* 0 = 1 */
    int counts[64];        /* core counts with times, rising */
    int64_t *times[64];    /* n_layers each, ns */
    int64_t *bytes, *cold; /* by layer: traffic, ns besides when caches are cold; NULL = not known */
    int64_t *ops;          /* by layer: arithmetic operations; NULL = not known */
    /* On GPUs: by kind, NULL = none; queries/s that it was said to expect, 0 = nothing was said.  The parts
     * in which time falls to its segments are `times` of one core. */
    struct mo_share_profile *share[MO_PLAN_KINDS];
    double declared;
};

struct mo_trace_query {
    uint64_t handle;
    /* comes: when it was there, which is before `arrival` for a stage that got time which earlier ones left.
     * start 0: never began; end 0: never answered. */
    int64_t arrival, accepted, comes, start, end;
    int tenant, code, cores; /* cores: of its latest block */
    int batch;               /* on GPUs, of a block's first query: how many are in it */
    /* Of the latest block: when it was decided, 0 once it began; then when, its lowest core, how many cores
     * have yet to end it, and when the last one so far did. */
    int64_t decided, block_start, block_end;
    int lead, left;
    int begin, stop; /* its layers [begin, stop) */
    bool resized;    /* it gains or loses cores while it runs */
    int stays;       /* the reader's: which cores are in it since when */
    bool began;      /* a block of it has */
    bool timed;      /* the latest block has, on GPUs, told its times */
    bool queued;     /* it was behind another */
};

/* The pressure that decisions saw from a time on; counted: by counters, else observed slowdown. */
struct mo_trace_pressure {
    int64_t time;
    double value;
    bool counted;
};

/* What the source observed since the sample before. */
struct mo_trace_counters {
    int64_t time;
    double value[MO_OBSERVABLES];
};

struct mo_trace_block {
    int tenant, cores;         /* of one that was resized: in the mean, rounded */
    float observed, predicted; /* ns; from the first core to begin to the last to end */
    int64_t end;
    int lead; /* its lowest core */
};

/* A block on one of its cores. */
struct mo_trace_span {
    int tenant, cores, core;
    bool stalled;
    int64_t begin, end;
    double predicted;
};

/* What it took to begin a block. */
struct mo_trace_start {
    int tenant;
    bool first, asleep; /* of its query; the core had been idle for so long that its worker slept */
    double wait_ns;
};

struct mo_trace {
    struct mo_region *region; /* owns everything below */
    char policy[48];
    int version, cores, n_tenants, n_queries;
    struct mo_gpus gpus;             /* n_gpus 0: a run on cores */
    int64_t since, cache;            /* cache: bytes of the last level, 0 = not known */
    struct mo_trace_tenant *tenants; /* by index of the trace, MO_BENCH_MAX_TENANTS; name "" = no such */
    struct mo_trace_query *queries;  /* in the order in which they came */
    double block_ns, predicted_ns;   /* sums over blocks and cores: observed, and what the profiles say */
    double wait_ns, first_wait_ns;   /* mean from a decision to the first layer; of a query's first block */
    struct mo_trace_block *blocks;   /* but for those that stalled; by end */
    int n_blocks, n_spans, n_starts;
    struct mo_trace_span *spans; /* also of those that stalled; by end */
    struct mo_trace_start *starts;
    double late_ns; /* mean from the scheduled arrival to its acceptance */
    /* Blocks that took 10 ms and eightfold more than their profile: not the neighbours' doing but the
     * machine's (a core taken away for other guests), and what that cost. */
    int n_stalls;
    double stall_ns;
    const struct mo_source *source; /* of the counters; NULL = none */
    int n_pressures, n_counters;
    struct mo_trace_pressure *pressures; /* in order of time, as are the counters */
    struct mo_trace_counters *counters;
    int64_t layers, adapted; /* layers dispatched; those that ran another version than their first */
};

int mo_trace_parse(const struct mo_env *env, const char *path, const char *text, size_t n,
                   struct mo_trace *out, moire_error *err);
int mo_trace_read(const struct mo_env *env, const char *path, struct mo_trace *out, moire_error *err);
void mo_trace_free(struct mo_trace *trace);
/* Time-weighted mean of the pressure over (from, to]; 0 before the first. */
double mo_trace_mean_pressure(const struct mo_trace *trace, int64_t from, int64_t to);

/* How the block times of every tenant lie around its profile, and what starts cost (MO_BENCH_MAX_TENANTS
 * entries of the trace's region); a tenant without blocks on one core or on several has those of all tenants,
 * and so for starts.  pace: what the machine's speed explains is left out; NULL = nothing is.  MOIRE_EINVAL:
 * no blocks at all. */
int mo_trace_spread(const struct mo_trace *trace, const struct mo_sim_pace *pace, struct mo_sim_spread **out,
                    moire_error *err);

/* How fast the cores were from the first arrival on (the trace's region): what blocks took, against their
 * profile times the mean of `spread`.  A core without blocks for a step stays as fast as it was.  stalls:
 * with the blocks that stalled. */
int mo_trace_pace(const struct mo_trace *trace, const struct mo_sim_spread *spread, bool stalls,
                  struct mo_sim_pace *out, moire_error *err);

/* The profile of a tenant for up to `cores` cores.  Beyond the largest measured count, layers follow Amdahl's
 * law through the two largest ones. */
int mo_trace_profile(const struct mo_env *env, const struct mo_trace_tenant *tenant, int cores,
                     struct mo_profile **out, moire_error *err);
#endif
