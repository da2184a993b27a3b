/* SPDX-License-Identifier: Apache-2.0
 * live_link.h - a connection to a server: by TCP, by TLS, or by a socket file.  A server that says nothing
 * for five seconds is given up. */
#ifndef MO_LIVE_LINK_H
#define MO_LIVE_LINK_H
#include <sys/types.h>
#include "moire.h"

enum { MO_LIVE_HOST = 256, MO_LIVE_PORT = 16 };

/* url: "http://HOST:PORT" or "https://HOST:PORT" (what stands behind is not looked at), "HOST:PORT", or
 * "unix:PATH" of a socket file.  Where it has no scheme, tls_ca says that it is https.  Files are PEM; each
 * of the others may be NULL: no token; the authorities of this machine; no certificate of the client's own.
 */
struct mo_live_server {
    const char *url, *token, *tls_ca, *tls_cert, *tls_key;
};

struct mo_live_link;
/* Returns: MOIRE_OK, and *out is to be closed; MOIRE_EINVAL: no such URL, or files for TLS without TLS;
 * MOIRE_EIO: nobody answers, the handshake fails, or a file cannot be used; MOIRE_EUNSUPPORTED: no GnuTLS;
 * MOIRE_ENOMEM. */
int mo_live_open(const struct mo_live_server *server, struct mo_live_link **out, moire_error *err);
void mo_live_close(struct mo_live_link *link);
/* All of it.  MOIRE_EIO. */
int mo_live_send(struct mo_live_link *link, const char *text, size_t n, moire_error *err);
/* Returns: bytes; 0: the server has ended; -1: *err says why. */
ssize_t mo_live_receive(struct mo_live_link *link, char *to, size_t room, moire_error *err);

/* live_tls.c: the client's side of TLS on a socket that is connected, and waits as its options say. */
struct mo_live_tls;
/* The certificate must be of `host`.  Returns: as mo_live_open(). */
int mo_live_tls_open(const struct mo_live_server *server, const char *host, int socket,
                     struct mo_live_tls **out, moire_error *err);
void mo_live_tls_close(struct mo_live_tls *tls); /* the socket stays open.  NULL is fine */
ssize_t mo_live_tls_send(struct mo_live_tls *tls, const char *text, size_t n, moire_error *err);
ssize_t mo_live_tls_receive(struct mo_live_tls *tls, char *to, size_t room, moire_error *err);
#endif
