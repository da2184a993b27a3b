/* SPDX-License-Identifier: Apache-2.0
 * server.h - `moire serve`: a runtime, a repository of models and the doors to them.  Links libmoire through
 * moire.h. */
#ifndef MS_SERVER_H
#define MS_SERVER_H
#include <stdbool.h>
#include <stdio.h>
#include "moire.h"
#include "serve/config_file.h"
#include "serve/net/tls.h"
#include "serve/repository/overlay.h"

struct ms_server_options {
    const char *repository, *host, *unix_path, *grpc_unix, *control_unix, *token_file, *policy, *store,
        *mode;                                                        /* mode: none, poll, explicit */
    int http_port, metrics_port, grpc_port, control_port, agent_port; /* 0: any that is free; -1: none */
    struct ms_tls_files tls;                                          /* certificate NULL: none */
    const char *supervisor;                                           /* NOTIFY_SOCKET of systemd, or NULL */
    const char *shared_memory; /* prefix of keys that clients may register; NULL: none */
    const char *trace_file;    /* NULL: clients can trace nothing */
    const char *record;        /* written at the end by moire_record(); NULL: nothing is */
    int64_t record_events;     /* that every core remembers for it */
    int threads, poll_seconds;
    int drain_seconds; /* from the signal to end on, in which it serves and says that it is not ready */
    int64_t body_bytes, shape_memory;
    int log_verbose; /* 1: a line for each request */
    bool insecure, json_log, json, nv_metrics;
    const struct ms_config_file *config;  /* its models; NULL: none */
    const struct ms_functions *functions; /* that models may name; NULL: none */
    const char *const *load;              /* models to load first where clients say what is loaded */
    int n_load;
    bool load_first;    /* no door opens before the models of the start are loaded, or have failed to be */
    bool exit_on_error; /* ms_server_run() ends where a model that is loaded at the start does not serve */
};

struct ms_server;
/* Starts all and returns; models load in the background.
 * Returns: MOIRE_OK, and the server is to be stopped; MOIRE_EINVAL: an option, or an address that is not
 * loopback and nothing that keeps strangers out; MOIRE_EIO: an address cannot be used; MOIRE_EUNSUPPORTED:
 * libmicrohttpd is missing; what moire_runtime_create() returns. */
int ms_server_start(const struct ms_server_options *options, struct ms_server **out, moire_error *err);
/* Says that it is not ready any more, and goes on. */
void ms_server_leave(struct ms_server *server);
/* Answers what it has taken, takes nothing more, and frees all. */
void ms_server_stop(struct ms_server *server);
/* Port of a TCP listener, in the order of the options.  Returns: 0: there is none. */
enum ms_port { MS_PORT_HTTP, MS_PORT_METRICS, MS_PORT_GRPC, MS_PORT_CONTROL, MS_PORT_AGENT, MS_TCP_PORTS };
int ms_server_port(const struct ms_server *server, enum ms_port which);
bool ms_server_is_ready(struct ms_server *server);
/* Looks at the repository again.  Returns at once. */
void ms_server_refresh(struct ms_server *server);
/* Where its models come from, by its options. */
struct ms_source ms_server_source(const struct ms_server_options *options);
/* And at certificates and tokens, which stay as they are where a file is no good; the log says that. */
void ms_server_reload(struct ms_server *server);

/* Serves until SIGTERM or SIGINT; a second one ends the drain_seconds, and then the process, at once.  SIGHUP
 * is ms_server_reload(). */
int ms_server_run(const struct ms_server_options *options, moire_error *err);

/* server_check.c: says to `out` what would be served, and every fault.  *faults: how many. */
int ms_server_check(const struct ms_source *from, FILE *out, int *faults, moire_error *err);
#endif
