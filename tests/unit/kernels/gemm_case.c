/* SPDX-License-Identifier: Apache-2.0
 * gemm_case.c - see gemm_case.h. */
#include "tests/unit/kernels/gemm_case.h"

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

/* Images of the tensors; rows of each. */
static int images_of(const struct gemm_shape *s) {
    return s->images ? s->images : s->x_gap || s->y_gap ? s->m : 1;
}
static int rows_of(const struct gemm_shape *s) {
    return s->images || !(s->x_gap || s->y_gap) ? s->m : 1;
}

/* An activation of `width` columns; a slice when there is a gap behind its images. */
static struct mo_tensor *add(struct gemm_case *c, const char *name, int width, int gap) {
    const struct gemm_shape *s = &c->shape;
    struct mo_shape one = {2, {s->m, width}}, many = {3, {s->images, s->m, width}};
    struct mo_tensor *t = mo_graph_add_tensor(c->graph, name, MOIRE_F32, s->images ? &many : &one);
    struct mo_shape whole = {2, {images_of(s), rows_of(s) * width + gap}};
    if (gap) t->alias = mo_graph_add_tensor(c->graph, "around", MOIRE_F32, &whole)->id;
    return t;
}

void gemm_case_open(struct gemm_case *c, const struct gemm_shape *s) {
    *c = (struct gemm_case){.env = mo_env_default(), .shape = *s};
    struct mo_graph *g = c->graph = mo_graph_create(&c->env);
    struct mo_shape bs = {2, {s->k, s->n}}, cs = {1, {s->n}};
    struct mo_tensor *a = add(c, "a", s->k, s->x_gap), *b = mo_graph_add_const(g, "b", MOIRE_F32, &bs);
    struct mo_tensor *bias = mo_graph_add_const(g, "c", MOIRE_F32, &cs), *r = add(c, "r", s->n, s->y_gap);
    struct mo_tensor *y = add(c, "y", s->n, s->y_gap);
    struct mo_node *node = c->node = mo_graph_add_node(g, "fc", s->images ? "MatMul" : "Gemm",
                                                       s->images ? "moire" : "", s->residual ? 4 : 3, 1);
    node->in[0] = a->id, node->in[1] = b->id, node->in[2] = bias->id, node->out[0] = y->id;
    if (s->residual) node->in[3] = r->id;
    node->fuse =
        (struct mo_fuse){.act = s->act, .residual = s->residual ? 3 : -1, .residual_last = s->residual == 2};
    c->a_image = rows_of(s) * s->k + s->x_gap, c->y_image = rows_of(s) * s->n + s->y_gap;
    int xs = images_of(s) * c->a_image, ys = images_of(s) * c->y_image;
    c->a = pattern(floats(xs), xs, 37, 11, 101);
    c->res = pattern(floats(ys), ys, 29, 5, 97);
    pattern(b->data, s->k * s->n, 41, 3, 89);
    for (int i = 0; i < s->n; i++)
        ((float *)bias->data)[i] = (float)(i % 7);
    c->y = floats(ys + GUARD);
    for (int i = 0; i < ys + GUARD; i++)
        c->y[i] = guard;
    c->args = (struct mo_kargs){.in = {c->a, b->data, bias->data, c->res},
                                .out = {c->y},
                                .in_image = {c->a_image * 4, 0, 0, c->y_image * 4},
                                .out_image = {c->y_image * 4},
                                .residual = s->residual ? c->res : NULL,
                                .residual_image = c->y_image * 4};
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

static double expected(const struct gemm_case *c, int image, int row, int j) {
    const struct gemm_shape *s = &c->shape;
    const float *b = c->args.in[1], *bias = c->args.in[2], *a = c->a + image * c->a_image + row * s->k;
    const float *res = c->res + image * c->y_image + row * s->n + j;
    double sum = bias[j];
    for (int q = 0; q < s->k; q++)
        sum += (double)a[q] * b[q * s->n + j];
    if (s->residual == 1) sum += *res;
    if (s->act == MO_ACT_GELU) sum = sum / 2 * (1 + erf(sum / sqrt(2)));
    if (s->act == MO_ACT_GELU_TANH)
        sum = sum / 2 * (1 + tanh(0.79788456080286535588 * (sum + 0.044715 * sum * sum * sum)));
    if (s->act == MO_ACT_RELU && sum < 0) sum = 0;
    return s->residual == 2 ? sum + *res : sum;
}

static const char *check_image(const struct gemm_case *c, int image, char *text, size_t size) {
    const struct gemm_shape *s = &c->shape;
    const float *y = c->y + image * c->y_image;
    for (int i = 0; i < s->y_gap; i++)
        if (y[rows_of(s) * s->n + i] != guard) return "wrote between two images";
    for (int i = 0; i < rows_of(s); i++)
        for (int j = 0; j < s->n; j++) {
            double want = expected(c, image, i, j), got = y[i * s->n + j];
            if (fabs(want - got) <= 1e-4 * (1 + fabs(want))) continue;
            snprintf(text, size, "image %d row %d column %d: %g, want %g", image, i, j, got, want);
            return text;
        }
    return NULL;
}

const char *gemm_case_check(const struct gemm_case *c) {
    static char text[120];
    int images = images_of(&c->shape);
    const char *wrong = NULL;
    for (int i = 0; i < GUARD; i++)
        if (c->y[images * c->y_image + i] != guard) return "wrote behind the result";
    for (int i = 0; i < images && !wrong; i++)
        wrong = check_image(c, i, text, sizeof text);
    return wrong;
}
