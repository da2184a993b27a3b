/* SPDX-License-Identifier: Apache-2.0
 * test_share_table.c - profile files of shares: what is read, and what is refused with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/data/process.h"
#include "runtime/profile/share_table.h"
#include "tests/unit/base/fault_sys.h"

#define HEAD    "# moire-profile 1\n"
#define COLUMNS "batch,what,200,1000\n"

static const char good[] = HEAD "# model tiny\n# machine a test\n# source nowhere\n# note none\n"
                                "# memory_mib 1.5\n# copy_bytes 600 40\n" COLUMNS "1,us,400,200\n"
                                "1,l2,5,10\n"
                                "4,us,1200,\n"
                                "4,sm,30,\n"
                                "4,dram,,80.5\n";

static const struct mo_env *the_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

static int parse(const char *text, struct mo_share_table *t, moire_error *err) {
    return mo_share_table_parse(the_env(), "p.csv", text, strlen(text), t, err);
}

static void a_file_becomes_a_profile(void **state) {
    (void)state;
    struct mo_share_table t;
    assert_int_equal(parse(good, &t, NULL), MOIRE_OK);
    assert_string_equal(t.model, "tiny");
    assert_string_equal(t.machine, "a test");
    assert_string_equal(t.source, "nowhere");
    assert_string_equal(t.note, "none");
    const struct mo_share_profile *p = t.profile;
    assert_int_equal(p->memory_bytes, 1536 * 1024);
    assert_int_equal(p->in_bytes, 600);
    assert_int_equal(p->out_bytes, 40);
    assert_int_equal(mo_share_latency(p, 1, 200), 400000);
    assert_int_equal(mo_share_latency(p, 4, 1000), 600000); /* a hole */
    assert_true(fabs(mo_share_use_at(p, 1, 1000).l2 - 0.1) < 1e-12);
    assert_true(fabs(mo_share_use_at(p, 4, 200).sm - 0.3) < 1e-12);
    assert_true(fabs(mo_share_use_at(p, 4, 1000).dram - 0.805) < 1e-12);
    mo_share_table_free(&t);
}

static void what_is_written_is_read_again(void **state) {
    (void)state;
    struct mo_share_table t, again;
    size_t n, m;
    assert_int_equal(parse(good, &t, NULL), MOIRE_OK);
    char *text = mo_share_table_text(&t, &n);
    assert_non_null(text);
    assert_int_equal(n, strlen(good));
    assert_memory_equal(text, good, n);
    assert_int_equal(mo_share_table_parse(the_env(), "p.csv", text, n, &again, NULL), MOIRE_OK);
    char *second = mo_share_table_text(&again, &m);
    assert_non_null(second);
    assert_int_equal(m, n);
    assert_memory_equal(second, text, n);
    mo_share_table_free(&t);
    mo_share_table_free(&again);
}

/* Whatever was measured, a hole or nonsense: what is written is read back, as long as one time was measured.
 */
static void whatever_is_written_is_read(void **state) {
    (void)state;
    enum { BATCHES = 3, SHARES = 4, ROUNDS = 2000, SEED = 15 };
    static const int64_t times[] = {0, -1, 1, INT64_MIN, INT64_MAX, INT64_C(2000000000000)};
    static const double uses[] = {0, -1, NAN, INFINITY, -INFINITY, 1e-300, 1, 2, 1e300};
    static const char *const texts[] = {"", "two\nlines", "tab\tand\rreturn", "copy_bytes x"};
    static const int batch[] = {1, 4, 256}, share[] = {1, 250, 500, 1000};
    struct mo_rng rng;
    mo_rng_seed(&rng, SEED, 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct mo_share_table t = {.model = texts[round % 4],
                                   .machine = texts[round / 4 % 4],
                                   .note = texts[round / 16 % 4],
                                   .region = mo_region_create(the_env())},
                              back;
        struct mo_share_profile *p = t.profile = mo_share_create(the_env(), BATCHES, batch, SHARES, share);
        p->memory_bytes = times[round % 6];
        p->in_bytes = times[round / 6 % 6];
        p->out_bytes = times[round / 36 % 6];
        int known = 0;
        for (int i = 0; i < BATCHES * SHARES; i++) {
            double *use = &p->cell[i].use.sm;
            bool odd = mo_rng_uniform(&rng) < 0.6;
            p->cell[i].ns = odd ? times[(int)(6 * mo_rng_uniform(&rng)) % 6]
                                : (int64_t)pow(10, 12 * mo_rng_uniform(&rng));
            p->cell[i].use = (struct mo_share_use){mo_rng_uniform(&rng), uses[(round + i) % 9], uses[i % 9]};
            *use = odd ? *use : uses[round % 9];
            known += p->cell[i].ns > 0;
        }
        size_t n;
        moire_error err;
        char *text = mo_share_table_text(&t, &n);
        assert_non_null(text);
        int code = mo_share_table_parse(the_env(), "p.csv", text, n, &back, &err);
        if (known && code) fail_msg("seed %d, round %d: %s", SEED, round, err.message);
        if (!code) mo_share_table_free(&back);
        mo_share_table_free(&t);
    }
}

static void bad_files_are_refused_with_their_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *where, *why;
    } rows[] = {
        {"", "p.csv:1:", "before the first batch"},
        {"batch,what,100\n", "p.csv:1:", "not a profile"},
        {HEAD "# memory_mib lots\n", "p.csv:2:", "memory_mib"},
        {HEAD "# copy_bytes 5\n", "p.csv:2:", "copy_bytes"},
        {HEAD "# copy_bytes 5 -1\n", "p.csv:2:", "copy_bytes"},
        {HEAD "layer,name,variant\n", "p.csv:2:", "header must begin"},
        {HEAD "batch,what\n", "p.csv:2:", "header must begin"},
        {HEAD "batch,what,0\n", "p.csv:2:", "share"},
        {HEAD "batch,what,1001\n", "p.csv:2:", "share"},
        {HEAD "batch,what,12.5\n", "p.csv:2:", "share"},
        {HEAD "batch,what,200,200\n", "p.csv:2:", "rise"},
        {HEAD COLUMNS, "p.csv:3:", "before the first batch"},
        {HEAD COLUMNS "x,us,1,1\n", "p.csv:3:", "batch"},
        {HEAD COLUMNS "1.5,us,1,1\n", "p.csv:3:", "batch"},
        {HEAD COLUMNS "257,us,1,1\n", "p.csv:3:", "batch"},
        {HEAD COLUMNS "1\n", "p.csv:3:", "us, sm, l2 or dram"},
        {HEAD COLUMNS "1,ms,1,1\n", "p.csv:3:", "us, sm, l2 or dram"},
        {HEAD COLUMNS "1,l2,1,1\n", "p.csv:3:", "then sm"},
        {HEAD COLUMNS "1,us,2,1\n2,l2,1,1\n", "p.csv:4:", "then sm"},
        {HEAD COLUMNS "1,us,2,1\n1,dram,1,1\n1,l2,1,1\n", "p.csv:5:", "then sm"},
        {HEAD COLUMNS "1,us,2,1\n1,l2,1,1\n1,l2,1,1\n", "p.csv:5:", "at most once"},
        {HEAD COLUMNS "2,us,2,1\n1,us,2,1\n", "p.csv:4:", "rise"},
        {HEAD COLUMNS "2,us,2,1\n2,us,2,1\n", "p.csv:4:", "rise"},
        {HEAD COLUMNS "1,us,2\n", "p.csv:3:", "fewer cells"},
        {HEAD COLUMNS "1,us,2,1,1\n", "p.csv:3:", "more cells"},
        {HEAD COLUMNS "1,us,,\n", "p.csv:3:", "without any time"},
        {HEAD COLUMNS "1,us,2,-1\n", "p.csv:3:", "'-1' at share 1000"},
        {HEAD COLUMNS "1,us,nan,1\n", "p.csv:3:", "'nan' at share 200"},
        {HEAD COLUMNS "1,us,inf,1\n", "p.csv:3:", "'inf' at share 200"},
        {HEAD COLUMNS "1,us,2,1\n1,l2,2,101\n", "p.csv:4:", "percentage"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mo_share_table t;
        moire_error err = {0};
        assert_int_equal(parse(rows[i].text, &t, &err), MOIRE_EFORMAT);
        if (!strstr(err.message, rows[i].where) || !strstr(err.message, rows[i].why))
            fail_msg("row %zu: '%s' names neither %s nor '%s'", i, err.message, rows[i].where, rows[i].why);
    }
}

static void every_cut_and_flip_is_survived(void **state) {
    (void)state;
    unsigned rng = 7;
    int accepted = 0;
    for (int round = 0; round < 4000; round++) {
        struct mo_share_table t;
        char text[sizeof good];
        memcpy(text, good, sizeof text);
        size_t n = sizeof good - 1;
        for (int k = 0; k < round % 3; k++) {
            rng = rng * 1103515245u + 12345;
            text[rng / 65536 % n] = (char)(rng >> 8);
        }
        if (round % 2) n = (size_t)(round / 2) % n;
        moire_error err;
        if (mo_share_table_parse(the_env(), "p.csv", text, n, &t, &err)) continue;
        accepted++;
        for (int b = 1; b <= t.profile->max_batch; b++)
            assert_true(mo_share_latency(t.profile, b, 500) > 0);
        mo_share_table_free(&t);
    }
    assert_in_range(accepted, 100, 3999);
}

static int read_good(void *ctx) {
    struct mo_env env = mo_env_default();
    struct mo_share_table t;
    env.sys = &((struct fault_sys *)ctx)->table;
    int code = mo_share_table_parse(&env, "p.csv", good, sizeof good - 1, &t, NULL);
    if (!code) mo_share_table_free(&t);
    return code;
}

static void no_memory_is_an_error_and_no_leak(void **state) {
    (void)state;
    struct fault_sys fault;
    fault_sys_init(&fault);
    assert_true(fault_sys_sweep(&fault, read_good, &fault, MOIRE_ENOMEM) > 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_becomes_a_profile),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(whatever_is_written_is_read),
        cmocka_unit_test(bad_files_are_refused_with_their_line),
        cmocka_unit_test(every_cut_and_flip_is_survived),
        cmocka_unit_test(no_memory_is_an_error_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
