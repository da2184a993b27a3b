/* SPDX-License-Identifier: Apache-2.0
 * experiment.c - describes the machine and the build; see experiment.h. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include "bench/data/experiment.h"
#include "moire.h"
#include "runtime/base/text.h"
#if defined(__has_include)
#if __has_include("commit.h")
#include "commit.h"
#endif
#endif
#ifndef MO_COMMIT
#define MO_COMMIT    "unknown"
#define MO_SOURCES   "unknown"
#define MO_SIMULATOR "unknown"
#endif

/* Value of the first "key : value" line of /proc/cpuinfo. */
static void cpuinfo(const char *key, char *out, size_t n) {
    char line[8192];
    snprintf(out, n, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !colon) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(out, n, "%s", colon + 1 + (colon[1] == ' '));
        break;
    }
    if (f) fclose(f);
}

/* The flags that decide which kernels can run. */
static json_t *vector_flags(void) {
    static const char *const wanted[] = {"sse4_2",   "avx",         "avx2",        "fma",      "avx512f",
                                         "avx512vl", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16",
                                         "amx_int8", "avx_vnni",    "hypervisor"};
    char flags[8192];
    cpuinfo("flags", flags, sizeof flags);
    json_t *list = json_array();
    char *save;
    for (char *flag = strtok_r(flags, " ", &save); flag; flag = strtok_r(NULL, " ", &save))
        for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
            if (!strcmp(flag, wanted[i])) json_array_append_new(list, json_string(flag));
    return list;
}

static json_t *caches(void) {
    json_t *list = json_object();
    for (int i = 0; i < 8; i++) {
        char path[128], level[16] = "", type[32] = "", size[32] = "";
        char *const to[] = {level, type, size};
        static const char *const names[] = {"level", "type", "size"};
        static const int room[] = {sizeof level, sizeof type, sizeof size};
        for (int k = 0; k < 3; k++) {
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", i, names[k]);
            FILE *f = fopen(path, "re");
            if (f && fgets(to[k], room[k], f)) to[k][strcspn(to[k], "\n")] = 0;
            if (f) fclose(f);
        }
        char name[64];
        snprintf(name, sizeof name, "L%s %s", level, type);
        if (*level) json_object_set_new(list, name, json_string(size));
    }
    return list;
}

json_t *mo_bench_experiment(const char *command, int cores) {
    char model[256], when[32];
    struct utsname host;
    double load[3] = {0};
    cpuinfo("model name", model, sizeof model);
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (getloadavg(load, 3) < 1) load[0] = -1;
    if (uname(&host)) memset(&host, 0, sizeof host);
#if defined(__clang__)
    const char *compiler = "clang " __clang_version__;
#else
    const char *compiler = "gcc " __VERSION__;
#endif
    return json_pack("{s:s, s:i, s:i, s:o, s:o, s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:f}", "cpu",
                     model, "cores", cores, "cores_online", (int)sysconf(_SC_NPROCESSORS_ONLN), "caches",
                     caches(), "flags", vector_flags(), "memory_mib",
                     (json_int_t)((double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 1048576),
                     "kernel", host.release, "compiler", compiler, "moire", moire_version(), "commit",
                     MO_COMMIT, "sources", MO_SOURCES, "simulator", MO_SIMULATOR, "command", command, "date",
                     when, "load_average_before", load[0]);
}

char *mo_bench_command(const struct mo_env *env, int argc, char **argv) {
    size_t n = 16;
    for (int i = 0; i < argc; i++)
        n += strlen(argv[i]) + 1;
    char *text = mo_alloc(env, n);
    if (!text) return NULL;
    struct mo_text t = mo_text_in(text, n);
    mo_text_put(&t, "moire");
    for (int i = 0; i < argc; i++)
        mo_text_put(&t, " %s", argv[i]);
    return text;
}

int mo_bench_describe(const struct mo_env *env, json_t *document, int argc, char **argv, moire_error *err) {
    char *command = mo_bench_command(env, argc, argv);
    json_t *block = command ? mo_bench_experiment(command, (int)sysconf(_SC_NPROCESSORS_ONLN)) : NULL;
    int failed = !block || json_object_update_missing(json_object_get(document, "experiment"), block);
    json_decref(block);
    mo_free(env, command);
    return failed ? mo_fail(err, MOIRE_ENOMEM, "out of memory describing the experiment") : MOIRE_OK;
}
