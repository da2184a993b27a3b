/* SPDX-License-Identifier: Apache-2.0
 * test_emitted.c - kernels that were emitted and compiled elsewhere (emit.c) against the reference here. */
#include <stdlib.h>
#include "tests/cross/cases.h"
#include "tests/cross/cmocka.h"
#include "tests/cross/kernels.h"
#include "variants/conv_geometry.h"
#include "variants/winograd_matrices.h"

static void check_kernel(struct cross_layer *layer, const struct mo_variant *v) {
    const char *wrong = NULL;
    if (!layer->row->conv.n) {
        gemm_case_run(&layer->gemm, v->run, v->units, v->scratch_bytes);
        wrong = gemm_case_check(&layer->gemm);
    }
    for (int parts = 1; layer->row->conv.n && !wrong && parts <= 4; parts += 3) {
        conv_case_run(&layer->conv, v->run, v->units, v->scratch_bytes, parts);
        wrong = conv_case_check(&layer->conv);
    }
    if (wrong) fail_msg("%s: %s", v->name, wrong);
}

static void points_match(void **state) {
    const struct cross_case *row = *state;
    struct cross_layer layer;
    for (int i = 0; i < CROSS_POINTS; i++) {
        const struct mo_variant *v = cross_kernels[(row - cross_cases) * CROSS_POINTS + i];
        assert_int_equal(v->abi, MO_KERNEL_ABI);
        cross_open(&layer, row);
        struct mo_winograd w;
        if (mo_winograd_of(v->packing, &w)) conv_case_allow_mixing(&layer.conv);
        assert_int_equal(mo_pack_weights(v->packing, layer.graph, layer.node, layer.graph->region,
                                         &layer.args->weights, &layer.args->bias, NULL),
                         MOIRE_OK);
        check_kernel(&layer, v);
        cross_close(&layer);
    }
}

int main(void) {
    struct CMUnitTest *tests = calloc((size_t)cross_n_cases, sizeof *tests);
    if (!tests) return 1;
    for (int i = 0; i < cross_n_cases; i++)
        tests[i] = (struct CMUnitTest){.name = cross_cases[i].family,
                                       .test_func = points_match,
                                       .initial_state = (void *)(uintptr_t)&cross_cases[i]};
    int failed = cross_run(tests, (size_t)cross_n_cases);
    free(tests);
    return failed;
}
