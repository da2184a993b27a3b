/* SPDX-License-Identifier: Apache-2.0
 * flag_rows_serve.c - the flags of `moire serve`; see flag_rows.c. */
#include "tools/moire/command_line/flag_rows.h"

static const struct mo_flag rows[] = {
    /* --- what is served --- */
    {"--model-repository", "DIR", ON(SERVER), TO(repository),
     "folder of models: NAME/config.pbtxt with NAME/1/model.onnx, or ONNX files"},
    {"--check", "DIR", ON(SERVER), TO(check),
     "serves nothing: says what would be served of that folder, and every fault; exit code 2 on any"},
    {"--model-control-mode", "MODE", ON(SERVER), TO(control_mode),
     "none: what is there at the start; poll: changes too; explicit: what clients load", .initial = "none",
     .choices = "none poll explicit"},
    {"--repository-poll-secs", "SECONDS", ON(SERVER), TO(poll_seconds), "time between two looks",
     .initial = "15", .least = 1, .most = 86400},
    {"--host", "ADDRESS", ON(SERVER), TO(host), "address to listen on", .initial = "127.0.0.1"},
    {"--http-port", "PORT", ON(SERVER), TO(http_port), "0: any that is free; -1: no TCP", .initial = "8000",
     .least = -1, .most = 65535},
    {"--grpc-port", "PORT", ON(SERVER), TO(grpc_port), "0: any that is free; -1: none", .initial = "8001",
     .least = -1, .most = 65535},
    {"--metrics-port", "PORT", ON(SERVER), TO(metrics_port), "another door to /metrics; 0: any; -1: none",
     .initial = "8002", .least = -1, .most = 65535},
    {"--metrics-nv", NULL, ON(SERVER), TO(nv_metrics),
     "metrics by the names that Triton gives them (nv_...), too"},
    {"--unix", "PATH", ON(SERVER), TO(unix_path), "a socket file for HTTP besides, for its owner only"},
    {"--grpc-unix", "PATH", ON(SERVER), TO(grpc_unix), "the same for gRPC"},
    /* --- who may reach it --- */
    {"--tls-cert", "FILE", ON(SERVER), TO(tls_cert), "the server's certificate, PEM: TCP is by TLS"},
    {"--tls-key", "FILE", ON(SERVER), TO(tls_key), "its key, PEM"},
    {"--tls-client-ca", "FILE", ON(SERVER), TO(tls_client_ca),
     "authorities, PEM: only clients with a certificate by one of them are let in"},
    {"--token-file", "FILE", ON(SERVER), TO(token_file),
     "JSON: tokens of clients, and the models that each may use; nobody else may read it"},
    {"--control-port", "PORT", ON(SERVER), TO(control_port),
     "where clients load and unload, and nowhere else; 0: any; -1: every port", .initial = "-1", .least = -1,
     .most = 65535},
    {"--control-unix", "PATH", ON(SERVER), TO(control_unix), "the same as a socket file, for its owner only"},
    {"--insecure", NULL, ON(SERVER), TO(insecure),
     "allow an address that other machines reach, though nothing keeps strangers out"},
    {"--http-max-input-size", "BYTES", ON(SERVER), TO(body_bytes), "largest request", .initial = "67108864",
     .least = 1024, .most = 1e12},
    {"--shared-memory", "PREFIX", ON(SERVER), TO(shared_memory),
     "clients may register POSIX shared memory whose keys begin so, as \"/clients-\"; none by default"},
    /* --- what is told of it --- */
    {"--trace-file", "FILE", ON(SERVER), TO(trace_file),
     "where times of queries go that clients trace (POST /v2/trace/setting)", .names = MO_NAMES_OUTPUT},
    {"--record", "FILE", ON(SERVER), TO(record), "the run, for `moire whatif`; written at the end",
     .names = MO_NAMES_OUTPUT},
    {"--record-events", "N", ON(SERVER), TO(record_events),
     "events that every core remembers for it, the last ones, 64 bytes each", .initial = "1048576",
     .least = 1024, .most = 16777216},
    {"--json-log", NULL, ON(SERVER), TO(json_log), "log lines on standard error as JSON"},
    {"--log-verbose", "LEVEL", ON(SERVER), TO(log_verbose), "from 1 on: a line for each request",
     .initial = "0", .least = 0, .most = 9},
    {"--policy", "P", ON(SERVER), TO(policies), "the policy", .initial = "moire", .room = 1},
    {"--threads", "N", ON(SERVER), TO(threads), "cores to use; all by default", .least = 1, .most = 1024},
    {"--store", "DIR", ON(SERVER), TO(store),
     "folder of compiled variants; $XDG_CACHE_HOME/moire/store or ~/.cache/moire/store by default"},
    /* --- moire top --- */
    {"--once", NULL, ON(TOP), TO(once), "prints once and ends, in a terminal too"},
};

const struct mo_flag_rows mo_flag_rows_serve = {rows, (int)(sizeof rows / sizeof *rows)};
