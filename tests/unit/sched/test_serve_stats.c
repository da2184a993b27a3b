/* SPDX-License-Identifier: Apache-2.0
 * test_serve_stats.c - what a server shows: statistics that add up, tenants and their states, limits. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/history/check.h"
#include "tests/unit/sched/serve_bed.h"

enum { ROWS = 8 };

/* --- statistics ----------------------------------------------------------------------------------------- */
struct crowd {
    moire_tensor input;
    float pixels[SERVE_SIDE * SERVE_SIDE];
    moire_runtime *runtime;
    moire_tenant *tenant[2];
    _Atomic int accepted, answered, stop, wrong;
};

static void count(void *user, const moire_answer *a) {
    (void)a;
    atomic_fetch_add(&((struct crowd *)user)->answered, 1);
}

static void *submit_some(void *ctx) {
    struct crowd *c = ctx;
    for (int i = 0; i < 200; i++) {
        moire_query_options o = serve_options();
        moire_query q = 0;
        if (i % 5 == 1) o.deadline_ns = moire_now(c->runtime) + 20000;
        if (moire_submit_with(c->tenant[i % 2], &c->input, 1, &o, count, c, &q, NULL)) continue;
        atomic_fetch_add(&c->accepted, 1);
        if (i % 7 == 3) moire_cancel(c->runtime, q);
    }
    return NULL;
}

static void *look(void *ctx) {
    struct crowd *c = ctx;
    int64_t before = 0;
    while (!atomic_load(&c->stop)) {
        moire_runtime_stats all = {.size = sizeof all};
        int wrong = moire_runtime_get_stats(c->runtime, &all, NULL) != MOIRE_OK;
        const moire_tenant_stats one = serve_stats(c->tenant[0]);
        wrong |= !serve_adds_up(&all.counts) || !serve_adds_up(&one.counts) || all.counts.submitted < before;
        wrong |= one.times.total.count != one.counts.ok || one.times.queue.count != one.counts.ok;
        wrong |= all.cores_held < 0 || all.cores_held > all.cores || all.pressure < 0 || all.pressure > 1;
        wrong |= !(all.pace > 0) || all.stalls < 0 || all.stall_ns < 0 ||
                 all.stall_sheds > all.counts.shed + all.counts.expired;
        before = all.counts.submitted;
        if (wrong) atomic_store(&c->wrong, 1);
        usleep(200); /* a look is an event, too, and all of them are recorded */
    }
    return NULL;
}

/* What happened breaks none of the runtime's promises, and is all of it. */
static void check_history(moire_runtime *runtime, int queries) {
    char path[600];
    snprintf(path, sizeof path, "%s/crowd.trace", serve_folder());
    assert_int_equal(moire_record(runtime, path, NULL), MOIRE_OK);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    const size_t size = (size_t)ftell(f);
    char *text = malloc(size);
    assert_non_null(text);
    rewind(f);
    assert_int_equal(fread(text, 1, size, f), size);
    fclose(f);
    unlink(path);
    const struct history_verdict v = history_check(text, size);
    if (*v.rule) print_message("%s, line %ld: %s\n", v.rule, v.line, v.message);
    assert_string_equal(v.rule, "");
    assert_int_equal(v.queries, queries);
    free(text);
}

static void statistics_add_up_under_load(void **state) {
    (void)state;
    moire_config config = serve_config();
    config.threads = 2;
    config.policy = NULL;
    config.record = 1 << 17;
    struct crowd c = {.runtime = serve_start(&config)};
    c.input = serve_input(c.pixels);
    c.tenant[0] = serve_load(c.runtime, "a", 5000000, 32);
    c.tenant[1] = serve_load(c.runtime, "b", 0, 32);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i ? submit_some : look, &c), 0);
    for (int i = 1; i < 4; i++)
        pthread_join(threads[i], NULL);
    moire_drain(c.runtime);
    atomic_store(&c.stop, 1);
    pthread_join(threads[0], NULL);
    assert_int_equal(c.wrong, 0);
    check_history(c.runtime, c.accepted);
    const moire_tenant_stats a = serve_stats(c.tenant[0]), b = serve_stats(c.tenant[1]);
    moire_runtime_stats all = {.size = sizeof all};
    assert_int_equal(moire_runtime_get_stats(c.runtime, &all, NULL), MOIRE_OK);
    assert_int_equal(all.counts.submitted, 3 * 200);
    assert_int_equal(a.counts.submitted + b.counts.submitted, all.counts.submitted);
    assert_int_equal(all.counts.open, 0);
    assert_int_equal(serve_outcomes(&all.counts), c.accepted);
    assert_int_equal(c.answered, c.accepted);
    assert_int_equal(all.times.total.count, all.counts.ok);
    assert_true(all.times.total.sum_ns >= all.times.queue.sum_ns + all.times.compute.sum_ns);
    assert_true(all.blocks_run >= all.counts.ok && all.block.count > 0 && all.decision.count > 0);
    assert_true(all.tenants == 2 && all.cores == 2 && all.units == 0 && all.uptime_ns > 0);
    assert_true(all.waiting == 0 && all.cores_held == 0);
    assert_true(a.memory.weights > 0 && a.memory.activations > 0 && a.memory.plans > 0);
    assert_true(a.shared_weights > 0 && a.shared_weights == b.shared_weights); /* of one file */
    assert_int_equal(all.memory.weights, a.memory.weights + b.memory.weights - a.shared_weights);
    assert_true(all.memory.inputs > 0 && all.memory.activations >= a.memory.activations);
    assert_true(a.layers > 0 && a.compiled_layers == 0 && a.compiled_share == 0);
    /* what a tenant did stays counted when it is gone */
    assert_int_equal(moire_unload(c.tenant[1], NULL), MOIRE_OK);
    moire_runtime_stats after = {.size = sizeof after};
    assert_int_equal(moire_runtime_get_stats(c.runtime, &after, NULL), MOIRE_OK);
    assert_memory_equal(&after.counts, &all.counts, sizeof after.counts);
    assert_int_equal(after.tenants, 1);
    moire_runtime_destroy(c.runtime, 1);
}

static void statistics_are_checked_and_cut_to_size(void **state) {
    (void)state;
    struct serve_bed b;
    serve_open(&b, 0, 0);
    moire_tenant_stats t = {0};
    moire_runtime_stats r = {0};
    assert_int_equal(moire_tenant_get_stats(b.tenant, &t, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_runtime_get_stats(b.runtime, &r, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_tenant_get_stats(NULL, &t, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_tenant_get_stats(b.tenant, NULL, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_runtime_get_stats(NULL, &r, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_runtime_get_stats(b.runtime, NULL, NULL), MOIRE_EINVAL);
    memset(&t, 0x5a, sizeof t);
    t.size = offsetof(moire_tenant_stats, counts);
    assert_int_equal(moire_tenant_get_stats(b.tenant, &t, NULL), MOIRE_OK);
    assert_true(t.size == offsetof(moire_tenant_stats, counts) && t.id == 1 && t.state == MOIRE_TENANT_READY);
    assert_true(t.counts.submitted == INT64_C(0x5a5a5a5a5a5a5a5a));
    moire_runtime_destroy(b.runtime, 1);
}

static void histograms_have_the_bounds_of_the_header(void **state) {
    (void)state;
    moire_histogram h = {0};
    int64_t before = -1;
    for (int i = 0; i < MOIRE_HISTOGRAM_BUCKETS; i++) {
        int64_t bound = moire_histogram_bound(i);
        int k = i / 8 + 2, j = i % 8;
        assert_true(bound > before);
        if (i >= 8 && i < MOIRE_HISTOGRAM_BUCKETS - 1)
            assert_true(bound == ((int64_t)(9 + j) << (k - 3)) - 1);
        if (i < 8) assert_int_equal(bound, i);
        before = bound;
    }
    assert_true(before == INT64_MAX);
    assert_int_equal(moire_histogram_bound(-1), -1);
    assert_int_equal(moire_histogram_bound(MOIRE_HISTOGRAM_BUCKETS), -1);
    assert_int_equal(moire_histogram_quantile(NULL, 0.5), 0);
    assert_int_equal(moire_histogram_quantile(&h, 0.5), 0);
    h.bucket[5] = 99;
    h.bucket[100] = 1;
    h.count = 100;
    h.max_ns = moire_histogram_bound(100) - 1;
    assert_int_equal(moire_histogram_quantile(&h, 0.5), 5);
    assert_int_equal(moire_histogram_quantile(&h, -3), 5);
    assert_int_equal(moire_histogram_quantile(&h, 0.99), h.max_ns);
    assert_int_equal(moire_histogram_quantile(&h, 7), h.max_ns);
}

/* --- tenants -------------------------------------------------------------------------------------------- */
struct loading {
    moire_runtime *runtime;
    moire_tenant *tenant;
    int code;
};

static void *load_aside(void *ctx) {
    struct loading *l = ctx;
    moire_tenant_config c;
    moire_tenant_config_init(&c);
    c.name = "second";
    l->code = moire_load(l->runtime, serve_model(), &c, &l->tenant, NULL);
    return NULL;
}

static int state_of(moire_runtime *runtime, uint64_t id) {
    int found = -1;
    assert_int_equal(moire_tenant_get_state(runtime, id, &found, NULL), MOIRE_OK);
    return found;
}

/* Loads beside the caller, who looks meanwhile.  false: the load was over before he came to look. */
static bool is_seen_loading(moire_runtime *runtime, struct loading *l) {
    moire_tenant_row rows[ROWS];
    pthread_t thread;
    int n = 0;
    assert_int_equal(pthread_create(&thread, NULL, load_aside, l), 0);
    do
        assert_int_equal(moire_tenants(runtime, rows, ROWS, &n, NULL), MOIRE_OK);
    while (n < 2);
    const bool seen = rows[1].state == MOIRE_TENANT_LOADING;
    assert_string_equal(rows[0].name, "lenet");
    assert_int_equal(rows[0].state, MOIRE_TENANT_READY);
    assert_string_equal(rows[1].name, "second");
    assert_true(!rows[1].tenant || !seen);
    pthread_join(thread, NULL);
    assert_int_equal(l->code, MOIRE_OK);
    assert_int_equal(moire_tenant_id(l->tenant), rows[1].id);
    assert_int_equal(state_of(runtime, rows[1].id), MOIRE_TENANT_READY);
    return seen;
}

static void tenants_are_listed_with_their_states(void **state) {
    (void)state;
    struct serve_bed b;
    moire_tenant_row rows[ROWS];
    int n = -1, found;
    serve_open(&b, 0, 0);
    assert_int_equal(moire_tenants(NULL, rows, ROWS, &n, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_tenants(b.runtime, rows, ROWS, NULL, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_tenants(b.runtime, NULL, 1, &n, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_tenants(b.runtime, rows, -1, &n, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_tenants(b.runtime, NULL, 0, &n, NULL), MOIRE_OK);
    assert_int_equal(n, 1);
    assert_int_equal(moire_tenant_get_state(b.runtime, 0, &found, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_tenant_get_state(b.runtime, 2, &found, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_tenant_get_state(b.runtime, 1, NULL, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_tenant_get_state(NULL, 1, &found, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_tenant_id(NULL), 0);
    struct loading l = {.runtime = b.runtime};
    bool seen = false;
    uint64_t id = 1;
    for (int i = 0; i < 100 && !seen; i++) {
        seen = is_seen_loading(b.runtime, &l);
        assert_int_equal(moire_tenant_id(l.tenant), ++id);
        assert_int_equal(moire_unload(l.tenant, NULL), MOIRE_OK);
        assert_int_equal(state_of(b.runtime, id), MOIRE_TENANT_UNLOADED);
    }
    assert_true(seen);
    moire_tenant *none;
    assert_int_equal(moire_load(b.runtime, "/nonexistent.onnx", NULL, &none, NULL), MOIRE_EIO);
    assert_int_equal(state_of(b.runtime, id + 1), MOIRE_TENANT_UNLOADED);
    assert_int_equal(moire_tenants(b.runtime, rows, 0, &n, NULL), MOIRE_OK);
    assert_int_equal(n, 1);
    moire_runtime_destroy(b.runtime, 1);
}

static void *drain_aside(void *ctx) {
    struct loading *l = ctx;
    l->code = moire_tenant_drain(l->tenant, NULL);
    return NULL;
}

static void a_tenant_drains_alone(void **state) {
    (void)state;
    struct serve_bed b;
    struct serve_back first = {0}, never = {0}, others = {0};
    serve_open(&b, 0, 0);
    moire_tenant *other = serve_load(b.runtime, "other", 0, 0);
    assert_int_equal(moire_tenant_drain(NULL, NULL), MOIRE_EINVAL);
    serve_keep_busy(&b);
    assert_int_equal(serve_ask(&b, NULL, &first), MOIRE_OK);
    struct loading l = {.runtime = b.runtime, .tenant = b.tenant};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, drain_aside, &l), 0);
    while (state_of(b.runtime, 1) != MOIRE_TENANT_DRAINING)
        usleep(100);
    assert_int_equal(serve_ask(&b, NULL, &never), MOIRE_EUNLOADED);
    assert_int_equal(moire_submit(other, &b.input, 1, 0, serve_note, &others, NULL, NULL), MOIRE_OK);
    assert_int_equal(serve_stats(b.tenant).counts.open, 2);
    assert_int_equal(serve_stats(b.tenant).state, MOIRE_TENANT_DRAINING);
    atomic_store(&b.go, 1);
    pthread_join(thread, NULL);
    assert_int_equal(l.code, MOIRE_OK);
    assert_int_equal(first.answers, 1);
    assert_int_equal(first.code, MOIRE_OK);
    assert_int_equal(never.answers, 0);
    const moire_counts c = serve_stats(b.tenant).counts;
    assert_true(serve_adds_up(&c) && c.rejected == 1 && c.open == 0);
    assert_int_equal(moire_tenant_drain(b.tenant, NULL), MOIRE_OK);
    assert_int_equal(moire_unload(b.tenant, NULL), MOIRE_OK);
    moire_drain(b.runtime);
    assert_int_equal(others.code, MOIRE_OK);
    moire_runtime_destroy(b.runtime, 1);
}

/* --- limits --------------------------------------------------------------------------------------------- */
static int64_t limit_of(const moire_runtime *runtime, const char *name) {
    moire_limit_row rows[64];
    int n = 0;
    assert_int_equal(moire_limits(runtime, rows, 64, &n, NULL), MOIRE_OK);
    assert_in_range(n, 10, 64);
    for (int i = 0; i < n; i++) {
        assert_true(*rows[i].text && *rows[i].unit && rows[i].standard >= 1);
        assert_true(rows[i].value <= rows[i].most && rows[i].standard <= rows[i].most);
        if (!strcmp(rows[i].name, name)) return rows[i].value;
    }
    return -1;
}

static void limits_are_read_and_set(void **state) {
    (void)state;
    int n;
    moire_limit_row row;
    moire_error err;
    assert_int_equal(moire_limits(NULL, &row, 1, NULL, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_limits(NULL, NULL, 1, &n, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_limits(NULL, &row, -1, &n, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_limits(NULL, &row, 1, &n, NULL), MOIRE_OK);
    assert_true(n > 1 && row.value == row.standard);
    const moire_limit_setting set[] = {{"tenants", 1}, {"queue", 2}};
    moire_config c = serve_config();
    c.limits = set;
    c.n_limits = 2;
    moire_runtime *runtime = serve_start(&c), *none;
    assert_int_equal(limit_of(runtime, "tenants"), 1);
    assert_int_equal(limit_of(runtime, "queue"), 2);
    assert_true(limit_of(NULL, "tenants") > 1);
    moire_tenant *tenant = serve_load(runtime, "one", 0, 0), *two;
    assert_int_equal(moire_load(runtime, serve_model(), NULL, &two, &err), MOIRE_ELIMIT);
    assert_non_null(strstr(err.message, "'tenants' (1)"));
    moire_tenant_config tc;
    moire_tenant_config_init(&tc);
    tc.queue = 3;
    assert_int_equal(moire_unload(tenant, NULL), MOIRE_OK);
    assert_int_equal(moire_load(runtime, serve_model(), &tc, &two, &err), MOIRE_ELIMIT);
    moire_runtime_destroy(runtime, 1);
    const moire_limit_setting bad[] = {{"tenants", 0}, {"queue", INT64_MAX}, {"no such", 1}, {NULL, 1}};
    for (int i = 0; i < 4; i++) {
        c.limits = &bad[i];
        c.n_limits = 1;
        assert_int_equal(moire_runtime_create(&c, &none, &err), MOIRE_EINVAL);
        assert_non_null(strstr(err.message, "limit"));
    }
    c.limits = NULL;
    assert_int_equal(moire_runtime_create(&c, &none, NULL), MOIRE_EINVAL);
    c.n_limits = -1;
    assert_int_equal(moire_runtime_create(&c, &none, NULL), MOIRE_EINVAL);
}

/* --- the rest ------------------------------------------------------------------------------------------- */
static void versions_agree(void **state) {
    (void)state;
    assert_int_equal(moire_abi_version(), MOIRE_ABI_VERSION);
    assert_string_equal(moire_version(), MOIRE_VERSION_STRING);
}

/* Nothing of a runtime lives in the child of a fork(): it says so instead of waiting for threads. */
static void a_forked_child_is_told(void **state) {
    (void)state;
    struct serve_bed b;
    serve_open(&b, 0, 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        moire_tenant_stats t = {.size = sizeof t};
        moire_runtime_stats r = {.size = sizeof r};
        moire_submission s = {.inputs = &b.input};
        moire_tenant_row row;
        struct serve_back none = {0};
        int n, wrong = 0;
        wrong |= serve_ask(&b, NULL, &none) != MOIRE_EFORKED;
        wrong |= moire_submit_many(b.tenant, &s, 1, serve_note, NULL) != MOIRE_EFORKED;
        wrong |= moire_tenant_get_stats(b.tenant, &t, NULL) != MOIRE_EFORKED;
        wrong |= moire_runtime_get_stats(b.runtime, &r, NULL) != MOIRE_EFORKED;
        wrong |= moire_tenants(b.runtime, &row, 1, &n, NULL) != MOIRE_EFORKED;
        wrong |= moire_tenant_get_state(b.runtime, 1, &n, NULL) != MOIRE_EFORKED;
        wrong |= moire_tenant_drain(b.tenant, NULL) != MOIRE_EFORKED;
        wrong |= moire_recent_blocks(b.runtime, 0, NULL, 0, &n, NULL) != MOIRE_EFORKED;
        wrong |= moire_stuck(b.runtime, NULL, 0, &n, NULL, NULL) != MOIRE_EFORKED;
        wrong |= moire_limits(b.runtime, NULL, 0, &n, NULL) != MOIRE_OK;
        _exit(wrong);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    moire_runtime_destroy(b.runtime, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_add_up_under_load),
        cmocka_unit_test(statistics_are_checked_and_cut_to_size),
        cmocka_unit_test(histograms_have_the_bounds_of_the_header),
        cmocka_unit_test(tenants_are_listed_with_their_states),
        cmocka_unit_test(a_tenant_drains_alone),
        cmocka_unit_test(limits_are_read_and_set),
        cmocka_unit_test(versions_agree),
        cmocka_unit_test(a_forked_child_is_told),
    };
    return cmocka_run_group_tests(tests, serve_setup, serve_teardown);
}
