/* SPDX-License-Identifier: Apache-2.0
 * test_plan.c - the memory plan on random graphs: tensors that live together never overlap unless they share
 * on purpose; the arena is no smaller than its bound; aliases lie where they should.  And running: dynamic
 * layers, a failing layer, teams of any size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/kernels/layer_case.h"

/* --- operators of our own: a plan needs only flags and functions ---------------------------------------- */

static int infer_first(const struct mo_op_ctx *ctx) {
    for (int i = 0; i < ctx->n_out; i++) {
        ctx->out[i].dtype = MOIRE_F32;
        ctx->out[i].shape = ctx->in[0].shape;
    }
    return MOIRE_OK;
}

/* y = sum of the inputs + 1 */
static int run_sum(const struct mo_op_ctx *ctx) {
    int64_t n = mo_shape_count(&ctx->out[0].shape);
    for (int64_t i = 0; i < n; i++) {
        float sum = 1;
        for (int k = 0; k < ctx->n_in; k++)
            sum += ((const float *)ctx->in[k].data)[i];
        ((float *)ctx->out[0].data)[i] = sum;
    }
    return MOIRE_OK;
}

static int run_failure(const struct mo_op_ctx *ctx) {
    return mo_fail(ctx->err, MOIRE_EFAILED, "as asked");
}

/* Output shape is known with the data only: as many elements as the first says. */
static int infer_count(const struct mo_op_ctx *ctx) {
    if (!ctx->in[0].data) return MO_NEED_DATA;
    ctx->out[0].dtype = MOIRE_F32;
    ctx->out[0].shape = (struct mo_shape){.rank = 1, .d = {(int64_t) * (const float *)ctx->in[0].data}};
    return MOIRE_OK;
}

static int run_iota(const struct mo_op_ctx *ctx) {
    for (int64_t i = 0; i < ctx->out[0].shape.d[0]; i++)
        ((float *)ctx->out[0].data)[i] = (float)i;
    return MOIRE_OK;
}

static const struct mo_op sum_op = {
    .name = "TestSum", .domain = "test", .max_in = -1, .max_out = 1, .infer = infer_first, .run = run_sum};
static const struct mo_op point_op = {.name = "TestPoint",
                                      .domain = "test",
                                      .max_in = 1,
                                      .max_out = 1,
                                      .infer = infer_first,
                                      .run = run_sum,
                                      .flags = MO_OP_POINTWISE};
static const struct mo_op fail_op = {.name = "TestFail",
                                     .domain = "test",
                                     .max_in = 1,
                                     .max_out = 1,
                                     .infer = infer_first,
                                     .run = run_failure};
static const struct mo_op iota_op = {
    .name = "TestIota", .domain = "test", .max_in = 1, .max_out = 1, .infer = infer_count, .run = run_iota};

static unsigned next(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static int tensor(struct mo_graph *g, int64_t n) {
    return mo_graph_add_tensor(g, "t", MOIRE_F32, &(struct mo_shape){.rank = 2, .d = {1, n}})->id;
}

static struct mo_node *layer(struct mo_graph *g, const struct mo_op *op, int n_in, const int *in, int out) {
    struct mo_node *node = mo_graph_add_node(g, "n", op->name, "test", n_in, 1);
    node->op = op;
    for (int i = 0; i < n_in; i++)
        node->in[i] = in[i];
    node->out[0] = out;
    return node;
}

static void ends(struct mo_graph *g, int in, int out) {
    g->inputs = mo_region_array(g->region, 1, sizeof(int));
    g->outputs = mo_region_array(g->region, 1, sizeof(int));
    g->inputs[g->n_inputs++] = in;
    g->outputs[g->n_outputs++] = out;
    g->tensors[in]->is_input = true;
    g->tensors[out]->is_output = true;
}

/* A chain with random skips; some results are views of or slices in others. */
static struct mo_graph *random_graph(const struct mo_env *env, unsigned seed) {
    struct mo_graph *g = mo_graph_create(env);
    int made[64], n = 0, layers = 5 + (int)(next(&seed) % 40);
    made[n++] = tensor(g, 64);
    for (int k = 0; k < layers; k++) {
        int in[3], n_in = 1 + (int)(next(&seed) % 3);
        for (int i = 0; i < n_in; i++)
            in[i] = i ? made[next(&seed) % (unsigned)n] : made[n - 1];
        /* all tensors have 64 elements in front; odd sizes, some beyond the staggering threshold */
        static const int64_t sizes[] = {64, 65, 1000, 70000, 131072};
        int out = tensor(g, sizes[next(&seed) % 5]);
        layer(g, next(&seed) % 3 && n_in == 1 ? &point_op : &sum_op, n_in, in, out);
        made[n++] = out;
    }
    ends(g, made[0], made[n - 1]);
    mo_graph_compact(g);
    return g;
}

/* First and last step that touch a tensor. */
static void life(const struct mo_graph *g, int id, int *first, int *last) {
    *first = g->tensors[id]->is_input ? -1 : g->tensors[id]->producer;
    *last = g->tensors[id]->is_output || g->tensors[id]->is_input ? g->n_nodes : *first;
    for (int k = 0; k < g->n_nodes; k++)
        for (int i = 0; i < g->nodes[k]->n_in; i++)
            if (g->nodes[k]->in[i] == id && k > *last) *last = k;
}

/* b is computed from a in place: the only sharing this graph allows. */
static bool in_place(const struct mo_graph *g, int a, int b) {
    const struct mo_node *node = g->tensors[b]->producer >= 0 ? g->nodes[g->tensors[b]->producer] : NULL;
    return node && node->op == &point_op && node->in[0] == a;
}

static void arena_never_overlaps(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    int shared = 0;
    for (unsigned seed = 1; seed <= 200; seed++) {
        struct mo_plan *plan;
        moire_error err = {0};
        if (mo_plan_build(random_graph(&env, seed), &(struct mo_plan_options){.reference_only = true}, &plan,
                          &err))
            fail_msg("%s", err.message);
        const struct mo_graph *g = plan->graph;
        assert_true(plan->arena_bytes >= plan->arena_lower);
        assert_true(plan->arena_bytes < 2 * plan->arena_lower + 65536);
        for (int a = 0; a < g->n_tensors; a++)
            for (int b = a + 1; b < g->n_tensors; b++) {
                int a0, a1, b0, b1;
                life(g, a, &a0, &a1);
                life(g, b, &b0, &b1);
                bool together = a0 <= b1 && b0 <= a1;
                bool overlap = plan->offset[a] < plan->offset[b] + mo_tensor_bytes(g->tensors[b]) &&
                               plan->offset[b] < plan->offset[a] + mo_tensor_bytes(g->tensors[a]);
                if (!together || !overlap) continue;
                assert_true(in_place(g, a, b) && a1 == b0);
                shared++;
            }
        mo_plan_destroy(plan);
    }
    assert_true(shared > 0);
}

/* Inputs of a concat lie in their slices of the output, image by image; the layer itself does nothing. */
static void slices_lie_in_the_concat(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_graph *g = mo_graph_create(&env);
    struct mo_shape in = {.rank = 3, .d = {2, 3, 5}}, out = {.rank = 3, .d = {2, 6, 5}};
    int x = mo_graph_add_tensor(g, "x", MOIRE_F32, &in)->id, part[2];
    for (int i = 0; i < 2; i++) {
        part[i] = mo_graph_add_tensor(g, "part", MOIRE_F32, &in)->id;
        layer(g, &sum_op, 1, &x, part[i]);
    }
    int y = mo_graph_add_tensor(g, "y", MOIRE_F32, &out)->id;
    struct mo_node *node = mo_graph_add_node(g, "n", "Concat", "", 2, 1);
    node->op = mo_op_find("Concat", "");
    mo_node_add_attr(g, node, "axis", MO_ATTR_INT)->i = 1;
    for (int i = 0; i < 2; i++) {
        node->in[i] = part[i];
        g->tensors[part[i]]->alias = y;
        g->tensors[part[i]]->alias_offset = i * 3 * 5 * 4;
    }
    node->out[0] = y;
    ends(g, x, y);
    struct mo_plan *plan;
    struct mo_instance *instance;
    assert_int_equal(mo_plan_build(g, &(struct mo_plan_options){.reference_only = true}, &plan, NULL),
                     MOIRE_OK);
    assert_string_equal(plan->steps[2].kind, "view");
    assert_int_equal(plan->offset[part[1]], plan->offset[y] + 60);
    assert_int_equal(plan->image[part[0]], 120);
    assert_int_equal(mo_instance_create(plan, &instance, NULL), MOIRE_OK);
    float data[30];
    for (int i = 0; i < 30; i++)
        data[i] = (float)i;
    moire_tensor t = {.dtype = MOIRE_F32, .rank = 3, .shape = {2, 3, 5}, .data = data, .bytes = sizeof data};
    assert_int_equal(mo_instance_set_input(instance, 0, &t, NULL), MOIRE_OK);
    assert_int_equal(mo_instance_run(instance, 0, 3, NULL), MOIRE_OK);
    assert_int_equal(mo_instance_output(instance, 0, &t), MOIRE_OK);
    for (int n = 0; n < 2; n++)
        for (int i = 0; i < 30; i++)
            assert_true(((float *)t.data)[n * 30 + i] == data[n * 15 + i % 15] + 1);
    mo_instance_destroy(instance);
    mo_plan_destroy(plan);
}

/* y = whole + a slice of it: computed in place, the slice would change under the reader. */
static void overlapping_operands_are_not_in_place(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_graph *g = mo_graph_create(&env);
    struct mo_shape small = {.rank = 2, .d = {1, 1}}, large = {.rank = 2, .d = {1, 64}};
    int x = mo_graph_add_tensor(g, "x", MOIRE_F32, &large)->id;
    int part = mo_graph_add_tensor(g, "part", MOIRE_F32, &small)->id;
    int whole = mo_graph_add_tensor(g, "whole", MOIRE_F32, &large)->id;
    int y = mo_graph_add_tensor(g, "y", MOIRE_F32, &large)->id;
    layer(g, &sum_op, 1, &x, part);
    layer(g, &sum_op, 2, (int[]){part, x}, whole);
    struct mo_node *node = mo_graph_add_node(g, "n", "Add", "", 2, 1);
    node->op = mo_op_find("Add", "");
    node->in[0] = whole;
    node->in[1] = part;
    node->out[0] = y;
    g->tensors[part]->alias = whole;
    ends(g, x, y);
    struct mo_plan *plan;
    assert_int_equal(mo_plan_build(g, &(struct mo_plan_options){.reference_only = true}, &plan, NULL),
                     MOIRE_OK);
    assert_int_not_equal(plan->offset[y], plan->offset[whole]);
    mo_plan_destroy(plan);
}

static void bad_alias_is_refused(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_graph *g = mo_graph_create(&env);
    int x = tensor(g, 10), y = tensor(g, 10), z = tensor(g, 10);
    layer(g, &sum_op, 1, &x, y);
    layer(g, &sum_op, 1, &y, z);
    g->tensors[y]->alias = z;
    g->tensors[y]->alias_offset = 4;
    ends(g, x, z);
    struct mo_plan *plan;
    assert_int_equal(mo_plan_build(g, &(struct mo_plan_options){.reference_only = true}, &plan, NULL),
                     MOIRE_EINTERNAL);
}

/* A layer whose output size is in its input, twice with different sizes; a plain layer follows. */
static void dynamic_layers_allocate(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_graph *g = mo_graph_create(&env);
    int x = tensor(g, 1), y = mo_graph_add_tensor(g, "y", MOIRE_F32, NULL)->id;
    int z = mo_graph_add_tensor(g, "z", MOIRE_F32, NULL)->id;
    layer(g, &iota_op, 1, &x, y);
    layer(g, &sum_op, 1, &y, z);
    ends(g, x, z);
    struct mo_plan *plan;
    struct mo_instance *instance;
    moire_tensor out;
    assert_int_equal(mo_plan_build(g, &(struct mo_plan_options){.reference_only = true}, &plan, NULL),
                     MOIRE_OK);
    assert_int_equal(mo_instance_create(plan, &instance, NULL), MOIRE_OK);
    assert_int_equal(mo_instance_output(instance, 0, &out), MOIRE_EFAILED);
    for (int n = 7; n < 9; n++) {
        float count = (float)n;
        moire_tensor t = {.dtype = MOIRE_F32, .rank = 2, .shape = {1, 1}, .data = &count, .bytes = 4};
        assert_int_equal(mo_instance_set_input(instance, 0, &t, NULL), MOIRE_OK);
        assert_int_equal(mo_instance_run(instance, 0, 2, NULL), MOIRE_OK);
        assert_int_equal(mo_instance_output(instance, 0, &out), MOIRE_OK);
        assert_int_equal(out.shape[0], n);
        assert_true(((float *)out.data)[n - 1] == (float)n);
        mo_instance_reset(instance);
    }
    mo_instance_destroy(instance);
    mo_plan_destroy(plan);
}

/* Layers after a failed one are skipped, and everybody who asks is told why, until the instance is reset. */
static void a_failure_ends_a_run(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_graph *g = mo_graph_create(&env);
    int x = tensor(g, 64), y = tensor(g, 64), z = tensor(g, 64);
    layer(g, &fail_op, 1, &x, y);
    layer(g, &sum_op, 1, &y, z);
    ends(g, x, z);
    struct mo_plan *plan;
    struct mo_instance *instance;
    assert_int_equal(mo_plan_build(g, &(struct mo_plan_options){.reference_only = true}, &plan, NULL),
                     MOIRE_OK);
    assert_int_equal(mo_instance_create(plan, &instance, NULL), MOIRE_OK);
    for (int layer = 0; layer < 2; layer++)
        assert_int_equal(mo_instance_step(instance, layer, 2, NULL), MOIRE_EFAILED);
    assert_int_equal(mo_instance_run(instance, 0, 2, NULL), MOIRE_EFAILED);
    assert_non_null(strstr(mo_instance_message(instance), "as asked"));
    mo_instance_reset(instance);
    assert_int_equal(mo_instance_step(instance, 1, 2, NULL), MOIRE_OK);
    mo_instance_destroy(instance);
    mo_plan_destroy(plan);
}

static void wrong_inputs_are_refused(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_graph *g = random_graph(&env, 5);
    struct mo_plan *plan;
    struct mo_instance *instance;
    moire_error err;
    float data[64] = {0};
    moire_tensor t = {.dtype = MOIRE_F32, .rank = 2, .shape = {1, 64}, .data = data, .bytes = sizeof data};
    assert_int_equal(mo_plan_build(g, &(struct mo_plan_options){.reference_only = true}, &plan, NULL),
                     MOIRE_OK);
    assert_int_equal(mo_instance_create(plan, &instance, NULL), MOIRE_OK);
    assert_int_equal(mo_instance_set_input(instance, 0, &t, &err), MOIRE_OK);
    t.shape[1] = 63;
    assert_int_equal(mo_instance_set_input(instance, 0, &t, &err), MOIRE_ESHAPE);
    assert_non_null(strstr(err.message, "[1,63]"));
    t.shape[1] = 64;
    t.bytes = 8;
    assert_int_equal(mo_instance_set_input(instance, 0, &t, &err), MOIRE_ESHAPE);
    t.dtype = MOIRE_I64;
    assert_int_equal(mo_instance_set_input(instance, 0, &t, &err), MOIRE_ESHAPE);
    assert_int_equal(mo_instance_set_input(instance, 1, &t, &err), MOIRE_EINVAL);
    mo_instance_destroy(instance);
    mo_plan_destroy(plan);
}

struct attempt {
    struct mo_env good, bad; /* graphs are built with memory, planned and run without */
    const struct layer_case *c;
    bool reference;
};

static int plan_and_run(void *ctx) {
    struct attempt *a = ctx;
    char why[200];
    struct mo_graph *g = layer_case_graph(&a->good, a->c, 0, why, sizeof why);
    assert_non_null(g);
    g->env = &a->bad;
    struct mo_plan *plan = NULL;
    struct mo_instance *instance = NULL;
    moire_error err = {0};
    void *scratch = NULL;
    int rc = mo_plan_build(g, &(struct mo_plan_options){.reference_only = a->reference}, &plan, &err);
    if (!rc) rc = mo_instance_create(plan, &instance, &err);
    if (!rc) rc = (scratch = mo_alloc(&a->good, (size_t)plan->scratch_bytes + 64)) ? MOIRE_OK : MOIRE_ENOMEM;
    if (!rc) {
        rc = mo_instance_run(instance, 0, plan->n_steps, scratch);
        if (rc) assert_true(mo_instance_message(instance)[0] != 0);
    } else {
        assert_true(err.message[0] != 0);
    }
    mo_free(&a->good, scratch);
    mo_instance_destroy(instance);
    mo_plan_destroy(plan);
    return rc;
}

/* Every allocation of planning and running fails once, and from then on: an error, no leak. */
static void failing_allocations_are_survived(void **state) {
    (void)state;
    static const struct layer_case cases[] = {
        {"MatMul", "moire", 13, "29x700 c700x33 c33", "act:i=1", LAYER_PLAIN, 0},
        {"ConvTranspose", "", 11, "2x20x9x7 c20x19x2x2 c19", "strides:v=2,2", LAYER_C16, 0},
        {"BatchNormalization", "", 14, "2x19x5x3 c19 c19 c19 p19", "", LAYER_C16, 0},
        {"Resize", "", 13, "2x20x5x7 - f:1,1,2,2", "mode:s=linear", LAYER_C16, 0},
        {"Div", "", 13, "2x20x9x7 p20x1x1", "", LAYER_C16, 0},
        {"Concat", "", 13, "2x5x7 2x3x7 2x1x7", "axis:i=1", LAYER_PLAIN, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int reference = 0; reference < 2; reference++) {
            struct fault_sys f;
            struct attempt a = {.good = mo_env_default(),
                                .bad = mo_env_default(),
                                .c = &cases[i],
                                .reference = reference != 0};
            fault_sys_init(&f);
            a.bad.sys = &f.table;
            assert_true(fault_sys_sweep(&f, plan_and_run, &a, MOIRE_ENOMEM) > 5);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_never_overlaps),     cmocka_unit_test(slices_lie_in_the_concat),
        cmocka_unit_test(bad_alias_is_refused),     cmocka_unit_test(overlapping_operands_are_not_in_place),
        cmocka_unit_test(dynamic_layers_allocate),  cmocka_unit_test(a_failure_ends_a_run),
        cmocka_unit_test(wrong_inputs_are_refused), cmocka_unit_test(failing_allocations_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
