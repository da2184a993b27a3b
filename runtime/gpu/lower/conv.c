/* SPDX-License-Identifier: Apache-2.0
 * conv.c - convolutions: 1x1 as a product, depthwise ones, unequal padding and volumes as generated kernels,
 * all others for a library with a generated kernel beside it; transposed ones; pooling.
 *
 * Feature maps lie channels last.  One spatial dimension is taken as a map of height 1.  Weights that are
 * computed, and pools of integers or with places, are left to cores. */
#include <string.h>
#include "runtime/gpu/lower/lower.h"

/* Shapes of the node as operators see them. */
static bool window_of(struct mo_lower *l, const int64_t *kernel, struct mo_window *w) {
    struct mo_op_ctx ctx = {.node = l->node, .env = l->env, .err = l->err};
    const struct mo_shape *x = &l->graph->tensors[l->node->in[0]]->shape;
    if (!l->rc) l->rc = mo_window_init(&ctx, x, kernel, w);
    return !l->rc;
}

/* [N,C,W] as [N,C,1,W]. */
static struct mo_gpu_view as_map(struct mo_gpu_view v) {
    if (v.rank != 3) return v;
    v.d[3] = v.d[2];
    v.stride[3] = v.stride[2];
    v.d[2] = 1;
    v.stride[2] = 0;
    v.rank = 4;
    return v;
}

static struct mo_gpu_view map_in(struct mo_lower *l) {
    struct mo_gpu_view v = mo_lower_in(l, 0);
    return l->rc ? v : as_map(v);
}

/* A new output, channels last whatever the rank. */
static struct mo_gpu_view map_out(struct mo_lower *l) {
    int rank = l->graph->tensors[l->node->out[0]]->shape.rank;
    struct mo_gpu_view y = mo_lower_out(l, 0, mo_gpu_channels_last(rank));
    return l->rc ? y : as_map(y);
}

/* x times its gate. */
static struct mo_gpu_view gated(struct mo_lower *l, struct mo_gpu_view x) {
    struct mo_elementwise p;
    struct mo_gpu_view gate = mo_lower_in(l, MO_GATE_IN), out;
    if (l->rc) return x;
    out = mo_lower_new(l, l->storage, x.rank, x.d, mo_gpu_channels_last(x.rank));
    mo_elementwise_init(l, &p, out);
    mo_elementwise_in(&p, &x);
    mo_elementwise_in(&p, &gate);
    mo_gpu_printf(&p.body, "    r = x0 * x1;\n");
    mo_elementwise_done(l, &p);
    return out;
}

struct conv {
    struct mo_window w;
    struct mo_gpu_view x, y, residual;
    bool has_residual;
    int64_t groups, k, c;
    int weights; /* tensor */
    struct mo_gpu_place bias;
};

static bool same_pads(const struct mo_window *w) {
    return w->pad[1] == w->pad_end[1] && w->pad[2] == w->pad_end[2];
}

static bool is_product(const struct conv *c) {
    const struct mo_window *w = &c->w;
    bool one = w->k[1] * w->k[2] == 1 && w->stride[1] * w->stride[2] == 1 && c->groups == 1;
    return one && w->pad[1] + w->pad[2] + w->pad_end[1] + w->pad_end[2] == 0;
}

static void conv_product(struct mo_lower *l, const struct conv *c) {
    struct mo_gpu_view x = mo_lower_ordered(l, c->x, mo_gpu_channels_last(4), l->storage);
    struct mo_gpu_view w = mo_lower_weight(l, c->weights, MO_FORM_AS_IS, l->storage);
    if (l->rc) return;
    struct mo_gpu_gemm g = {.count = 1,
                            .m = x.d[0] * x.d[2] * x.d[3],
                            .n = c->k,
                            .k = c->c,
                            .alpha = 1,
                            .transposed = true,
                            .bias = c->bias};
    static const int nhwc[] = {0, 2, 3, 1};
    g.a = (struct mo_gpu_matrix){.at = x.place, .row = g.k};
    g.b = (struct mo_gpu_matrix){.at = w.place, .row = g.k};
    g.d = (struct mo_gpu_matrix){.at = c->y.place, .row = c->y.stride[3]};
    struct mo_gpu_view y = mo_gpu_permute(&c->y, nhwc), r = c->residual;
    if (c->has_residual) r = mo_gpu_permute(&c->residual, nhwc);
    mo_lower_gemm(l, &g, &y, c->has_residual ? &r : NULL, &l->node->fuse);
}

/* A kernel of kernel_window.c for the whole layer. */
static void conv_kernel(struct mo_lower *l, const struct conv *c, enum mo_window_kind kind) {
    static const enum mo_gpu_form_kind form[] = {[MO_WINDOW_DEPTHWISE] = MO_FORM_RSK,
                                                 [MO_WINDOW_CONV] = MO_FORM_KRSC,
                                                 [MO_WINDOW_TRANSPOSED] = MO_FORM_AS_IS};
    struct mo_window_job job = {.kind = kind,
                                .window = c->w,
                                .groups = c->groups,
                                .x = c->x,
                                .y = c->y,
                                .bias = c->bias,
                                .residual = c->has_residual ? &c->residual : NULL,
                                .fuse = l->node->fuse};
    struct mo_gpu_launch launch;
    if (job.x.dtype != l->storage)
        job.x = mo_lower_ordered(l, job.x, mo_gpu_channels_last(job.x.rank), l->storage);
    job.weights = mo_lower_weight(l, c->weights, form[kind], l->storage).place;
    mo_lower_window(l, &job, &launch);
    mo_lower_launch(l, launch.kernel, launch.args, launch.n_args,
                    2 * mo_gpu_count(&c->y) * c->w.k[0] * c->w.k[1] * c->w.k[2] * (c->c / c->groups));
}

static void fill_conv(struct mo_gpu_conv *out, const struct conv *c) {
    const struct mo_window *w = &c->w;
    *out = (struct mo_gpu_conv){.n = c->x.d[0],
                                .h = c->x.d[2],
                                .w = c->x.d[3],
                                .c = c->c,
                                .k = c->k,
                                .r = w->k[1],
                                .s = w->k[2],
                                .oh = c->y.d[2],
                                .ow = c->y.d[3],
                                .groups = c->groups,
                                .bias = c->bias};
    for (int i = 0; i < 2; i++) {
        out->pad[i] = w->pad[1 + i];
        out->stride[i] = w->stride[1 + i];
        out->dilation[i] = w->dilation[1 + i];
    }
}

/* For the library: act and residual as far as it has them, then a kernel for the rest. */
static void conv_library(struct mo_lower *l, const struct conv *c) {
    const struct mo_fuse *fuse = &l->node->fuse;
    struct conv own = *c;
    own.x = mo_lower_ordered(l, c->x, mo_gpu_channels_last(4), l->storage);
    if (c->has_residual) own.residual = mo_lower_ordered(l, c->residual, mo_gpu_channels_last(4), l->storage);
    struct mo_gpu_view w = mo_lower_weight(l, c->weights, MO_FORM_KRSC, l->storage);
    if (l->rc) return;
    bool whole = (fuse->act == MO_ACT_NONE || fuse->act == MO_ACT_RELU) &&
                 (!c->has_residual || !fuse->residual_last || fuse->act == MO_ACT_NONE);
    struct mo_window_job job = {.kind = MO_WINDOW_CONV,
                                .window = c->w,
                                .groups = c->groups,
                                .x = own.x,
                                .y = own.y,
                                .weights = w.place,
                                .bias = c->bias,
                                .residual = whole && c->has_residual ? &own.residual : NULL,
                                .fuse = {.act = whole ? fuse->act : MO_ACT_NONE, .residual = -1}};
    struct mo_gpu_launch launch;
    mo_lower_window(l, &job, &launch);
    struct mo_gpu_op *op = mo_lower_op(l, MO_GPU_CONV);
    if (!op) return;
    fill_conv(&op->conv, &own);
    op->conv.act = whole && fuse->act == MO_ACT_RELU ? MO_GPU_RELU : MO_GPU_LINEAR;
    op->conv.x = own.x.place;
    op->conv.weights = w.place;
    op->conv.y = own.y.place;
    if (job.residual) op->conv.residual = own.residual.place;
    op->launch = launch;
    op->flops = 2 * mo_gpu_count(&c->y) * c->w.k[1] * c->w.k[2] * (c->c / c->groups);
    for (int i = 0; i < launch.n_args; i++)
        mo_lower_use(l, launch.args[i]);
    if (!whole) mo_lower_epilogue(l, &own.y, c->has_residual ? &own.residual : NULL, fuse, &own.y);
}

static bool is_depthwise(const struct conv *c) {
    return c->groups == c->c && c->k == c->c && c->c > 1;
}

/* Operands and shapes; `w` is there and `k` channels come out of it. */
static bool open_conv(struct mo_lower *l, int64_t k, struct conv *c) {
    const struct mo_node *node = l->node;
    c->groups = mo_attr_int(node, "group", 1);
    c->weights = node->in[1];
    c->x = map_in(l);
    if (l->rc) return false;
    c->k = k;
    c->c = c->x.d[1];
    if (node->fuse.gated) c->x = gated(l, c->x);
    c->bias = mo_lower_bias(l);
    c->y = map_out(l);
    c->has_residual = node->fuse.residual >= 0;
    if (c->has_residual && !l->rc) c->residual = as_map(l->views[node->in[node->fuse.residual]]);
    return !l->rc;
}

/* The weights, which must be constant; NULL: an error. */
static const struct mo_shape *filters_of(struct mo_lower *l) {
    const struct mo_tensor *w = l->graph->tensors[l->node->in[1]];
    if (w->data) return &w->shape;
    mo_lower_fail(l, MOIRE_EUNSUPPORTED, "weights that are computed are not supported on a GPU");
    return NULL;
}

void mo_lower_conv(struct mo_lower *l) {
    const struct mo_shape *w = filters_of(l);
    struct conv c;
    if (!w || !window_of(l, w->d + 2, &c.w) || !open_conv(l, w->d[0], &c)) return;
    if (is_depthwise(&c))
        conv_kernel(l, &c, MO_WINDOW_DEPTHWISE);
    else if (w->rank < 5 && is_product(&c))
        conv_product(l, &c);
    else if (w->rank < 5 && same_pads(&c.w))
        conv_library(l, &c);
    else
        conv_kernel(l, &c, MO_WINDOW_CONV);
}

void mo_lower_conv_transpose(struct mo_lower *l) {
    struct mo_value in[3];
    const struct mo_op_ctx ctx = mo_lower_ctx(l, in, 3);
    const struct mo_shape *w = filters_of(l);
    struct conv c;
    if (w) l->rc = mo_transpose_window(&ctx, &c.w);
    if (l->rc || !open_conv(l, w->d[1] * mo_attr_int(l->node, "group", 1), &c)) return;
    conv_kernel(l, &c, MO_WINDOW_TRANSPOSED);
}

/* --- pooling -------------------------------------------------------------------------------------------- */

void mo_lower_pool(struct mo_lower *l) {
    const struct mo_node *node = l->node;
    struct mo_window_job job = {
        .groups = 1, .fuse = {.residual = -1}, .count_pads = mo_attr_int(node, "count_include_pad", 0) != 0};
    struct mo_gpu_launch launch;
    const struct mo_tensor *x = l->graph->tensors[node->in[0]];
    const bool indices = node->n_out > 1 && node->out[1] >= 0;
    if (indices || !mo_gpu_is_float(x->dtype))
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "pools of integers or with places are not supported on a GPU");
    if (!window_of(l, NULL, &job.window)) return;
    job.kind = strcmp(node->op_type, "MaxPool") ? MO_WINDOW_AVERAGE : MO_WINDOW_MAX;
    job.x = map_in(l);
    job.y = map_out(l);
    if (l->rc) return;
    mo_lower_window(l, &job, &launch);
    mo_lower_launch(l, launch.kernel, launch.args, launch.n_args,
                    mo_gpu_count(&job.y) * job.window.k[0] * job.window.k[1] * job.window.k[2]);
}

void mo_lower_global_pool(struct mo_lower *l) {
    bool axes[MO_VIEW_RANK] = {false};
    struct mo_gpu_view x = mo_lower_in(l, 0), y;
    if (l->rc) return;
    for (int i = 2; i < x.rank; i++)
        axes[i] = true;
    y = mo_lower_out(l, 0, NULL);
    mo_lower_reduce(l, strcmp(l->node->op_type, "GlobalMaxPool") ? "ReduceMean" : "ReduceMax", &x, axes, &y);
}
