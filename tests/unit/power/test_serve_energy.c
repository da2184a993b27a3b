/* SPDX-License-Identifier: Apache-2.0
 * test_serve_energy.c - joules of a runtime by its public call, on whatever machine this is. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bench/data/json_read.h"
#include "bench/load/run_energy.h"
#include "tests/unit/sched/serve_bed.h"

enum { ENERGY_ROWS = 80 };

/* Whatever this machine measures or does not: some row, whose joules grow and never go back. */
static void joules_only_grow(void **state) {
    (void)state;
    struct serve_bed b;
    serve_open(&b, 0, 0);
    moire_energy_row before[ENERGY_ROWS], now[ENERGY_ROWS];
    int n = 0, more = 0;
    assert_int_equal(moire_energy(b.runtime, before, ENERGY_ROWS, &n, NULL), MOIRE_OK);
    assert_true(n >= 1 && n <= ENERGY_ROWS);
    assert_string_equal(before[0].device, "cpu");
    for (int i = 0; i < 20; i++) {
        struct serve_back back = {0};
        const moire_query_options o = serve_options();
        assert_int_equal(serve_ask(&b, &o, &back), MOIRE_OK);
        serve_await(&back);
        assert_int_equal(moire_energy(b.runtime, now, ENERGY_ROWS, &more, NULL), MOIRE_OK);
        assert_int_equal(more, n);
        for (int k = 0; k < n; k++)
            assert_true(now[k].joules >= before[k].joules);
        memcpy(before, now, sizeof before);
    }
    assert_true(now[0].measured || now[0].joules > 0);
    assert_string_equal(now[0].measured ? "" : now[0].source, now[0].measured ? "" : "model");
    assert_int_equal(moire_energy(b.runtime, NULL, 0, &n, NULL), MOIRE_OK);
    assert_int_equal(n, more);
    assert_int_equal(moire_energy(b.runtime, now, -1, &n, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_energy(b.runtime, NULL, 1, &n, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_energy(b.runtime, now, ENERGY_ROWS, NULL, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_energy(NULL, now, ENERGY_ROWS, &n, NULL), MOIRE_EINVAL);
    moire_runtime_destroy(b.runtime, 1);
}

/* What a bench says of a run is the difference of two looks, and how it is known. */
static void a_run_is_the_difference_of_two_looks(void **state) {
    (void)state;
    struct serve_bed b;
    serve_open(&b, 0, 0);
    static struct mo_run_look from, to;
    mo_run_look(b.runtime, &from);
    to = from;
    assert_null(mo_run_energy_json(b.runtime, &from, &to, 1)); /* no time has passed */
    from = (struct mo_run_look){.n = 3, .at = 1000};
    to = (struct mo_run_look){.n = 3, .at = 1000 + 2000000000};
    static const struct {
        int measured, part;
        double before, after;
    } rows[] = {{1, 0, 10, 16}, {1, 1, 5, 9}, {0, 0, 0, 2}};
    for (int i = 0; i < 3; i++) {
        from.row[i] = (moire_energy_row){.device = "cpu", .domain = "d", .source = "s"};
        to.row[i] = from.row[i];
        to.row[i].measured = rows[i].measured;
        to.row[i].part = rows[i].part;
        from.row[i].joules = rows[i].before;
        to.row[i].joules = rows[i].after;
    }
    json_t *json = mo_run_energy_json(b.runtime, &from, &to, 16);
    assert_true(mo_json_number(json, "joules") == 8 && mo_json_number(json, "watts") == 4);
    assert_true(mo_json_number(json, "joules_query") == 0.5);
    assert_string_equal(mo_json_text(json, "basis"), "measured and modelled");
    assert_int_equal(json_array_size(json_object_get(json, "rows")), 3);
    json_decref(json);
    json = mo_run_energy_json(b.runtime, &from, &to, 0);
    assert_true(mo_json_number(json, "joules_query") == 0);
    json_decref(json);
    moire_runtime_destroy(b.runtime, 1);
}

static void not_in_a_forked_child(void **state) {
    (void)state;
    struct serve_bed b;
    int n = 0, status = 0;
    serve_open(&b, 0, 0);
    const pid_t child = fork();
    if (!child) _exit(moire_energy(b.runtime, NULL, 0, &n, NULL) == MOIRE_EFORKED ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    moire_runtime_destroy(b.runtime, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joules_only_grow),
        cmocka_unit_test(a_run_is_the_difference_of_two_looks),
        cmocka_unit_test(not_in_a_forked_child),
    };
    return cmocka_run_group_tests(tests, serve_setup, serve_teardown);
}
