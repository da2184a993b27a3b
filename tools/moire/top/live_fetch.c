/* SPDX-License-Identifier: Apache-2.0
 * live_fetch.c - one request of HTTP by a socket; see live_fetch.h. */
#define _GNU_SOURCE
#include "tools/moire/top/live_fetch.h"

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

enum { PATIENCE_SECONDS = 5, MOST_BYTES = 64 << 20, HOST = 256, PORT = 16 };

/* --- where --- */
/* "[::1]:8000", "host:8000" or "host". */
static int read_url(const char *url, char host[HOST], char port[PORT], moire_error *err) {
    static const char http[] = "http://";
    const char *at = !strncmp(url, http, sizeof http - 1) ? url + sizeof http - 1 : url;
    if (strstr(at, "://"))
        return mo_fail(err, MOIRE_EINVAL, "'%s': only http:// and unix: are spoken here", url);
    const bool bracket = *at == '[';
    const size_t n = bracket ? strcspn(at, "]") - 1 : strcspn(at, ":/");
    const char *behind = at + n + (bracket && strchr(at, ']') ? 2 : 0);
    const size_t digits = *behind == ':' ? strcspn(behind + 1, "/") : 0;
    const bool is_open = bracket && !strchr(at, ']');
    if (is_open || !n || n >= HOST || digits >= PORT || (*behind == ':' && !digits))
        return mo_fail(err, MOIRE_EINVAL, "'%s' is no address; give http://HOST:PORT", url);
    snprintf(host, HOST, "%.*s", (int)n, at + bracket);
    snprintf(port, PORT, "%.*s", digits ? (int)digits : 4, digits ? behind + 1 : "8000");
    return MOIRE_OK;
}

static int patient_socket(int family) {
    const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    return fd;
}

static int connect_file(const char *path, const char *url, int *out, moire_error *err) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof to.sun_path)
        return mo_fail(err, MOIRE_EINVAL, "'%s': the path is too long", url);
    memcpy(to.sun_path, path, strlen(path) + 1);
    *out = patient_socket(AF_UNIX);
    if (*out >= 0 && !connect(*out, (const struct sockaddr *)&to, sizeof to)) return MOIRE_OK;
    const int why = errno;
    if (*out >= 0) close(*out);
    return mo_fail(err, MOIRE_EIO, "no server answers at %s: %s", url, strerror(why));
}

static int connect_host(const char *url, int *out, moire_error *err) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char host[HOST], port[PORT];
    int rc = read_url(url, host, port, err), fd = -1, why = 0;
    if (rc) return rc;
    rc = getaddrinfo(host, port, &hints, &found);
    if (rc) return mo_fail(err, MOIRE_EIO, "no address is known of %s: %s", url, gai_strerror(rc));
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = patient_socket(a->ai_family);
        if (fd >= 0 && !connect(fd, a->ai_addr, a->ai_addrlen)) break;
        why = errno;
        if (fd >= 0) close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    if (fd < 0) return mo_fail(err, MOIRE_EIO, "no server answers at %s: %s", url, strerror(why));
    *out = fd;
    return MOIRE_OK;
}

/* --- the answer --- */
static int read_all(int fd, const char *url, char **text, size_t *n, moire_error *err) {
    size_t room = 1 << 16;
    ssize_t more = 0;
    *n = 0;
    *text = malloc(room);
    while (*text && (more = read(fd, *text + *n, room - *n)) > 0) {
        *n += (size_t)more;
        if (*n < room) continue;
        char *larger = room < MOST_BYTES ? realloc(*text, room *= 2) : NULL;
        if (!larger) free(*text);
        *text = larger;
    }
    if (!*text) return mo_fail(err, MOIRE_ENOMEM, "no memory for the answer of %s", url);
    if (more < 0) return mo_fail(err, MOIRE_EIO, "no answer of %s: %s", url, strerror(errno));
    return MOIRE_OK;
}

static int read_answer(const char *text, size_t n, const char *url, json_t **out, moire_error *err) {
    const char *body = memmem(text, n, "\r\n\r\n", 4);
    const bool is_http = n > 12 && !memcmp(text, "HTTP/1.", 7);
    const long status = is_http ? strtol(text + 9, NULL, 10) : 0;
    if (!is_http || !body) return mo_fail(err, MOIRE_EFORMAT, "%s speaks no HTTP", url);
    if (status != 200)
        return mo_fail(err, MOIRE_EIO, "%s answers with status %ld%s", url, status,
                       status == 404 ? ": it is no moire serve" : "");
    *out = json_loadb(body + 4, n - (size_t)(body + 4 - text), 0, NULL);
    if (json_is_array(json_object_get(*out, "models"))) return MOIRE_OK;
    json_decref(*out);
    *out = NULL;
    return mo_fail(err, MOIRE_EFORMAT, "%s answers, but not as moire serve does", url);
}

int mo_live_fetch(const char *url, json_t **out, moire_error *err) {
    static const char request[] =
        "GET /v2/moire/live?since=none HTTP/1.1\r\nHost: moire\r\nConnection: close\r\n\r\n";
    int fd;
    char *text = NULL;
    size_t n = 0;
    *out = NULL;
    int rc = !strncmp(url, "unix:", 5) ? connect_file(url + 5, url, &fd, err) : connect_host(url, &fd, err);
    if (rc) return rc;
    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) != (ssize_t)sizeof request - 1)
        rc = mo_fail(err, MOIRE_EIO, "%s does not take a request: %s", url, strerror(errno));
    if (!rc) rc = read_all(fd, url, &text, &n, err);
    if (!rc) rc = read_answer(text, n, url, out, err);
    free(text);
    close(fd);
    return rc;
}
