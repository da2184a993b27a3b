/* SPDX-License-Identifier: Apache-2.0
 * test_simulate_gpus.c - scenarios on machines with GPUs: applications go through their stages, nothing is
 * lost, cores beside GPUs take part, and what cannot be simulated is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "bench/sim/simulate.h"

static const int64_t SECOND = 1000000000;

static struct mo_bench_simulate_options options(const char *scenario, const char *machine,
                                                const char *policy) {
    return (struct mo_bench_simulate_options){
        .machine = machine, .serve = {.scenario = scenario, .policies = {policy}, .n_policies = 1}};
}

static const struct mo_env *the_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

static void draw_seed(const struct mo_bench_simulation *m, double load, uint64_t seed,
                      struct mo_bench_schedule *out) {
    double rates[MO_BENCH_MAX_TENANTS];
    mo_bench_rates(&m->mix, load, rates);
    assert_int_equal(mo_bench_schedule_draw(the_env(), &(struct mo_process){0}, seed, rates, NULL,
                                            m->mix.scenario.n_tenants, 0, 5 * SECOND, 8 * SECOND, out, NULL),
                     MOIRE_OK);
    out->load = load;
}

static void draw(const struct mo_bench_simulation *m, double load, struct mo_bench_schedule *out) {
    draw_seed(m, load, 7, out);
}

/* Times of traffic's queries are those of its two levels, one after the other; overload sheds, loses none. */
static void applications_go_through_their_stages(void **state) {
    (void)state;
    static const double loads[] = {0.5, 3, 10};
    struct mo_bench_simulation m;
    struct mo_bench_simulate_options o =
        options("bench/scenarios/traffic.json", "bench/machines/gpus4-2080ti.json", "moire-gpu");
    assert_int_equal(mo_bench_simulation_open(the_env(), &o, &m, NULL), MOIRE_OK);
    assert_int_equal(m.side->n, 3);
    assert_int_equal(m.side->split[0][0] + m.side->split[0][1], m.mix.qos_ns[0]);
    int64_t least = mo_share_latency(m.side->tenant[0].share[0], 1, MO_SHARE_WHOLE) +
                    mo_share_latency(m.side->tenant[2].share[0], 1, MO_SHARE_WHOLE);
    for (int k = 0; k < 3; k++) {
        struct mo_bench_schedule s;
        struct mo_bench_played played;
        draw(&m, loads[k], &s);
        struct mo_bench_record *r = calloc((size_t)s.n, sizeof *r);
        int64_t cut;
        int ok = 0, in_time = 0, open = 0;
        assert_int_equal(
            mo_bench_simulate_play(&m, mo_policy_find("moire-gpu"), 1, &s, NULL, r, &cut, &played, NULL),
            MOIRE_OK);
        for (int i = 0; i < s.n; i++) {
            open += r[i].code == MOIRE_OK && r[i].end_ns < 0;
            if (r[i].code != MOIRE_OK || r[i].end_ns < 0) continue;
            ok++;
            in_time += r[i].end_ns - s.items[i].at_ns <= m.mix.qos_ns[0];
            assert_true(r[i].start_ns >= s.items[i].at_ns);
            assert_true((double)(r[i].end_ns - r[i].start_ns) > 0.97 * (double)least); /* the noise */
        }
        print_message("load %.1f: %d queries, %d answered, %d in time, %d open\n", loads[k], s.n, ok, in_time,
                      open);
        assert_int_equal(played.stats.refused, 0);
        assert_true(played.stats.accepted <= 3 * (int64_t)s.n);
        assert_true(open < s.n / 8);
        if (k == 0) assert_true(in_time > 0.99 * s.n - open);
        if (k == 0) assert_true(played.stats.accepted >= 3 * (int64_t)(s.n - open));
        if (k == 2) assert_true(ok < s.n && in_time > s.n / 4); /* not all can be served, but some are */
        free(r);
        mo_bench_schedule_free(the_env(), &s);
    }
    mo_bench_simulation_close(&m);
}

/* How long the urgent model of gpulet-urgent waits for its start, ms: the 99th of a hundred, and the most. */
static void entry(const char *policy, double load, uint64_t seed, double *p99, double *most) {
    struct mo_bench_simulation m;
    struct mo_bench_schedule s;
    struct mo_bench_score score;
    int64_t cut;
    struct mo_bench_simulate_options o =
        options("bench/scenarios/gpulet-urgent.json", "bench/machines/gpus1-2080ti-turns.json", policy);
    assert_int_equal(mo_bench_simulation_open(the_env(), &o, &m, NULL), MOIRE_OK);
    draw_seed(&m, load, seed, &s);
    struct mo_bench_record *r = calloc((size_t)s.n, sizeof *r);
    assert_int_equal(mo_bench_simulate_play(&m, mo_policy_find(policy), seed, &s, NULL, r, &cut, NULL, NULL),
                     MOIRE_OK);
    assert_int_equal(
        mo_bench_score(the_env(), &s, r, m.mix.qos_ns, m.mix.scenario.n_tenants, cut, &score, NULL),
        MOIRE_OK);
    const struct mo_bench_tenant_score *urgent = &score.tenants[0];
    assert_true(urgent->n_entry == urgent->n && urgent->n > 100);
    *p99 = urgent->entry_p99_ms;
    *most = urgent->entry_max_ms;
    print_message("%s, load %.0f: %.2f ms, %.2f at most\n", policy, load, *p99, *most);
    mo_bench_score_free(the_env(), &score);
    mo_bench_schedule_free(the_env(), &s);
    mo_bench_simulation_close(&m);
    free(r);
}

static void long_batches_are_cut_for_urgent_queries(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"moire-gpu", "moire-gpu-cut"}, {"sbp", "sbp-cut"}};
    for (int i = 0; i < 2; i++) {
        double whole, cut, longest, most;
        entry(pairs[i][0], 1, 7, &whole, &longest);
        entry(pairs[i][1], 1, 7, &cut, &most);
        assert_true(cut < 2.1 && cut < whole / 2 && most < longest / 2);
    }
}

/* What an urgent query waits for then is its own model's latest batch, and it enters the other let instead.
 */
static void urgent_queries_enter_the_other_let(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        double p99, most;
        entry("moire-gpu-cut", 2, seed, &p99, &most);
        assert_true(p99 < 1.5);
    }
}

static void cores_take_part_beside_gpus(void **state) {
    (void)state;
    struct mo_bench_simulation m;
    struct mo_bench_simulate_options o =
        options("bench/scenarios/gpulet-equal.json", "bench/machines/gpus-mixed.json", "moire-gpu");
    assert_int_equal(mo_bench_simulation_open(the_env(), &o, &m, NULL), MOIRE_OK);
    const struct mo_gpus *g = &m.side->gpus;
    assert_int_equal(g->n_kinds, 3);
    assert_int_equal(g->n_gpus, 8); /* two, two, and four groups of 16 cores */
    assert_int_equal(g->n_units, 40 + 64);
    const struct mo_share_profile *on_cores = m.side->tenant[2].share[2]; /* resnet50: measured there */
    assert_non_null(on_cores);
    assert_int_equal(on_cores->max_batch, 1);
    assert_null(m.side->tenant[0].share[2]); /* lenet is not */
    mo_bench_simulation_close(&m);
    o.serve.policies[0] = "fcfs"; /* the same machine's cores alone: they have no lenet */
    assert_int_not_equal(mo_bench_simulation_open(the_env(), &o, &m, NULL), MOIRE_OK);
}

static void what_cannot_be_simulated_is_named(void **state) {
    (void)state;
    static const struct {
        const char *scenario, *machine, *policy, *message;
    } rows[] = {
        {"traffic", "cores64", "moire", "'traffic' is an application"},
        {"light", "gpus4-v100", "moire-gpu", "no profile of 'efficientnet-b0' on any kind of GPU"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char scenario[128], machine[128];
        struct mo_bench_simulation m;
        moire_error err = {0};
        snprintf(scenario, sizeof scenario, "bench/scenarios/%s.json", rows[i].scenario);
        snprintf(machine, sizeof machine, "bench/machines/%s.json", rows[i].machine);
        struct mo_bench_simulate_options o = options(scenario, machine, rows[i].policy);
        assert_int_equal(mo_bench_simulation_open(the_env(), &o, &m, &err), MOIRE_EINVAL);
        if (!strstr(err.message, rows[i].message)) fail_msg("%s", err.message);
    }
    struct mo_bench_simulate_options o =
        options("bench/scenarios/gpulet-equal.json", "bench/machines/gpus4-v100.json", "moire-gpu");
    o.serve.calibration = "earlier.json";
    struct mo_bench_simulation m;
    moire_error err = {0};
    assert_int_equal(mo_bench_simulation_open(the_env(), &o, &m, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "--calibration is for machines of cores"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(applications_go_through_their_stages),
        cmocka_unit_test(long_batches_are_cut_for_urgent_queries),
        cmocka_unit_test(urgent_queries_enter_the_other_let),
        cmocka_unit_test(cores_take_part_beside_gpus),
        cmocka_unit_test(what_cannot_be_simulated_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
