/* SPDX-License-Identifier: Apache-2.0
 * points.c - see points.h. */
#include "codegen/quantize/points.h"

#include <string.h>

/* --- kinds of nodes --- */

enum kind { OTHER, MOVES, JOINS, MIXES, POINTWISE };

static const struct {
    const char *op;
    enum kind kind;
} kinds[] = {
    {"Abs", POINTWISE},
    {"Add", MIXES},
    {"AveragePool", MIXES},
    {"Celu", POINTWISE},
    {"Clip", POINTWISE},
    {"Concat", JOINS},
    {"DepthToSpace", MOVES},
    {"Div", POINTWISE},
    {"Dropout", MOVES},
    {"Elu", POINTWISE},
    {"Erf", POINTWISE},
    {"Exp", POINTWISE},
    {"Expand", MOVES},
    {"Flatten", MOVES},
    {"Gather", MOVES},
    {"Gelu", POINTWISE},
    {"GlobalAveragePool", MIXES},
    {"HardSigmoid", POINTWISE},
    {"HardSwish", POINTWISE},
    {"Identity", MOVES},
    {"LeakyRelu", POINTWISE},
    {"Max", POINTWISE},
    {"MaxPool", MOVES},
    {"Min", POINTWISE},
    {"Mish", POINTWISE},
    {"Mul", MIXES},
    {"Neg", POINTWISE},
    {"Pow", POINTWISE},
    {"ReduceMean", MIXES},
    {"Relu", POINTWISE},
    {"Reshape", MOVES},
    {"Selu", POINTWISE},
    {"Sigmoid", POINTWISE},
    {"Slice", MOVES},
    {"Softplus", POINTWISE},
    {"Softsign", POINTWISE},
    {"SpaceToDepth", MOVES},
    {"Split", MOVES},
    {"Sqrt", POINTWISE},
    {"Squeeze", MOVES},
    {"Sub", POINTWISE},
    {"Sum", MIXES},
    {"Tanh", POINTWISE},
    {"Tile", MOVES},
    {"Transpose", MOVES},
    {"Unsqueeze", MOVES},
};

static enum kind kind_of(const Onnx__NodeProto *node) {
    if (mo_edit_is(node, "Resize")) {
        const Onnx__AttributeProto *mode = mo_edit_attribute(node, "mode");
        return mode && strncmp((const char *)mode->s.data, "nearest", mode->s.len) ? MIXES : MOVES;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (mo_edit_is(node, kinds[i].op)) return kinds[i].kind;
    return OTHER;
}

/* --- layers --- */

static bool is_layer(struct mo_edit *e, const Onnx__NodeProto *node, struct mo_qlayer *out) {
    int64_t n;
    const struct mo_edit_value *w = mo_edit_value(e, mo_edit_input(node, 1));
    if (!w || !mo_edit_floats(e, w->name, &n) || !n || node->n_output != 1) return false;
    const size_t rank = w->constant->n_dims;
    *out = (struct mo_qlayer){.rows = !mo_edit_is(node, "Conv"), .on = true, .why = "", .error = -1};
    if (!out->rows) {
        bool bias = !*mo_edit_input(node, 2) || mo_edit_floats(e, node->input[2], &n);
        return rank >= 3 && bias;
    }
    if (rank != 2) return false;
    out->axis = 1;
    if (mo_edit_is(node, "MatMul")) return true;
    if (!mo_edit_is(node, "Gemm") || mo_edit_float(node, "alpha", 1) != 1 ||
        mo_edit_float(node, "beta", 1) != 1 || mo_edit_int(node, "transA", 0))
        return false;
    out->axis = !mo_edit_int(node, "transB", 0);
    const float *bias = mo_edit_floats(e, mo_edit_input(node, 2), &n);
    return !*mo_edit_input(node, 2) || (bias && n == w->constant->dims[out->axis]);
}

int mo_layers_find(struct mo_edit *e, struct mo_qlayers *out) {
    *out = (struct mo_qlayers){.at = mo_edit_memory(e, (e->graph->n_node + 1) * sizeof *out->at)};
    for (size_t i = 0; i < e->graph->n_node && !e->rc; i++) {
        struct mo_qlayer *layer = &out->at[out->n];
        if (!is_layer(e, e->graph->node[i], layer)) continue;
        layer->node = (int)i;
        out->n++;
    }
    return e->rc;
}

struct mo_qlayer *mo_layer_named(const struct mo_edit *e, const struct mo_qlayers *layers, const char *name) {
    for (int i = 0; i < layers->n; i++) {
        const Onnx__NodeProto *node = e->graph->node[layers->at[i].node];
        if ((node->name && !strcmp(node->name, name)) || !strcmp(node->output[0], name))
            return &layers->at[i];
    }
    return NULL;
}

/* --- points --- */

struct search {
    struct mo_edit *e;
    struct mo_points *p;
    const struct mo_qlayer **layer; /* by node: the layer that is on, or NULL */
    bool *leads;                    /* by value: a layer will read it, or what is made of it */
    int *open;                      /* by value: reads that are left, within follow() */
    int *stamp, stamps;
    bool portable;
};

static int id_of(const struct mo_edit *e, const char *name) {
    const struct mo_edit_value *v = mo_edit_value(e, name);
    return v ? (int)(v - e->values) : -1;
}

static bool is_constant(const struct mo_edit *e, const char *name) {
    const struct mo_edit_value *v = mo_edit_value(e, name);
    return v && v->constant;
}

static bool is_scalar(const struct mo_edit *e, const char *name) {
    const struct mo_edit_value *v = mo_edit_value(e, name);
    if (!v || !v->constant) return false;
    int64_t n = 1;
    for (size_t i = 0; i < v->constant->n_dims; i++)
        n *= v->constant->dims[i];
    return n == 1;
}

static void find_leads(struct search *s) {
    const Onnx__GraphProto *g = s->e->graph;
    for (size_t i = g->n_node; i-- > 0;) {
        const Onnx__NodeProto *node = g->node[i];
        bool leads = false;
        for (size_t k = 0; k < node->n_output && kind_of(node) != OTHER; k++) {
            int id = id_of(s->e, node->output[k]);
            leads = leads || (id >= 0 && s->leads[id]);
        }
        for (size_t k = 0; k < node->n_input; k++) {
            int id = id_of(s->e, node->input[k]);
            if (id >= 0 && (leads || (s->layer[i] && k == 0))) s->leads[id] = true;
        }
    }
}

static bool in_set(const struct search *s, const char *name) {
    int id = id_of(s->e, name);
    return id >= 0 && s->stamp[id] == s->stamps;
}

static void add_to_set(struct search *s, int id) {
    s->stamp[id] = s->stamps;
    s->open[id] = s->e->values[id].n_uses;
}

/* The node makes a function of one number of what is in the set: takes it in. */
static bool takes_in(struct search *s, const Onnx__NodeProto *node) {
    bool reads = false,
         pointwise = kind_of(node) == POINTWISE || mo_edit_is(node, "Add") || mo_edit_is(node, "Mul");
    if (!pointwise || node->n_output != 1) return false;
    for (size_t k = 0; k < node->n_input; k++) {
        bool in = in_set(s, node->input[k]);
        reads = reads || in;
        if (!in && *mo_edit_input(node, k) && !is_scalar(s->e, node->input[k])) return false;
    }
    return reads;
}

/* Whether what is in the set is read by nobody but its nodes, save for `last`. */
static bool closed(const struct search *s, int first, int last) {
    for (int id = first; id < s->p->n; id++)
        if (s->stamp[id] == s->stamps && id != last && (s->open[id] || s->e->values[id].outside))
            return false;
    return true;
}

/* What becomes of value `from` by functions of one number, as far as nobody else reads what lies between. */
static int follow(struct search *s, int from) {
    const Onnx__GraphProto *g = s->e->graph;
    enum { FAR = 64 };
    int end = from, last = s->e->values[from].last_use;
    s->stamps++;
    add_to_set(s, from);
    for (int i = s->e->values[from].producer + 1; i <= last && i <= s->e->values[from].producer + FAR; i++) {
        const Onnx__NodeProto *node = g->node[i];
        bool simple = mo_edit_is(node, "Relu") || mo_edit_is(node, "Clip");
        if (!takes_in(s, node) || (s->portable && !simple)) continue;
        for (size_t k = 0; k < node->n_input; k++)
            if (in_set(s, node->input[k])) s->open[id_of(s->e, node->input[k])]--;
        int out = id_of(s->e, node->output[0]);
        add_to_set(s, out);
        if (s->e->values[out].last_use > last) last = s->e->values[out].last_use;
        int first = from < out ? from : out;
        if (closed(s, first, out)) end = out;
    }
    return end;
}

static void mark(struct search *s, int id, bool within) {
    s->p->is[id] = true;
    s->p->within[id] = s->p->within[id] || within;
}

static int root(const struct mo_points *p, int id) {
    while (p->tie[id] != id)
        id = p->tie[id];
    return id;
}

static void tie(struct mo_points *p, int a, int b) {
    p->tie[root(p, b)] = root(p, a);
}

static bool all_points(const struct search *s, const Onnx__NodeProto *node) {
    bool any = false;
    for (size_t k = 0; k < node->n_input; k++) {
        int id = id_of(s->e, node->input[k]);
        if (id < 0 || is_constant(s->e, node->input[k])) continue;
        if (!s->p->is[id]) return false;
        any = true;
    }
    return any;
}

/* Results of a node whose inputs are points. */
static void go_on(struct search *s, const Onnx__NodeProto *node, enum kind kind) {
    int x = id_of(s->e, mo_edit_input(node, 0));
    bool bytes = kind == MOVES ? x >= 0 && s->p->is[x] : all_points(s, node);
    for (size_t k = 0; bytes && k < node->n_output; k++) {
        int y = id_of(s->e, node->output[k]);
        if (y < 0) continue;
        if (kind == MIXES) y = follow(s, y);
        if (!s->leads[y]) continue;
        mark(s, y, true);
        if (kind == MOVES) tie(s->p, x, y);
    }
}

static void find_points(struct search *s) {
    const Onnx__GraphProto *g = s->e->graph;
    for (size_t i = 0; i < g->n_node; i++)
        if (s->layer[i]) {
            int x = id_of(s->e, g->node[i]->input[0]);
            if (x >= 0 && !is_constant(s->e, g->node[i]->input[0])) mark(s, x, false);
        }
    for (size_t i = 0; i < g->n_node; i++) {
        enum kind kind = kind_of(g->node[i]);
        if (s->layer[i]) {
            int y = follow(s, id_of(s->e, g->node[i]->output[0]));
            if (s->leads[y] && (!s->layer[i]->rows || s->p->is[y])) mark(s, y, true);
        } else if (kind == MOVES || kind == JOINS || kind == MIXES) {
            go_on(s, g->node[i], kind);
        }
    }
}

int mo_points_find(struct mo_edit *e, const struct mo_qlayers *layers, bool portable, struct mo_points *out) {
    const size_t n = (size_t)e->n_values + 1;
    *out = (struct mo_points){.n = e->n_values,
                              .is = mo_edit_memory(e, n),
                              .within = mo_edit_memory(e, n),
                              .tie = mo_edit_memory(e, n * sizeof *out->tie)};
    struct search s = {.e = e,
                       .p = out,
                       .layer = mo_edit_memory(e, (e->graph->n_node + 1) * sizeof *s.layer),
                       .leads = mo_edit_memory(e, n),
                       .open = mo_edit_memory(e, n * sizeof *s.open),
                       .stamp = mo_edit_memory(e, n * sizeof *s.stamp),
                       .portable = portable};
    if (e->rc) return e->rc;
    for (int i = 0; i < out->n; i++)
        out->tie[i] = i;
    for (int i = 0; i < layers->n; i++)
        if (layers->at[i].on) s.layer[layers->at[i].node] = &layers->at[i];
    find_leads(&s);
    find_points(&s);
    for (int i = 0; i < out->n; i++)
        out->tie[i] = root(out, i);
    return e->rc;
}

void mo_points_tie_concats(struct mo_edit *e, struct mo_points *points, bool (*fits)(void *ctx, int a, int b),
                           void *ctx) {
    for (size_t i = 0; i < e->graph->n_node && !e->rc; i++) {
        const Onnx__NodeProto *node = e->graph->node[i];
        int y = mo_edit_is(node, "Concat") ? id_of(e, node->output[0]) : -1;
        for (size_t k = 0; y >= 0 && points->is[y] && k < node->n_input; k++) {
            int x = id_of(e, node->input[k]);
            if (x >= 0 && points->is[x] && fits(ctx, x, y)) tie(points, y, x);
        }
    }
    for (int i = 0; i < points->n && !e->rc; i++)
        points->tie[i] = root(points, i);
}

bool mo_points_reads_bytes(const struct mo_edit *e, const struct mo_points *points,
                           const struct mo_qlayers *layers, int at) {
    const Onnx__NodeProto *node = e->graph->node[at];
    for (int i = 0; i < layers->n; i++)
        if (layers->at[i].node == at) return layers->at[i].on;
    enum kind kind = kind_of(node);
    for (size_t k = 0; k < node->n_output; k++) {
        int y = id_of(e, node->output[k]);
        if ((kind == MOVES || kind == JOINS || kind == MIXES) && y >= 0 && points->is[y]) return true;
    }
    return false;
}
