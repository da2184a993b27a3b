/* SPDX-License-Identifier: Apache-2.0
 * pass_thin.c - a convolution with at most four outputs, as the last ones of networks that make images are.
 *
 * Kernels compute 16 outputs at a time: of three, 13 are thrown away.  So each column of the filter becomes
 * an output of its own of a convolution with a filter of one column, 9x9 to 3 outputs one of 9x1 to 27, and
 * moire.TapSum (runtime/ops/moire/tap_sum.h) adds the columns up where they belong.  The products are the
 * same, the sums in another order; it is done where at most half of the work is left. */
#include "codegen/passes/passes.h"
#include "runtime/ops/op.h"
#include "runtime/ops/moire/tap_sum.h"
#include "variants/conv_geometry.h"

enum { MIN_CHANNELS = 8, GAIN = 2 };

static bool is_thin(const struct mo_graph *g, const struct mo_node *node, struct mo_conv *c) {
    if (node->dead || !mo_conv_read(g, node, c) || c->groups != 1 || c->merge != 1 || c->gate || c->residual)
        return false;
    if (c->o > MO_TAP_SUM_OUTPUTS || c->c < MIN_CHANNELS || c->kw < 2 || c->depthwise) return false;
    const int64_t blocks = mo_tap_sum_channels(c->o, c->kw) / 16;
    return c->kw * c->ow >= GAIN * blocks * c->w;
}

/* [outputs, channels, kh, kw] to a channel for each output and column; those between them are zeros. */
static void copy_columns(const struct mo_conv *c, float *to) {
    const float *from = c->weights->data;
    const int64_t rows = c->c * c->kh;
    for (int64_t i = 0; i < c->o * rows * c->kw; i++) {
        const int64_t k = i % c->kw, row = i / c->kw % rows, o = i / c->kw / rows;
        to[(mo_tap_sum_channel(c->o, k) + o) * rows + row] = from[i];
    }
}

static struct mo_tensor *columns_of(struct mo_graph *g, const struct mo_conv *c) {
    const struct mo_shape shape = {.rank = 4, .d = {mo_tap_sum_channels(c->o, c->kw), c->c, c->kh, 1}};
    const struct mo_tensor *w = c->weights;
    struct mo_tensor *t =
        mo_derive_constant(g, w, w->name, &shape, mo_content_of("columns", &w->content, 1, NULL, 0));
    if (t && !mo_packed_elided(g, t)) copy_columns(c, t->data);
    return t;
}

static int make_column(struct mo_graph *g, struct mo_node *node, const struct mo_conv *c, moire_error *err) {
    int rc = mo_set_ints(g, node, "kernel_shape", (int64_t[]){c->kh, 1}, 2, err);
    if (!rc) rc = mo_set_ints(g, node, "strides", (int64_t[]){c->sh, 1}, 2, err);
    if (!rc) rc = mo_set_ints(g, node, "dilations", (int64_t[]){c->dh, 1}, 2, err);
    if (!rc) rc = mo_set_ints(g, node, "pads", (int64_t[]){c->pt, 0, c->pb, 0}, 4, err);
    return rc ? rc : mo_set_string(g, node, "auto_pad", "NOTSET", err);
}

static int split(struct mo_graph *g, struct mo_node *conv, const struct mo_conv *c, moire_error *err) {
    const struct mo_shape shape = {.rank = 4, .d = {c->n, mo_tap_sum_channels(c->o, c->kw), c->oh, c->w}};
    const int64_t window[MO_TAP_SUM_NUMBERS] = {c->o, c->kw, c->sw, c->dw, c->pl, c->ow};
    const int old = c->weights->id, bias = c->bias ? c->bias->id : -1, out = conv->out[0];
    struct mo_tensor *columns = columns_of(g, c),
                     *parts = mo_graph_add_tensor(g, conv->name, MOIRE_F32, &shape);
    struct mo_node *sum = mo_graph_add_node(g, conv->name, "TapSum", "moire", bias < 0 ? 1 : 2, 1);
    if (!columns || !parts || !sum) return mo_no_memory(err);
    sum->op = mo_op_find("TapSum", "moire");
    sum->opset = 1;
    sum->in[0] = parts->id;
    if (bias >= 0) sum->in[1] = bias;
    sum->out[0] = out;
    sum->fuse.act = conv->fuse.act, sum->fuse.a = conv->fuse.a, sum->fuse.b = conv->fuse.b;
    conv->fuse = (struct mo_fuse){.residual = -1};
    conv->in[1] = columns->id;
    conv->n_in = 2;
    conv->out[0] = parts->id;
    mo_drop_constant(g, old);
    int rc = mo_set_ints(g, sum, "window", window, MO_TAP_SUM_NUMBERS, err);
    return rc ? rc : make_column(g, conv, c, err);
}

int mo_pass_thin(struct mo_graph *g, moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = 0, n = g->n_nodes; !rc && i < n; i++) {
        struct mo_conv c;
        if (is_thin(g, g->nodes[i], &c)) rc = split(g, g->nodes[i], &c, err);
    }
    return rc;
}
