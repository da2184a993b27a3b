/* SPDX-License-Identifier: Apache-2.0
 * test_veltair.c - layer blocks by dynamic threshold: worked by hand, on published profiles, and served.
 *
 * The example: five layers, 8 cores, a target of 1000 ns.
 *
 *   layer  operations  share   ns on n cores   Core
 *   0          40       400       1600 / n       4     1600 / 4 = 400
 *   1          10       100        100 / n       1
 *   2          10       100        250           1     in time on no count, and none is faster than one
 *   3          30       300       2100 / n       7     2100 / 7 = 300
 *   4          10       100        200 / n       2
 *
 * The whole model takes 4000 / n + 250 ns: 1050 on five cores, 916 on six, so Avg_C = 6.
 *
 *   alone        thres = (8 - 6) x 6 / 6 = 2: no layer has a Core of 8 or more; one block, 6 cores
 *   two of them  6 + 6 > 8, thres = 0: layer 3 is a pivot, 7 >= 6; two blocks
 *                layers 0 to 2: 600 ns for 1700 / n + 250: 675 on four cores, 590 on five: 5 cores
 *                layers 3, 4:   400 ns for 2300 / n:       460 on five cores, 383 on six:  6 cores */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "runtime/policy/veltair_blocks.h"
#include "runtime/profile/profile_table.h"
#include "runtime/sched/policy.h"
#include "runtime/sched/sched.h"

enum { CORES = 8, LAYERS = 5, TARGET = 1000 };
static const int64_t operations[LAYERS] = {40, 10, 10, 30, 10};

static const struct mo_env *the_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

static struct mo_profile *example(void) {
    struct mo_profile *p = mo_profile_create(the_env(), LAYERS, CORES);
    assert_non_null(p);
    for (int n = 1; n <= CORES; n++)
        mo_profile_record(p, n, (const int64_t[]){1600 / n, 100 / n, 250, 2100 / n, 200 / n});
    mo_profile_operations(p, operations);
    mo_profile_finish(p);
    return p;
}

static struct mo_blocks blocks_of(const struct mo_profile *p) {
    return (struct mo_blocks){.profile = p, .cores = CORES, .target = TARGET, .pressure = -1};
}

static void each_layer_needs_its_cores(void **state) {
    (void)state;
    static const int core[LAYERS] = {4, 1, 1, 7, 2};
    struct mo_profile *p = example();
    struct mo_blocks b = blocks_of(p);
    for (int i = 0; i < LAYERS; i++)
        assert_int_equal(mo_blocks_need(&b, i, i + 1), core[i]);
    assert_int_equal(mo_blocks_need(&b, 0, LAYERS), 6);
    mo_profile_destroy(p);
}

/* By one-core time layer 3 has 2100 / 4250 of the target, 494 ns: five cores, 420 ns. */
static void shares_go_by_time_where_asked_or_unknown(void **state) {
    (void)state;
    struct mo_profile *p = example();
    struct mo_blocks b = blocks_of(p);
    b.by_time = true;
    assert_int_equal(mo_blocks_need(&b, 3, 4), 5);
    b.by_time = false;
    assert_int_equal(mo_blocks_need(&b, 3, 4), 7);
    mo_profile_operations(p, (const int64_t[LAYERS]){0});
    assert_int_equal(mo_blocks_need(&b, 3, 4), 5);
    mo_profile_destroy(p);
}

/* 1000, 520, 300, 296, 295, ... for 200 ns: no count is enough; 300 is within 5 % of the least. */
static void where_no_count_is_enough_few_are_taken(void **state) {
    (void)state;
    struct mo_profile *p = mo_profile_create(the_env(), 1, CORES);
    static const int64_t ns[CORES] = {1000, 520, 300, 296, 295, 294, 293, 292};
    for (int n = 1; n <= CORES; n++)
        mo_profile_record(p, n, &ns[n - 1]);
    mo_profile_finish(p);
    assert_int_equal(mo_blocks_core(p, -1, CORES, 0, 1, 200), 3);
    assert_int_equal(mo_blocks_core(p, -1, CORES, 0, 1, 295), 5);
    assert_int_equal(mo_blocks_core(p, -1, 2, 0, 1, 200), 2); /* of a smaller machine */
    mo_profile_destroy(p);
}

/* The paper's example: A, B and C need 12, 12 and 24 of 64 cores; 16 are left and go 4, 4, 8. */
static void spare_cores_are_shared_in_proportion(void **state) {
    (void)state;
    assert_true(mo_blocks_limit(64, 48, 12) == 12 + 4);
    assert_true(mo_blocks_limit(64, 48, 24) == 24 + 8);
    assert_true(mo_blocks_limit(64, 12, 12) == 64);
    assert_true(mo_blocks_limit(64, 80, 24) == 24); /* more is asked for than there is */
}

static void a_pivot_needs_the_limit_or_more(void **state) {
    (void)state;
    struct mo_profile *p = example();
    struct mo_blocks b = blocks_of(p);
    int end[LAYERS];
    assert_int_equal(mo_blocks_pivot(&b, 0, 8), LAYERS);
    assert_int_equal(mo_blocks_pivot(&b, 0, 7.5), LAYERS);
    assert_int_equal(mo_blocks_pivot(&b, 0, 7), 3);
    assert_int_equal(mo_blocks_pivot(&b, 3, 7), LAYERS); /* it begins its block, it does not end it */
    assert_int_equal(mo_blocks_form(&b, 0, 8, end), 1);
    assert_int_equal(end[0], LAYERS);
    assert_int_equal(mo_blocks_form(&b, 0, 6, end), 2);
    assert_int_equal(end[0], 3);
    assert_int_equal(end[1], LAYERS);
    assert_int_equal(mo_blocks_need(&b, 0, 3), 5);
    assert_int_equal(mo_blocks_need(&b, 3, LAYERS), 6);
    mo_profile_destroy(p);
}

/* Under full pressure layer 0 takes twice as long in the version that is best there: eight cores, 400 ns. */
static void versions_change_what_layers_need(void **state) {
    (void)state;
    struct mo_profile *p = example();
    size_t row = LAYERS + 1;
    p->level = mo_alloc(the_env(), MO_PROFILE_LEVELS * (CORES + 1) * row * sizeof *p->level);
    assert_non_null(p->level);
    for (int level = 0; level < MO_PROFILE_LEVELS; level++)
        for (int n = 1; n <= CORES; n++)
            for (int i = 0; i < LAYERS; i++) {
                struct mo_profile_does *sum = mo_profile_level(p, level, n);
                int64_t alone = mo_profile_time(p, n, i, i + 1);
                sum[i + 1].solo = sum[i].solo + alone;
                sum[i + 1].under = sum[i].under + (i ? alone : alone * (5 + level) / 5);
            }
    struct mo_blocks b = blocks_of(p);
    b.pressure = 0;
    assert_int_equal(mo_blocks_need(&b, 0, 1), 4);
    b.pressure = 1;
    assert_int_equal(mo_blocks_need(&b, 0, 1), 8);
    assert_int_equal(mo_blocks_need(&b, 0, LAYERS), 8); /* 5600 / 8 + 250 = 950 */
    b.pressure = -1;
    assert_int_equal(mo_blocks_need(&b, 0, 1), 4);
    mo_profile_destroy(p);
}

/* --- the authors' profiles: 64 cores, 10.5 ms; the numbers were worked out apart from this code --- */
static struct mo_profile *published(const char *path) {
    struct mo_profile_table t;
    struct mo_profile *p;
    assert_int_equal(mo_profile_table_read(the_env(), path, &t, NULL), MOIRE_OK);
    assert_int_equal(mo_profile_table_profile(the_env(), &t, 0, 64, &p, NULL), MOIRE_OK);
    mo_profile_table_free(&t);
    return p;
}

struct formed {
    int n, end[60], cores[60];
};

static void check_blocks(const struct mo_blocks *b, double limit, const struct formed *wanted) {
    int end[60], n = mo_blocks_form(b, 0, limit, end);
    assert_int_equal(n, wanted->n);
    for (int i = 0; i < n; i++) {
        assert_int_equal(end[i], wanted->end[i]);
        assert_int_equal(mo_blocks_need(b, i ? end[i - 1] : 0, end[i]), wanted->cores[i]);
    }
}

/* Avg_C is 18.  Alone, or beside a GoogLeNet, it is one block; of four, two of each, thres is 6. */
static void published_resnet50(void **state) {
    (void)state;
    static const struct formed one = {1, {53}, {18}},
                               seven = {7, {12, 13, 25, 26, 44, 45, 53}, {13, 25, 19, 25, 18, 25, 23}};
    struct mo_profile *p = published("bench/machines/cores64/resnet50.csv");
    struct mo_blocks b = {.profile = p, .cores = 64, .target = 10.5e6, .pressure = -1};
    int end[60];
    assert_int_equal(mo_blocks_need(&b, 0, 53), 18);
    assert_int_equal(mo_blocks_need(&b, 45, 46), 41); /* the last stage's first 1x1 of stride 2 */
    check_blocks(&b, mo_blocks_limit(64, 18, 18), &one);
    check_blocks(&b, mo_blocks_limit(64, 24, 18), &one);
    check_blocks(&b, mo_blocks_limit(64, 48, 18), &seven);
    assert_int_equal(mo_blocks_form(&b, 0, mo_blocks_limit(64, 72, 18), end), 27);
    b.by_time = true;
    check_blocks(&b, mo_blocks_limit(64, 48, 18), &one);
    assert_int_equal(mo_blocks_form(&b, 0, mo_blocks_limit(64, 72, 18), end), 35);
    mo_profile_destroy(p);
}

static void published_googlenet(void **state) {
    (void)state;
    static const struct formed one = {1, {57}, {6}},
                               many = {22,
                                       {1,  6,  11, 16, 21, 22, 23, 26, 28, 31, 32,
                                        34, 35, 36, 38, 40, 41, 48, 49, 52, 53, 57},
                                       {8, 7, 7, 6, 7, 8, 8, 7, 7, 7, 11, 7, 8, 8, 5, 6, 8, 5, 8, 7, 8, 7}};
    struct mo_profile *p = published("bench/machines/cores64/googlenet.csv");
    struct mo_blocks b = {.profile = p, .cores = 64, .target = 10.5e6, .pressure = -1};
    int end[60];
    check_blocks(&b, mo_blocks_limit(64, 6, 6), &one);
    check_blocks(&b, mo_blocks_limit(64, 24, 6), &one);
    check_blocks(&b, mo_blocks_limit(64, 48, 6), &many);
    assert_int_equal(mo_blocks_form(&b, 0, mo_blocks_limit(64, 72, 6), end), 54);
    b.by_time = true;
    check_blocks(&b, mo_blocks_limit(64, 48, 6), &one);
    assert_int_equal(mo_blocks_form(&b, 0, mo_blocks_limit(64, 72, 6), end), 57);
    mo_profile_destroy(p);
}

/* --- served --- */
struct engine {
    struct mo_run run[16];
    struct mo_resize resize;
    int starts, resizes, n_resolved, resolved[16];
};

static void start(void *self, const struct mo_run *run) {
    struct engine *e = self;
    e->run[e->starts++] = *run;
}
static void resize(void *self, const struct mo_resize *r) {
    struct engine *e = self;
    e->resize = *r;
    e->resizes++;
}
static void set_timer(void *self, int64_t when) {
    (void)self, (void)when;
}
static void resolved(void *self, int slot) {
    struct engine *e = self;
    e->resolved[e->n_resolved++] = slot;
}
static void released(void *self, int tenant, void *user) {
    (void)self, (void)tenant, (void)user;
}

static const struct mo_engine_ops rigid = {
    .start = start, .set_timer = set_timer, .resolved = resolved, .released = released};
static const struct mo_engine_ops growing = {
    .start = start, .set_timer = set_timer, .resolved = resolved, .released = released, .resize = resize};

struct fixture {
    struct engine engine;
    struct mo_sched *s;
    struct mo_profile *profile;
    int tenant;
};

/* Policies keep 70 % of a target for work: 1429 ns leave the example's 1000. */
static void set_up(struct fixture *f, const char *policy, const struct mo_engine_ops *ops) {
    *f = (struct fixture){.profile = example()};
    struct mo_sched_config c = {.env = the_env(),
                                .policy = mo_policy_find(policy),
                                .n_cores = CORES,
                                .max_queries = 16,
                                .max_tenants = 1,
                                .ops = ops,
                                .engine = &f->engine};
    assert_int_equal(mo_sched_create(&c, &f->s, NULL), MOIRE_OK);
    struct mo_sched_tenant_config tc = {.qos_ns = 1429, .queue = 8, .instances = 8, .profile = f->profile};
    assert_int_equal(mo_sched_tenant_open(f->s, &tc, 0, &f->tenant, NULL), MOIRE_OK);
}

static void tear_down(struct fixture *f) {
    assert_int_equal(mo_sched_stats(f->s)->refused, 0);
    mo_sched_destroy(f->s);
    mo_profile_destroy(f->profile);
}

static void submit(struct fixture *f, int64_t now) {
    int slot;
    assert_int_equal(mo_sched_arrival(f->s, f->tenant, now, NULL, now, &slot, NULL), MOIRE_OK);
}

static void finish(struct fixture *f, int lead, int64_t now) {
    int64_t begun = mo_sched_view(f->s)->runs[lead].start;
    mo_sched_block_done(f->s, lead, true, MOIRE_OK, begun, now, NULL, now);
    while (f->engine.n_resolved)
        mo_sched_answered(f->s, f->engine.resolved[--f->engine.n_resolved], now);
}

static void check_run(const struct mo_run *run, int begin, int end, int cores) {
    assert_int_equal(run->begin, begin);
    assert_int_equal(run->end, end);
    assert_int_equal(run->n_cores, cores);
}

/* The second query finds two cores for the five that its first block needs, the third finds none.  When the
 * first query is done, the second block grows to five, and the third query begins on the three cores that
 * are left, though it needs more. */
static void blocks_grow_and_hold_nobody_back(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f, "veltair", &growing);
    submit(&f, 1);
    check_run(&f.engine.run[0], 0, LAYERS, 6);
    submit(&f, 2);
    assert_int_equal(f.engine.starts, 2);
    check_run(&f.engine.run[1], 0, 3, 2);
    assert_int_equal(mo_sched_stats(f.s)->conflicts, 1);
    submit(&f, 3);
    assert_int_equal(f.engine.starts, 2);
    finish(&f, f.engine.run[0].lead, 500);
    assert_int_equal(f.engine.resizes, 1);
    assert_int_equal(f.engine.resize.lead, f.engine.run[1].lead);
    assert_int_equal(f.engine.resize.n_cores, 5);
    assert_int_equal(f.engine.starts, 3);
    check_run(&f.engine.run[2], 0, 3, 3);
    tear_down(&f);
}

/* Where blocks keep their cores the first layer runs alone. */
static void without_growth_one_layer_begins(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f, "veltair", &rigid);
    submit(&f, 1);
    submit(&f, 2);
    check_run(&f.engine.run[1], 0, 1, 2);
    tear_down(&f);
}

/* A block with a tenth of its time left or less gets no more cores; they begin the next query. */
static void what_ends_soon_does_not_grow(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f, "veltair", &growing);
    submit(&f, 1);
    submit(&f, 2);
    submit(&f, 3);
    int64_t end = mo_sched_view(f.s)->runs[f.engine.run[1].lead].predicted_end;
    finish(&f, f.engine.run[0].lead, end - 50);
    assert_int_equal(f.engine.resizes, 0);
    assert_int_equal(f.engine.starts, 3);
    tear_down(&f);
}

/* The second query is behind and wants all eight cores; it has two.  Those of the first come free one by one:
 * it takes one at two, three and four cores, but at five waits for two. */
static void growth_is_by_a_quarter(void **state) {
    (void)state;
    static const int inside[] = {3, 4, 5, 5, 7, 7};
    struct fixture f;
    int slot;
    set_up(&f, "veltair", &growing);
    submit(&f, 1);
    assert_int_equal(mo_sched_arrival(f.s, f.tenant, 1, NULL, 901, &slot, NULL), MOIRE_OK);
    check_run(&f.engine.run[1], 0, 3, 2);
    const struct mo_view_run *run = &mo_sched_view(f.s)->runs[f.engine.run[1].lead];
    assert_int_equal(run->wanted, CORES);
    struct mo_cores left = f.engine.run[0].cores;
    for (int i = 0; i < 6; i++) {
        struct mo_cores one = mo_cores_take(&left, 1, -1);
        if (i)
            mo_sched_cores_back(f.s, -1, &one, 910 + i);
        else
            mo_sched_block_done(f.s, f.engine.run[0].lead, true, MOIRE_OK, 1, 910, &left, 910);
        assert_int_equal(run->n_cores, inside[i]);
    }
    tear_down(&f);
}

/* Layer 0 needs four cores, the whole model six. */
static void units_of_fixed_size(void **state) {
    (void)state;
    static const struct {
        const char *policy;
        int end, cores;
    } rows[] = {{"layerwise", 1, 4}, {"veltair-ac", 1, 4}, {"fixed6", LAYERS, 6}, {"veltair-as", LAYERS, 6}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fixture f;
        set_up(&f, rows[i].policy, &growing);
        submit(&f, 1);
        check_run(&f.engine.run[0], 0, rows[i].end, rows[i].cores);
        tear_down(&f);
    }
}

/* Layer 0 has 400 of 1000 ns.  A query that has waited 400 ns has 600 ns for 1000, and needs seven cores
 * (228 of 240 ns); after 900 ns it asks for twice its pace, eight (200 ns); past its deadline for no more
 * than in the beginning. */
static void who_has_waited_catches_up(void **state) {
    (void)state;
    static const struct {
        int64_t waited;
        int cores;
    } rows[] = {{0, 4}, {400, 7}, {900, 8}, {2000, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fixture f;
        int slot;
        set_up(&f, "layerwise", &growing);
        assert_int_equal(mo_sched_arrival(f.s, f.tenant, 1, NULL, 1 + rows[i].waited, &slot, NULL), MOIRE_OK);
        check_run(&f.engine.run[0], 0, 1, rows[i].cores);
        tear_down(&f);
    }
}

/* Each query has the fixed count on which it meets its target, 6 of 8: the second waits for the first. */
static void whole_models_wait_for_their_cores(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f, "model-wise", &growing);
    submit(&f, 1);
    check_run(&f.engine.run[0], 0, LAYERS, 6);
    submit(&f, 2);
    assert_int_equal(f.engine.starts, 1);
    finish(&f, f.engine.run[0].lead, 900);
    check_run(&f.engine.run[1], 0, LAYERS, 6);
    tear_down(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_layer_needs_its_cores),
        cmocka_unit_test(shares_go_by_time_where_asked_or_unknown),
        cmocka_unit_test(where_no_count_is_enough_few_are_taken),
        cmocka_unit_test(spare_cores_are_shared_in_proportion),
        cmocka_unit_test(a_pivot_needs_the_limit_or_more),
        cmocka_unit_test(versions_change_what_layers_need),
        cmocka_unit_test(published_resnet50),
        cmocka_unit_test(published_googlenet),
        cmocka_unit_test(blocks_grow_and_hold_nobody_back),
        cmocka_unit_test(without_growth_one_layer_begins),
        cmocka_unit_test(what_ends_soon_does_not_grow),
        cmocka_unit_test(growth_is_by_a_quarter),
        cmocka_unit_test(units_of_fixed_size),
        cmocka_unit_test(who_has_waited_catches_up),
        cmocka_unit_test(whole_models_wait_for_their_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
