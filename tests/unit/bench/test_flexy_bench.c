/* SPDX-License-Identifier: Apache-2.0
 * test_flexy_bench.c - `moire bench flexy`: its workloads are those of the paper's tables, its document has
 * its form and repeats itself, its summary follows from its rows, and what cannot be is refused. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/data/json_read.h"
#include "bench/flexy/flexy_bench.h"
#include "bench/flexy/flexy_rows.h"
#include "bench/flexy/flexy_systems.h"

enum { SEEDS = 2 };

static struct mo_env env;
static char folder[64], output[96];

static int enter(void **state) {
    (void)state;
    env = mo_env_default();
    snprintf(folder, sizeof folder, "/tmp/moire-flexy-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(output, sizeof output, "%s/d.json", folder);
    return 0;
}

static int leave(void **state) {
    (void)state;
    unlink(output);
    return rmdir(folder);
}

/* --- workloads ------------------------------------------------------------------------------------------ */
static void tables_are_the_paper_s(void **state) {
    int n[2] = {0}, sum[2] = {0};
    (void)state;
    for (int i = 0; i < MO_FLEXY_TASKS; i++) {
        n[mo_flexy_is_batch(i)]++;
        sum[mo_flexy_is_batch(i)] += mo_flexy_tasks[i].ms;
    }
    assert_int_equal(n[0], 10);
    assert_int_equal(n[1], 4);
    assert_int_equal(sum[0], 892);
    assert_int_equal(sum[1], 4570);
    for (int i = 0; i < MO_FLEXY_WORKLOADS; i++) {
        const struct mo_flexy_workload *w = &mo_flexy_workloads[i];
        const double user = w->user_s * w->user_jobs, batch = w->batch_s * (MO_FLEXY_JOBS - w->user_jobs);
        assert_float_equal(100 * batch / (user + batch), w->batch_pct, 1);
        assert_ptr_equal(mo_flexy_workload_find(w->name), w);
    }
    assert_null(mo_flexy_workload_find("W4"));
}

/* Jobs come in order, have tasks of their class in number, and at twice the factor come half as fast; their
 * execution times are the table's, up to whole tasks. */
static void jobs_are_drawn_as_asked(void **state) {
    static struct mo_flexy_load one, two, other;
    (void)state;
    for (int i = 0; i < MO_FLEXY_WORKLOADS; i++) {
        const struct mo_flexy_workload *w = &mo_flexy_workloads[i];
        double ms[2] = {0}, most[2] = {0};
        int users = 0;
        mo_flexy_load_draw(w, 1, 4, 7, &one);
        mo_flexy_load_draw(w, 2, 4, 7, &two);
        mo_flexy_load_draw(w, 1, 4, 8, &other);
        assert_memory_not_equal(&one, &other, sizeof one);
        assert_int_equal(one.job[0].arrival, 0);
        for (int k = 0; k < MO_FLEXY_JOBS; k++) {
            const struct mo_flexy_job *j = &one.job[k];
            const bool batch = mo_flexy_is_batch(j->task);
            assert_true(!k || j->arrival >= one.job[k - 1].arrival);
            assert_true(llabs(two.job[k].arrival - 2 * j->arrival) <= 2);
            assert_int_equal(two.job[k].n_tasks, j->n_tasks);
            assert_true(j->n_tasks >= 1 && j->outstanding >= 1 && j->outstanding <= 8);
            users += !batch;
            ms[batch] += (double)j->n_tasks * mo_flexy_tasks[j->task].ms;
            most[batch] += mo_flexy_tasks[j->task].ms;
        }
        assert_int_equal(users, w->user_jobs);
        assert_float_equal(ms[0], 1e3 * w->user_s * users, most[0]);
        assert_float_equal(ms[1], 1e3 * w->batch_s * (MO_FLEXY_JOBS - users), most[1]);
    }
}

/* --- runs ----------------------------------------------------------------------------------------------- */
/* All tasks are answered; only resets throw work away; cut tasks lose none. */
static void runs_answer_every_task(void **state) {
    (void)state;
    struct mo_env own = mo_env_default();
    const char *const *names = mo_flexy_system_names();
    for (int i = 0; names[i]; i++) {
        struct mo_flexy_chosen c;
        struct mo_flexy_ran ran, again;
        moire_error err = {0};
        const struct mo_flexy_run_options o = {.workload = &mo_flexy_workloads[0],
                                               .f = 0.5,
                                               .sla_ms = 200,
                                               .reset_ms = 1000,
                                               .devices = 4,
                                               .seed = 3};
        assert_int_equal(mo_flexy_system_find(names[i], 4, &c, &err), MOIRE_OK);
        if (mo_flexy_run(&own, &c.system, &o, &ran, &err)) fail_msg("%s", err.message);
        assert_int_equal(mo_flexy_run(&own, &c.system, &o, &again, &err), MOIRE_OK);
        assert_memory_equal(&ran, &again, sizeof ran);
        const bool resets = strstr(names[i], "reset") || !strcmp(names[i], "reef");
        assert_int_equal(ran.resets > 0, resets);
        assert_int_equal(ran.lost_ms > 0, resets);
        assert_true(ran.in_time > 0 && ran.in_time <= ran.user && ran.batch > 0);
        assert_true(ran.utilisation > 0 && ran.utilisation <= 1);
        assert_true(ran.batch_slowdown >= 1);
    }
}

/* --- the document --------------------------------------------------------------------------------------- */
static struct mo_flexy_bench_options small(void) {
    return (struct mo_flexy_bench_options){.system = {"flexy-1", "moire-classes"},
                                           .workload = {"W1"},
                                           .load = {0.25, 0.5},
                                           .n_systems = 2,
                                           .n_workloads = 1,
                                           .n_loads = 2,
                                           .n_seeds = SEEDS,
                                           .jobs = 2,
                                           .output = output};
}

static int bench(const struct mo_flexy_bench_options *o, json_t **d, moire_error *err) {
    char *argv[] = {(char *)"moire", (char *)"bench"};
    struct mo_bench_session session;
    assert_int_equal(mo_bench_session_open(&env, 2, argv, &session, NULL), MOIRE_OK);
    session.quiet = true;
    const int code = mo_flexy_bench(&session, o, d, err);
    mo_bench_session_close(&session);
    return code;
}

static void a_document_has_its_form_and_repeats_itself(void **state) {
    static const char *const keys[] = {"utilisation", "within_sla_pct", "resets", "batch_slowdown",
                                       "lost_ms"};
    struct mo_flexy_bench_options o = small();
    json_t *first, *again, *row;
    moire_error err = {0};
    size_t i;
    (void)state;
    if (bench(&o, &first, &err)) fail_msg("%s", err.message);
    assert_true(json_is_true(json_object_get(first, "complete")));
    const json_t *results = json_object_get(first, "results"), *summary = json_object_get(first, "summary");
    assert_int_equal(json_array_size(results), 4);
    json_array_foreach((json_t *)results, i, row) {
        char ci[40];
        assert_string_equal(mo_json_text(row, "workload"), "W1");
        assert_string_equal(mo_json_text(row, "policy"), i < 2 ? "flexy-1" : "moire-classes");
        assert_float_equal(mo_json_number(row, "f"), (i % 2 ? 0.5 : 0.25), 0);
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            snprintf(ci, sizeof ci, "%s_ci", keys[k]);
            assert_true(json_is_real(json_object_get(row, keys[k])));
            assert_true(json_is_real(json_object_get(row, ci)));
        }
    }
    assert_int_equal(json_array_size(json_object_get(summary, "policies")), 2);
    assert_int_equal(json_array_size(json_object_get(summary, "resets")), 0);
    unlink(output);
    o.jobs = 1;
    assert_int_equal(bench(&o, &again, &err), MOIRE_OK);
    assert_true(json_equal(results, json_object_get(again, "results")));
    assert_true(json_equal(summary, json_object_get(again, "summary")));
    json_decref(again);
    char page[120];
    snprintf(page, sizeof page, "%s/p.html", folder);
    assert_int_equal(mo_flexy_bench_report(&env, first, page, &err), MOIRE_OK);
    unlink(page);
    json_decref(first);
}

static void a_document_is_taken_up_if_it_was_made_alike(void **state) {
    struct mo_flexy_bench_options o = small();
    json_t *first, *again;
    moire_error err = {0};
    (void)state;
    o.n_systems = 1;
    assert_int_equal(bench(&o, &first, &err), MOIRE_OK);
    o.n_systems = 2;
    o.resume = true;
    if (bench(&o, &again, &err)) fail_msg("%s", err.message);
    assert_int_equal(json_array_size(json_object_get(again, "results")), 4);
    json_decref(again);
    o.n_seeds = 1;
    assert_int_equal(bench(&o, &again, &err), MOIRE_EINVAL);
    assert_true(!again && strstr(err.message, "\"seeds\""));
    json_decref(first);
}

static void what_cannot_be_is_refused(void **state) {
    struct mo_flexy_bench_options o = small();
    struct mo_flexy_chosen c;
    json_t *d;
    moire_error err = {0};
    (void)state;
    o.system[0] = "flexy-4";
    assert_int_equal(bench(&o, &d, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "keeps 4 of 4 devices"));
    o.system[0] = "nobody";
    assert_int_equal(bench(&o, &d, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "no policy 'nobody'"));
    o = small();
    o.workload[0] = "W4";
    assert_int_equal(bench(&o, &d, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "no case 'W4'"));
    assert_null(d);
    assert_int_equal(mo_flexy_system_find("priority-3", 4, &c, &err), MOIRE_OK);
    assert_int_equal(c.own.keep, 3);
    assert_int_equal(mo_flexy_system_find("flexy-1x", 4, &c, &err), MOIRE_EINVAL);
    assert_int_equal(mo_flexy_system_find("flexy--1", 4, &c, &err), MOIRE_EINVAL);
}

/* --- the summary ---------------------------------------------------------------------------------------- */
static json_t *row(const char *policy, double f, double utilisation, double share, double resets) {
    return json_pack("{s:s, s:s, s:f, s:f, s:f, s:f}", "workload", "W1", "policy", policy, "f", f,
                     "utilisation", utilisation, "within_sla_pct", share, "resets", resets);
}

/* Between 60 % busy, 90 % in time and 80 %, 70 % lies 70 %, 80 %; another has these 80 % up to 80 % busy. */
static void a_summary_follows_from_its_rows(void **state) {
    (void)state;
    json_t *d = json_pack("{s:[o,o,o,o,o,o,o]}", "results", row("flexy-1", 0.2, 0.8, 70, 0),
                          row("flexy-1", 0.3, 0.6, 90, 0), row("moire-classes", 0.2, 0.9, 75, 0),
                          row("moire-classes", 0.3, 0.5, 95, 0), row("flexy-reset", 0.3, 0.4, 60, 4),
                          row("priority-reset", 0.3, 0.3, 60, 50), row("priority-reset", 0.2, 0.5, 50, 80));
    assert_int_equal(mo_flexy_rows_conclude(d, NULL), MOIRE_OK);
    const json_t *s = json_object_get(d, "summary"), *list = json_object_get(s, "policies"),
                 *theirs = json_array_get(list, 0), *own = json_array_get(list, 1),
                 *reset = json_object_get(s, "resets");
    assert_int_equal(json_array_size(list), 4);
    assert_float_equal(mo_json_number(theirs, "within_sla_pct_at_70"), 80, 1e-9);
    assert_float_equal(mo_json_number(theirs, "utilisation_as_flexy_1"), 0.7, 1e-9);
    assert_float_equal(mo_json_number(own, "within_sla_pct_at_70"), 85, 1e-9);
    assert_float_equal(mo_json_number(own, "utilisation_as_flexy_1"), 0.8, 1e-9);
    assert_true(json_is_null(json_object_get(json_array_get(list, 2), "within_sla_pct_at_70")));
    assert_int_equal(json_array_size(reset), 1);
    assert_float_equal(mo_json_number(json_array_get(reset, 0), "ratio"), 12.5, 1e-9);
    const json_t *claim = json_array_get(json_object_get(s, "claims"), 0);
    assert_float_equal(mo_json_number(claim, "claimed"), 98, 0);
    assert_float_equal(mo_json_number(claim, "reached"), 80, 1e-9);
    json_decref(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_the_paper_s),
        cmocka_unit_test(jobs_are_drawn_as_asked),
        cmocka_unit_test(runs_answer_every_task),
        cmocka_unit_test_setup_teardown(a_document_has_its_form_and_repeats_itself, enter, leave),
        cmocka_unit_test_setup_teardown(a_document_is_taken_up_if_it_was_made_alike, enter, leave),
        cmocka_unit_test_setup_teardown(what_cannot_be_is_refused, enter, leave),
        cmocka_unit_test(a_summary_follows_from_its_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
