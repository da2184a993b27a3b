/* SPDX-License-Identifier: Apache-2.0
 * live_link.c - finds the server and connects to it; see live_link.h. */
#define _GNU_SOURCE
#include "tools/moire/top/live_link.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include "runtime/base/error.h"

enum { PATIENCE_SECONDS = 5 };
#define FILE_SCHEME "unix:"

struct mo_live_link {
    int fd;
    struct mo_live_tls *tls; /* NULL: plain */
    const char *url;
};

/* --- where --- */
struct place {
    char host[MO_LIVE_HOST], port[MO_LIVE_PORT];
    bool by_tls;
};

/* What stands behind the scheme. */
static int read_scheme(const struct mo_live_server *s, const char **rest, bool *by_tls, moire_error *err) {
    static const char http[] = "http://", https[] = "https://";
    *rest = s->url;
    *by_tls = s->tls_ca != NULL;
    if (!strncmp(s->url, https, sizeof https - 1)) {
        *rest += sizeof https - 1;
        *by_tls = true;
    } else if (!strncmp(s->url, http, sizeof http - 1)) {
        *rest += sizeof http - 1;
        if (*by_tls) return mo_fail(err, MOIRE_EINVAL, "'%s': --tls-ca is for https://", s->url);
    } else if (strstr(s->url, "://")) {
        return mo_fail(err, MOIRE_EINVAL, "'%s': only http://, https:// and unix: are spoken here", s->url);
    }
    if (s->tls_cert && !*by_tls)
        return mo_fail(err, MOIRE_EINVAL, "'%s': --tls-cert is for https://", s->url);
    return MOIRE_OK;
}

/* "[::1]:8000", "host:8000" or "host". */
static int read_url(const struct mo_live_server *s, struct place *out, moire_error *err) {
    const char *at;
    const int rc = read_scheme(s, &at, &out->by_tls, err);
    if (rc) return rc;
    const bool bracket = *at == '[';
    const size_t n = bracket ? strcspn(at, "]") - 1 : strcspn(at, ":/");
    const char *behind = at + n + (bracket && strchr(at, ']') ? 2 : 0);
    const size_t digits = *behind == ':' ? strcspn(behind + 1, "/") : 0;
    const bool is_open = bracket && !strchr(at, ']');
    if (is_open || !n || n >= MO_LIVE_HOST || digits >= MO_LIVE_PORT || (*behind == ':' && !digits))
        return mo_fail(err, MOIRE_EINVAL, "'%s' is no address; give http://HOST:PORT", s->url);
    snprintf(out->host, sizeof out->host, "%.*s", (int)n, at + bracket);
    snprintf(out->port, sizeof out->port, "%.*s", digits ? (int)digits : 4, digits ? behind + 1 : "8000");
    return MOIRE_OK;
}

/* --- connecting --- */
static int patient_socket(int family) {
    const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    return fd;
}

static int connect_file(const char *path, struct mo_live_link *l, moire_error *err) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof to.sun_path)
        return mo_fail(err, MOIRE_EINVAL, "'%s': the path is too long", l->url);
    memcpy(to.sun_path, path, strlen(path) + 1);
    l->fd = patient_socket(AF_UNIX);
    if (l->fd >= 0 && !connect(l->fd, (const struct sockaddr *)&to, sizeof to)) return MOIRE_OK;
    return mo_fail(err, MOIRE_EIO, "no server answers at %s: %s", l->url, strerror(errno));
}

static int connect_host(const struct place *p, struct mo_live_link *l, moire_error *err) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int why = 0;
    const int rc = getaddrinfo(p->host, p->port, &hints, &found);
    if (rc) return mo_fail(err, MOIRE_EIO, "no address is known of %s: %s", l->url, gai_strerror(rc));
    for (const struct addrinfo *a = found; a && l->fd < 0; a = a->ai_next) {
        l->fd = patient_socket(a->ai_family);
        if (l->fd >= 0 && !connect(l->fd, a->ai_addr, a->ai_addrlen)) break;
        why = errno;
        if (l->fd >= 0) close(l->fd);
        l->fd = -1;
    }
    freeaddrinfo(found);
    return l->fd < 0 ? mo_fail(err, MOIRE_EIO, "no server answers at %s: %s", l->url, strerror(why))
                     : MOIRE_OK;
}

static int open_host(const struct mo_live_server *s, struct mo_live_link *l, moire_error *err) {
    struct place p;
    int rc = read_url(s, &p, err);
    if (!rc) rc = connect_host(&p, l, err);
    return rc || !p.by_tls ? rc : mo_live_tls_open(s, p.host, l->fd, &l->tls, err);
}

int mo_live_open(const struct mo_live_server *s, struct mo_live_link **out, moire_error *err) {
    struct mo_live_link *l = *out = malloc(sizeof *l);
    if (!l) return mo_fail(err, MOIRE_ENOMEM, "no memory for a connection");
    *l = (struct mo_live_link){.fd = -1, .url = s->url};
    const bool is_file = !strncmp(s->url, FILE_SCHEME, sizeof FILE_SCHEME - 1);
    const int rc = is_file ? connect_file(s->url + sizeof FILE_SCHEME - 1, l, err) : open_host(s, l, err);
    if (!rc) return MOIRE_OK;
    mo_live_close(l);
    *out = NULL;
    return rc;
}

void mo_live_close(struct mo_live_link *l) {
    mo_live_tls_close(l->tls);
    if (l->fd >= 0) close(l->fd);
    free(l);
}

/* --- bytes --- */
int mo_live_send(struct mo_live_link *l, const char *text, size_t n, moire_error *err) {
    while (n) {
        const ssize_t sent =
            l->tls ? mo_live_tls_send(l->tls, text, n, err) : send(l->fd, text, n, MSG_NOSIGNAL);
        if (sent < 0 && l->tls) return MOIRE_EIO;
        if (sent < 0)
            return mo_fail(err, MOIRE_EIO, "%s does not take a request: %s", l->url, strerror(errno));
        text += sent;
        n -= (size_t)sent;
    }
    return MOIRE_OK;
}

ssize_t mo_live_receive(struct mo_live_link *l, char *to, size_t room, moire_error *err) {
    if (l->tls) return mo_live_tls_receive(l->tls, to, room, err);
    const ssize_t n = read(l->fd, to, room);
    if (n < 0) mo_fail(err, MOIRE_EIO, "no answer of %s: %s", l->url, strerror(errno));
    return n;
}
