/* SPDX-License-Identifier: Apache-2.0
 * test_gpu_lower.c - graphs lowered for a GPU, run by their generated kernels on the host, against the
 * reference of the graph as imported: every kind of operator, small models, random graphs; and what a program
 * must be whatever it computes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/passes/passes.h"
#include "runtime/ops/op.h"
#include "tests/cuda/gpu_cases.h"
#include "tests/cuda/gpu_host.h"
#include "tests/unit/random_graph.h"
#include "tools/moire/ways.h"

enum { PORTS = GPU_CASE_PORTS };

static struct mo_gpu_program *lower(const struct mo_graph *g, enum mo_gpu_precision precision, int segments) {
    struct mo_gpu_options options = {.precision = precision, .model = 7, .max_segments = segments};
    struct mo_gpu_program *p;
    moire_error err = {0};
    if (mo_gpu_lower(g, &options, &p, &err)) fail_msg("%s", err.message);
    return p;
}

/* Operations and segments in order, places inside. */
static void check_program(const struct mo_gpu_program *p) {
    int at = 0;
    for (int i = 0; i < p->n_segments; i++) {
        assert_int_equal(p->segments[i].begin, at);
        assert_true(p->segments[i].end > at);
        at = p->segments[i].end;
        if (i) assert_int_equal(p->segments[i].first_layer, p->segments[i - 1].end_layer);
    }
    assert_int_equal(at, p->n_ops);
    for (int i = 0; i < p->n_ops; i++)
        for (int k = 0; k < p->ops[i].launch.n_args; k++) {
            const struct mo_gpu_place *place = &p->ops[i].launch.args[k];
            assert_true(place->offset >= 0);
            if (place->space == MO_GPU_ARENA) assert_true(place->offset < p->arena_bytes);
            if (place->space == MO_GPU_WEIGHT) assert_true(place->offset < p->weights[place->index].bytes);
        }
}

static void free_outputs(moire_tensor *outputs, int n) {
    for (int i = 0; i < n; i++)
        free(outputs[i].data);
}

static void run_graph(struct mo_graph *g, enum mo_gpu_precision precision, const moire_tensor *in,
                      const moire_tensor *want, double rtol) {
    moire_tensor got[PORTS] = {{0}};
    moire_error err = {0};
    struct mo_gpu_program *p = lower(g, precision, 3);
    check_program(p);
    if (gpu_host_run(g->env, gpu_host_fakes(), p, in, got, &err)) fail_msg("%s", err.message);
    gpu_case_compare(p, want, got, rtol);
    free_outputs(got, p->n_outputs);
    mo_gpu_program_destroy(p);
}

/* The graph with and without layouts in fp32, and in 16 bits. */
static void check(struct ob *b) {
    moire_tensor in[PORTS] = {{0}}, want[PORTS] = {{0}};
    moire_error err = {0};
    struct mo_graph *plain = gpu_case_parse(b, &(struct mo_frontend_options){.no_passes = true});
    gpu_case_inputs(plain, in);
    if (mo_way_run_reference(plain, in, plain->n_inputs, want, &err)) fail_msg("%s", err.message);
    struct mo_graph *g = gpu_case_parse(b, &(struct mo_frontend_options){.no_layout = true});
    run_graph(g, MO_GPU_FP32, in, want, 1e-4);
    run_graph(g, MO_GPU_TF32, in, want, 1e-4);
    run_graph(g, MO_GPU_FP16, in, want, 2e-2);
    run_graph(g, MO_GPU_BF16, in, want, 8e-2);
    mo_graph_destroy(g);
    g = gpu_case_parse(b, NULL);
    run_graph(g, MO_GPU_FP32, in, want, 1e-4);
    mo_graph_destroy(g);
    mo_way_free(&b->env, want, plain->n_outputs);
    mo_graph_destroy(plain);
    ob_destroy(b);
}

static void every_case(void **state) {
    (void)state;
    for (const struct gpu_case *c = gpu_cases; c->name; c++) {
        print_message("%s\n", c->name);
        check(c->build());
    }
}

/* Whether the graph lowers; all that it may lack is an operator. */
static bool lowers(const struct mo_graph *g) {
    struct mo_gpu_options options = {.precision = MO_GPU_FP32};
    struct mo_gpu_program *p;
    moire_error err = {0};
    int rc = mo_gpu_lower(g, &options, &p, &err);
    if (rc && rc != MOIRE_EUNSUPPORTED) fail_msg("%s", err.message);
    mo_gpu_program_destroy(p);
    return !rc;
}

static void random_graphs(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    int ran = 0;
    for (uint64_t seed = 1; seed <= 30 && ran < 12; seed++) {
        moire_tensor want[PORTS] = {{0}};
        moire_error err = {0};
        struct mo_graph *plain = random_graph(&env, seed), *g = random_graph(&env, seed);
        moire_tensor x = random_input(plain, seed);
        print_message("seed %d\n", (int)seed);
        if (mo_run_passes(g, &(struct mo_frontend_options){.no_layout = seed % 2 == 0}, &err) ||
            mo_way_run_reference(plain, &x, 1, want, &err))
            fail_msg("%s", err.message);
        if (plain->n_outputs && lowers(g)) {
            run_graph(g, MO_GPU_FP32, &x, want, 1e-4);
            ran++;
        }
        mo_way_free(&env, want, plain->n_outputs);
        mo_graph_destroy(plain);
        mo_graph_destroy(g);
    }
    assert_int_equal(ran, 12);
}

/* --- programs --------------------------------------------------------------------------------------------
 */

static void what_is_not_supported_is_named(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "4,4");
    Onnx__NodeProto *node = ob_node(b, "Det", "x", "y");
    node->name = ob_text(b, "the determinant");
    ob_output(b, "y");
    struct mo_graph *g = gpu_case_parse(b, NULL);
    struct mo_gpu_options options = {.precision = MO_GPU_FP32};
    struct mo_gpu_program *p = NULL;
    moire_error err = {0};
    assert_int_equal(mo_gpu_lower(g, &options, &p, &err), MOIRE_EUNSUPPORTED);
    assert_null(p);
    assert_non_null(strstr(err.message, "the determinant"));
    assert_non_null(strstr(err.message, "Det"));
    mo_graph_destroy(g);
    ob_destroy(b);
}

/* Operators that cores run and a GPU does not are those that docs/cuda.md names, and no others. */
static void the_list_of_what_is_missing_is_true(void **state) {
    (void)state;
    static const char title[] = "\n## Operators that a GPU refuses\n";
    static char page[100000];
    FILE *f = fopen("docs/cuda.md", "r");
    assert_non_null(f); /* tests run in the repository's root */
    page[fread(page, 1, sizeof page - 1, f)] = 0;
    fclose(f);
    char *list = strstr(page, title);
    assert_non_null(list);
    char *end = strstr(list + sizeof title, "\n## ");
    assert_non_null(end);
    if (end) *end = 0;
    int missing = 0, named = 0;
    for (const char *p = list; (p = strchr(p, '`')); p = strchr(p + 1, '`') + 1)
        named++;
    for (int i = 0; mo_op_at(i); i++) {
        const struct mo_op *op = mo_op_at(i);
        char quoted[80];
        snprintf(quoted, sizeof quoted, "`%.70s`", op->name);
        const bool refused = !mo_gpu_lowers(op->name, op->domain), there = strstr(list, quoted) != NULL;
        if (refused != there && (refused || !*op->domain))
            fail_msg("docs/cuda.md %s %s", there ? "refuses" : "lacks", op->name);
        missing += refused;
    }
    assert_int_equal(named, missing);
}

/* A deep chain needs two places of the arena, not one a layer. */
static void memory_is_used_again(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    char in[8] = "x", out[8];
    ob_input(b, "x", MOIRE_F32, "1,16,16,16");
    for (int i = 0; i < 10; i++) {
        snprintf(out, sizeof out, "y%d", i);
        char names[24];
        snprintf(names, sizeof names, "w_%s", out);
        ob_random(b, names, "16,16,3,3");
        snprintf(names, sizeof names, "%s w_%s", in, out);
        ob_node(b, "Conv", names, out);
        ob_ints(b, "pads", "1,1,1,1");
        memcpy(in, out, sizeof in);
    }
    ob_output(b, in);
    struct mo_graph *g = gpu_case_parse(b, NULL);
    struct mo_gpu_program *p = lower(g, MO_GPU_FP32, 4), *half = lower(g, MO_GPU_FP16, 1);
    int64_t map = 16 * 16 * 16 * 4;
    assert_true(p->arena_bytes <= 3 * map);
    assert_true(half->weight_bytes * 2 == p->weight_bytes);
    assert_int_equal(p->n_segments, 4);
    assert_int_equal(half->n_segments, 1);
    assert_int_equal(p->batch, 1);
    mo_gpu_program_destroy(half);
    mo_gpu_program_destroy(p);
    mo_graph_destroy(g);
    ob_destroy(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_case), cmocka_unit_test(random_graphs),
                                       cmocka_unit_test(what_is_not_supported_is_named),
                                       cmocka_unit_test(the_list_of_what_is_missing_is_true),
                                       cmocka_unit_test(memory_is_used_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
