/* SPDX-License-Identifier: Apache-2.0
 * child_memory.c - resident memory of a system under load; see session.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/load/session.h"
#include "bench/trust/process_group.h"

/* The processes of the system: the runner, or behind a network all that it has started. */
static int processes(const struct mo_bench_child *child, pid_t out[MO_GROUP_MOST]) {
    int n = 0, kept = 0;
    out[0] = child->pid;
    if (!child->system || !child->system->over) return 1;
    n = mo_process_group(child->pid, out);
    for (int i = 0; i < n; i++)
        if (out[i] != child->pid) out[kept++] = out[i];
    return kept;
}

static FILE *open_of(pid_t pid, const char *file) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    return fopen(path, "re");
}

void mo_bench_child_memory(const struct mo_bench_child *child, double *now_mib, double *peak_mib) {
    pid_t pid[MO_GROUP_MOST];
    char line[256];
    *now_mib = *peak_mib = 0;
    for (int i = processes(child, pid) - 1; i >= 0; i--) {
        FILE *f = open_of(pid[i], "status");
        while (f && fgets(line, sizeof line, f)) {
            if (!strncmp(line, "VmRSS:", 6)) *now_mib += strtod(line + 6, NULL) / 1024;
            if (!strncmp(line, "VmHWM:", 6)) *peak_mib += strtod(line + 6, NULL) / 1024;
        }
        if (f) fclose(f);
    }
}

void mo_bench_child_resident(const struct mo_bench_child *child, struct mo_resident *out) {
    pid_t pid[MO_GROUP_MOST];
    *out = (struct mo_resident){.file_mib = 0};
    for (int i = processes(child, pid) - 1; i >= 0; i--) {
        struct mo_resident one;
        FILE *f = open_of(pid[i], "smaps");
        if (!f) continue;
        mo_resident_read(f, &one);
        fclose(f);
        out->file_mib += one.file_mib;
        for (int k = 0; k < MO_RESIDENT_KINDS; k++)
            out->mib[k] += one.mib[k];
    }
}
