/* SPDX-License-Identifier: Apache-2.0
 * test_batch_choose.c - which waiting queries are run together: examples, and what holds in every scene. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "serve/batch/batch_choose.h"

enum { MS = 1000000 };

/* Of a model for which eight rows take as long as two. */
static const struct ms_size cheap[] = {
    {2, 12 * MS / 10, 1 * MS, false}, {4, 15 * MS / 10, 1 * MS, false}, {8, 2 * MS, 1 * MS, false}};
/* Of one for which they take eight times as long. */
static const struct ms_size dear[] = {{2, 2 * MS, 2 * MS, false}, {4, 4 * MS, 4 * MS, false}};
static const struct ms_size alone = {1, 1 * MS, 1 * MS, false};

static struct ms_scene scene_of(const struct ms_waiting *w, int n, const struct ms_size *size, int n_sizes) {
    return (struct ms_scene){.now_ns = 100 * MS,
                             .waiting = w,
                             .n = n,
                             .alone = alone,
                             .size = size,
                             .n_sizes = n_sizes,
                             .window = 1};
}

static void waiting_queries_are_joined(void **state) {
    (void)state;
    struct ms_waiting w[9];
    struct ms_choice c;
    for (int i = 0; i < 9; i++)
        w[i] = (struct ms_waiting){99 * MS, MS_NEVER, 1};
    struct ms_scene s = scene_of(w, 9, cheap, 3);
    ms_batch_choose(&s, &c);
    assert_int_equal(c.n, 8);
    assert_int_equal(c.size, 2);
    s.n = 3; /* a place stays empty: still cheaper a row than two and one */
    ms_batch_choose(&s, &c);
    assert_int_equal(c.n, 3);
    assert_int_equal(c.size, 1);
    s.n = 1;
    ms_batch_choose(&s, &c);
    assert_int_equal(c.n, 1);
    assert_int_equal(c.size, -1);
}

static void not_where_it_saves_nothing(void **state) {
    (void)state;
    const struct ms_waiting w[] = {{99 * MS, MS_NEVER, 1}, {99 * MS, MS_NEVER, 1}, {99 * MS, MS_NEVER, 1}};
    struct ms_scene s = scene_of(w, 3, dear, 2);
    struct ms_choice c;
    s.delay_ns = 50 * MS; /* and nobody waits for it */
    ms_batch_choose(&s, &c);
    assert_int_equal(c.n, 1);
    assert_false(ms_batch_pays(&alone, dear, 2));
    assert_true(ms_batch_pays(&alone, cheap, 3));
}

static void nobody_is_made_late(void **state) {
    (void)state;
    /* the second cannot wait for four rows, but for two */
    const struct ms_waiting w[] = {
        {99 * MS, 102 * MS, 1}, {99 * MS, 1014 * MS / 10, 1}, {99 * MS, 110 * MS, 1}, {99 * MS, 110 * MS, 1}};
    struct ms_scene s = scene_of(w, 4, cheap, 3);
    struct ms_choice c;
    s.under_way = 1;
    s.window = 2;
    ms_batch_choose(&s, &c);
    assert_int_equal(c.size, 1); /* without the second */
    assert_int_equal(c.n, 3);
    assert_int_equal(c.picked[1], 2);
}

static void who_is_lost_comes_last(void **state) {
    (void)state;
    const struct ms_waiting w[] = {{90 * MS, 95 * MS, 1}, {90 * MS, 96 * MS, 1}, {99 * MS, 120 * MS, 1}};
    struct ms_scene s = scene_of(w, 3, cheap, 3);
    struct ms_choice c;
    ms_batch_choose(&s, &c);
    assert_int_equal(c.n, 1);
    assert_int_equal(c.picked[0], 2);
    s.turn_of_lost = true; /* but now and then they come first */
    ms_batch_choose(&s, &c);
    assert_int_equal(c.n, 2);
    assert_int_equal(c.picked[0], 0);
    s.turn_of_lost = false;
    s.n = 2; /* and then together, whatever it takes */
    ms_batch_choose(&s, &c);
    assert_int_equal(c.n, 2);
}

static void a_delay_waits_for_others(void **state) {
    (void)state;
    const struct ms_waiting w[] = {{99 * MS, 110 * MS, 1}, {100 * MS, MS_NEVER, 1}};
    struct ms_scene s = scene_of(w, 2, cheap, 3);
    struct ms_choice c;
    s.delay_ns = 5 * MS;
    ms_batch_choose(&s, &c);
    assert_int_equal(c.n, 0);
    assert_int_equal(c.again_ns, 104 * MS); /* the first came 1 ms ago */
    s.now_ns = 104 * MS;
    ms_batch_choose(&s, &c);
    assert_int_equal(c.n, 2);
    s.now_ns = 100 * MS;
    s.delay_ns = 50 * MS;
    ms_batch_choose(&s, &c);
    assert_int_equal(c.again_ns, 110 * MS - 11 * MS / 10); /* or it would be late with four rows */
}

static void a_preferred_size_is_waited_for_alone(void **state) {
    (void)state;
    struct ms_size size[3];
    struct ms_waiting w[4];
    struct ms_choice c;
    memcpy(size, cheap, sizeof size);
    size[1].preferred = true;
    for (int i = 0; i < 4; i++)
        w[i] = (struct ms_waiting){100 * MS, MS_NEVER, 1};
    struct ms_scene s = scene_of(w, 4, size, 3);
    s.delay_ns = 5 * MS;
    ms_batch_choose(&s, &c);
    assert_int_equal(c.n, 4);
    s.n = 3;
    ms_batch_choose(&s, &c);
    assert_int_equal(c.n, 0);
}

static uint64_t draw(uint64_t *seed, uint64_t below) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % below;
}

static int64_t rows_of(const struct ms_scene *s, const struct ms_choice *c) {
    int64_t rows = 0;
    for (int i = 0; i < c->n; i++)
        rows += s->waiting[c->picked[i]].rows;
    return rows;
}

static bool is_lost(const struct ms_scene *s, const struct ms_waiting *w) {
    return w->deadline_ns != MS_NEVER && w->deadline_ns - s->now_ns < s->alone.least_ns;
}

static void check(const struct ms_scene *s, const struct ms_choice *c) {
    int first = 0;
    while (first < s->n - 1 && is_lost(s, &s->waiting[first]))
        first++;
    if (s->under_way >= s->window) {
        assert_int_equal(c->n, 0);
        return;
    }
    if (!c->n) { /* only a delay holds back, and not for longer than it is */
        assert_true(s->delay_ns > 0);
        assert_true(c->again_ns > s->now_ns && c->again_ns <= s->waiting[first].arrival_ns + s->delay_ns);
        return;
    }
    assert_int_equal(c->n > 1, c->size >= 0);
    if (c->size < 0) return;
    const struct ms_size *z = &s->size[c->size];
    assert_true(rows_of(s, c) <= z->rows);
    assert_true((double)z->one_ns / (double)rows_of(s, c) < (double)s->alone.one_ns / (double)s->alone.rows);
    for (int i = 0; i < c->n; i++) {
        const struct ms_waiting *w = &s->waiting[c->picked[i]];
        assert_true(!i || c->picked[i] > c->picked[i - 1]);
        const int64_t takes = s->under_way ? z->one_ns : z->least_ns;
        assert_true(is_lost(s, w) || w->deadline_ns == MS_NEVER || w->deadline_ns - s->now_ns >= takes);
    }
}

static void holds_in_every_scene(void **state) {
    (void)state;
    uint64_t seed = 20;
    struct ms_waiting w[40];
    struct ms_size size[6];
    struct ms_choice c;
    for (int k = 0; k < 20000; k++) {
        struct ms_scene s = {.now_ns = 100 * MS, .waiting = w, .size = size};
        s.n = 1 + (int)draw(&seed, 40);
        s.n_sizes = (int)draw(&seed, 7);
        s.window = 1 + (int)draw(&seed, 3);
        s.under_way = (int)draw(&seed, 3);
        s.delay_ns = draw(&seed, 2) ? (int64_t)draw(&seed, 10 * MS) : 0;
        const int64_t arrival = 90 * MS + (int64_t)draw(&seed, 10 * MS);
        for (int i = 0; i < s.n; i++)
            w[i] = (struct ms_waiting){arrival + (s.now_ns - arrival) * i / 40,
                                       draw(&seed, 4) ? 95 * MS + (int64_t)draw(&seed, 30 * MS) : MS_NEVER,
                                       1 + (int64_t)draw(&seed, 3)};
        s.alone = (struct ms_size){w[0].rows, (int64_t)draw(&seed, 3 * MS), MS, false};
        s.alone.least_ns = s.alone.one_ns / (1 + (int64_t)draw(&seed, 2));
        for (int i = 0; i < s.n_sizes; i++) {
            size[i] = (struct ms_size){INT64_C(2) << i, MS + (int64_t)draw(&seed, (uint64_t)MS << i), 0,
                                       draw(&seed, 3) == 0};
            size[i].least_ns = size[i].one_ns / (1 + (int64_t)draw(&seed, 2));
        }
        ms_batch_choose(&s, &c);
        check(&s, &c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_queries_are_joined), cmocka_unit_test(not_where_it_saves_nothing),
        cmocka_unit_test(nobody_is_made_late),        cmocka_unit_test(who_is_lost_comes_last),
        cmocka_unit_test(a_delay_waits_for_others),   cmocka_unit_test(a_preferred_size_is_waited_for_alone),
        cmocka_unit_test(holds_in_every_scene),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
