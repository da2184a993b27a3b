/* SPDX-License-Identifier: Apache-2.0
 * context.c - devices, the split of their SMs, contexts. */
#include "tests/fake/cuda/driver/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local struct {
    struct CUctx_st *stack[STACK];
    int depth;
} mine;

/* What the fake writes into the opaque bytes of a resource. */
struct inside {
    unsigned magic, split; /* outputs of one split have one number; 0 = the whole device */
    int gpu, from, count;
};
enum { MAGIC = 0x5e501ce };

struct gpu *gpu_of(int device) {
    return device >= 0 && device < fake.config.gpus ? &fake.gpus[device] : NULL;
}
struct CUctx_st *current(void) {
    return mine.depth ? mine.stack[mine.depth - 1] : NULL;
}
struct gpu *current_gpu(void) {
    return current() ? current()->gpu : NULL;
}
bool is_elsewhere(const struct CUctx_st *c) {
    for (int i = 0; i < mine.depth; i++)
        if (mine.stack[i] == c) return false;
    return c->green && c->current;
}
void drop_current(void) {
    mine.depth = 0;
}

static const struct {
    unsigned result;
    const char *name, *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const char *error_name(unsigned result, const char **text) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].result == result) {
            *text = errors[i].text;
            return errors[i].name;
        }
    return NULL;
}

unsigned cuGetErrorName(unsigned result, const char **out) {
    const char *text;
    *out = error_name(result, &text);
    return *out ? OK : INVALID_VALUE;
}

unsigned cuGetErrorString(unsigned result, const char **out) {
    return error_name(result, out) ? OK : INVALID_VALUE;
}

unsigned cuInit(unsigned flags) {
    const unsigned r = enter("cuInit", NULL);
    if (r) return r;
    fake.queues = from_environment("CUDA_DEVICE_MAX_CONNECTIONS", DEFAULT_QUEUES);
    if (fake.queues > MOST_QUEUES) fake.queues = MOST_QUEUES;
    return leave(flags ? INVALID_VALUE : fake.config.gpus ? OK : NO_DEVICE);
}

unsigned cuDriverGetVersion(int *level) {
    const unsigned r = enter("cuDriverGetVersion", NULL);
    if (r) return r;
    *level = fake.config.level;
    return leave(OK);
}

unsigned cuDeviceGetCount(int *n) {
    const unsigned r = enter("cuDeviceGetCount", NULL);
    if (r) return r;
    *n = fake.config.gpus;
    return leave(OK);
}

unsigned cuDeviceGet(mo_cu_device *out, int index) {
    const unsigned r = enter("cuDeviceGet", gpu_of(index));
    if (r) return r;
    *out = index;
    return leave(gpu_of(index) ? OK : INVALID_DEVICE);
}

unsigned cuDeviceGetName(char *out, int n, mo_cu_device d) {
    const unsigned r = enter("cuDeviceGetName", gpu_of(d));
    if (r) return r;
    snprintf(out, (size_t)n, "Fake GPU of %d SMs", fake.config.sms);
    return leave(OK);
}

unsigned cuDeviceGetPCIBusId(char *out, int n, mo_cu_device d) {
    const unsigned r = enter("cuDeviceGetPCIBusId", gpu_of(d));
    if (r) return r;
    snprintf(out, (size_t)n, "0000:%02X:00.0", d + 1);
    return leave(OK);
}

unsigned cuDeviceGetAttribute(int *out, unsigned attribute, mo_cu_device d) {
    static const struct {
        unsigned attribute;
        int value;
    } values[] = {{MO_CU_ATTR_CLOCK_KHZ, 1980000},
                  {MO_CU_ATTR_L2_BYTES, 62914560},
                  {MO_CU_ATTR_COPY_ENGINES, 3},
                  {MO_CU_ATTR_MAJOR, 9},
                  {MO_CU_ATTR_MINOR, 0}};
    const unsigned r = enter("cuDeviceGetAttribute", gpu_of(d));
    if (r) return r;
    if (!gpu_of(d)) return leave(INVALID_DEVICE);
    if (attribute == MO_CU_ATTR_SMS) {
        *out = fake.config.sms;
        return leave(OK);
    }
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (values[i].attribute == attribute) {
            *out = values[i].value;
            return leave(OK);
        }
    return leave(INVALID_VALUE);
}

/* --- SMs ------------------------------------------------------------------------------------------------ */

static int greatest_divisor(int a, int b) {
    return b ? greatest_divisor(b, a % b) : a;
}

/* The SM at a position of the device, in an order that no test should rely on. */
static void add_sms(struct sms *set, int from, int count) {
    int step = 5;
    while (greatest_divisor(fake.config.sms, step) != 1)
        step += 2;
    for (int p = from; p < from + count; p++) {
        const int sm = p * step % fake.config.sms;
        set->w[sm / 64] |= UINT64_C(1) << (sm % 64);
    }
}

static struct mo_cu_resource resource(const struct gpu *g, unsigned split, int from, int count) {
    struct mo_cu_resource r = {.type = MO_CU_RESOURCE_SM};
    const struct inside inside = {MAGIC, split, g->index, from, count};
    memcpy(r.inside, &inside, sizeof inside);
    r.sm.count = (unsigned)count;
    r.sm.least = (unsigned)fake.config.least;
    r.sm.align = (unsigned)fake.config.align;
    return r;
}

static bool read_inside(const struct mo_cu_resource *r, struct inside *out) {
    memcpy(out, r->inside, sizeof *out);
    return r->type == MO_CU_RESOURCE_SM && out->magic == MAGIC && gpu_of(out->gpu);
}

unsigned cuDeviceGetDevResource(mo_cu_device d, struct CUdevResource_st *out, unsigned type) {
    const unsigned r = enter("cuDeviceGetDevResource", gpu_of(d));
    if (r) return r;
    if (!gpu_of(d) || type != MO_CU_RESOURCE_SM) return leave(INVALID_VALUE);
    const struct mo_cu_resource all = resource(gpu_of(d), 0, 0, fake.config.sms);
    memcpy(out, &all, sizeof all);
    return leave(OK);
}

unsigned cuDevSmResourceSplitByCount(struct CUdevResource_st *groups, unsigned *n,
                                     const struct CUdevResource_st *input, struct CUdevResource_st *rest,
                                     unsigned flags, unsigned least) {
    const unsigned r = enter("cuDevSmResourceSplitByCount", NULL);
    if (r) return r;
    struct inside from;
    if (flags || !read_inside((const void *)input, &from) || from.split) return leave(INVALID_RESOURCE);
    const unsigned align = (unsigned)fake.config.align;
    unsigned size = least < (unsigned)fake.config.least ? (unsigned)fake.config.least : least;
    size = (size + align - 1) / align * align;
    unsigned have = (unsigned)from.count / size;
    if (groups && have > *n) have = *n;
    *n = have;
    if (!groups) return leave(OK);
    struct mo_cu_resource *out = (void *)groups;
    fake.splits++;
    for (unsigned i = 0; i < have; i++)
        out[i] = resource(gpu_of(from.gpu), fake.splits, (int)(i * size), (int)size);
    const int left = from.count - (int)(have * size);
    const struct mo_cu_resource remains =
        left ? resource(gpu_of(from.gpu), fake.splits, from.count - left, left) : (struct mo_cu_resource){0};
    if (rest) memcpy(rest, &remains, sizeof remains);
    return leave(OK);
}

/* Several resources make one description only when one split put them out. */
unsigned cuDevResourceGenerateDesc(mo_cu_resource_desc *out, struct CUdevResource_st *resources, unsigned n) {
    const unsigned r = enter("cuDevResourceGenerateDesc", NULL);
    if (r) return r;
    const struct mo_cu_resource *in = (const void *)resources;
    struct CUdevResourceDesc_st *d = make(sizeof *d);
    struct inside first = {0}, one;
    for (unsigned i = 0; i < n; i++) {
        if (!read_inside(&in[i], &one) || (i && one.split != first.split)) {
            free(d);
            mistake("resources of different splits in one description");
            return leave(INVALID_RESOURCE);
        }
        if (!i) first = one;
        if (one.count != first.count) { /* groups and what was left over of them */
            free(d);
            return leave(INVALID_RESOURCE);
        }
        add_sms(&d->sms, one.from, one.count);
        d->n_sms += one.count;
        d->gpu = gpu_of(one.gpu);
    }
    d->next = fake.descs;
    fake.descs = d;
    *out = d;
    return leave(OK);
}

/* --- contexts ------------------------------------------------------------------------------------------- */

unsigned cuDevicePrimaryCtxRetain(mo_cu_context *out, mo_cu_device d) {
    const unsigned r = enter("cuDevicePrimaryCtxRetain", gpu_of(d));
    if (r) return r;
    if (!gpu_of(d)) return leave(INVALID_DEVICE);
    if (gpu_of(d)->primary_users++ == 0) fake.counts.contexts++;
    *out = &gpu_of(d)->primary;
    return leave(OK);
}

unsigned cuDevicePrimaryCtxRelease_v2(mo_cu_device d) {
    const unsigned r = enter("cuDevicePrimaryCtxRelease_v2", gpu_of(d));
    if (r) return r;
    if (gpu_of(d)->hung) mistake("release of a context whose GPU hangs: it would wait for ever");
    if (--gpu_of(d)->primary_users == 0) fake.counts.contexts--;
    return leave(OK);
}

static unsigned make_current(struct CUctx_st *c) {
    if (mine.depth == STACK) return INVALID_VALUE;
    if (c->green && c->current) {
        mistake("a green context is current on two threads");
        return INVALID_CONTEXT;
    }
    c->current++;
    mine.stack[mine.depth++] = c;
    return OK;
}

unsigned cuCtxPushCurrent_v2(mo_cu_context c) {
    const unsigned r = enter("cuCtxPushCurrent_v2", c ? c->gpu : NULL);
    return r ? r : leave(c ? make_current(c) : INVALID_CONTEXT);
}

unsigned cuCtxPopCurrent_v2(mo_cu_context *out) {
    pthread_mutex_lock(&fake.lock); /* works on a lost GPU too: only this thread's state changes */
    if (!mine.depth) return leave(INVALID_CONTEXT);
    *out = mine.stack[--mine.depth];
    (*out)->current--;
    return leave(OK);
}

unsigned cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    const unsigned r = enter("cuCtxGetStreamPriorityRange", current_gpu());
    if (r) return r;
    if (!current()) return leave(INVALID_CONTEXT);
    *least = 0;
    *greatest = -5;
    return leave(OK);
}

static void wait_for_kernels(int n) {
    const int until = fake.ended + n;
    const struct timespec most = at_ns(now_ns() + INT64_C(20000000000));
    while (fake.ended < until && pthread_cond_clockwait(&fake.idle, &fake.lock, CLOCK_MONOTONIC, &most) == 0)
        ;
}

unsigned cuGreenCtxCreate(mo_cu_green *out, mo_cu_resource_desc desc, mo_cu_device d, unsigned flags) {
    const unsigned r = enter("cuGreenCtxCreate", gpu_of(d));
    if (r) return r;
    if (flags != MO_CU_GREEN_DEFAULT_STREAM || !desc || desc->gpu != gpu_of(d)) return leave(INVALID_VALUE);
    struct CUgreenCtx_st *g = make(sizeof *g);
    g->context = (struct CUctx_st){.gpu = desc->gpu, .green = g, .sms = desc->sms, .n_sms = desc->n_sms};
    g->context.next = fake.greens ? &fake.greens->context : NULL;
    fake.greens = g;
    fake.counts.green++;
    *out = g;
    wait_for_kernels(fake.config.green_kernels);
    return leave(OK);
}

unsigned cuGreenCtxDestroy(mo_cu_green g) {
    const unsigned r = enter("cuGreenCtxDestroy", g->context.gpu);
    if (r) return r;
    if (g->context.gpu->hung) mistake("end of a green context whose GPU hangs: it would wait for ever");
    for (struct CUstream_st *s = fake.streams; s; s = s->next)
        if (s->context == &g->context) mistake("a green context ended before its streams");
    for (struct CUgraphExec_st *e = fake.graph_execs; e; e = e->next)
        for (const struct item *node = e->first; node; node = node->next)
            if (node->context == &g->context)
                mistake("a green context ended before a graph that was captured there");
    struct CUgreenCtx_st *after = g->context.next ? g->context.next->green : NULL;
    if (fake.greens == g)
        fake.greens = after;
    else
        for (struct CUctx_st *c = &fake.greens->context; c; c = c->next)
            if (c->next == &g->context) c->next = g->context.next;
    free(g);
    fake.counts.green--;
    return leave(OK);
}

unsigned cuCtxFromGreenCtx(mo_cu_context *out, mo_cu_green g) {
    const unsigned r = enter("cuCtxFromGreenCtx", g->context.gpu);
    if (r) return r;
    *out = &g->context;
    return leave(OK);
}
