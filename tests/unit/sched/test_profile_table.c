/* SPDX-License-Identifier: Apache-2.0
 * test_profile_table.c - profile files: what is read, written again, used and refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/data/process.h"
#include "runtime/profile/profile_versions.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define HEAD     "# moire-profile 1\n"
#define COLUMNS  "layer,name,variant,batch,pressure,kib,2,4\n"
#define LOCAL    "layer,name,variant,batch,pressure,kib,units,block_kib,l3_kib,1,2\n"

static const char good[] =
    HEAD "# model tiny\n# machine a test\n# lines 6\n" COLUMNS "0,first,0,1,0,100,400,200\n"
         "0,first,0,1,0.4,100,500,300\n"
         "0,first,1,1,0,100,440,210\n"
         "0,first,1,1,0.4,100,440,220\n"
         "1,second,0,1,0,50,40,25\n"
         "1,second,0,1,0.4,50,40,25\n";

/* Outlives every table: their regions point to it. */
static const struct mo_env *the_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

static int parse(const char *text, struct mo_profile_table *t, moire_error *err) {
    return mo_profile_table_parse(the_env(), "p.csv", text, strlen(text), t, err);
}

static void a_table_becomes_a_profile(void **state) {
    (void)state;
    struct mo_profile_table t;
    struct mo_profile *p;
    assert_int_equal(parse(good, &t, NULL), MOIRE_OK);
    assert_string_equal(t.model, "tiny");
    assert_int_equal(t.n_layers, 2);
    assert_int_equal(t.n_lines, 6);
    assert_int_equal(mo_profile_table_profile(the_env(), &t, 0, 8, &p, NULL), MOIRE_OK);
    assert_int_equal(mo_profile_time(p, 4, 0, 2), 225000);
    assert_int_equal(mo_profile_time(p, 2, 0, 1), 400000);
    assert_int_equal(mo_profile_time(p, 1, 0, 1), 800000); /* the core time of the smallest count */
    assert_int_equal(mo_profile_time(p, 8, 0, 1), 200000);
    assert_int_equal(mo_profile_bytes(p, 0, 2), 150 * 1024);
    mo_profile_destroy(p);
    /* one core only: the times at two cores, twice as long */
    assert_int_equal(mo_profile_table_profile(the_env(), &t, 0, 1, &p, NULL), MOIRE_OK);
    assert_int_equal(mo_profile_time(p, 1, 0, 1), 800000);
    mo_profile_destroy(p);
    assert_int_equal(mo_profile_table_profile(the_env(), &t, 1, 8, &p, NULL),
                     MOIRE_EINVAL); /* not of layer 1 */
    mo_profile_table_free(&t);
}

static void what_is_written_reads_the_same(void **state) {
    (void)state;
    struct mo_profile_table a, b;
    assert_int_equal(parse(good, &a, NULL), MOIRE_OK);
    size_t n;
    const char *text = mo_profile_table_text(&a, &n);
    assert_non_null(text);
    assert_int_equal(n, strlen(text));
    assert_string_equal(text, good);
    assert_int_equal(parse(text, &b, NULL), MOIRE_OK);
    assert_int_equal(b.n_lines, a.n_lines);
    mo_profile_table_free(&a);
    mo_profile_table_free(&b);
}

static void cold_times_come_along(void **state) {
    (void)state;
    static const char text[] =
        HEAD "# lines 1\nlayer,name,variant,batch,pressure,kib,cold_us,1,2\n0,a,0,1,0,8,2.5,50,30\n";
    struct mo_profile_table t;
    struct mo_profile *p;
    size_t n;
    assert_int_equal(parse(text, &t, NULL), MOIRE_OK);
    assert_string_equal(mo_profile_table_text(&t, &n), text);
    assert_int_equal(mo_profile_table_profile(the_env(), &t, 0, 2, &p, NULL), MOIRE_OK);
    assert_true(mo_profile_extra(p, 1, 0, 1) == 2500 && mo_profile_extra(p, 2, 0, 1) == 1250);
    mo_profile_destroy(p);
    mo_profile_table_free(&t);
}

static void operations_come_along(void **state) {
    (void)state;
    static const char text[] = HEAD "# lines 2\nlayer,name,variant,batch,pressure,kib,units,mops,1,2\n"
                                    "0,a,0,1,0,8,4,0.0005,50,30\n1,b,0,1,0,8,4,236.028,50,30\n";
    struct mo_profile_table t;
    struct mo_profile *p;
    size_t n;
    assert_int_equal(parse(text, &t, NULL), MOIRE_OK);
    assert_string_equal(mo_profile_table_text(&t, &n), text);
    assert_int_equal(mo_profile_table_profile(the_env(), &t, 0, 2, &p, NULL), MOIRE_OK);
    assert_int_equal(mo_profile_ops(p, 0, 1), 500);
    assert_int_equal(mo_profile_ops(p, 0, 2), 236028500);
    mo_profile_destroy(p);
    mo_profile_table_free(&t);
    assert_int_equal(parse(good, &t, NULL), MOIRE_OK);
    assert_int_equal(mo_profile_table_profile(the_env(), &t, 0, 2, &p, NULL), MOIRE_OK);
    assert_int_equal(mo_profile_ops(p, 0, 2), 0); /* not known */
    mo_profile_destroy(p);
    mo_profile_table_free(&t);
}

static void bad_tables_are_refused_with_their_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *where, *why;
    } rows[] = {
        {"", "p.csv:1:", "before the first layer"},
        {"layer,name\n", "p.csv:1:", "not a profile"},
        {HEAD, "p.csv:2:", "before the first layer"},
        {HEAD "layer,name,variant\n", "p.csv:2:", "header"},
        {HEAD "layer,name,variant,batch,pressure,kib,4,2\n", "p.csv:2:", "rise"},
        {HEAD "layer,name,variant,batch,pressure,kib,0\n", "p.csv:2:", "number of cores"},
        {HEAD "layer,name,variant,batch,pressure,kib,1.5\n", "p.csv:2:", "number of cores"},
        {HEAD COLUMNS, "p.csv:3:", "before the first layer"},
        {HEAD COLUMNS "0,a,0,1,0,1,5\n", "p.csv:3:", "no time at 4 cores"},
        {HEAD COLUMNS "0,a,0,1,0,1,5,\n", "p.csv:3:", "no time at 4 cores"},
        {HEAD COLUMNS "0,a,0,1,0,1,5,4,3\n", "p.csv:3:", "more cells"},
        {HEAD COLUMNS "0,a,0,1,0,1,5,-4\n", "p.csv:3:", "not a time"},
        {HEAD COLUMNS "0,a,0,1,0,1,5,nan\n", "p.csv:3:", "not a time"},
        {HEAD COLUMNS "0,a,0,1,0,1,5,4x\n", "p.csv:3:", "not a time"},
        {HEAD COLUMNS "0,a,0,1,0,1,50,101\n", "p.csv:3:", "at fewer"},
        {HEAD COLUMNS "1,a,0,1,0,1,5,4\n", "p.csv:3:", "gap"},
        {HEAD COLUMNS "0,a,0,1,0,1,5,4\n2,b,0,1,0,1,5,4\n", "p.csv:4:", "gap"},
        {HEAD COLUMNS "0,a,1,1,0,1,5,4\n", "p.csv:3:", "variant 0"},
        {HEAD COLUMNS "0,a,0,1,x,1,5,4\n", "p.csv:3:", "must be numbers"},
        {HEAD "layer,name,variant,batch,pressure,kib,mops,1\n0,a,0,1,0,1,-1,5\n",
         "p.csv:3:", "must be numbers"},
        {HEAD COLUMNS "0,a,0,1,0,1,5,4\n0,a,0,1,1.2,1,5,4\n", "p.csv:4:", "at most 1"},
        {HEAD COLUMNS "0,a,0,1,0,1,5,4\n0,a,0,1,0,1,5,4\n", "p.csv:4:", "each once"},
        {HEAD COLUMNS "0,a,0,1,0,1,5,4\n0,a,2,1,0,1,5,4\n", "p.csv:4:", "count from 0"},
        {HEAD COLUMNS "0,a,0,1,0,1,5,4\n0,a,1,1,0.2,1,5,4\n", "p.csv:4:", "beginning with batch 1"},
        {HEAD COLUMNS "0,a,0,1,0,1,5,4\n0,a,0,1,0.2,1,6,4\n0,a,1,1,0,1,5,4\n", "p.csv:6:", "variant 1"},
        {HEAD COLUMNS "0,a,0,1,0,1,5,4\n0,a,0,1,0.2,1,6,4\n1,b,0,1,0,1,5,4\n1,b,0,1,0.4,1,5,4\n",
         "p.csv:7:", "without the pressures"},
        {HEAD COLUMNS "0,a,0,1,0,1,5,4\n0,a,0,1,0.2,1,6,4\n0,a,0,1,0.4,1,6,3.9\n",
         "p.csv:5:", "measure again"},
        {HEAD LOCAL "0,a,0,1,0,1,8,2,-1,5,4\n", "p.csv:3:", "must be numbers"},
        {HEAD "layer,name,variant,batch,pressure,kib,block_kib,1\n", "p.csv:2:", "number of cores"},
        {HEAD "# lines x\n" COLUMNS, "p.csv:2:", "not a number of lines"},
        {HEAD "# lines 2\n" COLUMNS "0,a,0,1,0,1,5,4\n", "p.csv:5:", "ends after 1 lines of times"},
        {HEAD "# lines 1\n" COLUMNS "0,a,0,1,0,1,5,4\n1,b,0,1,0,1,5,4\n", "p.csv:6:", "says 1"},
        {HEAD "# lines 1\n" COLUMNS "0,a,0,1,0,1,50,40", "p.csv:4:", "cut off"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mo_profile_table t;
        moire_error err = {0};
        assert_int_equal(parse(rows[i].text, &t, &err), MOIRE_EFORMAT);
        if (!strstr(err.message, rows[i].where) || !strstr(err.message, rows[i].why))
            fail_msg("row %zu: '%s' names neither %s nor '%s'", i, err.message, rows[i].where, rows[i].why);
    }
}

/* A table that says how long it is: no part of it passes for the whole. */
static void every_cut_is_refused(void **state) {
    (void)state;
    struct mo_profile_table t;
    moire_error err = {0};
    for (size_t n = 0; n < sizeof good - 1; n++) {
        assert_int_equal(mo_profile_table_parse(the_env(), "p.csv", good, n, &t, &err), MOIRE_EFORMAT);
        assert_non_null(strstr(err.message, "p.csv:"));
    }
    assert_int_equal(parse(good, &t, NULL), MOIRE_OK);
    mo_profile_table_free(&t);
}

/* Whatever was measured: once settled, the written table is one that the reader takes. */
static void settled_times_are_read_back(void **state) {
    (void)state;
    enum { COUNTS = 4, PRESSURES = 3, ROUNDS = 200 };
    uint64_t rng = 9;
    int settled = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct mo_profile_table t = {.region = mo_region_create(the_env()),
                                     .n_layers = 1,
                                     .n_counts = COUNTS,
                                     .n_lines = PRESSURES,
                                     .counts = {1, 2, 4, 8}},
                                back;
        struct mo_profile_line lines[PRESSURES];
        double us[PRESSURES][COUNTS];
        t.lines = lines;
        for (int i = 0; i < PRESSURES; i++) {
            for (int c = 0; c < COUNTS; c++) {
                rng = rng * UINT64_C(6364136223846793005) + 1442695040888963407;
                us[i][c] = 1 + (double)(rng >> 40) * (round % 2 ? 1e-3 : 1e-5);
            }
            settled += mo_profile_settle(us[i], i ? us[i - 1] : NULL, COUNTS);
            assert_int_equal(mo_profile_settle(us[i], i ? us[i - 1] : NULL, COUNTS), 0);
            lines[i] = (struct mo_profile_line){.batch = 1, .pressure = 0.2 * i, .name = "x", .us = us[i]};
        }
        size_t n;
        moire_error err;
        char *text = mo_profile_table_text(&t, &n);
        assert_non_null(text);
        if (parse(text, &back, &err)) fail_msg("round %d: %s", round, err.message);
        mo_profile_table_free(&back);
        mo_profile_table_free(&t);
    }
    assert_true(settled > ROUNDS); /* most of them were nonsense */
    double fine[] = {100, 52, 30, 28};
    assert_int_equal(mo_profile_settle(fine, NULL, COUNTS), 0);
    assert_true(fine[0] == 100 && fine[3] == 28);
}

/* A time, or what stands in its place when a measurement goes wrong. */
static double noisy(struct mo_rng *rng) {
    static const double extremes[] = {0,    -1,   NAN, INFINITY, -INFINITY, 1e-300, 1e-7,  5e-4,
                                      1e-3, 9e-4, 1e9, 2e9,      1e12,      1e15,   1e300, DBL_TRUE_MIN};
    if (mo_rng_uniform(rng) < 0.25) return extremes[(size_t)(mo_rng_uniform(rng) * 1e6) % COUNT(extremes)];
    return pow(10, -4 + 12 * mo_rng_uniform(rng));
}

/* Whatever the measurement gave, in any column: what is written is read back, times as they were settled. */
static void whatever_is_written_is_read(void **state) {
    (void)state;
    enum { COUNTS = 5, PRESSURES = 4, LAYERS = 2, LINES = LAYERS * PRESSURES, ROUNDS = 2000, SEED = 15 };
    static const char *const texts[] = {"",          "a,b",        "two\nlines", "tab\tand\rreturn",
                                        "# lines 3", "caf\xc3\xa9"};
    struct mo_rng rng;
    mo_rng_seed(&rng, SEED, 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct mo_profile_table t = {.region = mo_region_create(the_env()),
                                     .model = texts[round % 6],
                                     .machine = texts[round / 6 % 6],
                                     .note = texts[round / 36 % 6],
                                     .units = round & 1,
                                     .locality = round & 2,
                                     .cold = round & 4,
                                     .n_layers = LAYERS,
                                     .n_counts = COUNTS,
                                     .n_lines = LINES,
                                     .counts = {1, 2, 4, 8, 1024}},
                                back;
        struct mo_profile_line lines[LINES];
        double us[LINES][COUNTS];
        t.lines = lines;
        for (int i = 0; i < LINES; i++) {
            lines[i] = (struct mo_profile_line){.layer = i / PRESSURES,
                                                .batch = 1,
                                                .pressure = i % PRESSURES / 5.0,
                                                .kib = noisy(&rng),
                                                .units = noisy(&rng),
                                                .block_kib = noisy(&rng),
                                                .l3_kib = noisy(&rng),
                                                .cold_us = noisy(&rng),
                                                .us = us[i]};
            snprintf(lines[i].name, sizeof lines[i].name, "%s", texts[(round + i) % 6]);
            for (int c = 0; c < COUNTS; c++)
                us[i][c] = noisy(&rng);
            mo_profile_settle(us[i], i % PRESSURES ? us[i - 1] : NULL, COUNTS);
            assert_int_equal(mo_profile_settle(us[i], i % PRESSURES ? us[i - 1] : NULL, COUNTS), 0);
        }
        size_t n;
        moire_error err;
        char *text = mo_profile_table_text(&t, &n);
        assert_non_null(text);
        if (parse(text, &back, &err)) fail_msg("seed %d, round %d: %s", SEED, round, err.message);
        assert_int_equal(back.n_lines, LINES);
        for (int i = 0; i < LINES * COUNTS; i++) {
            double was = us[i / COUNTS][i % COUNTS], is = back.lines[i / COUNTS].us[i % COUNTS];
            if (fabs(is / was - 1) > 1e-4)
                fail_msg("seed %d, round %d: %g us become %g", SEED, round, was, is);
        }
        mo_profile_table_free(&back);
        mo_profile_table_free(&t);
    }
}

static void every_cut_and_flip_is_survived(void **state) {
    (void)state;
    struct mo_profile_table t;
    unsigned rng = 7;
    for (int round = 0; round < 4000; round++) {
        char text[sizeof good];
        memcpy(text, good, sizeof text);
        size_t n = sizeof good - 1;
        for (int k = 0; k < round % 3; k++) {
            rng = rng * 1103515245u + 12345;
            text[rng / 65536 % n] = (char)(rng >> 8);
        }
        if (round % 2) n = (size_t)(round / 2) % n;
        moire_error err;
        if (mo_profile_table_parse(the_env(), "p.csv", text, n, &t, &err)) continue;
        struct mo_profile *p;
        if (!mo_profile_table_profile(the_env(), &t, 0, 4, &p, NULL)) {
            for (int c = 1; c <= 4; c++)
                assert_true(mo_profile_time(p, c, 0, t.n_layers) > 0);
            mo_profile_destroy(p);
        }
        mo_profile_table_free(&t);
    }
}

/* Two versions of one layer: the first faster alone, the second with less traffic.  On a machine whose memory
 * the first one's re-reads would fill, the second is chosen as soon as neighbours interfere; what was
 * measured under pressure comes before what the rules say. */
static void versions_suit_the_pressure(void **state) {
    (void)state;
    static const char text[] =
        HEAD LOCAL "0,a,0,1,0,400,2,50,1200,1000,520\n0,a,1,1,0,400,2,200,500,1080,560\n";
    static const char pressed[] =
        HEAD LOCAL "0,a,0,1,0,400,2,50,1200,1000,520\n0,a,0,1,0.6,400,2,50,1200,1050,530\n"
                   "0,a,1,1,0,400,2,200,500,1080,560\n0,a,1,1,0.6,400,2,200,500,1081,560\n";
    const struct mo_profile_machine m = {
        .cores = 2, .private_bytes = 100 * 1024, .slice_bytes = 400 * 1024, .slice_cores = 2, .bytes_ns = 1};
    struct mo_profile_table t;
    struct mo_profile *p;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(parse(i ? pressed : text, &t, NULL), MOIRE_OK);
        assert_int_equal(mo_profile_table_profile(the_env(), &t, 0, 2, &p, NULL), MOIRE_OK);
        assert_int_equal(mo_profile_versions(&m, &t, p, NULL), MOIRE_OK);
        /* half the slice is its part: half of what it reads again goes to memory */
        assert_true(mo_profile_reread(&m, &t.lines[0], 1, true) == 400 * 1024);
        assert_true(mo_profile_reread(&m, &t.lines[0], 1, false) == 0);
        /* a block of twice the private cache reads everything twice */
        const struct mo_profile_line *second = &t.lines[t.n_lines - 1];
        assert_true(mo_profile_reread(&m, second, 1, true) == 300 * 1024);
        assert_int_equal(mo_profile_at(p, 0, 1, 0, 1).solo, 1000000);
        int64_t at_3 = mo_profile_at(p, 0.6, 1, 0, 1).solo;
        /* the rules: (400 + 400) KiB at half the ceiling, 1.64 ms; (400 + 300) KiB 1.43 ms */
        assert_int_equal(at_3, i ? 1000000 : 1080000);
        assert_int_equal(p->needed[i ? 1 : 2], 1);
        mo_profile_destroy(p);
        mo_profile_table_free(&t);
    }
}

static void profiles_interpolate_and_find_blocks(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_profile *p = mo_profile_create(&env, 4, 4);
    mo_profile_record(p, 1, (int64_t[]){400, 800, 40, 400});
    mo_profile_record(p, 1, (int64_t[]){500, 700, 40, 400}); /* minima are kept */
    mo_profile_record(p, 4, (int64_t[]){100, 175, 40, 100});
    mo_profile_finish(p);
    assert_int_equal(mo_profile_time(p, 1, 0, 4), 1540);
    assert_int_equal(mo_profile_time(p, 4, 0, 4), 415);
    assert_int_equal(mo_profile_time(p, 2, 0, 1), 200);
    assert_int_equal(mo_profile_time(p, 9, 0, 4), 415);
    assert_int_equal(mo_profile_fastest(p, 0, 4), 4);
    assert_int_equal(mo_profile_block(p, 1, 0, 1100), 2);
    assert_int_equal(mo_profile_block(p, 1, 0, 1), 1); /* at least one layer */
    assert_int_equal(mo_profile_block(p, 1, 1, 100000), 4);
    assert_int_equal(mo_profile_block(p, 1, 2, 200), 3);
    assert_int_equal(mo_profile_block(p, 1, 2, 350), 4); /* 40 of 350 are brief: with the 400 behind them */
    assert_int_equal(mo_profile_block(p, 1, 3, 5000), 4);
    mo_profile_destroy(p);
}

/* A file may say that each layer has 1e18 operations; ten of them are more than there are numbers. */
static void sums_end_at_the_largest_number(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_profile *p = mo_profile_create(&env, 10, 1);
    int64_t ops[10];
    for (int i = 0; i < 10; i++)
        ops[i] = INT64_C(1000000000000000000);
    mo_profile_operations(p, ops);
    assert_true(mo_profile_ops(p, 0, 9) == 9 * ops[0]);
    assert_true(mo_profile_ops(p, 0, 10) == INT64_MAX);
    mo_profile_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiles_interpolate_and_find_blocks),
        cmocka_unit_test(a_table_becomes_a_profile),
        cmocka_unit_test(what_is_written_reads_the_same),
        cmocka_unit_test(cold_times_come_along),
        cmocka_unit_test(operations_come_along),
        cmocka_unit_test(bad_tables_are_refused_with_their_line),
        cmocka_unit_test(settled_times_are_read_back),
        cmocka_unit_test(whatever_is_written_is_read),
        cmocka_unit_test(every_cut_and_flip_is_survived),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(versions_suit_the_pressure),
        cmocka_unit_test(sums_end_at_the_largest_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
