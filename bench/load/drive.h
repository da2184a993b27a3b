/* SPDX-License-Identifier: Apache-2.0
 * drive.h - the runner's side of a measurement: a system under load behind one small table of functions.
 *
 * Every system, moire and peers alike, runs in a process of its own that reads commands from stdin and
 * answers on stdout, one line each (bench/peers/README.md).  In C such a process is mo_bench_runner() with a
 * backend; bench/peers/runner.py speaks the same protocol. */
#ifndef MO_BENCH_DRIVE_H
#define MO_BENCH_DRIVE_H
#include "bench/data/scenario.h"
#include "bench/load/budget.h"
#include "bench/load/score.h"

/* What a runner is told at its start, a JSON file written by the conductor. */
struct mo_bench_job {
    const char *arrangement;                  /* policy of moire, mode of a peer; "solo" for latency alone */
    const char *store;                        /* moire: folder of variants, NULL = default */
    const char *objective, *pressure, *proxy; /* moire: as in moire_config */
    const char *device, *device_process, *device_libraries, *device_cache, *device_profiles, *device_weights,
        *precision;            /* moire: as in moire_config; NULL = cores, where precision is the tenants' */
    const char *family, *over; /* a model server behind a network: whose, and "http" or "grpc" */
    const json_t *server;      /* its command, a list of words */
    const char *record;        /* moire: file for the trace of each run, the last one stays; NULL = none */
    int64_t threads;
    bool generic, exact, trace;
    bool json; /* the server knows tensors as JSON only, over HTTP */
    struct mo_bench_tenant tenants[MO_BENCH_MAX_TENANTS];
    int64_t qos_ns[MO_BENCH_MAX_TENANTS];
    int n_tenants;
    json_t *raw_tenants;
    struct mo_json_file file;
};
int mo_bench_job_load(const struct mo_env *env, const char *path, struct mo_bench_job *out, moire_error *err);
void mo_bench_job_close(struct mo_bench_job *job);

struct mo_bench_drive; /* one run of a schedule */

struct mo_bench_backend {
    /* Loads every tenant; on success *self is given to all calls below. */
    int (*open)(const struct mo_env *env, const struct mo_bench_job *job, void **self, moire_error *err);
    /* One query alone, blocking. */
    int (*solo)(void *self, int tenant, moire_error *err);
    /* A run of n queries begins; NULL = nothing to prepare. */
    int (*begin)(void *self, int n);
    /* Begins query `index` and returns at once; mo_bench_done() must follow exactly once, from any thread.  A
     * refusal returns its code, and mo_bench_done() must not follow. */
    int (*issue)(void *self, struct mo_bench_drive *drive, int index, int tenant, int64_t arrival_ns);
    /* The run is over: drops what waits, returns when nothing runs. */
    void (*stop)(void *self);
    bool answers_all; /* what it drops goes to mo_bench_done() too */
    /* Writes what the system knows about itself as JSON; NULL = nothing. */
    int (*report)(void *self, const char *path, moire_error *err);
    void (*close)(void *self);
};

/* Times are absolute, of env's clock; start_ns 0 = unknown. */
void mo_bench_done(struct mo_bench_drive *drive, int index, int64_t start_ns, int64_t end_ns, int code);

/* Plays a schedule against a backend.  Stops early once so many counted queries have missed that the budget
 * is spent; *cut_ns is when that was, or INT64_MAX.  records has one entry an arrival.  MOIRE_EINTERNAL: a
 * query was answered twice, or never by a backend that answers all. */
int mo_bench_play(const struct mo_env *env, const struct mo_bench_backend *backend, void *self,
                  const struct mo_bench_schedule *schedule, const int64_t *qos_ns,
                  const struct mo_bench_budget *budget, struct mo_bench_record *records, int64_t *cut_ns,
                  moire_error *err);

/* The command loop of a runner process; returns its exit code. */
int mo_bench_runner(const struct mo_env *env, const struct mo_bench_backend *backend, const char *job_path);
#endif
