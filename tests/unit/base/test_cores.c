/* SPDX-License-Identifier: Apache-2.0
 * test_cores.c - sets of cores do what plain arrays of flags do, on random sets all over the range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/cores.h"

enum { ROUNDS = 2000 };

struct flags {
    bool has[MO_MAX_CORES];
};

/* The set has these members and says so; and which of its words are empty. */
static void same(const struct mo_cores *s, const struct flags *f) {
    int n = 0, at = -1;
    for (int i = 0; i < MO_MAX_CORES; i++) {
        assert_true(mo_cores_has(s, i) == f->has[i]);
        if (!f->has[i]) continue;
        assert_int_equal(mo_cores_next(s, at), i);
        at = i;
        n++;
    }
    assert_int_equal(mo_cores_next(s, at), -1);
    assert_int_equal(mo_cores_count(s), n);
    assert_true(mo_cores_none(s) == (n == 0));
    for (int i = 0; i < MO_CORES_WORDS; i++)
        assert_true((s->used >> i & 1) == (s->w[i] != 0));
}

/* Up to 40 members near each other, some of them taken out again. */
static void draw(struct mo_cores *s, struct flags *f) {
    int from = rand() % MO_MAX_CORES, range = 1 + rand() % 300;
    *s = (struct mo_cores){0};
    memset(f, 0, sizeof *f);
    for (int i = rand() % 40; i > 0; i--) {
        int core = (from + rand() % range) % MO_MAX_CORES;
        f->has[core] = rand() % 4 != 0;
        if (f->has[core])
            mo_cores_add(s, core);
        else
            mo_cores_remove(s, core);
    }
}

static void two_sets(void **state) {
    (void)state;
    int subsets = 0, meet = 0;
    srand(5);
    for (int round = 0; round < ROUNDS; round++) {
        struct mo_cores a, b, c;
        struct flags x, y;
        bool subset = true, common = false;
        draw(&a, &x);
        draw(&b, &y);
        if (round % 2) { /* b has what a has, and one core more */
            b = a;
            y = x;
            mo_cores_add(&b, round % MO_MAX_CORES);
            y.has[round % MO_MAX_CORES] = true;
        }
        for (int i = 0; i < MO_MAX_CORES; i++) {
            subset = subset && (!x.has[i] || y.has[i]);
            common = common || (x.has[i] && y.has[i]);
        }
        same(&a, &x);
        assert_true(mo_cores_subset(&a, &b) == subset);
        assert_true(mo_cores_meet(&a, &b) == common);
        subsets += subset;
        meet += common;
        struct flags both = x, rest = x;
        for (int i = 0; i < MO_MAX_CORES; i++) {
            both.has[i] = x.has[i] || y.has[i];
            rest.has[i] = x.has[i] && !y.has[i];
        }
        c = a;
        mo_cores_join(&c, &b);
        same(&c, &both);
        mo_cores_subtract(&a, &b);
        same(&a, &rest);
    }
    assert_in_range(subsets, ROUNDS / 2, ROUNDS - 1);
    assert_in_range(meet, ROUNDS / 4, ROUNDS - 1);
}

/* The preferred one when it is there, then the lowest. */
static void cores_are_taken(void **state) {
    (void)state;
    srand(6);
    for (int round = 0; round < ROUNDS; round++) {
        struct mo_cores pool;
        struct flags left, taken = {{0}};
        draw(&pool, &left);
        int n = rand() % (mo_cores_count(&pool) + 1), prefer = rand() % (MO_MAX_CORES + 1) - 1, more = n;
        if (round % 2) prefer = mo_cores_next(&pool, prefer);
        if (more && prefer >= 0 && left.has[prefer]) {
            left.has[prefer] = false;
            taken.has[prefer] = true;
            more--;
        }
        for (int i = 0; more; i++) {
            if (!left.has[i]) continue;
            left.has[i] = false;
            taken.has[i] = true;
            more--;
        }
        struct mo_cores got = mo_cores_take(&pool, n, prefer);
        same(&got, &taken);
        same(&pool, &left);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_sets), cmocka_unit_test(cores_are_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
