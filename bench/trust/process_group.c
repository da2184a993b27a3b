/* SPDX-License-Identifier: Apache-2.0
 * process_group.c - the processes of a group, from /proc; see process_group.h. */
#include "bench/trust/process_group.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a line "PID (NAME) STATE PARENT GROUP ...", whose name may have any characters; 0: unknown. */
static long group_of(const char *pid) {
    char path[300], line[512], *at;
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    line[fread(line, 1, sizeof line - 1, f)] = 0;
    fclose(f);
    if (!(at = strrchr(line, ')')) || strlen(at) < 4) return 0;
    (void)strtol(at + 4, &at, 10); /* behind ") S" */
    return strtol(at, NULL, 10);
}

int mo_process_group(pid_t group, pid_t out[MO_GROUP_MOST]) {
    DIR *proc = opendir("/proc");
    int n = 0;
    if (!proc) return 0;
    for (struct dirent *e; n < MO_GROUP_MOST && (e = readdir(proc));)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && group_of(e->d_name) == group)
            out[n++] = (pid_t)strtol(e->d_name, NULL, 10);
    closedir(proc);
    return n;
}
