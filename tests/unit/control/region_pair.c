/* SPDX-License-Identifier: Apache-2.0
 * region_pair.c - a plan with regions beside one without; see region_pair.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/region_graph.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/codegen/ways_case.h"
#include "tests/unit/control/region_pair.h"

struct region_query region_query_of(int rows, int seed) {
    struct region_query q = {.to = {-1, 64}};
    for (int i = 0; i < rows; i++)
        q.mask[(i * 7 + seed) % REGION_ROWS] = 1;
    return q;
}

struct mo_plan *region_plan_of(struct ob *b, mo_plan_shaped_fn *shaped) {
    struct mo_graph *g = ways_graph(b, true, true);
    struct mo_plan *plan;
    moire_error err = {0};
    const struct mo_plan_options options = {.isa = mo_isa_detect(), .shaped = shaped};
    if (mo_plan_build(g, &options, &plan, &err)) fail_msg("%s", err.message);
    return plan;
}

int region_set(struct mo_instance *instance, const struct mo_plan *plan, const struct region_query *q) {
    const struct mo_graph *g = plan->graph;
    int rc = MOIRE_OK;
    for (int i = 0; i < g->n_inputs && !rc; i++) {
        const struct mo_tensor *t = g->tensors[g->inputs[i]];
        const size_t bytes = (size_t)mo_tensor_bytes(t);
        float *x = calloc(bytes, 1);
        moire_tensor in = {.dtype = t->dtype, .rank = t->shape.rank, .data = x, .bytes = bytes};
        memcpy(in.shape, t->shape.d, sizeof in.shape);
        for (size_t k = 0; k < bytes / 4; k++)
            x[k] = sinf((float)k);
        if (i == 0) memcpy(x, q->mask, bytes);
        if (i == 2) memcpy(x, q->to, bytes);
        rc = mo_instance_set_input(instance, i, &in, NULL);
        free(x);
    }
    return rc;
}

int region_answer(struct mo_instance *instance, const struct mo_plan *plan, const struct region_query *q) {
    char *scratch = calloc((size_t)plan->scratch_bytes + 64, 1);
    int rc = region_set(instance, plan, q);
    if (!rc) rc = mo_instance_run(instance, 0, plan->n_steps, scratch);
    free(scratch);
    return rc;
}

struct mo_instance *region_instance_of(const struct mo_plan *plan) {
    struct mo_instance *instance;
    assert_int_equal(mo_instance_create(plan, &instance, NULL), MOIRE_OK);
    return instance;
}

int region_differences(struct mo_instance *got, struct mo_instance *want, int outputs) {
    int n = 0;
    for (int i = 0; i < outputs; i++) {
        moire_tensor a, b;
        if (mo_instance_output(got, i, &a) || mo_instance_output(want, i, &b)) return 1;
        n += a.rank != b.rank || memcmp(a.shape, b.shape, sizeof a.shape) != 0 ||
             (a.bytes && ways_near_largest("a region", &a, &b));
    }
    return n;
}

struct region_pair region_pair_of(struct ob *b) {
    struct region_pair p = {.plan = region_plan_of(b, mo_region_graph), .plain = region_plan_of(b, NULL)};
    p.is = region_instance_of(p.plan);
    p.should = region_instance_of(p.plain);
    return p;
}

void region_pair_end(struct region_pair *p, struct ob *b) {
    mo_instance_destroy(p->is);
    mo_instance_destroy(p->should);
    mo_plan_destroy(p->plan);
    mo_plan_destroy(p->plain);
    ob_destroy(b);
}

void region_pair_same(struct region_pair *p, const struct region_query *q) {
    if (region_answer(p->is, p->plan, q)) fail_msg("%s", mo_instance_message(p->is));
    if (region_answer(p->should, p->plain, q)) fail_msg("%s", mo_instance_message(p->should));
    assert_int_equal(region_differences(p->is, p->should, p->plan->graph->n_outputs), 0);
    mo_instance_reset(p->is);
    mo_instance_reset(p->should);
}

/* --- without memory ------------------------------------------------------------------------------------- */

struct sweep {
    struct mo_env env;
    region_ask_fn *ask;
    int rows;
};

static int run_once(void *ctx) {
    const struct sweep *sweep = ctx;
    struct ob *b = region_products();
    struct mo_plan *plan = NULL;
    struct mo_instance *instance = NULL;
    struct mo_graph *g = NULL;
    moire_error err;
    size_t n;
    const uint8_t *bytes = ob_pack(b, &n);
    const struct mo_plan_options options = {.isa = mo_isa_detect(), .shaped = mo_region_graph};
    int rc = mo_frontend_parse(&sweep->env, bytes, n, NULL, NULL, &g, &err);
    if (!rc) rc = mo_plan_build(g, &options, &plan, &err);
    if (!rc) rc = mo_instance_create(plan, &instance, &err);
    for (int i = 0; i < 2 && !rc; i++) {
        const struct region_query q = region_query_of(sweep->rows + i, 0);
        rc = sweep->ask(instance, plan, &q);
        mo_instance_reset(instance);
    }
    mo_instance_destroy(instance);
    mo_plan_destroy(plan);
    ob_destroy(b);
    return rc;
}

void region_sweep_memory(region_ask_fn *ask, int rows) {
    struct fault_sys f;
    struct sweep sweep = {mo_env_default(), ask, rows};
    fault_sys_init(&f);
    sweep.env.sys = &f.table;
    assert_true(fault_sys_sweep(&f, run_once, &sweep, MOIRE_ENOMEM) > 0);
}
