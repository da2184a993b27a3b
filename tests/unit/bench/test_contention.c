/* SPDX-License-Identifier: Apache-2.0
 * test_contention.c - models of who slows whom on a simulated machine, the assumed family of versions, and
 * machine files with other values. */
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
#include "bench/data/machine.h"
#include "runtime/profile/assumed_versions.h"
#include "runtime/profile/profile_versions.h"

enum { MS = 1000000 };

static void near(double a, double b, double within) {
    if (fabs(a - b) > within) fail_msg("%.9g, expected %.9g", a, b);
}

/* --- the assumed family --------------------------------------------------------------------------------- */
static void the_family_is_what_its_head_says(void **state) {
    (void)state;
    const int last = MO_ASSUMED_VERSIONS - 1;
    near(mo_assumed_time(0, 0), 1, 1e-12);
    near(mo_assumed_time(0, 1), 7, 1e-12);
    near(mo_assumed_time(last, 0), mo_assumed_time(last, 1), 1e-12);
    near(mo_assumed_time(last, 0), 1.163, 5e-4);
    for (int k = 1; k <= last; k++) { /* neighbours cross at k / V */
        double p = (double)k / MO_ASSUMED_VERSIONS;
        near(mo_assumed_time(k, p), mo_assumed_time(k - 1, p), 1e-12);
        assert_int_equal(mo_assumed_choice(0, p - 0.01), k - 1);
        assert_int_equal(mo_assumed_choice(0, p + 0.01), k);
    }
    double p = mo_assumed_pressure(1.6);
    near(mo_assumed_time(0, p), 1.6, 1e-12);
    near(mo_assumed_time(mo_assumed_choice(0, p), p), 1.11, 5e-3);
    near(mo_assumed_pressure(0), 0, 0);
    near(mo_assumed_pressure(9), 1, 1e-12);
}

static void fewer_versions_lie_evenly_among_all(void **state) {
    (void)state;
    static const int kept[MO_ASSUMED_VERSIONS][MO_ASSUMED_VERSIONS] = {
        {0}, {0, 4}, {0, 2, 4}, {0, 1, 3, 4}, {0, 1, 2, 3, 4}};
    for (int most = 1; most <= MO_ASSUMED_VERSIONS; most++) {
        assert_int_equal(mo_version_count(MO_ASSUMED_VERSIONS, most), most);
        for (int i = 0; i < most; i++)
            assert_int_equal(mo_version_kept(MO_ASSUMED_VERSIONS, most, i), kept[most - 1][i]);
        assert_int_equal(mo_assumed_choice(most, 0), 0);
        assert_int_equal(mo_assumed_choice(most, 1), most == 1 ? 0 : 4);
    }
    assert_int_equal(mo_version_count(5, 0), 5);
    assert_int_equal(mo_version_count(2, 5), 2);
    assert_int_equal(mo_version_count(1, 3), 1);
}

static struct mo_profile *one_layer(const struct mo_env *env, int64_t bytes) {
    struct mo_profile *p = mo_profile_create(env, 1, 4);
    mo_profile_record(p, 1, (int64_t[]){MS});
    mo_profile_traffic(p, &bytes);
    mo_profile_finish(p);
    return p;
}

static void a_profile_takes_the_family(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_profile *p = one_layer(&env, 0);
    assert_int_equal(mo_profile_assume_versions(p, 3), MOIRE_OK);
    struct mo_profile_does calm = mo_profile_at(p, 0, 1, 0, 1), rough = mo_profile_at(p, 1, 1, 0, 1);
    assert_int_equal(calm.solo, MS);
    assert_int_equal(calm.under, MS);
    near((double)rough.solo, MS * mo_assumed_time(4, 0), 1);
    near((double)rough.under, MS * mo_assumed_time(4, 1), 1);
    assert_true(mo_profile_has_choice(p, 0, 1));
    assert_int_equal(p->needed[3], 1);
    assert_int_equal(mo_assumed_version(3, 0.5), 2); /* the nearest level is 0.6 */
    mo_profile_destroy(p);
    p = one_layer(&env, 0);
    assert_int_equal(mo_profile_assume_versions(p, 1), MOIRE_OK);
    assert_false(mo_profile_has_choice(p, 0, 1));
    near((double)mo_profile_at(p, 1, 1, 0, 1).under, 7 * MS, 1);
    mo_profile_destroy(p);
}

/* Three versions with less and less traffic: a limit of two leaves out the one between. */
static void measured_versions_are_limited_too(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    static const char text[] =
        "# moire-profile 1\nlayer,name,variant,batch,pressure,kib,units,block_kib,l3_kib,1,4\n"
        "0,x,0,1,0,1000,64,32,8000,1000,260\n0,x,1,1,0,1000,64,32,2000,1100,290\n"
        "0,x,2,1,0,1000,64,32,1000,1900,480\n";
    static const int64_t under_most[] = {1100000, 1000000, 1900000, 1100000};
    for (int most = 0; most <= 3; most++) {
        const struct mo_profile_machine m = {.cores = 4,
                                             .private_bytes = 65536,
                                             .slice_bytes = 524288,
                                             .slice_cores = 4,
                                             .bytes_ns = 5,
                                             .versions = most};
        struct mo_profile_table table;
        struct mo_profile *p;
        moire_error err = {0};
        if (mo_profile_table_parse(&env, "t.csv", text, sizeof text - 1, &table, &err))
            fail_msg("%s", err.message);
        assert_int_equal(mo_profile_table_profile(&env, &table, 0, 4, &p, &err), MOIRE_OK);
        assert_int_equal(mo_profile_versions(&m, &table, p, &err), MOIRE_OK);
        assert_int_equal(mo_profile_at(p, 0, 1, 0, 1).solo, MS);
        assert_int_equal(mo_profile_at(p, 1, 1, 0, 1).solo, under_most[most]);
        assert_true(mo_profile_at(p, 1, 1, 0, 1).under >= under_most[most]);
        mo_profile_destroy(p);
        mo_profile_table_free(&table);
    }
}

/* --- blocks on a machine -------------------------------------------------------------------------------- */
struct ends {
    int64_t at[4];
    int n;
};

static void note_end(void *ctx, int tenant, const struct mo_answer *answer) {
    (void)tenant;
    struct ends *ends = ctx;
    ends->at[ends->n++] = answer->end;
}

/* Ends of one query each of n tenants whose models touch so many bytes, a core each, begun together. */
static struct ends play(struct mo_sim_machine machine, const int64_t *bytes, int n) {
    struct mo_env env = mo_env_default();
    struct ends ends = {.n = 0};
    struct mo_profile *profile[4];
    struct mo_sim_config c = {.env = &env,
                              .policy = mo_policy_find("fcfs-1"),
                              .machine = machine,
                              .max_queries = 8,
                              .max_tenants = 4,
                              .answer = note_end,
                              .ctx = &ends};
    struct mo_sim *sim;
    assert_int_equal(mo_sim_create(&c, &sim, NULL), MOIRE_OK);
    for (int i = 0; i < n; i++) {
        profile[i] = one_layer(&env, bytes[i]);
        if (machine.contention.kind == MO_CONTENTION_VERSIONS)
            assert_int_equal(mo_profile_assume_versions(profile[i], 0), MOIRE_OK);
        struct mo_sched_tenant_config tc = {.queue = 4, .instances = 4, .profile = profile[i]};
        int tenant;
        assert_int_equal(mo_sim_open(sim, &tc, &tenant, NULL), MOIRE_OK);
        assert_int_equal(mo_sim_submit(sim, tenant, NULL, NULL, NULL), MOIRE_OK);
    }
    assert_int_equal(mo_sim_drain(sim), 0);
    mo_sim_destroy(sim);
    for (int i = 0; i < n; i++)
        mo_profile_destroy(profile[i]);
    return ends;
}

static void busy_cores_slow_blocks_down_in_proportion(void **state) {
    (void)state;
    static const int64_t none[4];
    struct mo_sim_machine m = {.n_cores = 4, .contention = {MO_CONTENTION_FACTOR, 1.8, 0}};
    near((double)play(m, none, 1).at[0], MS, 2);
    near((double)play(m, none, 2).at[1], MS * (1 + 0.8 / 4), 2);
    near((double)play(m, none, 4).at[3], MS * (1 + 0.8 * 3 / 4), 2);
    m.contention.kind = MO_CONTENTION_NONE;
    near((double)play(m, none, 4).at[3], MS, 2);
    /* fcfs-1 asks for no versions: the one that is fastest alone, among three busy cores of four */
    m.contention = (struct mo_contention){MO_CONTENTION_VERSIONS, 3, 0};
    near((double)play(m, none, 1).at[0], MS, 2);
    near((double)play(m, none, 4).at[3], MS * mo_assumed_time(0, 0.75 * mo_assumed_pressure(3)), 2);
}

/* The first query on three cores of four, the next on the other; what each saw as it began. */
struct uneven {
    double seen[2];
    int n;
};

static void dispatch_uneven(void *state, const struct mo_view *view, const struct mo_event *event,
                            struct mo_decisions *out) {
    struct uneven *u = *(struct uneven *const *)view->options;
    (void)state;
    if (event->kind != MO_EVENT_ARRIVAL) return;
    struct mo_cores pool = view->idle;
    u->seen[u->n] = view->pressure[MO_PRESSURE_CACHE];
    mo_decide_run(out, event->query, 1, mo_cores_take(&pool, u->n++ ? 1 : 3, -1));
}

/* A wide block suffers from a narrow one no more than a narrow one would, and who begins last suffers what
 * the policy saw. */
static void blocks_suffer_what_policies_see(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct uneven u = {.n = 0}, *at = &u;
    struct ends ends = {.n = 0};
    const struct mo_policy policy = {
        .name = "uneven", .description = "", .options = &at, .state_bytes = 64, .dispatch = dispatch_uneven};
    struct mo_sim_config c = {.env = &env,
                              .policy = &policy,
                              .machine = {.n_cores = 4, .contention = {MO_CONTENTION_FACTOR, 1.8, 0}},
                              .max_queries = 2,
                              .max_tenants = 1,
                              .answer = note_end,
                              .ctx = &ends};
    struct mo_profile *p = mo_profile_create(&env, 1, 4);
    for (int n = 1; n <= 4; n++)
        mo_profile_record(p, n, (int64_t[]){MS}); /* on any cores: both blocks run side by side to the end */
    mo_profile_finish(p);
    const struct mo_sched_tenant_config tc = {.queue = 2, .instances = 2, .profile = p};
    struct mo_sim *sim;
    int tenant;
    assert_int_equal(mo_sim_create(&c, &sim, NULL), MOIRE_OK);
    assert_int_equal(mo_sim_open(sim, &tc, &tenant, NULL), MOIRE_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(mo_sim_submit(sim, tenant, NULL, NULL, NULL), MOIRE_OK);
    assert_int_equal(mo_sim_drain(sim), 0);
    near(u.seen[0], 0, 0);
    near(u.seen[1], 0.75, 1e-12);
    near((double)ends.at[0], MS * (1 + 0.8 / 4), 2);
    /* the narrow one suffered 0.75 until then, and nothing afterwards */
    double done = (1 + 0.8 / 4) / (1 + 0.8 * u.seen[1]);
    near((double)ends.at[1], MS * (1 + 0.8 / 4 + 1 - done), 2);
    mo_sim_destroy(sim);
    mo_profile_destroy(p);
}

static void a_tolerant_version_is_slowed_down_less(void **state) {
    (void)state;
    const struct mo_contention c = {MO_CONTENTION_VERSIONS, 7, 0}, two = {MO_CONTENTION_VERSIONS, 7, 2},
                               mild = {MO_CONTENTION_VERSIONS, 1.8, 0};
    near(mo_contention_pace(&c, 1, 0), 7, 1e-12);
    near(mo_contention_pace(&c, 1, 1), 1, 1e-12);
    near(mo_contention_pace(&c, 0, 1), 1, 1e-12);
    near(mo_contention_pace(&c, 0.6, 0.6), mo_assumed_time(2, 0.6) / mo_assumed_time(2, 0), 1e-12);
    near(mo_contention_pace(&two, 0.6, 0.6), 1, 1e-12);
    near(mo_contention_pressure(&c, 0.5), 0.5, 1e-12);
    near(mo_contention_pressure(&mild, 1), mo_assumed_pressure(1.8), 1e-12);
    near(mo_contention_pace(&mild, 1, 0), 1.8, 1e-12);
}

/* Two models of 3 MB, each on a core and a slice of its own; memory gives 1 byte a ns. */
static void slices_hold_what_their_own_cores_touch(void **state) {
    (void)state;
    static const int64_t models[] = {3 * MS, 3 * MS};
    struct mo_sim_machine m = {.n_cores = 2, .bytes_ns = 1, .cache_bytes = 8e6};
    near((double)play(m, models, 2).at[1], MS, 2);
    m.slice_cores = 1; /* 4 MB each: enough */
    near((double)play(m, models, 2).at[1], MS, 2);
    m.cache_bytes = 4e6; /* pooled, 6 MB share 4 MB: a third is missed, 2 bytes a ns are asked for */
    m.slice_cores = 0;
    near((double)play(m, models, 2).at[1], 2 * MS, 9);
    m.slice_cores = 1; /* 2 MB each: the same share */
    near((double)play(m, models, 2).at[1], 2 * MS, 9);
    m.cache_bytes = 8e6; /* a model of 5 MB beside one of 1 MB: they fit together, not one by one */
    static const int64_t uneven[] = {5 * MS, MS};
    m.bytes_ns = 0.5;
    m.slice_cores = 0;
    near((double)play(m, uneven, 2).at[1], MS, 2);
    m.slice_cores = 1; /* a fifth of 5 bytes a ns is missed */
    near((double)play(m, uneven, 2).at[0], MS, 2);
    near((double)play(m, uneven, 2).at[1], 2 * MS, 9);
}

static void one_slice_is_a_pooled_cache(void **state) {
    (void)state;
    static const int64_t models[] = {3 * MS, 5 * MS, MS};
    struct mo_sim_machine m = {.n_cores = 4, .bytes_ns = 0.7, .cache_bytes = 4e6};
    struct ends pooled = play(m, models, 3);
    m.slice_cores = 4;
    struct ends sliced = play(m, models, 3);
    assert_memory_equal(pooled.at, sliced.at, sizeof pooled.at);
    assert_true(pooled.at[2] > 2 * MS);
}

/* --- texts and files ------------------------------------------------------------------------------------ */
static void texts_are_read_or_refused(void **state) {
    (void)state;
    struct mo_contention c;
    assert_true(mo_contention_parse("memory", &c) && c.kind == MO_CONTENTION_MEMORY);
    assert_true(mo_contention_parse("none", &c) && c.kind == MO_CONTENTION_NONE);
    assert_true(mo_contention_parse("factor:1.8", &c) && c.kind == MO_CONTENTION_FACTOR && c.most == 1.8);
    assert_true(mo_contention_parse("versions:7", &c) && c.kind == MO_CONTENTION_VERSIONS && c.most == 7);
    static const char *const bad[] = {"",           "memory:2",   "factor",      "factor:",    "factor:x",
                                      "factor:0.5", "versions:8", "versions:2x", "factor:nan", "nothing"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(mo_contention_parse(bad[i], &c));
}

#define MACHINE                                                                                              \
    "{\"name\": \"m\", \"cores\": 4, \"profiles\": \".\", \"memory_gib_s\": 8, \"caches\": [{\"level\": 3, " \
    "\"kib\": 1024, \"shared_by\": 2}]}"

static int open_with(const char *const *with, int n, struct mo_bench_machine *m, moire_error *err) {
    static struct mo_env env;
    char path[64];
    env = mo_env_default();
    snprintf(path, sizeof path, "/tmp/moire-contention.%d.json", (int)getpid());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(MACHINE, f);
    fclose(f);
    int code = mo_bench_machine_open_with(&env, path, with, n, m, err);
    unlink(path);
    return code;
}

static void keys_of_a_machine_are_replaced(void **state) {
    (void)state;
    struct mo_bench_machine m;
    moire_error err = {0};
    if (open_with(NULL, 0, &m, &err)) fail_msg("%s", err.message);
    assert_int_equal(m.sim.contention.kind, MO_CONTENTION_MEMORY);
    assert_int_equal(m.sim.slice_cores, 0);
    assert_true(m.sim.bytes_ns > 8);
    mo_bench_machine_close(&m);
    static const char *const with[] = {"contention=versions:1.8",
                                       "versions=3",
                                       "last_level=sliced",
                                       "block_us=2.5",
                                       "cores=8",
                                       "stalls=2:30"};
    if (open_with(with, 6, &m, &err)) fail_msg("%s", err.message);
    assert_int_equal(m.sim.contention.kind, MO_CONTENTION_VERSIONS);
    near(m.sim.contention.most, 1.8, 0);
    assert_int_equal(m.sim.contention.versions, 3);
    assert_int_equal(m.caches.versions, 3);
    assert_int_equal(m.sim.slice_cores, 2);
    near(m.sim.cache_bytes, 4 * 1048576.0, 0);
    near(m.sim.bytes_ns, 0, 0);
    assert_int_equal(m.sim.block_ns, 2500);
    assert_int_equal(m.sim.n_cores, 8);
    near(m.stalls.a_second, 2, 0);
    mo_bench_machine_close(&m);
}

static void bad_values_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *with, *why;
    } rows[] = {{"contention", "no KEY=VALUE"},
                {"=3", "no KEY=VALUE"},
                {"block_us=", "no KEY=VALUE"},
                {"contention=factor:0", "factor:M"},
                {"contention=7", "contention"},
                {"last_level=cut", "pooled or sliced"},
                {"versions=9", "versions"},
                {"colour=red", "colour"},
                {"stalls=2:", "stalls a second"},
                {"slow=2:1", "mean seconds"},
                {"noise=nan", "not a finite number"},
                {"cores=-inf", "not a finite number"},
                {"corun=1e999", "not a finite number"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mo_bench_machine m;
        moire_error err = {0};
        if (!open_with(&rows[i].with, 1, &m, &err)) fail_msg("'%s' was taken", rows[i].with);
        if (!strstr(err.message, rows[i].why)) fail_msg("%s: %s", rows[i].with, err.message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_family_is_what_its_head_says),
        cmocka_unit_test(fewer_versions_lie_evenly_among_all),
        cmocka_unit_test(a_profile_takes_the_family),
        cmocka_unit_test(measured_versions_are_limited_too),
        cmocka_unit_test(busy_cores_slow_blocks_down_in_proportion),
        cmocka_unit_test(blocks_suffer_what_policies_see),
        cmocka_unit_test(a_tolerant_version_is_slowed_down_less),
        cmocka_unit_test(slices_hold_what_their_own_cores_touch),
        cmocka_unit_test(one_slice_is_a_pooled_cache),
        cmocka_unit_test(texts_are_read_or_refused),
        cmocka_unit_test(keys_of_a_machine_are_replaced),
        cmocka_unit_test(bad_values_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
