/* SPDX-License-Identifier: Apache-2.0
 * test_shared_layers.c - layers that a team shares while members come and go give the bytes of one core. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/base/claims_bed.h"
#include "tests/unit/kernels/layer_case.h"

enum { REPEATS = 25 };
static const uint64_t seed = 5;

/* A range of a member is one piece (what its units share is prepared once), or may be several. */
static const struct {
    struct layer_case layer;
    bool joint;
} rows[] = {
    {{"Conv", "", 13, "1x64x28x28 c64x64x3x3 c64", "pads:v=1,1,1,1 strides:v=2,2 act:i=1", LAYER_C16, 0},
     false},
    {{"Conv", "", 13, "1x64x28x28 c64x64x1x1 c64", "act:i=1", LAYER_C16, 0}, false},
    {{"Conv", "", 13, "1x64x56x56 c64x64x3x3 c64", "pads:v=1,1,1,1", LAYER_C16, 0}, true},
    {{"Conv", "", 13, "1x32x28x28 c32x32x3x3 c32", "pads:v=1,1,1,1", LAYER_C16, 0}, true},
    {{"Conv", "", 13, "1x144x14x14 c288x144x3x3 c288", "pads:v=1,1,1,1", LAYER_C16, 0}, true},
    {{"Conv", "", 13, "1x64x14x14 c384x64x1x1 c384", "act:i=1", LAYER_C16, 0}, false},
    {{"Conv", "", 13, "2x96x56x56 c96x1x3x3 c96", "pads:v=1,1,1,1 group:i=96", LAYER_C16, 0}, false},
    {{"MatMul", "moire", 13, "120x256 c256x320 c320", "act:i=1", LAYER_PLAIN, 0}, true},
    {{"MatMul", "", 13, "12x128x64 12x64x128", "", LAYER_PLAIN, 0}, false},
    {{"Softmax", "", 13, "900x400", "axis:i=-1", LAYER_PLAIN, 0}, false},
    {{"MaxPool", "", 12, "1x64x112x112", "kernel_shape:v=3,3 strides:v=2,2 pads:v=1,1,1,1", LAYER_C16, 0},
     false},
    {{"Add", "", 13, "1x64x112x112 1x64x112x112", "", LAYER_C16, 0}, false},
};

static int team_step(void *instance, int step, int width, void *scratch) {
    return mo_instance_step(instance, step, width, scratch);
}

static void team_pieces(void *instance, const struct mo_pieces *p, void *scratch) {
    mo_instance_pieces(instance, p->step, p->from, p->to, p->of, scratch);
}

static void fill_inputs(const struct mo_plan *plan, struct mo_instance *instance) {
    uint64_t rng = seed;
    for (int i = 0; i < plan->graph->n_inputs; i++) {
        const struct mo_tensor *t = plan->graph->tensors[plan->graph->inputs[i]];
        const int64_t n = mo_shape_count(&t->shape);
        float *data = malloc((size_t)n * sizeof *data);
        for (int64_t k = 0; k < n; k++)
            data[k] = (float)claims_draw(&rng, 2001) / 1000 - 1;
        moire_tensor in = {
            .dtype = t->dtype, .rank = t->shape.rank, .data = data, .bytes = (size_t)n * sizeof *data};
        for (int d = 0; d < t->shape.rank; d++)
            in.shape[d] = t->shape.d[d];
        assert_int_equal(mo_instance_set_input(instance, i, &in, NULL), MOIRE_OK);
        free(data);
    }
}

/* The step of the layer itself, between copies. */
static int layer_step(const struct mo_plan *plan) {
    int k = 0;
    while (strcmp(plan->steps[k].node->name, "layer") != 0)
        k++;
    return k;
}

static void check_row(size_t row, struct mo_env *env, const struct mo_claims_calls *calls) {
    static struct claims_bed b;
    char why[256];
    moire_error err = {0};
    struct mo_plan *plan;
    struct mo_instance *instance;
    moire_tensor out;
    struct mo_graph *g = layer_case_graph(env, &rows[row].layer, 0, why, sizeof why);
    if (!g) fail_msg("row %zu: %s", row, why);
    if (mo_plan_build(g, &(struct mo_plan_options){.isa = mo_isa_detect()}, &plan, &err))
        fail_msg("row %zu: %s", row, err.message);
    assert_int_equal(mo_instance_create(plan, &instance, NULL), MOIRE_OK);
    fill_inputs(plan, instance);
    claims_lay(&b, 200, calls, instance);
    for (int i = 0; i < CLAIMS_WORKERS; i++)
        assert_non_null(b.scratch[i] = mo_alloc_scratch(env, (size_t)plan->scratch_bytes + 64));
    assert_int_equal(mo_instance_run(instance, 0, plan->n_steps, b.scratch[0]), MOIRE_OK);
    assert_int_equal(mo_instance_output(instance, 0, &out), MOIRE_OK);
    void *want = malloc(out.bytes);
    memcpy(want, out.data, out.bytes);
    int pieces = mo_instance_step(instance, layer_step(plan), 2, NULL);
    if (rows[row].joint ? pieces != 2 : pieces <= 2) fail_msg("row %zu: %d pieces", row, pieces);
    uint64_t rng = seed + row;
    for (int r = 0; r < REPEATS; r++) {
        memset(out.data, 0xff, out.bytes);
        if (r % 5)
            claims_storm(&b, plan->n_steps, &rng);
        else
            claims_run(&b, plan->n_steps, CLAIMS_WORKERS);
        assert_int_equal(b.code, MOIRE_OK);
        if (memcmp(want, out.data, out.bytes) != 0) fail_msg("row %zu, repeat %d: other bytes", row, r);
    }
    free(want);
    for (int i = 0; i < CLAIMS_WORKERS; i++)
        mo_free(env, b.scratch[i]);
    claims_strike(&b);
    mo_instance_destroy(instance);
    mo_plan_destroy(plan);
}

static void teams_that_change_give_the_bytes_of_one_core(void **state) {
    static const struct mo_claims_calls calls = {team_step, team_pieces};
    struct mo_env env = mo_env_default();
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(i, &env, &calls);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(teams_that_change_give_the_bytes_of_one_core)};
    printf("seed %d\n", (int)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
