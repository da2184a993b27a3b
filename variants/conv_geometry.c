/* SPDX-License-Identifier: Apache-2.0
 * conv_geometry.c - reads the geometry of a convolution from its node; checks everything that kernels rely
 * on. */
#include "variants/conv_geometry.h"

#include <string.h>

/* A tensor of rank 4 with positive dimensions and a size that fits. */
static bool sized(const struct mo_tensor *t) {
    if (!t || t->dynamic || t->shape.rank != 4) return false;
    for (int i = 0; i < 4; i++)
        if (t->shape.d[i] < 1 || t->shape.d[i] > INT32_MAX) return false;
    return mo_shape_count(&t->shape) > 0;
}

static bool solid(const struct mo_tensor *t) {
    return sized(t) && t->dtype == MOIRE_F32;
}

static bool pair(const struct mo_node *node, const char *name, int64_t *a, int64_t *b) {
    int64_t d[2] = {1, 1};
    int n = mo_attr_ints(node, name, d, 2);
    *a = d[0], *b = d[1];
    return (n == -1 || n == 2) && *a > 0 && *b > 0 && *a < 1 << 20 && *b < 1 << 20;
}

static void same_pads(int64_t in, int64_t out, int64_t span, int64_t stride, bool upper, int64_t *begin,
                      int64_t *end) {
    int64_t total = (out - 1) * stride + span - in;
    if (total < 0) total = 0;
    *begin = upper ? total / 2 : total - total / 2;
    *end = total - *begin;
}

static bool read_pads(const struct mo_node *node, struct mo_conv *c) {
    const char *mode = mo_attr_string(node, "auto_pad", "NOTSET");
    bool upper = !strcmp(mode, "SAME_UPPER");
    if (!strcmp(mode, "VALID")) return true;
    if (upper || !strcmp(mode, "SAME_LOWER")) {
        same_pads(c->h, c->oh, (c->kh - 1) * c->dh + 1, c->sh, upper, &c->pt, &c->pb);
        same_pads(c->w, c->ow, (c->kw - 1) * c->dw + 1, c->sw, upper, &c->pl, &c->pr);
        return true;
    }
    int64_t p[4] = {0, 0, 0, 0};
    int n = mo_attr_ints(node, "pads", p, 4);
    for (int i = 0; i < 4; i++)
        if (p[i] < 0 || p[i] > 1 << 20) return false;
    c->pt = p[0], c->pl = p[1], c->pb = p[2], c->pr = p[3];
    return n == -1 || n == 4;
}

/* The output extent must be what stride, dilation and pads give, or kernels would read past the input. */
static bool extents_agree(const struct mo_conv *c) {
    int64_t h = c->h + c->pt + c->pb - ((c->kh - 1) * c->dh + 1);
    int64_t w = c->w + c->pl + c->pr - ((c->kw - 1) * c->dw + 1);
    return h >= 0 && w >= 0 && h / c->sh + 1 == c->oh && w / c->sw + 1 == c->ow;
}

/* Merges groups until both sides fill blocks of 16; where they never do, or that takes more than 16 at a
 * time, all of them: products with zeros, and still tens of times faster than the reference.  So, too, where
 * a rest of them would be left and may not be. */
enum { MOST_AT_A_TIME = 16, MOST_GROUPS = 64 };
static bool merge_groups(struct mo_conv *c, int64_t groups, bool rest_fits) {
    int64_t cg = c->c / groups, og = c->o / groups, m = 1;
    c->depthwise = groups > 1 && cg == 1 && og == 1;
    if (groups > 1 && !c->depthwise)
        while (m <= MOST_AT_A_TIME && ((m * cg) % 16 || (m * og) % 16))
            m *= 2;
    const bool whole = m <= MOST_AT_A_TIME && (groups % m == 0 || (rest_fits && groups > m));
    if (!whole && groups > MOST_GROUPS) return false;
    if (!whole) m = groups;
    c->merge = m;
    c->groups = (groups + m - 1) / m;
    c->rest = groups % m != 0;
    c->cg = cg * m, c->og = og * m;
    c->icb = (c->cg + 15) / 16, c->ocb = (c->og + 15) / 16;
    return true;
}

/* A factor for every channel and image of x, where kernels take one: at 1x1 filters over all channels. */
static bool gates(const struct mo_tensor *gate, const struct mo_tensor *x, const struct mo_tensor *weights) {
    if (!gate || !solid(gate)) return false;
    const int64_t *g = gate->shape.d, *w = weights->shape.d;
    return g[0] == x->shape.d[0] && g[1] == x->shape.d[1] && g[2] * g[3] == 1 && w[1] == x->shape.d[1] &&
           w[2] * w[3] == 1;
}

/* Everything that does not depend on types: sizes, window, groups. */
static bool read_sizes(const struct mo_node *node, bool rest_fits, struct mo_conv *c) {
    const int64_t *x = c->x->shape.d, *w = c->weights->shape.d, *y = c->y->shape.d;
    c->n = x[0], c->c = x[1], c->h = x[2], c->w = x[3], c->o = y[1], c->oh = y[2], c->ow = y[3];
    c->kh = w[2], c->kw = w[3];
    int64_t groups = mo_attr_int(node, "group", 1);
    if (groups < 1 || c->c % groups || c->o % groups || w[0] != c->o || w[1] != c->c / groups || y[0] != c->n)
        return false;
    if (!pair(node, "strides", &c->sh, &c->sw) || !pair(node, "dilations", &c->dh, &c->dw)) return false;
    return read_pads(node, c) && extents_agree(c) && merge_groups(c, groups, rest_fits);
}

bool mo_conv_read(const struct mo_graph *graph, const struct mo_node *node, struct mo_conv *c) {
    memset(c, 0, sizeof *c);
    if (strcmp(node->op_type, "Conv") || node->domain[0] || node->n_in < 2 || node->n_out != 1) return false;
    c->x = mo_node_in(graph, node, 0), c->weights = mo_node_in(graph, node, 1),
    c->y = graph->tensors[node->out[0]];
    c->residual = mo_node_in(graph, node, node->fuse.residual);
    c->bias = node->fuse.residual == 2 ? NULL : mo_node_in(graph, node, 2);
    if (!solid(c->x) || !solid(c->weights) || !solid(c->y) || !c->weights->data) return false;
    if (c->bias && (c->bias->dtype != MOIRE_F32 || !c->bias->data)) return false;
    if (node->fuse.residual >= 0 &&
        (!solid(c->residual) || !mo_shape_equal(&c->residual->shape, &c->y->shape)))
        return false;
    if (node->fuse.act >= MO_ACT_COUNT) return false;
    c->gate = node->fuse.gated ? mo_node_in(graph, node, MO_GATE_IN) : NULL;
    if (node->fuse.gated && !gates(c->gate, c->x, c->weights)) return false;
    if (!read_sizes(node, !graph->exact, c)) return false;
    /* zeros between groups are no products of the operator: an infinity of another group makes a NaN of them
     */
    if (graph->exact && c->merge > 1 && (c->cg % 16 || c->og % 16)) return false;
    return !c->bias || mo_shape_count(&c->bias->shape) == c->o;
}

/* Sums of int32 must not overflow, whatever x is. */
enum { MOST_PRODUCTS = 65000 };

bool mo_qconv_shapes(const struct mo_node *node, struct mo_conv *c) {
    return sized(c->x) && sized(c->weights) && sized(c->y) && read_sizes(node, false, c) &&
           (double)c->cg * (double)(c->kh * c->kw) <= MOST_PRODUCTS;
}

bool mo_qmatmul_shapes(struct mo_conv *c) {
    const struct mo_shape *x = &c->x->shape, *w = &c->weights->shape, *y = &c->y->shape;
    if (c->x->dynamic || c->y->dynamic || x->rank < 2 || w->rank != 2 || y->rank != x->rank) return false;
    int64_t k = x->d[x->rank - 1], n = y->d[y->rank - 1], count = mo_shape_count(x);
    if (count < 1 || mo_shape_count(y) < 1 || w->d[0] != n || w->d[1] != k) return false;
    c->n = c->h = c->oh = c->kh = c->kw = c->sh = c->sw = c->dh = c->dw = c->groups = c->merge = 1;
    c->w = c->ow = count / k;
    c->c = c->cg = k, c->o = c->og = n;
    c->icb = (k + 15) / 16, c->ocb = (n + 15) / 16;
    return k % 16 == 0 && k <= MOST_PRODUCTS && c->w <= INT32_MAX && n <= INT32_MAX;
}

bool mo_qconv_geometry(const struct mo_graph *graph, const struct mo_node *node, struct mo_conv *c,
                       struct mo_qconv *q) {
    bool rows = !strcmp(node->op_type, "QMatMul");
    memset(c, 0, sizeof *c);
    if ((!rows && strcmp(node->op_type, "QConv")) || strcmp(node->domain, "moire") ||
        node->n_in <= MO_QCONV_FACTOR || node->n_out != 1 || !mo_qconv_read(node, q))
        return false;
    c->x = mo_node_in(graph, node, MO_QCONV_X), c->weights = mo_node_in(graph, node, MO_QCONV_WEIGHTS),
    c->y = graph->tensors[node->out[0]];
    c->bias = mo_node_in(graph, node, MO_QCONV_BIAS);
    c->rows = rows;
    c->x_zero = mo_node_in(graph, node, MO_QCONV_X_ZERO);
    if (c->x_zero && (!rows || c->x_zero->dtype != MOIRE_U8 || mo_shape_count(&c->x_zero->shape) != 1))
        return false;
    const struct mo_tensor *factor = mo_node_in(graph, node, MO_QCONV_FACTOR);
    if (!c->x || !c->weights || !(rows ? mo_qmatmul_shapes(c) : mo_qconv_shapes(node, c))) return false;
    if (c->x->dtype != MOIRE_U8 || c->weights->dtype != MOIRE_I8 || c->y->dtype != q->to ||
        !c->weights->data || !factor || !factor->data)
        return false;
    return factor->dtype == MOIRE_F32 && mo_shape_count(&factor->shape) == c->o && node->fuse.act >= 0 &&
           node->fuse.act < MO_ACT_COUNT && node->fuse.residual < 0 && !node->fuse.gated &&
           (!c->bias ||
            (c->bias->data && c->bias->dtype == MOIRE_F32 && mo_shape_count(&c->bias->shape) == c->o));
}

void mo_same_pads(int64_t in, int64_t out, int64_t k, int64_t s, int64_t d, bool upper, int64_t *before,
                  int64_t *after) {
    int64_t total = (out - 1) * s + (k - 1) * d + 1 - in;
    if (total < 0) total = 0;
    *before = upper ? total / 2 : total - total / 2;
    *after = total - *before;
}
