/* SPDX-License-Identifier: Apache-2.0
 * handshake.h - TLS handshakes on a thread of their own: a signature takes a millisecond, and those who are
 * connected do not wait for it.
 *
 * Invariants.  A socket that was given is closed, or given on once, encrypted.  No handshake takes longer
 * than MS_HANDSHAKE_SECONDS; beyond MS_HANDSHAKES at once the oldest is broken off. */
#ifndef MS_HANDSHAKE_H
#define MS_HANDSHAKE_H
#include "serve/net/tls.h"

enum { MS_HANDSHAKES = 1000, MS_HANDSHAKE_SECONDS = 10 };

struct ms_handshakes;
struct ms_handshake_options {
    struct ms_tls *tls;
    const char *protocol; /* by ALPN */
    /* Takes over both, on the thread of handshakes. */
    void (*done)(void *user, int socket, struct ms_channel *channel);
    void *user;
};
/* Returns: MOIRE_OK, and it is to be stopped; MOIRE_EIO: no thread; MOIRE_ENOMEM. */
int ms_handshakes_start(const struct ms_handshake_options *options, struct ms_handshakes **out,
                        moire_error *err);
/* Breaks off what is under way.  NULL is fine. */
void ms_handshakes_stop(struct ms_handshakes *handshakes);
/* A socket that does not block, taken over.  Any thread, but not beside ms_handshakes_stop(). */
void ms_handshakes_add(struct ms_handshakes *handshakes, int socket);
#endif
