/* SPDX-License-Identifier: Apache-2.0
 * gpu_check.c - see gpu_check.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "tests/cuda/gpu_check.h"
#include "tests/cuda/gpu_host.h"
#include "tools/moire/verify/ways.h"

struct mo_gpu_program *gpu_check_lower(const struct mo_graph *g, enum mo_gpu_precision precision,
                                       int segments) {
    struct mo_gpu_options options = {.precision = precision, .model = 7, .max_segments = segments};
    struct mo_gpu_program *p;
    moire_error err = {0};
    if (mo_gpu_lower(g, &options, &p, &err)) fail_msg("%s", err.message);
    return p;
}

/* Operations and segments in order, places inside, and where libraries may read vectors. */
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
            if (mo_gpu_has_library(&p->ops[i])) assert_int_equal(place->offset % 16, 0);
            if (place->space == MO_GPU_ARENA) assert_true(place->offset < p->arena_bytes);
            if (place->space == MO_GPU_WEIGHT) assert_true(place->offset < p->weights[place->index].bytes);
        }
}

static void free_outputs(moire_tensor *outputs, int n) {
    for (int i = 0; i < n; i++)
        free(outputs[i].data);
}

void gpu_check_graph(struct mo_graph *g, enum mo_gpu_precision precision, const moire_tensor *in,
                     const moire_tensor *want, double rtol) {
    moire_tensor got[GPU_CASE_PORTS] = {{0}};
    moire_error err = {0};
    struct mo_gpu_program *p = gpu_check_lower(g, precision, 3);
    check_program(p);
    if (gpu_host_run(g->env, gpu_host_fakes(), p, in, got, &err)) fail_msg("%s", err.message);
    gpu_case_compare(p, want, got, rtol);
    free_outputs(got, p->n_outputs);
    mo_gpu_program_destroy(p);
}

/* A pass for this machine's kernels has made a layer that is left out for devices. */
static bool is_for_cores(const struct mo_graph *g) {
    static const char *const made[] = {"RNN", "GRU", "LSTM", "Frames", "TapSum"};
    bool any = false;
    for (int i = 0; i < g->n_nodes; i++)
        for (size_t k = 0; *g->nodes[i]->domain && k < sizeof made / sizeof *made; k++)
            any = any || !strcmp(g->nodes[i]->op_type, made[k]);
    return any;
}

void gpu_check(struct ob *b) {
    moire_tensor in[GPU_CASE_PORTS] = {{0}}, want[GPU_CASE_PORTS] = {{0}};
    moire_error err = {0};
    struct mo_graph *plain = gpu_case_parse(b, &(struct mo_frontend_options){.no_passes = true});
    gpu_case_inputs(plain, in);
    if (mo_way_run_reference(plain, in, plain->n_inputs, want, &err)) fail_msg("%s", err.message);
    struct mo_graph *g = gpu_case_parse(b, &(struct mo_frontend_options){.no_layout = true});
    gpu_check_graph(g, MO_GPU_FP32, in, want, 1e-4);
    gpu_check_graph(g, MO_GPU_TF32, in, want, 1e-4);
    gpu_check_graph(g, MO_GPU_FP16, in, want, 2e-2);
    gpu_check_graph(g, MO_GPU_BF16, in, want, 8e-2);
    mo_graph_destroy(g);
    g = gpu_case_parse(b, NULL);
    if (!is_for_cores(g)) gpu_check_graph(g, MO_GPU_FP32, in, want, 1e-4);
    mo_graph_destroy(g);
    mo_way_free(&b->env, want, plain->n_outputs);
    mo_graph_destroy(plain);
    ob_destroy(b);
}
