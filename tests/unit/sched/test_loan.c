/* SPDX-License-Identifier: Apache-2.0
 * test_loan.c - inputs that are lent come back exactly once, whatever becomes of the query, and are read as
 * copies would be. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/unit/sched/serve_bed.h"

enum { OUTPUTS = 10, ROUNDS = 300 };

/* A query whose input is lent, at an address that nothing is aligned to. */
struct loan {
    struct serve_bed *bed;
    unsigned char *memory;
    _Atomic int returns, answers;
    int code, returns_at_answer;
    float out[OUTPUTS];
};

/* What comes back is the caller's: it is spoilt at once. */
static void returned(void *user) {
    struct loan *l = user;
    memset(l->memory, 0xff, 1 + l->bed->input.bytes);
    atomic_fetch_add(&l->returns, 1);
}

static void answered(void *user, const moire_answer *a) {
    struct loan *l = user;
    l->code = a->code;
    l->returns_at_answer = atomic_load(&l->returns);
    if (!a->code) memcpy(l->out, a->outputs[0].data, sizeof l->out);
    atomic_fetch_add(&l->answers, 1);
}

static void open_loan(struct loan *l, struct serve_bed *b) {
    *l = (struct loan){.bed = b, .memory = malloc(1 + b->input.bytes)};
    assert_non_null(l->memory);
    memcpy(l->memory + 1, b->pixels, b->input.bytes);
}

static int lend(struct loan *l, const moire_query_options *given, moire_query *handle) {
    moire_query_options o = given ? *given : serve_options();
    moire_tensor input = l->bed->input;
    input.data = l->memory + 1;
    o.returned = returned;
    return moire_submit_with(l->bed->tenant, &input, 1, &o, answered, l, handle, NULL);
}

static void check(struct loan *l, int code) {
    assert_int_equal(l->answers, 1);
    assert_int_equal(l->code, code);
    assert_int_equal(l->returns, 1);
    free(l->memory);
}

static void open_bed(struct serve_bed *b, int queue) {
    serve_open(b, 0, queue);
    for (int i = 0; i < SERVE_SIDE * SERVE_SIDE; i++)
        b->pixels[i] = (float)(i % 17) / 17;
}

static void answers_are_those_of_copies(void **state) {
    (void)state;
    struct serve_bed b;
    struct loan l;
    float want[OUTPUTS];
    open_bed(&b, 0);
    moire_tensor out = {.data = want, .bytes = sizeof want};
    assert_int_equal(moire_run(b.tenant, &b.input, 1, &out, 1, NULL), MOIRE_OK);
    for (int i = 0; i < 3; i++) {
        open_loan(&l, &b);
        assert_int_equal(lend(&l, NULL, NULL), MOIRE_OK);
        moire_drain(b.runtime);
        assert_memory_equal(l.out, want, sizeof want);
        assert_int_equal(l.returns_at_answer, 1); /* it had begun: before its answer */
        check(&l, MOIRE_OK);
    }
    moire_runtime_destroy(b.runtime, 1);
}

static void many_at_once(void **state) {
    (void)state;
    struct serve_bed b;
    struct loan loans[8];
    moire_submission list[8];
    moire_query_options o = serve_options();
    moire_tensor inputs[8];
    o.returned = returned;
    open_bed(&b, 0);
    for (int i = 0; i < 8; i++) {
        open_loan(&loans[i], &b);
        inputs[i] = b.input;
        inputs[i].data = loans[i].memory + 1;
        list[i] = (moire_submission){.inputs = &inputs[i], .options = i % 2 ? &o : NULL, .user = &loans[i]};
    }
    assert_int_equal(moire_submit_many(b.tenant, list, 8, answered, NULL), MOIRE_OK);
    moire_drain(b.runtime);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(loans[i].returns, i % 2); /* the others were copied */
        loans[i].returns = 1;
        assert_memory_equal(loans[i].out, loans[0].out, sizeof loans[i].out);
        check(&loans[i], MOIRE_OK);
    }
    moire_runtime_destroy(b.runtime, 1);
}

static void one_that_never_begins_gives_them_back(void **state) {
    (void)state;
    struct serve_bed b;
    struct loan late, cancelled, unloaded;
    moire_query handle;
    moire_query_options o = serve_options();
    open_bed(&b, 0);
    serve_keep_busy(&b);
    open_loan(&late, &b);
    open_loan(&cancelled, &b);
    open_loan(&unloaded, &b);
    o.deadline_ns = 1;
    assert_int_equal(lend(&late, &o, NULL), MOIRE_OK);
    assert_int_equal(lend(&cancelled, NULL, &handle), MOIRE_OK);
    assert_int_equal(lend(&unloaded, NULL, NULL), MOIRE_OK);
    assert_int_equal(cancelled.returns, 0);
    assert_int_equal(moire_cancel(b.runtime, handle), MOIRE_OK);
    while (!atomic_load(&late.answers) || !atomic_load(&cancelled.answers))
        usleep(100);
    check(&late, MOIRE_EEXPIRED);
    check(&cancelled, MOIRE_ECANCELLED);
    assert_int_equal(unloaded.returns, 0);
    atomic_store(&b.go, 1);
    moire_runtime_destroy(b.runtime, 0);
    assert_int_equal(unloaded.returns, 1);
    free(unloaded.memory);
}

static void what_is_refused_was_not_lent(void **state) {
    (void)state;
    struct serve_bed b;
    struct loan first, second;
    open_bed(&b, 1);
    serve_keep_busy(&b);
    open_loan(&first, &b);
    open_loan(&second, &b);
    assert_int_equal(lend(&first, NULL, NULL), MOIRE_OK);
    assert_int_equal(lend(&second, NULL, NULL), MOIRE_EBUSY);
    atomic_store(&b.go, 1);
    moire_drain(b.runtime);
    assert_int_equal(second.returns + second.answers, 0);
    free(second.memory);
    check(&first, MOIRE_OK);
    moire_runtime_destroy(b.runtime, 1);
}

struct canceller {
    moire_runtime *runtime;
    _Atomic uint64_t query;
    _Atomic bool stop;
};

static void *cancel(void *arg) {
    struct canceller *c = arg;
    while (!atomic_load(&c->stop)) {
        const moire_query query = atomic_exchange(&c->query, 0);
        if (query) moire_cancel(c->runtime, query);
    }
    return NULL;
}

/* A worker begins a query while another thread cancels it, at every moment. */
static void cancelled_while_it_begins(void **state) {
    (void)state;
    struct serve_bed b;
    open_bed(&b, 0);
    struct canceller c = {.runtime = b.runtime};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel, &c), 0);
    for (int i = 0; i < ROUNDS; i++) {
        struct loan l;
        moire_query handle;
        open_loan(&l, &b);
        assert_int_equal(lend(&l, NULL, &handle), MOIRE_OK);
        atomic_store(&c.query, handle);
        moire_drain(b.runtime);
        while (
            !atomic_load(&l.returns)) /* of one that was cancelled as it began: after its answer, perhaps */
            usleep(10);
        assert_true(l.code == MOIRE_OK || l.code == MOIRE_ECANCELLED);
        check(&l, l.code);
    }
    atomic_store(&c.stop, true);
    pthread_join(thread, NULL);
    moire_runtime_destroy(b.runtime, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_copies),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(one_that_never_begins_gives_them_back),
        cmocka_unit_test(what_is_refused_was_not_lent),
        cmocka_unit_test(cancelled_while_it_begins),
    };
    return cmocka_run_group_tests(tests, serve_setup, serve_teardown);
}
