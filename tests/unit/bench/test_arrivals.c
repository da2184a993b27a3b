/* SPDX-License-Identifier: Apache-2.0
 * test_arrivals.c - Poisson schedules: determinism, independence, statistics, files. */
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
#include "bench/load/arrivals.h"
#include "bench/data/scenario.h"

static const int64_t second = 1000000000;
static const struct mo_process poisson; /* the zero value */

static struct mo_bench_schedule draw(uint64_t seed, const double *rates, int n, int64_t seconds) {
    struct mo_env env = mo_env_default();
    struct mo_bench_schedule s;
    assert_int_equal(mo_bench_schedule_draw(&env, &poisson, seed, rates, NULL, n, 0, seconds * second,
                                            seconds * second, &s, NULL),
                     0);
    return s;
}

static void drop(struct mo_bench_schedule *s) {
    struct mo_env env = mo_env_default();
    mo_bench_schedule_free(&env, s);
}

static void same_seed_same_arrivals(void **state) {
    (void)state;
    const double rates[] = {50, 20};
    struct mo_bench_schedule a = draw(7, rates, 2, 20), b = draw(7, rates, 2, 20), c = draw(8, rates, 2, 20);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.items, b.items, (size_t)a.n * sizeof *a.items);
    assert_true(a.items[0].at_ns != c.items[0].at_ns);
    drop(&a);
    drop(&b);
    drop(&c);
}

/* Rates follow the curve, and where it is flat a curve changes nothing. */
static void curves_shape_the_rate(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    double at[] = {0, 20, 30, 60}, rate[] = {100, 0, 400, 200}, flat[] = {400, 400, 400, 400};
    const struct mo_bench_curve curves[] = {{4, at, rate}, {4, at, flat}};
    const double full[] = {400, 400};
    struct mo_bench_schedule s, plain = draw(3, full, 2, 100);
    assert_int_equal(
        mo_bench_schedule_draw(&env, &poisson, 3, full, curves, 2, 0, 100 * second, 100 * second, &s, NULL),
        0);
    int n[4] = {0}, seen = 0, seen_plain = 0;
    for (int i = 0; i < s.n; i++) {
        double t = (double)s.items[i].at_ns * 1e-9;
        if (!s.items[i].tenant) n[t < 20 ? 0 : t < 30 ? 1 : t < 60 ? 2 : 3]++;
        seen += s.items[i].tenant == 1;
    }
    for (int i = 0; i < plain.n; i++)
        seen_plain += plain.items[i].tenant == 1;
    assert_int_equal(seen, seen_plain);
    assert_int_equal(n[1], 0);
    assert_true(abs(n[0] - 2000) < 200 && abs(n[2] - 12000) < 500 && abs(n[3] - 8000) < 400);
    drop(&s);
    drop(&plain);
}

/* A tenant's arrivals do not depend on the others, and another rate only stretches the gaps. */
static void streams_are_independent(void **state) {
    (void)state;
    const double both[] = {50, 20}, one[] = {50}, twice[] = {100};
    struct mo_bench_schedule a = draw(3, both, 2, 20), b = draw(3, one, 1, 20), c = draw(3, twice, 1, 20);
    int k = 0;
    for (int i = 0; i < a.n; i++)
        if (a.items[i].tenant == 0) assert_int_equal(a.items[i].at_ns, b.items[k++].at_ns);
    assert_int_equal(k, b.n);
    for (int i = 0; i < 100; i++)
        assert_true(llabs(b.items[i].at_ns - 2 * c.items[i].at_ns) <= 2);
    drop(&a);
    drop(&b);
    drop(&c);
}

/* Over 20,000 gaps: the mean within 3 %, variance = mean squared, P(gap > mean) = 1/e, counts of equal
 * windows with variance = mean. */
static void gaps_are_exponential(void **state) {
    (void)state;
    const double rates[] = {100};
    enum { SECONDS = 200 };
    struct mo_bench_schedule s = draw(1, rates, 1, SECONDS);
    double sum = 0, squares = 0, count_squares = 0;
    int longer = 0, counts[SECONDS] = {0};
    for (int i = 0; i < s.n; i++) {
        double gap = (double)(s.items[i].at_ns - (i ? s.items[i - 1].at_ns : 0)) * 1e-9;
        sum += gap;
        squares += gap * gap;
        longer += gap > 0.01;
        counts[s.items[i].at_ns / second]++;
    }
    double n = s.n, mean = sum / n, variance = squares / n - mean * mean;
    assert_true(fabs(mean * 100 - 1) < 0.03);
    assert_true(fabs(variance / (mean * mean) - 1) < 0.06);
    assert_true(fabs(longer / n - exp(-1)) < 0.015);
    for (int i = 0; i < SECONDS; i++)
        count_squares += (counts[i] - 100.0) * (counts[i] - 100.0);
    assert_true(fabs(count_squares / SECONDS / 100 - 1) < 0.35);
    drop(&s);
}

static void in_order_and_inside(void **state) {
    (void)state;
    const double rates[] = {30, 30, 30};
    struct mo_bench_schedule s = draw(5, rates, 3, 10);
    for (int i = 0; i < s.n; i++) {
        assert_true(s.items[i].at_ns >= 0 && s.items[i].at_ns < 10 * second);
        if (i) assert_true(s.items[i].at_ns >= s.items[i - 1].at_ns);
    }
    drop(&s);
}

static void bad_rates_and_floods_are_refused(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_bench_schedule s;
    const double bad[] = {-1, NAN, INFINITY}, flood[] = {1e12};
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            mo_bench_schedule_draw(&env, &poisson, 1, &bad[i], NULL, 1, 0, second, second, &s, NULL),
            MOIRE_EINVAL);
    assert_int_equal(mo_bench_schedule_draw(&env, &poisson, 1, flood, NULL, 1, 0, second, second, &s, NULL),
                     MOIRE_ELIMIT);
}

/* Bursts: the mean rate holds, gaps of the renewal process have its coefficient of variation, and counts in
 * long windows have the index of dispersion CV^2 for both kinds. */
static void bursts_have_the_asked_dispersion(void **state) {
    (void)state;
    enum { WINDOWS = 4000, GAPS = 600 };
    static const char *const texts[] = {"gamma:4", "mmpp:4"};
    for (int kind = 0; kind < 2; kind++) {
        struct mo_process p;
        struct mo_process_state s;
        static int counts[WINDOWS];
        double at = 0, gaps = 0, squares = 0, n = 0, dispersion = 0;
        memset(counts, 0, sizeof counts);
        assert_true(mo_process_parse(texts[kind], &p));
        mo_process_start(&s, &p, 3, 0);
        for (double gap; (at += gap = mo_process_gap(&s)) < (double)WINDOWS * GAPS; n++) {
            counts[(int)(at / GAPS)]++;
            gaps += gap;
            squares += gap * gap;
        }
        for (int i = 0; i < WINDOWS; i++)
            dispersion += (counts[i] - (double)GAPS) * (counts[i] - (double)GAPS) / GAPS / WINDOWS;
        double cv = sqrt(squares / n - gaps / n * (gaps / n)) / (gaps / n);
        assert_true(fabs(n / WINDOWS / GAPS - 1) < 0.02);
        assert_true(fabs(dispersion / 16 - 1) < 0.1);
        assert_true(kind == 0 ? fabs(cv / 4 - 1) < 0.03 : cv > 1.5 && cv < 4);
    }
}

/* Gaps are equal but for the first, and streams do not arrive together. */
static void uniform_arrivals_keep_their_distance(void **state) {
    (void)state;
    struct mo_process_state a, b;
    const struct mo_process uniform = {.kind = MO_PROCESS_UNIFORM};
    for (uint64_t seed = 1; seed < 20; seed++) {
        mo_process_start(&a, &uniform, seed, 0);
        mo_process_start(&b, &uniform, seed, 1);
        double first = mo_process_gap(&a);
        assert_true(first >= 0 && first < 1 && first != mo_process_gap(&b));
        for (int i = 0; i < 10; i++)
            assert_true(mo_process_gap(&a) == 1);
    }
}

static void processes_are_named(void **state) {
    (void)state;
    struct mo_process p;
    assert_true(mo_process_parse("poisson", &p) && p.kind == MO_PROCESS_POISSON);
    assert_true(mo_process_parse("uniform", &p) && p.kind == MO_PROCESS_UNIFORM);
    assert_true(mo_process_parse("mmpp:2.5", &p) && p.kind == MO_PROCESS_MMPP && p.cv == 2.5);
    static const char *const bad[] = {"",        "gamma",   "gamma:",    "gamma:1",  "gamma:x",
                                      "mmpp:4x", "mmpp:50", "weibull:2", "uniform:2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(mo_process_parse(bad[i], &p));
}

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void files_round_trip(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    const double rates[] = {40, 10};
    char path[] = "/tmp/moire-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct mo_bench_schedule a = draw(9, rates, 2, 5), b;
    assert_int_equal(mo_bench_schedule_write(&a, path, NULL), 0);
    assert_int_equal(mo_bench_schedule_read(&env, path, 2, &b, NULL), 0);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.items, b.items, (size_t)a.n * sizeof *a.items);
    assert_int_equal(a.window_ns, b.window_ns);
    drop(&b);
    assert_int_equal(mo_bench_schedule_read(&env, path, 1, &b, NULL),
                     MOIRE_EFORMAT); /* tenant 1 is unknown */
    static const char *const broken[] = {
        "",
        "nonsense\n",
        "# moire schedule 1 warmup_ns 0 window_ns 9 total_ns 9 n 2\n1,0\n",
        "# moire schedule 1 warmup_ns 0 window_ns 9 total_ns 9 n 2\n5,0\n4,0\n",
        "# moire schedule 1 warmup_ns 0 window_ns 9 total_ns 9 n 1\n5,0x\n",
        "# moire schedule 1 warmup_ns 0 window_ns 9 total_ns 9 n -1\n",
        "# moire schedule 1 warmup_ns 0 window_ns 9 total_ns 9 n 99999999999\n"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        write_text(path, broken[i]);
        assert_int_equal(mo_bench_schedule_read(&env, path, 2, &b, NULL), MOIRE_EFORMAT);
    }
    drop(&a);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_seed_same_arrivals),
        cmocka_unit_test(streams_are_independent),
        cmocka_unit_test(curves_shape_the_rate),
        cmocka_unit_test(gaps_are_exponential),
        cmocka_unit_test(bursts_have_the_asked_dispersion),
        cmocka_unit_test(uniform_arrivals_keep_their_distance),
        cmocka_unit_test(processes_are_named),
        cmocka_unit_test(in_order_and_inside),
        cmocka_unit_test(bad_rates_and_floods_are_refused),
        cmocka_unit_test(files_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
