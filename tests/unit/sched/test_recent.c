/* SPDX-License-Identifier: Apache-2.0
 * test_recent.c - what cores have worked on lately: whole while it is read, bounded, and free when nobody
 * looks. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include "runtime/engine/recent.h"
#include "tests/unit/sched/serve_bed.h"

enum { ROWS = 8, MANY = 100000 };

/* --- the ring --- */
static void nothing_is_kept_until_somebody_looks(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_recent_block out[MO_RECENT_BLOCKS];
    struct mo_recent r = {0};
    mo_recent_init(&r, &env, 2);
    assert_false(mo_recent_is_on(&r));
    assert_int_equal(mo_recent_begin(&r, 0, 1, 0, 3), -1);
    assert_null(r.rings);
    assert_int_equal(mo_recent_read(&r, 0, 0, out), 0);
    assert_int_equal(mo_recent_watch(&r), MOIRE_OK);
    assert_true(mo_recent_is_on(&r));
    const int64_t entry = mo_recent_begin(&r, 1, 7, 2, 5);
    assert_int_equal(mo_recent_read(&r, 0, 0, out), 0);
    assert_int_equal(mo_recent_read(&r, 1, INT64_MAX, out), 1); /* it runs still */
    assert_int_equal(out[0].end, 0);
    mo_recent_end(&r, 1, entry);
    assert_int_equal(mo_recent_read(&r, 1, 0, out), 1);
    assert_true(out[0].owner == 7 && out[0].first == 2 && out[0].stop == 5 && out[0].end >= out[0].start);
    assert_int_equal(mo_recent_read(&r, 1, out[0].end + 1, out), 0);
    mo_recent_close(&r);
}

static void it_ends_when_nobody_looks_any_more(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_recent r = {0};
    mo_recent_init(&r, &env, 1);
    assert_int_equal(mo_recent_watch(&r), MOIRE_OK);
    atomic_store(&r.until, 1); /* long ago */
    assert_int_equal(mo_recent_begin(&r, 0, 1, 0, 1), -1);
    assert_false(mo_recent_is_on(&r));
    mo_recent_close(&r);
}

/* Entry i has owner i, first i and stop -i: an entry that is half of another shows. */
static void *write_many(void *arg) {
    struct mo_recent *r = arg;
    for (int i = 1; i <= MANY; i++) {
        const int64_t entry = mo_recent_begin(r, 0, (uint64_t)i, i, -i);
        if (entry >= 0) mo_recent_end(r, 0, entry);
    }
    return NULL;
}

static void entries_are_whole_while_they_are_overwritten(void **state) {
    (void)state;
    static struct mo_recent_block out[MO_RECENT_BLOCKS];
    struct mo_env env = mo_env_default();
    struct mo_recent r = {0};
    pthread_t writer;
    mo_recent_init(&r, &env, 1);
    assert_int_equal(mo_recent_watch(&r), MOIRE_OK);
    assert_int_equal(pthread_create(&writer, NULL, write_many, &r), 0);
    for (int n = 0, last = 0; last < MANY;) {
        n = mo_recent_read(&r, 0, 0, out);
        for (int i = 0; i < n; i++) {
            assert_true(out[i].owner == (uint64_t)out[i].first && out[i].stop == -out[i].first);
            assert_true(!i || out[i].first == out[i - 1].first + 1);
        }
        if (n) last = out[n - 1].first;
    }
    pthread_join(writer, NULL);
    assert_in_range(mo_recent_read(&r, 0, 0, out), MO_RECENT_BLOCKS - 1, MO_RECENT_BLOCKS);
    mo_recent_close(&r);
}

/* --- the call --- */
static void blocks_of_tenants_are_told(void **state) {
    (void)state;
    struct serve_bed b;
    moire_block_row rows[ROWS];
    int n = -1;
    serve_open(&b, 0, 0);
    assert_int_equal(moire_recent_blocks(b.runtime, 0, NULL, 0, &n, NULL), MOIRE_OK);
    assert_int_equal(n, 0);
    const int64_t before = moire_now(b.runtime);
    struct serve_back back = {0};
    assert_int_equal(serve_ask(&b, NULL, &back), MOIRE_OK);
    serve_await(&back);
    moire_drain(b.runtime);
    assert_int_equal(moire_recent_blocks(b.runtime, 0, rows, ROWS, &n, NULL), MOIRE_OK);
    assert_in_range(n, 1, ROWS);
    const moire_block_row *last = &rows[n - 1];
    for (const moire_block_row *row = rows; row <= last; row++) {
        assert_int_equal(row->tenant, moire_tenant_id(b.tenant));
        assert_int_equal(row->core, 0);
        assert_true(row->start_ns >= before && row->end_ns >= row->start_ns);
        assert_true(row == rows || row->first_layer == row[-1].end_layer);
    }
    assert_int_equal(rows->first_layer, 0);
    assert_int_equal(last->end_layer, serve_stats(b.tenant).layers);
    assert_int_equal(moire_recent_blocks(b.runtime, last->end_ns + 1, rows, ROWS, &n, NULL), MOIRE_OK);
    assert_int_equal(n, 0);
    moire_runtime_destroy(b.runtime, 1);
}

static void arguments_are_checked(void **state) {
    (void)state;
    struct serve_bed b;
    moire_block_row row;
    int n;
    serve_open(&b, 0, 0);
    assert_int_equal(moire_recent_blocks(NULL, 0, &row, 1, &n, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_recent_blocks(b.runtime, 0, &row, 1, NULL, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_recent_blocks(b.runtime, 0, NULL, 1, &n, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_recent_blocks(b.runtime, 0, &row, -1, &n, NULL), MOIRE_EINVAL);
    moire_runtime_destroy(b.runtime, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_kept_until_somebody_looks),
        cmocka_unit_test(it_ends_when_nobody_looks_any_more),
        cmocka_unit_test(entries_are_whole_while_they_are_overwritten),
        cmocka_unit_test(blocks_of_tenants_are_told),
        cmocka_unit_test(arguments_are_checked),
    };
    return cmocka_run_group_tests(tests, serve_setup, serve_teardown);
}
