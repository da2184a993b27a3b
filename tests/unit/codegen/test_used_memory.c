/* SPDX-License-Identifier: Apache-2.0
 * test_used_memory.c - used_memory.h finds a kernel whose answer depends on what its memory held before.
 *
 * With the argument `networks` only these run; with `read` it runs a kernel that looks at such memory and
 * makes nothing of it, which is for MemorySanitizer to find: `make msan` fails when this program does not. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "codegen/frontend.h"
#include "models/zoo.h"
#include "tests/unit/codegen/onnx_build.h"
#include "tests/unit/codegen/random_graph.h"
#include "tests/unit/codegen/used_memory.h"
#include "tools/moire/verify/ways.h"

enum { N = 24, SEED = 1 };

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

/* Whole networks, in which every byte of padding and every reuse of the arena is like in production. */
static void networks_depend_on_their_inputs_only(void **state) {
    (void)state;
    static const char *const names[] = {"lenet", "squeezenet1.0", "mobilenet-v2"};
    struct mo_env env = mo_env_default();
    char folder[] = "/tmp/moire-used-XXXXXX", path[512];
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct mo_plan_options options = {.isa = i ? mo_isa_detect() : MO_ISA_BASE};
        moire_error err = {0};
        struct mo_graph *g;
        assert_int_equal(mo_zoo_path(&env, names[i], folder, path, sizeof path, &err), MOIRE_OK);
        assert_int_equal(mo_frontend_load(&env, path, NULL, &g, &err), MOIRE_OK);
        moire_tensor out[4] = {{0}}, in = random_input(g, SEED);
        const struct mo_env *own = g->env;
        void *data = malloc(in.bytes); /* what random_input() gives belongs to the graph */
        assert_non_null(data);
        in.data = memcpy(data, in.data, in.bytes);
        const int n = g->n_outputs;
        if (run_graph_in_used_memory(g, &options, &in, 1, out, &err))
            fail_msg("%s: %s", names[i], err.message);
        mo_way_free(own, out, n);
        free(data);
        unlink(path);
    }
    rmdir(folder);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_kernel_passes),
        cmocka_unit_test(a_forgotten_number_is_found),
        cmocka_unit_test(networks_depend_on_their_inputs_only),
    };
    const struct CMUnitTest networks[] = {cmocka_unit_test(networks_depend_on_their_inputs_only)};
    if (argc > 1 && !strcmp(argv[1], "read")) return run_with(looks_at_it, NULL);
    if (argc > 1) return cmocka_run_group_tests(networks, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
