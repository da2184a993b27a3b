/* SPDX-License-Identifier: Apache-2.0
 * test_cluster_nodes.c - files of machines: names and addresses count up, and whatever is wrong is named. */
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
#include "bench/cluster/cluster_nodes.h"
#include "tests/unit/base/put_file.h"

static int load(const struct mo_env *env, const char *text, struct mo_cluster_nodes *out, moire_error *err) {
    char folder[] = "/tmp/moire-nodes-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    put_file(folder, "m.json", text, 0644);
    snprintf(path, sizeof path, "%s/m.json", folder);
    int code = mo_cluster_nodes_load(env, path, out, err);
    unlink(path);
    rmdir(folder);
    return code;
}

static void rows_become_machines(void **state) {
    (void)state;
    struct mo_cluster_nodes n;
    const struct mo_env env = mo_env_default();
    assert_int_equal(load(&env,
                          "{\"nodes\": [{\"name\": \"a\", \"count\": 3, \"cores\": 16, \"memory_mb\": 32768, "
                          "\"address\": \"10.0.0.254\", \"port\": 9000}, {\"name\": \"b\", \"cores\": 4, "
                          "\"memory_mb\": 100.5}, {\"name\": \"c\", \"count\": 2, \"cores\": 16, "
                          "\"memory_mb\": 1}]}",
                          &n, NULL),
                     MOIRE_OK);
    static const struct mo_cluster_node want[] = {{"a0", "10.0.0.254", 16, 9000, 32768, 0},
                                                  {"a1", "10.0.0.255", 16, 9000, 32768, 0},
                                                  {"a2", "10.0.1.0", 16, 9000, 32768, 0},
                                                  {"b", "b", 4, 8001, 100.5, 1},
                                                  {"c0", "c0", 16, 8001, 1, 0},
                                                  {"c1", "c1", 16, 8001, 1, 0}};
    assert_int_equal(n.n, 6);
    for (int i = 0; i < n.n; i++) {
        assert_string_equal(n.node[i].name, want[i].name);
        assert_string_equal(n.node[i].address, want[i].address);
        assert_int_equal(n.node[i].cores, want[i].cores);
        assert_int_equal(n.node[i].port, want[i].port);
        assert_int_equal(n.node[i].kind, want[i].kind);
        assert_true(n.node[i].memory_mb == want[i].memory_mb);
    }
    assert_int_equal(n.n_kinds, 2);
    assert_int_equal(n.most_cores, 16);
    mo_cluster_nodes_close(&n);
}

static void bad_files_are_refused(void **state) {
    (void)state;
#define ROW "\"cores\": 1, \"memory_mb\": 1"
    static const char *const bad[][2] = {
        {"{\"nodes\": []}", "needs a machine"},
        {"{}", "nodes"},
        {"{\"nodes\": [{\"name\": \"a\", " ROW ", \"color\": 1}]}", "color"},
        {"{\"nodes\": [{" ROW "}]}", "name"},
        {"{\"nodes\": [{\"name\": \"\", " ROW "}]}", "\"name\" and \"address\""},
        {"{\"nodes\": [{\"name\": \"a\", \"memory_mb\": 1}]}", "cores"},
        {"{\"nodes\": [{\"name\": \"a\", \"cores\": 0, \"memory_mb\": 1}]}", "cores"},
        {"{\"nodes\": [{\"name\": \"a\", \"count\": 0, " ROW "}]}", "count"},
        {"{\"nodes\": [{\"name\": \"a\", \"port\": 70000, " ROW "}]}", "port"},
        {"{\"nodes\": [{\"name\": \"a\", \"count\": 2, \"address\": \"host\", " ROW "}]}", "IPv4"},
        {"{\"nodes\": [{\"name\": \"a\", \"count\": 2, \"address\": \"1.2.3.4x\", " ROW "}]}", "IPv4"},
        {"{\"nodes\": [{\"name\": \"a\", \"count\": 2, \"address\": \"255.255.255.255\", " ROW "}]}", "IPv4"},
        {"{\"nodes\": [{\"name\": \"a\", " ROW "}, {\"name\": \"a\", " ROW "}]}", "called 'a'"},
        {"{\"nodes\": [{\"name\": \"a\", \"count\": 2, " ROW "}, {\"name\": \"a1\", " ROW "}]}", "'a1'"},
        {"{\"nodes\": [{\"name\": \"a\", \"count\": 4000, " ROW "}, {\"name\": \"b\", \"count\": 4000, " ROW
         "}]}",
         "more than 4096 machines"},
    };
#undef ROW
    const struct mo_env env = mo_env_default();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mo_cluster_nodes n;
        moire_error err = {0};
        assert_int_equal(load(&env, bad[i][0], &n, &err), MOIRE_EFORMAT);
        if (!strstr(err.message, bad[i][1])) fail_msg("'%s' does not say '%s'", err.message, bad[i][1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_become_machines),
                                       cmocka_unit_test(bad_files_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
