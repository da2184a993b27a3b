/* SPDX-License-Identifier: Apache-2.0
 * pass_einsum.c - Einsum of two operands becomes MatMul, with what it takes of Transpose and Reshape around.
 *
 * Of its labels some are in both operands and the result (batch), some in one operand and the result (rows of
 * the first, columns of the second), and some in both operands only (summed over): the operands are brought
 * into the order batch, rows, sums and batch, sums, columns, and the result from batch, rows, columns into
 * its own.  Axes that dots stand for are labels, too, where both operands have as many.  The rest stays with
 * the operator: one operand or three, labels twice in a term, dots that broadcast, sums of one operand. */
#include <string.h>
#include "codegen/passes/passes.h"

struct term {
    char label[MOIRE_MAX_RANK + 1];
    int n;
};

/* A kind of labels, in the order in which they are written down. */
struct labels {
    char label[2 * MOIRE_MAX_RANK + 1];
    int n;
};

struct einsum {
    struct mo_graph *g;
    moire_error *err;
    struct term a, b, y;
    struct labels batch, rows, sums, columns;
    int64_t size[128]; /* by label */
};

/* --- the equation -------------------------------------------------------------------------------------- */
static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* How many axes dots stand for in the term at `at`, of an operand of that rank. */
static int dots_in(const char *at, char end, int rank) {
    for (; *at && *at != end; at++)
        rank -= is_letter(*at);
    return rank;
}

/* Dots as so many labels that no letter is. */
static bool read_dots(const char **at, int dots, struct term *t) {
    if (strncmp(*at, "...", 3) != 0 || dots < 0 || t->n + dots > MOIRE_MAX_RANK) return false;
    for (int i = 1; i <= dots; i++)
        t->label[t->n++] = (char)i;
    *at += 2;
    return true;
}

/* Up to `end`; false: something else than different letters, and dots once, is there. */
static bool read_term(const char **at, char end, int dots, struct term *t) {
    bool dotted = false;
    for (t->n = 0; **at && **at != end; (*at)++) {
        if (**at == ' ') continue;
        if (**at == '.') {
            if (dotted || !read_dots(at, dots, t)) return false;
            dotted = true;
            continue;
        }
        if (!is_letter(**at) || t->n == MOIRE_MAX_RANK || memchr(t->label, **at, (size_t)t->n)) return false;
        t->label[t->n++] = **at;
    }
    return **at == end;
}

static bool read_equation(const struct mo_node *node, struct einsum *e) {
    const struct mo_tensor *a = mo_node_in(e->g, node, 0), *b = mo_node_in(e->g, node, 1);
    const char *at = mo_attr_string(node, "equation", "");
    if (!a || !b || !strchr(at, ',')) return false;
    const int dots = dots_in(at, ',', a->shape.rank);
    if (!read_term(&at, ',', dots, &e->a)) return false;
    at++;
    const int others = dots_in(at, '-', b->shape.rank);
    if (!read_term(&at, '-', others, &e->b) || at[1] != '>') return false;
    at += 2;
    return (dots <= 0 || others <= 0 || dots == others) && read_term(&at, 0, dots > 0 ? dots : others, &e->y);
}

static bool has(const struct term *t, char label) {
    return memchr(t->label, label, (size_t)t->n) != NULL;
}

/* Sizes of an operand's labels, which must be those that they have elsewhere. */
static bool take_sizes(struct einsum *e, const struct term *t, const struct mo_tensor *x) {
    if (!mo_is_f32(x) || x->shape.rank != t->n) return false;
    for (int i = 0; i < t->n; i++) {
        int64_t *size = &e->size[(int)t->label[i]];
        if (x->shape.d[i] < 1 || (*size && *size != x->shape.d[i])) return false;
        *size = x->shape.d[i];
    }
    return true;
}

static void add(struct labels *l, char label) {
    l->label[l->n++] = label;
}

/* False: a label that no product of matrices has. */
static bool sort_labels(struct einsum *e) {
    for (int i = 0; i < e->y.n; i++) {
        const char l = e->y.label[i];
        const bool a = has(&e->a, l), b = has(&e->b, l);
        if (!a && !b) return false;
        add(a && b ? &e->batch : a ? &e->rows : &e->columns, l);
    }
    for (int i = 0; i < e->a.n; i++) {
        if (has(&e->y, e->a.label[i])) continue;
        if (!has(&e->b, e->a.label[i])) return false;
        add(&e->sums, e->a.label[i]);
    }
    for (int i = 0; i < e->b.n; i++)
        if (!has(&e->y, e->b.label[i]) && !has(&e->a, e->b.label[i])) return false;
    return e->sums.n > 0 && e->batch.n + 2 <= MOIRE_MAX_RANK &&
           e->batch.n + e->rows.n + e->columns.n <= MOIRE_MAX_RANK;
}

/* --- the nodes ----------------------------------------------------------------------------------------- */
static int64_t product_of(const struct einsum *e, const struct labels *l) {
    int64_t n = 1;
    for (int i = 0; i < l->n; i++)
        n *= e->size[(int)l->label[i]];
    return n;
}

static void append(struct labels *to, const struct labels *from) {
    for (int i = 0; i < from->n; i++)
        add(to, from->label[i]);
}

static struct mo_shape shape_of(const struct einsum *e, const struct labels *l) {
    struct mo_shape s = {.rank = l->n};
    for (int i = 0; i < l->n; i++)
        s.d[i] = e->size[(int)l->label[i]];
    return s;
}

/* The batch, and a matrix. */
static struct mo_shape matrices(const struct einsum *e, int64_t rows, int64_t columns) {
    struct mo_shape s = shape_of(e, &e->batch);
    s.d[s.rank++] = rows;
    s.d[s.rank++] = columns;
    return s;
}

static int new_tensor(const struct einsum *e, const struct mo_shape *shape) {
    const struct mo_tensor *t = mo_graph_add_tensor(e->g, "einsum", MOIRE_F32, shape);
    return t ? t->id : mo_no_memory(e->err);
}

/* perm: where each axis of `to` is in `from`.  True: none moves. */
static bool find_perm(const char *from, const char *to, int n, int64_t *perm) {
    bool same = true;
    for (int i = 0; i < n; i++) {
        perm[i] = (const char *)memchr(from, to[i], (size_t)n) - from;
        same = same && perm[i] == i;
    }
    return same;
}

/* The constant in another order of axes. */
static int permuted(const struct einsum *e, const struct mo_tensor *from, const int64_t *perm,
                    const struct mo_shape *shape) {
    const int rank = from->shape.rank;
    struct mo_tensor *t =
        mo_derive_constant(e->g, from, from->name, shape,
                           mo_content_of("einsum", &from->content, 1, perm, (size_t)rank * sizeof *perm));
    if (!t) return mo_no_memory(e->err);
    if (mo_packed_elided(e->g, t)) return t->id;
    int64_t stride[MOIRE_MAX_RANK] = {0}, at[MOIRE_MAX_RANK] = {0};
    for (int i = 0; i < rank; i++) {
        stride[i] = 1;
        for (int k = (int)perm[i] + 1; k < rank; k++)
            stride[i] *= from->shape.d[k];
    }
    const int64_t n = mo_shape_count(&from->shape);
    for (int64_t i = 0; i < n; i++) {
        int64_t source = 0;
        for (int k = 0; k < rank; k++)
            source += at[k] * stride[k];
        ((float *)t->data)[i] = ((const float *)from->data)[source];
        for (int k = rank - 1; k >= 0 && ++at[k] == from->shape.d[perm[k]]; k--)
            at[k] = 0;
    }
    mo_drop_constant(e->g, from->id);
    return t->id;
}

/* An operand with its labels in this order, in this shape; <0 is an error. */
static int arranged(const struct einsum *e, int id, const struct term *term, const struct labels *order,
                    const struct mo_shape *shape) {
    const struct mo_tensor *from = e->g->tensors[id];
    int64_t perm[MOIRE_MAX_RANK] = {0};
    const struct mo_shape moved = shape_of(e, order);
    const bool same = find_perm(term->label, order->label, term->n, perm);
    if (from->data && !(same && mo_shape_equal(&from->shape, shape))) return permuted(e, from, perm, shape);
    if (!same) {
        const int to = new_tensor(e, &moved), rc = to < 0 ? to : mo_add_transpose(e->g, id, to, perm, e->err);
        if (rc) return rc;
        id = to;
    }
    if (mo_shape_equal(&moved, shape)) return id;
    const int to = new_tensor(e, shape), rc = to < 0 ? to : mo_add_reshape(e->g, id, to, e->err);
    return rc ? rc : to;
}

/* From the product to the result, whose tensor is `y`; *product is the tensor for it. */
static int give(const struct einsum *e, const struct mo_shape *shape, int y, int *product) {
    struct labels order = e->batch;
    int64_t perm[MOIRE_MAX_RANK] = {0};
    append(&order, &e->rows);
    append(&order, &e->columns);
    const struct mo_shape apart = shape_of(e, &order);
    const bool same = find_perm(order.label, e->y.label, e->y.n, perm), whole = mo_shape_equal(&apart, shape);
    int id = y;
    if (!same) {
        if ((id = new_tensor(e, &apart)) < 0) return id;
        const int rc = mo_add_transpose(e->g, id, y, perm, e->err);
        if (rc) return rc;
    }
    if (whole) {
        *product = id;
        return MOIRE_OK;
    }
    *product = new_tensor(e, shape);
    return *product < 0 ? *product : mo_add_reshape(e->g, *product, id, e->err);
}

static int convert(struct mo_graph *g, struct mo_node *node, moire_error *err) {
    struct einsum e = {.g = g, .err = err};
    if (node->n_in != 2 || !read_equation(node, &e) || !take_sizes(&e, &e.a, mo_node_in(g, node, 0)) ||
        !take_sizes(&e, &e.b, mo_node_in(g, node, 1)) || !sort_labels(&e) ||
        !mo_is_f32(g->tensors[node->out[0]]))
        return MOIRE_OK;
    const int64_t m = product_of(&e, &e.rows), k = product_of(&e, &e.sums), n = product_of(&e, &e.columns);
    const struct mo_shape left = matrices(&e, m, k), right = matrices(&e, k, n), whole = matrices(&e, m, n);
    struct labels first = e.batch, second = e.batch;
    append(&first, &e.rows);
    append(&first, &e.sums);
    append(&second, &e.sums);
    append(&second, &e.columns);
    const int a = arranged(&e, node->in[0], &e.a, &first, &left);
    if (a < 0) return a;
    const int b = arranged(&e, node->in[1], &e.b, &second, &right);
    if (b < 0) return b;
    int product;
    const int rc = give(&e, &whole, node->out[0], &product);
    if (rc) return rc;
    struct mo_node *matmul = mo_add_node(g, "MatMul", 2, a, product);
    if (!matmul) return mo_no_memory(err);
    matmul->in[1] = b;
    node->dead = true;
    return MOIRE_OK;
}

int mo_pass_einsum(struct mo_graph *g, moire_error *err) {
    const int n = g->n_nodes; /* new ones are appended behind */
    for (int i = 0; i < n; i++) {
        if (g->nodes[i]->dead || !mo_is(g->nodes[i], "Einsum")) continue;
        const int rc = convert(g, g->nodes[i], err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}
