/* SPDX-License-Identifier: Apache-2.0
 * random_graph.c - grows a graph node by node.  A node whose shapes do not work out is taken back, so the
 * generator needs no shape arithmetic of its own. */
#include "tests/unit/codegen/random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include "runtime/ops/op.h"

struct maker {
    struct mo_graph *g;
    uint64_t state;
    int live[64], n_live; /* tensors a next node may read */
};

static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int pick(struct maker *m, int n) {
    return (int)(next_random(&m->state) % (uint64_t)n);
}

/* Sum of four uniforms: near enough to a normal of variance 1/3. */
static float draw(uint64_t *state) {
    float sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (float)(next_random(state) >> 40) / 8388608.f - 1;
    return sum / 2;
}

static int constant(struct maker *m, moire_dtype dtype, int rank, const int64_t *d, double scale,
                    double shift) {
    struct mo_shape s = {.rank = rank};
    for (int i = 0; i < rank; i++)
        s.d[i] = d[i];
    struct mo_tensor *t = mo_graph_add_const(m->g, "c", dtype, &s);
    assert_non_null(t);
    for (int64_t i = 0; dtype == MOIRE_F32 && i < mo_shape_count(&s); i++)
        ((float *)t->data)[i] = (float)(scale * (double)draw(&m->state) + shift);
    return t->id;
}

static int vector(struct maker *m, int64_t n, double scale, double shift) {
    return constant(m, MOIRE_F32, 1, &n, scale, shift);
}

static int list(struct maker *m, int64_t n, const int64_t *values) {
    int id = constant(m, MOIRE_I64, 1, &n, 0, 0);
    memcpy(m->g->tensors[id]->data, values, (size_t)n * sizeof *values);
    return id;
}

static struct mo_node *node(struct maker *m, const char *op, int n_in, const int *in, int n_out) {
    struct mo_node *node = mo_graph_add_node(m->g, op, op, "", n_in, n_out);
    assert_non_null(node);
    node->op = mo_op_find(op, "");
    node->opset = m->g->opset;
    for (int i = 0; i < n_in; i++)
        node->in[i] = in[i];
    for (int i = 0; i < n_out; i++) {
        node->out[i] = m->g->n_tensors;
        assert_non_null(mo_graph_add_tensor(m->g, "t", MOIRE_NONE, NULL));
    }
    return node;
}

static void ints(struct maker *m, struct mo_node *n, const char *name, int count, const int64_t *values) {
    struct mo_attr *a = mo_node_add_attr(m->g, n, name, MO_ATTR_INTS);
    int64_t *copy = mo_region_array(m->g->region, (size_t)count, sizeof *copy);
    assert_non_null(a);
    assert_non_null(copy);
    memcpy(copy, values, (size_t)count * sizeof *copy);
    a->ints = copy;
    a->n = count;
}

static void integer(struct maker *m, struct mo_node *n, const char *name, int64_t value) {
    mo_node_add_attr(m->g, n, name, MO_ATTR_INT)->i = value;
}

static bool infer(struct maker *m, const struct mo_node *n) {
    struct mo_value in[16] = {{0}}, out[16] = {{0}};
    struct mo_op_ctx ctx = {
        .node = n, .env = m->g->env, .n_in = n->n_in, .n_out = n->n_out, .in = in, .out = out};
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0) in[i] = mo_tensor_value(m->g->tensors[n->in[i]]);
    if (mo_op_infer(&ctx)) return false;
    for (int i = 0; i < n->n_out; i++) {
        m->g->tensors[n->out[i]]->dtype = out[i].dtype;
        m->g->tensors[n->out[i]]->shape = out[i].shape;
    }
    return true;
}

/* Infers; a node that does not fit, or grows too large, is dropped.  The first output becomes live. */
static bool keep(struct maker *m, struct mo_node *n) {
    bool fits = infer(m, n);
    for (int i = 0; i < n->n_out && fits; i++)
        fits = mo_tensor_bytes(m->g->tensors[n->out[i]]) < 400000;
    if (!fits) {
        m->g->n_nodes--;
        return false;
    }
    for (int i = 0; i < n->n_out; i++) {
        if (m->n_live == 64) memmove(m->live, m->live + 1, (size_t)--m->n_live * sizeof *m->live);
        m->live[m->n_live++] = n->out[i];
    }
    return true;
}

/* --- one function a kind of layer --- */
static void convolution(struct maker *m, int x, const struct mo_shape *s) {
    static const int64_t kernels[][2] = {{1, 1}, {3, 3}, {3, 3}, {5, 5}, {1, 3}, {2, 2}, {7, 7}};
    static const int64_t widths[] = {5, 8, 16, 17, 32, 48};
    const int64_t *k = kernels[pick(m, 7)];
    int64_t channels = s->d[1], group = 1, out = widths[pick(m, 6)], stride = 1 + pick(m, 3) / 2;
    if (pick(m, 4) == 0) group = channels, out = channels * (1 + pick(m, 4) / 3);
    if (group == 1 && channels % 2 == 0 && pick(m, 8) == 0) group = 2, out += out % 2;
    int64_t w[] = {out, channels / group, k[0], k[1]};
    double scale = 1.7 / sqrt((double)(w[1] * w[2] * w[3]));
    int in[] = {x, constant(m, MOIRE_F32, 4, w, scale, 0), vector(m, out, 1, 0)};
    struct mo_node *n = node(m, "Conv", 2 + pick(m, 2), in, 1);
    ints(m, n, "pads", 4, (int64_t[]){k[0] / 2, pick(m, 2) ? k[1] / 2 : 0, k[0] / 2, k[1] / 2});
    ints(m, n, "strides", 2, (int64_t[]){stride, stride});
    integer(m, n, "group", group);
    keep(m, n);
}

static void transposed(struct maker *m, int x, const struct mo_shape *s) {
    int64_t w[] = {s->d[1], 4 << pick(m, 3), 2, 2};
    int in[] = {x, constant(m, MOIRE_F32, 4, w, 0.5, 0), vector(m, w[1], 1, 0)};
    struct mo_node *n = node(m, "ConvTranspose", 2 + pick(m, 2), in, 1);
    ints(m, n, "strides", 2, (int64_t[]){2, 2});
    keep(m, n);
}

static void batch_norm(struct maker *m, int x, const struct mo_shape *s) {
    int64_t c = s->d[1];
    int in[] = {x, vector(m, c, 1, 1), vector(m, c, 1, 0), vector(m, c, 1, 0), vector(m, c, 0.3, 1.2)};
    keep(m, node(m, "BatchNormalization", 5, in, 1));
}

static void activation(struct maker *m, int x, const struct mo_shape *s) {
    static const char *const names[] = {"Relu",      "Relu", "Relu",      "Sigmoid",  "HardSigmoid",
                                        "HardSwish", "Tanh", "LeakyRelu", "Elu",      "Neg",
                                        "Softplus",  "Erf",  "Abs",       "Identity", "Dropout"};
    int which = pick(m, 19);
    if (which < 15) {
        keep(m, node(m, names[which], 1, &x, 1));
    } else if (which == 15) { /* clip to [0, 6] */
        int in[] = {x, constant(m, MOIRE_F32, 0, NULL, 0, 0), constant(m, MOIRE_F32, 0, NULL, 0, 6)};
        keep(m, node(m, "Clip", 3, in, 1));
    } else if (which == 16) { /* SiLU in two steps */
        struct mo_node *gate = node(m, "Sigmoid", 1, &x, 1);
        int in[] = {x, gate->out[0]};
        if (keep(m, gate)) keep(m, node(m, "Mul", 2, in, 1));
    } else { /* scale or shift by channel */
        int64_t d[] = {1, s->d[1], 1, 1};
        int in[] = {x, constant(m, MOIRE_F32, 4, d, 1, 1)};
        keep(m, node(m, which == 17 ? "Mul" : "Add", 2, in, 1));
    }
}

static void binary(struct maker *m, int x, const struct mo_shape *s) {
    static const char *const names[] = {"Add", "Add", "Add", "Mul", "Sub", "Max"};
    int other = m->live[pick(m, m->n_live)], swap = pick(m, 2);
    if (!mo_shape_equal(&m->g->tensors[other]->shape, s)) return;
    int in[] = {swap ? other : x, swap ? x : other};
    keep(m, node(m, names[pick(m, 6)], 2, in, 1));
}

static void concat(struct maker *m, int x, const struct mo_shape *s) {
    (void)s;
    int in[] = {x, m->live[pick(m, m->n_live)], m->live[pick(m, m->n_live)]};
    struct mo_node *n = node(m, "Concat", 1 + pick(m, 3), in, 1);
    integer(m, n, "axis", pick(m, 4) ? 1 : -1);
    keep(m, n);
}

static void pool(struct maker *m, int x, const struct mo_shape *s) {
    (void)s;
    int64_t k = 2 + pick(m, 2), stride = 1 + pick(m, 2), pad = pick(m, 2);
    struct mo_node *n = node(m, pick(m, 2) ? "MaxPool" : "AveragePool", 1, &x, 1);
    ints(m, n, "kernel_shape", 2, (int64_t[]){k, k});
    ints(m, n, "strides", 2, (int64_t[]){stride, stride});
    ints(m, n, "pads", 4, (int64_t[]){pad, pad, pad, pad});
    integer(m, n, "ceil_mode", pick(m, 2));
    if (n->op_type[0] == 'A') integer(m, n, "count_include_pad", pick(m, 2));
    keep(m, n);
}

/* Squeeze and excite. */
static void gate(struct maker *m, int x, const struct mo_shape *s) {
    struct mo_node *mean = node(m, "GlobalAveragePool", 1, &x, 1);
    int64_t w[] = {s->d[1], s->d[1], 1, 1};
    if (!keep(m, mean)) return;
    int in[] = {mean->out[0], constant(m, MOIRE_F32, 4, w, 0.3, 0)};
    struct mo_node *conv = node(m, "Conv", 2, in, 1);
    if (!keep(m, conv)) return;
    struct mo_node *sigmoid = node(m, "Sigmoid", 1, conv->out, 1);
    int both[] = {x, sigmoid->out[0]};
    if (keep(m, sigmoid)) keep(m, node(m, "Mul", 2, both, 1));
}

static void shuffle(struct maker *m, int x, const struct mo_shape *s) {
    const int64_t *d = s->d;
    int in[] = {x, list(m, 5, (int64_t[]){d[0], 2, d[1] / 2, d[2], d[3]})};
    struct mo_node *split = node(m, "Reshape", 2, in, 1);
    if (!keep(m, split)) return;
    m->n_live--; /* of rank 5: not for others */
    struct mo_node *swap = node(m, "Transpose", 1, split->out, 1);
    ints(m, swap, "perm", 5, (int64_t[]){0, 2, 1, 3, 4});
    if (!keep(m, swap)) return;
    m->n_live--;
    int back[] = {swap->out[0], list(m, 4, d)};
    keep(m, node(m, "Reshape", 2, back, 1));
}

static void move(struct maker *m, int x, const struct mo_shape *s) {
    int64_t half = s->d[1] / 2;
    int kind = pick(m, 4);
    if (kind == 0) {
        int in[] = {x, list(m, 8, (int64_t[]){0, 0, pick(m, 3), 1, 0, 0, 1, pick(m, 3)})};
        keep(m, node(m, "Pad", 2, in, 1));
    } else if (kind == 1) {
        int in[] = {x, list(m, 2, (int64_t[]){half, s->d[1] - half})};
        struct mo_node *n = node(m, "Split", 2, in, 2);
        integer(m, n, "axis", 1);
        if (half) keep(m, n);
    } else if (kind == 2) {
        int in[] = {x, list(m, 1, (int64_t[]){1}), list(m, 1, (int64_t[]){s->d[2]}),
                    list(m, 1, (int64_t[]){2})};
        if (s->d[2] > 2) keep(m, node(m, "Slice", 4, in, 1));
    } else {
        int64_t four = 4;
        int in[] = {x, -1, constant(m, MOIRE_F32, 1, &four, 0, 1)};
        float *scale = m->g->tensors[in[2]]->data;
        scale[2] = scale[3] = 2;
        struct mo_node *n = node(m, "Resize", 3, in, 1);
        mo_node_add_attr(m->g, n, "mode", MO_ATTR_STRING)->s = pick(m, 2) ? "linear" : "nearest";
        keep(m, n);
    }
}

static void norm(struct maker *m, int x, const struct mo_shape *s) {
    int in[] = {x, vector(m, s->d[1], 1, 1), vector(m, s->d[1], 1, 0)};
    int kind = pick(m, 3);
    struct mo_node *n = node(m,
                             kind == 0   ? "InstanceNormalization"
                             : kind == 1 ? "LRN"
                                         : "Softmax",
                             kind ? 1 : 3, in, 1);
    if (kind == 1) integer(m, n, "size", 5);
    if (kind == 2) integer(m, n, "axis", 1);
    keep(m, n);
}

static void grow(struct maker *m) {
    static void (*const kinds[])(struct maker *, int, const struct mo_shape *) = {
        convolution, convolution, convolution, convolution, convolution, batch_norm, batch_norm, activation,
        activation,  activation,  activation,  binary,      binary,      binary,     concat,     concat,
        pool,        pool,        gate,        shuffle,     move,        move,       norm,       transposed};
    int x = m->live[pick(m, 4) ? m->n_live - 1 : pick(m, m->n_live)];
    struct mo_shape s = m->g->tensors[x]->shape; /* tensors move when the array grows */
    kinds[pick(m, (int)(sizeof kinds / sizeof *kinds))](m, x, &s);
}

struct mo_graph *random_graph(const struct mo_env *env, uint64_t seed) {
    static const int64_t widths[] = {1, 3, 4, 8, 16, 17, 24, 32};
    struct maker m = {.g = mo_graph_create(env), .state = seed};
    assert_non_null(m.g);
    m.g->opset = 14;
    struct mo_shape s = {.rank = 4,
                         .d = {1 + pick(&m, 4) / 3, widths[pick(&m, 8)], 6 + pick(&m, 8), 6 + pick(&m, 8)}};
    struct mo_tensor *x = mo_graph_add_tensor(m.g, "x", MOIRE_F32, &s);
    x->is_input = true;
    m.g->inputs = mo_region_array(m.g->region, 1, sizeof(int));
    m.g->outputs = mo_region_array(m.g->region, 3, sizeof(int));
    m.g->inputs[m.g->n_inputs++] = m.live[m.n_live++] = x->id;
    for (int i = 0, n = 3 + pick(&m, 10); i < n; i++)
        grow(&m);
    for (int i = 0, n = 1 + pick(&m, 4) / 2; i < n; i++) {
        struct mo_tensor *out = m.g->tensors[m.live[i ? pick(&m, m.n_live) : m.n_live - 1]];
        if (out->is_output || out->is_input) continue;
        out->is_output = true;
        m.g->outputs[m.g->n_outputs++] = out->id;
    }
    assert_int_equal(mo_graph_sort(m.g, NULL), MOIRE_OK);
    return m.g;
}

moire_tensor random_input(struct mo_graph *g, uint64_t seed) {
    const struct mo_tensor *t = g->tensors[g->inputs[0]];
    moire_tensor x = {.dtype = t->dtype, .rank = t->shape.rank, .bytes = (size_t)mo_tensor_bytes(t)};
    memcpy(x.shape, t->shape.d, sizeof x.shape);
    x.data = mo_region_alloc(g->region, x.bytes);
    assert_non_null(x.data);
    for (size_t i = 0; i < x.bytes / sizeof(float); i++)
        ((float *)x.data)[i] = draw(&seed);
    return x;
}
