/* SPDX-License-Identifier: Apache-2.0
 * image_windows.c - convolutions and pools as layers on images; see images.h.
 *
 * Over one dimension, the window gets a height of 1.  Over three, its depth becomes a moire.Frames, which
 * makes images of neighbouring frames: before a convolution these lie behind one another as channels, and so
 * do the filters; after a pool they are joined.  Where the window is one frame deep there is nothing of the
 * kind.  Filters of many frames, and images too large to gather, are a chain instead: a convolution for each
 * frame of the window, which adds to the result of the one before it. */
#include <string.h>
#include "codegen/passes/images.h"
#include "runtime/ops/moire/frames.h"
#include "runtime/ops/op.h"

static const int64_t MOST = 1 << 28; /* numbers in gathered images: 1 GiB */
static const int64_t DEEPEST = 8;    /* frames that are gathered: memory is multiplied by no more */

static bool is_global(const struct mo_node *node) {
    return mo_is(node, "GlobalAveragePool") || mo_is(node, "GlobalMaxPool");
}

static bool is_conv(const struct mo_node *node) {
    return mo_is(node, "Conv") || mo_is(node, "ConvTranspose");
}

/* --- the lists of a window ----------------------------------------------------------------------------- */

static bool fits(const struct mo_node *node, const char *name, int want) {
    int64_t v[7];
    const int n = mo_attr_ints(node, name, v, 7);
    return n == -1 || n == want;
}

/* Pads are explicit, and every list has a number for each dimension. */
static bool plain_window(const struct mo_node *node, int dims) {
    return !strcmp(mo_attr_string(node, "auto_pad", "NOTSET"), "NOTSET") &&
           fits(node, "kernel_shape", dims) && fits(node, "strides", dims) && fits(node, "dilations", dims) &&
           fits(node, "output_padding", dims) && fits(node, "pads", 2 * dims) &&
           !mo_attr_find(node, "output_shape");
}

/* Number i of a list. */
static int64_t number(const struct mo_node *node, const char *name, int i, int64_t fallback) {
    int64_t v[6];
    return mo_attr_ints(node, name, v, 6) > i ? v[i] : fallback;
}

/* A list with `dims` numbers for each of `sides` gets two: the last ones, or `height` and the only one. */
static int set_list(struct mo_images *w, struct mo_node *node, const char *name, int dims, int sides,
                    int64_t height) {
    int64_t v[6], two[4];
    if (mo_attr_ints(node, name, v, 6) < 0) return MOIRE_OK;
    for (int i = 0; i < sides; i++) {
        two[2 * i] = dims == 1 ? height : v[i * dims + 1];
        two[2 * i + 1] = v[i * dims + dims - 1];
    }
    return mo_set_ints(w->g, node, name, two, 2 * sides, w->err);
}

static int set_window(struct mo_images *w, struct mo_node *node, int dims) {
    int rc = set_list(w, node, "kernel_shape", dims, 1, 1);
    if (!rc) rc = set_list(w, node, "strides", dims, 1, 1);
    if (!rc) rc = set_list(w, node, "dilations", dims, 1, 1);
    if (!rc) rc = set_list(w, node, "output_padding", dims, 1, 0);
    return rc ? rc : set_list(w, node, "pads", dims, 2, 0);
}

/* --- depth --------------------------------------------------------------------------------------------- */

/* The window of a node over [N,C,D,H,W] along D. */
static struct mo_clip_window depth_of(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_shape *x = &g->tensors[node->in[0]]->shape, *y = &g->tensors[node->out[0]]->shape;
    struct mo_clip_window f = {.frames = x->d[2], .out = y->d[2], .channels = x->d[1]};
    f.kernel = is_conv(node)     ? g->tensors[node->in[1]]->shape.d[2]
               : is_global(node) ? x->d[2]
                                 : number(node, "kernel_shape", 0, 1);
    f.stride = number(node, "strides", 0, 1);
    f.dilation = number(node, "dilations", 0, 1);
    f.pad = number(node, "pads", 0, 0);
    f.mode = is_conv(node) ? MO_FRAMES_GATHER : strstr(node->op_type, "Max") ? MO_FRAMES_MAX : MO_FRAMES_MEAN;
    const int64_t padded = (f.channels + 15) / 16 * 16;
    if (is_conv(node) && f.kernel > 1 && padded * 4 <= f.channels * 5) f.channels = padded;
    return f;
}

/* Every image is made of the frame that it is. */
static bool is_flat(const struct mo_clip_window *f) {
    return f->kernel == 1 && f->stride == 1 && f->pad == 0 && f->out == f->frames;
}

static bool is_small(const struct mo_clip_window *f, const struct mo_shape *images) {
    const struct mo_shape gathered = mo_frames_shape(f, images);
    return mo_shape_count(&gathered) <= MOST;
}

/* The frames of a convolution's window are gathered, not taken one by one. */
static bool at_once(const struct mo_clip_window *f, const struct mo_shape *images) {
    return f->kernel <= DEEPEST && is_small(f, images);
}

/* Frame k of the window alone. */
static struct mo_clip_window tap_of(const struct mo_clip_window *f, int64_t k, int64_t channels) {
    struct mo_clip_window tap = *f;
    tap.kernel = tap.dilation = 1;
    tap.pad = f->pad - k * f->dilation;
    tap.channels = channels;
    return tap;
}

/* Window and images are of a size that the operator takes.  What is added last would have to be kept apart
 * from what the convolutions of a chain add. */
static bool takes_depth(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_shape *x = &g->tensors[node->in[0]]->shape;
    const struct mo_clip_window f = depth_of(g, node);
    const struct mo_shape images = mo_shape_of_images(x);
    if (is_flat(&f)) return true;
    if (!mo_frames_fit(&f, &images)) return false;
    if (!is_conv(node) || at_once(&f, &images)) return is_small(&f, &images);
    const struct mo_clip_window tap = tap_of(&f, 0, x->d[1]);
    return is_small(&tap, &images) && !node->fuse.residual_last;
}

/* Images `from` become images `to` (-1: a new tensor); its id, <0: an error. */
static int add_frames(struct mo_images *w, const struct mo_clip_window *f, int from, int to) {
    const int64_t window[MO_FRAMES_NUMBERS] = {f->mode,     f->frames, f->kernel, f->stride,
                                               f->dilation, f->pad,    f->out,    f->channels};
    const struct mo_tensor *x = w->g->tensors[from];
    const struct mo_shape shape = mo_frames_shape(f, &x->shape);
    struct mo_tensor *y = to >= 0 ? w->g->tensors[to] : mo_graph_add_tensor(w->g, x->name, MOIRE_F32, &shape);
    struct mo_node *node = y ? mo_graph_add_node(w->g, x->name, "Frames", "moire", 1, 1) : NULL;
    if (!node) {
        mo_no_memory(w->err);
        return MOIRE_ENOMEM;
    }
    node->op = mo_op_find("Frames", "moire");
    node->opset = 1;
    node->in[0] = from;
    node->out[0] = y->id;
    const int rc = mo_set_ints(w->g, node, "window", window, MO_FRAMES_NUMBERS, w->err);
    return rc ? rc : y->id;
}

/* --- convolutions -------------------------------------------------------------------------------------- */

static bool takes_conv(const struct mo_graph *g, const struct mo_node *node) {
    const int rank = g->tensors[node->in[0]]->shape.rank, residual = node->fuse.residual;
    const struct mo_tensor *w = mo_node_in(g, node, 1);
    if (!mo_is(node, "Conv") && !(mo_is(node, "ConvTranspose") && rank == 3)) return false;
    if (!mo_is_f32(w) || !w->data || w->shape.rank != rank || node->fuse.gated ||
        !plain_window(node, rank - 2))
        return false;
    if (residual >= 0 && !mo_has_images(g, node->in[residual])) return false;
    return rank == 3 || ((w->shape.d[2] == 1 || mo_attr_int(node, "group", 1) == 1) && takes_depth(g, node));
}

/* Frames [first, first + n) of filters [O,C,KD,KH,KW], as [O,n * channels,KH,KW]; over one dimension there is
 * one frame. */
static void order_filters(const struct mo_tensor *from, int64_t first, int64_t n, int64_t channels,
                          float *to) {
    const struct mo_shape *s = &from->shape;
    const int64_t depth = s->rank == 5 ? s->d[2] : 1, area = s->rank == 5 ? s->d[3] * s->d[4] : s->d[2];
    const float *w = from->data;
    for (int64_t o = 0; o < s->d[0]; o++)
        for (int64_t c = 0; c < s->d[1]; c++)
            for (int64_t k = 0; k < n; k++)
                memcpy(to + ((o * n + k) * channels + c) * area,
                       w + ((o * s->d[1] + c) * depth + first + k) * area, (size_t)area * sizeof *w);
}

/* A constant of these filters; <0: out of memory. */
static int add_filters(struct mo_images *w, const struct mo_tensor *from, int64_t first, int64_t n,
                       int64_t channels) {
    const int64_t how[] = {first, n, channels};
    struct mo_shape shape = from->shape;
    if (shape.rank == 3)
        shape = mo_shape_of_images(&shape);
    else
        shape = (struct mo_shape){.rank = 4, .d = {shape.d[0], n * channels, shape.d[3], shape.d[4]}};
    struct mo_tensor *to =
        mo_derive_constant(w->g, from, from->name, &shape,
                           mo_content_of("filters of images", &from->content, 1, how, sizeof how));
    if (!to) {
        mo_no_memory(w->err);
        return MOIRE_ENOMEM;
    }
    if (!mo_packed_elided(w->g, from)) order_filters(from, first, n, channels, to->data);
    return to->id;
}

/* Images and filters of the frames of a window, of which the first is frame `first` of the filters. */
static int set_operands(struct mo_images *w, struct mo_node *node, const struct mo_clip_window *f, int images,
                        const struct mo_tensor *filters, int64_t first) {
    const int64_t channels = f->kernel > 1 ? f->channels : filters->shape.d[1];
    const int id = add_filters(w, filters, first, f->kernel, channels);
    if (id < 0) return id;
    const int from = is_flat(f) ? images : add_frames(w, f, images, -1);
    if (from < 0) return from;
    node->in[0] = from;
    node->in[1] = id;
    return MOIRE_OK;
}

/* A convolution like `node`, which only adds; NULL: out of memory. */
static struct mo_node *add_conv(struct mo_images *w, const struct mo_node *node) {
    static const char *const lists[] = {"kernel_shape", "strides", "dilations", "pads"};
    const struct mo_tensor *y = w->g->tensors[node->out[0]];
    const struct mo_tensor *sum = mo_graph_add_tensor(w->g, y->name, MOIRE_F32, &y->shape);
    struct mo_node *conv = sum ? mo_graph_add_node(w->g, node->name, "Conv", "", 4, 1) : NULL;
    if (!conv) return NULL;
    conv->op = node->op;
    conv->opset = node->opset;
    conv->out[0] = sum->id;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        int64_t v[4];
        const int n = mo_attr_ints(node, lists[i], v, 4);
        if (n > 0 && mo_set_ints(w->g, conv, lists[i], v, n, w->err)) return NULL;
    }
    return conv;
}

/* A convolution for each frame: the first one adds bias and residual, `node` is the last one and activates.
 */
static int add_chain(struct mo_images *w, struct mo_node *node, const struct mo_clip_window *f, int images,
                     const struct mo_tensor *filters) {
    const int residual = node->fuse.residual >= 0 ? node->in[node->fuse.residual] : -1;
    const int bias = node->n_in > 2 && node->fuse.residual != 2 ? node->in[2] : -1;
    int *in = mo_region_array(w->g->region, 5, sizeof *in), sum = residual;
    if (!in) return mo_no_memory(w->err);
    in[4] = -1;
    node->in = in;
    w->chain[node->id] = w->g->n_nodes;
    for (int64_t k = 0; k < f->kernel; k++) {
        const struct mo_clip_window tap = tap_of(f, k, filters->shape.d[1]);
        struct mo_node *conv = k + 1 < f->kernel ? add_conv(w, node) : node;
        if (!conv) return mo_no_memory(w->err);
        conv->in[2] = k ? -1 : bias;
        conv->in[3] = sum;
        conv->fuse.residual = sum >= 0 ? 3 : -1;
        conv->n_in = sum >= 0 ? 4 : 3;
        const int rc = set_operands(w, conv, &tap, images, filters, k);
        if (rc) return rc;
        sum = conv->out[0];
    }
    w->chain_end[node->id] = w->g->n_nodes;
    return MOIRE_OK;
}

static int lift_conv(struct mo_images *w, struct mo_node *node) {
    const struct mo_tensor *filters = w->g->tensors[node->in[1]];
    const int rank = filters->shape.rank;
    struct mo_clip_window f = {.kernel = 1, .stride = 1, .frames = 1, .out = 1};
    if (rank == 5) f = depth_of(w->g, node);
    const int images = mo_new_images(w, node);
    if (images < 0) return images;
    int rc = mo_read_images(w, node, 0);
    if (!rc && node->fuse.residual >= 0) rc = mo_read_images(w, node, node->fuse.residual);
    if (!rc) rc = set_window(w, node, rank - 2);
    if (rc) return rc;
    node->out[0] = images;
    if (is_flat(&f) || at_once(&f, &w->g->tensors[node->in[0]]->shape))
        rc = set_operands(w, node, &f, node->in[0], filters, 0);
    else
        rc = add_chain(w, node, &f, node->in[0], filters);
    if (!rc) mo_drop_constant(w->g, filters->id);
    return rc;
}

/* --- pools --------------------------------------------------------------------------------------------- */

/* A mean over frames counts those that exist. */
static bool counts_frames(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_clip_window f = depth_of(g, node);
    return f.mode != MO_FRAMES_MEAN || !mo_attr_int(node, "count_include_pad", 0) ||
           (f.pad == 0 && (f.out - 1) * f.stride + (f.kernel - 1) * f.dilation < f.frames);
}

/* Over one dimension, a pool behind a layer on images; others have kernels as they are. */
static bool takes_pool(const struct mo_images *w, const struct mo_node *node) {
    const int rank = w->g->tensors[node->in[0]]->shape.rank;
    if ((rank == 3 && w->image[node->in[0]] < 0) || node->fuse.residual >= 0) return false;
    if (rank == 5 && node->fuse.act != MO_ACT_NONE) return false;
    if (!is_global(node)) {
        if (!mo_is(node, "MaxPool") && !mo_is(node, "AveragePool")) return false;
        if (!plain_window(node, rank - 2) || (node->n_out > 1 && node->out[1] >= 0) ||
            mo_attr_int(node, "storage_order", 0))
            return false;
    }
    return rank == 3 || (takes_depth(w->g, node) && counts_frames(w->g, node));
}

/* Nothing is pooled within an image. */
static bool pools_frames_only(const struct mo_node *node, const struct mo_shape *x,
                              const struct mo_shape *y) {
    for (int i = 1; i < 3 && !is_global(node); i++)
        if (number(node, "kernel_shape", i, 1) != 1 || number(node, "pads", i, 0)) return false;
    return x->d[3] == y->d[3] && x->d[4] == y->d[4];
}

static int lift_pool(struct mo_images *w, struct mo_node *node) {
    const struct mo_tensor *x = w->g->tensors[node->in[0]], *y = w->g->tensors[node->out[0]];
    const int dims = x->shape.rank - 2, images = mo_new_images(w, node);
    if (images < 0) return images;
    struct mo_clip_window f = {.kernel = 1, .stride = 1, .frames = 1, .out = 1};
    if (dims == 3) f = depth_of(w->g, node);
    const bool only = dims == 3 && !is_flat(&f) && pools_frames_only(node, &x->shape, &y->shape);
    const struct mo_shape pooled = {
        .rank = 4, .d = {x->shape.d[0] * f.frames, x->shape.d[1], y->shape.d[dims], y->shape.d[dims + 1]}};
    int rc = mo_read_images(w, node, 0);
    if (!rc) rc = set_window(w, node, dims);
    if (rc) return rc;
    node->out[0] = images;
    if (is_flat(&f)) return MOIRE_OK;
    const struct mo_tensor *between = only ? NULL : mo_graph_add_tensor(w->g, y->name, MOIRE_F32, &pooled);
    if (!only && !between) return mo_no_memory(w->err);
    rc = add_frames(w, &f, only ? node->in[0] : between->id, images);
    if (rc < 0) return rc;
    if (only)
        node->dead = true;
    else
        node->out[0] = between->id;
    return MOIRE_OK;
}

bool mo_takes_window(const struct mo_images *w, const struct mo_node *node) {
    return mo_has_images(w->g, node->in[0]) && (takes_conv(w->g, node) || takes_pool(w, node));
}

int mo_lift_window(struct mo_images *w, struct mo_node *node) {
    return is_conv(node) ? lift_conv(w, node) : lift_pool(w, node);
}
