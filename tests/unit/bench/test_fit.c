/* SPDX-License-Identifier: Apache-2.0
 * test_fit.c - samples of counters and what is fitted to them: eigenvectors, principal components, the line
 * to the pressure, files and their errors, and samples measured beside a neighbour. */
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
#include "bench/fit/proxy_fit.h"
#include "tests/unit/proxy/counters_sys.h"

static bool near(double a, double b) {
    return fabs(a - b) < 1e-9;
}

static const bool every[MO_SAMPLE_CELLS] = {true, true, true, true, true};

static double draw(uint64_t *rng) {
    *rng = *rng * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (double)(*rng >> 11) * 0x1p-53;
}

/* --- eigenvalues ---------------------------------------------------------------------------------------- */
static void eigenvectors_are_what_they_should_be(void **state) {
    (void)state;
    uint64_t rng = 7;
    for (int n = 1; n <= 6; n++)
        for (int round = 0; round < 50; round++) {
            double a[36], copy[36], value[6], v[36];
            for (int i = 0; i < n; i++)
                for (int j = 0; j <= i; j++)
                    a[i * n + j] = a[j * n + i] = round ? draw(&rng) * 2 - 1 : i == j;
            memcpy(copy, a, sizeof a);
            mo_eigen(n, a, value, v);
            for (int c = 0; c < n; c++) {
                double length = 0;
                if (c) assert_true(value[c] <= value[c - 1]);
                for (int i = 0; i < n; i++) {
                    double sum = 0;
                    for (int j = 0; j < n; j++)
                        sum += copy[i * n + j] * v[j * n + c];
                    assert_true(fabs(sum - value[c] * v[i * n + c]) < 1e-9);
                    length += v[i * n + c] * v[i * n + c];
                }
                assert_true(near(length, 1));
            }
        }
}

/* --- the fit -------------------------------------------------------------------------------------------- */
/* Rows of papi: misses and accesses make the pressure, ipc is noise; `noise` is added to the pressure. */
static struct mo_samples made_up(const struct mo_env *env, int n, double noise) {
    struct mo_samples s = {.env = env, .source = &mo_source_papi};
    uint64_t rng = 11;
    for (int i = 0; i < n; i++) {
        double rate = draw(&rng) * 0.4, accesses = draw(&rng) * 1000, ipc = 1 + draw(&rng);
        double p = 0.05 + 1.5 * rate + 0.0003 * accesses + noise * (draw(&rng) - 0.5);
        struct mo_sample row = {{p, 1 + p, rate, accesses, ipc}};
        assert_int_equal(mo_samples_add(&s, &row, NULL), MOIRE_OK);
    }
    return s;
}

static void a_line_is_found_again(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_samples s = made_up(&env, 200, 0);
    struct mo_fit f;
    assert_int_equal(mo_fit_samples(&s, every, &f, NULL), MOIRE_OK);
    assert_int_equal(f.k, 3);
    assert_true(near(f.intercept, 0.05) && near(f.coefficient[0], 1.5) && near(f.coefficient[1], 0.0003) &&
                near(f.coefficient[2], 0));
    assert_true(near(f.r2, 1) && near(f.r2_left_out, 1) && near(f.slowdown, 1));
    assert_true(near(f.share[0] + f.share[1] + f.share[2], 1) && f.worst_error < 1e-9);
    /* components do not overlap, so what they tell adds up */
    assert_true(near(f.tells[0] * f.tells[0] + f.tells[1] * f.tells[1] + f.tells[2] * f.tells[2], 1));
    bool one[MO_SAMPLE_CELLS] = {[MO_SAMPLE_FIRST + 2] = true};
    assert_int_equal(mo_fit_samples(&s, one, &f, NULL), MOIRE_OK);
    assert_true(f.k == 1 && f.column[0] == MO_SAMPLE_FIRST + 2 && f.r2 < 0.1);
    mo_samples_free(&s);
}

static void noise_is_not_explained(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_samples s = made_up(&env, 400, 0.6);
    struct mo_fit f;
    assert_int_equal(mo_fit_samples(&s, every, &f, NULL), MOIRE_OK);
    /* variance of the pressure: 1.5^2 0.4^2/12 + 0.3^2/12 + noise 0.6^2/12 = 0.0375 + 0.03 */
    assert_true(f.r2 > 0.47 && f.r2 < 0.64);
    assert_true(f.r2_left_out < f.r2);
    assert_true(fabs(f.coefficient[0] - 1.5) < 0.25);
    mo_samples_free(&s);
}

/* Two columns that say the same share the weight; one that never changes is left out. */
static void equal_columns_share(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_samples s = {.env = &env, .source = &mo_source_papi};
    struct mo_fit f;
    for (int i = 0; i < 60; i++) {
        double x = i % 7;
        struct mo_sample row = {{x / 10, 1, x, 3 * x, 2}};
        assert_int_equal(mo_samples_add(&s, &row, NULL), MOIRE_OK);
    }
    assert_int_equal(mo_fit_samples(&s, every, &f, NULL), MOIRE_OK);
    assert_int_equal(f.k, 2);
    assert_true(near(f.coefficient[0], 0.05) && near(f.coefficient[1], 0.05 / 3));
    assert_true(near(f.share[0], 1) && near(fabs(f.loading[0][0]), sqrt(0.5)) && near(f.tells[1], 0));
    mo_samples_free(&s);
}

static void slowdown_stands_in_for_counters(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_samples s = {.env = &env, .source = &mo_source_slowdown};
    struct mo_fit f;
    for (int i = 0; i < 60; i++) {
        struct mo_sample row = {{i % 6 / 5.0, 1 + i % 6 * 0.1}};
        assert_int_equal(mo_samples_add(&s, &row, NULL), MOIRE_OK);
    }
    assert_int_equal(mo_fit_samples(&s, every, &f, NULL), MOIRE_OK);
    assert_true(f.k == 1 && f.column[0] == MO_SAMPLE_SLOWDOWN && near(f.coefficient[0], 2));
    mo_samples_free(&s);
}

static void what_cannot_be_fitted_is_refused(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_samples s = made_up(&env, 24, 0);
    struct mo_fit f;
    moire_error err;
    assert_int_equal(mo_fit_samples(&s, every, &f, &err), MOIRE_EINVAL);
    assert_string_equal(err.message, "24 rows; a fit of 3 columns needs 25: measure longer");
    mo_samples_free(&s);
    s = made_up(&env, 50, 0);
    for (int i = 0; i < s.n; i++)
        s.row[i].cell[MO_SAMPLE_PRESSURE] = 0.3;
    assert_int_equal(mo_fit_samples(&s, every, &f, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "never changes"));
    mo_samples_free(&s);
    s = made_up(&env, 50, 0);
    assert_int_equal(mo_fit_samples(&s, (const bool[MO_SAMPLE_CELLS]){true}, &f, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "none of the columns"));
    mo_samples_free(&s);
}

/* --- files ---------------------------------------------------------------------------------------------- */
#define HEAD                                                                                                 \
    "# moire-pressure 1\n# source papi\n# note a test\npressure,slowdown,l3_miss_rate,l3_accesses,ipc\n"

static void a_file_is_read_and_written(void **state) {
    (void)state;
    static const char text[] = HEAD "0.2,1.03,0.1,812.5,2\n1,1.5,0.9,1e3,0.5\n";
    struct mo_env env = mo_env_default();
    struct mo_samples s = {.env = &env}, again = {.env = &env};
    char path[] = "/tmp/moire-samples-XXXXXX";
    close(mkstemp(path));
    assert_int_equal(mo_samples_parse(&s, "f", text, sizeof text - 1, NULL), MOIRE_OK);
    assert_true(s.n == 2 && s.source == &mo_source_papi && near(s.row[1].cell[3], 1000));
    assert_int_equal(mo_samples_write(&s, "again", path, NULL), MOIRE_OK);
    assert_int_equal(mo_proxy_load(&again, path, NULL), MOIRE_OK);
    assert_int_equal(mo_proxy_load(&again, path, NULL), MOIRE_OK); /* a second file is appended */
    assert_int_equal(again.n, 4);
    assert_memory_equal(s.row, again.row + 2, 2 * sizeof *s.row);
    unlink(path);
    mo_samples_free(&s);
    mo_samples_free(&again);
}

static void damage_is_named_with_its_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "f:1: the file ends"},
        {"hello\n", "f:1: not samples of counters: the first line must be '# moire-pressure 1'"},
        {"# moire-pressure 1\n# source pmu\n", "f:2: no source of pressure is called pmu"},
        {"# moire-pressure 1\npressure\n", "f:2: no '# source' line"},
        {"# moire-pressure 1\n# source resctrl\n# source resctrl\n", "f:3: a second source"},
        {"# moire-pressure 1\n# source papi\npressure,ipc\n",
         "f:3: the columns must be pressure,slowdown,l3_"},
        {HEAD, "f:5: the file ends before the first row"},
        {HEAD "0.2,1,0.1,800,2", "f:5: the last line is cut off"},
        {HEAD "0.2,1,0.1,800\n", "f:5: no cell for ipc"},
        {HEAD "0.2,1,,800,2\n", "f:5:7: '' is no l3_miss_rate that a machine"},
        {HEAD "0.2,1,0.1,800,2,3\n", "f:5: more cells than columns"},
        {HEAD "0.2,1,nan,800,2\n", "f:5:7: 'nan' is no l3_miss_rate that a machine measures"},
        {HEAD "0.2,1,0.1,inf,2\n", "f:5:11: 'inf' is no l3_accesses that a machine measures"},
        {HEAD "0.2,1,0.1,1e13,2\n", "f:5:11: '1e13' is no l3_accesses"},
        {HEAD "0.2,1,0.1,800,2\n1.2,1,0.1,800,2\n", "f:6: the pressure must be 0 to 1"},
        {HEAD "-0.2,1,0.1,800,2\n", "f:5: the pressure must be 0 to 1"},
        {HEAD "0.2,0,0.1,800,2\n", "f:5: the slowdown must be positive"},
        {HEAD "0.2,1x,0.1,800,2\n", "f:5:5: '1x' is no slowdown"},
    };
    struct mo_env env = mo_env_default();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mo_samples s = {.env = &env};
        moire_error err = {0};
        assert_int_equal(mo_samples_parse(&s, "f", rows[i].text, strlen(rows[i].text), &err), MOIRE_EFORMAT);
        if (!strstr(err.message, rows[i].says))
            fail_msg("case %d: '%s' does not say '%s'", (int)i, err.message, rows[i].says);
        mo_samples_free(&s);
    }
    struct mo_samples s = {.env = &env, .source = &mo_source_resctrl};
    moire_error err;
    assert_int_equal(mo_samples_parse(&s, "f", HEAD, strlen(HEAD), &err), MOIRE_EFORMAT);
    assert_non_null(
        strstr(err.message, "f:2: rows of another source than those before it, which are of resctrl"));
    assert_int_equal(mo_proxy_load(&s, "/nowhere/f", &err), MOIRE_EIO);
}

/* --- recorded runs -------------------------------------------------------------------------------------- */
#define RUN                                                                                                  \
    "# moire-history 1\n# cores 1\n# dropped 0\n# policy veltair\n# since 0\n# tenant 0 1 9000 0 0 0 t\n"    \
    "# profile 0 1 100\n"
#define COUNTED RUN "# counters resctrl llc_occupancy,memory_traffic\n"
#define BLOCK(at, end)                                                                                       \
    "1 " at " 0 DISPATCH 7 0 0 1 1\n1 " at " 0 BLOCK_START 7 0 0 1 0\n1 " end " 0 BLOCK_END 7 0 0 1 0\n"
#define ACCEPT "0 10 0 ACCEPT 7 0 10 9010 0\n"

/* A window of the counters is a row when blocks ended in it. */
static void a_recorded_run_gives_rows(void **state) {
    (void)state;
    static const char text[] = COUNTED ACCEPT "1 10 0 PRESSURE 0 -1 200000 0 0\n" BLOCK("100", "210") BLOCK(
        "300", "430") "1 1000 1 COUNTERS 0 -1 1000000 0 0\n1 1500 0 PRESSURE 0 -1 600000 0 0\n" BLOCK("1600",
                                                                                                      "1750")
        BLOCK("1800", "1990") "1 2000 1 COUNTERS 0 -1 2000000 3000000 0\n1 3000 1 COUNTERS 0 -1 4000000 0 0\n"
                              "# end 18\n";
    char path[] = "/tmp/moire-run-XXXXXX";
    struct mo_env env = mo_env_default();
    struct mo_samples s = {.env = &env};
    moire_error err = {0};
    FILE *f = fdopen(mkstemp(path), "w");
    fputs(text, f);
    fclose(f);
    if (mo_proxy_load(&s, path, &err)) fail_msg("%s", err.message);
    assert_true(s.n == 1 && s.source == &mo_source_resctrl);
    const double *cell = s.row[0].cell;
    assert_true(near(cell[MO_SAMPLE_PRESSURE], 0.4) && near(cell[MO_SAMPLE_SLOWDOWN], 1.7));
    assert_true(near(cell[MO_SAMPLE_FIRST], 2) && near(cell[MO_SAMPLE_FIRST + 1], 3));
    mo_samples_free(&s);
    unlink(path);
}

static void runs_that_teach_nothing_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {RUN ACCEPT BLOCK("100", "210") "# end 4\n", "no counters in it"},
        {COUNTED ACCEPT BLOCK("100", "210") "1 1000 1 COUNTERS 0 -1 1 0 0\n# end 5\n", "no pressure in it"},
        {COUNTED ACCEPT "1 10 0 PRESSURE 0 -1 200000 1 0\n# end 2\n", "its pressure came from counters"},
        {COUNTED ACCEPT
         "1 10 0 PRESSURE 0 -1 200000 0 0\n1 20 1 COUNTERS 0 -1 1 0 0\n1 30 1 COUNTERS 0 -1 1 0 "
         "0\n# end 4\n",
         "no block ended while"},
        {COUNTED ACCEPT "1 10 0 PRESSURE 0 -1 200000 0 0\n# end 3\n", ":11: events are missing"},
    };
    struct mo_env env = mo_env_default();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[] = "/tmp/moire-run-XXXXXX";
        struct mo_samples s = {.env = &env};
        moire_error err = {0};
        FILE *f = fdopen(mkstemp(path), "w");
        fputs(rows[i].text, f);
        fclose(f);
        assert_true(mo_proxy_load(&s, path, &err) != MOIRE_OK);
        if (!strstr(err.message, rows[i].says) || !strstr(err.message, path))
            fail_msg("case %d: '%s' does not say '%s'", (int)i, err.message, rows[i].says);
        mo_samples_free(&s);
        unlink(path);
    }
}

/* --- measured ------------------------------------------------------------------------------------------- */
/* Beside a real neighbour, with counters of a fake machine: a level a row, and the counters of its window. */
static void samples_are_measured(void **state) {
    (void)state;
    static const long long trace[][COUNTERS_EVENTS] = {
        {0, 0, 0, 0},     {9, 9, 9, 9},     {10, 49, 12, 11}, {9, 9, 9, 9},     {20, 49, 12, 11},
        {9, 9, 9, 9},     {30, 49, 12, 11}, {9, 9, 9, 9},     {40, 49, 12, 11}, {9, 9, 9, 9},
        {40, 49, 12, 11}, {9, 9, 9, 9},     {40, 49, 12, 11},
    };
    struct counters_sys c;
    counters_sys_init(&c);
    struct mo_env env = mo_env_default();
    struct mo_stress_config sc = {
        .env = &env, .kind = MO_STRESS_L3, .n = 1, .l2_bytes = 1 << 16, .l3_bytes = 1 << 18};
    struct mo_proxy_measure m = {
        .cpu = (const int[]){0}, .n_cpus = 1, .source = &mo_source_papi, .rounds = 1};
    assert_int_equal(mo_stress_create(&sc, &m.stress, NULL), MOIRE_OK);
    env.sys = &c.table;
    struct mo_samples s = {.env = &env};
    moire_error err;
    assert_int_equal(mo_proxy_measure(&m, &s, &err), MOIRE_EUNSUPPORTED); /* no libpapi yet */
    c.papi = trace;
    c.papi_rows = 13;
    env.sys = &c.table;
    /* the fake counters go back between windows; only what counts up is a window */
    assert_int_equal(mo_proxy_measure(&m, &s, &err), MOIRE_EIO);
    assert_non_null(strstr(err.message, "went back"));
    mo_samples_free(&s);
    static long long rising[26][COUNTERS_EVENTS];
    for (int i = 0; i < 26; i++)
        for (int k = 0; k < COUNTERS_EVENTS; k++)
            rising[i][k] = (long long)i * (k == 1 ? 40 : 10);
    c.papi = (const long long(*)[COUNTERS_EVENTS])rising;
    c.papi_rows = 26;
    m.rounds = 2;
    assert_int_equal(mo_proxy_measure(&m, &s, &err), MOIRE_OK);
    assert_int_equal(s.n, 12);
    for (int i = 0; i < s.n; i++) {
        assert_true(near(s.row[i].cell[MO_SAMPLE_PRESSURE], i % 6 / 5.0));
        assert_true(s.row[i].cell[MO_SAMPLE_SLOWDOWN] > 0);
        assert_true(near(s.row[i].cell[MO_SAMPLE_FIRST], 0.25) &&
                    near(s.row[i].cell[MO_SAMPLE_FIRST + 2], 1));
    }
    mo_samples_free(&s);
    mo_stress_destroy(m.stress);
    assert_int_equal(c.fault.opened, c.fault.closed);
    counters_sys_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eigenvectors_are_what_they_should_be),
        cmocka_unit_test(a_line_is_found_again),
        cmocka_unit_test(noise_is_not_explained),
        cmocka_unit_test(equal_columns_share),
        cmocka_unit_test(slowdown_stands_in_for_counters),
        cmocka_unit_test(what_cannot_be_fitted_is_refused),
        cmocka_unit_test(a_file_is_read_and_written),
        cmocka_unit_test(damage_is_named_with_its_line),
        cmocka_unit_test(a_recorded_run_gives_rows),
        cmocka_unit_test(runs_that_teach_nothing_are_refused),
        cmocka_unit_test(samples_are_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
