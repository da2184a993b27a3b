/* SPDX-License-Identifier: Apache-2.0
 * gnutls.h - GnuTLS, loaded at run time: only who serves with --tls-cert, or looks at such a server, needs
 * it. */
#ifndef MS_GNUTLS_H
#define MS_GNUTLS_H
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include "moire.h"

/* X(name): what is called of it */
#define MS_GNUTLS_CALLS(X)                                                                                   \
    X(priority_init)                                                                                         \
    X(priority_deinit)                                                                                       \
    X(priority_set)                                                                                          \
    X(certificate_allocate_credentials)                                                                      \
    X(certificate_free_credentials)                                                                          \
    X(certificate_set_x509_key_mem)                                                                          \
    X(certificate_set_x509_trust_mem)                                                                        \
    X(certificate_server_set_request)                                                                        \
    X(certificate_set_x509_key_file)                                                                         \
    X(certificate_set_x509_trust_file)                                                                       \
    X(certificate_set_x509_system_trust)                                                                     \
    X(certificate_verification_status_print)                                                                 \
    X(credentials_set)                                                                                       \
    X(session_set_verify_cert)                                                                               \
    X(session_set_verify_cert2)                                                                              \
    X(session_get_verify_cert_status)                                                                        \
    X(set_default_priority)                                                                                  \
    X(server_name_set)                                                                                       \
    X(init)                                                                                                  \
    X(deinit)                                                                                                \
    X(alpn_set_protocols)                                                                                    \
    X(transport_set_int2)                                                                                    \
    X(handshake)                                                                                             \
    X(record_send)                                                                                           \
    X(record_recv)                                                                                           \
    X(record_get_direction)                                                                                  \
    X(error_is_fatal)                                                                                        \
    X(alert_send_appropriate)                                                                                \
    X(bye)                                                                                                   \
    X(memset)                                                                                                \
    X(strerror)

struct ms_gnutls {
    void *library;
#define MS_GNUTLS_FIELD(name) __typeof__(gnutls_##name) *name;
    MS_GNUTLS_CALLS(MS_GNUTLS_FIELD)
#undef MS_GNUTLS_FIELD
};

/* Returns: MOIRE_OK; MOIRE_EUNSUPPORTED: it is not installed. */
int ms_gnutls_open(struct ms_gnutls *out, moire_error *err);
void ms_gnutls_close(struct ms_gnutls *gnutls);
#endif
