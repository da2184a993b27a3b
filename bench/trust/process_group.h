/* SPDX-License-Identifier: Apache-2.0
 * process_group.h - the processes of a group, where a measured system is several. */
#ifndef MO_PROCESS_GROUP_H
#define MO_PROCESS_GROUP_H
#include <sys/types.h>

enum { MO_GROUP_MOST = 256 };
/* Numbers of the group's processes, at most so many; returns how many. */
int mo_process_group(pid_t group, pid_t out[MO_GROUP_MOST]);
#endif
