/* SPDX-License-Identifier: Apache-2.0
 * test_convert_shares.c - tools/convert-shares: times on slices of a GPU become profiles that moire reads,
 * and a cell that will not do is named by file, line and column. */
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
#include "runtime/profile/share_table.h"

static char folder[] = "/tmp/moire-shares-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static void path_of(const char *name, char path[200]) {
    snprintf(path, 200, "%s/%s", folder, name);
}

static int remove_folder(void **state) {
    static const char *const names[] = {"in.csv", "said", "net.csv", "other.csv"};
    char path[200];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        path_of(names[i], path);
        unlink(path);
    }
    return rmdir(folder);
}

/* What it said; "" when it was content. */
static void convert(const char *text, char said[400]) {
    char path[200], command[700];
    path_of("in.csv", path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    snprintf(command, sizeof command, "tools/convert-shares %s/in.csv %s 'An A100' 'a test' 2>%s/said",
             folder, folder, folder);
    const int rc = system(command);
    path_of("said", path);
    f = fopen(path, "r");
    assert_non_null(f);
    const size_t n = fread(said, 1, 399, f);
    fclose(f);
    said[n] = 0;
    assert_int_equal(rc != 0, n > 0);
}

static void check_us(const struct mo_share_profile *p, int batch, int share, int us) {
    const int64_t ns = mo_share_latency(p, batch, share);
    if (ns < INT64_C(1000) * (us - 1) || ns > INT64_C(1000) * (us + 1))
        fail_msg("batch %d on %d: %lld ns, not %d us", batch, share, (long long)ns, us);
}

static void slices_become_shares(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_share_table t;
    moire_error err = {0};
    char said[400], path[200];
    convert("# MIG slices\nmodel,batch,share,ms,l2\nnet,1,1g,7,\nnet,1,3g,3.5,20\nnet,1,7g,1.75,40\n\n"
            "net,8,7g,8,50\nother,1,50,2,\nother,1,100,1.5,\n",
            said);
    assert_string_equal(said, "");
    path_of("net.csv", path);
    if (mo_share_table_read(&env, path, &t, &err)) fail_msg("%s", err.message);
    assert_string_equal(t.model, "net");
    assert_string_equal(t.machine, "An A100");
    check_us(t.profile, 1, 143, 7000);
    check_us(t.profile, 1, 1000, 1750);
    check_us(t.profile, 8, 1000, 8000);
    mo_share_table_free(&t);
    path_of("other.csv", path);
    if (mo_share_table_read(&env, path, &t, &err)) fail_msg("%s", err.message);
    mo_share_table_free(&t);
}

static void a_cell_that_will_not_do_is_named(void **state) {
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"model,batch,ms\n", "in.csv:1, column 1: the head must be"},
        {"model,batch,share,ms,dram,l2\n", "in.csv:1, column 1: the head must be"},
        {"# nothing\n", "in.csv:1, column 1: there is no time in it"},
        {"model,batch,share,ms\nnet,1,8g,1\n", "in.csv:2, column 3: '8g' is no percentage and no slice"},
        {"model,batch,share,ms\nnet,1,101,1\n", "in.csv:2, column 3: 101 is no share"},
        {"model,batch,share,ms\nnet,1,nan,1\n", "in.csv:2, column 3: nan is no share"},
        {"model,batch,share,ms\n# x\nnet,1,50,fast\n", "in.csv:3, column 4: 'fast' is no number"},
        {"model,batch,share,ms\nnet,1,50,0\n", "in.csv:2, column 4: 0 is out of range"},
        {"model,batch,share,ms\nnet,1.5,50,1\n", "in.csv:2, column 2: a batch of 1.5"},
        {"model,batch,share,ms\nnet,257,50,1\n", "in.csv:2, column 2: 257 is out of range"},
        {"model,batch,share,ms\n../net,1,50,1\n", "in.csv:2, column 1: '../net' is no name"},
        {"model,batch,share,ms,l2\nnet,1,50,1,200\n", "in.csv:2, column 5: 200 is out of range"},
        {"model,batch,share,ms\nnet,1,50\n", "in.csv:2, column 3: 3 cells, the head has 4"},
        {"model,batch,share,ms\nnet,1,50,1\nnet,1,50,2\n", "in.csv:3, column 3: net has a time of batch 1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char said[400];
        convert(rows[i].text, said);
        if (!strstr(said, rows[i].said)) fail_msg("'%s' does not say '%s'", said, rows[i].said);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(slices_become_shares),
                                       cmocka_unit_test(a_cell_that_will_not_do_is_named)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
