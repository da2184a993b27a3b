/* SPDX-License-Identifier: Apache-2.0
 * http.h - the HTTP/1.1 door: listeners, and exchanges (a request and its answer).
 *
 * libmicrohttpd's one thread reads, parses and writes, what is large is for the threads of a pool.  A request
 * that takes time (a query, a load) suspends its connection; whoever ends it resumes that, and the answer
 * goes out by the same one thread.
 *
 * Invariant.  A suspended connection is resumed exactly once, and nothing of its exchange is touched by
 * others after that. */
#ifndef MS_HTTP_H
#define MS_HTTP_H
#include <stdatomic.h>
#include "serve/access/access.h"
#include "serve/http/http_heads.h"
#include "serve/http/http_watch.h"
#include "serve/http/mhd.h"
#include "serve/net/coding.h"
#include "serve/net/request_log.h"
#include "serve/net/side_threads.h"
#include "serve/net/tls.h"
#include "serve/page/live_page.h"
#include "serve/query/infer_query.h"

enum { MS_LISTENERS = 5 };

/* A socket on which clients come. */
struct ms_listener {
    struct ms_http *http;
    struct MHD_Daemon *daemon;
    bool is_control; /* who loads and unloads comes this way */
    bool by_tls;
};

struct ms_http {
    struct ms_mhd mhd;
    struct ms_zlib zlib;       /* without it nothing is compressed */
    struct ms_tls *tls;        /* NULL: sockets of TCP are plain, too */
    struct ms_access *access;  /* NULL: everybody may do everything */
    bool control_is_elsewhere; /* a listener of its own takes it */
    struct ms_pool pool;       /* for what is large */
    struct ms_watch watch;
    struct ms_heads heads;
    struct ms_repository *repository;
    moire_runtime *runtime;
    size_t body_bytes; /* most of a request */
    struct ms_listener listener[MS_LISTENERS];
    const struct ms_log *log;
    bool nv_metrics; /* with the names of Triton, too */
    int n;
    atomic_int suspended; /* libmicrohttpd cannot stop while there is one */
    atomic_int resuming;  /* threads that wake one just now: it, and its code, must stay until they return */
    atomic_int active;    /* requests that are whole and not answered to the end */
    atomic_bool draining; /* no new work */
    atomic_size_t held;   /* bytes of all bodies that are received or worked on */
};

enum ms_phase { MS_RECEIVING, MS_WORKING, MS_REFUSED };
struct ms_exchange {
    struct ms_http *http;
    const struct ms_listener *listener;
    struct MHD_Connection *connection;
    const struct ms_route *route;
    char model[MS_NAME], version[MS_VERSION]; /* of the path; version "": the newest */
    struct ms_bearer bearer;
    struct ms_ids ids;
    /* for the log, where it has a line for each request */
    char method[8], *path;
    int64_t begun_ns;
    size_t sent; /* bytes of the answer */
    enum ms_phase phase;
    bool counted, is_suspended;
    struct ms_bytes body;
    size_t held; /* of the door's: the body's length where its client has said it, else what has come */
    struct ms_query *query; /* of an infer request, else NULL */
    struct ms_task task;    /* of such a one that is large */
    enum ms_coding accepts; /* that its client takes */
    bool is_written;
    struct ms_watched watched;
    /* the answer, once status is not 0 */
    int status;
    struct ms_bytes answer;
    const char *type;
    size_t json_bytes; /* of a binary answer */
    enum ms_coding coding;
    char nonce[MS_NONCE]; /* of the live page; "": it is another answer */
    moire_error error;    /* of a job */
};

/* http.c.  Listens on a socket that is bound already; it is the daemon's from now on. */
int ms_http_open(struct ms_http *http, moire_error *err);
enum ms_listen {
    MS_LISTEN_FILE = 0,
    MS_LISTEN_TCP = 1,
    MS_LISTEN_CONTROL = 2
}; /* TCP: by TLS, if there is */
int ms_http_listen(struct ms_http *http, int socket, int how, moire_error *err);
/* Takes no further connection, answers what is under way (clients have `seconds` to read it), closes all. */
void ms_http_close(struct ms_http *http, int seconds);
const char *ms_http_header(const struct ms_exchange *x, const char *name);   /* NULL: not given */
const char *ms_http_argument(const struct ms_exchange *x, const char *name); /* "?name=", NULL: not given */
void ms_http_suspend(struct ms_exchange *x);
void ms_http_resume(void *exchange);
/* The answer is an error of that code; or that document, which is taken over. */
void ms_http_fail(struct ms_exchange *x, const moire_error *err);
void ms_http_answer(struct ms_exchange *x, json_t *document);

/* http_target.c, for libmicrohttpd: %HH of a path, in place.  Returns: the length.  And whether the headers
 * say once only how long the body is: what a proxy before the server reads otherwise would hide a request in
 * it. */
size_t ms_http_unescape(void *user, struct MHD_Connection *connection, char *text);
bool ms_http_has_one_length(const struct ms_exchange *x);

/* http_connection.c, for libmicrohttpd: a connection comes and goes; and, of an exchange, its head has come,
 * and the next one is awaited. */
void ms_http_notify(void *listener, struct MHD_Connection *connection, void **context,
                    enum MHD_ConnectionNotificationCode what);
void ms_http_head_came(const struct ms_exchange *x);
void ms_http_head_awaited(const struct ms_exchange *x);

/* http_tls.c: the keys of a connection by TLS that comes; for libmicrohttpd, the certificate of one that was
 * not armed when it came, which has none. */
void *ms_http_tls_begin(const struct ms_http *http, struct MHD_Connection *connection);
int ms_http_tls_refuse(gnutls_session_t session, const gnutls_datum_t *authorities, int n,
                       const gnutls_pk_algorithm_t *algorithms, int n_algorithms,
                       gnutls_pcert_st **certificate, unsigned *n_certificates, gnutls_privkey_t *key);

/* http_routes.c */
struct ms_route {
    const char *method, *path; /* "*": a model's name or its version */
    enum ms_right right;       /* that its client needs */
    void (*begin)(struct ms_exchange *x);
    void (*finish)(struct ms_exchange *x); /* after it was suspended */
};
/* The route, and the words that stars stand for.  NULL: none; *status says why (404, 405). */
const struct ms_route *ms_http_route(struct ms_exchange *x, const char *method, const char *path,
                                     int *status);

/* http_access.c.  Whether the client may do what it asks for.  Returns: as ms_access_check(); MS_EDENIED: it
 * came by the wrong listener. */
int ms_http_allow(struct ms_exchange *x, moire_error *err);

/* http_infer.c, http_control.c, http_documents.c: what routes do. */
void ms_http_infer(struct ms_exchange *x);
void ms_http_inferred(struct ms_exchange *x);
void ms_http_load(struct ms_exchange *x);
void ms_http_unload(struct ms_exchange *x);
void ms_http_job_done(struct ms_exchange *x);
void ms_http_index(struct ms_exchange *x);
void ms_http_live(struct ms_exchange *x);
void ms_http_ready(struct ms_exchange *x);
void ms_http_server(struct ms_exchange *x);
void ms_http_model(struct ms_exchange *x);
void ms_http_model_ready(struct ms_exchange *x);
void ms_http_config(struct ms_exchange *x);
void ms_http_stats(struct ms_exchange *x);
/* http_page.c */
void ms_http_page(struct ms_exchange *x);
void ms_http_watch(struct ms_exchange *x);
void ms_http_all_stats(struct ms_exchange *x);
void ms_http_metrics(struct ms_exchange *x);
/* http_regions.c */
void ms_http_regions(struct ms_exchange *x);
void ms_http_register(struct ms_exchange *x);
void ms_http_unregister(struct ms_exchange *x);
void ms_http_no_regions(struct ms_exchange *x);
void ms_http_no_register(struct ms_exchange *x);
void ms_http_no_unregister(struct ms_exchange *x);
/* http_settings.c */
void ms_http_trace(struct ms_exchange *x);
void ms_http_set_trace(struct ms_exchange *x);
void ms_http_log(struct ms_exchange *x);
void ms_http_set_log(struct ms_exchange *x);
#endif
