/* SPDX-License-Identifier: Apache-2.0
 * test_solo_times.c - when solo times are trusted: series of made-up slices, rounds on a made-up machine with
 * a made-up clock, and what others use of the processors by made-up texts of the kernel. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "bench/load/solo_times.h"

static struct mo_solo_rule rule(void) {
    return (struct mo_solo_rule){.within = 0.05, .least_rounds = 2, .most_rounds = 8, .spare_s = 100};
}

static struct mo_solo_series series(const char *system, int threads, int n, const double *ms) {
    struct mo_solo_series s = {.system = system, .threads = threads, .n = n};
    for (int i = 0; i < n; i++)
        s.slice[i].least_ms = ms[i];
    return s;
}

/* --- the judgement -------------------------------------------------------------------------------------- */
static void two_shortest_times_must_agree(void **state) {
    (void)state;
    const struct mo_solo_rule r = rule();
    const struct mo_solo_series one = series("moire", 1, 1, (double[]){10});
    assert_int_equal(mo_solo_judge(&one, 1, 0, &r), MO_SOLO_APART);
    const struct mo_solo_series apart = series("moire", 1, 2, (double[]){10, 10.6});
    assert_int_equal(mo_solo_judge(&apart, 1, 0, &r), MO_SOLO_APART);
    assert_true(fabs(mo_solo_spread(&apart) - 0.06) < 1e-9);
    const struct mo_solo_series near = series("moire", 1, 2, (double[]){10.4, 10});
    assert_int_equal(mo_solo_judge(&near, 1, 0, &r), MO_SOLO_AGREED);
    assert_true(mo_solo_least(&near) == 10);
    /* one that was disturbed in between does not matter */
    const struct mo_solo_series third = series("moire", 1, 4, (double[]){57, 10.4, 22, 10.1});
    assert_int_equal(mo_solo_judge(&third, 1, 0, &r), MO_SOLO_AGREED);
    assert_true(mo_solo_least(&third) == 10.1);
    /* a lucky first time that nothing confirms */
    const struct mo_solo_series lucky = series("moire", 1, 4, (double[]){8, 10, 10.1, 10.2});
    assert_int_equal(mo_solo_judge(&lucky, 1, 0, &r), MO_SOLO_APART);
}

/* The disturbed run that a user met: ONNX Runtime took 577 ms with 2 threads and 150 with 1. */
static void more_threads_are_not_slower(void **state) {
    (void)state;
    const struct mo_solo_rule r = rule();
    const struct mo_solo_series s[] = {
        series("onnxruntime", 1, 2, (double[]){150, 151}), series("onnxruntime", 2, 2, (double[]){577, 580}),
        series("moire", 1, 2, (double[]){100, 101}), series("moire", 2, 2, (double[]){104, 104}),
        series("openvino", 2, 2, (double[]){300, 301})};
    assert_int_equal(mo_solo_judge(s, 5, 0, &r), MO_SOLO_AGREED);
    assert_int_equal(mo_solo_judge(s, 5, 1, &r), MO_SOLO_SLOWER);
    assert_int_equal(mo_solo_faster_with_fewer(s, 5, 1, &r), 0);
    assert_int_equal(mo_solo_judge(s, 5, 3, &r), MO_SOLO_AGREED); /* within 5 % */
    assert_int_equal(mo_solo_judge(s, 5, 4, &r), MO_SOLO_AGREED); /* it was not measured with fewer */
    /* the target takes the best time with at most so many threads, so that it stays near the truth */
    assert_true(mo_bench_solo_best(s, 5, 2, true) == 150);
    assert_true(mo_bench_solo_best(s, 5, 2, false) == 100);
    assert_true(mo_bench_solo_best(s + 4, 1, 1, true) == 0);
}

/* All models take turns: what another model needs with fewer threads says nothing of this one. */
static void models_are_judged_apart(void **state) {
    (void)state;
    const struct mo_solo_rule r = rule();
    struct mo_solo_series s[] = {
        series("moire", 1, 2, (double[]){8, 8.1}), series("moire", 2, 2, (double[]){5, 5.1}),
        series("moire", 1, 2, (double[]){130, 131}), series("moire", 2, 2, (double[]){80, 81})};
    s[2].model = s[3].model = 1;
    for (int i = 0; i < 4; i++)
        assert_int_equal(mo_solo_judge(s, 4, i, &r), MO_SOLO_AGREED);
    s[3].slice[0].least_ms = s[3].slice[1].least_ms = 150;
    assert_int_equal(mo_solo_judge(s, 4, 3, &r), MO_SOLO_SLOWER);
    assert_int_equal(mo_solo_faster_with_fewer(s, 4, 3, &r), 2);
}

static void busy_slices_do_not_count_as_quiet(void **state) {
    (void)state;
    const struct mo_solo_rule r = rule();
    struct mo_solo_series s = series("moire", 1, 3, (double[]){10, 10, 10});
    s.slice[0].busy = s.slice[2].busy = true;
    assert_int_equal(mo_solo_judge(&s, 1, 0, &r), MO_SOLO_BUSY);
    s.slice[2].busy = false;
    assert_int_equal(mo_solo_judge(&s, 1, 0, &r), MO_SOLO_AGREED);
}

/* --- rounds --------------------------------------------------------------------------------------------- */
struct machine {
    struct mo_solo_series *series;
    const double (*ms)[8]; /* of series i in its k-th slice; negative: it fails */
    double now;            /* seconds; a slice takes one */
    int order[64], n;      /* which series were measured */
    int code;              /* returned by every slice */
};

static int slice(void *self, int i, struct mo_solo_slice *out, moire_error *err) {
    (void)err;
    struct machine *m = self;
    double ms = m->ms[i][m->series[i].n];
    m->order[m->n++] = i;
    m->now += 1;
    m->series[i].lost = ms < 0;
    out->least_ms = ms;
    return m->code;
}

static double now_s(void *self) {
    return ((struct machine *)self)->now;
}

static int go(struct machine *m, int n, struct mo_solo_rule *r) {
    const struct mo_solo_source source = {slice, now_s, m};
    return mo_solo_rounds(&source, m->series, n, r, NULL);
}

static void a_quiet_machine_takes_two_rounds_in_turn(void **state) {
    (void)state;
    static const double ms[][8] = {{10, 10.2}, {6, 6.1}, {9, 9}};
    struct mo_solo_series s[] = {{.system = "moire", .threads = 1},
                                 {.system = "moire", .threads = 2},
                                 {.system = "onnxruntime", .threads = 1}};
    struct machine m = {.series = s, .ms = ms};
    struct mo_solo_rule r = rule();
    assert_int_equal(go(&m, 3, &r), 0);
    assert_int_equal(m.n, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(m.order[i], i % 3);
    assert_true(r.spare_s == 100);
}

static void a_short_disturbance_is_measured_away(void **state) {
    (void)state;
    /* series 1 is disturbed in its first two slices: slower than with fewer threads, and apart */
    static const double ms[][8] = {{150, 151}, {577, 430, 84, 83}};
    struct mo_solo_series s[] = {{.system = "onnxruntime", .threads = 1},
                                 {.system = "onnxruntime", .threads = 2}};
    struct machine m = {.series = s, .ms = ms};
    struct mo_solo_rule r = rule();
    assert_int_equal(go(&m, 2, &r), 0);
    assert_int_equal(s[0].n, 2); /* not measured again */
    assert_int_equal(s[1].n, 4);
    assert_int_equal(mo_solo_judge(s, 2, 1, &r), MO_SOLO_AGREED);
    assert_true(r.spare_s == 98);
    json_t *why = json_array();
    mo_bench_doubt_series("resnet50", s, 2, &r, why);
    assert_int_equal(json_array_size(why), 0);
    json_decref(why);
}

static void a_lasting_disturbance_ends_and_is_said(void **state) {
    (void)state;
    static const double ms[][8] = {
        {150, 151}, {577, 577, 577, 577, 577, 577, 577, 577}, {20, 30, 40, 50, 60, 70, 80, 90}, {-1}};
    struct mo_solo_series s[] = {{.system = "onnxruntime", .threads = 1},
                                 {.system = "onnxruntime", .threads = 2},
                                 {.system = "moire", .threads = 1},
                                 {.system = "ncnn", .threads = 1}};
    struct machine m = {.series = s, .ms = ms};
    struct mo_solo_rule r = rule();
    assert_int_equal(go(&m, 4, &r), 0);
    assert_int_equal(s[0].n, 2);
    assert_int_equal(s[1].n, 8);
    assert_int_equal(s[2].n, 8);
    assert_int_equal(s[3].n, 0); /* lost, and not asked again */
    assert_int_equal(m.n, 2 + 8 + 8 + 1);
    json_t *why = json_array();
    mo_bench_doubt_series("resnet50", s, 4, &r, why);
    assert_int_equal(json_array_size(why), 2);
    assert_string_equal(json_string_value(json_array_get(why, 0)),
                        "resnet50 on onnxruntime: 577.0 ms with 2 threads, but 150.0 ms with 1, in 8 slices");
    assert_string_equal(
        json_string_value(json_array_get(why, 1)),
        "resnet50 on moire with 1 thread: the two shortest of 8 times, 20.0 ms and more, differ by 50.0 %");
    json_decref(why);
}

static void spare_time_is_bounded(void **state) {
    (void)state;
    static const double ms[][8] = {{10, 20, 30, 40, 50, 60, 70, 80}, {10, 20, 30, 40, 50, 60, 70, 80}};
    struct mo_solo_series s[] = {{.system = "moire", .threads = 1}, {.system = "ncnn", .threads = 1}};
    struct machine m = {.series = s, .ms = ms};
    struct mo_solo_rule r = rule();
    r.spare_s = 3;
    assert_int_equal(go(&m, 2, &r), 0);
    assert_int_equal(s[0].n, 2 + 2); /* two more rounds, of 2 s each; the second one begins with 1 s left */
    assert_true(r.spare_s == -1);
    m = (struct machine){.series = s, .ms = ms, .code = MOIRE_EINTERRUPTED};
    s[0].n = s[1].n = 0;
    assert_int_equal(go(&m, 2, &r), MOIRE_EINTERRUPTED);
    assert_int_equal(m.n, 1);
    assert_int_equal(s[0].n, 0);
}

/* --- the processors ------------------------------------------------------------------------------------- */
static bool parse(const char *text, const bool *allowed, int room, struct mo_cpu_time *out) {
    FILE *f = fmemopen((void *)text, strlen(text), "r");
    assert_non_null(f);
    bool known = mo_cpu_time_parse(f, allowed, room, 100, out);
    fclose(f);
    return known;
}

static void only_allowed_processors_count(void **state) {
    (void)state;
    static const char text[] = "cpu  999 9 9 9 9 9 9 9 0 0\n"
                               "cpu0 100 20 30 1000 500 4 6 8 0 0\n"
                               "cpu1 200 0 0 1000 0 0 0 0 0 0\n"
                               "cpu2 300 0 0 1000 0 0 0 100 0 0\n"
                               "intr 5 cpu3 7\n";
    struct mo_cpu_time t;
    assert_true(parse(text, (bool[]){true, false, true}, 3, &t));
    assert_int_equal(t.cpus, 2);
    assert_true(fabs(t.busy_s - 4.6) < 1e-9); /* idle and waiting for a disk are not busy */
    assert_true(fabs(t.stolen_s - 1.08) < 1e-9);
    assert_true(parse(text, (bool[]){true}, 1, &t)); /* more processors than there is room for */
    assert_int_equal(t.cpus, 1);
    assert_false(parse(text, (bool[]){false, false, false}, 3, &t));
    assert_false(parse("cpu0 1 2 3\n", (bool[]){true}, 1, &t));
    assert_false(parse("MemTotal: 5\n", (bool[]){true}, 1, &t));
}

static struct mo_cpu_moment moment(double now, double busy, double stolen, double own) {
    return (struct mo_cpu_moment){
        .known = true, .now_s = now, .own_s = own, .all = {.busy_s = busy, .stolen_s = stolen, .cpus = 2}};
}

static void what_was_measured_is_not_others(void **state) {
    (void)state;
    struct mo_others o = {0}, sum = {0};
    assert_true(mo_others_cores(&o) == -1 && !mo_others_busy(&o));
    /* 10 s: 19.5 of 20 busy, 19 of them the measured program's */
    struct mo_cpu_moment from = moment(100, 50, 1, 7), to = moment(110, 69.5, 1, 26);
    mo_others_add(&o, &from, &to);
    assert_true(fabs(mo_others_cores(&o) - 0.05) < 1e-9);
    assert_false(mo_others_busy(&o));
    /* a neighbour on the same host takes half of a core */
    to.all.stolen_s = 6;
    mo_others_add(&sum, &from, &to);
    assert_true(fabs(mo_others_cores(&sum) - 0.55) < 1e-9);
    assert_true(mo_others_busy(&sum));
    /* the sum of both spans */
    mo_others_sum(&sum, &o);
    assert_true(fabs(mo_others_cores(&sum) - 0.3) < 1e-9);
    mo_others_sum(&sum, &(struct mo_others){0});
    assert_true(fabs(mo_others_cores(&sum) - 0.3) < 1e-9);
    /* one kernel tick too many in a short span is nobody */
    struct mo_others brief = {0};
    from = moment(0, 0, 0, 0);
    to = moment(0.05, 0.03, 0, 0);
    mo_others_add(&brief, &from, &to);
    assert_false(mo_others_busy(&brief));
    to.known = false;
    mo_others_add(&brief, &from, &to);
    assert_true(brief.seconds == 0.05);
}

static void a_busy_machine_is_said(void **state) {
    (void)state;
    json_t *why = json_array();
    mo_bench_doubt_machine(&(struct mo_others){.seconds = 10, .used_s = 1, .cpus = 2}, "before", why);
    assert_int_equal(json_array_size(why), 0);
    mo_bench_doubt_machine(&(struct mo_others){.seconds = 10, .used_s = 8, .cpus = 2},
                           "before the measurement", why);
    assert_int_equal(json_array_size(why), 1);
    assert_string_equal(json_string_value(json_array_get(why, 0)),
                        "other programs kept 0.80 of 2 cores busy before the measurement; on a quiet machine "
                        "it is at most 0.12");
    json_decref(why);
}

static void disturbed_runs_are_said(void **state) {
    (void)state;
    json_t *why = json_array();
    json_t *results = json_pack("[{s:[{s:f, s:b}, {}]}, {s:[{s:f, s:b}, {s:f, s:b}]}]", "loads",
                                "others_cores", 0.01, "others_busy", 0, "loads", "others_cores", 0.4,
                                "others_busy", 1, "others_cores", 0.3, "others_busy", 1);
    assert_non_null(results);
    mo_bench_doubt_runs(json_array_get(results, 9), why);
    assert_int_equal(json_array_size(why), 0);
    mo_bench_doubt_runs(results, why);
    assert_int_equal(json_array_size(why), 1);
    assert_string_equal(json_string_value(json_array_get(why, 0)),
                        "other programs ran during 2 of 4 runs under load, and kept up to 0.40 cores busy");
    json_decref(results);
    json_decref(why);
}

/* On this machine: the clocks go forward, and a process that is gone has used nothing. */
static void processor_time_of_processes(void **state) {
    (void)state;
    double before = mo_cpu_time_of(getpid());
    volatile double sink = 0;
    for (int i = 0; i < 20000000; i++)
        sink = sink + i;
    assert_true(mo_cpu_time_of(getpid()) > before);
    assert_true(mo_cpu_time_of(0x7ffffff0) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_shortest_times_must_agree),
        cmocka_unit_test(more_threads_are_not_slower),
        cmocka_unit_test(models_are_judged_apart),
        cmocka_unit_test(busy_slices_do_not_count_as_quiet),
        cmocka_unit_test(a_quiet_machine_takes_two_rounds_in_turn),
        cmocka_unit_test(a_short_disturbance_is_measured_away),
        cmocka_unit_test(a_lasting_disturbance_ends_and_is_said),
        cmocka_unit_test(spare_time_is_bounded),
        cmocka_unit_test(only_allowed_processors_count),
        cmocka_unit_test(what_was_measured_is_not_others),
        cmocka_unit_test(a_busy_machine_is_said),
        cmocka_unit_test(disturbed_runs_are_said),
        cmocka_unit_test(processor_time_of_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
