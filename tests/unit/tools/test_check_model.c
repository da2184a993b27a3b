/* SPDX-License-Identifier: Apache-2.0
 * test_check_model.c - the verb's answers and exit codes, and the oracle when memory runs out. */
#define _DEFAULT_SOURCE
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
#include "runtime/ops/interpret.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/codegen/random_graph.h"
#include "tools/moire/verify/dataset.h"
#include "tools/moire/verify/doubt.h"
#include "tools/moire/verify/npy.h"
#include "tools/moire/verb.h"

struct place {
    struct mo_env env;
    char folder[64], model[128];
};

static int make_place(void **state) {
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->env = mo_env_default();
    snprintf(p->folder, sizeof p->folder, "/tmp/moire-check-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->model, sizeof p->model, "%s/lenet.onnx", p->folder);
    char *argv[] = {"zoo", "build", "lenet", "-o", p->model, NULL};
    assert_int_equal(mo_verb_call(&p->env, &mo_verb_zoo, 5, argv), MO_EXIT_OK);
    *state = p;
    return 0;
}

static int remove_place(void **state) {
    struct place *p = *state;
    static const char *const names[] = {"lenet.onnx", "bad.onnx", "input.npy", "output.npy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s/%s", p->folder, names[i]);
        unlink(path);
    }
    int rc = rmdir(p->folder);
    free(p);
    return rc;
}

static int check(struct place *p, const char *model, const char *a, const char *b) {
    char first[200], second[200], third[200], verb[] = "check-model";
    snprintf(first, sizeof first, "%s", model);
    snprintf(second, sizeof second, "%s", a ? a : "");
    snprintf(third, sizeof third, "%s", b ? b : "");
    char *argv[] = {verb, first, second, third, NULL};
    return mo_verb_call(&p->env, &mo_verb_check_model, 2 + (a != NULL) + (b != NULL), argv);
}

static void a_good_model_passes(void **state) {
    struct place *p = *state;
    assert_int_equal(check(p, p->model, NULL, NULL), MO_EXIT_OK);
    assert_int_equal(check(p, p->model, "--verify", NULL), MO_EXIT_OK);
    assert_int_equal(check(p, p->model, "--verify", "--json"), MO_EXIT_OK);
}

static void layers_are_checked_one_by_one(void **state) {
    struct place *p = *state;
    assert_int_equal(check(p, p->model, "--layers", NULL), MO_EXIT_OK);
    assert_int_equal(check(p, p->model, "--layers", "--tolerance=0"), MO_EXIT_FAILED); /* all sums round */
}

/* Values that any kernel would agree on. */
static void outputs_that_say_nothing_are_doubted(void **state) {
    (void)state;
    float values[4] = {0};
    moire_tensor t = {.dtype = MOIRE_F32, .rank = 1, .shape = {4}, .data = values, .bytes = sizeof values};
    char why[MO_DOUBT_TEXT];
    assert_true(mo_output_doubt(&t, why, sizeof why));
    assert_string_equal(why, "is 0 in all of its 4 values");
    values[2] = 1e-30f;
    assert_false(mo_output_doubt(&t, why, sizeof why));
    for (int i = 0; i < 4; i++)
        values[i] = -2.5f;
    assert_true(mo_output_doubt(&t, why, sizeof why));
    assert_string_equal(why, "is -2.5 in all of its 4 values");
    values[0] = 1;
    values[3] = NAN;
    assert_true(mo_output_doubt(&t, why, sizeof why));
    assert_string_equal(why, "is NaN in 1 of its 4 values");
    moire_tensor one = {.dtype = MOIRE_F32, .rank = 0, .data = values, .bytes = sizeof *values};
    assert_false(mo_output_doubt(&one, why, sizeof why));
    int64_t index[2] = {7, 7};
    moire_tensor whole = {.dtype = MOIRE_I64, .rank = 1, .shape = {2}, .data = index, .bytes = sizeof index};
    assert_true(mo_output_doubt(&whole, why, sizeof why));
}

static void bad_arguments_are_usage_errors(void **state) {
    struct place *p = *state;
    assert_int_equal(check(p, p->model, "--nonsense", NULL), MO_EXIT_USAGE);
    assert_int_equal(check(p, p->model, "--tolerance", "much"), MO_EXIT_USAGE);
    assert_int_equal(check(p, p->model, "--shape", "x"), MO_EXIT_USAGE);
    assert_int_equal(check(p, "--json", NULL, NULL), MO_EXIT_USAGE);
}

static void damaged_models_are_refused(void **state) {
    struct place *p = *state;
    char path[160], byte;
    snprintf(path, sizeof path, "%s/bad.onnx", p->folder);
    assert_int_equal(check(p, "/nonexistent/model.onnx", NULL, NULL), MO_EXIT_SYSTEM);
    FILE *from = fopen(p->model, "rb"), *to = fopen(path, "wb");
    assert_non_null(from);
    assert_non_null(to);
    for (int i = 0; i < 5000 && fread(&byte, 1, 1, from) == 1; i++)
        fwrite(&byte, 1, 1, to);
    fclose(from);
    fclose(to);
    assert_int_equal(check(p, path, NULL, NULL), MO_EXIT_INPUT);
}

/* Wrong expected data ends with "check failed", data of another shape is refused, right data passes. */
static void data_decides(void **state) {
    struct place *p = *state;
    char in[160], out[160];
    float x[32 * 32] = {0}, y[10] = {0};
    struct mo_graph *g;
    struct mo_frontend_options options = {.no_passes = true};
    struct mo_value want;
    moire_error err;
    assert_int_equal(mo_frontend_load(&p->env, p->model, &options, &g, &err), MOIRE_OK);
    const char *in_name = g->tensors[g->inputs[0]]->name, *out_name = g->tensors[g->outputs[0]]->name;
    snprintf(in, sizeof in, "%s/%s.npy", p->folder, in_name);
    snprintf(out, sizeof out, "%s/%s.npy", p->folder, out_name);
    moire_tensor tx = {.dtype = MOIRE_F32, .rank = 4, .shape = {1, 1, 32, 32}, .data = x, .bytes = sizeof x};
    moire_tensor ty = {.dtype = MOIRE_F32, .rank = 2, .shape = {1, 10}, .data = y, .bytes = sizeof y};
    for (int i = 0; i < 32 * 32; i++)
        x[i] = (float)sin(i);
    assert_int_equal(mo_interpret(g, &tx, 1, &want, &err), MOIRE_OK);
    memcpy(y, want.data, sizeof y);
    mo_interpret_free(&p->env, &want, 1);
    mo_graph_destroy(g);
    assert_int_equal(mo_npy_write(&p->env, in, &tx, &err), MOIRE_OK);
    assert_int_equal(mo_npy_write(&p->env, out, &ty, &err), MOIRE_OK);
    assert_int_equal(check(p, p->model, "--data", p->folder), MO_EXIT_OK);
    y[3] += 1;
    assert_int_equal(mo_npy_write(&p->env, out, &ty, &err), MOIRE_OK);
    assert_int_equal(check(p, p->model, "--data", p->folder), MO_EXIT_FAILED);
    tx.shape[2] = 16;
    tx.shape[3] = 64;
    assert_int_equal(mo_npy_write(&p->env, in, &tx, &err), MOIRE_OK);
    assert_int_equal(check(p, p->model, "--data", p->folder), MO_EXIT_INPUT);
    unlink(in);
    unlink(out);
    assert_int_equal(check(p, p->model, "--data", p->folder), MO_EXIT_SYSTEM);
}

/* --- comparison --- */
static void differences_are_seen(void **state) {
    (void)state;
    float a[] = {1, NAN, INFINITY, 0}, b[] = {1.0005f, NAN, INFINITY, 5e-6f};
    moire_tensor x = {.dtype = MOIRE_F32, .rank = 1, .shape = {4}, .data = a, .bytes = sizeof a}, y = x;
    struct mo_difference d;
    y.data = b;
    assert_true(mo_tensors_agree(&x, &y, 1e-3, 1e-5, &d));
    assert_false(mo_tensors_agree(&x, &y, 1e-4, 1e-5, &d));
    assert_int_equal(d.n_bad, 1);
    b[1] = 0;
    assert_false(mo_tensors_agree(&x, &y, 1e-3, 1e-5, &d));
    assert_false(d.finite);
    b[1] = NAN;
    b[2] = -INFINITY;
    assert_false(mo_tensors_agree(&x, &y, 1e-3, 1e-5, &d));
    y.dtype = MOIRE_I32;
    assert_false(mo_tensors_agree(&x, &y, 1e-3, 1e-5, &d));
    assert_non_null(d.shape);
}

/* --- the oracle --- */
struct oracle {
    struct mo_graph *g;
    const moire_tensor *x;
};

static int run_oracle(void *ctx) {
    const struct oracle *o = ctx;
    struct mo_value out[3];
    int rc = mo_interpret(o->g, o->x, 1, out, NULL);
    if (!rc) mo_interpret_free(o->g->env, out, o->g->n_outputs);
    return rc;
}

static void the_oracle_survives_lack_of_memory(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct mo_env env = mo_env_default();
        struct fault_sys f;
        struct mo_graph *g = random_graph(&env, seed);
        moire_tensor x = random_input(g, seed);
        struct oracle o = {g, &x};
        fault_sys_init(&f);
        env.sys = &f.table;
        assert_true(fault_sys_sweep(&f, run_oracle, &o, MOIRE_ENOMEM) > 0);
        env.sys = mo_sys_posix();
        mo_graph_destroy(g);
    }
}

static void the_oracle_checks_its_inputs(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_graph *g = random_graph(&env, 3);
    moire_tensor x = random_input(g, 3), bad = x;
    struct mo_value out[3];
    moire_error err;
    assert_int_equal(mo_interpret(g, &x, 0, out, &err), MOIRE_EINVAL);
    bad.shape[1]++;
    assert_int_equal(mo_interpret(g, &bad, 1, out, &err), MOIRE_ESHAPE);
    bad = x;
    bad.bytes--;
    assert_int_equal(mo_interpret(g, &bad, 1, out, &err), MOIRE_ESHAPE);
    bad = x;
    bad.rank = 99;
    assert_int_equal(mo_interpret(g, &bad, 1, out, &err), MOIRE_ESHAPE);
    mo_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(layers_are_checked_one_by_one, make_place, remove_place),
        cmocka_unit_test(outputs_that_say_nothing_are_doubted),
        cmocka_unit_test_setup_teardown(a_good_model_passes, make_place, remove_place),
        cmocka_unit_test_setup_teardown(bad_arguments_are_usage_errors, make_place, remove_place),
        cmocka_unit_test_setup_teardown(damaged_models_are_refused, make_place, remove_place),
        cmocka_unit_test_setup_teardown(data_decides, make_place, remove_place),
        cmocka_unit_test(differences_are_seen),
        cmocka_unit_test(the_oracle_survives_lack_of_memory),
        cmocka_unit_test(the_oracle_checks_its_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
