/* SPDX-License-Identifier: Apache-2.0
 * live_tls.c - a client of TLS by GnuTLS, which is loaded when it is asked for; see live_link.h. */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/error.h"
#include "serve/net/gnutls.h"
#include "tools/moire/top/live_link.h"

struct mo_live_tls {
    struct ms_gnutls gnutls;
    gnutls_certificate_credentials_t credentials;
    gnutls_session_t session;
    const char *url;
    bool is_open;
};

static int read_files(struct mo_live_tls *t, const struct mo_live_server *s, moire_error *err) {
    const struct ms_gnutls *g = &t->gnutls;
    if (g->certificate_allocate_credentials(&t->credentials))
        return mo_fail(err, MOIRE_ENOMEM, "no memory for TLS");
    int rc = s->tls_ca ? g->certificate_set_x509_trust_file(t->credentials, s->tls_ca, GNUTLS_X509_FMT_PEM)
                       : g->certificate_set_x509_system_trust(t->credentials);
    if (s->tls_ca && rc <= 0)
        return mo_fail(err, MOIRE_EIO, "--tls-ca %.300s: %s", s->tls_ca,
                       rc ? g->strerror(rc) : "there is no certificate in it");
    if (!s->tls_cert) return MOIRE_OK;
    rc = g->certificate_set_x509_key_file(t->credentials, s->tls_cert, s->tls_key, GNUTLS_X509_FMT_PEM);
    return rc < 0 ? mo_fail(err, MOIRE_EIO, "--tls-cert %.200s and --tls-key %.200s: %s", s->tls_cert,
                            s->tls_key, g->strerror(rc))
                  : MOIRE_OK;
}

static bool is_number(const char *host) {
    uint8_t address[16];
    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

static int arm(struct mo_live_tls *t, const char *host, int socket, moire_error *err) {
    const struct ms_gnutls *g = &t->gnutls;
    if (g->init(&t->session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL) || g->set_default_priority(t->session) ||
        g->credentials_set(t->session, GNUTLS_CRD_CERTIFICATE, t->credentials))
        return mo_fail(err, MOIRE_ENOMEM, "no memory for TLS");
    if (!is_number(host)) g->server_name_set(t->session, GNUTLS_NAME_DNS, host, strlen(host));
    g->session_set_verify_cert(t->session, host, 0);
    g->transport_set_int2(t->session, socket, socket);
    return MOIRE_OK;
}

static int refused(const struct mo_live_tls *t, int rc, moire_error *err) {
    const struct ms_gnutls *g = &t->gnutls;
    gnutls_datum_t why = {0};
    if (rc == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR)
        g->certificate_verification_status_print(g->session_get_verify_cert_status(t->session),
                                                 GNUTLS_CRT_X509, &why, 0);
    if (rc == GNUTLS_E_AGAIN)
        mo_fail(err, MOIRE_EIO, "%s: the handshake of TLS takes too long", t->url);
    else
        mo_fail(err, MOIRE_EIO, "%s: no connection by TLS: %s", t->url,
                why.data ? (const char *)why.data : g->strerror(rc));
    free(why.data);
    return MOIRE_EIO;
}

static int shake_hands(struct mo_live_tls *t, moire_error *err) {
    int rc;
    do
        rc = t->gnutls.handshake(t->session);
    while (rc < 0 && rc != GNUTLS_E_AGAIN && !t->gnutls.error_is_fatal(rc));
    t->is_open = !rc;
    return rc ? refused(t, rc, err) : MOIRE_OK;
}

int mo_live_tls_open(const struct mo_live_server *server, const char *host, int socket,
                     struct mo_live_tls **out, moire_error *err) {
    struct mo_live_tls *t = *out = calloc(1, sizeof *t);
    if (!t) return mo_fail(err, MOIRE_ENOMEM, "no memory for TLS");
    t->url = server->url;
    int rc = ms_gnutls_open(&t->gnutls, err);
    if (!rc) rc = read_files(t, server, err);
    if (!rc) rc = arm(t, host, socket, err);
    if (!rc) rc = shake_hands(t, err);
    if (!rc) return MOIRE_OK;
    mo_live_tls_close(t);
    *out = NULL;
    return rc;
}

void mo_live_tls_close(struct mo_live_tls *t) {
    if (!t) return;
    if (t->is_open) t->gnutls.bye(t->session, GNUTLS_SHUT_WR);
    if (t->session) t->gnutls.deinit(t->session);
    if (t->credentials) t->gnutls.certificate_free_credentials(t->credentials);
    ms_gnutls_close(&t->gnutls);
    free(t);
}

static ssize_t failed(struct mo_live_tls *t, ssize_t rc, moire_error *err) {
    t->is_open = false;
    mo_fail(err, MOIRE_EIO, "%s: %s", t->url,
            rc == GNUTLS_E_AGAIN ? "no answer in five seconds" : t->gnutls.strerror((int)rc));
    return -1;
}

ssize_t mo_live_tls_send(struct mo_live_tls *t, const char *text, size_t n, moire_error *err) {
    const ssize_t sent = t->gnutls.record_send(t->session, text, n);
    return sent < 0 ? failed(t, sent, err) : sent;
}

ssize_t mo_live_tls_receive(struct mo_live_tls *t, char *to, size_t room, moire_error *err) {
    ssize_t n;
    do
        n = t->gnutls.record_recv(t->session, to, room);
    while (n < 0 && n != GNUTLS_E_AGAIN && n != GNUTLS_E_PREMATURE_TERMINATION &&
           !t->gnutls.error_is_fatal((int)n));
    if (n == GNUTLS_E_PREMATURE_TERMINATION) n = 0; /* whoever reads sees whether all has come */
    return n < 0 ? failed(t, n, err) : n;
}
