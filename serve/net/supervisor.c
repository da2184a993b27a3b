/* SPDX-License-Identifier: Apache-2.0
 * supervisor.c - tells who started the server how it is; see supervisor.h. */
#define _GNU_SOURCE
#include "serve/net/supervisor.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

void ms_supervisor_tell(const char *path, enum ms_told what) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const size_t n = path ? strlen(path) : 0;
    char text[80];
    struct timespec now;
    if (n < 2 || n > sizeof a.sun_path - 1 || (*path != '/' && *path != '@')) return;
    memcpy(a.sun_path, path, n);
    if (*path == '@') a.sun_path[0] = 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (what == MS_TOLD_RELOADING) /* when, so that an older answer is not taken for this one's */
        snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld",
                 (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    else
        snprintf(text, sizeof text, "%s", what == MS_TOLD_READY ? "READY=1" : "STOPPING=1");
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&a,
           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    close(fd);
}
