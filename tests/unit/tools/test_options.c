/* SPDX-License-Identifier: Apache-2.0
 * test_options.c - the table of flags: every row sets its field and no other, stands in the help of its
 * verbs, is read by them, and is refused by all other commands; values that do not fit are refused. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "tools/moire/verbs/bench_common.h"

/* Reads a line that ends with NULL; its first word is the verb. */
static int open_line(const struct mo_env *env, const char *const *words, struct mo_options *o,
                     moire_error *err) {
    int n = 0;
    while (words[n])
        n++;
    return mo_options_open(env, mo_verb_find(words[0]), n, (char **)words, o, err);
}

static const struct {
    const char *words[9]; /* and NULL */
    const char *says;     /* NULL: nothing is wrong */
} lines[] = {
    {{"bench", "latency", "m", "--threads", "1,2"}, NULL},
    {{"bench", "latency", "m", "--threads", "1.5"}, "--threads 1.5: must be a whole number from 1 to 1024"},
    {{"bench", "latency", "m", "--threads", "0"}, "--threads 0"},
    {{"bench", "latency", "m", "--threads", "nan"}, "--threads nan"},
    {{"bench", "latency", "m", "--threads", ","}, "--threads: needs values"},
    {{"bench", "latency", "m", "--threads=1,1,1,1,1,1,1,1,1"}, "--threads: has more values"},
    {{"bench", "serve", "m", "--profile"},
     "no flag '--profile' of `moire bench serve`; `moire bench latency` has"},
    {{"bench", "serve", "m", "--threads", "2", "--neighbour", "1,3,5"}, NULL},
    {{"bench", "serve", "m", "--neighbour", "6"}, "--neighbour 6: must be a whole number from 1 to 5"},
    {{"bench", "serve", "m", "--seed", "9000000000000000"}, NULL},
    {{"bench", "serve", "m", "--seed", "0.5"}, "--seed 0.5"},
    {{"bench", "latency", "m", "--shape", "x=1,3,8,8"}, NULL},
    {{"bench", "latency", "m", "--shape", "x=1,3.5"}, "--shape"},
    {{"bench", "latency", "m", "--shape", "x=1,1,1,1,1,1,1,1,1"}, "--shape"},
    {{"bench", "latency", "m", "--shape", "x"}, "--shape x: must look like NAME=1,3,224,224"},
    {{"bench", "latency", "m", "--shape"}, "--shape: needs a value"},
    {{"bench", "latency"}, "needs FILE.onnx|NAME"},
    {{"bench", "letency", "m"},
     "no command 'letency' of `moire bench`; did you mean 'latency'?  There are: latency, cold, survey, "
     "loadgen, kernels, machine, serve, plans, inss, wattwiser, flexy or report"},
    {{"bench"}, "needs latency"},
    {{"front", "m", "layer"}, NULL},
    {{"front", "m", "layer", "more"}, "'more' is one too many"},
    {{"front"}, "needs FILE.onnx|NAME [LAYER]"},
    {{"tables"}, NULL},
    {{"grid", "a", "--vary", "cores=2,4", "--json"}, NULL},
    {{"tables", "a", "b"}, NULL},
    {{"blocks", "a", "--machine", "b", "--json"}, NULL},
    {{"blocks"}, "needs SCENARIO"},
    {{"sim", "a", "b"}, "'b' is one too many: takes [SCENARIO]"},
    {{"bench", "--json", "machine"}, NULL},
    {{"sim", "m", "--find-max", "1.01"}, "--find-max 1.01: must be a number from 0.01 to 1"},
    {{"sim", "m", "--json=1"}, "--json 1: takes no value"},
    {{"sim", "m", "--jobs="}, "--jobs "},
    {{"sim", "m", "--job", "1"}, "no flag '--job' of `moire sim`; did you mean '--jobs'?"},
    {{"sim", "m", "-"}, "no flag '-' of `moire sim`; `moire help sim` lists them"},
    {{"capacity", "m", "--qps", "1", "--machine", "c", "--output", "f"},
     "no flag '--output' of `moire capacity`"},
    {{"stress", "--kind", "l3"}, NULL},
    {{"stress", "--kind", "l"}, "--kind l: must be one of l2 l3 memory"},
    {{"stress", "--kind", "2 l3"}, "--kind 2 l3"},
    {{"stress", "now"}, "'now': takes flags only"},
    {{"store", "check", "--json"}, NULL},
    {{"store", "--store", "clean", "--json", "check"}, NULL},
    {{"store", "--dry-run"}, "no flag '--dry-run' of `moire store show`; `moire store clean` has"},
    {{"store", "clean", "--dry-run"}, NULL},
    {{"store", "chack"}, "did you mean 'check'?  There are: show, check or clean"},
    {{"zoo", "build", "all", "-o", "f"}, NULL},
    {{"zoo", "build", "all", "-o=f"}, NULL},
    {{"zoo", "build", "all"}, "needs --output PATH"},
    {{"tune", "m", "--versions", "1"}, "--versions 1"},
};

static void bad_words_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        static struct mo_options o;
        struct mo_env env = mo_env_default();
        moire_error err = {0};
        int code = open_line(&env, lines[i].words, &o, &err);
        mo_options_close(&env, &o);
        if (code != (lines[i].says ? MOIRE_EINVAL : MOIRE_OK) ||
            (lines[i].says && !strstr(err.message, lines[i].says)))
            fail_msg("line %zu (%s): %d %s", i, lines[i].words[0], code, err.message);
    }
}

/* --- what fields hold ----------------------------------------------------------------------------------- */
static void values_are_as_given(void **state) {
    (void)state;
    static struct mo_options o;
    struct mo_env env = mo_env_default();
    static const char *const words[] = {"bench",           "serve",   "mix",   "--policy", "moire,none",
                                        "--load=0.5,0.75", "--seed",  "7,8,9", "--json",   "--policy",
                                        "lanes",           "--peers", "a,b",   NULL},
                             *const run[] = {"run",     "m",       "--input", "a=1.npy", "--input",
                                             "b=2.npy", "--shape", "x=2,3",   NULL};
    moire_error err = {0};
    assert_int_equal(open_line(&env, words, &o, &err), MOIRE_OK);
    assert_int_equal(o.command, MO_DO_SERVE);
    assert_int_equal(o.operands.n, 1);
    assert_string_equal(o.operands.word[0], "mix");
    assert_int_equal(o.policies.n, 1); /* the last one counts */
    assert_string_equal(o.policies.word[0], "lanes");
    assert_int_equal(o.loads.n, 2);
    assert_true(o.loads.value[1] == 0.75);
    assert_int_equal(o.seeds.n, 3);
    assert_int_equal(o.seeds.value[2], 9);
    assert_int_equal(o.peers.n, 2);
    assert_string_equal(o.peers.word[1], "b");
    assert_true(o.json && !o.quiet && o.step == 0.05 && o.warmup == 1);
    assert_string_equal(o.argv[12], "a,b"); /* what was typed stays */
    mo_options_close(&env, &o);
    assert_int_equal(open_line(&env, run, &o, &err), MOIRE_OK);
    assert_int_equal(o.inputs.n, 2);
    assert_string_equal(o.inputs.word[1], "b=2.npy");
    assert_string_equal(o.shapes.shape[0].input, "x");
    assert_int_equal(o.shapes.shape[0].shape[1], 3);
    mo_options_close(&env, &o);
}

/* A line as a scenario is served. */
static int serve(bool simulated, const char *const *words, struct mo_bench_serve_options *out,
                 moire_error *err) {
    static struct mo_options o;
    struct mo_env env = mo_env_default();
    assert_int_equal(open_line(&env, words, &o, err), MOIRE_OK);
    int code = mo_bench_serve_options(&o, simulated, out, err);
    mo_options_close(&env, &o);
    return code;
}

static void a_scenario_is_served_as_the_line_says(void **state) {
    (void)state;
    static const char *const plain[] = {"sim", "m", NULL}, *const full[] = {"sim",      "m",
                                                                            "--policy", "none,bound",
                                                                            "--load",   "0.3",
                                                                            "--seeds",  "3",
                                                                            "--warmup", "0",
                                                                            "--step",   "0.1",
                                                                            NULL},
                             *const live[] = {"bench", "serve", "m", "--policy", "moire,bound", NULL},
                             *const bursts[] = {"bench", "serve", "m", "--arrivals", "gamma:0.1", NULL},
                             *const seeds[] = {"sim", "m", "--seeds", "3", "--seed", "4", NULL};
    static struct mo_bench_serve_options s;
    moire_error err = {0};
    assert_int_equal(serve(true, plain, &s, &err), MOIRE_OK);
    assert_int_equal(s.n_policies, 3);
    assert_int_equal(s.n_loads, 0);
    assert_true(s.n_seeds == 1 && s.seeds[0] == 1 && s.seconds == 10 && s.warmup == 1 && s.step == 0.05);
    assert_int_equal(serve(true, full, &s, &err), MOIRE_OK);
    assert_true(s.n_policies == 1 && s.n_loads == 1 && s.loads[0] == 0.3);
    assert_true(s.n_seeds == 3 && s.seeds[2] == 3 && s.warmup == 0 && s.step == 0.1);
    assert_int_equal(serve(false, live, &s, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "--policy bound: only `moire sim` and `moire tables`"));
    assert_int_equal(serve(false, bursts, &s, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "--arrivals gamma:0.1"));
    assert_int_equal(serve(true, seeds, &s, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "--seeds and --seed"));
}

static void numbers_are_whole_texts_in_range(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool number, whole; /* from -5 to 1e18 */
    } rows[] = {
        {"0", true, true},      {"-5", true, true},
        {"7", true, true},      {"1e3", true, false},
        {"2.5", true, false},   {"nan", false, false},
        {"inf", false, false},  {"", false, false},
        {"x", false, false},    {"3x", false, false},
        {"-6", false, false},   {NULL, false, false},
        {"1e19", false, false}, {"99999999999999999999", false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double number = 42;
        int64_t whole = 42;
        const char *text = rows[i].text ? rows[i].text : "nothing";
        bool is_number = mo_text_number(rows[i].text, -5, 1e18, &number);
        bool is_whole = mo_text_whole(rows[i].text, -5, 1000000000000000000, &whole);
        if (is_number != rows[i].number || is_whole != rows[i].whole) fail_msg("%s", text);
        assert_true(is_whole || whole == 42); /* what is refused changes nothing */
    }
}

/* A folder that is named must be there for those who read it; one that is made later need not be. */
static void a_store_that_is_named_exists(void **state) {
    (void)state;
    char path[4096];
    moire_error err = {0};
    assert_int_equal(mo_path_store("/tmp/moire-no-such-store", path, sizeof path, &err), MOIRE_OK);
    assert_int_equal(mo_path_store_there("/tmp/moire-no-such-store", path, sizeof path, &err), MOIRE_EIO);
    assert_non_null(strstr(err.message, "moire-no-such-store"));
    assert_int_equal(mo_path_store_there("/tmp", path, sizeof path, &err), MOIRE_OK);
}

/* --- peers ---------------------------------------------------------------------------------------------- */
/* TVM runs models that were tuned before: who wants all the others must not be told of every one that was
 * not. */
static void all_peers_are_those_that_need_no_tuning(void **state) {
    (void)state;
    static struct mo_options o;
    struct mo_words families;
    moire_error err = {0};
    o.peers.word[0] = "all", o.peers.n = 1;
    assert_int_equal(mo_bench_pick_families(&o, &families, &err), MOIRE_OK);
    assert_int_equal(families.n, 4);
    for (int i = 0; i < families.n; i++)
        assert_string_not_equal(families.word[i], "tvm");
    o.peers.word[1] = "tvm", o.peers.n = 2;
    assert_int_equal(mo_bench_pick_families(&o, &families, &err), MOIRE_OK);
    assert_int_equal(families.n, 5);
    assert_string_equal(families.word[4], "tvm");
    o.peers.word[0] = "tmv", o.peers.n = 1;
    assert_int_equal(mo_bench_pick_families(&o, &families, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "tvm"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_words_are_refused),
        cmocka_unit_test(values_are_as_given),
        cmocka_unit_test(a_scenario_is_served_as_the_line_says),
        cmocka_unit_test(numbers_are_whole_texts_in_range),
        cmocka_unit_test(a_store_that_is_named_exists),
        cmocka_unit_test(all_peers_are_those_that_need_no_tuning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
