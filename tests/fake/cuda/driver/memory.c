/* SPDX-License-Identifier: Apache-2.0
 * memory.c - device memory that is host memory, page-locked memory, copies. */
#include "tests/fake/cuda/driver/state.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256 };

static void link_block(void *at, size_t bytes, struct gpu *gpu, bool foreign) {
    struct block *b = make(sizeof *b);
    *b = (struct block){.next = fake.blocks, .at = at, .bytes = bytes, .gpu = gpu, .foreign = foreign};
    fake.blocks = b;
}

static unsigned add_block(struct gpu *gpu, size_t bytes, void **out) {
    void *at = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
    if (!at) abort();
    memset(at, 0xa5, bytes); /* whoever reads what nobody wrote gets no zeros */
    link_block(at, bytes, gpu, false);
    *out = at;
    return OK;
}

static bool drop_block(const void *at, bool host, bool foreign, size_t *bytes, struct gpu **gpu) {
    for (struct block **b = &fake.blocks; *b; b = &(*b)->next)
        if ((*b)->at == at && ((*b)->gpu == NULL) == host && (*b)->foreign == foreign) {
            struct block *gone = *b;
            *b = gone->next;
            *bytes = gone->bytes;
            *gpu = gone->gpu;
            if (!foreign) free(gone->at);
            free(gone);
            return true;
        }
    return false;
}

static bool inside(const struct block *b, uintptr_t at, size_t bytes) {
    const uintptr_t from = (uintptr_t)b->at;
    return at >= from && at - from <= b->bytes && bytes <= b->bytes - (at - from);
}

bool device_range(const struct gpu *gpu, mo_cu_ptr at, size_t bytes) {
    for (const struct block *b = fake.blocks; b; b = b->next)
        if (b->gpu == gpu && inside(b, (uintptr_t)at, bytes)) return true;
    return false;
}

static bool host_range(const void *at, size_t bytes) {
    for (const struct block *b = fake.blocks; b; b = b->next)
        if (!b->gpu && inside(b, (uintptr_t)at, bytes)) return true;
    return false;
}

unsigned cuMemGetInfo_v2(size_t *left, size_t *total) {
    const unsigned r = enter("cuMemGetInfo_v2", current_gpu());
    if (r) return r;
    if (!current()) return leave(INVALID_CONTEXT);
    *total = fake.config.memory;
    *left = fake.config.memory - current_gpu()->used;
    return leave(OK);
}

unsigned cuMemAlloc_v2(mo_cu_ptr *out, size_t bytes) {
    const unsigned r = enter("cuMemAlloc_v2", current_gpu());
    if (r) return r;
    struct gpu *g = current_gpu();
    if (!g || !bytes) return leave(g ? INVALID_VALUE : INVALID_CONTEXT);
    if (bytes > fake.config.memory - g->used) return leave(OUT_OF_MEMORY);
    void *at;
    add_block(g, bytes, &at);
    g->used += bytes;
    fake.counts.bytes += bytes;
    fake.counts.memory++;
    *out = (mo_cu_ptr)(uintptr_t)at;
    return leave(OK);
}

unsigned cuMemFree_v2(mo_cu_ptr at) {
    const unsigned r = enter("cuMemFree_v2", current_gpu());
    if (r) return r;
    size_t bytes;
    struct gpu *g;
    if (current_gpu() && current_gpu()->hung)
        mistake("memory of a GPU that hangs was freed: it would wait for ever");
    else
        settle(current_gpu());
    if (!drop_block((void *)(uintptr_t)at, false, false, &bytes, &g)) return leave(INVALID_VALUE);
    g->used -= bytes;
    fake.counts.bytes -= bytes;
    fake.counts.memory--;
    return leave(OK);
}

unsigned cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    const unsigned r = enter("cuMemHostAlloc", current_gpu());
    if (r) return r;
    if (!current() || !bytes || flags != MO_CU_HOST_PORTABLE) return leave(INVALID_VALUE);
    fake.counts.host_memory++;
    return leave(add_block(NULL, bytes, out));
}

unsigned cuMemFreeHost(void *at) {
    const unsigned r = enter("cuMemFreeHost", current_gpu());
    if (r) return r;
    size_t bytes;
    struct gpu *g;
    settle(NULL);
    if (!drop_block(at, true, false, &bytes, &g)) return leave(INVALID_VALUE);
    fake.counts.host_memory--;
    return leave(OK);
}

unsigned cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
    const unsigned r = enter("cuMemHostRegister_v2", current_gpu());
    if (r) return r;
    if (!current() || !bytes || flags != MO_CU_REGISTER_PORTABLE) return leave(INVALID_VALUE);
    link_block(at, bytes, NULL, true);
    fake.counts.host_memory++;
    return leave(OK);
}

unsigned cuMemHostUnregister(void *at) {
    const unsigned r = enter("cuMemHostUnregister", current_gpu());
    if (r) return r;
    size_t bytes;
    struct gpu *g;
    settle(NULL);
    if (!drop_block(at, true, true, &bytes, &g)) return leave(INVALID_VALUE);
    fake.counts.host_memory--;
    return leave(OK);
}

static void run_copy(struct item *item) {
    memcpy(item->to, item->from, item->bytes);
}
static void run_fill(struct item *item) {
    memset(item->to, item->value, item->bytes);
}

static unsigned copy(const char *symbol, struct CUstream_st *s, const struct item *what, mo_cu_ptr device,
                     mo_cu_ptr other, const void *host) {
    const unsigned r = enter(symbol, s->context->gpu);
    if (r) return r;
    struct item item = *what;
    struct gpu *g = s->context->gpu;
    item.context = s->context;
    if (host) item.ns = fake.config.copy_ns;
    if (host && fake.config.bytes_per_ns > 0)
        item.ns += (int64_t)((double)item.bytes / fake.config.bytes_per_ns);
    if (host && !host_range(host, item.bytes))
        mistake("a copy from or to host memory that is not page-locked: it would not be asynchronous");
    if (!device_range(g, device, item.bytes) || !device_range(g, other, item.bytes)) {
        g->poison = ILLEGAL_ADDRESS;
        return leave(OK); /* as on the real one the error comes later */
    }
    return leave(push(s, &item));
}

unsigned cuMemcpyHtoDAsync_v2(mo_cu_ptr to, const void *from, size_t bytes, mo_cu_stream s) {
    const struct item item = {
        .what = "copy in", .fn = run_copy, .to = (void *)(uintptr_t)to, .from = from, .bytes = bytes};
    return copy("cuMemcpyHtoDAsync_v2", s, &item, to, to, from);
}

unsigned cuMemcpyDtoHAsync_v2(void *to, mo_cu_ptr from, size_t bytes, mo_cu_stream s) {
    const struct item item = {
        .what = "copy out", .fn = run_copy, .to = to, .from = (void *)(uintptr_t)from, .bytes = bytes};
    return copy("cuMemcpyDtoHAsync_v2", s, &item, from, from, to);
}

unsigned cuMemcpyDtoDAsync_v2(mo_cu_ptr to, mo_cu_ptr from, size_t bytes, mo_cu_stream s) {
    const struct item item = {.what = "copy",
                              .fn = run_copy,
                              .to = (void *)(uintptr_t)to,
                              .from = (void *)(uintptr_t)from,
                              .bytes = bytes};
    return copy("cuMemcpyDtoDAsync_v2", s, &item, to, from, NULL);
}

unsigned cuMemsetD8Async(mo_cu_ptr to, unsigned char value, size_t bytes, mo_cu_stream s) {
    const struct item item = {
        .what = "fill", .fn = run_fill, .to = (void *)(uintptr_t)to, .bytes = bytes, .value = value};
    return copy("cuMemsetD8Async", s, &item, to, to, NULL);
}
