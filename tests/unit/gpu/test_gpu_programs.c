/* SPDX-License-Identifier: Apache-2.0
 * test_gpu_programs.c - a model lowered once for every batch: all are cut at the same layers. */
#include "runtime/serve/gpu.h"
#include "tests/unit/sched/serve_bed.h"

/* However many segments: a model takes the same batches, whose programs are cut at the same layers. */
static void batches_are_cut_alike(void **state) {
    (void)state;
    const struct mo_env env = mo_env_default();
    for (int most = 1; most <= 12; most++) {
        struct mo_gpu_programs p;
        moire_error err = {0};
        const struct mo_gpu_programs_request request = {
            .path = serve_model(), .max_batch = 16, .options = {.model = 1, .max_segments = most}};
        if (mo_gpu_programs_make(&env, &request, &p, &err)) fail_msg("%s", err.message);
        assert_int_equal(p.n, 5); /* 1, 2, 4, 8, 16 */
        for (int i = 1; i < p.n; i++) {
            assert_int_equal(p.program[i]->n_segments, p.program[0]->n_segments);
            for (int k = 0; k < p.program[0]->n_segments; k++)
                assert_int_equal(p.program[i]->segments[k].end_layer, p.program[0]->segments[k].end_layer);
        }
        mo_gpu_programs_free(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_cut_alike),
    };
    return cmocka_run_group_tests(tests, serve_setup, serve_teardown);
}
