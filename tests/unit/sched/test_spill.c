/* SPDX-License-Identifier: Apache-2.0
 * test_spill.c - activations of paused queries give way and come back whole: one thread step by step, many
 * threads at once, memory that cannot be had, and a runtime whose queries preempt one another. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "models/zoo.h"
#include "runtime/serve/runtime.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/codegen/random_graph.h"

enum { SEED = 7, THREADS = 4, ROUNDS = 400, PER_THREAD = 3 };

/* --- a tenant without a runtime ------------------------------------------------------------------------- */
struct bed {
    struct fault_sys fault;
    struct mo_env env;
    struct mo_plan *plan;
    struct mo_live *live;
    struct mo_spill_pools pools;
    struct mo_spiller spiller;
    _Atomic int freed;
};

static void count_freed(void *ctx, struct mo_spill *spill) {
    assert_true(!spill->arena && !spill->kept);
    atomic_fetch_add((_Atomic int *)ctx, 1);
    free(spill); /* a query begins with it */
}

static void begin(struct bed *b) {
    memset(b, 0, sizeof *b);
    fault_sys_init(&b->fault);
    b->env = mo_env_default();
    b->env.sys = &b->fault.table;
    const struct mo_plan_options options = {.isa = mo_isa_detect()};
    assert_int_equal(mo_plan_build(random_graph(&b->env, SEED), &options, &b->plan, NULL), MOIRE_OK);
    assert_int_equal(mo_live_create(b->plan, &b->live, NULL), MOIRE_OK);
    b->pools.arenas = mo_arenas_create(&b->env);
    b->pools.kept = mo_arenas_create(&b->env);
    b->spiller = (struct mo_spiller){.env = &b->env,
                                     .pools = &b->pools,
                                     .live = b->live,
                                     .bytes = 4 * mo_instance_arena_bytes(b->plan), /* so all are worth it */
                                     .owner = 1,
                                     .freed = count_freed,
                                     .ctx = &b->freed};
}

static void end(struct bed *b) {
    assert_null(b->spiller.resting);
    assert_int_equal(mo_arenas_state(b->pools.arenas).taken, 0);
    assert_int_equal(mo_arenas_state(b->pools.kept).taken, 0);
    mo_arenas_destroy(b->pools.arenas);
    mo_arenas_destroy(b->pools.kept);
    mo_live_destroy(b->live);
    mo_plan_destroy(b->plan);
    assert_int_equal(fault_sys_live(&b->fault), 0);
}

/* A query that writes its own number all over its arena before it rests. */
struct query {
    struct mo_spill spill;
    unsigned char mark;
    int next;
};

static int start_block(struct bed *b, struct query *q) {
    return mo_spill_hold(&b->spiller, &q->spill) ? mo_spill_begin(&b->spiller, &q->spill) : MOIRE_OK;
}

static void end_block(struct bed *b, struct query *q, int next) {
    memset(q->spill.arena->at, q->mark, b->spiller.bytes);
    q->next = next;
    mo_spill_rest(&b->spiller, &q->spill, next);
}

/* What it needs is as it left it; room: for all of it. */
static bool is_whole(const struct bed *b, const struct query *q, char *room) {
    const size_t n = mo_live_bytes(b->live, q->next);
    memset(room, q->mark, n); /* padding between tensors is not copied */
    mo_live_save(b->live, q->next, q->spill.arena->at, room);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)room[i] != q->mark) return false;
    return true;
}

static void a_paused_query_gives_way_and_comes_back(void **state) {
    (void)state;
    struct bed b;
    begin(&b);
    struct query q[3] = {{.mark = 1}, {.mark = 2}, {.mark = 3}};
    char *room = malloc(b.spiller.bytes);
    assert_non_null(room);
    const int middle = b.plan->n_steps / 2;
    assert_true(mo_live_bytes(b.live, middle) > 0);
    assert_true(mo_live_bytes(b.live, middle) < mo_instance_arena_bytes(b.plan));
    for (int i = 0; i < 3; i++) { /* each begins when the one before rests */
        assert_int_equal(start_block(&b, &q[i]), MOIRE_OK);
        assert_false(mo_spill_hold(&b.spiller, &q[i].spill)); /* it runs */
        end_block(&b, &q[i], middle);
        assert_int_equal(mo_arenas_state(b.pools.arenas).n, 1);
        assert_int_equal(mo_arenas_state(b.pools.kept).taken, i);
    }
    assert_int_equal(atomic_load(&b.pools.spills), 2);
    const size_t most = atomic_load(&b.pools.most);
    assert_true(most == mo_arenas_state(b.pools.arenas).bytes + mo_arenas_state(b.pools.kept).bytes);
    assert_int_equal(start_block(&b, &q[2]), MOIRE_OK); /* it still had its arena */
    assert_int_equal(atomic_load(&b.pools.spills), 2);
    assert_true(is_whole(&b, &q[2], room));
    assert_int_equal(start_block(&b, &q[0]), MOIRE_OK); /* nobody rests: a second arena */
    assert_int_equal(mo_arenas_state(b.pools.arenas).n, 2);
    assert_true(is_whole(&b, &q[0], room) && is_whole(&b, &q[2], room));
    end_block(&b, &q[0], middle + 1);
    assert_int_equal(start_block(&b, &q[1]), MOIRE_OK);
    assert_true(is_whole(&b, &q[1], room));
    assert_int_equal(mo_arenas_state(b.pools.arenas).n, 2);
    for (int i = 0; i < 3; i++) /* one that is spilled, and two that run */
        assert_true(mo_spill_release(&b.spiller, &q[i].spill));
    free(room);
    end(&b);
}

/* One whose tensors fill most of its arena keeps it. */
static void what_saves_little_is_not_spilled(void **state) {
    (void)state;
    struct bed b;
    begin(&b);
    struct query q[2] = {{.mark = 1}, {.mark = 2}};
    const int middle = b.plan->n_steps / 2;
    assert_int_equal(start_block(&b, &q[0]), MOIRE_OK);
    end_block(&b, &q[0], middle);
    const size_t bytes = b.spiller.bytes;
    b.spiller.bytes = mo_live_bytes(b.live, middle) * 5 / 4;
    assert_int_equal(start_block(&b, &q[1]), MOIRE_OK);
    assert_int_equal(atomic_load(&b.pools.spills), 0);
    assert_int_equal(mo_arenas_state(b.pools.arenas).n, 2);
    b.spiller.bytes = bytes;
    for (int i = 0; i < 2; i++)
        assert_true(mo_spill_release(&b.spiller, &q[i].spill));
    end(&b);
}

/* A query that finds no memory has no arena, and the one that was to give way is whole. */
static int begin_second(void *ctx) {
    struct bed *b = ctx;
    struct query q[2] = {{.mark = 1}, {.mark = 2}};
    char room[1 << 16];
    const int middle = b->plan->n_steps / 2;
    int code = start_block(b, &q[0]);
    if (!code) {
        end_block(b, &q[0], middle);
        code = start_block(b, &q[1]);
        assert_true(mo_live_bytes(b->live, middle) <= sizeof room);
        if (!start_block(b, &q[0])) assert_true(is_whole(b, &q[0], room));
    }
    for (int i = 0; i < 2; i++)
        assert_true(mo_spill_release(&b->spiller, &q[i].spill));
    mo_arenas_destroy(b->pools.arenas);
    mo_arenas_destroy(b->pools.kept);
    b->pools.arenas = b->pools.kept = NULL;
    return code;
}

static void no_memory_is_an_answer(void **state) {
    (void)state;
    struct bed b;
    for (long k = 1; k <= 12; k++) {
        begin(&b);
        fault_sys_fail(&b.fault, k, 0);
        const int code = begin_second(&b);
        assert_true(code == MOIRE_OK || code == MOIRE_ENOMEM);
        mo_live_destroy(b.live);
        mo_plan_destroy(b.plan);
        assert_int_equal(fault_sys_live(&b.fault), 0);
    }
}

/* --- threads -------------------------------------------------------------------------------------------- */
struct worker {
    struct bed *bed;
    int number, broken, released;
    unsigned rng;
};

static unsigned draw(struct worker *w, unsigned below) {
    w->rng = w->rng * 1664525 + 1013904223;
    return (w->rng >> 16) % below;
}

/* Its queries take turns; now and then one is released while it rests, perhaps just as another thread copies
 * it. */
static void *work(void *arg) {
    struct worker *w = arg;
    struct bed *b = w->bed;
    struct query *q[PER_THREAD] = {NULL};
    char *room = malloc(b->spiller.bytes);
    for (int k = 0; room && k < ROUNDS; k++) {
        struct query **at = &q[draw(w, PER_THREAD)];
        const bool fresh = !*at;
        if (fresh) *at = calloc(1, sizeof **at);
        if (!*at) break;
        if (fresh) (*at)->mark = (unsigned char)(1 + w->number * 60 + k % 60);
        if (start_block(b, *at)) break;
        if (!fresh) w->broken += !is_whole(b, *at, room);
        end_block(b, *at, 1 + (int)draw(w, (unsigned)b->plan->n_steps - 1));
        if (draw(w, 4)) continue;
        w->released++;
        if (mo_spill_release(&b->spiller, &(*at)->spill)) count_freed(&b->freed, &(*at)->spill);
        *at = NULL;
    }
    for (int i = 0; i < PER_THREAD; i++) {
        if (!q[i]) continue;
        w->released++;
        if (mo_spill_release(&b->spiller, &q[i]->spill)) count_freed(&b->freed, &q[i]->spill);
    }
    free(room);
    return NULL;
}

static void many_threads_lose_nothing(void **state) {
    (void)state;
    struct bed b;
    struct worker w[THREADS];
    pthread_t thread[THREADS];
    int released = 0;
    begin(&b);
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.bed = &b, .number = i, .rng = (unsigned)(SEED + i)};
        assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(w[i].broken, 0);
        released += w[i].released;
    }
    assert_int_equal(atomic_load(&b.freed), released);
    assert_true(atomic_load(&b.pools.spills) > ROUNDS);
    assert_true(mo_arenas_state(b.pools.arenas).n <= THREADS);
    end(&b);
}

/* --- a runtime ------------------------------------------------------------------------------------------ */
enum { QUERIES = 3, TRIES = 50, PIXELS = 3 * 224 * 224, CLASSES = 1000 };

struct answer {
    float out[CLASSES];
    int64_t compute_ns;
    _Atomic int code; /* -1: none yet */
};

static void on_answer(void *user, const moire_answer *a) {
    struct answer *answer = user;
    if (a->n_outputs == 1 && a->outputs[0].bytes == sizeof answer->out)
        memcpy(answer->out, a->outputs[0].data, sizeof answer->out);
    answer->compute_ns = a->compute_ns;
    atomic_store(&answer->code, a->code);
}

static moire_tensor picture(float *pixels, int i) {
    for (int k = 0; k < PIXELS; k++)
        pixels[k] = (float)((k * (i + 3)) % 97) * 0.01f;
    return (moire_tensor){.dtype = MOIRE_F32,
                          .rank = 4,
                          .shape = {1, 3, 224, 224},
                          .data = pixels,
                          .bytes = PIXELS * sizeof *pixels};
}

/* So many queries have begun and are not answered; false: the last one was answered before. */
static bool wait_for(moire_runtime *rt, int begun, const struct answer *last) {
    moire_runtime_stats s = {.size = sizeof s};
    do {
        if (atomic_load(&last->code) >= 0) return false;
        assert_int_equal(moire_runtime_get_stats(rt, &s, NULL), MOIRE_OK);
        if (s.blocks + s.paused < begun) usleep(200);
    } while (s.blocks + s.paused < begun);
    return true;
}

/* Each query has less time than those before, which therefore pause, some in layers of which little lives.
 * False: this machine ran one of them to its end before the next came. */
static bool preempt(moire_runtime *rt, moire_tenant *t, moire_tensor in[QUERIES], int64_t pause_ns,
                    struct answer got[QUERIES]) {
    bool all = true;
    for (int i = 0; i < QUERIES && all; i++) {
        moire_query_options o;
        moire_query_options_init(&o);
        o.deadline_ns = moire_now(rt) + (int64_t)(QUERIES - i) * 100000000000;
        atomic_store(&got[i].code, -1);
        assert_int_equal(moire_submit_with(t, &in[i], 1, &o, on_answer, &got[i], NULL, NULL), MOIRE_OK);
        all = wait_for(rt, i + 1, &got[0]);
        usleep((useconds_t)(pause_ns / 1000));
    }
    moire_drain(rt);
    return all;
}

static void queries_that_preempt_one_another_share_an_arena(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char folder[] = "/tmp/moire-spill-XXXXXX", path[512];
    moire_error err = {0};
    moire_config config;
    moire_tenant_config tenant;
    moire_runtime *rt;
    moire_tenant *t;
    moire_runtime_stats s = {.size = sizeof s};
    struct answer *want = calloc(QUERIES, sizeof *want), *got = calloc(QUERIES, sizeof *got);
    float *pixels = malloc((size_t)QUERIES * PIXELS * sizeof *pixels);
    moire_tensor in[QUERIES];
    assert_true(want && got && pixels);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(mo_zoo_path(&env, "squeezenet1.0", folder, path, sizeof path, &err), MOIRE_OK);
    moire_config_init(&config);
    config.threads = 1;
    config.generic_only = 1;
    moire_tenant_config_init(&tenant);
    tenant.qos_ns = INT64_C(1000000000000);
    assert_int_equal(moire_runtime_create(&config, &rt, &err), MOIRE_OK);
    assert_int_equal(moire_load(rt, path, &tenant, &t, &err), MOIRE_OK);
    for (int i = 0; i < QUERIES; i++) {
        in[i] = picture(pixels + (size_t)i * PIXELS, i);
        assert_int_equal(moire_submit(t, &in[i], 1, 0, on_answer, &want[i], NULL, NULL), MOIRE_OK);
        moire_drain(rt);
        assert_int_equal(want[i].code, MOIRE_OK);
    }
    int tries = 0;
    do {
        assert_true(tries++ < TRIES);
        const bool all = preempt(rt, t, in, want[0].compute_ns / QUERIES, got);
        for (int i = 0; all && i < QUERIES; i++) {
            assert_int_equal(got[i].code, MOIRE_OK);
            assert_memory_equal(got[i].out, want[i].out, sizeof want[i].out);
        }
        assert_int_equal(moire_runtime_get_stats(rt, &s, NULL), MOIRE_OK);
    } while (s.spills < QUERIES - 1);
    assert_true(s.spilled_bytes > 0 && s.memory.activations > s.spilled_bytes);
    assert_int_equal(moire_unload(t, NULL), MOIRE_OK);
    assert_int_equal(moire_runtime_get_stats(rt, &s, NULL), MOIRE_OK);
    assert_true(s.arenas_taken == 0 && s.spilled == 0);
    moire_runtime_destroy(rt, 1);
    unlink(path);
    rmdir(folder);
    free(pixels);
    free(want);
    free(got);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_paused_query_gives_way_and_comes_back),
        cmocka_unit_test(what_saves_little_is_not_spilled),
        cmocka_unit_test(no_memory_is_an_answer),
        cmocka_unit_test(many_threads_lose_nothing),
        cmocka_unit_test(queries_that_preempt_one_another_share_an_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
