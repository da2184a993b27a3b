/* SPDX-License-Identifier: Apache-2.0
 * inline.c - bodies of which it is known how often they run become part of the graph around them.
 *
 * An If whose condition is a constant is its branch, and a Loop whose number of trips is a small constant is
 * as many copies of its body, one behind the other.  Their layers are then fused with those around them, get
 * compiled kernels, may run on several cores, and the scheduler can pause between them.
 *
 * A body lies in the region of the graph around it, so what it owns stays where it is: constants are pointed
 * to, and a single copy of a body takes its nested bodies over.  Of several copies each would need nested
 * bodies of its own; such a Loop stays one.  Bodies are inlined before the node that has them.  What is
 * copied brings its types and shapes; the caller infers them again, for then the number of a trip is a
 * constant, and what a Loop makes longer in each trip has a known length in each. */
#include <string.h>
#include "codegen/bodies.h"
#include "runtime/ops/op.h"

enum {
    MOST_TRIPS = 16, /* of a Loop that is inlined, and */
    MOST_NODES = 400 /* nodes that all of its trips make */
};

/* A node that is being replaced by its body. */
struct inlining {
    struct mo_graph *g;
    struct mo_node *node;
    const struct mo_graph *body;
    int *map; /* tensor of the body -> of the graph; -1: not yet */
    int64_t trips;
    moire_error *err;
};

static int no_memory(const struct inlining *in) {
    return mo_fail(in->err, MOIRE_ENOMEM, "out of memory inlining node '%.100s'", in->node->name);
}

static int n_own(const struct mo_node *node, const struct mo_graph *body) {
    return node->n_in - body->n_captured;
}

/* --- copies ----------------------------------------------------------------------------------------------
 */

/* What stands in the graph for a tensor of the body; -1: no memory. */
static int stands_for(struct inlining *in, int id) {
    const struct mo_tensor *from = in->body->tensors[id];
    if (in->map[id] >= 0) return in->map[id];
    struct mo_tensor *t = mo_graph_add_tensor(in->g, from->name, from->dtype, &from->shape);
    if (!t) return -1;
    t->dynamic = from->dynamic;
    t->data = from->data;
    t->content = from->content;
    t->shared = from->shared;
    return in->map[id] = t->id;
}

static bool map_all(struct inlining *in, const int *from, int *to, int n) {
    for (int k = 0; k < n; k++)
        if ((to[k] = from[k] < 0 ? -1 : stands_for(in, from[k])) < 0 && from[k] >= 0) return false;
    return true;
}

/* A list of its own, which passes write to; what the attributes point to is only read. */
static struct mo_attr *copy_attrs(const struct inlining *in, const struct mo_node *from) {
    struct mo_attr *to = mo_region_array(in->g->region, (size_t)from->n_attrs + 1, sizeof *to);
    if (to && from->n_attrs) memcpy(to, from->attrs, (size_t)from->n_attrs * sizeof *to);
    return to;
}

static int copy_node(struct inlining *in, const struct mo_node *from) {
    struct mo_node *to =
        mo_graph_add_node(in->g, from->name, from->op_type, from->domain, from->n_in, from->n_out);
    if (!to) return no_memory(in);
    to->op = from->op;
    to->opset = from->opset;
    to->fuse = from->fuse;
    to->n_attrs = from->n_attrs;
    to->attrs = copy_attrs(in, from);
    if (!to->attrs || !map_all(in, from->in, to->in, from->n_in) ||
        !map_all(in, from->out, to->out, from->n_out))
        return no_memory(in);
    return MOIRE_OK;
}

static void forget_made(struct inlining *in) {
    for (int i = 0; i < in->body->n_tensors; i++)
        if (!in->body->tensors[i]->data) in->map[i] = -1;
}

static void give_captured(struct inlining *in) {
    const int own = n_own(in->node, in->body), at = in->body->n_inputs - in->body->n_captured;
    for (int i = 0; i < in->body->n_captured; i++)
        in->map[in->body->inputs[at + i]] = in->node->in[own + i];
}

/* One run of the body, whose inputs stand for what they are given. */
static int copy_body(struct inlining *in) {
    int rc = MOIRE_OK;
    for (int i = 0; i < in->body->n_nodes && !rc; i++)
        if (!in->body->nodes[i]->dead) rc = copy_node(in, in->body->nodes[i]);
    return rc;
}

static struct mo_node *add_node(struct inlining *in, const char *op, int n_in, int to) {
    struct mo_node *node = mo_graph_add_node(in->g, in->node->name, op, "", n_in, 1);
    if (!node) return NULL;
    node->op = mo_op_find(op, "");
    node->opset = 13;
    node->out[0] = to;
    return node;
}

/* The graph's tensor `to` is `from`. */
static int pass_on(struct inlining *in, int from, int to) {
    if (to < 0) return MOIRE_OK;
    struct mo_node *node = from < 0 ? NULL : add_node(in, "Identity", 1, to);
    if (!node) return no_memory(in);
    node->in[0] = from;
    return MOIRE_OK;
}

static struct mo_tensor *add_constant(struct inlining *in, moire_dtype dtype, int64_t n) {
    const struct mo_shape shape = {.rank = n ? 1 : 0, .d = {n}};
    return mo_graph_add_const(in->g, in->node->name, dtype, &shape);
}

/* --- If --------------------------------------------------------------------------------------------------
 */

static int inline_if(struct inlining *in) {
    give_captured(in);
    int rc = copy_body(in);
    for (int k = 0; k < in->node->n_out && !rc; k++)
        rc = pass_on(in, stands_for(in, in->body->outputs[k]), in->node->out[k]);
    return rc;
}

/* --- Loop ------------------------------------------------------------------------------------------------
 */

/* The slice that this trip makes, with an axis before it. */
static int add_slice(struct inlining *in, int from, int *slice) {
    const struct mo_tensor *t = from < 0 ? NULL : in->g->tensors[from];
    struct mo_shape shape = {.rank = 1, .d = {1}};
    if (!t) return no_memory(in);
    for (int d = 0; d < t->shape.rank; d++)
        shape.d[shape.rank++] = t->shape.d[d];
    struct mo_tensor *axes = add_constant(in, MOIRE_I64, 1);
    struct mo_tensor *out = mo_graph_add_tensor(in->g, in->node->name, t->dtype, &shape);
    struct mo_node *node = axes && out ? add_node(in, "Unsqueeze", 2, out->id) : NULL;
    if (!node) return no_memory(in);
    node->in[0] = from;
    node->in[1] = axes->id;
    *slice = out->id;
    return MOIRE_OK;
}

/* slice: `trips` numbers of tensors. */
static int join_slices(struct inlining *in, const int *slice, int to) {
    struct mo_node *node = to < 0 ? NULL : add_node(in, "Concat", (int)in->trips, to);
    if (to < 0) return MOIRE_OK;
    struct mo_attr *axis = node ? mo_node_add_attr(in->g, node, "axis", MO_ATTR_INT) : NULL;
    if (!axis) return no_memory(in);
    memcpy(node->in, slice, (size_t)in->trips * sizeof *slice);
    return MOIRE_OK;
}

/* state: what stands for each, before the trip and, when it returns, behind it.  slices[k * trips + trip]. */
static int inline_trip(struct inlining *in, int64_t trip, int n_state, int *state, int *slices) {
    struct mo_tensor *number = add_constant(in, MOIRE_I64, 0), *flag = add_constant(in, MOIRE_BOOL, 0);
    if (!number || !flag) return no_memory(in);
    *(int64_t *)number->data = trip;
    *(uint8_t *)flag->data = 1;
    forget_made(in);
    in->map[in->body->inputs[0]] = number->id;
    in->map[in->body->inputs[1]] = flag->id;
    for (int i = 0; i < n_state; i++)
        in->map[in->body->inputs[2 + i]] = state[i];
    give_captured(in);
    int rc = copy_body(in);
    for (int i = 0; i < n_state && !rc; i++)
        if ((state[i] = stands_for(in, in->body->outputs[1 + i])) < 0) rc = no_memory(in);
    for (int k = n_state; k < in->node->n_out && !rc; k++)
        if (in->node->out[k] >= 0)
            rc = add_slice(in, stands_for(in, in->body->outputs[1 + k]),
                           &slices[(k - n_state) * in->trips + trip]);
    return rc;
}

static int inline_loop(struct inlining *in) {
    const int n_state = n_own(in->node, in->body) - 2, n_scan = in->node->n_out - n_state;
    int *state = mo_region_array(in->g->region, (size_t)n_state + 1, sizeof *state);
    int *slices = mo_region_array(in->g->region, (size_t)(n_scan * in->trips) + 1, sizeof *slices);
    int rc = state && slices ? MOIRE_OK : no_memory(in);
    if (!rc) memcpy(state, in->node->in + 2, (size_t)n_state * sizeof *state);
    for (int64_t trip = 0; trip < in->trips && !rc; trip++)
        rc = inline_trip(in, trip, n_state, state, slices);
    for (int i = 0; i < n_state && !rc; i++)
        rc = pass_on(in, state[i], in->node->out[i]);
    for (int k = 0; k < n_scan && !rc; k++)
        rc = join_slices(in, &slices[k * in->trips], in->node->out[n_state + k]);
    return rc;
}

/* --- which -----------------------------------------------------------------------------------------------
 */

static int live_nodes(const struct mo_graph *g) {
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        n += !g->nodes[i]->dead;
    return n;
}

static bool has_bodies(const struct mo_graph *g) {
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i]->dead && (g->nodes[i]->op->flags & MO_OP_BODIES)) return true;
    return false;
}

/* Slices whose shape is known can be joined. */
static bool slices_are_known(const struct mo_node *node, const struct mo_graph *body) {
    for (int k = n_own(node, body) - 2; k < node->n_out; k++) {
        const struct mo_tensor *t = body->tensors[body->outputs[1 + k]];
        if (t->dynamic || mo_shape_count(&t->shape) < 0 || t->shape.rank >= MOIRE_MAX_RANK) return false;
    }
    return true;
}

/* Limits count what is inlined as they count what a file has. */
static bool has_room(const struct mo_graph *g, int64_t nodes, int64_t tensors) {
    return g->n_nodes + nodes <= g->env->limits.nodes && g->n_tensors + tensors <= g->env->limits.tensors;
}

static bool pick_branch(struct inlining *in) {
    const struct mo_tensor *cond = in->g->tensors[in->node->in[0]];
    if (!cond->data || cond->dtype != MOIRE_BOOL || mo_shape_count(&cond->shape) != 1) return false;
    in->trips = 1;
    in->body = mo_node_body(in->node, *(const uint8_t *)cond->data ? "then_branch" : "else_branch");
    return in->body && has_room(in->g, live_nodes(in->body) + in->node->n_out, in->body->n_tensors);
}

static bool pick_trips(struct inlining *in) {
    in->body = mo_node_body(in->node, "body");
    in->trips = in->body ? mo_known_trips(in->g, in->node, in->body) : -1;
    if (in->trips < 1 || in->trips > MOST_TRIPS || in->trips > in->g->env->limits.loop_trips) return false;
    const int64_t each = live_nodes(in->body) + in->node->n_out + 1;
    return slices_are_known(in->node, in->body) && (in->trips == 1 || !has_bodies(in->body)) &&
           in->trips * each <= MOST_NODES &&
           has_room(in->g, in->trips * each, in->trips * (in->body->n_tensors + 2 * in->node->n_out + 2));
}

static int inline_node(struct mo_graph *g, struct mo_node *node, bool *any, moire_error *err) {
    struct inlining in = {.g = g, .node = node, .err = err};
    const bool branch = mo_node_is(node, "If");
    if (branch ? !pick_branch(&in) : !mo_node_is(node, "Loop") || !pick_trips(&in)) return MOIRE_OK;
    in.map = mo_region_array(g->region, (size_t)in.body->n_tensors + 1, sizeof *in.map);
    if (!in.map) return no_memory(&in);
    for (int i = 0; i < in.body->n_tensors; i++)
        in.map[i] = -1;
    *any = node->dead = true;
    return branch ? inline_if(&in) : inline_loop(&in);
}

int mo_inline_bodies(struct mo_graph *g, bool *any, moire_error *err) {
    const int n = g->n_nodes;
    bool here = false;
    int rc = MOIRE_OK;
    for (int i = 0; i < n && !rc; i++) {
        struct mo_graph *body;
        int at = 0;
        while (!rc && !g->nodes[i]->dead && (body = mo_node_next_body(g->nodes[i], &at)))
            rc = mo_inline_bodies(body, any, err);
        if (!rc && !g->nodes[i]->dead) rc = inline_node(g, g->nodes[i], &here, err);
    }
    if (rc || !here) return rc;
    *any = true;
    return mo_graph_sort(g, err);
}
