/* SPDX-License-Identifier: Apache-2.0
 * server_process.h - a model server as a child of the load generator's process: started with a folder of what
 * it is to serve, awaited until it is ready, and ended by its number. */
#ifndef MO_SERVER_PROCESS_H
#define MO_SERVER_PROCESS_H
#include <sys/types.h>
#include "bench/load/drive.h"

enum { MO_SERVER_PATH = 1024 };

struct mo_server_process {
    pid_t pid;                   /* 0: not running */
    int http_port, grpc_port;    /* 0: it has none */
    char folder[MO_SERVER_PATH]; /* its own, temporary; "": none */
};

/* Starts job->server, which is told of its models as bench/peers/README.md has it ("moire": a command line
 * and a model repository), and returns when it is ready for queries.  Tenant i is the model "tenantI" to it.
 * Returns: MOIRE_OK; MOIRE_EFAILED: it ended, or was not ready in time, with the last lines that it wrote;
 * MOIRE_EIO.  In each case it is to be stopped. */
int mo_server_start(const struct mo_bench_job *job, struct mo_server_process *out, moire_error *err);
/* Ends it and what it has started, and removes its folder.  Fine if it does not run. */
void mo_server_stop(struct mo_server_process *server);
#endif
