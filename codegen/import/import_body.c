/* SPDX-License-Identifier: Apache-2.0
 * import_body.c - the bodies of If, Loop and Scan: graphs in attributes of a node.
 *
 * A body is a graph of its own whose last inputs are what it reads of the graphs around it, level by level:
 * these become further inputs of the node, in the same order for all bodies of the node.  So whatever walks a
 * graph sees all that a node reads.  Levels are bounded by the limit message_depth. */
#include <stdio.h>
#include <string.h>
#include "codegen/import/import.h"
#include "runtime/ops/op.h"

/* Tensors of the graph around the bodies of one node. */
struct mo_captured {
    int n, cap;
    int *outer;
};

static int no_memory(const struct mo_import *im) {
    return mo_fail(im->err, MOIRE_ENOMEM, "out of memory importing a body");
}

/* --- what a body reads of the graph around it ----------------------------------------------------------- */

static int *wider(struct mo_region *region, const int *list, int n, int cap) {
    int *copy = mo_region_array(region, (size_t)cap, sizeof *copy);
    if (copy && n) memcpy(copy, list, (size_t)n * sizeof *copy);
    return copy;
}

/* Its place among the captured values; MOIRE_ENOMEM. */
static int place_of(struct mo_import *im, int outer) {
    struct mo_captured *c = im->captured;
    for (int i = 0; i < c->n; i++)
        if (c->outer[i] == outer) return i;
    if (c->n == c->cap) {
        int *more = wider(im->tmp, c->outer, c->n, 2 * c->cap + 8);
        if (!more) return MOIRE_ENOMEM;
        c->outer = more;
        c->cap = 2 * c->cap + 8;
    }
    c->outer[c->n] = outer;
    return c->n++;
}

static struct mo_tensor *add_input(struct mo_import *im, int outer) {
    const struct mo_tensor *from = im->around->graph->tensors[outer];
    struct mo_tensor *t = mo_graph_add_tensor(im->graph, from->name, from->dtype, NULL);
    if (t) t->is_input = true;
    return t;
}

int mo_import_capture(struct mo_import *im, int outer, const char *name) {
    struct mo_tensor *t = place_of(im, outer) < 0 ? NULL : add_input(im, outer);
    return t && !mo_names_add(im->names, name, t->id) ? t->id : MOIRE_ENOMEM;
}

/* The body's tensor for a captured value; one that nobody reads where only another body of the node does.  A
 * tensor of that name which is no input is the body's own. */
static struct mo_tensor *tensor_of(struct mo_import *im, int outer) {
    const int id = mo_names_find(im->names, im->around->graph->tensors[outer]->name);
    return id >= 0 && im->graph->tensors[id]->is_input ? im->graph->tensors[id] : add_input(im, outer);
}

/* The captured values behind the body's own inputs. */
static int append_inputs(struct mo_import *im) {
    struct mo_graph *g = im->graph;
    const struct mo_captured *c = im->captured;
    int *inputs = wider(g->region, g->inputs, g->n_inputs, g->n_inputs + c->n + 1);
    if (!inputs) return no_memory(im);
    for (int i = 0; i < c->n; i++) {
        const struct mo_tensor *t = tensor_of(im, c->outer[i]);
        if (!t) return no_memory(im);
        inputs[g->n_inputs + i] = t->id;
    }
    g->inputs = inputs;
    g->n_inputs += c->n;
    g->n_captured = c->n;
    mo_graph_index(g);
    return MOIRE_OK;
}

/* --- operands ------------------------------------------------------------------------------------------- */

static int add_scalar(struct mo_import *im, struct mo_node *node, int k, moire_dtype dtype, int64_t value) {
    const struct mo_shape scalar = {.rank = 0};
    struct mo_tensor *t = mo_graph_add_const(im->graph, node->name, dtype, &scalar);
    if (!t) return no_memory(im);
    memcpy(t->data, &value, mo_dtype_bytes(dtype));
    node->in[k] = t->id;
    return MOIRE_OK;
}

int mo_import_settle_control(struct mo_import *im, struct mo_node *node, size_t index,
                             const Onnx__NodeProto *p) {
    int rc = MOIRE_OK;
    if (mo_node_is(node, "Loop") && node->n_in > 0 && node->in[0] < 0)
        rc = add_scalar(im, node, 0, MOIRE_I64, INT64_MAX);
    if (!rc && mo_node_is(node, "Loop") && node->n_in > 1 && node->in[1] < 0)
        rc = add_scalar(im, node, 1, MOIRE_BOOL, 1);
    if (rc || !mo_node_is(node, "Scan") || node->opset >= 9 || !node->n_in) return rc;
    if (node->in[0] >= 0)
        return mo_import_node_fail(im, index, p, MOIRE_EUNSUPPORTED,
                                   "sequences of several lengths (input 0) are not supported; convert the "
                                   "model to opset 9",
                                   NULL);
    node->n_in--;
    memmove(node->in, node->in + 1, (size_t)node->n_in * sizeof *node->in);
    return rc;
}

/* --- bodies --------------------------------------------------------------------------------------------- */

/* Inputs and outputs that a body must have, captured ones aside. */
static void ports_of(const struct mo_node *node, int *n_in, int *n_out) {
    *n_in = mo_node_is(node, "If") ? 0 : node->n_in;
    *n_out = node->n_out + (mo_node_is(node, "Loop") ? 1 : 0);
}

static int check_ports(const struct mo_import *im, const struct mo_node *node, const char *which,
                       const struct mo_graph *body, size_t index, const Onnx__NodeProto *p) {
    char problem[200];
    int n_in, n_out;
    ports_of(node, &n_in, &n_out);
    if (body->n_inputs == n_in && body->n_outputs == n_out) return MOIRE_OK;
    snprintf(problem, sizeof problem,
             "%.20s has %d inputs and %d outputs; with the node's operands it must have %d and %d", which,
             body->n_inputs, body->n_outputs, n_in, n_out);
    return mo_import_node_fail(im, index, p, MOIRE_EFORMAT, problem, NULL);
}

static int read_body(struct mo_import *im, struct mo_import *inner, struct mo_captured *captured,
                     struct mo_node *node, size_t index, const Onnx__NodeProto *p, struct mo_attr *attr,
                     const Onnx__GraphProto *proto) {
    *inner = *im;
    inner->around = im;
    inner->captured = captured;
    inner->graph = attr->graph = mo_graph_add_body(im->graph);
    if (!attr->graph) return no_memory(im);
    int rc = mo_import_graph(inner, proto);
    if (rc)
        return mo_fail_context(im->err, rc, "node '%.60s' (%.20s), %.20s", node->name, node->op_type,
                               attr->name);
    return check_ports(im, node, attr->name, attr->graph, index, p);
}

static int append_captured(const struct mo_import *im, struct mo_node *node, const struct mo_captured *c) {
    int *in = wider(im->graph->region, node->in, node->n_in, node->n_in + c->n + 1);
    if (!in) return no_memory(im);
    if (c->n) memcpy(in + node->n_in, c->outer, (size_t)c->n * sizeof *in);
    node->in = in;
    node->n_in += c->n;
    node->in[node->n_in] = -1;
    return MOIRE_OK;
}

/* What bodies the operator has; the last is NULL. */
static const char *const *bodies_of(const struct mo_node *node) {
    static const char *const branches[] = {"then_branch", "else_branch", NULL};
    static const char *const body[] = {"body", NULL};
    return mo_node_is(node, "If") ? branches : body;
}

int mo_import_bodies(struct mo_import *im, struct mo_node *node, size_t index, const Onnx__NodeProto *p) {
    enum { MOST = 2 };
    struct mo_import inner[MOST];
    struct mo_captured captured = {.n = 0};
    int n = 0, rc = MOIRE_OK;
    if (mo_node_is(node, "If") && node->n_in != 1)
        return mo_import_node_fail(im, index, p, MOIRE_EFORMAT, "takes one input, the condition", NULL);
    for (const char *const *name = bodies_of(node); *name && !rc; name++, n++) {
        int k = 0;
        while (k < node->n_attrs && strcmp(node->attrs[k].name, *name) != 0)
            k++;
        if (k == node->n_attrs || node->attrs[k].type != MO_ATTR_GRAPH || !p->attribute[k]->g)
            return mo_import_node_fail(im, index, p, MOIRE_EFORMAT, "needs the graph attribute", *name);
        rc = read_body(im, &inner[n], &captured, node, index, p, &node->attrs[k], p->attribute[k]->g);
    }
    for (int i = 0; i < n && !rc; i++)
        rc = append_inputs(&inner[i]);
    return rc ? rc : append_captured(im, node, &captured);
}
