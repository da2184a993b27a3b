/* SPDX-License-Identifier: Apache-2.0
 * test_emitted_small.c - kernels of 8-bit numbers that were emitted and compiled elsewhere (emit.c), examined
 * here as the search does it: against exact sums, and against the built-in kernel, whose very bytes they must
 * give. */
#include <stdlib.h>
#include "codegen/search/oracle.h"
#include "tests/cross/cases.h"
#include "tests/cross/cmocka.h"
#include "tests/cross/kernels.h"
#include "tests/unit/generator/small_case.h"
#include "variants/conv_geometry.h"

static struct mo_env env;

static void open_layer(const struct small_shape *shape, struct mo_layer *layer, struct mo_harness *h) {
    moire_error err = {0};
    struct mo_graph *g = small_case_graph(&env, shape);
    struct mo_problem p = {.isa = MO_ISA_NEON, .dot = mo_isa_dot(MO_ISA_NEON)};
    assert_true(mo_layer_signature(g, g->nodes[0], p.signature, sizeof p.signature));
    assert_int_equal(mo_layer_create(g, g->nodes[0], &p, layer, &err), MOIRE_OK);
    mo_graph_destroy(g);
    if (mo_harness_create(&env, layer, h, &err)) fail_msg("%s", err.message);
    assert_non_null(h->step.compiled_params);
    struct mo_runnable built_in = mo_harness_generic(h);
    if (!mo_verify(h, &built_in, &err)) fail_msg("%s: built in: %s", p.signature, err.message);
    assert_int_equal(mo_harness_keep_golden(h, &err), MOIRE_OK);
}

/* Of every element: lanes beyond a tensor's channels hold any byte. */
static bool same_bytes(const struct mo_harness *h) {
    const int64_t *d = h->out->shape.d, size = (int64_t)mo_dtype_bytes(h->out->dtype);
    const char *y = h->args.out[0];
    if (h->out->layout != MO_C16) return !memcmp(y, h->golden, h->output_bytes);
    for (int64_t i = 0; i < d[0] * d[1] * d[2] * d[3]; i++) {
        const int64_t at[4] = {i / (d[1] * d[2] * d[3]), i / (d[2] * d[3]) % d[1], i / d[3] % d[2], i % d[3]};
        const int64_t from = (int64_t)mo_oracle_element(h, h->out, at) * size;
        if (memcmp(y + from, h->golden + from, (size_t)size)) return false;
    }
    return true;
}

static void check_kernel(struct mo_harness *h, const struct mo_variant *v) {
    moire_error err = {0};
    assert_int_equal(v->abi, MO_KERNEL_ABI);
    if (mo_harness_pack(h, v->packing, &err)) fail_msg("%s: %s", v->name, err.message);
    const struct mo_runnable r = {
        .run = v->run, .units = v->units, .scratch_bytes = v->scratch_bytes, .packing = v->packing};
    if (!mo_verify(h, &r, &err)) fail_msg("%s: %s", v->name, err.message);
    if (!same_bytes(h)) fail_msg("%s: bytes differ from those of the built-in kernel", v->name);
}

static void points_match(void **state) {
    const struct small_shape *shape = *state;
    struct mo_layer layer;
    struct mo_harness h;
    const int have = (int)mo_isa_dot(MO_ISA_NEON) - MO_DOT_NEON; /* the last set that this processor has */
    assert_in_range(have, 0, CROSS_SETS - 1);
    open_layer(shape, &layer, &h);
    for (int i = 0; i < (have + 1) * CROSS_POINTS; i++)
        check_kernel(&h, cross_small_kernels[(shape - small_shapes) * CROSS_SETS * CROSS_POINTS + i]);
    mo_harness_destroy(&h);
    mo_layer_destroy(&layer);
}

int main(void) {
    struct CMUnitTest *tests = calloc((size_t)small_n_shapes, sizeof *tests);
    if (!tests) return 1;
    env = mo_env_default();
    for (int i = 0; i < small_n_shapes; i++)
        tests[i] = (struct CMUnitTest){.name = small_shapes[i].family,
                                       .test_func = points_match,
                                       .initial_state = (void *)(uintptr_t)&small_shapes[i]};
    int failed = cross_run(tests, (size_t)small_n_shapes);
    free(tests);
    return failed;
}
