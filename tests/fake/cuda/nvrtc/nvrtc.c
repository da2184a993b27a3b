/* SPDX-License-Identifier: Apache-2.0
 * nvrtc.c - libnvrtc.so.13 without CUDA: compiles generated sources as C for the host, with `cc`.
 *
 * The "machine code" is an image of fake.h: a shared object that has one function a kernel.  The header that
 * the program brings along is not used; the one beside this file stands in for it.  Each is compiled in a
 * folder of its own under /tmp, which is gone before the call returns: processes that load this one are
 * killed.
 *
 * The environment may name MO_FAKE_NVRTC_CACHE, a folder where objects stay, so that a source is compiled
 * once; MO_FAKE_NVRTC_COUNT, a file that gets a byte for every call of nvrtcCompileProgram(), also of one
 * that the cache spares the compiler; MO_FAKE_NVRTC_MINOR, a minor version. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
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

/* Where one source is compiled. */
struct room {
    char folder[64], source[80], object[80], log[80];
};

static bool open_room(struct room *r) {
    strcpy(r->folder, "/tmp/moire-fake-nvrtc-XXXXXX");
    if (!mkdtemp(r->folder)) return false;
    snprintf(r->source, sizeof r->source, "%s/a.c", r->folder);
    snprintf(r->object, sizeof r->object, "%s/a.so", r->folder);
    snprintf(r->log, sizeof r->log, "%s/a.log", r->folder);
    return true;
}

static void close_room(const struct room *r) {
    unlink(r->source);
    unlink(r->object);
    unlink(r->log);
    if (rmdir(r->folder)) fprintf(stderr, "fake nvrtc: %s stays behind\n", r->folder);
}

static unsigned compile(mo_rtc_program program, const struct room *r) {
    char command[700];
    if (write_module(r->source, program->source)) return OUT_OF_MEMORY;
    snprintf(command, sizeof command,
             "cc -std=gnu11 -O1 -shared -fPIC -w -fno-strict-aliasing -I'%s' -o %s %s -lm >%s 2>&1",
             MO_FAKE_INCLUDE, r->object, r->source, r->log);
    if (!system(command)) return 0;
    read_log(program, r->log);
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

static void keep(const char *object, const char *kept) {
    char command[500];
    snprintf(command, sizeof command, "cp '%s' '%s.%d' && mv '%s.%d' '%s'", object, kept, (int)getpid(), kept,
             (int)getpid(), kept);
    if (system(command)) fprintf(stderr, "fake nvrtc: %s is not kept\n", kept);
}

unsigned nvrtcCompileProgram(mo_rtc_program program, int n, const char *const *options) {
    char kept[160];
    struct room room;
    (void)n;
    (void)options;
    count_call();
    kept_at(program->source, kept, sizeof kept);
    if (*kept && !access(kept, R_OK)) return take_image(program, kept);
    if (!open_room(&room)) return OUT_OF_MEMORY;
    unsigned r = compile(program, &room);
    if (!r && *kept) keep(room.object, kept);
    if (!r) r = take_image(program, room.object);
    close_room(&room);
    return r;
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
