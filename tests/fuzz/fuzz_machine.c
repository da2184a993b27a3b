/* SPDX-License-Identifier: Apache-2.0
 * fuzz_machine.c - libFuzzer target: any bytes as a machine file are read or refused, with a place; what is
 * read of GPUs is a machine that lets can be planned for. */
#include <stdlib.h>
#include <string.h>
#include "bench/machine.h"

/* A sys table with one file, in memory. */
struct memory {
    struct mo_sys sys;
    const uint8_t *bytes;
    size_t n, at;
};

static int memory_open(void *self, const char *path, int flags, int mode) {
    (void)path, (void)flags, (void)mode;
    ((struct memory *)self)->at = 0;
    return 1000;
}
static ssize_t memory_read(void *self, int fd, void *buffer, size_t n) {
    struct memory *m = self;
    (void)fd;
    if (n > m->n - m->at) n = m->n - m->at;
    if (n) memcpy(buffer, m->bytes + m->at, n);
    m->at += n;
    return (ssize_t)n;
}
static int64_t memory_size(void *self, int fd) {
    (void)fd;
    return (int64_t)((struct memory *)self)->n;
}
static int memory_close(void *self, int fd) {
    (void)self, (void)fd;
    return 0;
}

static void check_gpus(const struct mo_bench_machine *m) {
    for (int g = 0; g < m->n_gpus; g++) {
        const struct mo_plan_kind *k = &m->gpus[g].kind;
        if (m->gpus[g].count < 1 || k->units < 1 || k->units > MO_PLAN_UNITS || k->n_sizes < 1) abort();
        if (k->max_lets < 1 || k->memory_bytes < 0 || m->gpus[g].reorganise_ns < 0) abort();
        for (int s = 0; s < k->n_sizes; s++)
            if (k->sizes[s] < 1 || k->sizes[s] > k->units || (s && k->sizes[s] <= k->sizes[s - 1])) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    struct memory memory = {.sys = *mo_sys_posix(), .bytes = bytes, .n = n};
    struct mo_env env = mo_env_default();
    struct mo_bench_machine *m = malloc(sizeof *m);
    moire_error err = {0};
    memory.sys.self = &memory;
    memory.sys.open = memory_open;
    memory.sys.read = memory_read;
    memory.sys.size = memory_size;
    memory.sys.close = memory_close;
    env.sys = &memory.sys;
    if (!m) return 0;
    if (mo_bench_machine_open(&env, "fuzz.json", m, &err)) {
        if (!strstr(err.message, "fuzz.json")) abort();
    } else {
        check_gpus(m);
        mo_bench_machine_close(m);
    }
    free(m);
    return 0;
}
