/* SPDX-License-Identifier: Apache-2.0
 * pass_regions.c - layers whose shapes are known only at run time go, with the cheap ones joined to them,
 * into the body of a node moire.Region, for which a plan is made whenever new shapes come
 * (runtime/plan/plan_regions.c).
 *
 * Every layer has a stage: how often a path to it changes between layers that may go into a region and
 * others. Stages never fall along a path, so a path between two layers of one stage has that stage all along,
 * and layers of one stage that are joined by edges can be taken out together without a cycle.  A region
 * without a product of constant weights, or of two values, is not formed: a plan for every new shape would
 * cost more than it saves.  Constants are captured: they stay those of the graph. */
#include <string.h>
#include "codegen/passes/passes.h"
#include "runtime/ops/op.h"

enum { LEAST_WEIGHTS = 4096 }; /* numbers */

/* Layers that kernels take, or that shapes are computed by. */
static const char *const ops[] = {
    "Conv",
    "ConvTranspose",
    "Gemm",
    "MatMul",
    "Attention",
    "RotaryEmbedding",
    "Relu",
    "LeakyRelu",
    "PRelu",
    "Elu",
    "Selu",
    "Sigmoid",
    "HardSigmoid",
    "HardSwish",
    "Tanh",
    "Softplus",
    "Erf",
    "Gelu",
    "Mish",
    "Clip",
    "Abs",
    "Neg",
    "Exp",
    "Log",
    "Sqrt",
    "Reciprocal",
    "Floor",
    "Ceil",
    "Pow",
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Min",
    "Max",
    "Identity",
    "Cast",
    "Dropout",
    "Shape",
    "Gather",
    "Concat",
    "Slice",
    "Split",
    "Flatten",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Transpose",
    "Softmax",
    "LogSoftmax",
    "MaxPool",
    "AveragePool",
    "ReduceMean",
    "ReduceSum",
    "BatchNormalization",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "LayerNormalization",
    "RMSNormalization",
    "InstanceNormalization",
    "Pad",
};

struct regions {
    struct mo_graph *g;
    moire_error *err;
    int n;      /* nodes; those of regions come behind them */
    int *stage; /* of every node; odd: it may go into a region */
    int *set;   /* of every node: another one of its region, or itself; in the end the first */
    int *next;  /* of every node: the next one of its region, or -1 */
    bool *heavy;
    bool *outside;   /* of every tensor: it is read elsewhere than where it is made, or an answer */
    int *inner;      /* of every tensor: its number in the body, or -1 */
    int *own, *kept; /* tensors that a body is given: values, constants */
    int *made;       /* that it gives */
    int n_own, n_kept, n_made;
};

/* Where shapes stop being known, contents decide: there is nothing to plan by, and regions within a region
 * would not end. */
static bool may_go(const struct mo_graph *g, const struct mo_node *node) {
    bool known = false, reads = false;
    if (node->dead || *node->domain) return false;
    for (size_t i = 0; i < sizeof ops / sizeof *ops && !known; i++)
        known = !strcmp(node->op_type, ops[i]);
    for (int k = 0; k < node->n_in; k++) {
        if (node->in[k] < 0) continue;
        if (g->tensors[node->in[k]]->dtype == MO_BUNDLE) return false;
        reads = reads || g->tensors[node->in[k]]->dynamic;
    }
    for (int k = 0; k < node->n_out; k++)
        if (node->out[k] >= 0 && !g->tensors[node->out[k]]->dynamic) return false;
    return known && reads;
}

static bool is_heavy(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *w = mo_node_in(g, node, 1);
    const bool product = mo_is(node, "MatMul") || mo_is(node, "Gemm");
    if (mo_is(node, "Attention")) return true;
    if (!product && !mo_is(node, "Conv") && !mo_is(node, "ConvTranspose")) return false;
    return w && (w->data ? mo_shape_count(&w->shape) >= LEAST_WEIGHTS : mo_is(node, "MatMul"));
}

static int find(struct regions *r, int k) {
    while (r->set[k] != k) {
        r->set[k] = r->set[r->set[k]];
        k = r->set[k];
    }
    return k;
}

/* Of nodes in order. */
static void find_stages(struct regions *r) {
    struct mo_graph *g = r->g;
    for (int i = 0; i < r->n; i++) {
        const struct mo_node *node = g->nodes[i];
        const int odd = may_go(g, node);
        int stage = odd;
        for (int k = 0; k < node->n_in; k++) {
            const int from = node->in[k] >= 0 ? g->tensors[node->in[k]]->producer : -1;
            if (from < 0) continue;
            const int least = r->stage[from] + (r->stage[from] % 2 != odd);
            if (least > stage) stage = least;
        }
        r->stage[i] = stage;
        r->set[i] = i;
        r->heavy[i] = odd && is_heavy(g, node);
    }
}

static void join(struct regions *r) {
    struct mo_graph *g = r->g;
    for (int i = 0; i < r->n; i++) {
        const struct mo_node *node = g->nodes[i];
        for (int k = 0; k < node->n_in && r->stage[i] % 2; k++) {
            const int from = node->in[k] >= 0 ? g->tensors[node->in[k]]->producer : -1;
            if (from < 0 || r->stage[from] != r->stage[i]) continue;
            const int a = find(r, from), b = find(r, i);
            r->set[b > a ? b : a] = b > a ? a : b;
            r->heavy[a] = r->heavy[b] = r->heavy[a] || r->heavy[b];
        }
    }
}

/* Every node knows its set by the first one, and the next one of it. */
static void list_sets(struct regions *r) {
    for (int i = 0; i < r->n; i++) {
        r->set[i] = find(r, i);
        r->next[i] = -1;
    }
    for (int i = r->n - 1; i >= 0; i--) {
        const int first = r->set[i];
        if (first == i) continue;
        r->next[i] = r->next[first];
        r->next[first] = i;
    }
}

static void find_outside(struct regions *r) {
    const struct mo_graph *g = r->g;
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++) {
            const int id = g->nodes[i]->in[k], from = id >= 0 ? g->tensors[id]->producer : -1;
            if (from >= 0 && r->set[from] != r->set[i]) r->outside[id] = true;
        }
    for (int i = 0; i < g->n_outputs; i++)
        r->outside[g->outputs[i]] = true;
}

/* --- taking one out ------------------------------------------------------------------------------------- */

/* The body's tensor for one of the graph; NULL: out of memory. */
static struct mo_tensor *bring(struct regions *r, struct mo_graph *body, int id) {
    const struct mo_tensor *t = r->g->tensors[id];
    struct mo_tensor *own = mo_graph_add_tensor(body, t->name, t->dtype, &t->shape);
    if (!own) return NULL;
    own->dynamic = t->dynamic;
    r->inner[id] = own->id;
    return own;
}

/* What a node reads and no other of its region makes. */
static bool bring_read(struct regions *r, struct mo_graph *body, int id) {
    struct mo_tensor *t = bring(r, body, id);
    if (!t) return false;
    t->is_input = true;
    t->data = r->g->tensors[id]->data;
    t->shared = t->data != NULL;
    if (t->data)
        r->kept[r->n_kept++] = id;
    else
        r->own[r->n_own++] = id;
    return true;
}

static bool bring_made(struct regions *r, struct mo_graph *body, int id) {
    struct mo_tensor *t = bring(r, body, id);
    if (t && r->outside[id]) r->made[r->n_made++] = id;
    if (t) t->is_output = r->outside[id];
    return t != NULL;
}

/* Nodes come behind the producers of what they read. */
static int bring_tensors(struct regions *r, struct mo_graph *body, int set) {
    bool ok = true;
    for (int i = set; i >= 0; i = r->next[i]) {
        const struct mo_node *node = r->g->nodes[i];
        for (int k = 0; k < node->n_in && ok; k++)
            if (node->in[k] >= 0 && r->inner[node->in[k]] < 0) ok = bring_read(r, body, node->in[k]);
        for (int k = 0; k < node->n_out && ok; k++)
            if (node->out[k] >= 0) ok = bring_made(r, body, node->out[k]);
    }
    return ok ? MOIRE_OK : mo_no_memory(r->err);
}

/* So that the next region finds none of this one's numbers. */
static void forget_tensors(struct regions *r, int set) {
    for (int i = set; i >= 0; i = r->next[i]) {
        const struct mo_node *node = r->g->nodes[i];
        for (int k = 0; k < node->n_in; k++)
            if (node->in[k] >= 0) r->inner[node->in[k]] = -1;
        for (int k = 0; k < node->n_out; k++)
            if (node->out[k] >= 0) r->inner[node->out[k]] = -1;
    }
}

static int move_node(struct regions *r, struct mo_graph *body, struct mo_node *from) {
    struct mo_node *to =
        mo_graph_add_node(body, from->name, from->op_type, from->domain, from->n_in, from->n_out);
    if (!to) return mo_no_memory(r->err);
    to->op = from->op;
    to->opset = from->opset;
    to->attrs = from->attrs;
    to->n_attrs = from->n_attrs;
    to->fuse = from->fuse;
    for (int k = 0; k < from->n_in; k++)
        to->in[k] = from->in[k] < 0 ? -1 : r->inner[from->in[k]];
    for (int k = 0; k < from->n_out; k++)
        to->out[k] = from->out[k] < 0 ? -1 : r->inner[from->out[k]];
    from->dead = true;
    return MOIRE_OK;
}

static int *ports(const struct regions *r, const int *first, int n, const int *more, int n_more) {
    int *ids = mo_region_array(r->g->region, (size_t)n + (size_t)n_more + 1, sizeof *ids);
    for (int i = 0; ids && i < n; i++)
        ids[i] = r->inner[first[i]];
    for (int i = 0; ids && i < n_more; i++)
        ids[n + i] = r->inner[more[i]];
    return ids;
}

static int set_ports(const struct regions *r, struct mo_graph *body) {
    body->inputs = ports(r, r->own, r->n_own, r->kept, r->n_kept);
    body->outputs = ports(r, r->made, r->n_made, NULL, 0);
    if (!body->inputs || !body->outputs) return mo_no_memory(r->err);
    body->n_inputs = r->n_own + r->n_kept;
    body->n_captured = r->n_kept;
    body->n_outputs = r->n_made;
    mo_graph_index(body);
    return MOIRE_OK;
}

/* Named like the first of its products. */
static const char *name_of(const struct regions *r, int set) {
    int i = set;
    while (!is_heavy(r->g, r->g->nodes[i]))
        i = r->next[i];
    return r->g->nodes[i]->name;
}

static int add_region(struct regions *r, const char *name, struct mo_graph *body) {
    struct mo_node *node = mo_graph_add_node(r->g, name, "Region", "moire", r->n_own + r->n_kept, r->n_made);
    struct mo_attr *attr = node ? mo_node_add_attr(r->g, node, "body", MO_ATTR_GRAPH) : NULL;
    if (!attr) return mo_no_memory(r->err);
    node->op = mo_op_find("Region", "moire");
    attr->graph = body;
    memcpy(node->in, r->own, (size_t)r->n_own * sizeof *node->in);
    memcpy(node->in + r->n_own, r->kept, (size_t)r->n_kept * sizeof *node->in);
    memcpy(node->out, r->made, (size_t)r->n_made * sizeof *node->out);
    return MOIRE_OK;
}

static int take_out(struct regions *r, int set) {
    struct mo_graph *g = r->g, *body = mo_graph_add_body(g);
    const char *name = name_of(r, set);
    if (!body) return mo_no_memory(r->err);
    body->halves = g->halves;
    body->terms = g->terms;
    body->halves_by_vectors = g->halves_by_vectors;
    body->multiplies_tiles = g->multiplies_tiles;
    body->float16 = g->float16;
    r->n_own = r->n_kept = r->n_made = 0;
    int rc = bring_tensors(r, body, set);
    for (int i = set; i >= 0 && !rc; i = r->next[i])
        rc = move_node(r, body, g->nodes[i]);
    if (!rc) rc = set_ports(r, body);
    if (!rc) rc = add_region(r, name, body);
    forget_tensors(r, set);
    return rc;
}

static bool allocate(struct regions *r) {
    const struct mo_env *env = r->g->env;
    const size_t nodes = (size_t)r->n + 1, tensors = (size_t)r->g->n_tensors + 1;
    r->stage = mo_alloc(env, nodes * sizeof *r->stage);
    r->set = mo_alloc(env, nodes * sizeof *r->set);
    r->next = mo_alloc(env, nodes * sizeof *r->next);
    r->heavy = mo_alloc(env, nodes * sizeof *r->heavy);
    r->outside = mo_alloc(env, tensors * sizeof *r->outside);
    r->inner = mo_alloc(env, tensors * sizeof *r->inner);
    r->own = mo_alloc(env, tensors * sizeof *r->own);
    r->kept = mo_alloc(env, tensors * sizeof *r->kept);
    r->made = mo_alloc(env, tensors * sizeof *r->made);
    return r->stage && r->set && r->next && r->heavy && r->outside && r->inner && r->own && r->kept &&
           r->made;
}

static int form(struct regions *r) {
    int rc = MOIRE_OK;
    for (int i = 0; i < r->g->n_tensors; i++)
        r->inner[i] = -1;
    find_stages(r);
    join(r);
    list_sets(r);
    find_outside(r);
    for (int i = 0; i < r->n && !rc; i++)
        if (r->set[i] == i && r->heavy[i]) rc = take_out(r, i);
    return rc;
}

static bool has_dynamic(const struct mo_graph *g) {
    for (int i = 0; i < g->n_nodes; i++)
        if (may_go(g, g->nodes[i]) && is_heavy(g, g->nodes[i])) return true;
    return false;
}

int mo_pass_regions(struct mo_graph *g, moire_error *err) {
    struct regions r = {.g = g, .err = err, .n = g->n_nodes};
    if (!has_dynamic(g)) return MOIRE_OK;
    mo_graph_index(g);
    int rc = allocate(&r) ? form(&r) : mo_no_memory(err);
    void *parts[] = {r.stage, r.set, r.next, r.heavy, r.outside, r.inner, r.own, r.kept, r.made};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        mo_free(g->env, parts[i]);
    return rc;
}
