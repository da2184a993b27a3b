/* SPDX-License-Identifier: Apache-2.0
 * einsum.c - Einsum: sums of products over named axes, with ellipsis, repeated letters and implicit output.
 *
 * Every letter (and every axis of the ellipsis) becomes one label with a size and, for each operand, a
 * stride; the output walks its labels and sums over the others.  Plain, and right for any equation. */
#include <string.h>
#include "runtime/ops/einsum.h"

enum { DOTS = 1 };

struct term {
    int n;
    char label[MOIRE_MAX_RANK + 1]; /* letters; values 1..8 stand for axes of the ellipsis */
};

/* Where an element of every operand is: what a step along a label adds. */
struct walk {
    int64_t stride[MO_EINSUM_OPERANDS][MO_EINSUM_LABELS];
};

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* One term up to ',' or '-'; *dots is the rank of its ellipsis, -1 = none.  False: not an equation. */
static bool parse_term(const char **at, struct term *t, int rank, int dots_rank) {
    const char *s = *at;
    int letters = 0;
    for (const char *p = s; *p && *p != ',' && *p != '-'; p++)
        letters += is_letter(*p);
    *t = (struct term){0};
    for (; *s && *s != ',' && *s != '-'; s++) {
        if (*s == ' ') continue;
        int dots = rank >= 0 ? rank - letters : dots_rank;
        if (!strncmp(s, "...", 3)) {
            if (dots < 0 || t->n + dots > MOIRE_MAX_RANK) return false;
            /* aligned at the end, as in broadcasting */
            for (int i = 0; i < dots; i++)
                t->label[t->n++] = (char)(MOIRE_MAX_RANK - dots + i + DOTS);
            s += 2;
        } else if (is_letter(*s) && t->n < MOIRE_MAX_RANK) {
            t->label[t->n++] = *s;
        } else {
            return false;
        }
    }
    *at = s;
    return rank < 0 || t->n == rank;
}

static int find_label(struct mo_einsum *e, char label) {
    for (int i = 0; i < e->n_labels; i++)
        if (e->label[i] == label) return i;
    if (e->n_labels == MO_EINSUM_LABELS) return -1;
    e->label[e->n_labels] = label;
    e->size[e->n_labels] = 1;
    return e->n_labels++;
}

static int count_label(const struct term *terms, int n, char label) {
    int count = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < terms[i].n; k++)
            count += terms[i].label[k] == label;
    return count;
}

/* Output when the equation has no arrow: the ellipsis, then letters that occur once, in alphabetical order.
 */
static void implicit_output(const struct term *terms, int n, struct term *out) {
    *out = (struct term){0};
    for (int c = DOTS; c < 128 && out->n < MOIRE_MAX_RANK; c++) {
        int count = count_label(terms, n, (char)c);
        if (count && (!is_letter((char)c) || count == 1)) out->label[out->n++] = (char)c;
    }
}

static int parse(const struct mo_op_ctx *ctx, struct term *terms, struct term *out) {
    const char *s = mo_attr_string(ctx->node, "equation", "");
    int dots = 0;
    for (int i = 0; i < ctx->n_in; i++) {
        if (!parse_term(&s, &terms[i], ctx->in[i].shape.rank, 0) || (*s == ',') != (i < ctx->n_in - 1))
            return mo_op_fail(ctx, MOIRE_EINVAL, "the equation does not fit input %d", i);
        if (*s == ',') s++;
        int own = 0;
        for (int k = 0; k < terms[i].n; k++)
            own += !is_letter(terms[i].label[k]);
        if (own > dots) dots = own;
    }
    if (!*s) {
        implicit_output(terms, ctx->n_in, out);
        return MOIRE_OK;
    }
    if (strncmp(s, "->", 2)) return mo_op_fail(ctx, MOIRE_EINVAL, "the equation is malformed");
    s += 2;
    if (!parse_term(&s, out, -1, dots) || *s)
        return mo_op_fail(ctx, MOIRE_EINVAL, "the equation's output is malformed");
    return MOIRE_OK;
}

int mo_einsum_describe(const struct mo_op_ctx *ctx, struct mo_einsum *e) {
    struct term terms[MO_EINSUM_OPERANDS] = {{0}}, out = {0};
    *e = (struct mo_einsum){0};
    if (ctx->n_in > MO_EINSUM_OPERANDS)
        return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "more than %d operands", MO_EINSUM_OPERANDS);
    int rc = parse(ctx, terms, &out);
    if (rc) return rc;
    for (int i = 0; i < out.n; i++) {
        if (find_label(e, out.label[i]) != i || !count_label(terms, ctx->n_in, out.label[i]))
            return mo_op_fail(ctx, MOIRE_EINVAL, "the equation's output names a label twice or a new one");
    }
    e->n_out = e->n_labels;
    for (int i = 0; i < ctx->n_in; i++) {
        for (int k = 0; k < terms[i].n; k++) {
            int at = find_label(e, terms[i].label[k]);
            int64_t d = ctx->in[i].shape.d[k];
            if (at < 0) return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "more than %d labels", MO_EINSUM_LABELS);
            if (d != 1 && e->size[at] != 1 && d != e->size[at])
                return mo_op_fail(ctx, MOIRE_ESHAPE, "input %d does not fit the others", i);
            if (d != 1) e->size[at] = d;
            e->axis[i][k] = at;
        }
    }
    return MOIRE_OK;
}

static int infer_einsum(const struct mo_op_ctx *ctx) {
    struct mo_einsum e;
    int rc = mo_check_same(ctx, MO_NUMBERS);
    if (rc || (rc = mo_einsum_describe(ctx, &e))) return rc;
    struct mo_shape y = {.rank = e.n_out};
    for (int i = 0; i < e.n_out; i++)
        y.d[i] = e.size[i];
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

static void walk_of(const struct mo_op_ctx *ctx, const struct mo_einsum *e, struct walk *w) {
    *w = (struct walk){0};
    for (int i = 0; i < ctx->n_in; i++) {
        const struct mo_shape *s = &ctx->in[i].shape;
        int64_t stride[MOIRE_MAX_RANK];
        mo_strides(s, stride);
        for (int k = 0; k < s->rank; k++) /* a repeated letter walks the diagonal */
            if (s->d[k] != 1) w->stride[i][e->axis[i][k]] += stride[k];
    }
}

/* Steps labels [from, to) of an odometer; false when it has gone round. */
static bool step(const struct mo_einsum *e, const struct walk *w, int from, int to, int n_in, int64_t *index,
                 int64_t *off) {
    for (int i = to - 1; i >= from; i--) {
        for (int k = 0; k < n_in; k++)
            off[k] += w->stride[k][i];
        if (++index[i] < e->size[i]) return true;
        for (int k = 0; k < n_in; k++)
            off[k] -= w->stride[k][i] * e->size[i];
        index[i] = 0;
    }
    return false;
}

static int run_einsum(const struct mo_op_ctx *ctx) {
    struct mo_einsum e;
    int rc = mo_einsum_describe(ctx, &e);
    if (rc || !mo_wanted(ctx, 0)) return rc;
    struct walk w;
    walk_of(ctx, &e, &w);
    int64_t index[MO_EINSUM_LABELS] = {0}, off[MO_EINSUM_OPERANDS] = {0}, n = mo_count(&ctx->out[0]);
    bool ints = mo_type_in(ctx->in[0].dtype, MO_INTS), empty = false;
    for (int i = e.n_out; i < e.n_labels; i++)
        empty = empty || !e.size[i];
    for (int64_t at = 0; at < n; at++) {
        double sum = 0;
        uint64_t whole = 0;
        do {
            double product = 1;
            uint64_t u = 1;
            for (int k = 0; k < ctx->n_in && !empty; k++)
                if (ints)
                    u *= (uint64_t)mo_load_int(&ctx->in[k], off[k]);
                else
                    product *= mo_load(&ctx->in[k], off[k]);
            sum += empty ? 0 : product;
            whole += empty ? 0 : u;
        } while (!empty && step(&e, &w, e.n_out, e.n_labels, ctx->n_in, index, off));
        if (ints)
            mo_store_int(&ctx->out[0], at, (int64_t)whole);
        else
            mo_store(&ctx->out[0], at, sum);
        step(&e, &w, 0, e.n_out, ctx->n_in, index, off);
    }
    return MOIRE_OK;
}

const struct mo_op mo_ops_einsum[] = {
    {"Einsum", "", 12, 1, -1, 1, 1, infer_einsum, run_einsum, 0},
    {0},
};
