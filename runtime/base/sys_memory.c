/* SPDX-License-Identifier: Apache-2.0
 * sys_memory.c - memory of the real machine: from calloc(), or pages of its own. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "runtime/base/sys_posix.h"

/* Who asks for one of these alignments wants pages of that size, and of its own: they leave the process when
 * they are freed.  The rest of a block of large pages keeps small ones. */
enum { PAGE = 4096, HUGE_PAGE = 2 << 20, MANY_PAGES = 32 << 20 };

/* Before what is handed out: where the block begins, and its length when it has a mapping of its own. */
struct head {
    char *block;
    size_t mapped; /* 0: from calloc() */
};

static void *map_pages(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* calloc() knows which pages come zeroed from the system and leaves them alone, but keeps what is freed. */
void *mo_px_alloc(void *self, size_t align, size_t bytes) {
    (void)self;
    size_t total;
    if (__builtin_add_overflow(bytes, align, &total)) return NULL;
    bool own = align >= PAGE && bytes >= PAGE;
    char *block = own ? map_pages(total) : calloc(1, total);
    if (!block) return NULL;
    char *p = block + (align - (uintptr_t)block % align); /* at least 16 bytes on */
    const struct head head = {block, own ? total : 0};
    memcpy(p - sizeof head, &head, sizeof head);
    if (align >= HUGE_PAGE && bytes >= HUGE_PAGE) madvise(p, bytes / 4096 * 4096, MADV_HUGEPAGE);
    return p;
}

/* A model's weights leave in parts: whoever waits for the core has it between two.  Of malloc(), so much has
 * a mapping of its own. */
static void drop_pages(char *block, size_t bytes) {
    char *from = (char *)(((uintptr_t)block + PAGE - 1) / PAGE * PAGE);
    const size_t n = bytes >= MANY_PAGES ? (bytes - (size_t)(from - block)) / PAGE * PAGE : 0;
    for (size_t at = 0; at < n; at += HUGE_PAGE)
        madvise(from + at, n - at < HUGE_PAGE ? n - at : HUGE_PAGE, MADV_DONTNEED);
}

void mo_px_free(void *self, void *p) {
    (void)self;
    struct head head;
    if (!p) return;
    memcpy(&head, (char *)p - sizeof head, sizeof head);
    drop_pages(head.block, head.mapped ? head.mapped : malloc_usable_size(head.block));
    if (head.mapped)
        munmap(head.block, head.mapped);
    else
        free(head.block);
}
