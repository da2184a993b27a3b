/* SPDX-License-Identifier: Apache-2.0
 * nvrtc.c - libnvrtc.so.13 without CUDA: compiles generated sources as C for the host, with `cc`.
 *
 * The "machine code" is an image of fake.h: the path of a shared object that has one function a kernel.  The
 * header that the program brings along is not used; the one beside this file stands in for it.  Compiled
 * objects lie in a folder of their own under /tmp until the process ends; where the environment names a
 * folder MO_FAKE_NVRTC_CACHE they stay there, and a source that was compiled before is not compiled again. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/device/cuda/rtc.h"
#include "tests/fake/cuda/fake.h"

#define EXPORT                                __attribute__((visibility("default")))
#define RTC_DECLARE(field, symbol, arguments) EXPORT unsigned symbol arguments;
MO_RTC_FUNCTIONS(RTC_DECLARE)

enum { OUT_OF_MEMORY = 1, INVALID_INPUT = 3, COMPILATION = 6 };

struct _nvrtcProgram {
    char *source;
    char image[256];
    char log[2000];
};

static char folder[64];
static unsigned made;

static void forget(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command)) fprintf(stderr, "fake nvrtc: %s stays behind\n", folder);
}

static int make_folder(void) {
    if (*folder) return 0;
    snprintf(folder, sizeof folder, "/tmp/moire-fake-nvrtc-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    return atexit(forget);
}

unsigned nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return 0;
}

unsigned nvrtcCreateProgram(mo_rtc_program *out, const char *source, const char *name, int n,
                            const char *const *headers, const char *const *names) {
    (void)name;
    if (n != 1 || !headers[0] || strcmp(names[0], "moire_device.h") != 0) return INVALID_INPUT;
    *out = calloc(1, sizeof **out);
    if (*out) (*out)->source = strdup(source);
    return *out && (*out)->source ? 0 : OUT_OF_MEMORY;
}

unsigned nvrtcDestroyProgram(mo_rtc_program *program) {
    free((*program)->source);
    free(*program);
    *program = NULL;
    return 0;
}

/* One function a kernel, as fake.h says, and how many arguments it has. */
static void write_entry(FILE *f, const char *kernel) {
    char name[64];
    int n = 0, length = (int)strcspn(kernel, ",");
    const char *end = strstr(kernel, "\nMO_KERNEL("), *open = strchr(kernel, '{');
    snprintf(name, sizeof name, "%.*s", length, kernel);
    for (const char *p = strchr(kernel, ')'); p && p < open; p++)
        n += *p == '*';
    const char *barrier = strstr(kernel, "MO_SYNC()"), *together = strstr(kernel, "mo_all_");
    int synchronises = (barrier && (!end || barrier < end)) || (together && (!end || together < end));
    fprintf(f, "const int %s_arguments = %d;\nstatic void %s_call(void *const *a) {\n    %s_thread(", name, n,
            name, name);
    for (int i = 0; i < n; i++)
        fprintf(f, "%s*(void **)a[%d]", i ? ", " : "", i);
    fprintf(f,
            ");\n}\nvoid %s(void *const *a, const unsigned g[3], const unsigned b[3]) {\n"
            "    mo_fake_grid(%s_call, a, g, b, %d);\n}\n",
            name, name, synchronises);
}

static int write_module(const char *path, const char *source) {
    FILE *f = fopen(path, "w");
    if (!f) return -1;
    fprintf(f, "%s\n", source);
    for (const char *p = strstr(source, "\nMO_KERNEL("); p; p = strstr(p + 1, "\nMO_KERNEL("))
        write_entry(f, p + strlen("\nMO_KERNEL("));
    return fclose(f);
}

static void read_log(mo_rtc_program program, const char *path) {
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(program->log, 1, sizeof program->log - 1, f) : 0;
    program->log[n] = 0;
    if (f) fclose(f);
}

static unsigned compile(mo_rtc_program program) {
    char path[128], command[700], log[136];
    if (make_folder()) return OUT_OF_MEMORY;
    snprintf(path, sizeof path, "%s/%u", folder, made++);
    snprintf(log, sizeof log, "%s.log", path);
    snprintf(command, sizeof command, "%s.c", path);
    if (write_module(command, program->source)) return OUT_OF_MEMORY;
    snprintf(command, sizeof command,
             "cc -std=gnu11 -O1 -shared -fPIC -w -fno-strict-aliasing -I'%s' -o %s.so %s.c -lm >%s 2>&1",
             MO_FAKE_INCLUDE, path, path, log);
    if (system(command)) {
        read_log(program, log);
        return COMPILATION;
    }
    snprintf(program->image, sizeof program->image, MO_FAKE_IMAGE "%s.so\n", path);
    return 0;
}

/* Where the object of that source is kept; "" for nowhere. */
static void kept_at(const char *source, char *path, size_t n) {
    const char *cache = getenv("MO_FAKE_NVRTC_CACHE");
    uint64_t sum = 14695981039346656037u;
    for (const char *c = source; *c; c++)
        sum = (sum ^ (unsigned char)*c) * 1099511628211u;
    *path = 0;
    if (cache) snprintf(path, n, "%s/%016llx.so", cache, (unsigned long long)sum);
}

unsigned nvrtcCompileProgram(mo_rtc_program program, int n, const char *const *options) {
    char kept[160], made_at[200];
    (void)n;
    (void)options;
    kept_at(program->source, kept, sizeof kept);
    if (!*kept) return compile(program);
    if (access(kept, R_OK)) {
        const unsigned r = compile(program);
        if (r) return r;
        snprintf(made_at, sizeof made_at, "%.*s", (int)strcspn(program->image + strlen(MO_FAKE_IMAGE), "\n"),
                 program->image + strlen(MO_FAKE_IMAGE));
        char command[500];
        snprintf(command, sizeof command, "cp '%s' '%s.%d' && mv '%s.%d' '%s'", made_at, kept, (int)getpid(),
                 kept, (int)getpid(), kept);
        if (system(command)) return 0; /* it is used where it was made */
    }
    snprintf(program->image, sizeof program->image, MO_FAKE_IMAGE "%s\n", kept);
    return 0;
}

unsigned nvrtcGetCUBINSize(mo_rtc_program program, size_t *bytes) {
    *bytes = strlen(program->image) + 1;
    return 0;
}

unsigned nvrtcGetCUBIN(mo_rtc_program program, char *out) {
    memcpy(out, program->image, strlen(program->image) + 1);
    return 0;
}

unsigned nvrtcGetProgramLogSize(mo_rtc_program program, size_t *bytes) {
    *bytes = strlen(program->log) + 1;
    return 0;
}

unsigned nvrtcGetProgramLog(mo_rtc_program program, char *out) {
    memcpy(out, program->log, strlen(program->log) + 1);
    return 0;
}
