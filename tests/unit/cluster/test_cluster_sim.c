/* SPDX-License-Identifier: Apache-2.0
 * test_cluster_sim.c - a cluster in virtual time: every query has one answer under every routing, a seed
 * gives the same run, routing by deadlines serves a hot mix no worse than chance; and the plan made of it. */
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
#include "bench/cluster/cluster.h"
#include "bench/cluster/cluster_rates.h"
#include "runtime/sched/policy.h"
#include "tests/unit/bench/simulate_bed.h"

enum { NODES = 6, MODELS = 2 };
#define HOT                                                                                                  \
    "{\"name\": \"s\", \"tenants\": [{\"model\": \"a\", \"qos\": {\"ms\": 4}, \"weight\": 9}, {\"model\": "  \
    "\"b\", \"qos\": {\"ms\": 8}, \"weight\": 1}]}"

/* Six machines of four cores with both models; 9 of 10 queries are the hot one's. */
struct bed {
    struct simulate_bed files;
    struct mo_bench_simulation simulation;
    struct mo_cluster_node node[NODES];
    struct mo_cluster_nodes nodes;
    struct mo_replica replica[MODELS][NODES];
    struct mo_place_list placed[MODELS];
    double qps[MODELS];
    struct mo_cluster_run run;
};

static void open_bed(struct bed *b, double qps) {
    memset(b, 0, sizeof *b);
    simulate_bed_open(&b->files, FOUR_CORES, HOT);
    const struct mo_bench_simulate_options o = simulate_bed_options(&b->files);
    assert_int_equal(mo_bench_simulation_open(&b->files.env, &o, &b->simulation, NULL), MOIRE_OK);
    b->nodes = (struct mo_cluster_nodes){.node = b->node, .n = NODES, .n_kinds = 1, .cores = {4}};
    for (int i = 0; i < NODES; i++) {
        b->node[i] = (struct mo_cluster_node){.name = "n", .cores = 4};
        for (int m = 0; m < MODELS; m++)
            b->replica[m][i] = (struct mo_replica){i, 1};
    }
    for (int m = 0; m < MODELS; m++) {
        b->placed[m] = (struct mo_place_list){b->replica[m], NODES};
        b->qps[m] = qps * (m ? 0.1 : 0.9);
    }
    b->run = (struct mo_cluster_run){.simulation = &b->simulation,
                                     .policy = mo_policy_find("moire"),
                                     .nodes = &b->nodes,
                                     .placed = b->placed,
                                     .qps = b->qps,
                                     .seed = 1,
                                     .warmup_s = 0.2,
                                     .seconds = 1};
}

static void close_bed(struct bed *b) {
    mo_bench_simulation_close(&b->simulation);
    simulate_bed_close(&b->files);
}

static struct mo_cluster_result *result_of(const struct bed *b, enum mo_routing routing) {
    struct mo_cluster_run run = b->run;
    struct mo_cluster_result *r = malloc(sizeof *r);
    moire_error err = {0};
    run.routing = routing;
    assert_non_null(r);
    if (mo_cluster_simulate(&run, r, &err)) fail_msg("%s", err.message);
    return r;
}

/* Below what the machines hold nothing is refused, so all that was asked is answered; the run itself fails
 * when a query has no answer or two. */
static void every_query_has_one_answer(void **state) {
    (void)state;
    struct bed b;
    open_bed(&b, 12000);
    for (int i = 0; i < MO_ROUTINGS; i++) {
        struct mo_cluster_result *r = result_of(&b, (enum mo_routing)i);
        int64_t answered = 0, asked = 0;
        for (int m = 0; m < MODELS; m++) {
            int64_t in_buckets = 0;
            for (int k = 0; k < MO_LATENCY_BUCKETS; k++)
                in_buckets += r->model[m].bucket[k];
            assert_int_equal(in_buckets, r->model[m].answered);
            answered += r->model[m].answered;
            asked += r->model[m].asked;
        }
        assert_int_equal(asked, r->all.asked);
        assert_int_equal(answered, r->all.answered);
        assert_int_equal(answered, asked);
        assert_true(fabs((double)asked - 12000) < 600 && r->sent > asked);
        assert_true(fabs((double)r->model[0].asked / (double)asked - 0.9) < 0.02);
        assert_true(mo_cluster_quantile_ms(&r->all, 0.5) > 0.1 && r->events > 2 * r->sent);
        free(r);
    }
    close_bed(&b);
}

/* Three times what the machines can do: queues fill, queries are refused, and the run ends. */
static void a_cluster_that_is_too_small_ends(void **state) {
    (void)state;
    struct bed b;
    open_bed(&b, 72000);
    b.run.seconds = 0.3;
    struct mo_cluster_result *r = result_of(&b, MO_ROUTING_DEADLINE);
    assert_true(r->all.asked > 0 && mo_cluster_attainment(&r->all) < 0.7 && !r->lost);
    free(r);
    b.run.misses = 10;
    r = result_of(&b, MO_ROUTING_DEADLINE);
    assert_true(r->lost);
    free(r);
    close_bed(&b);
}

static void a_seed_gives_the_same_run(void **state) {
    (void)state;
    struct bed b;
    open_bed(&b, 18000);
    for (int i = 0; i < MO_ROUTINGS; i++) {
        struct mo_cluster_result *one = result_of(&b, (enum mo_routing)i);
        struct mo_cluster_result *two = result_of(&b, (enum mo_routing)i);
        one->real_ns = two->real_ns = 0;
        assert_memory_equal(one, two, sizeof *one);
        b.run.seed = 2;
        free(two);
        two = result_of(&b, (enum mo_routing)i);
        two->real_ns = 0;
        assert_memory_not_equal(one, two, sizeof *one);
        b.run.seed = 1;
        free(one);
        free(two);
    }
    close_bed(&b);
}

static void deadlines_serve_a_hot_mix_no_worse_than_chance(void **state) {
    (void)state;
    struct bed b;
    open_bed(&b, 21000);
    struct mo_cluster_result *by_chance = result_of(&b, MO_ROUTING_RANDOM);
    assert_true(mo_cluster_attainment(&by_chance->all) < 0.999); /* or there were nothing to gain */
    for (int i = MO_ROUTING_OUTSTANDING; i < MO_ROUTINGS; i++) {
        struct mo_cluster_result *r = result_of(&b, (enum mo_routing)i);
        assert_true(mo_cluster_attainment(&r->all) >= mo_cluster_attainment(&by_chance->all));
        assert_int_equal(r->all.asked, by_chance->all.asked); /* the same arrivals */
        free(r);
    }
    free(by_chance);
    close_bed(&b);
}

static bool stop(void *ctx, double share, int64_t events) {
    int *calls = ctx;
    assert_true(share >= 0 && share <= 1 && events > 0);
    return ++*calls < 3;
}

static void a_run_can_be_interrupted(void **state) {
    (void)state;
    struct bed b;
    int calls = 0;
    open_bed(&b, 18000);
    b.run.look = stop;
    b.run.ctx = &calls;
    struct mo_cluster_result *r = malloc(sizeof *r);
    assert_non_null(r);
    assert_int_equal(mo_cluster_simulate(&b.run, r, NULL), MOIRE_EINTERRUPTED);
    assert_int_equal(calls, 3);
    free(r);
    close_bed(&b);
}

/* One core of 1 ms a query holds less than 1000 a second, and more with more cores; none where the target is
 * shorter than a query. */
static void what_a_machine_holds(void **state) {
    (void)state;
    struct bed b;
    double holds[MODELS * 2];
    open_bed(&b, 1);
    b.nodes.n_kinds = 2;
    b.nodes.cores[0] = 1;
    b.nodes.cores[1] = 4;
    assert_int_equal(mo_cluster_rates(&b.run, 0.95, holds, NULL), MOIRE_OK);
    assert_true(holds[0] > 300 && holds[0] < 1000 && holds[1] > 4 * holds[0] * 0.95 && holds[1] < 4000);
    assert_true(holds[2] > 300 && holds[2] < 1111 && holds[3] > 3 * holds[2] && holds[3] < 4300);
    b.simulation.mix.qos_ns[0] = 400000;
    assert_int_equal(mo_cluster_rates(&b.run, 0.95, holds, NULL), MOIRE_OK);
    assert_true(holds[0] == 0 && holds[1] == 0 && holds[2] > 300);
    close_bed(&b);
}

/* --- the plan ------------------------------------------------------------------------------------------- */
static int plan(const char *nodes, double qps, const int64_t *scale, json_t **out, moire_error *err) {
    struct simulate_bed files;
    simulate_bed_open(&files, FOUR_CORES, HOT);
    char path[128];
    snprintf(path, sizeof path, "%s/nodes.json", files.folder);
    simulate_bed_put(&files, "nodes.json", nodes);
    struct mo_bench_session session = {
        .env = &files.env, .command = "test", .quiet = true, .cores = 2, .signal_fd = -1};
    struct mo_cluster_options o = {
        .nodes = path, .routed = {true, false, false, true}, .scale = scale, .n_scale = 2};
    o.capacity = (struct mo_bench_capacity_options){
        .simulate = simulate_bed_options(&files), .policy = "moire", .qps = qps};
    o.capacity.simulate.serve.find_max = 0.95;
    o.capacity.simulate.serve.seconds = 0.5;
    o.capacity.simulate.serve.n_seeds = 1;
    json_t *summary = NULL;
    int code = scale ? mo_bench_scale_out(&session, &o, out, err)
                     : mo_bench_cluster(&session, &o, out, &summary, err);
    assert_true(scale || (*out != NULL) == (summary != NULL));
    if (summary) mo_cluster_print(*out, summary);
    json_decref(summary);
    unlink(path);
    simulate_bed_close(&files);
    return code;
}

static void a_plan_is_whole(void **state) {
    (void)state;
    json_t *doc, *node, *model;
    size_t i, k;
    moire_error err = {0};
    double qps[MODELS] = {0}, replicas[MODELS] = {0};
    if (plan("{\"nodes\": [{\"name\": \"x\", \"count\": 3, \"cores\": 4, \"memory_mb\": 100, \"address\": "
             "\"10.0.0.1\"}, {\"name\": \"y\", \"cores\": 2, \"memory_mb\": 100}]}",
             6000, NULL, &doc, &err))
        fail_msg("%s", err.message);
    assert_int_equal(json_integer_value(json_object_get(doc, "plan")), 1);
    assert_string_equal(mo_json_text(doc, "routing"), "deadline");
    assert_int_equal(json_array_size(json_object_get(doc, "nodes")), 4);
    assert_int_equal(json_array_size(json_object_get(doc, "simulated")), 2);
    json_array_foreach(json_object_get(doc, "nodes"), i, node)
        json_array_foreach(json_object_get(node, "models"), k, model) {
        const int m = mo_json_text(model, "name")[0] != 'a';
        qps[m] += mo_json_number(model, "qps");
        replicas[m]++;
    }
    json_array_foreach(json_object_get(doc, "models"), i, model) {
        assert_true(fabs(qps[i] - mo_json_number(model, "qps")) < 1e-6);
        assert_true(replicas[i] == json_number_value(json_object_get(model, "replicas")) && replicas[i] >= 2);
        assert_true(mo_json_number(model, "attainment") > 0.9);
        const char *file = mo_json_text(model, "file");
        assert_string_equal(file, i ? "b.onnx" : "a.onnx");
    }
    assert_true(fabs(qps[0] - 5400) < 1e-6);
    json_decref(doc);
}

/* Two machines hold about twice what one does, and no routing more than their cores. */
static void rates_grow_with_machines(void **state) {
    (void)state;
    static const int64_t scale[] = {1, 2};
    json_t *doc;
    moire_error err = {0};
    if (plan("{\"nodes\": [{\"name\": \"x\", \"cores\": 4, \"memory_mb\": 100}]}", 1, scale, &doc, &err))
        fail_msg("%s", err.message);
    const json_t *rows = json_object_get(doc, "rows");
    assert_int_equal(json_array_size(rows), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *row = json_array_get(rows, i);
        const int64_t machines = scale[i / 2];
        assert_int_equal(json_integer_value(json_object_get(row, "machines")), machines);
        const double efficiency = mo_json_number(row, "efficiency"), qps = mo_json_number(row, "qps");
        if (i < 2) assert_true(efficiency == 1);
        assert_true(efficiency > 0.6 && efficiency < 1.5);
        assert_true(qps > 1000 && qps < 4200 * (double)machines);
    }
    mo_scale_out_print(doc);
    json_decref(doc);
    assert_int_equal(
        plan("{\"nodes\": [{\"name\": \"x\", \"cores\": 4, \"memory_mb\": 100}, {\"name\": \"y\", "
             "\"cores\": 2, \"memory_mb\": 100}]}",
             1, scale, &doc, &err),
        MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "one number of cores"));
}

static void plans_that_do_not_fit_say_so(void **state) {
    (void)state;
    json_t *doc;
    moire_error err = {0};
    assert_int_equal(
        plan("{\"nodes\": [{\"name\": \"x\", \"cores\": 4, \"memory_mb\": 100}]}", 9000, NULL, &doc, &err),
        MOIRE_EFAILED);
    assert_non_null(strstr(err.message, "cores are missing"));
    assert_null(doc);
    assert_int_equal(
        plan("{\"nodes\": [{\"name\": \"x\", \"cores\": 8, \"memory_mb\": 100}]}", 1, NULL, &doc, &err),
        MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "8 cores, but the profiles of 'm' end at 4"));
    assert_int_equal(plan("{\"nodes\": [{\"nam\": \"x\"}]}", 1, NULL, &doc, &err), MOIRE_EFORMAT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_query_has_one_answer),
        cmocka_unit_test(a_cluster_that_is_too_small_ends),
        cmocka_unit_test(a_seed_gives_the_same_run),
        cmocka_unit_test(deadlines_serve_a_hot_mix_no_worse_than_chance),
        cmocka_unit_test(a_run_can_be_interrupted),
        cmocka_unit_test(what_a_machine_holds),
        cmocka_unit_test(a_plan_is_whole),
        cmocka_unit_test(rates_grow_with_machines),
        cmocka_unit_test(plans_that_do_not_fit_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
