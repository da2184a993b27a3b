/* SPDX-License-Identifier: Apache-2.0
 * test_verify.c - compiled models are verified as wholes: kernels that are wrong where the model has put its
 * tensors are named and serve nobody any more; right ones pass, and their error is stored. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/codegen/onnx_build.h"
#include "runtime/serve/runtime.h"
#include "tools/moire/compile/publish.h"
#include "tools/moire/verb.h"
#include "tests/unit/generator/toy_family.h"
#include "tests/unit/generator/toy_rows.h"

enum { IMAGES = 2, ROWS = 8, WIDTH = 16, X = IMAGES * ROWS * WIDTH, Y = 3 * X };

static struct mo_env env;
static char folder[64], model[96], signature[MO_STORE_TEXT];

static int set_up(void **state) {
    (void)state;
    env = mo_env_default();
    toy_folder(folder);
    snprintf(model, sizeof model, "%s/m.onnx", folder);
    toy_rows_write(toy_rows_sliced("Softsign", true), model);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    toy_remove(folder);
    return 0;
}

static void put(const enum toy_rows *mode, int n) {
    moire_error err = {0};
    int rc = toy_rows_store(&env, folder, model, mode, n, signature, &err);
    if (rc) fprintf(stderr, "%s\n", err.message);
    assert_int_equal(rc, MOIRE_OK);
}

static struct mo_compiled_request request_of(void) {
    return (struct mo_compiled_request){.path = model, .isa = mo_isa_detect()};
}

/* The layers that were withdrawn, one after another. */
struct named {
    int n, version;
    char layer[32], op[32], signature[MO_STORE_TEXT], why[160];
};

static void note(void *ctx, const struct mo_withdrawn *w) {
    struct named *to = ctx;
    to->n++;
    to->version = w->version;
    snprintf(to->layer, sizeof to->layer, "%s", w->layer);
    snprintf(to->op, sizeof to->op, "%s", w->op);
    snprintf(to->signature, sizeof to->signature, "%s", w->signature);
    snprintf(to->why, sizeof to->why, "%s", w->why);
}

static int verify_with(const struct mo_env *with, struct mo_verified *out, struct named *named,
                       moire_error *err) {
    const struct mo_verifier v = {
        .store = folder, .request = request_of(), .seed = 1, .withdrawn = note, .ctx = named};
    *named = (struct named){0};
    return mo_verify_model(with, &v, out, err);
}

static void verify(struct mo_verified *out, struct named *named) {
    moire_error err = {0};
    int rc = verify_with(&env, out, named, &err);
    if (rc) fprintf(stderr, "%s\n", err.message);
    assert_int_equal(rc, MOIRE_OK);
}

static int publish(const struct mo_verified *verified, moire_error *err) {
    const struct mo_compiled_request request = request_of();
    struct mo_published done;
    return mo_publish(&env, folder, &request, verified, &done, err);
}

static bool served_by_signature(void) {
    struct mo_store *store;
    struct mo_variant variant;
    assert_int_equal(mo_store_open(&env, folder, &store, NULL), MOIRE_OK);
    bool found = mo_store_find(store, signature, mo_isa_detect(), &variant);
    assert_int_equal(mo_store_stats(store).damaged + mo_store_stats(store).stale, 0);
    mo_store_close(store);
    return found;
}

struct served {
    bool image;   /* it came from the compiled model */
    int compiled; /* layers with compiled kernels */
    float y[Y];
};

/* Loads as a server does; store: from the compiled model, or kernels by signature where there is none. */
static void serve(const char *store, struct served *out) {
    static float x[X];
    moire_config config;
    moire_runtime *rt;
    moire_tenant *t;
    moire_error err = {0};
    moire_tensor in = {
        .dtype = MOIRE_F32, .rank = 3, .shape = {IMAGES, ROWS, WIDTH}, .data = x, .bytes = sizeof x};
    moire_tensor y = {.data = out->y, .bytes = sizeof out->y};
    for (int i = 0; i < X; i++)
        x[i] = (float)(i % 17 - 8) / 9;
    moire_config_init(&config);
    config.store = store;
    config.threads = 1;
    config.no_pin = 1;
    assert_int_equal(mo_runtime_create(&config, &env, 0, &rt, &err), MOIRE_OK);
    int rc = moire_load(rt, model, NULL, &t, &err);
    if (rc) fprintf(stderr, "%s\n", err.message);
    assert_int_equal(rc, MOIRE_OK);
    assert_int_equal(moire_run(t, &in, 1, &y, 1, &err), MOIRE_OK);
    out->image = t->compiled.file.bytes != NULL;
    out->compiled = 0;
    for (int k = 0; k < t->plan->n_steps; k++)
        out->compiled += !strcmp(t->plan->steps[k].kind, "specialised");
    moire_runtime_destroy(rt, 0);
}

/* --- tests --- */

static void a_right_kernel_passes_and_its_error_is_stored(void **state) {
    (void)state;
    const enum toy_rows mode = ROWS_ROUNDED;
    const struct mo_compiled_request request = request_of();
    struct mo_verified v;
    struct named named;
    struct served s;
    struct mo_store *store;
    struct mo_store_stamp stamp;
    moire_error err = {0};
    put(&mode, 1);
    verify(&v, &named);
    assert_int_equal(named.n, 0);
    assert_int_equal(v.layers, 1);
    assert_int_equal(v.withdrawn + v.unverified, 0);
    assert_true(v.error > 5e-6 && v.error < 1e-4);
    assert_string_equal(v.layer, "y (MatMul)");
    assert_true(v.whole && v.whole_error > 0 && v.whole_error <= v.whole_allowed);
    assert_false(mo_verified_is_wrong(&v));
    assert_int_equal(publish(&v, &err), MOIRE_OK);
    assert_int_equal(mo_store_open(&env, folder, &store, &err), MOIRE_OK);
    assert_int_equal(mo_compiled_read_stamp(store, &env, &request, &stamp, &err), MOIRE_OK);
    mo_store_close(store);
    assert_int_equal(stamp.verified, 1);
    assert_int_equal(stamp.unverified, 0);
    assert_true(stamp.error > 0.99 * v.error && stamp.error < 1.01 * v.error);
    assert_string_equal(stamp.error_layer, v.layer);
    serve(folder, &s);
    assert_true(s.image);
    assert_int_equal(s.compiled, 1);
}

/* After it was published by somebody who did not verify. */
static void wrong_kernel_is_found(enum toy_rows mode, const char *why) {
    static struct served want, got;
    struct mo_verified v;
    struct named named;
    moire_error err = {0};
    put(&mode, 1);
    assert_true(served_by_signature());
    verify(&v, &named);
    if (named.n != 1 || !strstr(named.why, why)) fprintf(stderr, "mode %d: '%s'\n", mode, named.why);
    assert_int_equal(named.n, 1);
    assert_non_null(strstr(named.why, why));
    assert_string_equal(named.layer, "y");
    assert_string_equal(named.op, "MatMul");
    assert_string_equal(named.signature, signature);
    assert_int_equal(v.withdrawn, 1);
    assert_int_equal(v.layers, 0);
    assert_false(served_by_signature());
    serve(NULL, &want);
    serve(folder, &got); /* by signature: no image yet */
    assert_false(got.image);
    assert_int_equal(got.compiled, 0);
    assert_memory_equal(got.y, want.y, sizeof want.y);
    assert_int_equal(publish(&v, &err), MOIRE_OK);
    serve(folder, &got);
    assert_true(got.image);
    assert_int_equal(got.compiled, 0);
    assert_memory_equal(got.y, want.y, sizeof want.y);
    verify(&v, &named); /* it stays out */
    assert_int_equal(named.n, 0);
}

static void wrong_strides_are_found(void **state) {
    (void)state;
    wrong_kernel_is_found(ROWS_DENSE, "unwritten or not finite, the first in image 1");
}

static void wrong_input_is_found(void) {
    const enum toy_rows mode = ROWS_DENSE;
    struct mo_verified v;
    struct named named;
    put(&mode, 1);
    verify(&v, &named);
    assert_int_equal(named.n, 1);
    assert_non_null(strstr(named.why, "of the range in image 1"));
    assert_false(served_by_signature());
}

static void wrong_strides_of_an_input_are_found(void **state) {
    (void)state;
    toy_rows_write(toy_rows_sliced("Softsign", false), model);
    wrong_input_is_found();
}

/* Values that the model makes all the same would hide it: others take their place. */
static void zeros_hide_nothing(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,8,16");
    ob_random(b, "w", "16,16");
    ob_node(b, "Abs", "x", "p");
    ob_node(b, "Neg", "p", "m");
    ob_node(b, "Relu", "m", "a");
    ob_node(b, "Sqrt", "p", "q");
    ob_node(b, "Neg", "q", "n");
    ob_node(b, "Relu", "n", "t");
    ob_node(b, "MatMul", "a w", "y");
    ob_node(b, "Concat", "a t", "c");
    ob_int(b, "axis", 1);
    ob_output(b, "c");
    ob_output(b, "y");
    toy_rows_write(b, model);
    wrong_input_is_found();
}

/* Sums of which little is left round differently in any order: no fault of the kernel. */
static void cancelling_terms_are_no_fault(void **state) {
    (void)state;
    const enum toy_rows mode = ROWS_BACKWARDS;
    static float w[2 * WIDTH * WIDTH];
    struct mo_verified v;
    struct named named;
    struct ob *b = ob_create(13);
    for (int i = 0; i < WIDTH * WIDTH; i++) {
        w[i] = (float)(i * 37 % 101 - 50);
        w[WIDTH * WIDTH + i] = -w[i] * 1.00001f;
    }
    ob_input(b, "x", MOIRE_F32, "2,8,16");
    ob_floats(b, "w", "32,16", w);
    ob_node(b, "Tanh", "x", "t");
    ob_node(b, "Concat", "t t", "a");
    ob_int(b, "axis", 2);
    ob_node(b, "MatMul", "a w", "y");
    ob_output(b, "y");
    toy_rows_write(b, model);
    put(&mode, 1);
    verify(&v, &named);
    assert_int_equal(named.n, 0);
    assert_int_equal(v.layers, 1);
    assert_true(v.whole && v.whole_error > 1e-4); /* of the little that is left */
    assert_false(mo_verified_is_wrong(&v));
}

/* The number of positions is known at run time only; so is the shape of their product. */
static void layers_of_unknown_shape_are_counted(void **state) {
    (void)state;
    const enum toy_rows mode = ROWS_RIGHT;
    struct mo_verified v;
    struct named named;
    struct ob *b = toy_rows_sliced("Softsign", true);
    ob_random(b, "v", "3,4");
    ob_node(b, "NonZero", "x", "at");
    ob_node(b, "Cast", "at", "f");
    ob_int(b, "to", MOIRE_F32);
    ob_node(b, "Transpose", "f", "rows");
    ob_node(b, "MatMul", "rows v", "z");
    ob_output(b, "z");
    toy_rows_write(b, model);
    put(&mode, 1);
    verify(&v, &named);
    assert_int_equal(named.n, 0);
    assert_int_equal(v.layers, 1);
    assert_int_equal(v.unverified, 1);
    assert_true(v.whole);
    assert_true(v.whole_allowed == 0); /* NonZero jumps */
}

static void writing_into_neighbours_is_found(void **state) {
    (void)state;
    wrong_kernel_is_found(ROWS_OVERRUN, "writes outside its output");
}

static void unwritten_elements_are_found(void **state) {
    (void)state;
    wrong_kernel_is_found(ROWS_SHORT, "leaves 1 values unwritten");
}

static void dependence_on_the_split_is_found(void **state) {
    (void)state;
    wrong_kernel_is_found(ROWS_SPLIT, "unwritten or not finite");
}

static void writing_behind_the_scratch_is_found(void **state) {
    (void)state;
    wrong_kernel_is_found(ROWS_SCRATCH, "writes outside its scratch");
}

static void crashes_are_found(void **state) {
    (void)state;
    wrong_kernel_is_found(ROWS_CRASH, "crashes");
}

static void a_compiled_model_made_before_does_not_bring_it_back(void **state) {
    (void)state;
    static struct served want, got;
    const enum toy_rows mode = ROWS_OVERRUN; /* its answer is right: it is published unverified */
    struct mo_verified v;
    struct named named;
    moire_error err = {0};
    put(&mode, 1);
    assert_int_equal(publish(NULL, &err), MOIRE_OK);
    serve(folder, &got);
    assert_true(got.image);
    assert_int_equal(got.compiled, 1);
    verify(&v, &named);
    assert_int_equal(named.n, 1);
    serve(NULL, &want);
    serve(folder, &got); /* that very image */
    assert_int_equal(got.compiled, 0);
    assert_memory_equal(got.y, want.y, sizeof want.y);
}

static void every_version_is_verified(void **state) {
    (void)state;
    const enum toy_rows right[] = {ROWS_RIGHT, ROWS_ROUNDED},
                        wrong[] = {ROWS_RIGHT, ROWS_ROUNDED, ROWS_DENSE};
    struct mo_verified v;
    struct named named;
    put(right, 2);
    verify(&v, &named);
    assert_int_equal(named.n, 0);
    assert_int_equal(v.layers, 1);
    assert_int_equal(v.versions, 2);
    assert_true(v.error > 5e-6);
    put(wrong, 3);
    verify(&v, &named);
    assert_int_equal(named.n, 1);
    assert_int_equal(named.version, 2);
    assert_false(served_by_signature());
}

static void other_kernels_than_the_verified_ones_are_not_published(void **state) {
    (void)state;
    enum toy_rows mode = ROWS_RIGHT;
    struct mo_verified v;
    struct named named;
    moire_error err = {0};
    put(&mode, 1);
    verify(&v, &named);
    mode = ROWS_ROUNDED;
    put(&mode, 1);
    assert_int_equal(publish(&v, &err), MOIRE_EBUSY);
}

static int run_compile(char *a) {
    char verb[] = "compile", store[80], cores[] = "--cores=1";
    snprintf(store, sizeof store, "--store=%s", folder);
    char *argv[] = {verb, model, store, cores, a, NULL};
    return mo_verb_call(&env, &mo_verb_compile, a ? 5 : 4, argv);
}

static void the_command_says_so(void **state) {
    (void)state;
    enum toy_rows mode = ROWS_DENSE;
    char json[] = "--json";
    put(&mode, 1);
    assert_int_equal(run_compile(NULL), MO_EXIT_FAILED);
    assert_false(served_by_signature());
    assert_int_equal(run_compile(json), MO_EXIT_OK); /* nothing wrong is left */
    mode = ROWS_RIGHT;
    put(&mode, 1);
    assert_int_equal(run_compile(json), MO_EXIT_OK);
    assert_true(served_by_signature());
}

static int verify_quietly(void *ctx) {
    struct mo_verified v;
    struct named named;
    moire_error err = {0};
    int rc = verify_with(ctx, &v, &named, &err);
    assert_int_equal(named.n, 0);
    return rc;
}

static void memory_may_run_out(void **state) {
    (void)state;
    const enum toy_rows mode = ROWS_RIGHT;
    struct fault_sys f;
    struct mo_env faulty = env;
    put(&mode, 1);
    fault_sys_init(&f);
    faulty.sys = &f.table;
    fault_sys_sweep(&f, verify_quietly, &faulty, MOIRE_ENOMEM);
    assert_true(served_by_signature());
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_right_kernel_passes_and_its_error_is_stored),
        TEST(wrong_strides_are_found),
        TEST(wrong_strides_of_an_input_are_found),
        TEST(zeros_hide_nothing),
        TEST(cancelling_terms_are_no_fault),
        TEST(layers_of_unknown_shape_are_counted),
        TEST(writing_into_neighbours_is_found),
        TEST(unwritten_elements_are_found),
        TEST(dependence_on_the_split_is_found),
        TEST(writing_behind_the_scratch_is_found),
        TEST(crashes_are_found),
        TEST(a_compiled_model_made_before_does_not_bring_it_back),
        TEST(every_version_is_verified),
        TEST(other_kernels_than_the_verified_ones_are_not_published),
        TEST(the_command_says_so),
        TEST(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
