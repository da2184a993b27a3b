/* SPDX-License-Identifier: Apache-2.0
 * tls.c - the server's certificate and whom it lets in; see tls.h. */
#include "serve/net/tls.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "serve/protocol/fault.h"

/* X25519 is what clients offer first: with another first, each handshake would take one more round. */
#define PRIORITY                                                                                             \
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:"          \
    "+GROUP-SECP384R1:%SERVER_PRECEDENCE"

/* Invariant: `users` counts the sessions that use it, and one more while it is the server's. */
struct ms_tls_keys {
    gnutls_certificate_credentials_t credentials;
    bool wants_client;
    int users;
};

struct ms_tls {
    struct ms_gnutls gnutls;
    struct ms_tls_files files;
    gnutls_priority_t priority;
    gnutls_typed_vdata_st for_clients; /* the use that a client's certificate has; sessions point to it */
    pthread_mutex_t lock;              /* of `current`, and of all `users` */
    struct ms_tls_keys *current;
};

/* --- the files --- */
static void forget(const struct ms_gnutls *g, gnutls_datum_t *d) {
    if (d->data) g->memset(d->data, 0, d->size);
    free(d->data);
    *d = (gnutls_datum_t){0};
}

static int read_file(const struct ms_gnutls *g, const char *path, const char *flag, gnutls_datum_t *out,
                     moire_error *err) {
    *out = (gnutls_datum_t){.data = malloc(MS_TLS_FILE_BYTES)};
    if (!out->data) return ms_fail(err, MOIRE_ENOMEM, "no memory for %s", flag);
    FILE *f = fopen(path, "re");
    if (!f) return ms_fail(err, MOIRE_EIO, "%s: cannot read %.200s: %s", flag, path, strerror(errno));
    setvbuf(f, NULL, _IONBF, 0); /* no copy of a key stays in a buffer */
    out->size = (unsigned)fread(out->data, 1, MS_TLS_FILE_BYTES, f);
    const bool failed = ferror(f), too_large = out->size == MS_TLS_FILE_BYTES;
    fclose(f);
    if (!failed && !too_large) return MOIRE_OK;
    forget(g, out);
    return ms_fail(err, MOIRE_EIO, "%s: %.200s %s", flag, path,
                   failed ? "cannot be read" : "is larger than 1 MiB");
}

static int fill(struct ms_tls *tls, const gnutls_datum_t pem[3], struct ms_tls_keys *k, moire_error *err) {
    const struct ms_gnutls *g = &tls->gnutls;
    if (g->certificate_allocate_credentials(&k->credentials))
        return ms_fail(err, MOIRE_ENOMEM, "no memory for the certificate");
    int rc = g->certificate_set_x509_key_mem(k->credentials, &pem[0], &pem[1], GNUTLS_X509_FMT_PEM);
    if (rc < 0)
        return ms_fail(err, MOIRE_EFORMAT, "--tls-cert %.200s and --tls-key %.200s: %s",
                       tls->files.certificate, tls->files.key, g->strerror(rc));
    k->wants_client = tls->files.client_ca != NULL;
    if (!k->wants_client) return MOIRE_OK;
    rc = g->certificate_set_x509_trust_mem(k->credentials, &pem[2], GNUTLS_X509_FMT_PEM);
    if (rc > 0) return MOIRE_OK;
    return ms_fail(err, MOIRE_EFORMAT, "--tls-client-ca %.200s: %s", tls->files.client_ca,
                   rc ? g->strerror(rc) : "there is no certificate in it");
}

static void free_keys(struct ms_tls *tls, struct ms_tls_keys *k) {
    if (k && k->credentials) tls->gnutls.certificate_free_credentials(k->credentials);
    free(k);
}

static int load(struct ms_tls *tls, struct ms_tls_keys **out, moire_error *err) {
    const char *const path[] = {tls->files.certificate, tls->files.key, tls->files.client_ca},
                      *const flag[] = {"--tls-cert", "--tls-key", "--tls-client-ca"};
    gnutls_datum_t pem[3] = {{0}, {0}, {0}};
    struct ms_tls_keys *k = calloc(1, sizeof *k);
    int rc = k ? MOIRE_OK : ms_fail(err, MOIRE_ENOMEM, "no memory for the certificate");
    for (int i = 0; i < 3 && !rc; i++)
        if (path[i]) rc = read_file(&tls->gnutls, path[i], flag[i], &pem[i], err);
    if (!rc && k) rc = fill(tls, pem, k, err);
    for (int i = 0; i < 3; i++)
        forget(&tls->gnutls, &pem[i]);
    if (!rc && k) {
        k->users = 1;
        *out = k;
    } else {
        free_keys(tls, k);
    }
    return rc;
}

/* --- open, reload, close --- */
int ms_tls_open(const struct ms_tls_files *files, struct ms_tls **out, moire_error *err) {
    struct ms_tls *tls = calloc(1, sizeof *tls);
    *out = NULL;
    if (!tls) return ms_fail(err, MOIRE_ENOMEM, "no memory for TLS");
    tls->files = *files;
    tls->for_clients = (gnutls_typed_vdata_st){.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                               .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT};
    pthread_mutex_init(&tls->lock, NULL);
    int rc = ms_gnutls_open(&tls->gnutls, err);
    if (!rc && tls->gnutls.priority_init(&tls->priority, PRIORITY, NULL))
        rc = ms_fail(err, MOIRE_EUNSUPPORTED, "GnuTLS does not know the priorities %s", PRIORITY);
    if (!rc) rc = load(tls, &tls->current, err);
    if (rc)
        ms_tls_close(tls);
    else
        *out = tls;
    return rc;
}

int ms_tls_reload(struct ms_tls *tls, moire_error *err) {
    struct ms_tls_keys *k;
    const int rc = load(tls, &k, err);
    if (rc) return rc;
    pthread_mutex_lock(&tls->lock);
    struct ms_tls_keys *old = tls->current;
    tls->current = k;
    pthread_mutex_unlock(&tls->lock);
    ms_tls_disarm(tls, old);
    return MOIRE_OK;
}

void ms_tls_close(struct ms_tls *tls) {
    if (!tls) return;
    free_keys(tls, tls->current);
    if (tls->priority) tls->gnutls.priority_deinit(tls->priority);
    pthread_mutex_destroy(&tls->lock);
    ms_gnutls_close(&tls->gnutls);
    free(tls);
}

const struct ms_gnutls *ms_tls_library(const struct ms_tls *tls) {
    return &tls->gnutls;
}

/* --- sessions --- */
struct ms_tls_keys *ms_tls_arm(struct ms_tls *tls, gnutls_session_t session) {
    const struct ms_gnutls *g = &tls->gnutls;
    pthread_mutex_lock(&tls->lock);
    struct ms_tls_keys *k = tls->current;
    k->users++;
    pthread_mutex_unlock(&tls->lock);
    if (g->credentials_set(session, GNUTLS_CRD_CERTIFICATE, k->credentials) ||
        g->priority_set(session, tls->priority)) {
        ms_tls_disarm(tls, k);
        return NULL;
    }
    g->certificate_server_set_request(session, k->wants_client ? GNUTLS_CERT_REQUIRE : GNUTLS_CERT_IGNORE);
    if (k->wants_client) g->session_set_verify_cert2(session, &tls->for_clients, 1, 0);
    return k;
}

void ms_tls_disarm(struct ms_tls *tls, struct ms_tls_keys *k) {
    if (!k) return;
    pthread_mutex_lock(&tls->lock);
    const bool last = --k->users == 0;
    pthread_mutex_unlock(&tls->lock);
    if (last) free_keys(tls, k);
}
