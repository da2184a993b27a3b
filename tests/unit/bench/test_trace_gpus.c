/* SPDX-License-Identifier: Apache-2.0
 * test_trace_gpus.c - traces of runs on GPUs: what is read, what is refused and where, and that a recorded
 * simulation is predicted by its own replay. */
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
#include "bench/sim/replay.h"
#include "bench/sim/simulate.h"
#include "runtime/sched/events.h"
#include "runtime/serve/record.h"

static const struct mo_env *the_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

static bool near(double a, double b) {
    return fabs(a - b) < 1e-6;
}

/* Two GPUs of two units: a batch of two on the second one's first unit, the second query there early; a
 * segment later both go on, on both units; a third query fails. */
static const char *const good[] = {
    "# moire-history 2",
    "# cores 4",
    "# dropped 0",
    "# since 100",
    "# policy moire-gpu",
    "# kind 0 2 2 1 1000000 5000 0,250000000,0,-1000000,3 1,2 a GPU, large",
    "# gpu 0 0",
    "# gpu 1 0",
    "# tenant 0 2 50000 0 0 0 t",
    "# profile 0 1 300,100",
    "# rate 0 2500",
    "# shares 0 0 4096 40 8 2000000 1,2 500,1000",
    "# share 0 0 1 8000:500000:-1:20000,4000:1000000:0:0",
    "# share 0 0 2 0:0:0:0,6000:0:0:0",
    "1 200 0 SUBMIT 0 0 190 0 0",
    "2 200 0 ACCEPT 8 0 190 50190 0",
    "3 210 0 SUBMIT 0 0 400 0 0",
    "4 210 0 ACCEPT 9 0 400 50400 0",
    "5 220 0 DISPATCH 8 0 0 1 1",
    "6 220 0 MEMBER 9 0 0 1 8",
    "7 220 0 BLOCK_START 8 0 0 1 2",
    "8 10000 0 TIMES 8 0 24 9000 0",
    "9 10000 0 BLOCK_END 8 0 0 1 2",
    "10 10100 0 DISPATCH 8 0 1 2 2",
    "11 10100 0 MEMBER 9 0 1 2 8",
    "12 10100 0 BLOCK_START 8 0 1 2 2",
    "13 10100 0 BLOCK_START 8 0 1 2 3",
    "14 12200 0 TIMES 8 0 0 1500 10",
    "15 12200 0 BLOCK_END 8 0 1 2 2",
    "16 12200 0 BLOCK_END 8 0 1 2 3",
    "17 12200 0 RESOLVE 8 0 0 50190 0",
    "18 12200 0 RESOLVE 9 0 0 50400 0",
    "19 13000 0 ACCEPT 10 0 13000 63000 0",
    "20 13000 0 DISPATCH 10 0 0 2 1",
    "21 13000 0 BLOCK_START 10 0 0 2 0",
    "22 14000 0 BLOCK_END 10 0 0 2 0",
    "23 14000 0 RESOLVE 10 0 -12 63000 0",
    "# end 23",
};
enum { LINES = sizeof good / sizeof *good };

/* The text with line `at` (from 0) replaced, or left out when it is NULL; at < 0: as it is. */
static int parse_with(int at, const char *line, struct mo_trace *t, moire_error *err) {
    char text[8192];
    size_t n = 0;
    for (int i = 0; i < LINES; i++) {
        const char *put = i == at ? line : good[i];
        if (put) n += (size_t)snprintf(text + n, sizeof text - n, "%s\n", put);
    }
    return mo_trace_parse(the_env(), "t", text, n, t, err);
}

static void who_and_what_is_read(const struct mo_trace *t) {
    const struct mo_plan_kind *k = &t->gpus.kinds[0];
    const struct mo_share_profile *p = t->tenants[0].share[0];
    assert_int_equal(t->gpus.n_units, 4);
    assert_true(k->units == 2 && k->max_lets == 2 && k->shared_weights && k->memory_bytes == 1000000);
    assert_true(t->gpus.prepare_ns[0] == 5000 && k->n_sizes == 2 && k->sizes[1] == 2);
    assert_string_equal(k->name, "a GPU, large");
    assert_true(near(k->interference.l2_other, 0.25) && near(k->interference.dram_other, -1e-3));
    assert_true(near(t->tenants[0].declared, 2.5));
    assert_int_equal(mo_share_latency(p, 1, 500), 8000);
    assert_int_equal(mo_share_latency(p, 2, 500), 12000); /* the hole, by the ratio of the other batch */
    assert_true(near(mo_share_use_at(p, 1, 500).dram, 0.02) && near(p->copy_bytes_ns, 2));
    assert_true(p->memory_bytes == 4096 && p->in_bytes == 40 && p->out_bytes == 8);
}

static void a_trace_of_gpus_is_read(void **state) {
    (void)state;
    struct mo_trace t;
    moire_error err;
    if (parse_with(-1, NULL, &t, &err)) fail_msg("%s", err.message);
    who_and_what_is_read(&t);
    assert_int_equal(t.n_queries, 3);
    assert_true(t.queries[0].arrival == 190 && t.queries[0].start == 220 && t.queries[0].end == 12200);
    assert_true(t.queries[1].arrival == 400 && t.queries[1].comes == 210 && t.queries[1].start == 220);
    assert_true(t.queries[2].code == -12 && t.queries[2].end == 14000);
    /* three quarters of a batch of two on a unit; a quarter on both; the failed one is none */
    assert_int_equal(t.n_blocks, 2);
    assert_true(t.blocks[0].lead == 2 && t.blocks[0].cores == 1 && t.blocks[1].cores == 2);
    assert_true(near(t.blocks[0].observed, 9000) && near(t.blocks[0].predicted, 9000));
    assert_true(near(t.blocks[1].observed, 1500) && near(t.blocks[1].predicted, 1500));
    assert_true(t.n_spans == 3 && t.spans[0].begin == 1000 && t.spans[0].end == 10000 && t.n_stalls == 0);
    assert_int_equal(t.n_starts, 2);
    assert_true(t.starts[0].first && near(t.starts[0].wait_ns, 10000 - 220 - 9000 - 24));
    assert_true(!t.starts[1].first && near(t.starts[1].wait_ns, 12200 - 10100 - 1500 - 10));
    mo_trace_free(&t);
}

static void damage_is_named_with_its_line(void **state) {
    (void)state;
    static const struct {
        int at;
        const char *line, *says;
    } cases[] = {
        {0, "# moire-history 1", "t:6: a line about GPUs in a history of version 1"},
        {1, "# cores 3", "t:15: the GPUs have another number of units"},
        {5, "# kind 1 2 2 1 1000000 5000 0,0,0,0,0 1,2 x", "t:6: not \"# kind"},
        {5, "# kind 0 17 2 1 1000000 5000 0,0,0,0,0 1,2 x", "t:6: not \"# kind"},
        {5, "# kind 0 2 2 1 1000000 5000 0,0,0,0 1,2 x", "t:6: not \"# kind"},
        {5, "# kind 0 2 2 1 1000000 5000 0,0,0,0,0 1,2 ", "t:6: not \"# kind"},
        {5, "# kind 0 2 2 1 1000000 5000 0,0,0,0,0 2,1 x", "t:15: kind 'x': let sizes must rise"},
        {6, "# gpu 1 0", "t:7: not \"# gpu"},
        {6, "# gpu 0 1", "t:7: not \"# gpu"},
        {6, "# gpu 0 0 0", "t:7: not \"# gpu"},
        {10, "# rate 1 5", "t:11: not \"# rate"},
        {10, "# rate 0 -5", "t:11: not \"# rate"},
        {11, "# shares 0 1 4096 40 8 2000000 1,2 500,1000", "t:12: not \"# shares"},
        {11, "# shares 0 0 4096 40 8 2000000 1,2 500,1001", "t:12: not \"# shares"},
        {11, "# shares 0 0 4096 40 8 2000000 2,1 500,1000", "t:12: the batches of a profile must rise"},
        {11, "# shares 0 0 4096 40 8 2000000 1,2 500,500", "t:12: the shares of a profile must rise"},
        {11, NULL, "t:12: not \"# share "},
        {12, "# share 0 0 3 1:1:1:1,1:1:1:1", "t:13: not \"# share "},
        {12, "# share 0 0 1 8000:500000:-1:20000", "t:13: fewer cells"},
        {12, "# share 0 0 1 8000:500000:-2:0,1:0:0:0", "t:13: fewer cells"},
        {12, "# share 0 0 1 1:0:0:0,1:0:0:0,1:0:0:0", "t:13: more cells"},
        {13, "# shares 0 0 4096 40 8 2000000 1,2 500,1000", "t:14: a second '# shares' line"},
        {13, "# share 0 0 2 0:0:0:0,0:0:0:0", "t:15: profile of 't': batch 2 has no time"},
        {14, "1 200 0 SUBMIT 0 0 190 0 0\n# gpu 2 0", "t:16: a line about GPUs after the first event"},
        {18, "5 220 0 SAMPLE 8 0 0 1 1", "t:20: a query joins a block that is not there"},
        {19, "6 220 0 MEMBER 9 0 0 1 9", "t:20: a query joins a block that is not there"},
        {20, "7 220 0 SAMPLE 8 0 0 1 2", "t:22: times of a block that does not run"},
        {21, "8 10000 0 TIMES 8 0 24 -9000 0", "t:22: times of a block that cannot be"},
        {22, "8 10000 0 TIMES 8 0 24 9000 0", "t:23: times of a block that does not run"},
        {20, "7 220 0 BLOCK_START 8 0 0 1 4", "t:21: a block on a core"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mo_trace t;
        moire_error err = {0};
        if (parse_with(cases[i].at, cases[i].line, &t, &err) != MOIRE_EFORMAT)
            fail_msg("case %d is not refused", (int)i);
        if (!strstr(err.message, cases[i].says))
            fail_msg("case %d: '%s' does not say '%s'", (int)i, err.message, cases[i].says);
    }
}

/* Every cut is refused, and no changed byte does harm. */
static void cuts_and_noise_do_no_harm(void **state) {
    (void)state;
    char text[8192];
    size_t n = 0;
    struct mo_trace t;
    for (int i = 0; i < LINES; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\n", good[i]);
    for (size_t cut = 0; cut < n; cut++)
        assert_true(mo_trace_parse(the_env(), "t", text, cut, &t, NULL) != MOIRE_OK);
    uint64_t rng = 4;
    for (int i = 0; i < 20000; i++) {
        rng = rng * UINT64_C(6364136223846793005) + 1442695040888963407;
        size_t at = (size_t)(rng >> 33) % n;
        char was = text[at];
        text[at] = (char)(rng >> 50);
        if (!mo_trace_parse(the_env(), "t", text, n, &t, NULL)) mo_trace_free(&t);
        text[at] = was;
    }
}

/* --- a recorded simulation ------------------------------------------------------------------------------ */
enum { SECONDS = 3 };

/* Its machine has nothing that a trace does not know, and its first arrival is at 0, as in a replay. */
static void prepare(struct mo_bench_simulation *m, struct mo_bench_schedule *s) {
    const int64_t second = 1000000000;
    struct mo_bench_simulate_options o = {.machine = "bench/machines/gpus1-2080ti-turns.json",
                                          .serve = {.scenario = "bench/scenarios/gpulet-equal.json",
                                                    .policies = {"moire-gpu"},
                                                    .n_policies = 1}};
    double rates[MO_BENCH_MAX_TENANTS];
    moire_error err;
    if (mo_bench_simulation_open(the_env(), &o, m, &err)) fail_msg("%s", err.message);
    m->machine.sim.noise = m->machine.sim.interference_error = 0;
    m->machine.sim.block_ns = 3000;
    m->machine.sim.query_ns = 0;
    mo_bench_rates(&m->mix, 1, rates);
    assert_int_equal(mo_bench_schedule_draw(the_env(), &(struct mo_process){0}, 7, rates, NULL,
                                            m->mix.scenario.n_tenants, 0, SECONDS * second,
                                            (SECONDS + 1) * second, s, NULL),
                     MOIRE_OK);
    s->load = 1;
    for (int i = s->n - 1; i >= 0; i--)
        s->items[i].at_ns -= s->items[0].at_ns;
}

static void dump(const struct mo_bench_simulation *m, double load, const struct mo_events *events,
                 const char *path) {
    char *text = NULL;
    size_t n = 0;
    double rates[MO_BENCH_MAX_TENANTS];
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    fprintf(f, "# policy moire-gpu\n# since 0\n");
    mo_record_machine(f, &m->side->gpus);
    mo_bench_rates(&m->mix, load, rates);
    for (int i = 0; i < m->side->n; i++) {
        const struct mo_bench_gpu_tenant *t = &m->side->tenant[i];
        struct mo_sched_tenant_config c = {.qos_ns = t->qos_ns,
                                           .profile = t->profile,
                                           .share = (const struct mo_share_profile *const *)t->share,
                                           .declared = rates[i]};
        mo_record_gpu_tenant(f, i, m->mix.scenario.tenants[i].name, &c, m->side->gpus.n_kinds);
    }
    assert_int_equal(fclose(f), 0);
    assert_int_equal(mo_events_dump(events, m->side->gpus.n_units, text, path, NULL), MOIRE_OK);
    free(text);
}

static double of(const json_t *document, int row, int tenant, const char *key) {
    const json_t *tenants =
        json_object_get(json_array_get(json_object_get(document, "results"), (size_t)row), "tenants");
    return json_number_value(json_object_get(json_array_get(tenants, (size_t)tenant), key));
}

/* The answers, tenant by tenant; at most so far apart. */
static void is_predicted(const char *path, unsigned pieces, int n, double points, double ratio) {
    json_t *doc;
    moire_error err;
    struct mo_bench_replay_options o = {.trace = path, .pieces = pieces};
    if (mo_bench_replay(the_env(), &o, &doc, &err)) fail_msg("%s", err.message);
    for (int i = 0; i < n; i++) {
        assert_true(of(doc, 0, i, "n") > 0 && of(doc, 0, i, "p95_ms") > 0);
        assert_true(fabs(of(doc, 0, i, "within_qos") - of(doc, 1, i, "within_qos")) <= points);
        if (fabs(of(doc, 1, i, "p95_ms") / of(doc, 0, i, "p95_ms") - 1) > ratio)
            fail_msg("pieces %u, tenant %d: p95 of %.4f ms is predicted as %.4f", pieces, i,
                     of(doc, 0, i, "p95_ms"), of(doc, 1, i, "p95_ms"));
    }
    json_decref(doc);
}

static void what_means_nothing_is_refused(const char *path) {
    json_t *doc;
    moire_error err;
    struct mo_bench_replay_options o = {.trace = path, .cores = 4};
    assert_int_equal(mo_bench_replay(the_env(), &o, &doc, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "--cores"));
    o = (struct mo_bench_replay_options){.trace = path, .policies = {"moire"}, .n_policies = 1};
    assert_int_equal(mo_bench_replay(the_env(), &o, &doc, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "policy 'moire' is one for cores"));
    o = (struct mo_bench_replay_options){
        .trace = path, .machine = "bench/machines/cores64.json", .machine_profiles = true};
    assert_int_equal(mo_bench_replay(the_env(), &o, &doc, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "the recording is of GPUs"));
}

/* As a scenario: what happened, then the same arrivals; on other GPUs by the tenants' names. */
static void parts_play_too(const char *path) {
    static const char *const machines[] = {NULL, "bench/machines/gpus4-2080ti.json"};
    for (int k = 0; k < 2; k++) {
        struct mo_bench_replay *r;
        struct mo_bench_serve_options serve = {.process = {0}};
        moire_error err;
        struct mo_bench_replay_options o = {.trace = path, .machine = machines[k], .machine_profiles = k > 0};
        if (mo_bench_replay_open(the_env(), &o, &r, &err)) fail_msg("%s", err.message);
        const struct mo_bench_simulation *m = mo_bench_replay_simulation(r);
        const struct mo_bench_player players[] = {mo_bench_replay_recorded(r), mo_bench_replay_player(r)};
        double overall[2];
        serve.given = mo_bench_replay_schedule(r);
        for (int i = 0; i < 2; i++) {
            json_t *point;
            assert_int_equal(
                mo_bench_point(the_env(), &players[i], &m->mix, &serve, 1, 1, NULL, &point, NULL), MOIRE_OK);
            overall[i] = json_number_value(json_object_get(point, "overall"));
            json_decref(point);
        }
        if (k == 0) assert_true(fabs(overall[1] - overall[0]) < 1e-3);
        if (k == 1) assert_true(overall[1] >= overall[0]); /* four of them */
        assert_int_equal(m->side->gpus.n_gpus, k ? 4 : 1);
        mo_bench_replay_close(r);
    }
}

static void a_replay_of_a_simulation_is_the_simulation(void **state) {
    (void)state;
    char path[] = "/tmp/moire-trace-XXXXXX";
    struct mo_bench_simulation m;
    struct mo_bench_schedule s;
    int64_t cut;
    close(mkstemp(path));
    struct mo_events *events = mo_events_create(the_env(), 1, 1 << 18);
    prepare(&m, &s);
    m.ring = &events->ring[0];
    struct mo_bench_record *records = calloc((size_t)s.n, sizeof *records);
    assert_int_equal(
        mo_bench_simulate_play(&m, mo_policy_find("moire-gpu"), 1, &s, NULL, records, &cut, NULL, NULL),
        MOIRE_OK);
    dump(&m, s.load, events, path);
    is_predicted(path, 0, m.side->n, 1e-3, 1e-3);
    is_predicted(path, MO_REPLAY_MEASURED, m.side->n, 0.02, 0.1);
    is_predicted(path, MO_REPLAY_MEASURED | MO_REPLAY_SPEED, m.side->n, 0.02, 0.1);
    what_means_nothing_is_refused(path);
    parts_play_too(path);
    free(records);
    mo_bench_schedule_free(the_env(), &s);
    mo_bench_simulation_close(&m);
    mo_events_destroy(events);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_of_gpus_is_read),
        cmocka_unit_test(damage_is_named_with_its_line),
        cmocka_unit_test(cuts_and_noise_do_no_harm),
        cmocka_unit_test(a_replay_of_a_simulation_is_the_simulation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
