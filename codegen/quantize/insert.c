/* SPDX-License-Identifier: Apache-2.0
 * insert.c - see insert.h. */
#include "codegen/quantize/insert.h"

#include <math.h>
#include <string.h>

enum { FULL = 127, NARROW = 63 };

struct work {
    struct mo_edit *e;
    const struct mo_insertion *in;
    struct mo_edit_nodes nodes;
    const char **converted;         /* by value: the dequantized tensor of a point, or NULL */
    const struct mo_qlayer **layer; /* by node */
};

void mo_qrange_steps(float lo, float hi, float *scale, uint8_t *zero) {
    *scale = (hi - lo) / 255;
    if (!(*scale > 1e-30f) || !isfinite(*scale)) *scale = 1;
    *zero = (uint8_t)fminf(fmaxf(nearbyintf(-lo / *scale), 0), 255);
}

static int id_of(const struct mo_edit *e, const char *name) {
    const struct mo_edit_value *v = mo_edit_value(e, name);
    return v ? (int)(v - e->values) : -1;
}

/* A node of conversion; its result is `to`. */
static const char *convert(struct work *w, const char *op, const char *x, const char *scale, const char *zero,
                           int axis, const char *to) {
    const char *in[] = {x, scale, zero}, *out = mo_edit_fresh(w->e, to);
    Onnx__NodeProto *node = mo_edit_node(w->e, op, out, 3, in, out);
    if (node && axis >= 0) mo_edit_set_int(w->e, node, "axis", axis);
    mo_edit_push(w->e, &w->nodes, node);
    return out;
}

/* --- activations --- */

static void put_point(struct work *w, const char *name) {
    struct mo_edit *e = w->e;
    int id = id_of(e, name);
    if (id < 0 || id >= w->in->points->n || !w->in->points->is[id]) return;
    const struct mo_qrange *range = &w->in->range[w->in->points->tie[id]];
    void *s, *z;
    const char *scale = mo_edit_constant(e, mo_edit_text(e, "%s_scale", name), MOIRE_F32, NULL, 0, &s);
    const char *zero = mo_edit_constant(e, mo_edit_text(e, "%s_zero_point", name), MOIRE_U8, NULL, 0, &z);
    if (e->rc) return;
    mo_qrange_steps(range->lo, range->hi, s, z);
    const char *q =
        convert(w, "QuantizeLinear", name, scale, zero, -1, mo_edit_text(e, "%s_quantized", name));
    w->converted[id] =
        convert(w, "DequantizeLinear", q, scale, zero, -1, mo_edit_text(e, "%s_dequantized", name));
}

/* --- layers --- */

/* The weights of a layer as a matrix: outputs, and how they lie. */
struct filter {
    const Onnx__TensorProto *t;
    const float *w;
    int64_t outputs, each; /* weights of an output */
    int64_t step, stride;  /* element k of output o is w[o * stride + k * step] */
};

static bool filter_of(struct mo_edit *e, const Onnx__NodeProto *node, const struct mo_qlayer *layer,
                      struct filter *f) {
    int64_t n = 0;
    *f = (struct filter){.w = mo_edit_floats(e, node->input[1], &n)};
    if (!f->w) return false;
    f->t = mo_edit_value(e, node->input[1])->constant;
    f->outputs = f->t->dims[layer->axis];
    f->each = n / f->outputs;
    f->stride = layer->axis ? 1 : f->each;
    f->step = layer->axis ? f->outputs : 1;
    return true;
}

/* One scale an output; all the same unless per_channel.  A bias that would leave int32 makes it larger. */
static void scales_of(const struct work *w, const struct filter *f, const float *bias, float x_scale,
                      float *scale) {
    const float levels = w->in->narrow ? NARROW : FULL;
    float all = 0;
    for (int64_t o = 0; o < f->outputs; o++) {
        float most = 0;
        for (int64_t k = 0; k < f->each; k++)
            most = fmaxf(most, fabsf(f->w[o * f->stride + k * f->step]));
        if (bias) most = fmaxf(most, fabsf(bias[o]) / x_scale / 0x1p30f * levels);
        scale[o] = most;
        all = fmaxf(all, most);
    }
    for (int64_t o = 0; o < f->outputs; o++) {
        scale[o] = (w->in->per_channel ? scale[o] : all) / levels;
        if (!(scale[o] > 1e-30f)) scale[o] = 1;
    }
}

/* Writes the 8-bit weights; drift[o], where it is wanted, becomes what the mean of output o moves by. */
static void round_weights(const struct work *w, const struct filter *f, const Onnx__NodeProto *node,
                          const struct mo_qrange *x, const float *scale, int8_t *q, double *drift) {
    const float levels = w->in->narrow ? NARROW : FULL;
    const int64_t taps = f->t->n_dims > 2 ? f->each / f->t->dims[1] : 1, reads = f->each / taps;
    const int64_t groups = f->t->n_dims > 2 ? mo_edit_int(node, "group", 1) : 1;
    for (int64_t o = 0; o < f->outputs; o++) {
        const int64_t first = groups > 0 ? o / (f->outputs / groups) * reads : 0;
        drift[o] = 0;
        for (int64_t k = 0; k < f->each; k++) {
            const int64_t at = o * f->stride + k * f->step, c = first + k / taps;
            q[at] = (int8_t)fminf(fmaxf(nearbyintf(f->w[at] / scale[o]), -levels), levels);
            if (c < x->channels)
                drift[o] += ((double)q[at] * (double)scale[o] - (double)f->w[at]) * x->mean[c];
        }
    }
}

static const char *put_bias(struct work *w, const char *stem, const struct filter *f, const float *bias,
                            const double *drift, float x_scale, const float *scale) {
    struct mo_edit *e = w->e;
    const int64_t n = f->outputs;
    void *q, *s, *z;
    const char *values =
        mo_edit_constant(e, mo_edit_text(e, "%s_bias_quantized", stem), MOIRE_I32, &n, 1, &q);
    const char *scales = mo_edit_constant(e, mo_edit_text(e, "%s_bias_scale", stem), MOIRE_F32, &n, 1, &s);
    const char *zeros =
        mo_edit_constant(e, mo_edit_text(e, "%s_bias_zero_point", stem), MOIRE_I32, &n, 1, &z);
    for (int64_t o = 0; !e->rc && o < n; o++) {
        const float step = x_scale * scale[o];
        double b = ((bias ? (double)bias[o] : 0) - (w->in->correct_bias ? drift[o] : 0)) / (double)step;
        ((float *)s)[o] = step;
        ((int32_t *)q)[o] = (int32_t)fmin(fmax(nearbyint(b), -0x7fffffff), 0x7fffffff);
    }
    return convert(w, "DequantizeLinear", values, scales, zeros, 0,
                   mo_edit_text(e, "%s_bias_dequantized", stem));
}

static void put_layer(struct work *w, Onnx__NodeProto *node, const struct mo_qlayer *layer) {
    struct mo_edit *e = w->e;
    struct filter f;
    int64_t n = 0;
    int x = id_of(e, node->input[0]);
    if (e->rc || x < 0 || !filter_of(e, node, layer, &f)) return;
    const struct mo_qrange *range = &w->in->range[w->in->points->tie[x]];
    float x_scale;
    uint8_t x_zero;
    mo_qrange_steps(range->lo, range->hi, &x_scale, &x_zero);
    const bool takes_bias = !mo_edit_is(node, "MatMul");
    const float *bias = takes_bias ? mo_edit_floats(e, mo_edit_input(node, 2), &n) : NULL;
    float *scale = mo_edit_memory(e, (size_t)f.outputs * sizeof *scale);
    double *drift = mo_edit_memory(e, (size_t)f.outputs * sizeof *drift);
    const char *stem = node->output[0];
    const int64_t one = w->in->per_channel ? f.outputs : 1;
    void *q, *s, *z;
    const char *values = mo_edit_constant(e, mo_edit_text(e, "%s_weights_quantized", stem), MOIRE_I8,
                                          f.t->dims, (int)f.t->n_dims, &q);
    const char *scales = mo_edit_constant(e, mo_edit_text(e, "%s_weights_scale", stem), MOIRE_F32, &one,
                                          w->in->per_channel, &s);
    const char *zeros = mo_edit_constant(e, mo_edit_text(e, "%s_weights_zero_point", stem), MOIRE_I8, &one,
                                         w->in->per_channel, &z);
    if (e->rc) return;
    scales_of(w, &f, bias, x_scale, scale);
    round_weights(w, &f, node, &w->in->range[x], scale, q, drift);
    memcpy(s, scale, (size_t)one * sizeof *scale);
    bool corrects = w->in->correct_bias && w->in->range[x].channels;
    mo_edit_set_input(e, node, 1,
                      convert(w, "DequantizeLinear", values, scales, zeros,
                              w->in->per_channel ? layer->axis : -1,
                              mo_edit_text(e, "%s_weights_dequantized", stem)));
    if (takes_bias && (bias || corrects))
        mo_edit_set_input(e, node, 2, put_bias(w, stem, &f, bias, drift, x_scale, scale));
}

/* --- the whole --- */

static Onnx__NodeProto *copy_node(struct mo_edit *e, const Onnx__NodeProto *from) {
    Onnx__NodeProto *node = mo_edit_memory(e, sizeof *node);
    char **in = mo_edit_memory(e, (from->n_input + 1) * sizeof *in);
    if (e->rc) return NULL;
    *node = *from;
    if (from->n_input) memcpy(in, from->input, from->n_input * sizeof *in);
    node->input = in;
    return node;
}

/* Inputs that are points are read converted. */
static void read_converted(struct work *w, Onnx__NodeProto *node, size_t at) {
    bool bytes = mo_points_reads_bytes(w->e, w->in->points, w->in->layers, (int)at);
    for (size_t k = 0; k < node->n_input; k++) {
        int id = id_of(w->e, node->input[k]);
        if (id < 0 || id >= w->in->points->n || !w->converted[id]) continue;
        if (bytes || w->in->points->within[id]) node->input[k] = (char *)w->converted[id];
    }
}

static void drop_unread(struct mo_edit *e) {
    Onnx__GraphProto *g = e->graph;
    size_t kept = 0;
    for (size_t i = 0; i < g->n_initializer && !e->rc; i++) {
        const struct mo_edit_value *v = mo_edit_value(e, g->initializer[i]->name);
        if (v && (v->n_uses || v->outside)) g->initializer[kept++] = g->initializer[i];
    }
    g->n_initializer = kept;
}

int mo_insert(struct mo_edit *e, const struct mo_insertion *in) {
    struct work w = {.e = e,
                     .in = in,
                     .converted = mo_edit_memory(e, ((size_t)e->n_values + 1) * sizeof *w.converted),
                     .layer = mo_edit_memory(e, (e->graph->n_node + 1) * sizeof *w.layer)};
    for (int i = 0; !e->rc && i < in->layers->n; i++)
        if (in->layers->at[i].on) w.layer[in->layers->at[i].node] = &in->layers->at[i];
    for (size_t i = 0; !e->rc && i < e->graph->n_input; i++)
        put_point(&w, e->graph->input[i]->name);
    for (size_t i = 0; !e->rc && i < e->graph->n_node; i++) {
        Onnx__NodeProto *node = copy_node(e, e->graph->node[i]);
        if (!node) break;
        if (w.layer[i]) put_layer(&w, node, w.layer[i]);
        read_converted(&w, node, i);
        mo_edit_push(e, &w.nodes, node);
        for (size_t k = 0; k < node->n_output; k++)
            put_point(&w, node->output[k]);
    }
    mo_edit_replace(e, &w.nodes);
    drop_unread(e);
    return e->rc;
}

int mo_edit_branch(const struct mo_edit *from, struct mo_edit *out) {
    *out = *from;
    out->store = mo_graph_create(from->env);
    if (!out->store) return out->rc = mo_fail(out->err, MOIRE_ENOMEM, "out of memory");
    out->region = out->store->region;
    out->initializer_room = 0;
    out->model = mo_edit_memory(out, sizeof *out->model);
    out->graph = mo_edit_memory(out, sizeof *out->graph);
    if (out->rc) return out->rc;
    *out->model = *from->model;
    *out->graph = *from->graph;
    out->model->graph = out->graph;
    /* lists that shrink in place */
    Onnx__TensorProto **list = mo_edit_memory(out, (out->graph->n_initializer + 1) * sizeof *list);
    if (list && out->graph->n_initializer)
        memcpy(list, out->graph->initializer, out->graph->n_initializer * sizeof *list);
    out->graph->initializer = list;
    mo_edit_index(out);
    return out->rc;
}
