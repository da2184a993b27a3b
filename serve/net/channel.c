/* SPDX-License-Identifier: Apache-2.0
 * channel.c - the encryption of one connection; see tls.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "serve/net/tls.h"

enum { RECORD = 16384 }; /* most of a record's text */

struct ms_channel {
    struct ms_tls *tls;
    struct ms_tls_keys *keys;
    gnutls_session_t session;
    bool is_open; /* the handshake has ended well, and nothing failed since */
    bool pending; /* a record was taken and is not sent to its end */
};

struct ms_channel *ms_channel_new(struct ms_tls *tls, int socket, const char *protocol) {
    const struct ms_gnutls *g = ms_tls_library(tls);
    struct ms_channel *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->tls = tls;
    if (g->init(&c->session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL)) c->session = NULL;
    if (c->session) c->keys = ms_tls_arm(tls, c->session);
    if (!c->keys) {
        ms_channel_free(c);
        return NULL;
    }
    if (protocol) {
        const gnutls_datum_t name = {(unsigned char *)(uintptr_t)protocol, (unsigned)strlen(protocol)};
        g->alpn_set_protocols(c->session, &name, 1, GNUTLS_ALPN_MANDATORY);
    }
    g->transport_set_int2(c->session, socket, socket);
    return c;
}

void ms_channel_free(struct ms_channel *c) {
    if (!c) return;
    const struct ms_gnutls *g = ms_tls_library(c->tls);
    if (c->is_open && !c->pending) g->bye(c->session, GNUTLS_SHUT_WR);
    if (c->session) g->deinit(c->session);
    ms_tls_disarm(c->tls, c->keys);
    free(c);
}

enum ms_handshake ms_channel_handshake(struct ms_channel *c) {
    const struct ms_gnutls *g = ms_tls_library(c->tls);
    int rc;
    do
        rc = g->handshake(c->session);
    while (rc < 0 && rc != GNUTLS_E_AGAIN && !g->error_is_fatal(rc));
    c->is_open = !rc;
    if (!rc) return MS_HANDSHAKE_DONE;
    if (rc == GNUTLS_E_AGAIN)
        return g->record_get_direction(c->session) ? MS_HANDSHAKE_WRITES : MS_HANDSHAKE_READS;
    g->alert_send_appropriate(c->session, rc); /* says why */
    return MS_HANDSHAKE_FAILED;
}

/* What GnuTLS says of a record, as recv() and send() would. */
static ssize_t as_socket(struct ms_channel *c, ssize_t rc) {
    if (rc >= 0) return rc;
    const bool again = rc == GNUTLS_E_AGAIN || rc == GNUTLS_E_INTERRUPTED;
    errno = again ? EAGAIN : EPROTO;
    if (!again) c->is_open = false;
    return -1;
}

ssize_t ms_channel_receive(struct ms_channel *c, int socket, void *to, size_t room) {
    if (!c) return recv(socket, to, room, 0);
    const struct ms_gnutls *g = ms_tls_library(c->tls);
    size_t n = 0;
    /* a record is taken whole, so that none waits here while its socket has nothing to say */
    while (n + RECORD <= room) {
        const ssize_t got = g->record_recv(c->session, (char *)to + n, room - n);
        if (got == GNUTLS_E_WARNING_ALERT_RECEIVED) continue;
        if (got <= 0 && n) break; /* comes again, unless it was for want of bytes */
        if (got <= 0) return as_socket(c, got);
        n += (size_t)got;
    }
    return (ssize_t)n;
}

ssize_t ms_channel_send(struct ms_channel *c, int socket, const void *from, size_t n) {
    if (!c) return send(socket, from, n, MSG_NOSIGNAL);
    /* what was begun is ended first; its bytes lie with GnuTLS, which then says how many they were */
    const ssize_t rc =
        ms_tls_library(c->tls)->record_send(c->session, c->pending ? NULL : from, c->pending ? 0 : n);
    c->pending = rc == GNUTLS_E_AGAIN || rc == GNUTLS_E_INTERRUPTED;
    return as_socket(c, rc);
}
