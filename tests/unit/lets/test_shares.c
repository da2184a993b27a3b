/* SPDX-License-Identifier: Apache-2.0
 * test_shares.c - what is left out of profiles of shares and predicted; what is said of fitted interference.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/fit/interference_fit.h"
#include "bench/fit/shares.h"

static const struct mo_env *the_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

/* Straight over batch, Amdahl over shares: every inner point is predicted; one that is off is found. */
static void laws_of_the_interpolation_have_no_error(void **state) {
    (void)state;
    static const int batch[] = {1, 2, 3, 4, 6, 8}, share[] = {100, 200, 500, 1000};
    struct mo_shares_error e[MO_SHARES_WAYS];
    for (int bent = 0; bent < 2; bent++) {
        struct mo_share_profile *p = mo_share_create(the_env(), 6, batch, 4, share);
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 4; j++) {
                if (j == 0 && i % 3 > 0) continue; /* batches 1 and 4 only at 100 */
                double ms = (2 + batch[i]) * (1 + 1000.0 / share[j]);
                struct mo_share_cell cell = {(int64_t)(ms * 1e6), {-1, -1, -1}};
                if (bent && i == 2 && j == 2) cell.ns = cell.ns * 11 / 10;
                mo_share_record(p, i, j, &cell);
            }
        assert_int_equal(mo_share_finish(p, NULL), MOIRE_OK);
        assert_int_equal(mo_shares_check(p, e, NULL), MOIRE_OK);
        assert_int_equal(e[MO_SHARES_BATCH].n, 4 * 3 + 1);
        assert_int_equal(e[MO_SHARES_POWERS].n, 2 * 3); /* 3 and 6; 8 stays */
        assert_int_equal(e[MO_SHARES_SHARE].n, 2 * 6);
        assert_int_equal(e[MO_SHARES_HOLE].n, 0);
        for (int way = 0; way < MO_SHARES_HOLE; way++)
            if (bent == (e[way].worst < 1e-6)) fail_msg("%s: %g", mo_shares_way(way), e[way].worst);
        if (bent) assert_true(fabs(e[MO_SHARES_POWERS].worst - 1 / 11.0) < 1e-6);
        mo_share_destroy(p);
    }
}

/* The statement of docs/gpu-profiles.md: at most so many percent in the mean, whichever way. */
static void measured_profiles_interpolate_as_stated(void **state) {
    (void)state;
    static const char *const models[] = {"alexnet", "resnet50", "vgg19", "ssd300"};
    static const double stated[MO_SHARES_WAYS] = {0.025, 0.025, 0.03, 0.05};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct mo_shares_error e[MO_SHARES_WAYS];
        struct mo_share_table t;
        moire_error err = {0};
        char path[64];
        snprintf(path, sizeof path, "bench/gpus/v100/%s.csv", models[i]);
        if (mo_share_table_read(the_env(), path, &t, &err)) fail_msg("%s", err.message);
        assert_int_equal(mo_shares_check(t.profile, e, &err), MOIRE_OK);
        for (int way = 0; way < MO_SHARES_WAYS; way++) {
            assert_true(e[way].n >= 2);
            if (e[way].mean > stated[way]) fail_msg("%s, %s: %g", models[i], mo_shares_way(way), e[way].mean);
        }
        json_t *row = mo_shares_json(&t, e);
        assert_false(json_is_true(json_object_get(row, "derived")));
        assert_int_equal(json_integer_value(json_object_get(row, "batches")), 32);
        json_decref(row);
        mo_share_table_free(&t);
    }
}

static void the_document_of_a_fit_is_whole(void **state) {
    (void)state;
    static char plot[] = "/tmp/moire-errors-XXXXXX";
    struct mo_pairs p;
    moire_error err = {0};
    json_t *d, *row, *v;
    size_t i, k;
    struct mo_interference_options o = {.seed = 3, .splits = 4, .n_others = 1};
    o.other[0] = (struct mo_interference_row){"flat", {.constant = 1.1}};
    if (mo_pairs_load(the_env(), "bench/gpus/v100/pairs.csv", &p, &err)) fail_msg("%s", err.message);
    if (mo_interference_document(&p, &o, &d, &err)) fail_msg("%s", err.message);
    assert_int_equal(json_array_size(json_object_get(d, "results")), 3);
    json_array_foreach(json_object_get(d, "results"), i, row) {
        const json_t *p90 = json_object_get(json_object_get(row, "splits"), "p90");
        double e = json_real_value(json_object_get(row, "p90")), last = 0;
        assert_true(e >= json_real_value(json_array_get(p90, 0)) - 1e-12 &&
                    e <= json_real_value(json_array_get(p90, 1)) + 1e-12);
        assert_int_equal(json_array_size(json_object_get(row, "error")), 101);
        json_array_foreach(json_object_get(row, "error"), k, v) {
            assert_true(json_real_value(v) >= last);
            last = json_real_value(v);
        }
        assert_true(last == json_real_value(json_object_get(row, "worst")));
        /* the fit is better than a constant, and a constant better than nothing */
        if (i)
            assert_true(e > json_real_value(json_object_get(
                                json_array_get(json_object_get(d, "results"), i - 1), "p90")));
    }
    int fd = mkstemp(plot);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(mo_interference_plot(the_env(), d, plot, &err), MOIRE_OK);
    unlink(plot);
    json_decref(d);
    p.n = 14; /* seven pairs */
    assert_int_equal(mo_interference_document(&p, &o, &d, &err), MOIRE_EINVAL);
    mo_pairs_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(laws_of_the_interpolation_have_no_error),
        cmocka_unit_test(measured_profiles_interpolate_as_stated),
        cmocka_unit_test(the_document_of_a_fit_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
