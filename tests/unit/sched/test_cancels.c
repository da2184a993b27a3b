/* SPDX-License-Identifier: Apache-2.0
 * test_cancels.c - queries that are cancelled at random moments, that expire, and whose tenant is unloaded
 * while they run: each is answered once, and inputs that were lent come back once.
 *
 *     test_cancels [QUERIES]      # 4,000 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "tests/unit/sched/serve_bed.h"

enum { THREADS = 3, TENANTS = 2, RECENT = 64, AHEAD = 200, OUTCOMES = 32 };
static int n_queries = 4000;

struct asked {
    _Atomic unsigned char answers, returns;
    bool accepted, lent;
};

struct crowd {
    moire_runtime *runtime;
    pthread_rwlock_t
        lock[TENANTS]; /* who submits holds it for reading; who exchanges the tenant, for writing */
    moire_tenant *tenant[TENANTS];
    moire_tensor input;
    float pixels[SERVE_SIDE * SERVE_SIDE];
    struct asked *asked;
    _Atomic int threads, next, open, exchanges;
    _Atomic bool ends;
    _Atomic moire_query recent[RECENT]; /* handles, those of others and old ones, too */
    _Atomic long outcome[OUTCOMES], cancels, stale;
};
static struct crowd *crowd;

static unsigned draw(uint64_t *rng, unsigned n) {
    *rng = *rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(*rng >> 33) % n;
}

/* --- what comes back ------------------------------------------------------------------------------------ */
static void answered(void *user, const moire_answer *a) {
    struct asked *q = user;
    atomic_fetch_add(&q->answers, 1);
    atomic_fetch_add(&crowd->outcome[-a->code % OUTCOMES], 1);
    atomic_fetch_sub(&crowd->open, 1);
}

static void returned(void *user) {
    atomic_fetch_add(&((struct asked *)user)->returns, 1);
}

/* --- those who ask -------------------------------------------------------------------------------------- */
static void ask(struct crowd *c, struct asked *q, uint64_t *rng) {
    const unsigned i = draw(rng, TENANTS), kind = draw(rng, 8);
    moire_query_options o = serve_options();
    moire_query handle = 0;
    o.returned = (q->lent = kind & 1) ? returned : NULL;
    if (kind >= 6) o.deadline_ns = moire_now(c->runtime) + draw(rng, 300000);
    atomic_fetch_add(&c->open, 1);
    pthread_rwlock_rdlock(&c->lock[i]);
    const int rc = moire_submit_with(c->tenant[i], &c->input, 1, &o, answered, q, &handle, NULL);
    pthread_rwlock_unlock(&c->lock[i]);
    q->accepted = rc == MOIRE_OK;
    if (rc) atomic_fetch_sub(&c->open, 1);
    if (!rc) atomic_store(&c->recent[draw(rng, RECENT)], handle);
}

static void cancel_one(struct crowd *c, uint64_t *rng) {
    const int rc = moire_cancel(c->runtime, atomic_load(&c->recent[draw(rng, RECENT)]));
    atomic_fetch_add(rc == MOIRE_OK ? &c->cancels : &c->stale, 1);
}

static void *ask_and_cancel(void *arg) {
    struct crowd *c = arg;
    uint64_t rng = 1 + (uint64_t)atomic_fetch_add(&c->threads, 1);
    for (int k; (k = atomic_fetch_add(&c->next, 1)) < n_queries;) {
        ask(c, &c->asked[k], &rng);
        for (unsigned spin = draw(&rng, 4000); spin; spin--)
            __asm__ volatile("" ::: "memory");
        for (unsigned n = draw(&rng, 4); n; n--)
            cancel_one(c, &rng);
        while (atomic_load(&c->open) > AHEAD)
            cancel_one(c, &rng);
    }
    return NULL;
}

/* The second tenant is exchanged for another again and again, whatever it has under way. */
static void *exchange(void *arg) {
    struct crowd *c = arg;
    while (!atomic_load(&c->ends)) {
        moire_tenant *fresh = serve_load(c->runtime, "changes", 0, 0), *old;
        pthread_rwlock_wrlock(&c->lock[1]);
        old = c->tenant[1];
        c->tenant[1] = fresh;
        pthread_rwlock_unlock(&c->lock[1]);
        assert_int_equal(moire_unload(old, NULL), MOIRE_OK);
        atomic_fetch_add(&c->exchanges, 1);
        usleep(5000);
    }
    return NULL;
}

/* --- the test ------------------------------------------------------------------------------------------- */
static void start(struct crowd *c) {
    moire_config config = serve_config();
    config.threads = 2;
    config.policy = NULL;
    c->runtime = serve_start(&config);
    c->input = serve_input(c->pixels);
    c->asked = calloc((size_t)n_queries, sizeof *c->asked);
    assert_non_null(c->asked);
    for (int i = 0; i < TENANTS; i++) {
        pthread_rwlock_init(&c->lock[i], NULL);
        c->tenant[i] = serve_load(c->runtime, i ? "changes" : "stays", i ? 0 : 3000000, 0);
    }
}

static void check(const struct crowd *c) {
    int accepted = 0;
    for (int k = 0; k < n_queries; k++) {
        const struct asked *q = &c->asked[k];
        accepted += q->accepted;
        assert_int_equal(q->answers, q->accepted);
        assert_int_equal(q->returns, q->accepted && q->lent);
    }
    assert_true(accepted > 0 && c->open == 0);
    assert_true(c->outcome[-MOIRE_ECANCELLED] > 0 && c->outcome[-MOIRE_ECANCELLED] <= c->cancels);
    print_message(
        "%d queries, %d accepted: %ld ok, %ld cancelled, %ld expired, %ld unloaded; %d exchanges; each "
        "answered once\n",
        n_queries, accepted, c->outcome[0], c->outcome[-MOIRE_ECANCELLED], c->outcome[-MOIRE_EEXPIRED],
        c->outcome[-MOIRE_EUNLOADED], c->exchanges);
}

static void each_query_is_answered_once(void **state) {
    (void)state;
    pthread_t thread[THREADS], other;
    crowd = calloc(1, sizeof *crowd);
    assert_non_null(crowd);
    start(crowd);
    assert_int_equal(pthread_create(&other, NULL, exchange, crowd), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, ask_and_cancel, crowd), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    atomic_store(&crowd->ends, true);
    pthread_join(other, NULL);
    moire_runtime_destroy(crowd->runtime, 1);
    check(crowd);
    for (int i = 0; i < TENANTS; i++)
        pthread_rwlock_destroy(&crowd->lock[i]);
    free(crowd->asked);
    free(crowd);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_query_is_answered_once)};
    if (argc > 1) n_queries = (int)strtol(argv[1], NULL, 10);
    if (n_queries < 100) return 2;
    return cmocka_run_group_tests(tests, serve_setup, serve_teardown);
}
