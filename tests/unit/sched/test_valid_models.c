/* SPDX-License-Identifier: Apache-2.0
 * test_valid_models.c - a valid model loads: trial runs whose inputs no operator refuses, graphs without
 * layers, outputs listed twice; what cannot fit is refused before memory is touched; and a forked child is
 * told that it has no runtime. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/serve/runtime.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/base/machine_lines.h"
#include "tests/unit/codegen/onnx_build.h"

static char path[] = "/tmp/moire-valid-XXXXXX", last_warning[512];
static int warnings;

static void note_line(void *user, int level, const char *line) {
    (void)user;
    if (level > MOIRE_LOG_WARN || is_of_the_machine(line)) return;
    warnings++;
    snprintf(last_warning, sizeof last_warning, "%s", line);
}

static int set_up(void **state) {
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 || close(fd);
}

static int tear_down(void **state) {
    (void)state;
    return unlink(path);
}

static void save(struct ob *b) {
    size_t n;
    const uint8_t *bytes = ob_pack(b, &n);
    int fd = open(path, O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
    ob_destroy(b);
}

static moire_runtime *start(const struct mo_env *env) {
    moire_config c;
    moire_config_init(&c);
    c.generic_only = 1;
    c.threads = 1;
    c.no_pin = 1;
    c.log = note_line;
    moire_runtime *rt = NULL;
    assert_int_equal(mo_runtime_create(&c, env, 0, &rt, NULL), MOIRE_OK);
    warnings = 0;
    return rt;
}

static int load(moire_runtime *rt, moire_tenant **t) {
    moire_error err = {0};
    int rc = moire_load(rt, path, NULL, t, &err);
    if (rc) print_message("%s\n", err.message);
    return rc;
}

/* Inputs that reach an operand which asks for more than a type and a shape.  All are graph inputs, as words
 * name:type:shape; what runs after `through` gets them by way of these operators. */
static const struct row {
    const char *op, *inputs, *attribute, *through;
    int opset;
} rows[] = {
    {"Div", "x:i64:2 d:i64:2", NULL, NULL, 17},
    {"Mod", "x:i32:2 d:i32:2", NULL, NULL, 17},
    {"Div", "x:i64:2 d:i64:2", NULL, "Identity", 17},
    {"Div", "x:i64:2 d:i64:2", NULL, "Mul", 17},
    {"Gather", "x:f32:1,3 i:i64:2", "axis=0", NULL, 17},
    {"Gather", "x:f32:1,3 i:i64:2", "axis=0", "Identity", 17},
    {"Gather", "x:f32:9,3 i:i32:2", "axis=0", "Mul", 17},
    {"GatherElements", "x:f32:1,3 i:i64:1,2", "axis=0", NULL, 17},
    {"GatherND", "x:f32:1,1 i:i64:2,2", NULL, NULL, 17},
    {"ScatterElements", "x:f32:1,3 i:i64:1,1 u:f32:1,1", "axis=0", NULL, 17},
    {"ScatterND", "x:f32:1,3 i:i64:2,1 u:f32:2,3", NULL, NULL, 17},
    {"TopK", "x:f32:4 k:i64:1", NULL, NULL, 17},
    {"OneHot", "x:i64:4 d:i64:1 v:f32:2", NULL, NULL, 17},
    {"Range", "a:i64: b:i64: c:i64:", NULL, NULL, 17},
    {"Range", "a:f32: b:f32: c:f32:", NULL, NULL, 17},
    {"Slice", "x:f32:3,4 s:i64:2 e:i64:2 a:i64:2 t:i64:2", NULL, NULL, 17},
    {"Reshape", "x:f32:3,4 s:i64:3", NULL, NULL, 17},
    {"Expand", "x:f32:3,4 s:i64:3", NULL, NULL, 17},
    {"Tile", "x:f32:3,4 s:i64:2", NULL, NULL, 17},
    {"Pad", "x:f32:3,4 s:i64:4", NULL, NULL, 17},
    {"ConstantOfShape", "s:i64:3", NULL, NULL, 17},
    {"Unsqueeze", "x:f32:3,4 a:i64:2", NULL, NULL, 17},
    {"Squeeze", "x:f32:3,1,4 a:i64:1", NULL, NULL, 17},
    {"ReduceSum", "x:f32:3,4 a:i64:2", NULL, NULL, 17},
    {"CumSum", "x:f32:3 a:i64:", NULL, NULL, 17},
    {"Split", "x:f32:7 p:i64:2", NULL, NULL, 17},
    {"Trilu", "x:f32:3,4 k:i64:", NULL, NULL, 17},
    {"Resize", "x:f32:1,1,2,2 -:: -:: s:i64:4", NULL, NULL, 17},
    {"Resize", "x:f32:1,1,2,2 -:: s:f32:4", NULL, NULL, 17},
    {"ReverseSequence", "x:f32:3,2 l:i64:2", NULL, NULL, 17},
};

/* One input "name:type:shape" of a row, and what stands between it and the operator. */
static void add_input(struct ob *b, const struct row *row, const char *word, char *to, size_t n) {
    static const struct {
        const char *name;
        int dtype;
    } types[] = {{"f32", MOIRE_F32}, {"i64", MOIRE_I64}, {"i32", MOIRE_I32}};
    char name[8], type[8], shape[16] = "";
    if (*word == '-') {
        snprintf(to, n, "-");
        return;
    }
    sscanf(word, "%7[^:]:%7[^:]:%15s", name, type, shape);
    for (int i = 0; i < 3; i++)
        if (!strcmp(types[i].name, type)) ob_input(b, name, types[i].dtype, shape);
    snprintf(to, n, "%s", name);
    if (!row->through) return;
    char in[32];
    snprintf(in, sizeof in, !strcmp(row->through, "Mul") ? "%s %s" : "%s", name, name);
    snprintf(to, n, "%s2", name);
    ob_node(b, row->through, in, to);
}

static void trial_runs_do_not_fail(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    moire_runtime *rt = start(&env);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ob *b = ob_create(rows[i].opset);
        char words[128], inputs[128] = "", one[32];
        size_t at = 0;
        snprintf(words, sizeof words, "%s", rows[i].inputs);
        for (char *save_word, *w = strtok_r(words, " ", &save_word); w; w = strtok_r(NULL, " ", &save_word)) {
            add_input(b, &rows[i], w, one, sizeof one);
            at += (size_t)snprintf(inputs + at, sizeof inputs - at, "%s%s", at ? " " : "", one);
        }
        bool two = !strcmp(rows[i].op, "TopK") || !strcmp(rows[i].op, "Split");
        ob_node(b, rows[i].op, inputs, two ? "y z" : "y");
        if (rows[i].attribute) ob_int(b, "axis", 0);
        ob_output(b, "y");
        save(b);
        moire_tenant *t;
        warnings = 0;
        int rc = load(rt, &t);
        if (rc || warnings) fail_msg("%s (%s): %d, %s", rows[i].op, rows[i].inputs, rc, last_warning);
        moire_unload(t, NULL);
    }
    moire_runtime_destroy(rt, 1);
}

/* x / (d - d + e): what arithmetic makes of inputs is not followed so far. */
static void a_failing_trial_run_does_not_refuse(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct ob *b = ob_create(17);
    ob_input(b, "x", MOIRE_I64, "2");
    ob_input(b, "d", MOIRE_I64, "2");
    ob_input(b, "e", MOIRE_I64, "2");
    ob_node(b, "Sub", "d e", "none");
    ob_node(b, "Div", "x none", "y");
    ob_output(b, "y");
    save(b);
    moire_runtime *rt = start(&env);
    moire_tenant *t;
    assert_int_equal(load(rt, &t), MOIRE_OK);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last_warning, "division by zero"));
    int64_t x[2] = {12, 14}, d[2] = {5, 9}, e[2] = {1, 2}, y[2] = {0};
    moire_tensor in[3], out = {.data = y, .bytes = sizeof y};
    int64_t *data[3] = {x, d, e};
    for (int i = 0; i < 3; i++)
        in[i] = (moire_tensor){.dtype = MOIRE_I64, .rank = 1, .shape = {2}, .data = data[i], .bytes = 16};
    moire_error err;
    assert_int_equal(moire_run(t, in, 3, &out, 1, &err), MOIRE_OK);
    assert_int_equal(y[0], 3);
    assert_int_equal(y[1], 2);
    e[0] = 5;
    assert_int_equal(moire_run(t, in, 3, &out, 1, &err), MOIRE_EFAILED); /* this query, not the tenant */
    e[0] = 1;
    assert_int_equal(moire_run(t, in, 3, &out, 1, &err), MOIRE_OK);
    moire_runtime_destroy(rt, 1);
}

/* --- graphs with little in them --- */
static moire_tensor row_of(float *data) {
    return (moire_tensor){.dtype = MOIRE_F32, .rank = 1, .shape = {3}, .data = data, .bytes = 12};
}

/* Serves `b`, whose inputs are x where it has any; outputs are compared with the rows of want. */
static void serve(struct ob *b, int n_out, float want[][3]) {
    struct mo_env env = mo_env_default();
    float x[3] = {-1, 2, -3}, got[3][3] = {{0}};
    save(b);
    moire_runtime *rt = start(&env);
    moire_tenant *t;
    assert_int_equal(load(rt, &t), MOIRE_OK);
    assert_int_equal(moire_n_outputs(t), n_out);
    moire_tensor in = row_of(x), out[3] = {row_of(got[0]), row_of(got[1]), row_of(got[2])};
    for (int again = 0; again < 2; again++) {
        memset(got, 0, sizeof got);
        assert_int_equal(moire_run(t, &in, moire_n_inputs(t), out, n_out, NULL), MOIRE_OK);
        for (int i = 0; i < n_out; i++)
            assert_memory_equal(got[i], want[i], sizeof got[i]);
    }
    moire_runtime_destroy(rt, 1);
}

static void outputs_may_be_anything_twice(void **state) {
    (void)state;
    static const float w[3] = {7, 8, 9};
    static const struct {
        const char *outputs[3]; /* x is the input, w a constant, y and z what layers make */
        bool input, layers;
    } graphs[] = {
        {{"x"}, true, false},          {{"w"}, true, false},           {{"w"}, false, false},
        {{"x", "x"}, true, false},     {{"x", "w", "x"}, true, false}, {{"y", "y"}, true, true},
        {{"x", "y", "w"}, true, true}, {{"y", "z", "y"}, true, true},  {{"z", "y", "z"}, true, true},
    };
    for (size_t k = 0; k < sizeof graphs / sizeof *graphs; k++) {
        float want[3][3];
        int n = 0;
        struct ob *b = ob_create(17);
        if (graphs[k].input) ob_input(b, "x", MOIRE_F32, "3");
        ob_floats(b, "w", "3", w);
        if (graphs[k].layers) {
            ob_node(b, "Relu", "x", "y");
            ob_node(b, "Neg", "y", "z");
        }
        for (; n < 3 && graphs[k].outputs[n]; n++) {
            const float x[3] = {-1, 2, -3}, y[3] = {0, 2, 0}, z[3] = {-0.f, -2, -0.f};
            char what = *graphs[k].outputs[n];
            memcpy(want[n], what == 'x' ? x : what == 'y' ? y : what == 'z' ? z : w, sizeof want[n]);
            ob_output(b, graphs[k].outputs[n]);
        }
        serve(b, n, want);
    }
}

/* --- what does not fit --- */
static int64_t little_memory(void *self) {
    (void)self;
    return 64 << 20;
}

static void what_cannot_fit_is_refused_at_once(void **state) {
    (void)state;
    struct fault_sys f;
    fault_sys_init(&f);
    f.table.memory = little_memory;
    struct mo_env env = mo_env_default(), small = env;
    small.sys = &f.table;
    static const struct {
        const char *shape, *says;
        bool small;
    } models[] = {{"1025,1024,1024", "tensor_bytes", false}, {"32,1024,1024", "may have 67108864", true}};
    for (int i = 0; i < 2; i++) {
        struct ob *b = ob_create(17);
        ob_input(b, "x", MOIRE_F32, models[i].shape);
        ob_node(b, "Relu", "x", "y");
        ob_output(b, "y");
        save(b);
        moire_runtime *rt = start(models[i].small ? &small : &env);
        moire_tenant *t;
        moire_error err;
        assert_int_equal(moire_load(rt, path, NULL, &t, &err), MOIRE_ELIMIT);
        if (!strstr(err.message, models[i].says)) fail_msg("%s", err.message);
        moire_runtime_destroy(rt, 1);
    }
}

/* --- fork() --- */
static void never(void *user, const moire_answer *answer) {
    (void)user, (void)answer;
}

/* Every call of a child; the number of the first that does not say so, 0 = all do. */
static int all_refuse(moire_runtime *rt, moire_tenant *t) {
    float x[3] = {0};
    moire_tensor in = row_of(x), out = row_of(x);
    moire_query query;
    moire_tenant *other;
    moire_port port;
    const int codes[] = {
        moire_submit(t, &in, 1, 0, never, NULL, &query, NULL),
        moire_run(t, &in, 1, &out, 1, NULL),
        moire_load(rt, path, NULL, &other, NULL),
        moire_unload(t, NULL),
        moire_drain(rt),
        moire_cancel(rt, 1),
        moire_work(rt, 0),
        moire_record(rt, "/dev/null", NULL),
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i] != MOIRE_EFORKED) return (int)i + 1;
    moire_runtime_destroy(rt, 1);
    return moire_input(t, 0, &port) ? 100 : 0; /* it is still there to be read */
}

/* ThreadSanitizer ends a process that starts threads after fork(). */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
static const bool child_may_start_threads = false;
#else
static const bool child_may_start_threads = true;
#endif

/* In the child: the first call that does not refuse, or 101 when a runtime of its own does not serve. */
static int child(moire_runtime *rt, moire_tenant *t, const struct mo_env *env) {
    int rc = all_refuse(rt, t);
    if (rc || !child_may_start_threads) return rc;
    moire_runtime *own = start(env);
    moire_tenant *again;
    float x[3] = {-1, 2, 3}, y[3];
    moire_tensor in = row_of(x), out = row_of(y);
    if (load(own, &again) || moire_run(again, &in, 1, &out, 1, NULL) || y[0] != 0) rc = 101;
    moire_runtime_destroy(own, 1);
    return rc;
}

static void a_forked_child_is_told(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct ob *b = ob_create(17);
    ob_input(b, "x", MOIRE_F32, "3");
    ob_node(b, "Relu", "x", "y");
    ob_output(b, "y");
    save(b);
    moire_runtime *rt = start(&env);
    moire_tenant *t;
    assert_int_equal(load(rt, &t), MOIRE_OK);
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        alarm(60);
        _exit(child(rt, t, &env));
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    float x[3] = {-1, 2, 3}, y[3]; /* the parent goes on */
    moire_tensor in = row_of(x), out = row_of(y);
    assert_int_equal(moire_run(t, &in, 1, &out, 1, NULL), MOIRE_OK);
    moire_runtime_destroy(rt, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trial_runs_do_not_fail),
        cmocka_unit_test(a_failing_trial_run_does_not_refuse),
        cmocka_unit_test(outputs_may_be_anything_twice),
        cmocka_unit_test(what_cannot_fit_is_refused_at_once),
        cmocka_unit_test(a_forked_child_is_told),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
