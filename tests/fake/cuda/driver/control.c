/* SPDX-License-Identifier: Apache-2.0
 * control.c - the fake's state: how it begins, faults, records, what tests ask. */
#include "tests/fake/cuda/driver/state.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct fake fake = {.lock = PTHREAD_MUTEX_INITIALIZER,
                    .free_sms = PTHREAD_COND_INITIALIZER,
                    .idle = PTHREAD_COND_INITIALIZER};

void *make(size_t bytes) {
    void *p = calloc(1, bytes);
    if (!p) abort();
    return p;
}

int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct timespec at_ns(int64_t when) {
    return (struct timespec){.tv_sec = when / 1000000000, .tv_nsec = when % 1000000000};
}

void mistake(const char *what) {
    fake.counts.mistakes++;
    snprintf(fake.counts.mistake, sizeof fake.counts.mistake, "%s", what);
}

static void fill_primary(struct gpu *g) {
    g->primary = (struct CUctx_st){.gpu = g, .n_sms = fake.config.sms};
    for (int i = 0; i < fake.config.sms; i++)
        g->primary.sms.w[i / 64] |= UINT64_C(1) << (i % 64);
}

/* A program that knows nothing of the fake (`moire` itself) says by the environment how large its GPU is. */
int from_environment(const char *name, int otherwise) {
    const char *text = getenv(name);
    long n = text ? strtol(text, NULL, 10) : 0;
    return n > 0 && n < 1 << 20 ? (int)n : otherwise;
}

static void begin(const struct mo_fake_config *given) {
    struct mo_fake_config c = *given;
    if (!c.gpus) c.gpus = 1;
    if (c.gpus < 0) c.gpus = 0;
    if (!c.sms) c.sms = from_environment("MO_FAKE_SMS", 132);
    if (!c.least) c.least = 8;
    if (!c.align) c.align = 8;
    if (!c.level) c.level = 13000;
    if (!c.memory) c.memory = (size_t)from_environment("MO_FAKE_MEMORY_MIB", 16) << 20;
    fake.config = c;
    for (int i = 0; i < MO_FAKE_GPUS; i++) {
        memset(&fake.gpus[i], 0, sizeof fake.gpus[i]);
        fake.gpus[i].index = i;
        fill_primary(&fake.gpus[i]);
    }
    memset(&fake.counts, 0, sizeof fake.counts);
    memset(fake.call_faults, 0, sizeof fake.call_faults);
    memset(fake.kernel_faults, 0, sizeof fake.kernel_faults);
    fake.n_records = 0;
    fake.ready = true;
}

/* Frees a list whose elements begin with the pointer to the next. */
static void free_list(void *list) {
    void **head = list;
    while (*head) {
        void **gone = *head;
        *head = *gone;
        free(gone);
    }
}

static void free_objects(void) {
    while (fake.streams)
        end_stream(fake.streams);
    for (struct CUgraph_st *g = fake.graphs; g; g = g->next)
        free_items(g->first);
    for (struct CUgraphExec_st *g = fake.graph_execs; g; g = g->next)
        free_items(g->first);
    for (struct CUlib_st *l = fake.libraries; l; l = l->next) {
        free_list(&l->kernels);
        if (l->object) dlclose(l->object);
    }
    for (struct block *b = fake.blocks; b; b = b->next)
        if (!b->foreign) free(b->at);
    while (fake.greens) { /* the link is inside the context */
        struct CUgreenCtx_st *gone = fake.greens;
        fake.greens = gone->context.next ? gone->context.next->green : NULL;
        free(gone);
    }
    free_list(&fake.descs);
    free_list(&fake.events);
    free_list(&fake.graphs);
    free_list(&fake.graph_execs);
    free_list(&fake.libraries);
    free_list(&fake.blocks);
    free(fake.records);
    fake.records = NULL;
    fake.room = 0;
}

static void reset(const struct mo_fake_config *config) {
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < MO_FAKE_GPUS; i++)
        if (!fake.gpus[i].poison) fake.gpus[i].poison = UNKNOWN; /* what is queued is dropped */
    free_objects();
    drop_current();
    begin(config);
    pthread_mutex_unlock(&fake.lock);
}

static void fail_call(const char *symbol, int skip, int times, unsigned result) {
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < FAULTS; i++) {
        struct call_fault *f = &fake.call_faults[i];
        if (f->on) continue;
        *f = (struct call_fault){.skip = skip, .times = times, .result = result, .on = true};
        snprintf(f->symbol, sizeof f->symbol, "%s", symbol);
        break;
    }
    pthread_mutex_unlock(&fake.lock);
}

static void fail_kernel(const char *name, int skip, unsigned result) {
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < FAULTS; i++) {
        struct kernel_fault *f = &fake.kernel_faults[i];
        if (f->on) continue;
        *f = (struct kernel_fault){.skip = skip, .result = result, .on = true};
        snprintf(f->name, sizeof f->name, "%s", name);
        break;
    }
    pthread_mutex_unlock(&fake.lock);
}

static void lose(int gpu, unsigned result) {
    pthread_mutex_lock(&fake.lock);
    fake.gpus[gpu].poison = result;
    for (struct CUstream_st *s = fake.streams; s; s = s->next)
        pthread_cond_broadcast(&s->wake);
    pthread_cond_broadcast(&fake.free_sms);
    pthread_mutex_unlock(&fake.lock);
}

static int records(const struct mo_fake_record **out) {
    pthread_mutex_lock(&fake.lock);
    *out = fake.records;
    const int n = fake.n_records;
    pthread_mutex_unlock(&fake.lock);
    return n;
}

static void counts(struct mo_fake_counts *out) {
    pthread_mutex_lock(&fake.lock);
    *out = fake.counts;
    pthread_mutex_unlock(&fake.lock);
}

static unsigned injected(const char *symbol) {
    for (int i = 0; i < FAULTS; i++) {
        struct call_fault *f = &fake.call_faults[i];
        if (!f->on || strcmp(f->symbol, symbol) != 0) continue;
        if (f->skip-- > 0) continue;
        f->skip = 0;
        if (f->times && --f->times == 0) f->on = false;
        return f->result;
    }
    return OK;
}

unsigned enter(const char *symbol, struct gpu *gpu) {
    pthread_mutex_lock(&fake.lock);
    if (!fake.ready) begin(&(struct mo_fake_config){0});
    unsigned r = injected(symbol);
    if (!r && gpu && gpu->poison) {
        r = gpu->poison;
        if (gpu->told) fake.counts.after_loss++;
        gpu->told = true;
    }
    if (r) pthread_mutex_unlock(&fake.lock);
    return r;
}

unsigned leave(unsigned result) {
    pthread_mutex_unlock(&fake.lock);
    return result;
}

__attribute__((visibility("default"))) const struct mo_fake_cuda *mo_fake_cuda(void) {
    static const struct mo_fake_cuda table = {reset, fail_call, fail_kernel, lose, records, counts};
    return &table;
}
