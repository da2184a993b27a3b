/* SPDX-License-Identifier: Apache-2.0
 * session.h - one `moire bench` command: what it was asked, where things are, and the runner processes it
 * starts.  One runner process works at a time; the others block in a read. */
#ifndef MO_BENCH_SESSION_H
#define MO_BENCH_SESSION_H
#include <sys/types.h>
#include "bench/load/resident.h"
#include "bench/data/scenario.h"
#include "runtime/base/caches.h"

struct mo_bench_system {
    const char *name;        /* "openvino-latency"; policies of moire are made up at run time */
    const char *family;      /* "moire", "openvino", "onnxruntime", "ncnn", "mnn", "tvm", "onednn" */
    const char *arrangement; /* what the runner is told */
    const char *about;
    const char
        *over; /* the network that its queries come by, "http" or "grpc"; NULL = none, in its process */
};
/* The peers' arrangements under load; *n rows. */
const struct mo_bench_system *mo_bench_peers(int *n);

/* Whether a row of that table deals with classes apart: it is measured where it is named, not as one of all.
 */
bool mo_bench_by_class(const struct mo_bench_system *peer);
/* The model servers' arrangements, of bench/client/server_table.c; *n rows. */
const struct mo_bench_system *mo_bench_servers(int *n);

struct mo_bench_session {
    const struct mo_env *env;
    char exe[512];       /* this program */
    char folder[64];     /* temporary; removed at the end */
    const char *venv;    /* where the peers live; TVM in an environment beside it, VENV-tvm */
    const char *servers; /* where model servers live, as bench/serve-peers sets them up */
    const char *models;  /* folder of zoo files; NULL = the user's */
    char models_default[MO_CACHES_PATH];
    const char *store;            /* NULL = default */
    const char *record;           /* file for the trace of moire's runs; NULL = none */
    const char *objective;        /* likewise, of the scenario or in its place; NULL = default */
    const char *pressure, *proxy; /* of moire's runtimes, as in moire_config; NULL = default */
    const char *device;           /* of moire's runtimes: GPUs; NULL = cores */
    const char *precision;    /* of device, or of layers between conversions on cores (mo_precision_of()) */
    const char *libraries;    /* where their driver is looked for, as moire_config.device_libraries */
    const char *process;      /* that their plugin runs in, as moire_config.device_process */
    const char *device_cache; /* of compiled programs, as moire_config.device_cache */
    const char *gpu_profiles; /* folder of share profiles, filled in from: */
    const char *weights;      /* of policies for GPUs that learned; NULL = those of `gpus` */
    const char *gpu_weights;  /* likewise, filled in */
    const char *gpus;         /* machine file with their profiles; NULL = measured at load */
    const char *command;      /* the command line, for the report */
    bool generic, exact, quiet;
    int cores;
    int signal_fd;
    bool interrupted;
    int files; /* numbers of temporary files */
};

/* Blocks SIGINT and SIGTERM, to be read from signal_fd, so that a Ctrl-C ends the command in good order. */
int mo_bench_session_open(const struct mo_env *env, int argc, char **argv, struct mo_bench_session *out,
                          moire_error *err);
void mo_bench_session_close(struct mo_bench_session *session);
/* Progress on stderr unless quiet; `\r` lines only on a terminal. */
void mo_bench_say(const struct mo_bench_session *session, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Says so when other work would spoil a measurement. */
void mo_bench_warn_busy(const struct mo_bench_session *session);
/* True from the first SIGINT or SIGTERM on. */
bool mo_bench_interrupted(struct mo_bench_session *session);
/* Names and versions of the peers' packages found in the environment, a new list. */
json_t *mo_bench_peer_versions(const struct mo_bench_session *session);
/* A fresh path in the temporary folder. */
void mo_bench_temporary(struct mo_bench_session *session, const char *suffix, char *out, size_t n);

/* Turns a tenant's model into a file: itself, a zoo name (built on first use) or a file of the peers'
 * packages; fills in shapes that a zoo row knows.  *path lives in `region`. */
int mo_bench_resolve(struct mo_bench_session *session, struct mo_region *region,
                     struct mo_bench_tenant *tenant, moire_error *err);

struct mo_bench_child {
    struct mo_bench_session *session;
    const struct mo_bench_system *system;
    pid_t pid; /* 0 = not running */
    int to, from;
    char *line;
    size_t used, cap;
};

/* Where a script of bench/ is ("peers/runner.py"): beside the program as built or installed, or here; false:
 * it is not there. */
bool mo_bench_script(const struct mo_bench_session *session, const char *name, char *out, size_t n);
/* NULL when the system can be run here, else why not and what to do. */
const char *mo_bench_missing(const struct mo_bench_session *session, const char *family);
/* The same of a system, which a network may come before. */
const char *mo_bench_system_missing(const struct mo_bench_session *session,
                                    const struct mo_bench_system *system);
/* Starts a runner for tenants and waits until it has loaded them. */
int mo_bench_child_start(struct mo_bench_session *session, const struct mo_bench_system *system,
                         const struct mo_bench_tenant *tenants, const int64_t *qos_ns, int n_tenants,
                         int threads, bool generic, bool trace, struct mo_bench_child *out, moire_error *err);
/* Sends one command and waits for its answer; *answer stays valid until the next call. */
int mo_bench_child_ask(struct mo_bench_child *child, const char *command, int timeout_s, const char **answer,
                       moire_error *err);
/* Resident memory in MiB, now and at its highest; 0 = unknown.  Of a system behind a network it is the
 * server's, all its processes, and not the load generator's. */
void mo_bench_child_memory(const struct mo_bench_child *child, double *now_mib, double *peak_mib);
/* What the former consists of; all zero where it cannot be read. */
void mo_bench_child_resident(const struct mo_bench_child *child, struct mo_resident *out);
void mo_bench_child_stop(struct mo_bench_child *child);
#endif
