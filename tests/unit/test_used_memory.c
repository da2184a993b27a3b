/* SPDX-License-Identifier: Apache-2.0
 * test_used_memory.c - used_memory.h finds a kernel whose answer depends on what its memory held before.
 *
 * With the argument `read` it runs a kernel that looks at such memory and makes nothing of it, which is for
 * MemorySanitizer to find: `make msan` fails when this program does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "codegen/frontend.h"
#include "tests/unit/onnx_build.h"
#include "tests/unit/used_memory.h"
#include "tools/moire/ways.h"

enum { N = 24 };

/* A plan of one Relu over N numbers. */
static struct mo_plan *plan_of_one_layer(const struct mo_env *env) {
    const struct mo_plan_options options = {.isa = mo_isa_detect()};
    struct ob *b = ob_create(13);
    struct mo_graph *g;
    struct mo_plan *plan;
    size_t n;
    ob_input(b, "x", MOIRE_F32, "1,24");
    ob_node(b, "Relu", "x", "y");
    ob_output(b, "y");
    const uint8_t *bytes = ob_pack(b, &n);
    assert_int_equal(mo_frontend_parse(env, bytes, n, NULL, NULL, &g, NULL), MOIRE_OK);
    assert_int_equal(mo_plan_build(g, &options, &plan, NULL), MOIRE_OK);
    ob_destroy(b);
    return plan;
}

/* All but the last number. */
static void forgets_one(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    (void)begin;
    (void)end;
    (void)scratch;
    memcpy(args->out[0], args->in[0], (N - 1) * sizeof(float));
}

/* What it does, though not what it gives, depends on what was there. */
static void looks_at_it(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const volatile float *was = args->out[0];
    volatile int seen = 0;
    (void)begin;
    (void)end;
    (void)scratch;
    if (was[0] > 1) seen++;
    memcpy(args->out[0], args->in[0], N * sizeof(float));
}

static int run_with(mo_kernel *kernel, moire_error *err) {
    struct mo_env env = mo_env_default();
    struct mo_plan *plan = plan_of_one_layer(&env);
    float x[N] = {1, 2, 3};
    moire_tensor out = {0};
    const moire_tensor in = {.dtype = MOIRE_F32, .rank = 2, .shape = {1, N}, .data = x, .bytes = sizeof x};
    assert_int_equal(plan->n_steps, 1);
    if (kernel) plan->steps[0].run = kernel;
    int rc = run_in_used_memory(plan, &in, 1, &out, err);
    mo_way_free(&env, &out, 1);
    mo_plan_destroy(plan);
    return rc;
}

static void a_sound_kernel_passes(void **state) {
    (void)state;
    assert_int_equal(run_with(NULL, NULL), MOIRE_OK);
}

static void a_forgotten_number_is_found(void **state) {
    (void)state;
    moire_error err = {0};
    assert_int_equal(run_with(forgets_one, &err), MOIRE_EFAILED);
    assert_non_null(strstr(err.message, "from byte 92 of 96 on"));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_kernel_passes),
        cmocka_unit_test(a_forgotten_number_is_found),
    };
    if (argc > 1 && !strcmp(argv[1], "read")) return run_with(looks_at_it, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
