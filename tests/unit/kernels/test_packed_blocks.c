/* SPDX-License-Identifier: Apache-2.0
 * test_packed_blocks.c - streamed weights that plans share lie side by side in blocks, do not overlap, and
 * leave memory with the last of a block. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "variants/packed_shared.h"

enum { WEIGHTS = 9, MIB = 1 << 20, BLOCK = 8 << 20 };

/* Counts blocks that somebody has: allocations of large pages. */
struct counted {
    struct mo_sys sys; /* first: it is the self of the table */
    const struct mo_sys *real;
    const void *block[WEIGHTS];
    int blocks;
};

static void *take(void *self, size_t align, size_t bytes) {
    struct counted *c = self;
    void *p = c->real->alloc(c->real->self, align, bytes);
    if (align >= 2 * MIB && p) c->block[c->blocks++] = p;
    return p;
}

static void give(void *self, void *p) {
    struct counted *c = self;
    for (int i = 0; i < c->blocks; i++)
        if (c->block[i] == p) {
            c->block[i] = c->block[--c->blocks];
            break;
        }
    c->real->free(c->real->self, p);
}

/* Odd sizes; one is larger than a block. */
static int64_t size_of(int i) {
    return i == 4 ? BLOCK + 3 * 64 : (int64_t)(1 + i % 3) * MIB + i * 100;
}

static bool is_zeroed(const char *p, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (p[i]) return false;
    return true;
}

/* Every weight is filled with its number, and still is when the others are. */
static void streamed_weights_share_blocks(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct counted c = {.sys = *env.sys, .real = env.sys};
    c.sys.self = &c, c.sys.alloc = take, c.sys.free = give;
    env.sys = &c.sys;
    struct mo_weights *w = mo_weights_create(&env);
    char *data[WEIGHTS];
    int64_t bytes = 0;
    for (int i = 0; i < WEIGHTS; i++) {
        const struct mo_weights_form form = {.packing = 1, .bytes = size_of(i)};
        bool filled;
        assert_null(mo_weights_take(w, (uint64_t)i + 1, &form, MO_WEIGHTS_FIND, &filled));
        data[i] = mo_weights_take(w, (uint64_t)i + 1, &form, MO_WEIGHTS_STREAMED, &filled);
        assert_non_null(data[i]);
        assert_false(filled);
        assert_int_equal((uintptr_t)data[i] % 64, 0);
        assert_true(is_zeroed(data[i], form.bytes));
        memset(data[i], i + 1, (size_t)form.bytes);
        bytes += form.bytes;
        assert_ptr_equal(mo_weights_take(w, (uint64_t)i + 1, &form, MO_WEIGHTS_FIND, &filled), data[i]);
        assert_true(filled);
        mo_weights_give(w, data[i]);
    }
    assert_true(c.blocks > 1 && c.blocks < WEIGHTS);
    assert_int_equal(mo_weights_bytes(w), bytes);
    for (int i = 0; i < WEIGHTS; i++)
        assert_true(data[i][0] == i + 1 && !memcmp(data[i], data[i] + 1, (size_t)size_of(i) - 1));
    for (int i = 0; i < WEIGHTS; i++)
        mo_weights_give(w, data[i]);
    assert_int_equal(c.blocks, 0);
    assert_int_equal(mo_weights_bytes(w), 0);
    mo_weights_destroy(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(streamed_weights_share_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
