/* SPDX-License-Identifier: Apache-2.0
 * test_topology.c - cores under affinity, cpuset and quota; texts of control groups; core sets. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/device/cgroup.h"
#include "runtime/base/cores.h"
#include "runtime/device/topology.h"

/* A folder tree that stands for "/": files made by the test, removed at its end. */
static char root[64];
static char made[32][400];
static int n_made;

static void make_file(const char *path, const char *text) {
    char whole[400];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (!mkdir(whole, 0755)) memcpy(made[n_made++], whole, sizeof whole);
        *slash = '/';
    }
    bool fresh = access(whole, F_OK) != 0;
    FILE *f = fopen(whole, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    if (fresh) memcpy(made[n_made++], whole, sizeof whole);
}

static int open_root(void **state) {
    (void)state;
    memcpy(root, "/tmp/moire-root-XXXXXX", sizeof "/tmp/moire-root-XXXXXX");
    n_made = 0;
    return mkdtemp(root) ? 0 : -1;
}

static int close_root(void **state) {
    (void)state;
    while (n_made > 0)
        if (remove(made[--n_made])) return -1;
    return rmdir(root);
}

static int n_cores(const char *synthetic, int threads) {
    struct mo_env env = mo_env_default();
    struct mo_topology *t = NULL;
    moire_error err;
    assert_int_equal(mo_topology_create(&env, synthetic, threads, root, &t, &err), MOIRE_OK);
    int n = t->n_cores;
    mo_topology_destroy(t);
    return n;
}

static void synthetic_machines(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_topology *t = NULL;
    assert_int_equal(mo_topology_create(&env, "pack:2 core:8 pu:2", 0, root, &t, NULL), MOIRE_OK);
    assert_int_equal(t->n_cores, 16);
    assert_int_equal(t->n_packages, 2);
    assert_int_equal(t->cpu[1], 2); /* one processing unit a core */
    assert_int_equal(t->package[0], t->package[7]);
    assert_int_not_equal(t->package[7], t->package[8]);
    mo_topology_destroy(t);
    assert_int_equal(n_cores("pack:2 core:8 pu:2", 5), 5);
    assert_int_equal(n_cores("pu:4", 0), 4);
    assert_int_equal(n_cores("numa:2 core:600 pu:1", 0), MO_MAX_CORES);
    moire_error err;
    assert_int_equal(mo_topology_create(&env, "pack:x", 0, root, &t, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "pack:x"));
}

/* The cores that a runtime of this thread would take, when the thread may run on the last one only. */
static void *by_a_narrow_thread(void *out) {
    cpu_set_t all, one;
    struct mo_env env = mo_env_default();
    struct mo_topology *t = NULL;
    size_t cpu = CPU_SETSIZE - 1;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(cpu, &all))
        cpu--;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(mo_topology_create(&env, NULL, 0, root, &t, NULL), MOIRE_OK);
    *(bool *)out = t->n_cores == 1 && t->cpu[0] == (int)cpu;
    mo_topology_destroy(t);
    return NULL;
}

/* Other threads of the process may run elsewhere, and the process's first core is theirs. */
static void affinity_of_the_thread_is_respected(void **state) {
    (void)state;
    pthread_t thread;
    bool only_that_one = false;
    assert_int_equal(pthread_create(&thread, NULL, by_a_narrow_thread, &only_that_one), 0);
    pthread_join(thread, NULL);
    assert_true(only_that_one);
}

static void quota_of_version_2(void **state) {
    (void)state;
    make_file("/proc/self/cgroup", "0::/a/b\n");
    make_file("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_int_equal(n_cores("core:8 pu:1", 0), 8);
    make_file("/sys/fs/cgroup/a/cpu.max", "250000 100000\n"); /* the parent's counts too */
    assert_int_equal(n_cores("core:8 pu:1", 0), 3);
    make_file("/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    assert_int_equal(n_cores("core:8 pu:1", 0), 1);
}

static void quota_of_version_1(void **state) {
    (void)state;
    make_file("/proc/self/cgroup", "9:name=systemd:/\n2:cpu,cpuacct:/box\n0::/\n");
    make_file("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "400000\n");
    make_file("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
    assert_int_equal(n_cores("core:8 pu:1", 0), 4);
}

static void quota_inside_a_container(void **state) {
    (void)state;
    make_file("/proc/self/cgroup", "0::/host/path/that/is/not/mounted\n");
    make_file("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    assert_int_equal(n_cores("core:8 pu:1", 0), 2);
}

static void warn(void *user, int level, const char *line) {
    *(int *)user += level == MOIRE_LOG_WARN && strstr(line, "quota");
}

static void nonsense_is_unlimited_with_a_warning(void **state) {
    (void)state;
    int warnings = 0;
    struct mo_env env = mo_env_default();
    env.log = warn;
    env.log_user = &warnings;
    make_file("/proc/self/cgroup", "0::/x\n");
    make_file("/sys/fs/cgroup/x/cpu.max", "lots of it\n");
    struct mo_topology *t = NULL;
    assert_int_equal(mo_topology_create(&env, "core:8 pu:1", 0, root, &t, NULL), MOIRE_OK);
    assert_int_equal(t->n_cores, 8);
    assert_int_equal(warnings, 1);
    mo_topology_destroy(t);
}

static void texts_of_quotas(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t milli;
        bool bad;
    } v2[] = {
        {"max 100000\n", 0, false},
        {"max\n", 0, false},
        {"150000 100000\n", 1500, false},
        {"1000 100000", 10, false},
        {"", 0, true},
        {"max100000", 0, true},
        {"-1 100000", 0, true},
        {"100000", 0, true},
        {"100000 0\n", 0, true},
        {"100000 -5\n", 0, true},
        {"0 100000\n", 0, true},
        {"1e9 100000\n", 0, true},
        {"9999999999999999999999 100000\n", 0, true},
        {"100000 100000 7\n", 0, true},
        {"100000  100000\n", 0, true},
        {"100000 1\n", 0, true},
        {"\n", 0, true},
        {"1 1000\n", 1, false},
        {"100000 99999999999\n", 0, true},
    };
    for (size_t i = 0; i < sizeof v2 / sizeof *v2; i++) {
        bool bad = false;
        assert_int_equal(mo_cgroup_v2_quota(v2[i].text, &bad), v2[i].milli);
        assert_int_equal(bad, v2[i].bad);
    }
    bool bad = false;
    assert_int_equal(mo_cgroup_v1_quota("-1\n", "100000\n", &bad), 0);
    assert_false(bad);
    assert_int_equal(mo_cgroup_v1_quota("50000", "100000", &bad), 500);
    assert_false(bad);
    assert_int_equal(mo_cgroup_v1_quota("-7", "100000", &bad), 0);
    assert_true(bad);
}

static void paths_of_groups(void **state) {
    (void)state;
    static const char text[] = "12:cpuset:/set\n3:cpu,cpuacct:/one/two\n1:name=x:/named\n0::/uni/fied";
    char out[64], small[4];
    assert_true(mo_cgroup_path(text, "cpu", out, sizeof out));
    assert_string_equal(out, "/one/two");
    assert_true(mo_cgroup_path(text, NULL, out, sizeof out));
    assert_string_equal(out, "/uni/fied");
    assert_false(mo_cgroup_path(text, "memory", out, sizeof out));
    assert_false(mo_cgroup_path(text, "cpu", small, sizeof small));
    assert_false(mo_cgroup_path("0::/../../etc\n", NULL, out, sizeof out));
    assert_false(mo_cgroup_path("0::relative\n", NULL, out, sizeof out));
    assert_false(mo_cgroup_path("rubbish\n:::\n0:\n\n", NULL, out, sizeof out));
}

static void core_sets(void **state) {
    (void)state;
    struct mo_cores pool = mo_cores_first(70);
    assert_int_equal(mo_cores_count(&pool), 70);
    struct mo_cores got = mo_cores_take(&pool, 3, 66);
    assert_true(mo_cores_has(&got, 66) && mo_cores_has(&got, 0) && mo_cores_has(&got, 1));
    assert_int_equal(mo_cores_count(&pool), 67);
    assert_false(mo_cores_subset(&got, &pool));
    mo_cores_join(&pool, &got);
    assert_true(mo_cores_subset(&got, &pool));
    assert_int_equal(mo_cores_next(&pool, 63), 64);
    assert_int_equal(mo_cores_next(&pool, 69), -1);
    mo_cores_remove(&pool, 0);
    assert_int_equal(mo_cores_next(&pool, -1), 1);
    struct mo_cores last = {0};
    mo_cores_add(&last, MO_MAX_CORES - 1);
    assert_int_equal(mo_cores_next(&last, -1), MO_MAX_CORES - 1);
    assert_int_equal(mo_cores_next(&last, MO_MAX_CORES - 1), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(synthetic_machines, open_root, close_root),
        cmocka_unit_test_setup_teardown(affinity_of_the_thread_is_respected, open_root, close_root),
        cmocka_unit_test_setup_teardown(quota_of_version_2, open_root, close_root),
        cmocka_unit_test_setup_teardown(quota_of_version_1, open_root, close_root),
        cmocka_unit_test_setup_teardown(quota_inside_a_container, open_root, close_root),
        cmocka_unit_test_setup_teardown(nonsense_is_unlimited_with_a_warning, open_root, close_root),
        cmocka_unit_test(texts_of_quotas),
        cmocka_unit_test(paths_of_groups),
        cmocka_unit_test(core_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
