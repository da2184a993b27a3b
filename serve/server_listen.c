/* SPDX-License-Identifier: Apache-2.0
 * server_listen.c - where the server listens, and what keeps strangers out; see server.h. */
#include <string.h>
#include <unistd.h>
#include "serve/net/sockets.h"
#include "serve/protocol/fault.h"
#include "serve/server_impl.h"

int ms_server_guard(struct ms_server *s, moire_error *err) {
    const struct ms_server_options *o = &s->options;
    const struct ms_tls_files *f = &o->tls;
    const bool any = f->certificate || f->key || f->client_ca;
    if (any && !(f->certificate && f->key))
        return ms_fail(err, MOIRE_EINVAL, "TLS needs both --tls-cert and --tls-key");
    const int rc = any ? ms_tls_open(f, &s->tls, err) : MOIRE_OK;
    return !rc && o->token_file ? ms_access_open(o->token_file, &s->access, err) : rc;
}

/* Other machines may reach the server: strangers are kept out, and nobody listens; or that is asked for. */
static bool is_guarded(const struct ms_server *s) {
    return s->options.insecure || (s->tls && (s->options.tls.client_ca || s->access));
}

/* --- HTTP --- */
static int listen_tcp(struct ms_server *s, int index, int port, int how, moire_error *err) {
    int fd;
    if (port < 0) return MOIRE_OK;
    const int rc = ms_socket_tcp(s->options.host, port, is_guarded(s), &fd, &s->port[index], err);
    return rc ? rc : ms_http_listen(&s->http, fd, MS_LISTEN_TCP | how, err);
}

/* path NULL: none. */
static int open_file(struct ms_server *s, enum ms_socket_file index, const char *path, int *fd,
                     moire_error *err) {
    const int rc = ms_socket_unix(path, fd, err);
    s->owns[index] = !rc;
    return rc;
}

static int listen_file(struct ms_server *s, enum ms_socket_file index, const char *path, int how,
                       moire_error *err) {
    int fd;
    if (!path) return MOIRE_OK;
    const int rc = open_file(s, index, path, &fd, err);
    return rc ? rc : ms_http_listen(&s->http, fd, MS_LISTEN_FILE | how, err);
}

static int listen_http(struct ms_server *s, moire_error *err) {
    const struct ms_server_options *o = &s->options;
    int rc = ms_http_open(&s->http, err);
    s->http.tls = s->tls;
    s->http.access = s->access;
    s->http.control_is_elsewhere = o->control_port >= 0 || o->control_unix;
    s->http.repository = s->repository;
    s->http.runtime = s->runtime;
    s->http.body_bytes = (size_t)o->body_bytes;
    s->http.nv_metrics = o->nv_metrics;
    s->http.log = &s->log;
    if (!rc) rc = listen_tcp(s, MS_PORT_HTTP, o->http_port, 0, err);
    if (!rc) rc = listen_tcp(s, MS_PORT_METRICS, o->metrics_port, 0, err);
    if (!rc) rc = listen_tcp(s, MS_PORT_CONTROL, o->control_port, MS_LISTEN_CONTROL, err);
    if (!rc) rc = listen_file(s, MS_FILE_HTTP, o->unix_path, 0, err);
    if (!rc) rc = listen_file(s, MS_FILE_CONTROL, o->control_unix, MS_LISTEN_CONTROL, err);
    return rc;
}

/* --- gRPC --- */
static int listen_grpc(struct ms_server *s, moire_error *err) {
    const struct ms_server_options *o = &s->options;
    int fd;
    if (o->grpc_port < 0 && !o->grpc_unix) return MOIRE_OK;
    int rc = ms_grpc_open(&s->grpc, err);
    if (rc == MOIRE_EUNSUPPORTED) {
        char line[sizeof err->message + 40];
        snprintf(line, sizeof line, "no gRPC, HTTP only: %s", err->message);
        ms_log_line(&s->log, MOIRE_LOG_WARN, line);
        return MOIRE_OK;
    }
    s->grpc.tls = s->tls;
    s->grpc.access = s->access;
    s->grpc.control_is_elsewhere = s->http.control_is_elsewhere;
    s->grpc.repository = s->repository;
    s->grpc.runtime = s->runtime;
    s->grpc.body_bytes = (size_t)o->body_bytes;
    s->grpc.log = s->http.log;
    if (!rc && o->grpc_port >= 0) {
        rc = ms_socket_tcp(o->host, o->grpc_port, is_guarded(s), &fd, &s->port[MS_PORT_GRPC], err);
        if (!rc) rc = ms_grpc_listen(&s->grpc, fd, s->tls != NULL, err);
    }
    if (!rc && o->grpc_unix) {
        rc = open_file(s, MS_FILE_GRPC, o->grpc_unix, &fd, err);
        if (!rc) rc = ms_grpc_listen(&s->grpc, fd, false, err);
    }
    return rc ? rc : ms_grpc_start(&s->grpc, err);
}

static int listen_agent(struct ms_server *s, moire_error *err) {
    int fd;
    if (s->options.agent_port < 0) return MOIRE_OK;
    const int rc = ms_socket_tcp(s->options.host, s->options.agent_port, is_guarded(s), &fd,
                                 &s->port[MS_PORT_AGENT], err);
    return rc ? rc : ms_agent_open(&s->agent, s->repository, fd, err);
}

int ms_server_listen(struct ms_server *s, moire_error *err) {
    int rc = listen_http(s, err);
    if (!rc) rc = listen_agent(s, err);
    return rc ? rc : listen_grpc(s, err);
}

void ms_server_remove_files(const struct ms_server *s) {
    const char *const path[] = {s->options.unix_path, s->options.grpc_unix, s->options.control_unix};
    for (int i = 0; i < MS_SOCKET_FILES; i++)
        if (s->owns[i]) unlink(path[i]);
}
