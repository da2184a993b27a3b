/* SPDX-License-Identifier: Apache-2.0
 * sockets.c - sockets to listen on; see sockets.h. */
#define _GNU_SOURCE
#include "serve/net/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "serve/protocol/fault.h"

enum { BACKLOG = 1024 };

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static bool read_address(const char *host, int port, union address *a, socklen_t *n, bool *loopback) {
    *a = (union address){.v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}};
    *n = sizeof a->v4;
    if (!strcmp(host, "localhost")) host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &a->v4.sin_addr) == 1) {
        *loopback = ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
        return true;
    }
    *a = (union address){.v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)}};
    *n = sizeof a->v6;
    if (inet_pton(AF_INET6, host, &a->v6.sin6_addr) != 1) return false;
    *loopback = IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
    return true;
}

static int close_failed(int fd, const char *where, moire_error *err) {
    const int rc = ms_fail(err, MOIRE_EIO, "cannot listen on %.200s: %s", where, strerror(errno));
    if (fd >= 0) close(fd);
    return rc;
}

int ms_socket_tcp(const char *host, int port, bool guarded, int *fd, int *bound, moire_error *err) {
    union address a;
    socklen_t n;
    bool loopback;
    const int on = 1;
    char where[120];
    snprintf(where, sizeof where, "%.80s, port %d", host, port);
    if (!read_address(host, port, &a, &n, &loopback))
        return ms_fail(err, MOIRE_EINVAL, "--host %.80s is no address (127.0.0.1, ::1, 0.0.0.0)", host);
    if (!loopback && !guarded)
        return ms_fail(
            err, MOIRE_EINVAL,
            "--host %.80s is reached by other machines, and nothing keeps strangers out: give "
            "--tls-cert and --tls-key with --token-file or --tls-client-ca, or --insecure if you know better",
            host);
    *fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) || bind(*fd, &a.any, n) ||
        listen(*fd, BACKLOG) || getsockname(*fd, &a.any, &n))
        return close_failed(*fd, where, err);
    *bound = ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
    return MOIRE_OK;
}

/* Nobody listens behind a file that a dead server left. */
static bool is_dead(const struct sockaddr_un *a) {
    struct stat s;
    if (lstat(a->sun_path, &s) || !S_ISSOCK(s.st_mode)) return false;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool dead = fd >= 0 && connect(fd, (const struct sockaddr *)a, sizeof *a) && errno == ECONNREFUSED;
    if (fd >= 0) close(fd);
    return dead;
}

int ms_socket_unix(const char *path, int *fd, moire_error *err) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (!*path || strlen(path) >= sizeof a.sun_path)
        return ms_fail(err, MOIRE_EINVAL, "the path of a socket file has 1 to %zu characters",
                       sizeof a.sun_path - 1);
    memcpy(a.sun_path, path, strlen(path));
    if (is_dead(&a)) unlink(path);
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const mode_t mask = umask(0177);
    const int rc = *fd < 0 ? -1 : bind(*fd, (struct sockaddr *)&a, sizeof a);
    umask(mask);
    return rc || listen(*fd, BACKLOG) ? close_failed(*fd, path, err) : MOIRE_OK;
}
