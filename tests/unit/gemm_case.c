/* SPDX-License-Identifier: Apache-2.0
 * gemm_case.c - see gemm_case.h. */
#include "tests/unit/gemm_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64 }; /* floats behind the result */
static const float guard = -777;

/* n values of a repeating pattern of `period`, from -1 to 1. */
static float *pattern(float *to, int n, int factor, int offset, int period) {
    int half = period / 2;
    if (!to) abort();
    for (int i = 0; i < n; i++)
        to[i] = (float)((i * factor + offset) % period) / (float)half - 1;
    return to;
}

static float *floats(int n) {
    return malloc((size_t)n * sizeof(float));
}

void gemm_case_open(struct gemm_case *c, const struct gemm_shape *s) {
    *c = (struct gemm_case){.env = mo_env_default(), .shape = *s};
    struct mo_graph *g = c->graph = mo_graph_create(&c->env);
    struct mo_shape as = {2, {s->m, s->k}}, bs = {2, {s->k, s->n}}, cs = {1, {s->n}}, ys = {2, {s->m, s->n}};
    struct mo_tensor *a = mo_graph_add_tensor(g, "a", MOIRE_F32, &as),
                     *b = mo_graph_add_const(g, "b", MOIRE_F32, &bs);
    struct mo_tensor *bias = mo_graph_add_const(g, "c", MOIRE_F32, &cs),
                     *r = mo_graph_add_tensor(g, "r", MOIRE_F32, &ys);
    struct mo_tensor *y = mo_graph_add_tensor(g, "y", MOIRE_F32, &ys);
    struct mo_node *node = c->node = mo_graph_add_node(g, "fc", "Gemm", "", s->residual ? 4 : 3, 1);
    node->in[0] = a->id, node->in[1] = b->id, node->in[2] = bias->id, node->out[0] = y->id;
    if (s->residual) node->in[3] = r->id;
    node->fuse =
        (struct mo_fuse){.act = s->act, .residual = s->residual ? 3 : -1, .residual_last = s->residual == 2};
    c->a = pattern(floats(s->m * s->k), s->m * s->k, 37, 11, 101);
    c->res = pattern(floats(s->m * s->n), s->m * s->n, 29, 5, 97);
    pattern(b->data, s->k * s->n, 41, 3, 89);
    for (int i = 0; i < s->n; i++)
        ((float *)bias->data)[i] = (float)(i % 7);
    c->y = floats(s->m * s->n + GUARD);
    for (int i = 0; i < s->m * s->n + GUARD; i++)
        c->y[i] = guard;
    c->args = (struct mo_kargs){
        .in = {c->a, b->data, bias->data, c->res}, .out = {c->y}, .residual = s->residual ? c->res : NULL};
}

void gemm_case_close(struct gemm_case *c) {
    mo_graph_destroy(c->graph);
    free(c->a);
    free(c->res);
    free(c->y);
}

void gemm_case_run(struct gemm_case *c, mo_kernel *run, int64_t units, int64_t scratch_bytes) {
    void *scratch = aligned_alloc(64, (size_t)(scratch_bytes + 127) / 64 * 64);
    if (!scratch) abort();
    for (int64_t u = units - 1; u >= 0; u--)
        run(&c->args, u, u + 1, scratch);
    free(scratch);
}

static double expected(const struct gemm_case *c, int i, int j) {
    const struct gemm_shape *s = &c->shape;
    const float *b = c->args.in[1], *bias = c->args.in[2], *res = c->res + i * s->n + j;
    double sum = bias[j];
    for (int q = 0; q < s->k; q++)
        sum += (double)c->a[i * s->k + q] * b[q * s->n + j];
    if (s->residual == 1) sum += *res;
    if (s->act == MO_ACT_GELU) sum = sum / 2 * (1 + erf(sum / sqrt(2)));
    if (s->act == MO_ACT_GELU_TANH)
        sum = sum / 2 * (1 + tanh(0.79788456080286535588 * (sum + 0.044715 * sum * sum * sum)));
    if (s->act == MO_ACT_RELU && sum < 0) sum = 0;
    return s->residual == 2 ? sum + *res : sum;
}

const char *gemm_case_check(const struct gemm_case *c) {
    static char text[120];
    int m = c->shape.m, n = c->shape.n;
    for (int i = 0; i < GUARD; i++)
        if (c->y[m * n + i] != guard) return "wrote behind the result";
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double want = expected(c, i, j), got = c->y[i * n + j];
            if (fabs(want - got) <= 1e-4 * (1 + fabs(want))) continue;
            snprintf(text, sizeof text, "row %d column %d: %g, want %g", i, j, got, want);
            return text;
        }
    return NULL;
}
