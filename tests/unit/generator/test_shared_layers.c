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

/* Those have rounds for more workers than they have directions. */
static const struct layer_case recurrent[] = {
    {"LSTM", "moire", 1, "9x1x520 c1x520x130 - - - 1x1x130 1x1x130 c1x390", "", LAYER_PLAIN, 3},
    {"LSTM", "moire", 1, "6x3x1152 c2x576x144 - - - 2x3x144 c2x3x144", "direction:s=bidirectional clip:f=0.7",
     LAYER_PLAIN, 3},
    {"LSTM", "moire", 1, "2x5x680 c1x680x170 - - - - - c1x510",
     "direction:s=reverse layout:i=1 input_forget:i=1", LAYER_PLAIN, 3},
    {"GRU", "moire", 1, "7x1x480 c1x480x160 - c1x160", "linear_before_reset:i=1", LAYER_PLAIN, 2},
    {"GRU", "moire", 1, "5x2x1026 c2x513x171 - - - 2x2x171",
     "direction:s=bidirectional linear_before_reset:i=1", LAYER_PLAIN, 2},
    {"RNN", "moire", 1, "6x2x272 c1x272x272 - - - 1x2x272", "direction:s=reverse", LAYER_PLAIN, 2},
};

static int team_step(void *instance, int step, int width, void *scratch) {
    return mo_instance_step(instance, step, width, scratch);
}

static void team_pieces(void *instance, const struct mo_pieces *p, void *scratch) {
    mo_instance_pieces(instance, p->step, p->from, p->to, p->of, scratch);
}

static int team_again(void *instance, int step, int width) {
    return mo_instance_again(instance, step, width);
}

static const struct mo_claims_calls calls = {team_step, team_pieces, team_again};

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

/* What the outputs hold, in one piece. */
static char *outputs_of(const struct mo_plan *plan, struct mo_instance *instance, size_t *bytes) {
    moire_tensor out;
    char *all = NULL;
    *bytes = 0;
    for (int i = 0; i < plan->graph->n_outputs; i++) {
        assert_int_equal(mo_instance_output(instance, i, &out), MOIRE_OK);
        assert_non_null(all = realloc(all, *bytes + out.bytes));
        memcpy(all + *bytes, out.data, out.bytes);
        *bytes += out.bytes;
        memset(out.data, 0xff, out.bytes);
    }
    return all;
}

static void check(const struct layer_case *layer, bool joint, enum mo_isa isa, uint64_t rng,
                  struct mo_env *env) {
    static struct claims_bed b;
    char why[256];
    moire_error err = {0};
    struct mo_plan *plan;
    struct mo_instance *instance;
    size_t bytes;
    struct mo_graph *g = layer_case_graph(env, layer, 0, why, sizeof why);
    if (!g) fail_msg("%s %s: %s", layer->op_type, layer->inputs, why);
    if (mo_plan_build(g, &(struct mo_plan_options){.isa = isa}, &plan, &err)) fail_msg("%s", err.message);
    assert_int_equal(mo_instance_create(plan, &instance, NULL), MOIRE_OK);
    fill_inputs(plan, instance);
    claims_lay(&b, 200, &calls, instance);
    for (int i = 0; i < CLAIMS_WORKERS; i++)
        assert_non_null(b.scratch[i] = mo_alloc_scratch(env, (size_t)plan->scratch_bytes + 64));
    assert_int_equal(mo_instance_run(instance, 0, plan->n_steps, b.scratch[0]), MOIRE_OK);
    char *want = outputs_of(plan, instance, &bytes);
    int pieces = mo_instance_step(instance, layer_step(plan), 2, NULL);
    if (joint ? pieces != 2 : pieces <= 2)
        fail_msg("%s %s: %d pieces", layer->op_type, layer->inputs, pieces);
    mo_instance_reset(instance);
    for (int r = 0; r < REPEATS; r++) {
        if (r % 5)
            claims_storm(&b, plan->n_steps, &rng);
        else
            claims_run(&b, plan->n_steps, CLAIMS_WORKERS);
        assert_int_equal(b.code, MOIRE_OK);
        char *got = outputs_of(plan, instance, &bytes);
        if (memcmp(want, got, bytes) != 0)
            fail_msg("%s %s, repeat %d: other bytes", layer->op_type, layer->inputs, r);
        free(got);
    }
    free(want);
    for (int i = 0; i < CLAIMS_WORKERS; i++)
        mo_free(env, b.scratch[i]);
    claims_strike(&b);
    mo_instance_destroy(instance);
    mo_plan_destroy(plan);
}

static void teams_that_change_give_the_bytes_of_one_core(void **state) {
    struct mo_env env = mo_env_default();
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(&rows[i].layer, rows[i].joint, mo_isa_detect(), seed + i, &env);
}

static void so_do_rounds_of_every_instruction_set(void **state) {
    struct mo_env env = mo_env_default();
    (void)state;
    for (size_t i = 0; i < sizeof recurrent / sizeof *recurrent; i++)
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa))
            check(&recurrent[i], true, (enum mo_isa)isa, seed + i, &env);
}

/* What rounds share is a part of the activations, and of their limit. */
static void rounds_need_memory_within_the_limit(void **state) {
    struct mo_env env = mo_env_default();
    char why[256];
    moire_error err = {0};
    struct mo_plan *plan;
    (void)state;
    const struct mo_plan_options options = {.isa = mo_isa_detect()};
    for (int less = 0; less < 2; less++) {
        struct mo_graph *g = layer_case_graph(&env, &recurrent[0], 0, why, sizeof why);
        assert_non_null(g);
        const int rc = mo_plan_build(g, &options, &plan, &err);
        assert_int_equal(rc, less ? MOIRE_ELIMIT : MOIRE_OK);
        if (less) continue;
        const struct mo_step *step = &plan->steps[layer_step(plan)];
        assert_non_null(step->rounds);
        assert_int_equal(plan->arena_bytes, plan->rounds_at + step->rounds->shared_bytes);
        env.limits.arena_bytes = plan->arena_bytes - 1;
        mo_plan_destroy(plan);
    }
    assert_non_null(strstr(err.message, "arena_bytes"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(teams_that_change_give_the_bytes_of_one_core),
                                       cmocka_unit_test(so_do_rounds_of_every_instruction_set),
                                       cmocka_unit_test(rounds_need_memory_within_the_limit)};
    printf("seed %d\n", (int)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
