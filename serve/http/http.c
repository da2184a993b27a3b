/* SPDX-License-Identifier: Apache-2.0
 * http.c - listeners and exchanges; see http.h. */
#define _GNU_SOURCE
#include "serve/http/http.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "serve/protocol/fault.h"

/* Bounds of a connection; docs/serving.md has them in its table of limits. */
enum {
    CONNECTIONS = 1000,
    HEADER_BYTES = 64 << 10,
    IDLE_SECONDS = 60,
    LINGER_MS = 200,
    BODY_SECONDS = 60,    /* that any body may take, and more for a long one: */
    BODY_PACE = 64 << 10, /* bytes a second */
    BUDGET_BODIES = 16    /* largest bodies that all connections together may hold */
};

const char *ms_http_header(const struct ms_exchange *x, const char *name) {
    return x->http->mhd.lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

const char *ms_http_argument(const struct ms_exchange *x, const char *name) {
    return x->http->mhd.lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, name);
}

void ms_http_suspend(struct ms_exchange *x) {
    x->is_suspended = true;
    atomic_fetch_add(&x->http->suspended, 1);
    x->http->mhd.suspend_connection(x->connection);
}

/* It was suspended, and is no more. */
static void goes_on(struct ms_exchange *x) {
    if (x->is_suspended) atomic_fetch_sub(&x->http->suspended, 1);
    x->is_suspended = false;
}

/* The answer may be sent, and the server told to stop, before the call returns: close waits for it. */
void ms_http_resume(void *exchange) {
    const struct ms_exchange *x = exchange;
    struct ms_http *h = x->http;
    atomic_fetch_add(&h->resuming, 1);
    h->mhd.resume_connection(x->connection);
    atomic_fetch_sub(&h->resuming, 1);
}

void ms_http_answer(struct ms_exchange *x, json_t *document) {
    char *text = document ? json_dumps(document, JSON_COMPACT) : NULL;
    x->status = text ? 200 : 500;
    x->type = "application/json";
    if (text) ms_bytes_put(&x->answer, text, strlen(text));
    free(text);
    json_decref(document);
}

void ms_http_fail(struct ms_exchange *x, const moire_error *err) {
    const int status = ms_http_status(err->code);
    ms_bytes_free(&x->answer);
    ms_http_answer(x, json_pack("{s:s}", "error", err->message));
    x->status = status == 200 ? 500 : status;
}

static void fail_status(struct ms_exchange *x, int status, const char *what) {
    moire_error err = {.code = MOIRE_EINVAL};
    ms_fail(&err, MOIRE_EINVAL, "%s", what);
    ms_http_fail(x, &err);
    x->status = status;
}

/* --- answering --- */
static void add(struct ms_exchange *x, struct MHD_Response *r, const char *name, const char *value) {
    x->http->mhd.add_response_header(r, name, value);
}

/* A browser runs nothing of the page but its own script, and keeps and frames nothing of it. */
static void add_policy(struct ms_exchange *x, struct MHD_Response *r) {
    char policy[MS_PAGE_POLICY];
    ms_page_policy(x->nonce, policy);
    add(x, r, "Content-Security-Policy", policy);
    add(x, r, "Referrer-Policy", "no-referrer");
    add(x, r, "X-Content-Type-Options", "nosniff");
    add(x, r, "Cache-Control", "no-store");
}

/* Clients that keep connections open find another server by the next one. */
static bool is_ending(const struct ms_http *h) {
    return atomic_load(&h->draining) || ms_repository_leaves(h->repository);
}

static enum MHD_Result send_answer(struct ms_exchange *x) {
    const struct ms_mhd *mhd = &x->http->mhd;
    if (x->answer.failed) {
        ms_bytes_free(&x->answer);
        x->status = 500;
    }
    struct MHD_Response *r =
        mhd->create_response_from_buffer(x->answer.n, x->answer.at, MHD_RESPMEM_MUST_FREE);
    if (!r) return MHD_NO;
    x->sent = x->answer.n;
    x->answer = (struct ms_bytes){0}; /* the response's now */
    if (*x->ids.traceparent) add(x, r, "traceparent", x->ids.traceparent);
    if (*x->ids.request) add(x, r, "X-Request-Id", x->ids.request);
    if (x->type) add(x, r, "Content-Type", x->type);
    if (is_ending(x->http) || !ms_http_has_one_length(x)) add(x, r, "Connection", "close");
    if (x->status == 401) add(x, r, "WWW-Authenticate", "Bearer realm=\"moire\"");
    if (x->status == 429 || x->status == 503) add(x, r, "Retry-After", "1");
    if (x->coding) add(x, r, "Content-Encoding", x->coding == MS_CODING_GZIP ? "gzip" : "deflate");
    if (*x->nonce) add_policy(x, r);
    if (x->json_bytes) {
        char text[32];
        snprintf(text, sizeof text, "%zu", x->json_bytes);
        add(x, r, "Inference-Header-Content-Length", text);
    }
    const enum MHD_Result sent = mhd->queue_response(x->connection, (unsigned)x->status, r);
    mhd->destroy_response(r);
    return sent;
}

/* --- receiving --- */
/* What its client calls it; and what a line of the log needs. */
static void note_request(struct ms_exchange *x, const char *url, const char *method) {
    static const char *const names[] = {"traceparent", "x-request-id"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = ms_http_header(x, names[i]);
        if (value) ms_ids_take(&x->ids, names[i], strlen(names[i]), value, strlen(value));
    }
    x->begun_ns = moire_now(x->http->runtime);
    if (!ms_log_is_verbose(x->http->log)) return;
    snprintf(x->method, sizeof x->method, "%s", method);
    x->path = strdup(url);
}

static void log_request(const struct ms_exchange *x) {
    const struct ms_query *q = x->query;
    const struct ms_request_line line = {.method = x->method,
                                         .path = x->path,
                                         .status = x->status,
                                         .bytes_in = x->body.n,
                                         .bytes_out = x->sent,
                                         .ns = moire_now(x->http->runtime) - x->begun_ns,
                                         .queue_ns = q ? q->queue_ns : 0,
                                         .compute_ns = q ? q->compute_ns : 0,
                                         .model = q ? q->model_name : x->model,
                                         .version = q ? q->model_version : x->version,
                                         .request_id = q ? q->request.id : NULL,
                                         .ids = &x->ids};
    ms_request_log_put(x->http->log, &line);
}

/* Counts n more bytes of the body; false: all clients together send too much. */
static bool hold(struct ms_exchange *x, size_t n) {
    const size_t most = x->http->body_bytes * BUDGET_BODIES;
    const bool fits = atomic_fetch_add(&x->http->held, n) + n <= most;
    x->held += n;
    return fits;
}

static void refuse(struct ms_exchange *x, int status, const char *what) {
    ms_bytes_free(&x->body);
    fail_status(x, status, what);
    x->phase = MS_REFUSED;
}

static const char TOO_LARGE[] = "the request is larger than --http-max-input-size",
                  TOO_MUCH[] = "the server holds as much of requests as it may",
                  NO_MEMORY[] = "no memory for the request";

static void begin_body(struct ms_exchange *x) {
    const char *length = ms_http_header(x, "Content-Length");
    const unsigned long long n = length ? strtoull(length, NULL, 10) : 0;
    if (n > x->http->body_bytes)
        refuse(x, 413, TOO_LARGE);
    else if (!hold(x, (size_t)n))
        refuse(x, 503, TOO_MUCH);
    else if (n)
        ms_bytes_reserve(&x->body, (size_t)n);
}

static struct ms_exchange *begin(const struct ms_listener *l, struct MHD_Connection *connection,
                                 const char *url, const char *method) {
    struct ms_exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->http = l->http;
    x->listener = l;
    x->connection = connection;
    ms_http_head_came(x);
    note_request(x, url, method);
    int status = 0;
    x->route = ms_http_route(x, method, url, &status);
    moire_error err = {0};
    if (!x->route)
        refuse(x, status, status == 405 ? "that path has another method" : "there is no such path");
    else if (ms_http_allow(x, &err))
        ms_http_fail(x, &err);
    else if (!ms_http_has_one_length(x))
        refuse(x, 400, "the length of the body is said twice");
    else
        begin_body(x);
    if (x->status) x->phase = MS_REFUSED;
    return x;
}

/* A client that sends byte by byte would keep its connection, and its memory, for hours. */
static bool is_too_slow(const struct ms_exchange *x) {
    const int64_t most = (BODY_SECONDS + (int64_t)(x->body.n / BODY_PACE)) * 1000000000;
    return moire_now(x->http->runtime) - x->begun_ns > most;
}

static void receive(struct ms_exchange *x, const char *data, size_t n) {
    if (x->phase == MS_REFUSED) return; /* what else comes is thrown away */
    const size_t more = x->body.n + n > x->held ? x->body.n + n - x->held : 0;
    if (x->body.n + n > x->http->body_bytes) {
        refuse(x, 413, TOO_LARGE);
    } else if (more && !hold(x, more)) {
        refuse(x, 503, TOO_MUCH);
    } else {
        ms_bytes_put(&x->body, data, n);
        if (x->body.failed) refuse(x, 503, NO_MEMORY);
    }
}

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data, size_t *n,
                              void **state) {
    struct ms_exchange *x = *state;
    (void)version;
    if (!x) {
        *state = x = begin(user, connection, url, method);
        if (!x) return MHD_NO;
        /* what is too large or too much, or may end elsewhere, is not even received: the connection ends with
         * the answer */
        return x->status == 413 || x->status == 503 || !ms_http_has_one_length(x) ? send_answer(x) : MHD_YES;
    }
    if (*n) {
        receive(x, data, *n);
        *n = 0;
        return is_too_slow(x) ? MHD_NO : MHD_YES;
    }
    if (x->phase == MS_REFUSED) return send_answer(x);
    if (x->phase == MS_WORKING) {
        goes_on(x);
        x->route->finish(x);
        return send_answer(x);
    }
    x->phase = MS_WORKING;
    x->counted = true;
    atomic_fetch_add(&x->http->active, 1);
    x->route->begin(x); /* may suspend, and be resumed already: then x is finished by the next call */
    if (!x->route->finish || x->status) return send_answer(x);
    return MHD_YES;
}

static void completed(void *user, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode why) {
    struct ms_exchange *x = *state;
    (void)user, (void)connection, (void)why;
    if (!x) return;
    ms_http_head_awaited(x);
    if (x->path) log_request(x);
    if (x->query) {
        ms_query_close(x->query);
        ms_request_close(&x->query->request);
        free(x->query);
    }
    if (x->counted) atomic_fetch_sub(&x->http->active, 1);
    atomic_fetch_sub(&x->http->held, x->held);
    goes_on(x); /* where its client has left meanwhile it is over without another call of handle() */
    ms_bytes_free(&x->body);
    ms_bytes_free(&x->answer);
    free(x->path);
    free(x);
    *state = NULL;
}

/* --- listeners --- */
int ms_http_open(struct ms_http *h, moire_error *err) {
    ms_zlib_open(&h->zlib, NULL);
    int rc = ms_mhd_open(&h->mhd, err);
    if (!rc) rc = ms_pool_open(&h->pool, err);
    if (!rc) rc = ms_heads_open(&h->heads, MS_HEAD_SECONDS, err);
    return rc ? rc : ms_watch_open(&h->watch, err);
}

int ms_http_listen(struct ms_http *h, int socket, int how, moire_error *err) {
    const bool by_tls = h->tls && how & MS_LISTEN_TCP;
    struct ms_listener *l = &h->listener[h->n];
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(intptr_t)ms_http_tls_refuse},
        {MHD_OPTION_END, 0, NULL},
    };
    if (!by_tls) tls[0] = tls[1]; /* which ends them */
    if (by_tls && h->mhd.is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return ms_fail(err, MOIRE_EUNSUPPORTED, "libmicrohttpd was built without TLS");
    *l = (struct ms_listener){.http = h, .is_control = how & MS_LISTEN_CONTROL, .by_tls = by_tls};
    /* with epoll libmicrohttpd 0.9.75 spins until a client has ended its handshake */
    l->daemon = h->mhd.start_daemon(
        (by_tls ? MHD_USE_POLL : MHD_USE_EPOLL) | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME |
            MHD_USE_ITC | (by_tls ? MHD_USE_TLS : 0),
        0, NULL, NULL, handle, l, MHD_OPTION_LISTEN_SOCKET, socket, MHD_OPTION_NOTIFY_CONNECTION,
        ms_http_notify, l, MHD_OPTION_NOTIFY_COMPLETED, completed, h, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_UNESCAPE_CALLBACK, ms_http_unescape,
        h, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    if (!l->daemon) return ms_fail(err, MOIRE_EIO, "the HTTP server does not start");
    h->n++;
    return MOIRE_OK;
}

/* Clients that are connected.  Each is told by its next answer that the connection ends. */
static unsigned connections(const struct ms_http *h) {
    unsigned n = 0;
    for (int i = 0; i < h->n; i++) {
        const union MHD_DaemonInfo *info =
            h->mhd.get_daemon_info(h->listener[i].daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
        n += info ? info->num_connections : 0;
    }
    return n;
}

/* Nothing is under way; and those who send requests one after the other have been told. */
static bool is_over(const struct ms_http *h, int ms, int seconds) {
    if (atomic_load(&h->suspended) || atomic_load(&h->resuming)) return false; /* in this order */
    if (ms >= seconds * 1000) return true;
    return !atomic_load(&h->active) && (ms >= LINGER_MS || !connections(h));
}

void ms_http_close(struct ms_http *h, int seconds) {
    int sockets[MS_LISTENERS] = {0};
    const int n = h->n < MS_LISTENERS ? h->n : MS_LISTENERS;
    atomic_store(&h->draining, true);
    for (int i = 0; i < n; i++)
        sockets[i] = h->mhd.quiesce_daemon(h->listener[i].daemon);
    for (int ms = 0; n && !is_over(h, ms, seconds); ms += 2)
        usleep(2000);
    for (int i = 0; i < n; i++) {
        h->mhd.stop_daemon(h->listener[i].daemon);
        if (sockets[i] >= 0) close(sockets[i]);
    }
    h->n = 0;
    ms_pool_close(&h->pool);
    ms_watch_close(&h->watch);
    ms_heads_close(&h->heads);
    ms_mhd_close(&h->mhd);
    ms_zlib_close(&h->zlib);
}
