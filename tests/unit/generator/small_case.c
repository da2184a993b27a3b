/* SPDX-License-Identifier: Apache-2.0
 * small_case.c - see small_case.h. */
#include "tests/unit/generator/small_case.h"

#include <stdlib.h>
#include "runtime/ops/moire/qconv.h"

const struct small_shape small_shapes[] = {
    {1, 32, 14, 14, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, MOIRE_U8, MO_ACT_RELU, "direct"},
    {2, 40, 7, 7, 56, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 117, 3, MOIRE_U8, MO_ACT_NONE, "direct"},
    {1, 16, 9, 11, 48, 3, 5, 2, 1, 1, 2, 0, 2, 1, 1, 1, 255, -7, MOIRE_I8, MO_ACT_CLIP, "direct"},
    {2, 64, 6, 9, 96, 3, 3, 1, 2, 1, 1, 1, 1, 1, 0, 2, 128, 0, MOIRE_F32, MO_ACT_GELU, "direct"},
    {1, 64, 5, 6, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 8, 12, 90, MOIRE_U8, MO_ACT_HSWISH, "direct"},
    {2, 3, 23, 20, 40, 7, 7, 2, 2, 1, 1, 3, 3, 3, 3, 1, 114, 0, MOIRE_U8, MO_ACT_RELU, "direct"},
    {1, 33, 4, 3, 20, 5, 5, 1, 1, 1, 1, 2, 2, 2, 2, 1, 50, 200, MOIRE_U8, MO_ACT_NONE, "direct"},
    {1, 4, 9, 7, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 2, 100, 0, MOIRE_U8, MO_ACT_NONE, "direct"},
    {2, 40, 14, 14, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 40, 0, 0, MOIRE_U8, MO_ACT_RELU, "depthwise"},
    {1, 24, 15, 12, 24, 5, 5, 2, 2, 1, 1, 2, 1, 2, 2, 24, 130, 7, MOIRE_U8, MO_ACT_SILU, "depthwise"},
    {1, 16, 9, 11, 16, 3, 3, 2, 2, 1, 1, 0, 1, 1, 0, 16, 3, -9, MOIRE_I8, MO_ACT_NONE, "depthwise"},
    {2, 48, 7, 23, 48, 7, 6, 1, 1, 1, 1, 3, 3, 3, 2, 48, 77, 0, MOIRE_F32, MO_ACT_NONE, "depthwise"},
    {2, 24, 9, 13, 80, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 77, 128, MOIRE_U8, MO_ACT_NONE, "pointwise"},
    {1, 48, 9, 13, 40, 1, 1, 2, 2, 1, 1, 0, 0, 0, 0, 1, 0, 0, MOIRE_F32, MO_ACT_NONE, "pointwise"},
    {1, 32, 1, 1, 20, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 9, 0, MOIRE_U8, MO_ACT_SIGMOID, "pointwise"},
    {2, 72, 8, 7, 24, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0, -128, MOIRE_I8, MO_ACT_RELU, "pointwise"},
    {1, 48, 1, 7, 32, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 31, 0, MOIRE_U8, MO_ACT_RELU, "gemm"},
    {2, 64, 1, 23, 80, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 128, 121, MOIRE_U8, MO_ACT_NONE, "gemm"},
    {1, 32, 1, 30, 56, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 5, 9, MOIRE_U8, MO_ACT_NONE, "gemm"},
    {1, 80, 1, 3, 37, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0, -3, MOIRE_I8, MO_ACT_NONE, "gemm"},
    {2, 96, 1, 29, 41, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 99, 0, MOIRE_F32, MO_ACT_TANH, "gemm"},
    {1, 16, 6, 5, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 60, 5, MOIRE_U8, MO_ACT_NONE, "pointwise"},
};
const int small_n_shapes = sizeof small_shapes / sizeof *small_shapes;

static int add_tensor(struct mo_graph *g, moire_dtype type, bool constant, const struct mo_shape *shape) {
    struct mo_tensor *t =
        constant ? mo_graph_add_const(g, "t", type, shape) : mo_graph_add_tensor(g, "t", type, shape);
    if (!t) abort();
    if (!constant && shape->rank == 4) t->layout = MO_C16;
    return t->id;
}

static void set_int(struct mo_graph *g, struct mo_node *node, const char *name, int value) {
    mo_node_add_attr(g, node, name, MO_ATTR_INT)->i = value;
}

static void set_ints(struct mo_graph *g, struct mo_node *node, const char *name, int n, const int *values) {
    int64_t *ints = mo_region_array(g->region, (size_t)n, sizeof *ints);
    for (int i = 0; i < n; i++)
        ints[i] = values[i];
    struct mo_attr *a = mo_node_add_attr(g, node, name, MO_ATTR_INTS);
    a->n = n;
    a->ints = ints;
}

static int extent(int in, int k, int s, int d, int pads) {
    return (in + pads - (k - 1) * d - 1) / s + 1;
}

static void add_window(struct mo_graph *g, struct mo_node *node, const struct small_shape *s) {
    const int oh = extent(s->h, s->kh, s->sh, s->dh, s->pt + s->pb),
              ow = extent(s->w, s->kw, s->sw, s->dw, s->pl + s->pr);
    node->in[MO_QCONV_X] = add_tensor(g, MOIRE_U8, false, &(struct mo_shape){4, {s->n, s->c, s->h, s->w}});
    node->in[MO_QCONV_WEIGHTS] =
        add_tensor(g, MOIRE_I8, true, &(struct mo_shape){4, {s->o, s->c / s->groups, s->kh, s->kw}});
    node->out[0] = add_tensor(g, s->to, false, &(struct mo_shape){4, {s->n, s->o, oh, ow}});
    set_ints(g, node, "strides", 2, (int[]){s->sh, s->sw});
    set_ints(g, node, "dilations", 2, (int[]){s->dh, s->dw});
    set_ints(g, node, "pads", 4, (int[]){s->pt, s->pl, s->pb, s->pr});
    set_int(g, node, "group", s->groups);
}

static void add_matrices(struct mo_graph *g, struct mo_node *node, const struct small_shape *s) {
    node->in[MO_QCONV_X] = add_tensor(g, MOIRE_U8, false, &(struct mo_shape){3, {s->n, s->w, s->c}});
    node->in[MO_QCONV_WEIGHTS] = add_tensor(g, MOIRE_I8, true, &(struct mo_shape){2, {s->o, s->c}});
    node->out[0] = add_tensor(g, s->to, false, &(struct mo_shape){3, {s->n, s->w, s->o}});
}

struct mo_graph *small_case_graph(const struct mo_env *env, const struct small_shape *s) {
    struct mo_graph *g = mo_graph_create(env);
    struct mo_node *node = mo_graph_add_node(g, "layer", s->kh ? "QConv" : "QMatMul", "moire", 4, 1);
    (s->kh ? add_window : add_matrices)(g, node, s);
    node->in[MO_QCONV_FACTOR] = add_tensor(g, MOIRE_F32, true, &(struct mo_shape){1, {s->o}});
    node->in[MO_QCONV_BIAS] = add_tensor(g, MOIRE_F32, true, &(struct mo_shape){1, {s->o}});
    node->fuse = (struct mo_fuse){.act = s->act, .a = -0.6f, .b = 0.9f, .residual = -1};
    if (s->act == MO_ACT_HSWISH) node->fuse.a = 1.0f / 6, node->fuse.b = 0.5f;
    set_int(g, node, "x_zero", s->x_zero);
    set_int(g, node, "to", s->to);
    if (s->to != MOIRE_F32) {
        mo_node_add_attr(g, node, "y_scale", MO_ATTR_FLOAT)->f = 0.02f;
        set_int(g, node, "y_zero", s->y_zero);
    }
    mo_graph_index(g);
    return g;
}
