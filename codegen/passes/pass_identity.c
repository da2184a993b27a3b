/* SPDX-License-Identifier: Apache-2.0
 * pass_identity.c - drops nodes whose output equals their first input: Identity, Dropout at inference, Cast
 * to the same type, Reshape/Squeeze/... that keep the shape, Transpose that moves nothing, Pad by zero, Slice
 * of everything, arithmetic with a neutral constant.
 *
 * One walk in topological order with a map from dropped tensors to what stands for them.  A graph output
 * keeps its name: there the producer of the input is made to write the output tensor instead, if it may. */
#include <string.h>
#include "codegen/passes/passes.h"
#include "runtime/ops/op.h"

static bool same(const struct mo_tensor *a, const struct mo_tensor *b) {
    return !a->dynamic && !b->dynamic && a->dtype == b->dtype && a->shape.rank >= 0 &&
           mo_shape_equal(&a->shape, &b->shape);
}

/* Moving axes of extent 1 moves nothing. */
static bool transpose_moves(const struct mo_node *node, const struct mo_shape *in) {
    int64_t perm[MOIRE_MAX_RANK];
    int n = mo_attr_ints(node, "perm", perm, MOIRE_MAX_RANK);
    int64_t last = -1;
    for (int i = 0; i < in->rank; i++) {
        int64_t from = n == in->rank ? perm[i] : in->rank - 1 - i;
        if (from < 0 || from >= in->rank) return true;
        if (in->d[from] == 1) continue;
        if (from < last) return true;
        last = from;
    }
    return false;
}

static bool all_equal(const struct mo_tensor *t, int64_t value) {
    const int64_t *v = t ? t->data : NULL;
    if (!v || t->dtype != MOIRE_I64) return false;
    for (int64_t i = 0, n = mo_shape_count(&t->shape); i < n; i++)
        if (v[i] != value) return false;
    return true;
}

/* A Pad by zero everywhere: the same size is not enough, one side may be cropped as the other grows. */
static bool pads_nothing(const struct mo_graph *g, const struct mo_node *node) {
    int64_t pads[2 * MOIRE_MAX_RANK];
    if (node->n_in > 1) return all_equal(mo_node_in(g, node, 1), 0);
    int n = mo_attr_ints(node, "pads", pads, 2 * MOIRE_MAX_RANK);
    for (int i = 0; i < n && i < 2 * MOIRE_MAX_RANK; i++)
        if (pads[i]) return false;
    return n >= 0;
}

/* x + 0, x - 0, x * 1, x / 1; *input tells which operand stays. */
static bool neutral(const struct mo_graph *g, const struct mo_node *node, int *input) {
    bool sum = mo_is(node, "Add") || mo_is(node, "Sub"), product = mo_is(node, "Mul") || mo_is(node, "Div");
    bool commutes = mo_is(node, "Add") || mo_is(node, "Mul");
    float c;
    if (!sum && !product) return false;
    for (*input = 0; *input <= (commutes ? 1 : 0); ++*input)
        if (mo_scalar(g, node->in[1 - *input], &c) && c == (sum ? 0.0f : 1.0f)) return true;
    *input = 0;
    return false;
}

/* Dropout with training_mode on, or not known to be off, and a ratio that is not known to be 0. */
static bool trains(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *mode = mo_is(node, "Dropout") ? mo_node_in(g, node, 2) : NULL;
    float ratio;
    if (!mode || (mode->data && !*(const uint8_t *)mode->data)) return false;
    return !mo_scalar(g, node->in[1], &ratio) || ratio != 0;
}

/* The type of a tensor, also where only its shape is not known yet; MOIRE_NONE: not that simply. */
static moire_dtype type_of(const struct mo_graph *g, int id) {
    static const char *const keep[] = {"RoiAlign", "Gather",  "Reshape", "Squeeze",   "Unsqueeze", "Slice",
                                       "Concat",   "Flatten", "Expand",  "Transpose", "Identity",  NULL};
    for (const struct mo_tensor *t; id >= 0; id = mo_producer(g, id)->in[0]) {
        t = g->tensors[id];
        const struct mo_node *from = mo_producer(g, id);
        if (!t->dynamic) return t->dtype;
        bool keeps = false;
        for (int i = 0; from && keep[i] && !keeps; i++)
            keeps = mo_is(from, keep[i]);
        if (from && mo_is(from, "Cast")) return (moire_dtype)mo_attr_int(from, "to", MOIRE_NONE);
        if (!keeps) return MOIRE_NONE;
    }
    return MOIRE_NONE;
}

/* A Cast to the type that its input has, whatever shape that will have. */
static bool casts_nothing(const struct mo_graph *g, const struct mo_node *node) {
    const moire_dtype to = (moire_dtype)mo_attr_int(node, "to", MOIRE_NONE);
    return mo_is(node, "Cast") && to != MOIRE_NONE && type_of(g, node->in[0]) == to;
}

/* True when output 0 equals input *input and nothing else is asked of the node. */
static bool changes_nothing(const struct mo_graph *g, const struct mo_node *node, int *input) {
    static const char *const always[] = {"Identity", "Dropout", NULL};
    static const char *const by_shape[] = {"Cast",   "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand",
                                           "Concat", "Sum",     "Max",     "Min",     "Mean",      NULL};
    *input = 0;
    if (*node->domain || node->n_in < 1 || node->n_out != 1 || node->in[0] < 0 || node->out[0] < 0)
        return false;
    for (int i = 0; always[i]; i++)
        if (mo_is(node, always[i])) return !trains(g, node);
    if (casts_nothing(g, node)) return true;
    bool binary = neutral(g, node, input);
    const struct mo_tensor *in = g->tensors[node->in[*input]], *out = g->tensors[node->out[0]];
    if (!same(in, out)) return false;
    if (binary) return true;
    bool many = mo_is(node, "Concat") || mo_is(node, "Sum") || mo_is(node, "Max") || mo_is(node, "Min") ||
                mo_is(node, "Mean");
    for (int i = 0; by_shape[i]; i++)
        if (mo_is(node, by_shape[i])) return !many || node->n_in == 1;
    if (mo_is(node, "Transpose")) return !transpose_moves(node, &in->shape);
    if (mo_is(node, "Pad")) return pads_nothing(g, node);
    /* a slice as large as its input takes everything, unless it walks backwards */
    if (mo_is(node, "Slice"))
        return node->n_in < 5 || node->in[4] < 0 || all_equal(mo_node_in(g, node, 4), 1);
    return false;
}

/* The input's producer writes the graph output itself; false when the input must stay as it is. */
static bool move_output(struct mo_graph *g, struct mo_node *node, int from, int *map) {
    struct mo_tensor *in = g->tensors[from], *out = g->tensors[node->out[0]];
    struct mo_node *producer = mo_producer(g, from);
    if (!producer || in->is_output || in->is_input || in->data) return false;
    for (int k = 0; k < producer->n_out; k++)
        if (producer->out[k] == from) producer->out[k] = out->id;
    out->dtype = in->dtype;
    out->shape = in->shape;
    out->producer = in->producer;
    map[from] = out->id;
    map[out->id] = out->id;
    return true;
}

/* What stands for a tensor by now: what stood for it first may have been moved on to a graph output. */
static int stands_for(const int *map, int tensor) {
    while (tensor >= 0 && map[tensor] != tensor)
        tensor = map[tensor];
    return tensor;
}

int mo_pass_identity(struct mo_graph *g, moire_error *err) {
    int *map = mo_region_array(g->region, (size_t)g->n_tensors, sizeof *map);
    if (!map) return mo_no_memory(err);
    for (int i = 0; i < g->n_tensors; i++)
        map[i] = i;
    for (int i = 0; i < g->n_nodes; i++) {
        struct mo_node *node = g->nodes[i];
        int input;
        for (int k = 0; k < node->n_in; k++)
            node->in[k] = stands_for(map, node->in[k]);
        if (!changes_nothing(g, node, &input)) continue;
        int from = node->in[input], to = node->out[0];
        if (g->tensors[to]->is_output) {
            if (!move_output(g, node, from, map)) continue;
        } else {
            map[to] = from;
        }
        node->dead = true;
    }
    /* nodes before the one whose output moved may have read the old tensor */
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++)
            g->nodes[i]->in[k] = stands_for(map, g->nodes[i]->in[k]);
    return MOIRE_OK;
}
