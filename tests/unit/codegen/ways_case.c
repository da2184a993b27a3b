/* SPDX-License-Identifier: Apache-2.0
 * ways_case.c - see ways_case.h. */
#include "codegen/region_graph.h"
#include "tests/unit/codegen/ways_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/numbers.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/codegen/used_memory.h"
#include "tools/moire/verify/ways.h"
#include "variants/kernel.h"

enum { INPUTS = 6, OUTPUTS = 5 };

struct mo_graph *ways_graph_of(struct ob *b, const struct mo_frontend_options *options) {
    size_t n;
    const uint8_t *bytes = ob_pack(b, &n);
    struct mo_graph *g = NULL;
    moire_error err = {0};
    if (mo_frontend_parse(&b->env, bytes, n, NULL, options, &g, &err)) fail_msg("%s", err.message);
    return g;
}

struct mo_graph *ways_graph(struct ob *b, bool passes, bool layout) {
    return ways_graph_of(b, &(struct mo_frontend_options){.no_passes = !passes, .no_layout = !layout});
}

static void fill(struct ob *b, const struct mo_graph *g, bool special, moire_tensor *in) {
    static const float odd[] = {NAN,     INFINITY, -INFINITY, 0.0f, -0.0f,  1e-40f,
                                -1e-40f, 3e38f,    0.5f,      2.5f, -1e-30f};
    uint64_t seed = 11;
    for (int i = 0; i < g->n_inputs; i++) {
        const struct mo_tensor *t = g->tensors[g->inputs[i]];
        in[i] = (moire_tensor){.dtype = t->dtype, .rank = t->shape.rank, .bytes = (size_t)mo_tensor_bytes(t)};
        memcpy(in[i].shape, t->shape.d, sizeof in[i].shape);
        in[i].data = ob_alloc(b, in[i].bytes);
        for (int64_t k = 0; k < mo_shape_count(&t->shape); k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            if (mo_dtype_bytes(t->dtype) == 1)
                ((uint8_t *)in[i].data)[k] = (uint8_t)(seed >> 56);
            else if (t->dtype == MOIRE_I64)
                ((int64_t *)in[i].data)[k] = (int64_t)(seed >> 62) - 1;
            else
                ((float *)in[i].data)[k] = special && seed >> 61 == 0 ? odd[(seed >> 32) % 11]
                                                                      : (float)(seed >> 40) / 4194304.0f - 2;
        }
    }
}

double ways_distance(const moire_tensor *got, const moire_tensor *want, size_t i) {
    if (want->dtype == MOIRE_U8)
        return abs(((const uint8_t *)got->data)[i] - ((const uint8_t *)want->data)[i]);
    if (want->dtype == MOIRE_I8) return abs(((const int8_t *)got->data)[i] - ((const int8_t *)want->data)[i]);
    if (want->dtype == MOIRE_I32)
        return ((const int32_t *)got->data)[i] != ((const int32_t *)want->data)[i] ? 2 : 0;
    double g = (double)((const float *)got->data)[i], w = (double)((const float *)want->data)[i];
    return g == w ? 0 : fabs(g - w) / (4e-6 * fabs(w) + 4e-5);
}

int ways_count(const struct mo_graph *g, const char *op) {
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        n += !strcmp(g->nodes[i]->op_type, op);
    return n;
}

void ways_show(const struct mo_graph *g) {
    for (int k = 0; k < g->n_nodes; k++)
        print_error("    %s\n", g->nodes[k]->op_type);
}

int ways_inputs(struct ob *b, float step, moire_tensor *in) {
    struct mo_graph *plain = ways_graph(b, false, false);
    const int n = plain->n_inputs;
    uint64_t seed = 3;
    for (int k = 0; k < n; k++) {
        const struct mo_tensor *t = plain->tensors[plain->inputs[k]];
        in[k] =
            (moire_tensor){.dtype = MOIRE_F32, .rank = t->shape.rank, .bytes = (size_t)mo_tensor_bytes(t)};
        memcpy(in[k].shape, t->shape.d, sizeof in[k].shape);
        in[k].data = ob_alloc(b, in[k].bytes);
        for (size_t i = 0; i < in[k].bytes / 4; i++)
            ((float *)in[k].data)[i] = (float)(int8_t)(mo_splitmix(&seed) >> 56) * step;
    }
    mo_graph_destroy(plain);
    return n;
}

int ways_check(struct ob *b, const char *name, bool special, ways_differ *differ) {
    moire_error err = {0};
    moire_tensor in[INPUTS] = {{0}}, want[OUTPUTS] = {{0}}, got[OUTPUTS] = {{0}};
    char what[100];
    int wrong = 0;
    struct mo_graph *plain = ways_graph(b, false, false);
    int n = plain->n_outputs;
    assert_true(plain->n_inputs <= INPUTS && n <= OUTPUTS);
    fill(b, plain, special, in);
    if (mo_way_run_reference(plain, in, plain->n_inputs, want, &err)) fail_msg("%s", err.message);
    for (int way = -1; way < MO_ISA_COUNT; way = mo_isa_next(way)) /* -1: the reference */
        for (int k = 0; k < 3; k++) {
            const bool small = k > 0, model = k == 2;
            if (way < 0 && model) continue;
            struct mo_frontend_options front = {.no_layout = way < 0 && !small,
                                                .precision =
                                                    small ? MOIRE_PRECISION_INT8 : MOIRE_PRECISION_FP32};
            struct mo_plan_options options = {.isa = way < 0 ? MO_ISA_BASE : (enum mo_isa)way,
                                              .units = model ? MO_UNITS_MODEL : MO_UNITS_OWN,
                                              .reference_only = way < 0,
                                              .shaped = mo_region_graph};
            if (run_graph_in_used_memory(ways_graph_of(b, &front), &options, in, plain->n_inputs, got, &err))
                fail_msg("%s: %s", name, err.message);
            snprintf(what, sizeof what, "%s, %s%s%s", name,
                     way < 0 ? "reference" : mo_isa_name((enum mo_isa)way), small ? ", 8 bits" : "",
                     model ? ", model of a unit" : "");
            for (int i = 0; i < n; i++)
                wrong += differ(what, &got[i], &want[i]);
            mo_way_free(&b->env, got, n);
        }
    mo_way_free(&b->env, want, n);
    mo_graph_destroy(plain);
    return wrong;
}

/* --- what counts as the same ---------------------------------------------------------------------------- */
int ways_near(const char *what, const moire_tensor *got, const moire_tensor *want) {
    assert_int_equal(got->bytes, want->bytes);
    for (size_t i = 0; i < want->bytes / sizeof(float); i++) {
        const double d = ways_distance(got, want, i);
        if (d <= 1) continue;
        print_error("%s: element %zu is %g off\n", what, i, d);
        return 1;
    }
    return 0;
}

int ways_near_largest(const char *what, const moire_tensor *got, const moire_tensor *want) {
    const float *g = got->data, *w = want->data;
    double range = 1e-6, most = 0;
    assert_int_equal(got->bytes, want->bytes);
    for (size_t i = 0; i < want->bytes / sizeof(float); i++) {
        range = fmax(range, fabs((double)w[i]));
        most = fmax(most, isnan(g[i] - w[i]) ? INFINITY : fabs((double)g[i] - w[i]));
    }
    if (most <= 2e-5 * range) return 0;
    print_error("%s: differs by %g of %g\n", what, most, range);
    return 1;
}

/* --- without memory ------------------------------------------------------------------------------------- */
struct sweep {
    struct mo_env env;
    const uint8_t *bytes;
    size_t n;
};

static int load_once(void *ctx) {
    struct sweep *s = ctx;
    struct mo_graph *g = NULL;
    moire_error err;
    int rc = mo_frontend_parse(&s->env, s->bytes, s->n, NULL, NULL, &g, &err);
    mo_graph_destroy(g);
    return rc;
}

void ways_without_memory(struct ob *b) {
    struct fault_sys f;
    struct sweep s = {.env = mo_env_default()};
    s.bytes = ob_pack(b, &s.n);
    fault_sys_init(&f);
    s.env.sys = &f.table;
    fault_sys_sweep(&f, load_once, &s, MOIRE_ENOMEM);
}
