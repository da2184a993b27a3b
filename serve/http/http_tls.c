/* SPDX-License-Identifier: Apache-2.0
 * http_tls.c - the encryption of HTTP's connections; see http.h.
 *
 * libmicrohttpd makes a session of GnuTLS for each connection and reads its certificate once, at the start.
 * So that certificates can change and clients be asked for theirs, each session is given the server's
 * credentials when its connection begins (ms_tls_arm); libmicrohttpd itself has none. */
#include "serve/http/http.h"

void *ms_http_tls_begin(const struct ms_http *h, struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        h->mhd.get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info && info->tls_session ? ms_tls_arm(h->tls, info->tls_session) : NULL;
}

int ms_http_tls_refuse(gnutls_session_t session, const gnutls_datum_t *authorities, int n,
                       const gnutls_pk_algorithm_t *algorithms, int n_algorithms,
                       gnutls_pcert_st **certificate, unsigned *n_certificates, gnutls_privkey_t *key) {
    (void)session, (void)authorities, (void)n, (void)algorithms, (void)n_algorithms;
    *certificate = NULL;
    *n_certificates = 0;
    *key = NULL;
    return -1;
}
