/* SPDX-License-Identifier: Apache-2.0
 * pass_projections.c - the products that make query, key and value from one tensor become one product.
 *
 * Attention then finds the heads of all three side by side, [B,S,3H,D], and takes them by number.  Its left
 * operand is packed once instead of three times, and there is one layer instead of three.  A long sequence
 * gains nothing from that (BERT-base, 384 tokens: 0.5 % slower), since then the joined result, to which the
 * product returns for each block of its sums, is larger than a private cache. */
#include <string.h>
#include "codegen/passes/passes.h"

enum { MOST_BYTES = 2 << 20 }; /* of the joined result */

/* Attention <- Reshape <- MatMul, for each of the three. */
struct projections {
    struct mo_node *attention, *split[3], *product[3];
    int64_t k, n[3], heads, bytes; /* bytes: of their results */
    uint64_t content[3];           /* of their weights */
    const struct mo_tensor *from;  /* one of these; where any is elided, such a one */
};

static bool is_plain(const struct mo_node *node) {
    return node->fuse.act == MO_ACT_NONE && node->fuse.residual < 0;
}

static bool has_weights(const struct mo_graph *g, const struct mo_node *product, int64_t *k, int64_t *n) {
    const struct mo_tensor *w = mo_node_in(g, product, 1), *bias = mo_node_in(g, product, 2);
    if (!mo_is_f32(w) || !w->data || w->shape.rank != 2 || !is_plain(product)) return false;
    *k = w->shape.d[0];
    *n = w->shape.d[1];
    return !bias || (mo_is_f32(bias) && bias->data && mo_shape_count(&bias->shape) == *n);
}

static uint64_t joined_content(const struct projections *p) {
    return mo_content_of("joined", p->content, 3, NULL, 0);
}

/* Where weights are elided or shared, as other plans of the model have them. */
static bool is_worth_it(const struct mo_graph *g, const struct projections *p) {
    const struct mo_packed_places *packed = g->packed;
    const uint64_t joined = joined_content(p);
    if (packed && packed->weights && joined && mo_weights_has(packed->weights, joined)) return true;
    return p->bytes <= MOST_BYTES && !mo_packed_elided(g, p->from);
}

static bool find(const struct mo_graph *g, struct mo_node *node, struct projections *p) {
    int64_t order[4], k;
    if (!mo_is_moire(node, "Attention") || mo_attr_find(node, "heads")) return false;
    if (mo_attr_ints(node, "order", order, 4) != 4 || !order[0] || !order[1] || !order[2]) return false;
    p->attention = node;
    for (int i = 0; i < 3; i++) {
        const struct mo_tensor *t = mo_node_in(g, node, i);
        p->split[i] = mo_producer(g, t->id);
        if (!mo_is(p->split[i], "Reshape") || t->n_uses != 1 || t->is_output) return false;
        const struct mo_tensor *whole = mo_node_in(g, p->split[i], 0);
        p->product[i] = mo_producer(g, whole->id);
        if (!mo_is_moire(p->product[i], "MatMul") || whole->n_uses != 1 || whole->is_output) return false;
        if (!has_weights(g, p->product[i], &k, &p->n[i]) || p->product[i]->in[0] != p->product[0]->in[0])
            return false;
        const struct mo_tensor *first = mo_node_in(g, node, 0);
        if (!mo_shape_equal(&t->shape, &first->shape) || t->shape.d[2] * t->shape.d[3] != p->n[i])
            return false;
        const struct mo_tensor *w = mo_node_in(g, p->product[i], 1);
        p->content[i] = w->content;
        if (!p->from || mo_packed_elided(g, w)) p->from = w;
        p->bytes += mo_tensor_bytes(whole);
        p->k = k;
        p->heads = t->shape.d[2];
    }
    return is_worth_it(g, p);
}

/* The weights side by side, [K, sum of N], and the biases behind each other. */
static int join(struct mo_graph *g, const struct projections *p, struct mo_node *product, moire_error *err) {
    int64_t all = p->n[0] + p->n[1] + p->n[2], at = 0;
    struct mo_tensor *w = mo_derive_constant(
        g, p->from, "projections", &(struct mo_shape){.rank = 2, .d = {p->k, all}}, joined_content(p));
    struct mo_tensor *bias =
        mo_graph_add_const(g, "projections", MOIRE_F32, &(struct mo_shape){.rank = 1, .d = {all}});
    if (!w || !bias) return mo_no_memory(err);
    for (int i = 0; i < 3; at += p->n[i++]) {
        const struct mo_tensor *from = mo_node_in(g, p->product[i], 1), *b = mo_node_in(g, p->product[i], 2);
        for (int64_t r = 0; r < p->k && !mo_packed_elided(g, w); r++)
            memcpy((float *)w->data + r * all + at, (const float *)from->data + r * p->n[i],
                   (size_t)p->n[i] * sizeof(float));
        if (b) memcpy((float *)bias->data + at, b->data, (size_t)p->n[i] * sizeof(float));
        mo_drop_constant(g, from->id);
    }
    product->in[1] = w->id;
    product->in[2] = bias->id;
    return MOIRE_OK;
}

/* A tensor like `id` whose dimension `axis` is three times as long. */
static struct mo_tensor *tripled(struct mo_graph *g, int id, int axis) {
    struct mo_shape shape = g->tensors[id]->shape;
    shape.d[axis] *= 3;
    return mo_graph_add_tensor(g, "projections", MOIRE_F32, &shape);
}

static int set_heads(struct mo_graph *g, const struct projections *p, moire_error *err) {
    struct mo_attr *heads = mo_node_add_attr(g, p->attention, "heads", MO_ATTR_INT);
    if (!heads) return mo_no_memory(err);
    heads->i = p->heads;
    return mo_set_ints(g, p->attention, "first", (int64_t[]){0, p->heads, 2 * p->heads}, 3, err);
}

static int rewrite(struct mo_graph *g, const struct projections *p, moire_error *err) {
    struct mo_node *product = p->product[0], *split = p->split[0];
    const struct mo_tensor *whole = mo_node_in(g, split, 0);
    struct mo_tensor *y = tripled(g, whole->id, whole->shape.rank - 1), *apart = tripled(g, split->out[0], 2);
    struct mo_tensor *shape =
        mo_graph_add_const(g, "shape", MOIRE_I64, &(struct mo_shape){.rank = 1, .d = {4}});
    if (!y || !apart || !shape) return mo_no_memory(err);
    memcpy(shape->data, apart->shape.d, 4 * sizeof *apart->shape.d);
    int rc = join(g, p, product, err);
    if (rc) return rc;
    product->out[0] = split->in[0] = y->id;
    split->in[1] = shape->id;
    split->out[0] = apart->id;
    for (int i = 0; i < 3; i++) {
        p->attention->in[i] = apart->id;
        p->product[i]->dead = p->split[i]->dead = i > 0;
    }
    return set_heads(g, p, err);
}

int mo_pass_projections(struct mo_graph *g, moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = 0; !rc && i < g->n_nodes; i++) {
        struct projections p = {0};
        if (!g->nodes[i]->dead && find(g, g->nodes[i], &p)) rc = rewrite(g, &p, err);
    }
    return rc;
}
