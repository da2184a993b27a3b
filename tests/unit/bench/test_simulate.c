/* SPDX-License-Identifier: Apache-2.0
 * test_simulate.c - the simulator against theory, against itself, and against bad input. */
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
#include "bench/sim/simulate.h"
#include "runtime/sim/reuse.h"
#include "tests/unit/bench/simulate_bed.h"

/* Poisson arrivals, constant service, one server: the mean wait is r / (2 (1 - r)) services. */
static void one_server_queues_as_theory_says(void **state) {
    (void)state;
    struct simulate_bed p;
    struct mo_bench_simulation m;
    simulate_bed_open(&p, ONE_CORE, ONE_TENANT);
    struct mo_bench_simulate_options o = simulate_bed_options(&p);
    assert_int_equal(mo_bench_simulation_open(&p.env, &o, &m, NULL), MOIRE_OK);
    for (int percent = 30; percent <= 80; percent += 25) {
        struct mo_bench_schedule s;
        double r = percent / 100.0;
        double rate = r * 1000, wait = 0;
        assert_int_equal(mo_bench_schedule_draw(&p.env, &(struct mo_process){0}, 5, &rate, NULL, 1, 0,
                                                200000000000, 201000000000, &s, NULL),
                         MOIRE_OK);
        struct mo_bench_record *records = calloc((size_t)s.n, sizeof *records);
        int64_t cut;
        assert_int_equal(
            mo_bench_simulate_play(&m, mo_policy_find("fcfs"), 1, &s, NULL, records, &cut, NULL, NULL),
            MOIRE_OK);
        int n = 0;
        for (int i = 0; i < s.n; i++) {
            if (records[i].end_ns < 0) continue;
            assert_int_equal(records[i].end_ns - records[i].start_ns, 1000000);
            wait += (double)(records[i].start_ns - s.items[i].at_ns) / 1e6;
            n++;
        }
        double expect = r / (2 * (1 - r));
        assert_true(n > s.n - 100);
        if (fabs(wait / n - expect) > 0.05 * expect)
            fail_msg("load %.2f: mean wait %.4f services, theory %.4f", r, wait / n, expect);
        free(records);
        mo_bench_schedule_free(&p.env, &s);
    }
    mo_bench_simulation_close(&m);
    simulate_bed_close(&p);
}

static char *document(const struct simulate_bed *p, int jobs) {
    struct mo_bench_simulate_options o = simulate_bed_options(p);
    struct mo_bench_session session = {.env = &p->env, .command = "test", .quiet = true, .cores = 2};
    o.jobs = jobs;
    o.serve.find_max = 0.9;
    snprintf(session.folder, sizeof session.folder, "%.60s", p->folder);
    session.signal_fd = -1;
    json_t *doc = NULL;
    moire_error err = {0};
    int code = mo_bench_simulate(&session, &o, &doc, &err);
    if (code) fail_msg("%s", err.message);
    char *text = json_dumps(doc, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
    json_decref(doc);
    return text;
}

static void the_document_depends_on_nothing_but_the_command(void **state) {
    (void)state;
    struct simulate_bed p;
    simulate_bed_open(&p, FOUR_CORES, TWO_TENANTS);
    char *one = document(&p, 1), *again = document(&p, 1), *three = document(&p, 3);
    assert_non_null(strstr(one, "ci95"));
    assert_string_equal(one, again);
    assert_string_equal(one, three);
    json_t *doc = json_loads(one, 0, NULL), *row, *point;
    size_t i, k;
    int bounds = 0;
    json_array_foreach(json_object_get(doc, "results"), i, row)
        json_array_foreach(json_object_get(row, "loads"), k, point) {
        const json_t *bound = json_object_get(point, "bound");
        if (json_is_true(json_object_get(point, "stopped_early"))) continue;
        assert_true(json_is_real(bound));
        assert_true(json_number_value(bound) >= json_number_value(json_object_get(point, "overall")));
        assert_true(json_number_value(json_object_get(point, "bound_worst")) >=
                    json_number_value(json_object_get(point, "worst_tenant")) - 1e-9);
        bounds++;
    }
    assert_true(bounds > 6);
    json_decref(doc);
    free(one);
    free(again);
    free(three);
    simulate_bed_close(&p);
}

static void bad_input_is_named(void **state) {
    (void)state;
    static const struct {
        const char *machine, *scenario, *file, *why;
    } rows[] = {
        {"{\"name\": \"m\", \"profiles\": \".\"}", ONE_TENANT, "m.json:1:", "cores"},
        {"{\"name\": \"m\", \"cores\": 0, \"profiles\": \".\"}", ONE_TENANT, "m.json:1:", "cores"},
        {"{\"name\": \"m\", \"cores\": 2, \"core\": 2}", ONE_TENANT, "m.json:1:", "core"},
        {"{\"name\": \"m\"", ONE_TENANT, "m.json:1:", ""},
        {FOUR_CORES, "{\"name\": \"s\", \"qos\": {\"ms\": 1}, \"tenants\": [{\"model\": \"c\"}]}",
         "s.json:1:", "c.csv: no profile of 'c'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct simulate_bed p;
        struct mo_bench_simulation m;
        moire_error err = {0};
        simulate_bed_open(&p, rows[i].machine, rows[i].scenario);
        struct mo_bench_simulate_options o = simulate_bed_options(&p);
        assert_int_not_equal(mo_bench_simulation_open(&p.env, &o, &m, &err), MOIRE_OK);
        if (!strstr(err.message, rows[i].file) || !strstr(err.message, rows[i].why))
            fail_msg("row %zu: '%s' names neither %s nor '%s'", i, err.message, rows[i].file, rows[i].why);
        simulate_bed_close(&p);
    }
}

/* --- contention ----------------------------------------------------------------------------------------- */
struct ends {
    int64_t at[4];
    int n;
};
static void note_end(void *ctx, int tenant, const struct mo_answer *a) {
    struct ends *e = ctx;
    (void)tenant;
    e->at[e->n++] = a->end;
}

/* Two queries of 1 ms each, the second 0.5 ms after the first; each alone asks for 2/3 of the ceiling. */
/* When two blocks end of which the second begins half a millisecond into the first. */
static void overlap(double cache_bytes, struct ends *ends) {
    struct mo_env env = mo_env_default();
    struct mo_profile *profile = mo_profile_create(&env, 1, 2);
    mo_profile_record(profile, 1, (int64_t[]){1000000});
    mo_profile_traffic(profile, (int64_t[]){2000000});
    mo_profile_finish(profile);
    struct mo_sim_config c = {.env = &env,
                              .policy = mo_policy_find("fcfs-1"),
                              .machine = {.n_cores = 2, .bytes_ns = 3, .cache_bytes = cache_bytes},
                              .max_queries = 8,
                              .max_tenants = 1,
                              .answer = note_end,
                              .ctx = ends};
    struct mo_sched_tenant_config tc = {.qos_ns = 9000000, .queue = 4, .instances = 4, .profile = profile};
    struct mo_sim *sim;
    int tenant;
    assert_int_equal(mo_sim_create(&c, &sim, NULL), MOIRE_OK);
    assert_int_equal(mo_sim_open(sim, &tc, &tenant, NULL), MOIRE_OK);
    mo_sim_advance(sim, 1);
    assert_int_equal(mo_sim_submit(sim, tenant, NULL, NULL, NULL), MOIRE_OK);
    mo_sim_advance(sim, 500001);
    assert_int_equal(mo_sim_submit(sim, tenant, NULL, NULL, NULL), MOIRE_OK);
    assert_int_equal(mo_sim_drain(sim), 0);
    assert_int_equal(mo_sim_broken(sim), 0);
    mo_sim_destroy(sim);
    mo_profile_destroy(profile);
}

/* The first has 0.5 ms left when they begin to overlap; the second has then done 0.5 and goes on alone.
 * Pace of the overlap: without a cache 4/3, for both get 3/4 of what they ask for; 1 when the model fits the
 * cache; 1.2 when a tenth of it does. */
static void blocks_slow_each_other_down_only_while_they_overlap(void **state) {
    (void)state;
    static const struct { double cache_bytes, pace; } cases[] = {{0, 4.0 / 3}, {2e6, 1}, {2e5, 1.2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ends ends = {.n = 0};
        int64_t first = (int64_t)(5e5 + 5e5 * cases[i].pace);
        overlap(cases[i].cache_bytes, &ends);
        assert_int_equal(ends.n, 2);
        assert_in_range(ends.at[0], first - 5, first + 15);
        assert_in_range(ends.at[1], first + 500000 - 5, first + 500000 + 25);
    }
}

/* A block that asks for little keeps its speed, the others share what it leaves. */
static void a_modest_block_is_not_slowed_by_greedy_ones(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct ends ends = {.n = 0};
    struct mo_profile *profile[2];
    for (int i = 0; i < 2; i++) { /* 0.5 and 4 bytes a ns; a ceiling of 3 */
        profile[i] = mo_profile_create(&env, 1, 2);
        mo_profile_record(profile[i], 1, (int64_t[]){1000000});
        mo_profile_traffic(profile[i], (int64_t[]){i ? 4000000 : 500000});
        mo_profile_finish(profile[i]);
    }
    struct mo_sim_config c = {.env = &env,
                              .policy = mo_policy_find("fcfs-1"),
                              .machine = {.n_cores = 2, .bytes_ns = 3},
                              .max_queries = 8,
                              .max_tenants = 2,
                              .answer = note_end,
                              .ctx = &ends};
    struct mo_sim *sim;
    assert_int_equal(mo_sim_create(&c, &sim, NULL), MOIRE_OK);
    mo_sim_advance(sim, 1);
    for (int i = 0; i < 2; i++) {
        struct mo_sched_tenant_config tc = {
            .qos_ns = 9000000, .queue = 4, .instances = 4, .profile = profile[i]};
        int tenant;
        assert_int_equal(mo_sim_open(sim, &tc, &tenant, NULL), MOIRE_OK);
        assert_int_equal(mo_sim_submit(sim, tenant, NULL, NULL, NULL), MOIRE_OK);
    }
    assert_int_equal(mo_sim_drain(sim), 0);
    assert_in_range(ends.at[0], 1000000, 1000010);
    /* alone it is at the ceiling too, 4/3; beside the modest one it gets 2.5 of 4 */
    assert_in_range(ends.at[1], 1000000 + (4000000 - 2500000) / 3, 1000020 + (4000000 - 2500000) / 3);
    mo_sim_destroy(sim);
    mo_profile_destroy(profile[0]);
    mo_profile_destroy(profile[1]);
}

/* One layer, two versions: the first faster alone, the second with a quarter of the traffic.  With every core
 * busy VELTAIR takes the second, layer-wise scheduling without versions stays with the first. */
static void versions_are_chosen_by_pressure(void **state) {
    (void)state;
    struct simulate_bed p;
    moire_error err;
    struct mo_bench_simulation m;
    struct mo_bench_played played[2];
    static const char *const policies[] = {"veltair-as", "veltair"};
    simulate_bed_open(&p,
                      "{\"name\": \"m\", \"cores\": 4, \"profiles\": \".\", \"memory_gib_s\": 2, \"caches\": "
                      "[{\"level\": 2, "
                      "\"kib\": 64, \"shared_by\": 1}, {\"level\": 3, \"kib\": 512, \"shared_by\": 4}]}",
                      ONE_TENANT);
    simulate_bed_put(&p, "a.csv",
                     "# moire-profile 1\nlayer,name,variant,batch,pressure,kib,units,block_kib,l3_kib,1,4\n"
                     "0,x,0,1,0,1000,64,32,8000,1000,260\n0,x,1,1,0,1000,64,32,1100,1100,290\n");
    struct mo_bench_simulate_options o = simulate_bed_options(&p);
    assert_int_equal(mo_bench_simulation_open(&p.env, &o, &m, &err), MOIRE_OK);
    assert_non_null(m.profile[0]->level);
    assert_int_equal(m.profile[0]->needed[2], 1);
    assert_int_equal(mo_profile_at(m.profile[0], 0, 1, 0, 1).solo, 1000000);
    assert_int_equal(mo_profile_at(m.profile[0], 1, 1, 0, 1).solo, 1100000);
    for (int i = 0; i < 2; i++) {
        struct mo_bench_arrival items[400];
        struct mo_bench_record records[400];
        struct mo_bench_schedule s = {
            .items = items, .n = 400, .window_ns = 100000000, .total_ns = 400000000};
        int64_t cut;
        for (int k = 0; k < s.n; k++)
            items[k] = (struct mo_bench_arrival){k * 250000, 0};
        assert_int_equal(mo_bench_simulate_play(&m, mo_policy_find(policies[i]), 1, &s, NULL, records, &cut,
                                                &played[i], &err),
                         MOIRE_OK);
    }
    assert_true(played[1].stats.kernel_core_ns < played[0].stats.kernel_core_ns);
    mo_bench_simulation_close(&m);
    simulate_bed_close(&p);
}

/* With all arrivals known nothing is found that is worse than the policy it starts from, or beats the bound.
 */
static void the_offline_schedule_lies_between_policy_and_bound(void **state) {
    (void)state;
    static const char *const names[] = {"moire", "offline", "bound"};
    struct simulate_bed p;
    struct mo_bench_session session;
    char *argv[] = {"moire", "sim"};
    json_t *document;
    simulate_bed_open(&p, FOUR_CORES, TWO_TENANTS);
    assert_int_equal(mo_bench_session_open(&p.env, 2, argv, &session, NULL), MOIRE_OK);
    session.quiet = true;
    struct mo_bench_simulate_options o = simulate_bed_options(&p);
    o.serve.n_loads = 1;
    o.serve.loads[0] = 0.9;
    o.serve.n_policies = 3;
    for (int i = 0; i < 3; i++)
        o.serve.policies[i] = names[i];
    assert_int_equal(mo_bench_simulate(&session, &o, &document, NULL), MOIRE_OK);
    const json_t *results = json_object_get(document, "results");
    for (int seed = 0; seed < 3; seed++) {
        double share[3];
        for (int i = 0; i < 3; i++) {
            const json_t *loads = json_object_get(json_array_get(results, 3 * i + seed), "loads");
            share[i] = json_number_value(json_object_get(json_array_get(loads, 0), "overall"));
        }
        assert_true(share[0] <= share[1] && share[1] <= share[2] + 1e-3);
        assert_true(share[0] < 1);
    }
    json_decref(document);
    mo_bench_session_close(&session);
    simulate_bed_close(&p);
}

/* A query that comes in late counts from when it was due, and with the machine at half speed for the first
 * two milliseconds, half of its work is done in them. */
static void late_queries_and_slow_times_count(void **state) {
    (void)state;
    struct simulate_bed p;
    struct mo_bench_simulation m;
    simulate_bed_open(&p, ONE_CORE, ONE_TENANT); /* a layer of 1 ms */
    struct mo_bench_simulate_options o = simulate_bed_options(&p);
    assert_int_equal(mo_bench_simulation_open(&p.env, &o, &m, NULL), MOIRE_OK);
    struct mo_bench_arrival items[] = {{0, 0}, {9000000, 0}};
    struct mo_bench_schedule s = {.items = items, .n = 2, .window_ns = 10000000, .total_ns = 20000000};
    const int64_t late[] = {1000000, 0};
    double done[] = {0, 500000, 1000000};
    const struct mo_sim_pace pace = {.step_ns = 1000000, .n_steps = 2, .n_cores = 1, .done = done};
    struct mo_bench_record records[2];
    int64_t cut;
    m.late_ns = late;
    for (int slow = 0; slow < 2; slow++) {
        m.pace = slow ? &pace : NULL;
        assert_int_equal(
            mo_bench_simulate_play(&m, mo_policy_find("fcfs-1"), 1, &s, NULL, records, &cut, NULL, NULL),
            MOIRE_OK);
        assert_int_equal(records[0].issue_ns, 1000000);
        assert_in_range(records[0].end_ns, slow ? 2499990 : 2000000, slow ? 2500010 : 2000010);
        assert_in_range(records[1].end_ns, 10000000, 10000010);
    }
    mo_bench_simulation_close(&m);
    simulate_bed_close(&p);
}

/* Two tenants of 8 MB around a cache of 8 MB: a layer that ran last is warm, one that others ran since pays
 * by their bytes, on two cores half as much. */
static void others_put_a_tenant_out_of_the_cache(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_sim_reuse reuse;
    struct mo_profile *p = mo_profile_create(&env, 2, 2);
    mo_profile_record(p, 1, (int64_t[]){1000000, 1000000});
    mo_profile_traffic(p, (int64_t[]){4000000, 4000000});
    mo_profile_cold(p, (int64_t[]){400000, -5});
    mo_profile_finish(p);
    assert_int_equal(mo_sim_reuse_init(&reuse, &env, 8e6, 3), MOIRE_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(mo_sim_reuse_open(&reuse, i, p), MOIRE_OK);
    assert_true(fabs(mo_sim_reuse_extra(&reuse, 0, 1, 0, 2) - 400000) < 1); /* never ran */
    mo_sim_reuse_ran(&reuse, 0, 0, 2);
    assert_true(fabs(mo_sim_reuse_extra(&reuse, 0, 1, 0, 2)) < 1);
    mo_sim_reuse_ran(&reuse, 0, 0, 2); /* its own bytes are in the profile */
    assert_true(fabs(mo_sim_reuse_extra(&reuse, 0, 1, 0, 2)) < 1);
    mo_sim_reuse_ran(&reuse, 1, 0, 1);
    assert_true(fabs(mo_sim_reuse_extra(&reuse, 0, 1, 0, 1) - 400000 * (1 - exp(-0.5))) < 1);
    assert_true(fabs(mo_sim_reuse_extra(&reuse, 0, 2, 0, 1) - 200000 * (1 - exp(-0.5))) < 1);
    assert_true(fabs(mo_sim_reuse_extra(&reuse, 0, 1, 1, 2)) < 1); /* a layer that is as fast cold */
    assert_true(fabs(mo_sim_reuse_extra(&reuse, 2, 1, 0, 1)) < 1); /* not known: costs nothing */
    mo_sim_reuse_free(&reuse);
    mo_profile_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_put_a_tenant_out_of_the_cache),
        cmocka_unit_test(late_queries_and_slow_times_count),
        cmocka_unit_test(one_server_queues_as_theory_says),
        cmocka_unit_test(the_document_depends_on_nothing_but_the_command),
        cmocka_unit_test(bad_input_is_named),
        cmocka_unit_test(blocks_slow_each_other_down_only_while_they_overlap),
        cmocka_unit_test(a_modest_block_is_not_slowed_by_greedy_ones),
        cmocka_unit_test(versions_are_chosen_by_pressure),
        cmocka_unit_test(the_offline_schedule_lies_between_policy_and_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
