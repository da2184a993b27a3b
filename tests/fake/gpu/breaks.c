/* SPDX-License-Identifier: Apache-2.0
 * breaks.c - see breaks.h. */
#define _GNU_SOURCE
#include "tests/fake/gpu/breaks.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/gpu/child/child_wire.h"
#include "tests/fake/cuda/fake.h"

__attribute__((visibility("default"))) mo_gpu_plugin_function mo_gpu_plugin;

static struct {
    struct mo_gpu_ops table;
    const struct mo_gpu_ops *inner;
    const struct mo_fake_cuda *fake; /* NULL: the plugin inside has no driver */
} breaks;

/* What the file says, "" when there is none; it is gone after, unless `keep`. */
static void read_fault(char *out, size_t n, bool keep) {
    const char *path = getenv(BREAKS_FAULT);
    FILE *f = path ? fopen(path, "r") : NULL;
    out[0] = 0;
    if (!f) return;
    if (!fgets(out, (int)n, f)) out[0] = 0;
    fclose(f);
    if (!keep) unlink(path);
}

static struct mo_child_channel *find_channel(void) {
    FILE *f = fopen("/proc/self/maps", "r");
    char line[500];
    void *at = NULL;
    while (f && fgets(line, sizeof line, f))
        if (strstr(line, "memfd:moire-gpu-channel")) sscanf(line, "%p-", &at);
    if (f) fclose(f);
    return at;
}

__attribute__((no_sanitize("thread"))) static void scribble(void) {
    struct mo_child_channel *channel = find_channel();
    if (!channel) abort();
    volatile unsigned char *at = (volatile unsigned char *)channel->answers;
    unsigned seed = 1;
    for (size_t i = 0; i < sizeof channel->answers; i++)
        at[i] = (unsigned char)(rand_r(&seed) >> 8);
    atomic_store(&channel->up.head, 12345);
    atomic_store(&channel->down.head, 0xfffffff0);
    for (int i = 0; i < MO_CHILD_SLOTS; i++)
        for (size_t k = 0; k < sizeof channel->slots[i].reply; k++)
            ((volatile unsigned char *)&channel->slots[i].reply)[k] = 0x5a;
    atomic_store(&channel->up.tail, 0x80000000);
    atomic_fetch_add(&channel->up.doorbell, 1);
}

static void forge(void) {
    struct mo_child_channel *channel = find_channel();
    if (!channel) abort();
    const uint32_t tail = atomic_load(&channel->up.tail);
    channel->answers[tail % MO_CHILD_ANSWERS].run = UINT64_C(0x7777777700000003);
    atomic_store(&channel->up.tail, tail + 1);
    atomic_fetch_add(&channel->up.doorbell, 1);
}

static int run(const struct mo_gpu_run *r, moire_error *err) {
    char fault[32];
    read_fault(fault, sizeof fault, false);
    if (!strcmp(fault, "kill")) kill(getpid(), SIGKILL);
    if (!strcmp(fault, "segv")) signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would take its time */
    if (!strcmp(fault, "segv")) kill(getpid(), SIGSEGV);
    if (!strcmp(fault, "stop")) kill(getpid(), SIGSTOP);
    if (!strcmp(fault, "swallow")) return MOIRE_OK;
    if (!strcmp(fault, "refuse")) return mo_fail(err, MOIRE_ENOMEM, "no memory, as told");
    if (!strcmp(fault, "scribble")) scribble();
    if (!strcmp(fault, "forge")) forge();
    if (breaks.fake && fault[0] >= '0' && fault[0] <= '9')
        breaks.fake->fail_kernel("", 0, (unsigned)strtoul(fault, NULL, 10));
    return breaks.inner->run(r, err);
}

static int open_system(const struct mo_gpu_config *config, struct mo_gpu_system **out, moire_error *err) {
    char fault[32], path[400];
    read_fault(fault, sizeof fault, true);
    if (!strcmp(fault, "never")) return mo_fail(err, MOIRE_EUNSUPPORTED, "no GPU today");
    snprintf(path, sizeof path, "%s/libcuda.so.1", config->path ? config->path : ".");
    void *object = config->path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (object) {
        const struct mo_fake_cuda *(*get)(void);
        void *f = dlsym(object, "mo_fake_cuda");
        memcpy(&get, &f, sizeof get);
        breaks.fake = get();
        breaks.fake->reset(&(struct mo_fake_config){.memory = (size_t)256 << 20});
    }
    return breaks.inner->open(config, out, err);
}

const struct mo_gpu_ops *mo_gpu_plugin(void) {
    const char *file = getenv(BREAKS_PLUGIN);
    void *object = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!object) return NULL;
    mo_gpu_plugin_function *inner;
    void *f = dlsym(object, MO_GPU_PLUGIN_SYMBOL);
    memcpy(&inner, &f, sizeof inner);
    breaks.inner = inner();
    breaks.table = *breaks.inner;
    breaks.table.open = open_system;
    breaks.table.run = run;
    return &breaks.table;
}
