/* SPDX-License-Identifier: Apache-2.0
 * test_in_place.c - programs of 8-bit numbers take over the place of an operand that nobody reads later, and
 * compute there what they compute elsewhere: sums, tables, and the general loop, by every level's kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "runtime/ops/moire/fused.h"
#include "tests/unit/kernels/layer_case.h"

enum { N = 1000, MOST_STEPS = 5 };

struct program {
    int n, n_in;
    int64_t code[MOST_STEPS * MO_FUSED_INTS];
    float params[MOST_STEPS * 2];
};

/* y = relu(a + b), in steps of 2: exact in float32, ties included. */
static const struct program sum = {
    .n = 5,
    .n_in = 2,
    .code = {MO_FUSED_DEQUANTIZE,  0, -1, -1, 0, MO_FUSED_DEQUANTIZE, 1, -1, -1, 0,
             MO_FUSED_ADD,         2, 3,  -1, 0, MO_FUSED_ACTIVATION, 4, -1, -1, MO_ACT_RELU,
             MO_FUSED_QUANTIZE_U8, 5, -1, -1, 0},
    .params = {1, 100, 0.75f, 90, 0, 0, 0, 0, 2, 7}};
/* y = a / 2 + 3. */
static const struct program half = {
    .n = 2,
    .n_in = 1,
    .code = {MO_FUSED_DEQUANTIZE, 0, -1, -1, 0, MO_FUSED_QUANTIZE_U8, 1, -1, -1, 0},
    .params = {1, 0, 2, 3}};
/* y = a b: no loop of its own. */
static const struct program product = {
    .n = 4,
    .n_in = 2,
    .code = {MO_FUSED_DEQUANTIZE, 0, -1, -1, 0, MO_FUSED_DEQUANTIZE,  1, -1, -1, 0,
             MO_FUSED_MUL,        2, 3,  -1, 0, MO_FUSED_QUANTIZE_U8, 4, -1, -1, 0},
    .params = {1, 128, 1, 128, 0, 0, 64, 128}};

static int tensor(struct mo_graph *g, const char *name) {
    return mo_graph_add_tensor(g, name, MOIRE_U8, &(struct mo_shape){.rank = 2, .d = {1, N}})->id;
}

static void fused(struct mo_graph *g, const struct program *p, int a, int b, int y) {
    struct mo_node *node = mo_graph_add_node(g, "n", "Fused", "moire", p->n_in, 1);
    node->op = mo_op_find("Fused", "moire");
    node->in[0] = a;
    if (p->n_in > 1) node->in[1] = b;
    node->out[0] = y;
    struct mo_attr *code = mo_node_add_attr(g, node, "program", MO_ATTR_INTS);
    code->n = p->n * MO_FUSED_INTS, code->ints = p->code;
    struct mo_attr *params = mo_node_add_attr(g, node, "params", MO_ATTR_FLOATS);
    params->n = p->n * 2, params->floats = p->params;
}

enum { X, HALVED, SUM, AGAIN, OUT, TENSORS };

/* out = half(x) * sum(half(x), x), where half(x) is read twice: the sum may take its place only if the
 * product is done, and it is not; the product may take either. */
static struct mo_graph *graph(const struct mo_env *env, int id[TENSORS]) {
    static const char *const names[TENSORS] = {"x", "halved", "sum", "again", "out"};
    struct mo_graph *g = mo_graph_create(env);
    for (int i = 0; i < TENSORS; i++)
        id[i] = tensor(g, names[i]);
    fused(g, &half, id[X], -1, id[HALVED]);
    fused(g, &sum, id[HALVED], id[X], id[SUM]);
    fused(g, &product, id[HALVED], id[SUM], id[AGAIN]);
    fused(g, &half, id[AGAIN], -1, id[OUT]);
    g->inputs = mo_region_array(g->region, 1, sizeof(int));
    g->outputs = mo_region_array(g->region, 1, sizeof(int));
    g->inputs[g->n_inputs++] = id[X], g->outputs[g->n_outputs++] = id[OUT];
    g->tensors[id[X]]->is_input = g->tensors[id[OUT]]->is_output = true;
    return g;
}

static uint8_t byte(float x) {
    return (uint8_t)fminf(fmaxf(x, 0), 255);
}

static uint8_t expected(uint8_t x) {
    const uint8_t halved = byte(nearbyintf((float)x / 2) + 3);
    const float both = fmaxf((float)(halved - 100) + (float)(x - 90) * 0.75f, 0);
    const uint8_t all = byte(nearbyintf(both / 2) + 7);
    const uint8_t again = byte(nearbyintf((float)((halved - 128) * (all - 128)) / 64) + 128);
    return byte(nearbyintf((float)again / 2) + 3);
}

static void check(const struct mo_plan_options *options) {
    struct mo_env env = mo_env_default();
    struct mo_plan *plan;
    struct mo_instance *instance;
    moire_error err = {0};
    int id[TENSORS];
    uint8_t x[N];
    if (mo_plan_build(graph(&env, id), options, &plan, &err)) fail_msg("%s", err.message);
    assert_int_not_equal(plan->offset[id[HALVED]], plan->offset[id[X]]);
    assert_int_not_equal(plan->offset[id[SUM]], plan->offset[id[HALVED]]);
    assert_true(plan->offset[id[AGAIN]] == plan->offset[id[HALVED]] ||
                plan->offset[id[AGAIN]] == plan->offset[id[SUM]]);
    assert_int_equal(plan->offset[id[OUT]], plan->offset[id[AGAIN]]);
    for (int i = 0; i < N; i++)
        x[i] = (uint8_t)(i * 7);
    moire_tensor t = {.dtype = MOIRE_U8, .rank = 2, .shape = {1, N}, .data = x, .bytes = sizeof x};
    void *scratch = mo_alloc(&env, (size_t)plan->scratch_bytes);
    assert_non_null(scratch);
    assert_int_equal(mo_instance_create(plan, &instance, NULL), MOIRE_OK);
    for (int run = 0; run < 2; run++) { /* the input is still there */
        assert_int_equal(run ? MOIRE_OK : mo_instance_set_input(instance, 0, &t, NULL), MOIRE_OK);
        assert_int_equal(mo_instance_run(instance, 0, plan->graph->n_nodes, scratch), MOIRE_OK);
        moire_tensor y = {0};
        assert_int_equal(mo_instance_output(instance, 0, &y), MOIRE_OK);
        for (int i = 0; i < N; i++)
            assert_int_equal(((const uint8_t *)y.data)[i], expected(x[i]));
    }
    mo_free(&env, scratch);
    mo_instance_destroy(instance);
    mo_plan_destroy(plan);
}

static void programs_of_bytes_run_in_place(void **state) {
    (void)state;
    check(&(struct mo_plan_options){.reference_only = true});
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa))
        check(&(struct mo_plan_options){.isa = (enum mo_isa)isa});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(programs_of_bytes_run_in_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
