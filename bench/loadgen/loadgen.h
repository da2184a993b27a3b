/* SPDX-License-Identifier: Apache-2.0
 * loadgen.h - `moire bench loadgen`: one model as the system under test of MLPerf's LoadGen, and peers
 * beside.
 *
 * LoadGen is a package of Python's and stays as it is, and so does its verdict.  bench/loadgen/run.py tests
 * one system in a process of its own, which the Python of the peers' environment runs. */
#ifndef MO_LOADGEN_H
#define MO_LOADGEN_H
#include "bench/load/session.h"

enum { MO_LOADGEN_SYSTEMS = 4 };

/* One system of the command. */
struct mo_loadgen_system {
    const char *family; /* "moire", "onnxruntime" */
    const char *over;   /* "http", "grpc": a server started for it, or `server`; NULL: in LoadGen's process */
};

struct mo_loadgen_options {
    const char *model;    /* a file or a name of the zoo; with `server` its name there */
    const char *scenario; /* as LoadGen writes it */
    const char *server;   /* HOST:PORT of one that runs; NULL: none */
    const char *output;   /* folder of LoadGen's logs; systems but the first have one of their own below */
    struct mo_loadgen_system system[MO_LOADGEN_SYSTEMS];
    int n_systems;
    const moire_shape *shapes;
    int n_shapes, threads, samples, batch;
    double qps, latency_ms, seconds; /* 0: LoadGen's rule, or what the system is found to do */
    int64_t seed;
    bool generic;
};

/* The whole command: *out has a row a system, also when interrupted.  Returns: MOIRE_OK; MOIRE_EFAILED: a
 * query failed, or moire's verdict is not VALID; MOIRE_EIO: no Python with what it needs; MOIRE_EINTERRUPTED.
 */
int mo_loadgen(struct mo_bench_session *session, const struct mo_loadgen_options *options, json_t **out,
               moire_error *err);
/* The table, and why a run is not valid, in LoadGen's words. */
void mo_loadgen_print(const json_t *document);
#endif
