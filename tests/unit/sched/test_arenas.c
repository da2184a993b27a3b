/* SPDX-License-Identifier: Apache-2.0
 * test_arenas.c - the pool of activations: who gets which arena, what goes back to the system, memory that
 * cannot be had, many threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>
#include "runtime/serve/arenas.h"
#include "tests/unit/base/fault_sys.h"

enum { KIB = 1024, THREADS = 4, ROUNDS = 2000 };
static const int64_t SECOND = 1000000000;

/* A machine whose clock stands still unless it is told. */
struct machine {
    struct fault_sys fault;
    struct mo_env env;
    struct mo_arenas *arenas;
};
static int64_t now;

static int64_t stopped_clock(void *self) {
    (void)self;
    return now;
}

static void begin(struct machine *m) {
    now = 1;
    fault_sys_init(&m->fault);
    m->fault.table.now = stopped_clock;
    m->env = mo_env_default();
    m->env.sys = &m->fault.table;
    m->arenas = mo_arenas_create(&m->env);
    assert_non_null(m->arenas);
}

static void end(struct machine *m) {
    struct mo_arenas_state state = mo_arenas_state(m->arenas);
    assert_int_equal(state.taken, 0);
    mo_arenas_destroy(m->arenas);
    assert_int_equal(fault_sys_live(&m->fault), 0);
}

static void the_smallest_that_fits_is_used_again(void **state) {
    (void)state;
    struct machine m;
    begin(&m);
    struct mo_arena *small = mo_arenas_take(m.arenas, 10 * KIB, 1),
                    *large = mo_arenas_take(m.arenas, 90 * KIB, 1);
    assert_true((uintptr_t)small->at % 64 == 0 && (uintptr_t)large->at % 64 == 0);
    char *of_large = large->at, *of_small = small->at;
    mo_arenas_give(m.arenas, small);
    mo_arenas_give(m.arenas, large);
    struct mo_arena *a = mo_arenas_take(m.arenas, 5 * KIB, 1), *b = mo_arenas_take(m.arenas, 5 * KIB, 1);
    assert_ptr_equal(a->at, of_small);
    assert_ptr_equal(b->at, of_large); /* rather than a third */
    assert_int_equal(mo_arenas_state(m.arenas).n, 2);
    mo_arenas_give(m.arenas, b);
    mo_arenas_give(m.arenas, a);
    end(&m);
}

static void one_that_is_too_small_is_replaced(void **state) {
    (void)state;
    struct machine m;
    begin(&m);
    mo_arenas_give(m.arenas, mo_arenas_take(m.arenas, 10 * KIB, 1));
    struct mo_arena *a = mo_arenas_take(m.arenas, 3072 * KIB, 1);
    struct mo_arenas_state is = mo_arenas_state(m.arenas);
    assert_int_equal(is.n, 1);
    assert_int_equal(is.bytes, 3072 * KIB);
    memset(a->at, 1, a->bytes);
    mo_arenas_give(m.arenas, a);
    end(&m);
}

static void of_equals_the_latest_is_taken(void **state) {
    (void)state;
    struct machine m;
    begin(&m);
    struct mo_arena *a = mo_arenas_take(m.arenas, KIB, 1), *b = mo_arenas_take(m.arenas, KIB, 1);
    mo_arenas_give(m.arenas, b);
    mo_arenas_give(m.arenas, a);
    assert_ptr_equal(mo_arenas_take(m.arenas, KIB, 1), a);
    mo_arenas_give(m.arenas, a);
    end(&m);
}

static bool holds(const struct mo_arena *a, size_t from, size_t to, char value) {
    for (size_t i = from; i < to; i++)
        if (a->at[i] != value) return false;
    return true;
}

/* What an owner left is there for itself and for nobody else, whatever sizes they ask for. */
static void another_owner_finds_zeros(void **state) {
    (void)state;
    struct machine m;
    begin(&m);
    struct mo_arena *a = mo_arenas_take(m.arenas, 8 * KIB, 1);
    assert_true(holds(a, 0, 8 * KIB, 0));
    memset(a->at, 0x5a, 8 * KIB);
    mo_arenas_give(m.arenas, a);
    assert_ptr_equal(mo_arenas_take(m.arenas, 8 * KIB, 1), a);
    assert_true(holds(a, 0, 8 * KIB, 0x5a));
    assert_int_equal(mo_arenas_state(m.arenas).scrubbed, 0);
    mo_arenas_give(m.arenas, a);
    assert_ptr_equal(mo_arenas_take(m.arenas, 2 * KIB, 2), a); /* less of it */
    assert_true(holds(a, 0, 2 * KIB, 0));
    memset(a->at, 0x33, 2 * KIB);
    mo_arenas_give(m.arenas, a);
    assert_ptr_equal(mo_arenas_take(m.arenas, 6 * KIB, 2), a); /* then more */
    assert_true(holds(a, 0, 2 * KIB, 0x33) && holds(a, 2 * KIB, 6 * KIB, 0));
    mo_arenas_give(m.arenas, a);
    assert_ptr_equal(mo_arenas_take(m.arenas, 8 * KIB, 1), a); /* the first one again */
    assert_true(holds(a, 0, 8 * KIB, 0));
    assert_int_equal(mo_arenas_state(m.arenas).scrubbed, 14 * KIB);
    mo_arenas_give(m.arenas, a);
    end(&m);
}

static void of_equals_the_own_is_taken(void **state) {
    (void)state;
    struct machine m;
    begin(&m);
    struct mo_arena *a = mo_arenas_take(m.arenas, KIB, 1), *b = mo_arenas_take(m.arenas, KIB, 2);
    mo_arenas_give(m.arenas, a);
    mo_arenas_give(m.arenas, b);
    assert_ptr_equal(mo_arenas_take(m.arenas, KIB, 1), a);
    assert_ptr_equal(mo_arenas_take(m.arenas, KIB, 2), b);
    assert_int_equal(mo_arenas_state(m.arenas).scrubbed, 0);
    mo_arenas_give(m.arenas, a);
    mo_arenas_give(m.arenas, b);
    end(&m);
}

static void what_nobody_wants_goes_back(void **state) {
    (void)state;
    struct machine m;
    begin(&m);
    struct mo_arena *held[3];
    for (int i = 0; i < 3; i++)
        held[i] = mo_arenas_take(m.arenas, KIB, 1);
    for (int i = 0; i < 3; i++)
        mo_arenas_give(m.arenas, held[i]);
    for (int k = 0; k < 5; k++) { /* one at a time is enough from now on */
        now += SECOND;
        mo_arenas_give(m.arenas, mo_arenas_take(m.arenas, KIB, 1));
        assert_int_equal(mo_arenas_state(m.arenas).n, k < 2 ? 3 : 1);
    }
    now += 100 * SECOND; /* also after a long silence the query that comes keeps what it takes */
    struct mo_arena *last = mo_arenas_take(m.arenas, KIB, 1);
    assert_int_equal(mo_arenas_state(m.arenas).n, 1);
    mo_arenas_give(m.arenas, last);
    end(&m);
}

static void no_memory_leaves_the_pool_as_it_was(void **state) {
    (void)state;
    struct machine m;
    begin(&m);
    struct mo_arena *a = mo_arenas_take(m.arenas, KIB, 1);
    for (int k = 1; k <= 2; k++) {
        fault_sys_fail(&m.fault, k, 0);
        assert_null(mo_arenas_take(m.arenas, KIB, 1));
        assert_int_equal(mo_arenas_state(m.arenas).n, 1);
        assert_int_equal(mo_arenas_state(m.arenas).taken, 1);
    }
    fault_sys_fail(&m.fault, 0, 0);
    struct mo_arena *b = mo_arenas_take(m.arenas, KIB, 1);
    assert_non_null(b);
    mo_arenas_give(m.arenas, a);
    mo_arenas_give(m.arenas, b);
    end(&m);
}

struct visitor {
    struct mo_arenas *arenas;
    unsigned char mark;
    bool disturbed;
};

/* Writes its mark all over an arena and finds it there, whoever else takes and gives meanwhile. */
static void *visit(void *arg) {
    struct visitor *v = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t bytes = (1 + (i * 7 + v->mark) % 5) * KIB;
        struct mo_arena *a = mo_arenas_take(v->arenas, bytes, 1);
        if (!a || a->bytes < bytes) {
            v->disturbed = true;
            return NULL;
        }
        memset(a->at, v->mark, bytes);
        for (size_t k = 0; k < bytes; k++)
            v->disturbed |= (unsigned char)a->at[k] != v->mark;
        mo_arenas_give(v->arenas, a);
    }
    return NULL;
}

static void threads_never_share_an_arena(void **state) {
    (void)state;
    struct machine m;
    begin(&m);
    pthread_t thread[THREADS];
    struct visitor visitor[THREADS];
    for (int i = 0; i < THREADS; i++) {
        visitor[i] = (struct visitor){m.arenas, (unsigned char)(i + 1), false};
        assert_int_equal(pthread_create(&thread[i], NULL, visit, &visitor[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_false(visitor[i].disturbed);
    }
    assert_in_range(mo_arenas_state(m.arenas).n, 1, THREADS);
    end(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_that_fits_is_used_again),
        cmocka_unit_test(one_that_is_too_small_is_replaced),
        cmocka_unit_test(of_equals_the_latest_is_taken),
        cmocka_unit_test(another_owner_finds_zeros),
        cmocka_unit_test(of_equals_the_own_is_taken),
        cmocka_unit_test(what_nobody_wants_goes_back),
        cmocka_unit_test(no_memory_leaves_the_pool_as_it_was),
        cmocka_unit_test(threads_never_share_an_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
