/* SPDX-License-Identifier: Apache-2.0
 * bert.c - BERT-base and BERT-large with the question-answering head, as a PyTorch export looks: LayerNorm,
 * GELU and attention in elementary operators, and target shapes computed in the graph by Shape, Gather and
 * Concat, since batch and sequence are symbolic. */
#include <math.h>
#include "models/zoo.h"

struct dims {
    int64_t hidden, heads, head, layers;
    int64_t sequence; /* for the MAC count */
};

enum { VOCABULARY = 30522, POSITIONS = 512 };

/* Root mean square of a residual branch beside the 1 of its trunk, and of queries and keys.  Attention
 * averages over tokens: strong branches or flat attention would make all tokens alike after a few layers. */
#define BRANCH    0.2
#define SHARPNESS 1.7

static const char *scalar_op(struct mo_build *b, const char *op, const char *x, float value) {
    return mo_b_op2(b, op, x, mo_b_f32(b, "value", value));
}

/* Dimension `axis` of x as a vector of one element. */
static const char *dimension(struct mo_build *b, const char *x, int64_t axis) {
    const char *shape = mo_b_op1(b, "Shape", x);
    const char *one = mo_b_op2(b, "Gather", shape, mo_b_i64(b, "index", &axis, 0));
    mo_b_int(b, "axis", 0);
    return mo_b_op2(b, "Unsqueeze", one, mo_b_i64(b, "axes", (int64_t[]){0}, 1));
}

/* x [batch, sequence, ...] reshaped to [batch, sequence, tail...]. */
static const char *reshape(struct mo_build *b, const char *x, const int64_t *tail, int n) {
    const char *parts[] = {dimension(b, x, 0), dimension(b, x, 1), mo_b_i64(b, "tail", tail, n)};
    const char *shape = mo_b_node(b, "Concat", 3, parts);
    mo_b_int(b, "axis", 0);
    return mo_b_op2(b, "Reshape", x, shape);
}

static const char *transpose(struct mo_build *b, const char *x, int p0, int p1, int p2, int p3) {
    const char *y = mo_b_op1(b, "Transpose", x);
    mo_b_ints(b, "perm", (int64_t[]){p0, p1, p2, p3}, 4);
    return y;
}

static const char *mean(struct mo_build *b, const char *x) {
    const char *y = mo_b_op1(b, "ReduceMean", x);
    mo_b_ints(b, "axes", (int64_t[]){-1}, 1);
    mo_b_int(b, "keepdims", 1);
    return y;
}

static const char *layer_norm(struct mo_build *b, const char *x, int64_t n) {
    const char *centred = mo_b_op2(b, "Sub", x, mean(b, x));
    const char *variance = mean(b, scalar_op(b, "Pow", centred, 2));
    const char *deviation = mo_b_op1(b, "Sqrt", scalar_op(b, "Add", variance, 1e-12f));
    const char *y = mo_b_op2(b, "Div", centred, deviation);
    y = mo_b_op2(b, "Mul", y, mo_b_normal(b, "norm_weight", &n, 1, 1, 0.1));
    return mo_b_op2(b, "Add", y, mo_b_normal(b, "norm_bias", &n, 1, 0, 0.05));
}

/* x W + bias; ms is the mean square of x, gain the wanted root mean square of the result */
static const char *linear(struct mo_build *b, const struct dims *d, const char *x, int64_t in, int64_t out,
                          double ms, double gain) {
    const char *weight = mo_b_normal(b, "weight", (int64_t[]){in, out}, 2, 0, gain / sqrt((double)in * ms));
    const char *bias = mo_b_normal(b, "bias", &out, 1, 0, 0.05);
    b->macs += d->sequence * in * out;
    return mo_b_op2(b, "Add", bias, mo_b_op2(b, "MatMul", x, weight));
}

static const char *attention(struct mo_build *b, const struct dims *d, const char *x, const char *mask) {
    const char *part[3];
    for (int i = 0; i < 3; i++) {
        const char *y = linear(b, d, x, d->hidden, d->hidden, 1, i < 2 ? SHARPNESS : 1);
        y = reshape(b, y, (int64_t[]){d->heads, d->head}, 2);
        part[i] = i == 1 ? transpose(b, y, 0, 2, 3, 1) : transpose(b, y, 0, 2, 1, 3);
    }
    const char *score = mo_b_op2(b, "MatMul", part[0], part[1]);
    score = scalar_op(b, "Div", score, sqrtf((float)d->head));
    score = mo_b_op1(b, "Softmax", mo_b_op2(b, "Add", score, mask));
    mo_b_int(b, "axis", 3);
    const char *y = transpose(b, mo_b_op2(b, "MatMul", score, part[2]), 0, 2, 1, 3);
    b->macs += 2 * d->sequence * d->sequence * d->hidden;
    y = reshape(b, y, &d->hidden, 1);
    return linear(b, d, y, d->hidden, d->hidden, 0.2, BRANCH); /* an average over the sequence is small */
}

static const char *gelu(struct mo_build *b, const char *x) {
    const char *e = mo_b_op1(b, "Erf", scalar_op(b, "Div", x, 1.41421356f));
    return scalar_op(b, "Mul", mo_b_op2(b, "Mul", x, scalar_op(b, "Add", e, 1)), 0.5f);
}

static const char *encoder_layer(struct mo_build *b, const struct dims *d, const char *x, const char *mask) {
    x = layer_norm(b, mo_b_op2(b, "Add", attention(b, d, x, mask), x), d->hidden);
    const char *y = gelu(b, linear(b, d, x, d->hidden, 4 * d->hidden, 1, 1));
    y = linear(b, d, y, 4 * d->hidden, d->hidden, 0.43, BRANCH);
    return layer_norm(b, mo_b_op2(b, "Add", y, x), d->hidden);
}

static const char *lookup(struct mo_build *b, const struct dims *d, const char *stem, int64_t rows,
                          const char *ids) {
    const char *table = mo_b_normal(b, stem, (int64_t[]){rows, d->hidden}, 2, 0, 0.05);
    return mo_b_op2(b, "Gather", table, ids);
}

static const char *embed(struct mo_build *b, const struct dims *d) {
    int64_t ids[POSITIONS], zero = 0, one = 1;
    for (int i = 0; i < POSITIONS; i++)
        ids[i] = i;
    const char *all =
        mo_b_op2(b, "Unsqueeze", mo_b_i64(b, "position_ids", ids, POSITIONS), mo_b_i64(b, "axes", &zero, 1));
    const char *slice[] = {all, mo_b_i64(b, "starts", &zero, 1), dimension(b, "input_ids", 1),
                           mo_b_i64(b, "axes", &one, 1)};
    const char *positions = mo_b_node(b, "Slice", 4, slice);
    const char *x = lookup(b, d, "word_embeddings", VOCABULARY, "input_ids");
    x = mo_b_op2(b, "Add", x, lookup(b, d, "type_embeddings", 2, "token_type_ids"));
    x = mo_b_op2(b, "Add", x, lookup(b, d, "position_embeddings", POSITIONS, positions));
    return layer_norm(b, x, d->hidden);
}

/* 1 -> 0, 0 -> -10000, shape [batch, 1, 1, sequence] */
static const char *additive_mask(struct mo_build *b) {
    int64_t one = 1, two = 2;
    const char *x = mo_b_op2(b, "Unsqueeze", "attention_mask", mo_b_i64(b, "axes", &one, 1));
    x = mo_b_op2(b, "Unsqueeze", x, mo_b_i64(b, "axes", &two, 1));
    x = mo_b_op1(b, "Cast", x);
    mo_b_int(b, "to", MOIRE_F32);
    return scalar_op(b, "Mul", mo_b_op2(b, "Sub", mo_b_f32(b, "one", 1), x), -10000);
}

void mo_zoo_bert(struct mo_build *b, const struct mo_zoo_model *model) {
    bool large = model->variant == 24;
    struct dims d = {.layers = model->variant, .head = 64, .sequence = model->inputs[0].shape[1]};
    d.hidden = large ? 1024 : 768;
    d.heads = d.hidden / d.head;
    const int64_t dims[] = {-1, -2};
    for (int i = 0; i < 3; i++)
        mo_b_input(b, model->inputs[i].name, MOIRE_I64, dims, 2);
    const char *mask = additive_mask(b), *x = embed(b, &d);
    for (int i = 0; i < d.layers; i++)
        x = encoder_layer(b, &d, x, mask);
    x = linear(b, &d, x, d.hidden, 2, 1, 1);
    const char *start = mo_b_op1(b, "Split", x);
    const char *end = mo_b_another_output(b);
    mo_b_int(b, "axis", -1);
    start = mo_b_op2(b, "Squeeze", start, mo_b_i64(b, "axes", (int64_t[]){-1}, 1));
    end = mo_b_op2(b, "Squeeze", end, mo_b_i64(b, "axes", (int64_t[]){-1}, 1));
    mo_b_output(b, start, "start_logits", MOIRE_F32, dims, 2);
    mo_b_output(b, end, "end_logits", MOIRE_F32, dims, 2);
}
