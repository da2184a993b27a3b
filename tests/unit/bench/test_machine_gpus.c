/* SPDX-License-Identifier: Apache-2.0
 * test_machine_gpus.c - machines with GPUs: the shipped files, and what is refused. */
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
#include "bench/data/machine.h"

static const struct mo_env *the_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

/* Loads a machine from text, through a file, for machines live in files. */
static int load(const char *text, bool cores, struct mo_bench_machine *m, moire_error *err) {
    static const char path[] = "/tmp/moire-machine-gpus.json";
    char name[64];
    snprintf(name, sizeof name, "%s.%d.json", path, (int)getpid());
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    int code = (cores ? mo_bench_machine_load : mo_bench_machine_open)(the_env(), name, m, err);
    unlink(name);
    return code;
}

/* Every shipped machine reads, and every one with GPUs has the five models of gpu-let on each type. */
static void shipped_machines_have_their_profiles(void **state) {
    (void)state;
    static const struct {
        const char *path;
        int cores, types, gpus;
    } rows[] = {{"bench/machines/gpus4-2080ti.json", 0, 1, 4}, {"bench/machines/gpus4-v100.json", 0, 1, 4},
                {"bench/machines/gpus2-v100.json", 0, 1, 2},   {"bench/machines/gpus64-v100.json", 0, 1, 64},
                {"bench/machines/gpus-mixed.json", 64, 2, 4},  {"bench/machines/cores64.json", 64, 0, 0}};
    static const char *const models[] = {"lenet", "googlenet", "resnet50", "ssd-mobilenet", "vgg16"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mo_bench_machine m;
        struct mo_share_table t;
        moire_error err = {0};
        int all = 0;
        if (mo_bench_machine_open(the_env(), rows[i].path, &m, &err)) fail_msg("%s", err.message);
        assert_int_equal(m.sim.n_cores, rows[i].cores);
        assert_int_equal(m.n_gpus, rows[i].types);
        for (int g = 0; g < m.n_gpus; g++) {
            all += m.gpus[g].count;
            for (size_t k = 0; k < sizeof models / sizeof models[0]; k++) {
                if (mo_bench_machine_shares(the_env(), &m, g, models[k], &t, &err))
                    fail_msg("%s", err.message);
                assert_string_equal(t.model, models[k]);
                assert_int_equal(t.profile->max_batch, 32);
                assert_true(t.profile->copy_bytes_ns > 9.9 && t.profile->copy_bytes_ns < 10.1);
                assert_true(mo_share_use_at(t.profile, 8, 500).l2 > 0);
                mo_share_table_free(&t);
            }
            assert_int_equal(mo_bench_machine_shares(the_env(), &m, g, "nobody", &t, &err), MOIRE_EINVAL);
            assert_non_null(strstr(err.message, "'nobody' on a GPU of type"));
        }
        assert_int_equal(all, rows[i].gpus);
        mo_bench_machine_close(&m);
    }
}

#define GPU(more)                                                                                            \
    "{\"name\": \"m\", \"gpus\": [{\"type\": \"a\", \"units\": 16, \"memory_mib\": 100" more "}]}"

static void a_policy_lies_beside_the_machine_or_where_it_says(void **state) {
    (void)state;
    struct mo_bench_machine m;
    struct mo_policy_file policy;
    moire_error err = {0};
    if (mo_bench_machine_open(the_env(), "bench/machines/gpus64-v100-mps.json", &m, &err))
        fail_msg("%s", err.message);
    assert_string_equal(m.policy, "bench/machines/gpus4-v100-mps.mo");
    mo_bench_machine_close(&m);
    assert_int_equal(load(GPU(""), false, &m, &err), MOIRE_OK);
    assert_true(strstr(m.policy, "/tmp/moire-machine-gpus.json") && strstr(m.policy, ".mo") &&
                !strstr(m.policy, ".json.mo"));
    assert_int_equal(mo_bench_machine_learned(the_env(), &m, NULL, &policy, &err), MOIRE_EINVAL);
    assert_true(strstr(err.message, m.policy) && strstr(err.message, "--weights"));
    assert_int_equal(mo_bench_machine_learned(the_env(), &m, "/none.mo", &policy, &err), MOIRE_EIO);
    assert_non_null(strstr(err.message, "'/none.mo'"));
    mo_bench_machine_close(&m);
    if (mo_bench_machine_open(the_env(), "bench/machines/gpus-mixed.json", &m, &err))
        fail_msg("%s", err.message);
    assert_int_equal(mo_bench_machine_learned(the_env(), &m, NULL, &policy, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "here are 2 types"));
    mo_bench_machine_close(&m);
}

static void sizes_come_from_a_list_or_a_rule(void **state) {
    (void)state;
    struct mo_bench_machine m;
    moire_error err = {0};
    assert_int_equal(load(GPU(", \"min\": 2, \"align\": 4"), false, &m, &err), MOIRE_OK);
    const struct mo_plan_kind *k = &m.gpus[0].kind;
    static const int by_rule[] = {2, 6, 10, 14, 16};
    assert_int_equal(k->n_sizes, 5);
    assert_memory_equal(k->sizes, by_rule, sizeof by_rule);
    assert_int_equal(k->max_lets, 16);
    assert_int_equal(m.gpus[0].count, 1);
    assert_true(k->memory_bytes == 100 << 20);
    mo_bench_machine_close(&m);
    assert_int_equal(load(GPU(", \"sizes\": [4, 16]"), false, &m, &err), MOIRE_OK);
    assert_int_equal(m.gpus[0].kind.n_sizes, 2);
    assert_int_equal(m.gpus[0].kind.sizes[1], 16);
    mo_bench_machine_close(&m);
}

static void bad_machines_are_refused_with_a_place(void **state) {
    (void)state;
    static const struct {
        const char *text, *where;
        bool cores;
    } rows[] = {
        {"{\"name\": \"m\"}", "\"cores\", or \"gpus\"", false},
        {GPU(""), "has no \"cores\"", true},
        {"{\"name\": \"m\", \"gpus\": []}", "1 to 8 types", false},
        {GPU(", \"min\": 17"), "min", false},
        {"{\"name\": \"m\", \"gpus\": [{\"type\": \"a\", \"units\": 2, \"memory_mib\": 1, \"min\": 3}]}",
         "too small for any let", false},
        {GPU(", \"sizes\": [4, 17]"), "gpus[0].sizes", false},
        {GPU(", \"sizes\": [4, 4]"), "rising", false},
        {GPU(", \"sizes\": []"), "gpus[0].sizes", false},
        {GPU(", \"sizes\": [4], \"min\": 2"), "either", false},
        {GPU(", \"count\": 65"), "count", false},
        {GPU(", \"units\": 3"), "duplicate", false},
        {GPU(", \"memory\": 3"), "memory", false},
        {GPU(", \"copy_gib_s\": -1"), "copy_gib_s", false},
        {GPU(", \"interference\": {\"l2_self\": 0}"), "l2_other", false},
        {GPU(", \"interference\": {\"l2_self\": 0, \"l2_other\": -1, \"dram_self\": 0, \"dram_other\": 0, "
             "\"constant\": 1}"),
         "l2_other", false},
        {"{\"name\": \"m\", \"gpus\": [{\"type\": \"a\", \"units\": 2, \"memory_mib\": 1},"
         "{\"type\": \"a\", \"units\": 2, \"memory_mib\": 1}]}",
         "second entry", false},
        {"{\"name\": \"m\", \"gpus\": [{\"type\": \"a\", \"units\": 2, \"memory_mib\": 1, \"count\": 40},"
         "{\"type\": \"b\", \"units\": 2, \"memory_mib\": 1, \"count\": 40}]}",
         "80 GPUs", false},
        {"{\"name\": \"m\", \"gpus\": [{\"type\": \"a/b\", \"units\": 2, \"memory_mib\": 1}]}", "name",
         false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mo_bench_machine m;
        moire_error err = {0};
        assert_int_equal(load(rows[i].text, rows[i].cores, &m, &err), MOIRE_EFORMAT);
        if (!strstr(err.message, rows[i].where) || !strstr(err.message, ".json:"))
            fail_msg("row %zu: '%s' does not name '%s'", i, err.message, rows[i].where);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_machines_have_their_profiles),
        cmocka_unit_test(a_policy_lies_beside_the_machine_or_where_it_says),
        cmocka_unit_test(sizes_come_from_a_list_or_a_rule),
        cmocka_unit_test(bad_machines_are_refused_with_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
