/* SPDX-License-Identifier: Apache-2.0
 * nvrtc.c - libnvrtc.so.13 without CUDA: compiles generated sources as C for the host, with `cc`.
 *
 * The "machine code" is an image of fake.h: a shared object that has one function a kernel.  The header that
 * the program brings along is not used; the one beside this file stands in for it.  Objects are compiled in a
 * folder of their own under /tmp, which is there until the process ends.
 *
 * The environment may name MO_FAKE_NVRTC_CACHE, a folder where objects stay, so that a source is compiled
 * once; MO_FAKE_NVRTC_COUNT, a file that gets a byte for every call of nvrtcCompileProgram(), also of one
 * that the cache spares the compiler; MO_FAKE_NVRTC_MINOR, a minor version. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/gpu/cuda/rtc.h"
#include "tests/fake/cuda/fake.h"

#define EXPORT                                __attribute__((visibility("default")))
#define RTC_DECLARE(field, symbol, arguments) EXPORT unsigned symbol arguments;
MO_RTC_FUNCTIONS(RTC_DECLARE)

enum { OUT_OF_MEMORY = 1, INVALID_INPUT = 3, COMPILATION = 6 };

struct _nvrtcProgram {
    char *source;
    char *image;
    size_t image_bytes;
    char log[2000];
};

static char folder[64];
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned made;

static void forget(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command)) fprintf(stderr, "fake nvrtc: %s stays behind\n", folder);
}

static int make_folder(void) {
    int rc = 0;
    pthread_mutex_lock(&making);
    if (!*folder) {
        snprintf(folder, sizeof folder, "/tmp/moire-fake-nvrtc-XXXXXX");
        rc = mkdtemp(folder) ? atexit(forget) : -1;
    }
    pthread_mutex_unlock(&making);
    return rc;
}

unsigned nvrtcVersion(int *major, int *minor) {
    const char *other = getenv("MO_FAKE_NVRTC_MINOR");
    *major = 13;
    *minor = other ? (int)strtol(other, NULL, 10) : 0;
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
    free((*program)->image);
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

/* The object to `path`. */
static unsigned compile(mo_rtc_program program, char path[128]) {
    char stem[96], command[700], log[136];
    if (make_folder()) return OUT_OF_MEMORY;
    snprintf(stem, sizeof stem, "%s/%u", folder, made++);
    snprintf(path, 128, "%s.so", stem);
    snprintf(log, sizeof log, "%s.log", stem);
    snprintf(command, sizeof command, "%s.c", stem);
    if (write_module(command, program->source)) return OUT_OF_MEMORY;
    snprintf(command, sizeof command,
             "cc -std=gnu11 -O1 -shared -fPIC -w -fno-strict-aliasing -I'%s' -o %s %s.c -lm >%s 2>&1",
             MO_FAKE_INCLUDE, path, stem, log);
    if (!system(command)) return 0;
    read_log(program, log);
    return COMPILATION;
}

/* The object in a file as an image. */
static unsigned take_image(mo_rtc_program program, const char *path) {
    char head[64];
    FILE *f = fopen(path, "rb");
    if (!f) return OUT_OF_MEMORY;
    fseek(f, 0, SEEK_END);
    const long n = ftell(f);
    rewind(f);
    const int at = snprintf(head, sizeof head, MO_FAKE_IMAGE "%ld\n", n);
    program->image_bytes = (size_t)at + (size_t)n;
    program->image = malloc(program->image_bytes);
    if (program->image) memcpy(program->image, head, (size_t)at);
    const bool whole = program->image && fread(program->image + at, 1, (size_t)n, f) == (size_t)n;
    fclose(f);
    return whole ? 0 : OUT_OF_MEMORY;
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

static void count_call(void) {
    const char *file = getenv("MO_FAKE_NVRTC_COUNT");
    const int fd = file ? open(file, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
    if (fd < 0) return;
    if (write(fd, "c", 1) != 1) fprintf(stderr, "fake nvrtc: a call is not counted\n");
    close(fd);
}

unsigned nvrtcCompileProgram(mo_rtc_program program, int n, const char *const *options) {
    char kept[160], path[128], command[500];
    (void)n;
    (void)options;
    count_call();
    kept_at(program->source, kept, sizeof kept);
    if (*kept && !access(kept, R_OK)) return take_image(program, kept);
    const unsigned r = compile(program, path);
    if (r) return r;
    snprintf(command, sizeof command, "cp '%s' '%s.%d' && mv '%s.%d' '%s'", path, kept, (int)getpid(), kept,
             (int)getpid(), kept);
    if (*kept && system(command)) fprintf(stderr, "fake nvrtc: %s is not kept\n", kept);
    const unsigned taken = take_image(program, path);
    unlink(path);
    return taken;
}

unsigned nvrtcGetCUBINSize(mo_rtc_program program, size_t *bytes) {
    *bytes = program->image_bytes;
    return 0;
}

unsigned nvrtcGetCUBIN(mo_rtc_program program, char *out) {
    memcpy(out, program->image, program->image_bytes);
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
