/* SPDX-License-Identifier: Apache-2.0
 * supervisor.h - tells who started the server (systemd, Type=notify) how it is: sd_notify's protocol, which
 * is a datagram of lines, without its library. */
#ifndef MS_SUPERVISOR_H
#define MS_SUPERVISOR_H

enum ms_told { MS_TOLD_READY, MS_TOLD_RELOADING, MS_TOLD_STOPPING };
/* socket: a path, or "@" and an abstract name, as NOTIFY_SOCKET has it; NULL: nobody asks.  What cannot be
 * told is not: the server runs all the same. */
void ms_supervisor_tell(const char *socket, enum ms_told what);
#endif
