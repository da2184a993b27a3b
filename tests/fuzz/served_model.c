/* SPDX-License-Identifier: Apache-2.0
 * served_model.c - see served_model.h. */
#define _GNU_SOURCE
#include "tests/fuzz/served_model.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "models/build.h"

/* What is taken away when the process ends. */
enum { WIDE = 256, MATRICES = 6 };
static struct {
    char folder[64], model[80], slow[80], socket[80];
    struct ms_server *server;
} bed = {.folder = "/tmp/moire-fuzz-XXXXXX"};

/* The server is not stopped: LeakSanitizer looks at the end, and fails now and then where threads and
 * libraries have just gone. */
static void end_bed(void) {
    shm_unlink(SERVED_KEY);
    unlink(bed.model);
    unlink(bed.slow);
    unlink(bed.socket);
    rmdir(bed.folder);
}

static void fail(const char *what) {
    fprintf(stderr, "the fuzzer's server does not start: %s\n", what);
    abort();
}

/* m: y = Relu(x), at once; s: the same through some matrices, which takes long enough to be cancelled. */
static void make_model(const char *path, int matrices) {
    const int64_t dims[] = {-1, 4}, first[] = {4, WIDE}, inner[] = {WIDE, WIDE}, last[] = {WIDE, 4};
    struct mo_build b;
    const struct mo_env env = mo_env_default();
    moire_error err = {.message = "the model"};
    if (mo_build_start(&env, "m", 1, &b, &err)) fail(err.message);
    mo_b_input(&b, "x", MOIRE_F32, dims, 2);
    const char *v = mo_b_op1(&b, "Relu", "x");
    for (int i = 0; i < matrices; i++) {
        const int64_t *shape = !i ? first : i + 1 < matrices ? inner : last;
        v = mo_b_op2(&b, "MatMul", v, mo_b_normal(&b, "w", shape, 2, 0, 0.01));
    }
    mo_b_output(&b, v, "y", MOIRE_F32, dims, 2);
    if (mo_build_write(&b, path, &err)) fail(err.message);
    mo_build_end(&b);
}

static void make_region(void) {
    const int fd = shm_open(SERVED_KEY, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, SERVED_REGION)) fail("no shared memory");
    close(fd);
}

void served_reset(struct ms_server *s) {
    ms_regions_unregister(s->regions, "");
    atomic_store(&s->log.verbose, 0);
    for (size_t i = 0; i < sizeof s->log.is_off / sizeof *s->log.is_off; i++)
        atomic_store(&s->log.is_off[i], true);
}

struct ms_server *served(void) {
    moire_error err = {0};
    if (bed.server) return bed.server;
    if (!mkdtemp(bed.folder)) fail("no folder");
    snprintf(bed.model, sizeof bed.model, "%s/m.onnx", bed.folder);
    snprintf(bed.slow, sizeof bed.slow, "%s/s.onnx", bed.folder);
    snprintf(bed.socket, sizeof bed.socket, "%s/http", bed.folder);
    atexit(end_bed);
    make_model(bed.model, 0);
    make_model(bed.slow, MATRICES);
    make_region();
    const struct ms_server_options o = {.repository = bed.folder,
                                        .host = "127.0.0.1",
                                        .unix_path = bed.socket,
                                        .store = "/nonexistent",
                                        .mode = "none",
                                        .shared_memory = "/moire-fuzz-",
                                        .http_port = -1,
                                        .metrics_port = -1,
                                        .agent_port = -1,
                                        .grpc_port = -1,
                                        .control_port = -1,
                                        .threads = 1,
                                        .body_bytes = SERVED_BODY};
    if (ms_server_start(&o, &bed.server, &err)) fail(err.message);
    while (!ms_server_is_ready(bed.server))
        usleep(1000);
    served_reset(bed.server);
    return bed.server;
}
