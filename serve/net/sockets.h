/* SPDX-License-Identifier: Apache-2.0
 * sockets.h - sockets to listen on.  An address that others reach is refused unless the server is guarded
 * against them. */
#ifndef MS_SOCKETS_H
#define MS_SOCKETS_H
#include <stdbool.h>
#include "moire.h"

/* port 0: any; *bound: the one it has.  host: an address or "localhost".
 * Returns: MOIRE_OK; MOIRE_EINVAL: no address, or not loopback; MOIRE_EIO. */
int ms_socket_tcp(const char *host, int port, bool guarded, int *fd, int *bound, moire_error *err);
/* A socket file, which only its owner can use; one that a dead server left is replaced. */
int ms_socket_unix(const char *path, int *fd, moire_error *err);
#endif
