/* SPDX-License-Identifier: Apache-2.0
 * pass_affine.c - y = s x + t with one s and t a channel, behind a conv or matrix product, goes into its
 * weights and bias: BatchNormalization, and Mul, Div, Add, Sub with a per-channel constant.  A Reshape or
 * Transpose between the two that leaves channels together stays where it is.
 *
 * A BatchNormalization that follows nothing of the kind becomes a depthwise 1x1 conv (rank 4), which then
 * takes epilogues and layouts like any other. */
#include <math.h>
#include <string.h>
#include "codegen/passes/affine.h"
#include "runtime/ops/op.h"

static bool batch_norm(const struct mo_graph *g, const struct mo_node *node, struct mo_affine *f) {
    const float *p[4];
    if (node->n_out != 1 || mo_attr_int(node, "training_mode", 0) || mo_attr_int(node, "spatial", 1) != 1)
        return false;
    for (int k = 0; k < 4; k++) {
        const struct mo_tensor *v = mo_node_in(g, node, 1 + k);
        if (!mo_is_f32(v) || !v->data || mo_shape_count(&v->shape) != f->n) return false;
        p[k] = v->data;
    }
    double eps = mo_attr_float(node, "epsilon", 1e-5f);
    for (int64_t c = 0; c < f->n; c++) {
        double s = p[0][c] / sqrt(p[3][c] + eps);
        f->s[c] = (float)s;
        f->t[c] = (float)(p[1][c] - s * p[2][c]);
    }
    return true;
}

/* x op c and c op x, for the four operations. */
static bool binary(const struct mo_graph *g, const struct mo_node *node, int x, const struct mo_shape *shape,
                   int axis, struct mo_affine *f) {
    bool first = node->in[0] == x;
    const struct mo_tensor *c = mo_node_in(g, node, first ? 1 : 0);
    if (node->n_in != 2 || node->in[0] == node->in[1] || !c || !mo_per_channel(c, shape, axis, f->t))
        return false;
    for (int64_t i = 0; i < f->n; i++) {
        float v = f->t[i];
        if (mo_is(node, "Mul")) {
            f->s[i] = v;
            f->t[i] = 0;
        } else if (mo_is(node, "Div") && first && v != 0) {
            f->s[i] = 1 / v;
            f->t[i] = 0;
        } else if (mo_is(node, "Add")) {
            f->s[i] = 1;
        } else if (mo_is(node, "Sub")) {
            f->s[i] = first ? 1 : -1;
            f->t[i] = first ? -v : v;
        } else {
            return false;
        }
    }
    return true;
}

bool mo_affine_of(const struct mo_graph *g, const struct mo_node *node, int x, int axis,
                  struct mo_affine *f) {
    const struct mo_tensor *in = g->tensors[x], *out = g->tensors[node->out[0]];
    if (!mo_is_f32(out) || !mo_shape_equal(&in->shape, &out->shape) || node->fuse.act != MO_ACT_NONE)
        return false;
    if (mo_is(node, "BatchNormalization")) return axis == 1 && node->in[0] == x && batch_norm(g, node, f);
    return binary(g, node, x, &in->shape, axis, f);
}

/* --- folding into weights ------------------------------------------------------------------------------ */

/* Channel of output that weight element i belongs to. */
static int64_t weight_channel(const struct mo_node *node, const struct mo_tensor *w, int64_t i) {
    int64_t inner = 1;
    for (int d = 2; d < w->shape.rank; d++)
        inner *= w->shape.d[d];
    if (mo_is(node, "Conv")) return i / (inner * w->shape.d[1]);
    if (mo_is(node, "ConvTranspose")) {
        int64_t group = mo_attr_int(node, "group", 1), per_group = w->shape.d[0] / group;
        return i / (inner * w->shape.d[1]) / per_group * w->shape.d[1] + i / inner % w->shape.d[1];
    }
    return i % w->shape.d[w->shape.rank - 1];
}

static bool foldable(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *w = mo_node_in(g, node, 1), *b = mo_node_in(g, node, 2);
    if (!mo_is(node, "Conv") && !mo_is(node, "ConvTranspose") && !mo_is_moire(node, "MatMul")) return false;
    if (node->fuse.act != MO_ACT_NONE || node->fuse.residual >= 0 || !mo_is_f32(w) || !w->data) return false;
    if (mo_is_moire(node, "MatMul") && w->shape.rank != 2) return false;
    return !b || (mo_is_f32(b) && b->data && b->shape.rank == 1);
}

/* Of the weights when their channels, which operator and group say, are scaled. */
static uint64_t scaled_content(const struct mo_node *node, const struct mo_tensor *w,
                               const struct mo_affine *f) {
    const int64_t group = mo_attr_int(node, "group", 1);
    const uint64_t as = mo_content_of(node->op_type, &w->content, 1, &group, sizeof group);
    return mo_content_of("scaled", &as, 1, f->s, (size_t)f->n * sizeof *f->s);
}

int mo_scale_weights(struct mo_graph *g, struct mo_node *node, const struct mo_affine *f, moire_error *err) {
    const struct mo_tensor *w = mo_node_in(g, node, 1);
    bool plain = true;
    for (int64_t c = 0; c < f->n; c++)
        plain = plain && f->s[c] == 1;
    if (plain) return MOIRE_OK;
    const uint64_t content = scaled_content(node, w, f);
    /* in place when nobody else reads them */
    bool own = w->n_uses == 1 && !w->is_output && !w->shared;
    struct mo_tensor *scaled =
        own ? g->tensors[w->id] : mo_derive_constant(g, w, w->name, &w->shape, content);
    if (!scaled) return mo_no_memory(err);
    scaled->content = content;
    const float *from = w->data;
    float *to = scaled->data;
    for (int64_t i = 0, n = mo_packed_elided(g, w) ? 0 : mo_shape_count(&w->shape); i < n; i++)
        to[i] = from[i] * f->s[weight_channel(node, w, i)];
    if (!own) mo_drop_constant(g, w->id);
    node->in[1] = scaled->id;
    return MOIRE_OK;
}

int mo_shift_bias(struct mo_graph *g, struct mo_node *node, const struct mo_affine *f, moire_error *err) {
    const struct mo_tensor *old = mo_node_in(g, node, 2);
    const char *name = old ? old->name : g->tensors[node->out[0]]->name;
    struct mo_tensor *bias =
        mo_graph_add_const(g, name, MOIRE_F32, &(struct mo_shape){.rank = 1, .d = {f->n}});
    int *in = mo_region_array(g->region, 4, sizeof *in);
    if (!bias || !in) return mo_no_memory(err);
    for (int64_t c = 0; c < f->n; c++)
        ((float *)bias->data)[c] = (old ? ((const float *)old->data)[c] * f->s[c] : 0) + f->t[c];
    in[0] = node->in[0];
    in[1] = node->in[1];
    in[2] = bias->id;
    in[3] = -1;
    node->in = in;
    node->n_in = 3;
    return MOIRE_OK;
}

/* Where channels are behind a Reshape or Transpose when they are at `axis` before; -1: nowhere. */
static int axis_behind(const struct mo_graph *g, const struct mo_node *node, const struct mo_tensor *x,
                       int axis) {
    const struct mo_tensor *y = g->tensors[node->out[0]];
    int64_t perm[MOIRE_MAX_RANK];
    const int last = y->shape.rank - 1;
    if (node->in[0] != x->id || !mo_is_f32(y) || last < 1) return -1;
    if (mo_is(node, "Reshape"))
        return axis == x->shape.rank - 1 && y->shape.d[last] == x->shape.d[axis] ? last : -1;
    if (!mo_is(node, "Transpose") || mo_attr_ints(node, "perm", perm, MOIRE_MAX_RANK) != x->shape.rank)
        return -1;
    for (int i = 0; i <= last; i++)
        if (perm[i] == axis) return i;
    return -1;
}

/* A Reshape that only undoes the one before it goes, with that one; false: there is none. */
static bool undo(struct mo_graph *g, const struct mo_node *product, struct mo_node *via) {
    const struct mo_tensor *y = g->tensors[product->out[0]];
    struct mo_node *back = mo_is(via, "Reshape") ? mo_graph_sole_consumer(g, via->out[0]) : NULL;
    if (!back || !mo_is(back, "Reshape") || back->in[0] != via->out[0]) return false;
    const struct mo_tensor *z = g->tensors[back->out[0]];
    if (z->is_output || !mo_shape_equal(&y->shape, &z->shape)) return false;
    mo_read_instead(g, z->id, y->id);
    back->dead = via->dead = true;
    return true;
}

/* Takes every affine consumer of node i in turn. */
static int absorb(struct mo_graph *g, struct mo_node *node, struct mo_region *tmp, moire_error *err) {
    while (foldable(g, node)) {
        const struct mo_tensor *y = g->tensors[node->out[0]];
        int axis = mo_is_moire(node, "MatMul") ? y->shape.rank - 1 : 1;
        struct mo_node *next = mo_graph_sole_consumer(g, y->id), *via = NULL, *last = node;
        if (!mo_is_f32(y) || y->shape.rank < 2 || !next || next->n_out < 1) return MOIRE_OK;
        const int64_t channels = y->shape.d[axis];
        const int behind = axis_behind(g, next, y, axis);
        if (behind >= 0) {
            via = last = next;
            y = g->tensors[via->out[0]], axis = behind;
            next = mo_graph_sole_consumer(g, y->id);
            if (!next || next->n_out < 1) return MOIRE_OK;
        }
        struct mo_affine f = {.n = channels};
        f.s = mo_region_array(tmp, (size_t)f.n, sizeof(float));
        f.t = mo_region_array(tmp, (size_t)f.n, sizeof(float));
        if (!f.s || !f.t) return mo_no_memory(err);
        if (!mo_affine_of(g, next, y->id, axis, &f)) return MOIRE_OK;
        int rc = mo_scale_weights(g, node, &f, err);
        if (!rc) rc = mo_shift_bias(g, node, &f, err);
        if (rc) return rc;
        last->out[0] = next->out[0];
        g->tensors[last->out[0]]->producer = last->id;
        next->dead = true;
        if (via && undo(g, node, via)) return MOIRE_OK; /* what reads the product now is not indexed yet */
    }
    return MOIRE_OK;
}

/* --- batch-norm alone ---------------------------------------------------------------------------------- */

static int to_depthwise(struct mo_graph *g, struct mo_node *node, struct mo_region *tmp, moire_error *err) {
    const struct mo_tensor *x = mo_node_in(g, node, 0);
    if (!mo_is(node, "BatchNormalization") || !mo_is_f32(x) || x->shape.rank != 4) return MOIRE_OK;
    struct mo_affine f = {.n = x->shape.d[1]};
    f.s = mo_region_array(tmp, (size_t)f.n, sizeof(float));
    f.t = mo_region_array(tmp, (size_t)f.n, sizeof(float));
    if (!f.s || !f.t) return mo_no_memory(err);
    if (!f.n || !mo_affine_of(g, node, x->id, 1, &f)) return MOIRE_OK;
    struct mo_tensor *w =
        mo_graph_add_const(g, "scale", MOIRE_F32, &(struct mo_shape){.rank = 4, .d = {f.n, 1, 1, 1}});
    if (!w) return mo_no_memory(err);
    memcpy(w->data, f.s, (size_t)f.n * sizeof(float));
    for (int64_t c = 0; c < f.n; c++)
        f.s[c] = 0; /* there is no bias yet */
    node->op_type = "Conv";
    node->op = mo_op_find("Conv", "");
    node->n_attrs = 0;
    node->n_in = 2;
    node->in[1] = w->id;
    struct mo_attr *group = mo_node_add_attr(g, node, "group", MO_ATTR_INT);
    if (!group || !node->op) return mo_no_memory(err);
    group->i = f.n;
    int rc = mo_set_ints(g, node, "kernel_shape", (const int64_t[]){1, 1}, 2, err);
    return rc ? rc : mo_shift_bias(g, node, &f, err);
}

static int each_node(struct mo_graph *g, struct mo_region *tmp, moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = 0; !rc && i < g->n_nodes; i++)
        if (!g->nodes[i]->dead) rc = absorb(g, g->nodes[i], tmp, err);
    for (int i = 0; !rc && i < g->n_nodes; i++)
        if (!g->nodes[i]->dead) rc = to_depthwise(g, g->nodes[i], tmp, err);
    for (int i = 0; !rc && i < g->n_nodes; i++)
        if (!g->nodes[i]->dead) rc = absorb(g, g->nodes[i], tmp, err);
    return rc;
}

int mo_pass_affine(struct mo_graph *g, moire_error *err) {
    struct mo_region *tmp = mo_region_create(g->env);
    if (!tmp) return mo_no_memory(err);
    int rc = each_node(g, tmp, err);
    mo_region_destroy(tmp);
    return rc;
}
