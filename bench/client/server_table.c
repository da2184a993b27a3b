/* SPDX-License-Identifier: Apache-2.0
 * server_table.c - the model servers that are measured beside moire's, and how each is set up; see
 * server_table.h.  All run ONNX Runtime with workers that do not spin. */
#include "bench/client/server_table.h"

#include <string.h>

static const struct mo_server_family families[] = {
    {"triton", "triton", "triton_server.py", "onnxruntime", NULL, false},
    {"mlserver", "python", "mlserver_server.py", "onnxruntime", NULL, true},
    {"onnxruntime-uvicorn", "python", "uvicorn_server.py", "onnxruntime", "http", false},
};

static const struct mo_bench_system rows[] = {
    {"triton-1t", "triton", "1t", "Triton, an instance a model, one thread each", NULL},
    {"triton-nt", "triton", "nt", "Triton, an instance a model, all threads each", NULL},
    {"triton-limited", "triton", "limited", "Triton, as many queries at a time as cores, one thread each",
     NULL},
    {"triton-batching", "triton", "batching", "Triton, one thread each, with dynamic batching", NULL},
    {"mlserver-pool", "mlserver", "pool", "MLServer, as many queries at a time as cores, one thread each",
     NULL},
    {"mlserver-workers", "mlserver", "workers", "MLServer, a worker a core, one thread each", NULL},
    {"uvicorn-core-per-query", "onnxruntime-uvicorn", "core-per-query",
     "ONNX Runtime behind uvicorn, as many queries at a time as cores, one thread each", NULL},
    {"uvicorn-all", "onnxruntime-uvicorn", "all",
     "ONNX Runtime behind uvicorn, one query at a time on all cores", NULL},
};

const struct mo_server_family *mo_server_family(const char *name) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!strcmp(families[i].name, name)) return &families[i];
    return NULL;
}

const struct mo_bench_system *mo_bench_servers(int *n) {
    *n = (int)(sizeof rows / sizeof *rows);
    return rows;
}

bool mo_server_is(const struct mo_bench_system *system) {
    return mo_server_family(system->family) != NULL;
}
