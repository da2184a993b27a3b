/* SPDX-License-Identifier: Apache-2.0
 * server_impl.h - what the files of the server share; see server.h. */
#ifndef MS_SERVER_IMPL_H
#define MS_SERVER_IMPL_H
#include <stdatomic.h>
#include "serve/agent/agent.h"
#include "serve/grpc/grpc.h"
#include "serve/http/http.h"
#include "serve/protocol/log.h"
#include "serve/query/query_trace.h"
#include "serve/query/regions.h"
#include "serve/server.h"

enum ms_socket_file { MS_FILE_HTTP, MS_FILE_GRPC, MS_FILE_CONTROL, MS_SOCKET_FILES };

struct ms_server {
    struct ms_server_options options;
    moire_runtime *runtime;
    struct ms_repository *repository;
    struct ms_tls *tls;       /* NULL: none */
    struct ms_access *access; /* NULL: no tokens */
    struct ms_log log;
    struct ms_trace *trace;
    struct ms_regions *regions;
    struct ms_http http;
    struct ms_grpc grpc;
    struct ms_agent agent;
    int port[MS_TCP_PORTS];
    bool owns[MS_SOCKET_FILES]; /* the socket file is this server's */
    atomic_int failed_first;    /* of the models that were to be loaded at the start */
};

/* server_listen.c.  Reads certificates and tokens; opens the sockets, once the runtime and the repository are
 * there; takes socket files away. */
int ms_server_guard(struct ms_server *server, moire_error *err);
int ms_server_listen(struct ms_server *server, moire_error *err);
void ms_server_remove_files(const struct ms_server *server);
#endif
