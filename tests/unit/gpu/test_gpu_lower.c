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
#include "tests/cuda/gpu_check.h"
#include "tests/unit/codegen/random_graph.h"
#include "tools/moire/verify/ways.h"

enum { PORTS = GPU_CASE_PORTS };

static void every_case(void **state) {
    (void)state;
    for (const struct gpu_case *c = gpu_cases; c->name; c++) {
        print_message("%s\n", c->name);
        gpu_check(c->build());
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
            gpu_check_graph(g, MO_GPU_FP32, &x, want, 1e-4);
            ran++;
        }
        mo_way_free(&env, want, plain->n_outputs);
        mo_graph_destroy(plain);
        mo_graph_destroy(g);
    }
    assert_int_equal(ran, 12);
}

/* --- programs ------------------------------------------------------------------------------------------- */

static void what_is_not_supported_is_named(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "4,4");
    Onnx__NodeProto *node = ob_node(b, "NonZero", "x", "y");
    node->name = ob_text(b, "the places");
    ob_output(b, "y");
    struct mo_graph *g = gpu_case_parse(b, NULL);
    struct mo_gpu_options options = {.precision = MO_GPU_FP32};
    struct mo_gpu_program *p = NULL;
    moire_error err = {0};
    assert_int_equal(mo_gpu_lower(g, &options, &p, &err), MOIRE_EUNSUPPORTED);
    assert_null(p);
    assert_non_null(strstr(err.message, "the places"));
    assert_non_null(strstr(err.message, "NonZero"));
    mo_graph_destroy(g);
    ob_destroy(b);
}

/* Layers of 8-bit numbers, split recurrences, frames as images, columns of filters, regions: the passes that
 * make them are left out for devices. */
static bool is_for_cores(const struct mo_op *op) {
    static const char *const split[] = {"RNN", "GRU", "LSTM", "Lengths", "Frames", "TapSum", "Region"};
    bool is_split = false;
    for (size_t i = 0; i < sizeof split / sizeof *split; i++)
        is_split = is_split || !strcmp(op->name, split[i]);
    return !strcmp(op->domain, "moire") && (op->name[0] == 'Q' || is_split);
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
        if (is_for_cores(op)) continue;
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
    struct mo_gpu_program *p = gpu_check_lower(g, MO_GPU_FP32, 4), *half = gpu_check_lower(g, MO_GPU_FP16, 1);
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

/* What generated kernels alone serve is not left to cores. */
static void cores_have_no_part(void **state) {
    (void)state;
    struct ob *(*const cases[])(void) = {gpu_case_volumes, gpu_case_quantized, gpu_case_resampled,
                                         gpu_case_recurrent};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ob *b = cases[i]();
        struct mo_graph *g = gpu_case_parse(b, &(struct mo_frontend_options){.no_layout = true});
        struct mo_gpu_program *p = gpu_check_lower(g, MO_GPU_FP32, 1);
        for (int k = 0; k < p->n_ops; k++)
            if (p->ops[k].kind == MO_GPU_CORE) fail_msg("%s is left to a core", p->ops[k].label);
        mo_gpu_program_destroy(p);
        mo_graph_destroy(g);
        ob_destroy(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_case),
                                       cmocka_unit_test(random_graphs),
                                       cmocka_unit_test(what_is_not_supported_is_named),
                                       cmocka_unit_test(the_list_of_what_is_missing_is_true),
                                       cmocka_unit_test(memory_is_used_again),
                                       cmocka_unit_test(cores_have_no_part)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
