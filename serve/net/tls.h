/* SPDX-License-Identifier: Apache-2.0
 * tls.h - encryption of the server's TCP sockets by GnuTLS: its certificate, whom it lets in, and a client's
 * channel.
 *
 * The files are read at the start and by ms_tls_reload().  A session holds the credentials with which it
 * began (struct ms_tls_keys), so that a reload changes what the next client meets and breaks off nobody.
 *
 * TLS 1.2 and 1.3, key exchanges with forward secrecy, ciphers of 128 bits and more.  Where a file of
 * authorities for clients is given, a client without a certificate that one of them signed for this use does
 * not come through the handshake. */
#ifndef MS_TLS_H
#define MS_TLS_H
#include <stdbool.h>
#include <sys/types.h>
#include "serve/net/gnutls.h"

enum { MS_TLS_FILE_BYTES = 1 << 20 };

/* Files in PEM.  certificate: the server's, then those that lead to its authority. */
struct ms_tls_files {
    const char *certificate, *key, *client_ca; /* client_ca NULL: clients need no certificate */
};

struct ms_tls;
struct ms_tls_keys;
/* The names in `files` are kept.  Returns: MOIRE_OK, and it is to be closed; MOIRE_EUNSUPPORTED: no GnuTLS;
 * MOIRE_EIO: a file cannot be read; MOIRE_EFORMAT: or is no PEM, or the key is not the certificate's;
 * MOIRE_ENOMEM. */
int ms_tls_open(const struct ms_tls_files *files, struct ms_tls **out, moire_error *err);
void ms_tls_close(struct ms_tls *tls); /* NULL is fine */
/* Reads the files again.  Any thread.  Returns: as ms_tls_open(); on an error the old ones stay in use. */
int ms_tls_reload(struct ms_tls *tls, moire_error *err);
const struct ms_gnutls *ms_tls_library(const struct ms_tls *tls);

/* Gives a server's session, before its handshake, the credentials of now.  Any thread.
 * Returns: what is to be put back when the session is over; NULL: the session is of no use. */
struct ms_tls_keys *ms_tls_arm(struct ms_tls *tls, gnutls_session_t session);
void ms_tls_disarm(struct ms_tls *tls, struct ms_tls_keys *keys);

/* A connection's encryption; one thread at a time. */
struct ms_channel;
/* protocol: by ALPN ("h2"), or NULL.  NULL: no memory. */
struct ms_channel *ms_channel_new(struct ms_tls *tls, int socket, const char *protocol);
void ms_channel_free(struct ms_channel *channel); /* says goodbye; the socket stays open.  NULL is fine */
/* One step of the handshake of a socket that does not block. */
enum ms_handshake { MS_HANDSHAKE_DONE, MS_HANDSHAKE_READS, MS_HANDSHAKE_WRITES, MS_HANDSHAKE_FAILED };
enum ms_handshake ms_channel_handshake(struct ms_channel *channel);
/* As recv() and send(); channel NULL: plain.  Receive takes what is there, in rooms of 16 KiB and more.
 * Returns: bytes; 0 (of receive): the client has ended; -1 with errno EAGAIN or another. */
ssize_t ms_channel_receive(struct ms_channel *channel, int socket, void *to, size_t room);
ssize_t ms_channel_send(struct ms_channel *channel, int socket, const void *from, size_t n);
#endif
