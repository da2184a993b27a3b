/* SPDX-License-Identifier: Apache-2.0
 * test_gpu_measure.c - profiles of shares measured on a toy GPU whose times are known; resumed, interrupted,
 * failing; and pairs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "runtime/gpu/measure_shares.h"
#include "tests/unit/gpu/toy_gpu.h"

enum { BUCKETS = 3 };

struct bed {
    struct mo_env env;
    struct toy_gpu toy;
    struct mo_gpu_device device;
    struct mo_gpu_port port[2];
    struct mo_gpu_segment segment;
    struct mo_gpu_weight weight;
    struct mo_gpu_op op[2]; /* one reads weights, one moves more than L2 holds */
    struct mo_gpu_program program[BUCKETS], *list[BUCKETS];
    struct mo_plan_kind kind;
    int cells, stop_at;
};

static void lay(struct bed *b) {
    memset(b, 0, sizeof *b);
    b->env = mo_env_default();
    toy_gpu_open(&b->toy, &b->env, 1, 4);
    b->device = (struct mo_gpu_device){.env = &b->env, .ops = b->toy.ops, .system = b->toy.system};
    b->weight.bytes = 100000;
    b->op[0].moved = 150000;
    b->op[0].launch = (struct mo_gpu_launch){.n_args = 1, .args = {{MO_GPU_WEIGHT, 0, 0}}};
    b->op[1].moved = TOY_L2 + 300000;
    for (int i = 0; i < BUCKETS; i++) {
        b->program[i] = toy_gpu_program(1 << i, 1);
        b->program[i].segments = &b->segment;
        b->program[i].ops = b->op;
        b->program[i].n_ops = 2;
        b->program[i].weights = &b->weight;
        b->program[i].weight_bytes = b->weight.bytes;
        b->program[i].inputs = b->program[i].outputs = b->port; /* of the largest batch: only it is asked */
        b->list[i] = &b->program[i];
    }
    b->port[0] = (struct mo_gpu_port){.bytes = 4 << (BUCKETS - 1)};
    b->kind = (struct mo_plan_kind){.name = "toy", .units = 4, .max_lets = 4};
    mo_plan_sizes(&b->kind, 1, 1);
}

static void strike(struct bed *b) {
    struct toy_gpu_counts c = toy_gpu_counts(&b->toy);
    toy_gpu_close(&b->toy);
    assert_int_equal(c.broken, 0);
    assert_int_equal(c.lets, 0);
    assert_int_equal(c.programs, 0);
    assert_int_equal(c.staging, 0);
}

static bool progress(void *ctx, int done, int all, int batch, int units, int64_t ns) {
    struct bed *b = ctx;
    assert_true(done == b->cells + 1 && all == BUCKETS * 4 && batch >= 1 && units >= 1 && ns > 0);
    b->cells = done;
    return done == b->stop_at;
}

static struct mo_measure_options options_of(struct bed *b) {
    return (struct mo_measure_options){.kind = &b->kind, .repetitions = 3, .progress = progress, .ctx = b};
}

static void times_are_those_of_the_gpu(void **state) {
    (void)state;
    struct bed b;
    struct mo_measured m;
    struct mo_share_profile *p;
    double link;
    lay(&b);
    assert_int_equal(mo_measured_open(&b.device, 0, BUCKETS, b.list, &m, NULL), MOIRE_OK);
    assert_int_equal(m.in_bytes, 4);
    m.rates = (struct mo_measure_rates){.l2 = 1000, .dram = 100};
    struct mo_measure_options o = options_of(&b);
    assert_int_equal(mo_measure_shares(&m, &o, &p, &link, NULL), MOIRE_OK);
    assert_int_equal(b.cells, BUCKETS * 4);
    assert_int_equal(p->in_bytes, 4);
    for (int batch = 1; batch <= 4; batch *= 2)
        for (int units = 1; units <= 4; units++)
            assert_int_equal(mo_share_latency(p, batch, 250 * units), (20000 + 10000 * batch) / units);
    assert_int_equal(m.moved[0], TOY_L2 + 450000);
    assert_int_equal(m.missed[0], 300000); /* the weights stay in L2 */
    struct mo_share_use use = mo_share_use_at(p, 1, 1000);
    assert_true(fabs(use.l2 * 7500 * 1000 - (TOY_L2 + 450000)) < 1);
    assert_true(fabs(use.dram * 7500 * 100 - 300000) < 1);
    mo_share_destroy(p);
    mo_measured_close(&m);
    strike(&b);
}

static void an_interrupted_profile_goes_on(void **state) {
    (void)state;
    struct bed b;
    struct mo_measured m;
    struct mo_share_profile *first, *p;
    double link;
    lay(&b);
    assert_int_equal(mo_measured_open(&b.device, 0, BUCKETS, b.list, &m, NULL), MOIRE_OK);
    struct mo_measure_options o = options_of(&b);
    b.stop_at = 5;
    assert_int_equal(mo_measure_shares(&m, &o, &first, &link, NULL), MOIRE_EINTERRUPTED);
    assert_non_null(first);
    int before = toy_gpu_counts(&b.toy).runs;
    b.cells = b.stop_at = 0;
    o.have = first;
    assert_int_equal(mo_measure_shares(&m, &o, &p, &link, NULL), MOIRE_OK);
    assert_int_equal(toy_gpu_counts(&b.toy).runs - before, (BUCKETS * 4 - 5) * (3 + 2)); /* two warm up */
    mo_share_destroy(first);
    mo_share_destroy(p);
    mo_measured_close(&m);
    strike(&b);
}

static void failures_are_reported(void **state) {
    (void)state;
    static const struct toy_gpu_faults faults[] = {{.open_let = 2, .code = MOIRE_ENOMEM},
                                                   {.prepare = 4, .code = MOIRE_ENOMEM},
                                                   {.run = 7, .code = MOIRE_ENOMEM},
                                                   {.work = 7, .code = MOIRE_ENOMEM}};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct bed b;
        struct mo_measured m;
        struct mo_share_profile *p;
        double link;
        moire_error err = {0};
        lay(&b);
        assert_int_equal(mo_measured_open(&b.device, 0, BUCKETS, b.list, &m, NULL), MOIRE_OK);
        struct mo_measure_options o = options_of(&b);
        toy_gpu_fail(&b.toy, &faults[i]);
        assert_int_equal(mo_measure_shares(&m, &o, &p, &link, &err), MOIRE_ENOMEM);
        assert_null(p);
        assert_non_null(strstr(err.message, "toy: "));
        mo_measured_close(&m);
        strike(&b);
    }
    struct bed b;
    struct mo_measured m;
    lay(&b);
    toy_gpu_fail(&b.toy, &(struct toy_gpu_faults){.load = 3, .code = MOIRE_ENOMEM});
    assert_int_equal(mo_measured_open(&b.device, 0, BUCKETS, b.list, &m, NULL), MOIRE_ENOMEM);
    strike(&b);
}

static void pairs_run_beside_each_other(void **state) {
    (void)state;
    struct bed b;
    struct mo_measured m[2];
    lay(&b);
    for (int i = 0; i < 2; i++)
        assert_int_equal(mo_measured_open(&b.device, 0, BUCKETS, b.list, &m[i], NULL), MOIRE_OK);
    struct mo_measure_side side[2] = {{&m[0], 0, 0, 1, 0}, {&m[1], 2, 1, 3, 0}};
    assert_int_equal(mo_measure_pair(side, 100, NULL), MOIRE_OK);
    assert_int_equal(side[0].ns, 30000);
    assert_int_equal(side[1].ns, 20000);
    moire_error err = {0};
    toy_gpu_fail(&b.toy, &(struct toy_gpu_faults){.work = 9, .code = MOIRE_EFAILED});
    assert_int_equal(mo_measure_pair(side, 100, &err), MOIRE_EFAILED);
    toy_gpu_fail(&b.toy, &(struct toy_gpu_faults){.run = 9, .code = MOIRE_ENOMEM});
    assert_int_equal(mo_measure_pair(side, 100, &err), MOIRE_ENOMEM);
    for (int i = 0; i < 2; i++)
        mo_measured_close(&m[i]);
    strike(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_those_of_the_gpu),
        cmocka_unit_test(an_interrupted_profile_goes_on),
        cmocka_unit_test(failures_are_reported),
        cmocka_unit_test(pairs_run_beside_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
