/* SPDX-License-Identifier: Apache-2.0
 * test_serve.c - queries with options of their own, and many at once. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "runtime/sched/policy.h"
#include "tests/unit/sched/serve_bed.h"

enum { MANY = 16 };

/* --- options -------------------------------------------------------------------------------------------- */
static void options_come_back(void **state) {
    (void)state;
    struct serve_bed b;
    struct serve_back own = {0}, none = {0}, plain = {0};
    serve_open(&b, 1000000000000, 0);
    moire_query_options o = serve_options();
    o.tag = UINT64_C(0xfedcba9876543210);
    o.arrival_ns = moire_now(b.runtime) - 1000;
    o.deadline_ns = o.arrival_ns + INT64_C(3600000000000);
    assert_int_equal(serve_ask(&b, &o, &own), MOIRE_OK);
    moire_query_options no = serve_options();
    no.deadline_ns = MOIRE_NO_DEADLINE;
    assert_int_equal(serve_ask(&b, &no, &none), MOIRE_OK);
    assert_int_equal(serve_ask(&b, NULL, &plain), MOIRE_OK);
    assert_int_equal(moire_drain(b.runtime), MOIRE_OK);
    assert_int_equal(own.code, MOIRE_OK);
    assert_true(own.tag == o.tag);
    assert_true(own.arrival == o.arrival_ns && own.deadline == o.deadline_ns);
    assert_true(own.start >= own.arrival && own.end >= own.start);
    assert_true(own.compute > 0 && own.compute <= own.end - own.start);
    assert_int_equal(none.deadline, 0);
    assert_true(plain.deadline == plain.arrival + 1000000000000 && plain.tag == 0);
    moire_runtime_destroy(b.runtime, 1);
}

static void bad_options_are_refused(void **state) {
    (void)state;
    struct serve_bed b;
    struct serve_back never = {0};
    moire_error err;
    serve_open(&b, 0, 0);
    moire_query_options o = serve_options();
    o.size = 0;
    assert_int_equal(serve_ask(&b, &o, &never), MOIRE_EINVAL);
    o = serve_options();
    o.deadline_ns = -1;
    assert_int_equal(serve_ask(&b, &o, &never), MOIRE_EINVAL);
    o = serve_options();
    o.arrival_ns = -1;
    assert_int_equal(moire_submit_with(b.tenant, &b.input, 1, &o, serve_note, &never, NULL, &err),
                     MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "arrival_ns"));
    assert_int_equal(moire_submit_with(NULL, &b.input, 1, NULL, serve_note, &never, NULL, NULL),
                     MOIRE_EINVAL);
    assert_int_equal(moire_submit_with(b.tenant, &b.input, 2, NULL, serve_note, &never, NULL, NULL),
                     MOIRE_EINVAL);
    moire_tensor small = b.input;
    small.shape[3]--;
    assert_int_equal(moire_submit_with(b.tenant, &small, 1, NULL, serve_note, &never, NULL, NULL),
                     MOIRE_ESHAPE);
    /* a caller that knows less of the struct */
    o = serve_options();
    o.size = offsetof(moire_query_options, tag);
    o.tag = 7;
    struct serve_back old = {0};
    assert_int_equal(serve_ask(&b, &o, &old), MOIRE_OK);
    moire_drain(b.runtime);
    assert_int_equal(old.tag, 0);
    assert_int_equal(never.answers, 0);
    assert_int_equal(serve_stats(b.tenant).counts.submitted, 1); /* what is not valid does not count */
    moire_runtime_destroy(b.runtime, 1);
}

/* The worker is held up: only the runtime's own thread can have answered. */
static void a_deadline_of_its_own_ends_a_query(void **state) {
    (void)state;
    struct serve_bed b;
    struct serve_back past = {0}, soon = {0}, later = {0}, target = {0};
    serve_open(&b, 1, 0); /* a target that everything misses expires nothing */
    serve_keep_busy(&b);
    moire_query_options o = serve_options();
    o.deadline_ns = 1;
    assert_int_equal(serve_ask(&b, &o, &past), MOIRE_OK);
    serve_await(&past);
    assert_int_equal(past.code, MOIRE_EEXPIRED);
    assert_int_equal(past.start, 0);
    assert_int_equal(serve_ask(&b, NULL, &target), MOIRE_OK);
    o.deadline_ns = moire_now(b.runtime) + INT64_C(3600000000000);
    assert_int_equal(serve_ask(&b, &o, &later), MOIRE_OK);
    o.deadline_ns = moire_now(b.runtime) + 3000000;
    assert_int_equal(serve_ask(&b, &o, &soon), MOIRE_OK);
    serve_await(&soon);
    assert_int_equal(soon.code, MOIRE_EEXPIRED);
    assert_true(soon.end >= soon.deadline);
    assert_int_equal(later.answers + target.answers, 0);
    atomic_store(&b.go, 1);
    moire_drain(b.runtime);
    assert_int_equal(later.code, MOIRE_OK);
    assert_int_equal(target.code, MOIRE_OK);
    const moire_tenant_stats s = serve_stats(b.tenant);
    assert_int_equal(s.counts.expired, 2);
    assert_int_equal(s.counts.ok, 4);
    assert_int_equal(s.counts.in_time, 1);
    moire_runtime_destroy(b.runtime, 1);
}

/* One that has passed when the query comes is missed, and ends nothing. */
static void a_deadline_may_be_a_target(void **state) {
    (void)state;
    struct serve_bed b;
    struct serve_back late = {0}, early = {0};
    serve_open(&b, 0, 0);
    moire_query_options o = serve_options();
    o.late_goes_on = 1;
    o.deadline_ns = 1;
    assert_int_equal(serve_ask(&b, &o, &late), MOIRE_OK);
    o.deadline_ns = moire_now(b.runtime) + INT64_C(3600000000000);
    assert_int_equal(serve_ask(&b, &o, &early), MOIRE_OK);
    moire_drain(b.runtime);
    assert_int_equal(late.code, MOIRE_OK);
    assert_int_equal(late.deadline, 1);
    assert_int_equal(early.code, MOIRE_OK);
    const moire_tenant_stats s = serve_stats(b.tenant);
    assert_int_equal(s.counts.ok, 2);
    assert_int_equal(s.counts.in_time, 1);
    moire_runtime_destroy(b.runtime, 1);
}

/* It has the core, and would run if the worker came: that finds it answered, and leaves it alone. */
static void a_deadline_ends_a_query_that_runs(void **state) {
    (void)state;
    struct serve_bed b;
    struct serve_back runs = {0}, after = {0};
    serve_open(&b, 0, 0);
    serve_hold(&b);
    moire_query_options o = serve_options();
    o.deadline_ns = moire_now(b.runtime) + 3000000;
    assert_int_equal(serve_ask(&b, &o, &runs), MOIRE_OK);
    serve_await(&runs);
    assert_int_equal(runs.code, MOIRE_EEXPIRED);
    assert_true(runs.start > 0 && runs.end >= runs.deadline);
    atomic_store(&b.go, 1);
    assert_int_equal(serve_ask(&b, NULL, &after), MOIRE_OK);
    moire_drain(b.runtime);
    assert_int_equal(after.code, MOIRE_OK);
    assert_int_equal(runs.answers, 1);
    moire_runtime_destroy(b.runtime, 1);
}

static void goes_by_priority(const char *policy) {
    struct serve_back back[3] = {{0}};
    moire_config c = serve_config();
    c.policy = policy;
    struct serve_bed b = {.runtime = serve_start(&c)};
    b.tenant = serve_load(b.runtime, "lenet", 0, 0);
    b.input = serve_input(b.pixels);
    serve_keep_busy(&b);
    moire_query_options o = serve_options();
    o.own_priority = 1;
    for (int i = 0; i < 3; i++) {
        o.priority = i;
        assert_int_equal(serve_ask(&b, &o, &back[i]), MOIRE_OK);
    }
    atomic_store(&b.go, 1);
    moire_drain(b.runtime);
    bool ordered = back[2].place < back[1].place && back[1].place < back[0].place;
    if (!ordered) print_message("policy %s\n", policy);
    assert_true(ordered);
    moire_runtime_destroy(b.runtime, 1);
}

static void a_query_may_come_before_its_tenants_others(void **state) {
    (void)state;
    for (const struct mo_policy *const *p = mo_policies(); *p; p++)
        goes_by_priority((*p)->name);
}

static void tags_are_recorded(void **state) {
    (void)state;
    char path[600], line[256];
    moire_config c = serve_config();
    c.record = 1 << 10;
    struct serve_bed b = {.runtime = serve_start(&c)};
    b.tenant = serve_load(b.runtime, NULL, 0, 0);
    b.input = serve_input(b.pixels);
    struct serve_back back = {0};
    moire_query_options o = serve_options();
    o.tag = 424242;
    assert_int_equal(serve_ask(&b, &o, &back), MOIRE_OK);
    moire_drain(b.runtime);
    snprintf(path, sizeof path, "%s/run.trace", serve_folder());
    assert_int_equal(moire_record(b.runtime, path, NULL), MOIRE_OK);
    FILE *f = fopen(path, "r");
    bool found = false;
    while (f && fgets(line, sizeof line, f))
        found |= strstr(line, " ACCEPT ") && strstr(line, " 424242\n");
    if (f) fclose(f);
    assert_true(found);
    unlink(path);
    moire_runtime_destroy(b.runtime, 1);
}

/* --- many at once --------------------------------------------------------------------------------------- */
static void many_are_accepted_one_by_one(void **state) {
    (void)state;
    struct serve_bed b;
    struct serve_back back[MANY] = {{0}};
    moire_submission list[MANY];
    moire_query_options bad = serve_options();
    moire_error err;
    serve_open(&b, 0, 8);
    assert_int_equal(moire_submit_many(NULL, list, 1, serve_note, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_submit_many(b.tenant, NULL, 1, serve_note, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_submit_many(b.tenant, list, -1, serve_note, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_submit_many(b.tenant, NULL, 0, serve_note, NULL), MOIRE_OK);
    for (int i = 0; i < MANY; i++)
        list[i] = (moire_submission){.inputs = &b.input, .user = &back[i]};
    assert_int_equal(moire_submit_many(b.tenant, list, 8, serve_note, &err), MOIRE_OK);
    for (int i = 0; i < 8; i++)
        assert_true(list[i].code == MOIRE_OK && list[i].handle != 0);
    moire_drain(b.runtime);
    for (int i = 0; i < 8; i++)
        assert_true(back[i].answers == 1 && back[i].code == MOIRE_OK);
    /* the second is not valid; of the others the queue takes eight */
    memset(back, 0, sizeof back);
    bad.deadline_ns = -5;
    list[1].options = &bad;
    serve_keep_busy(&b);
    assert_int_equal(moire_submit_many(b.tenant, list, MANY, serve_note, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "deadline_ns"));
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(list[i].code, i == 1 ? MOIRE_EINVAL : i < 9 ? MOIRE_OK : MOIRE_EBUSY);
        assert_int_equal(list[i].handle != 0, list[i].code == MOIRE_OK);
    }
    list[1].options = NULL;
    assert_int_equal(moire_submit_many(b.tenant, &list[1], 1, serve_note, &err), MOIRE_EBUSY);
    assert_non_null(strstr(err.message, "queue"));
    assert_int_equal(moire_cancel(b.runtime, list[0].handle), MOIRE_OK);
    serve_await(&back[0]);
    assert_int_equal(back[0].code, MOIRE_ECANCELLED);
    assert_int_equal(moire_cancel(b.runtime, list[0].handle), MOIRE_ESTALE);
    atomic_store(&b.go, 1);
    moire_drain(b.runtime);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(back[i].answers, list[i].code == MOIRE_OK && i != 1);
    const moire_counts c = serve_stats(b.tenant).counts;
    assert_true(serve_adds_up(&c));
    assert_int_equal(c.rejected, 7 + 1);
    assert_int_equal(c.cancelled, 1);
    moire_runtime_destroy(b.runtime, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_come_back),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(a_deadline_of_its_own_ends_a_query),
        cmocka_unit_test(a_deadline_may_be_a_target),
        cmocka_unit_test(a_deadline_ends_a_query_that_runs),
        cmocka_unit_test(a_query_may_come_before_its_tenants_others),
        cmocka_unit_test(tags_are_recorded),
        cmocka_unit_test(many_are_accepted_one_by_one),
    };
    return cmocka_run_group_tests(tests, serve_setup, serve_teardown);
}
