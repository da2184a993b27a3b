/* SPDX-License-Identifier: Apache-2.0
 * test_extend.c - profiles for a far machine: the fit finds what made the data, refuses what cannot tie two
 * machines together, and predicts published curves that it was not fitted to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/sim/extend.h"

/* Outlives every table: their regions point to it. */
static const struct mo_env *the_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

static void parse(const char *text, struct mo_profile_table *t) {
    assert_int_equal(mo_profile_table_parse(the_env(), "p.csv", text, strlen(text), t, NULL), MOIRE_OK);
}

#define HEAD "# moire-profile 1\nlayer,name,variant,batch,pressure,kib,units,"

static void the_fit_finds_what_made_the_data(void **state) {
    (void)state;
    struct mo_profile_table here, there, out;
    struct mo_extend_model m;
    /* t(c) = 3 t1 / c + 20 + 0.5 c on 8 and 32 cores; the pool is no convolution and does not count */
    parse(HEAD "1\n0,Conv 3x3,0,1,0,10,64,1000\n1,MaxPool,0,1,0,0,64,77\n2,Conv 1x1,0,1,0,10,32,400\n",
          &here);
    parse(HEAD "4,8,32\n0,conv3x3,0,1,0,10,0,772,399,129.75\n1,conv1x1,0,1,0,10,0,322,174,73.5\n", &there);
    struct mo_extend_tie tie = {&here, &there};
    assert_int_equal(mo_extend_fit(&tie, 1, 0, &m, NULL), MOIRE_OK);
    assert_true(fabs(m.ratio - 3) < 1e-6 && fabs(m.sync_us - 20) < 1e-4 && fabs(m.sync_core_us - 0.5) < 1e-6);
    assert_true(mo_extend_validate(&m, &tie).worst < 1e-6);
    assert_int_equal(mo_extend_table(the_env(), &m, &here, 16, &out, NULL), MOIRE_OK);
    assert_int_equal(out.n_layers, 3);
    assert_int_equal(out.counts[out.n_counts - 1], 16);
    assert_true(fabs(out.lines[0].us[0] - 3000) < 1e-3); /* alone: nobody to meet */
    assert_true(fabs(out.lines[1].us[out.n_counts - 1] - (3 * 77 / 16.0 + 20 + 8)) < 1e-3);
    mo_profile_table_free(&out);
    /* the memory ceiling is a floor: 10 KiB at 1 byte a us */
    m.bytes_us = 1;
    assert_true(fabs(mo_extend_time(&m, &here.lines[2], 16) - 10240) < 1e-6);
    mo_profile_table_free(&here);
    mo_profile_table_free(&there);
}

/* A version that is a quarter slower here is so there, at one core; where both pay 20 us it is less.
 * Published times stay, and what is no convolution stays as it was. */
static void versions_are_carried_over(void **state) {
    (void)state;
    struct mo_profile_table here, there, out;
    struct mo_extend_model m = {.ratio = 2, .sync_us = 20};
    parse("# moire-profile 1\nlayer,name,variant,batch,pressure,kib,units,block_kib,l3_kib,1\n"
          "0,MaxPool,0,1,0,1,8,0,0,50\n1,Conv,0,1,0,10,64,16,80,1000\n1,Conv,1,1,0,10,32,200,20,1250\n",
          &here);
    parse(HEAD "1,8\n0,conv1,0,1,0,10,0,3000,300\n1,fc,0,1,0,5,0,70,60\n", &there);
    struct mo_extend_tie tie = {&here, &there};
    assert_int_equal(mo_extend_versions(the_env(), &m, &tie, &out, NULL), MOIRE_OK);
    assert_int_equal(out.n_layers, 2);
    assert_int_equal(out.n_lines, 3);
    assert_true(out.lines[0].us[0] == 3000 && out.lines[0].us[1] == 300);
    assert_true(fabs(out.lines[1].us[0] - 3750) < 1e-6);
    assert_true(fabs(out.lines[1].us[1] - 300 * 332.5 / 270) < 1e-6);
    assert_true(out.lines[1].variant == 1 && out.lines[1].units == 32 && out.lines[1].l3_kib == 20);
    assert_true(out.lines[2].us[1] == 60 && out.lines[2].l3_kib == 0);
    mo_profile_table_free(&out);
    assert_int_equal(mo_extend_table(the_env(), &m, &here, 8, &out, NULL), MOIRE_OK);
    assert_int_equal(out.n_lines, 3);
    assert_true(fabs(out.lines[2].us[0] - 2500) < 1e-6 && out.lines[2].block_kib == 200);
    mo_profile_table_free(&out);
    mo_profile_table_free(&here);
    mo_profile_table_free(&there);
}

static void a_layer_of_one_unit_stays_on_one_core(void **state) {
    (void)state;
    struct mo_profile_table here;
    struct mo_extend_model m = {.ratio = 2, .sync_us = 10};
    parse(HEAD "1\n0,Gather,0,1,0,1,1,100\n", &here);
    assert_true(mo_extend_time(&m, &here.lines[0], 64) == 200);
    mo_profile_table_free(&here);
}

static void what_ties_nothing_is_refused(void **state) {
    (void)state;
    struct mo_profile_table one, two, late;
    struct mo_extend_model m;
    moire_error err;
    parse(HEAD "1\n0,Conv,0,1,0,1,8,100\n", &one);
    parse(HEAD "1,2\n0,Conv,0,1,0,1,8,100,60\n1,Conv,0,1,0,1,8,100,60\n", &two);
    parse(HEAD "2\n0,Conv,0,1,0,1,8,100\n", &late);
    assert_int_equal(mo_extend_fit(&(struct mo_extend_tie){&one, &two}, 1, 0, &m, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "1 convolutions here, 2 there"));
    assert_int_equal(mo_extend_fit(&(struct mo_extend_tie){&late, &one}, 1, 0, &m, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "one core"));
    struct mo_profile_table out;
    assert_int_equal(mo_extend_table(the_env(), &m, &late, 4, &out, &err), MOIRE_EINVAL);
    mo_profile_table_free(&one);
    mo_profile_table_free(&two);
    mo_profile_table_free(&late);
}

/* The two models that VELTAIR's authors published, each predicted by the other.
 * docs/results/simulator.md states these bounds. */
static void published_curves_are_predicted(void **state) {
    (void)state;
    static const char *const models[] = {"resnet50", "googlenet"};
    struct mo_profile_table here[2], there[2];
    char path[128];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "bench/machines/cloud-2core-zen4/%s.csv", models[i]);
        assert_int_equal(mo_profile_table_read(the_env(), path, &here[i], NULL), MOIRE_OK);
        snprintf(path, sizeof path, "bench/machines/cores64/%s.csv", models[i]);
        assert_int_equal(mo_profile_table_read(the_env(), path, &there[i], NULL), MOIRE_OK);
    }
    for (int i = 0; i < 2; i++) {
        struct mo_extend_tie known = {&here[i], &there[i]}, asked = {&here[!i], &there[!i]};
        struct mo_extend_model m;
        assert_int_equal(mo_extend_fit(&known, 1, 0, &m, NULL), MOIRE_OK);
        struct mo_extend_error e = mo_extend_validate(&m, &asked);
        print_message("%s by %s: mean error %.3f, worst %.3f at %d cores\n", models[!i], models[i], e.mean,
                      e.worst, e.worst_cores);
        assert_true(e.mean < 0.11 && e.worst < 0.23);
    }
    for (int i = 0; i < 2; i++) {
        mo_profile_table_free(&here[i]);
        mo_profile_table_free(&there[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fit_finds_what_made_the_data),
        cmocka_unit_test(versions_are_carried_over),
        cmocka_unit_test(a_layer_of_one_unit_stays_on_one_core),
        cmocka_unit_test(what_ties_nothing_is_refused),
        cmocka_unit_test(published_curves_are_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
