/* SPDX-License-Identifier: Apache-2.0
 * http_connection.c - what a connection of HTTP has beside libmicrohttpd's own: how long its client has for
 * the head of a request (http_heads.h), and its keys where it is encrypted (http_tls.c). */
#include <stdlib.h>
#include "serve/http/http.h"

struct connected {
    struct ms_head head;
    void *keys;
};

static struct connected *of(const struct ms_exchange *x) {
    const union MHD_ConnectionInfo *info =
        x->http->mhd.get_connection_info(x->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

void ms_http_head_came(const struct ms_exchange *x) {
    struct connected *c = of(x);
    if (c) ms_heads_came(&c->head);
}

void ms_http_head_awaited(const struct ms_exchange *x) {
    struct connected *c = of(x);
    if (c) ms_heads_await(&c->head);
}

static struct connected *begin(const struct ms_listener *l, struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        l->http->mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct connected *c = info ? calloc(1, sizeof *c) : NULL;
    if (!c) return NULL; /* no memory: libmicrohttpd has its bounds all the same */
    ms_heads_add(&l->http->heads, &c->head, info->connect_fd);
    if (l->by_tls) c->keys = ms_http_tls_begin(l->http, connection);
    return c;
}

void ms_http_notify(void *listener, struct MHD_Connection *connection, void **context,
                    enum MHD_ConnectionNotificationCode what) {
    const struct ms_listener *l = listener;
    struct connected *c = *context;
    if (what != MHD_CONNECTION_NOTIFY_CLOSED) {
        moire_foreground(); /* the library's thread: it has no other moment to say so */
        *context = begin(l, connection);
    } else if (c) {
        if (l->by_tls) ms_tls_disarm(l->http->tls, c->keys);
        ms_heads_remove(&l->http->heads, &c->head);
        free(c);
        *context = NULL;
    }
}
