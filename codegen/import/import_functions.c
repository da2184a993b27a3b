/* SPDX-License-Identifier: Apache-2.0
 * import_functions.c - functions that a model defines: the nodes of their bodies take the place of their
 * calls.
 *
 * All is done on messages, before anything of the graph is read: a node of a body is copied, its names made
 * those of this call.  What a body calls its inputs and outputs becomes what the call does; every other name
 * gets the call's number in front.  An attribute that refers to one of the function is replaced by the call's
 * or, if the call has none, by the function's default; without either it is left out.
 *
 * Functions must not call themselves, by others neither.  Calls and nodes of bodies count against the limit
 * `nodes` each time that they are written, their operands against 16 times as many, and calls nest up to
 * `message_depth`: short files cannot ask for endless work.
 * Copies lie in the graph's region, beside the messages. */
#include <stdio.h>
#include <string.h>
#include "codegen/import/import.h"
#include "codegen/import/import_contrib.h"
#include "codegen/import/import_new_fields.h"

struct function {
    const Onnx__FunctionProto *proto;
    struct mo_names *formals; /* inputs, then outputs, by place; of a name in both the input */
    struct mo_function_more more;
    bool open; /* a call of it is being written */
};

struct expansion {
    struct mo_import *im;
    struct mo_region *region;
    struct mo_names *by_key;
    struct function *functions;
    int64_t written, operands, calls, depth;
    int opset; /* of ONNX's own operators */
};

/* In the place of one node. */
struct call {
    const struct function *function;
    const Onnx__NodeProto *node; /* names are those of the graph that has the call */
    const char **out;            /* of every output of the function */
    char prefix[64];
};

/* Grows. */
struct nodes {
    Onnx__NodeProto **node;
    size_t n, cap;
};

static int no_memory(const struct expansion *e) {
    return mo_fail(e->im->err, MOIRE_ENOMEM, "out of memory importing functions");
}

static char *joined(const struct expansion *e, const char *a, const char *b, const char *c) {
    const size_t n[3] = {strlen(a), strlen(b), strlen(c)};
    char *s = mo_region_alloc(e->region, n[0] + n[1] + n[2] + 1);
    if (!s) return NULL;
    memcpy(s, a, n[0]);
    memcpy(s + n[0], b, n[1]);
    memcpy(s + n[0] + n[1], c, n[2] + 1);
    return s;
}

/* Domain and operator, and which of several of that name. */
static char *key_of(const struct expansion *e, const char *domain, const char *op, const char *overload) {
    const char *first = joined(e, mo_proto_domain(domain), "\x1f", mo_proto_text(op));
    return first ? joined(e, first, "\x1f", overload) : NULL;
}

/* --- names ---------------------------------------------------------------------------------------------- */

/* A name of the body in the graph of the call; NULL: out of memory.  Without a call as it is. */
static char *renamed(const struct expansion *e, const struct call *c, char *name) {
    if (!c || !name || !*name) return name;
    const int k = mo_names_find(c->function->formals, name);
    const int n_in = (int)c->function->proto->n_input;
    if (k >= n_in) return (char *)c->out[k - n_in];
    if (k >= 0) return (size_t)k < c->node->n_input ? c->node->input[k] : (char *)"";
    return joined(e, c->prefix, name, "");
}

static int too_many(const struct expansion *e) {
    return mo_fail(e->im->err, MOIRE_ELIMIT,
                   "with the bodies of its functions the model has more nodes than the limit nodes (%lld)",
                   (long long)e->im->env->limits.nodes);
}

static int rename_all(struct expansion *e, const struct call *c, char ***names, size_t n) {
    if (c) e->operands += (int64_t)n;
    if (e->operands / 16 > e->im->env->limits.nodes) return too_many(e);
    char **copy = mo_region_array(e->region, n + 1, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++)
        if (!(copy[i] = renamed(e, c, (*names)[i]))) return no_memory(e);
    *names = copy;
    return copy ? MOIRE_OK : no_memory(e);
}

/* --- graphs in attributes ------------------------------------------------------------------------------- */

static int write_nodes(struct expansion *e, const struct call *c, Onnx__NodeProto *const *nodes, size_t n,
                       struct nodes *to);

static int rename_values(const struct expansion *e, const struct call *c, Onnx__ValueInfoProto ***values,
                         size_t n) {
    Onnx__ValueInfoProto **list = mo_region_array(e->region, n + 1, sizeof *list);
    Onnx__ValueInfoProto *copy = mo_region_array(e->region, n + 1, sizeof *copy);
    if (!list || !copy) return no_memory(e);
    for (size_t i = 0; i < n; i++) {
        copy[i] = *(*values)[i];
        list[i] = &copy[i];
        if (!(copy[i].name = renamed(e, c, copy[i].name)) && (*values)[i]->name) return no_memory(e);
    }
    *values = list;
    return MOIRE_OK;
}

static int rename_initializers(const struct expansion *e, const struct call *c, Onnx__GraphProto *g) {
    Onnx__TensorProto **list = mo_region_array(e->region, g->n_initializer + 1, sizeof *list);
    Onnx__TensorProto *copy = mo_region_array(e->region, g->n_initializer + 1, sizeof *copy);
    if (!list || !copy) return no_memory(e);
    for (size_t i = 0; i < g->n_initializer; i++) {
        copy[i] = *g->initializer[i];
        list[i] = &copy[i];
        if (!(copy[i].name = renamed(e, c, copy[i].name)) && g->initializer[i]->name) return no_memory(e);
    }
    g->initializer = list;
    return MOIRE_OK;
}

static int write_graph(struct expansion *e, const struct call *c, const Onnx__GraphProto *from,
                       Onnx__GraphProto **out) {
    struct nodes nodes = {0};
    Onnx__GraphProto *g = *out = mo_region_alloc(e->region, sizeof *g);
    if (!g) return no_memory(e);
    *g = *from;
    int rc = write_nodes(e, c, from->node, from->n_node, &nodes);
    g->node = nodes.node;
    g->n_node = nodes.n;
    if (rc || !c) return rc;
    rc = rename_values(e, c, &g->input, g->n_input);
    if (!rc) rc = rename_values(e, c, &g->output, g->n_output);
    if (!rc) rc = rename_values(e, c, &g->value_info, g->n_value_info);
    return rc ? rc : rename_initializers(e, c, g);
}

/* --- attributes ----------------------------------------------------------------------------------------- */

static const Onnx__AttributeProto *named(Onnx__AttributeProto *const *list, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(mo_proto_text(list[i]->name), name)) return list[i];
    return NULL;
}

/* What a reference stands for; NULL: nothing. */
static const Onnx__AttributeProto *referred(const struct call *c, const char *name) {
    const struct mo_function_more *more = &c->function->more;
    const Onnx__AttributeProto *a = named(c->node->attribute, c->node->n_attribute, name);
    return a ? a : named(more->defaults, more->n_defaults, name);
}

static int write_attribute(struct expansion *e, const struct call *c, const Onnx__AttributeProto *from,
                           Onnx__AttributeProto *to) {
    *to = *from;
    if (!from->g && !from->n_graphs) return MOIRE_OK;
    int rc = from->g ? write_graph(e, c, from->g, &to->g) : MOIRE_OK;
    to->graphs = mo_region_array(e->region, from->n_graphs + 1, sizeof(void *));
    if (!to->graphs) return no_memory(e);
    for (size_t i = 0; i < from->n_graphs && !rc; i++)
        rc = write_graph(e, c, from->graphs[i], &to->graphs[i]);
    return rc;
}

static int write_attributes(struct expansion *e, const struct call *c, Onnx__NodeProto *node) {
    Onnx__AttributeProto **list = mo_region_array(e->region, node->n_attribute + 1, sizeof *list);
    Onnx__AttributeProto *copy = mo_region_array(e->region, node->n_attribute + 1, sizeof *copy);
    if (!list || !copy) return no_memory(e);
    size_t n = 0;
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__AttributeProto *a = node->attribute[i];
        const bool refers = c && *mo_proto_text(a->ref_attr_name);
        const Onnx__AttributeProto *is = refers ? referred(c, a->ref_attr_name) : a;
        if (!is) continue;
        /* the call's own is of the graph around it, and written already */
        int rc = refers ? MOIRE_OK : write_attribute(e, c, is, &copy[n]);
        if (rc) return rc;
        if (refers) copy[n] = *is;
        copy[n].name = a->name;
        list[n] = &copy[n];
        n++;
    }
    node->attribute = list;
    node->n_attribute = n;
    return MOIRE_OK;
}

/* --- nodes ---------------------------------------------------------------------------------------------- */

static int push(struct expansion *e, struct nodes *to, Onnx__NodeProto *node) {
    if (++e->written > e->im->env->limits.nodes) return too_many(e);
    if (to->n == to->cap) {
        Onnx__NodeProto **wider = mo_region_array(e->region, 2 * to->cap + 16, sizeof(void *));
        if (!wider) return no_memory(e);
        if (to->n) memcpy(wider, to->node, to->n * sizeof(void *));
        to->node = wider;
        to->cap = 2 * to->cap + 16;
    }
    to->node[to->n++] = node;
    return MOIRE_OK;
}

/* An output that the body gives under a name that is taken: an input, or another output. */
static int pass_through(struct expansion *e, char *from, const char *to, struct nodes *nodes) {
    Onnx__NodeProto *node = mo_region_alloc(e->region, sizeof *node);
    char **names = mo_region_array(e->region, 2, sizeof *names);
    if (!node || !names) return no_memory(e);
    onnx__node_proto__init(node);
    names[0] = from, names[1] = (char *)to;
    node->name = names[1], node->op_type = (char *)"Identity";
    node->input = names, node->output = names + 1;
    node->n_input = node->n_output = 1;
    return push(e, nodes, node);
}

static int call_fail(const struct expansion *e, const Onnx__NodeProto *node, const char *problem) {
    return mo_fail(e->im->err, MOIRE_EFORMAT, "node '%.100s' (%.60s), a call of a function: %s",
                   mo_proto_text(node->name), mo_proto_text(node->op_type), problem);
}

/* What the call's outputs are called; those that it leaves out are the body's own. */
static int set_outputs(const struct expansion *e, struct call *c) {
    const Onnx__FunctionProto *f = c->function->proto;
    c->out = mo_region_array(e->region, f->n_output + 1, sizeof *c->out);
    for (size_t k = 0; c->out && k < f->n_output; k++) {
        const bool wanted = k < c->node->n_output && *mo_proto_text(c->node->output[k]);
        c->out[k] = wanted ? c->node->output[k] : joined(e, c->prefix, mo_proto_text(f->output[k]), "");
        if (!c->out[k]) return no_memory(e);
    }
    return c->out ? MOIRE_OK : no_memory(e);
}

static int write_call(struct expansion *e, struct function *f, const Onnx__NodeProto *node,
                      struct nodes *to) {
    const Onnx__FunctionProto *p = f->proto;
    struct call c = {.function = f, .node = node};
    if (++e->written > e->im->env->limits.nodes) return too_many(e);
    if (f->open) return call_fail(e, node, "it calls itself");
    if (e->depth >= e->im->env->limits.message_depth) return call_fail(e, node, "calls are too deep");
    if (node->n_input > p->n_input || node->n_output > p->n_output)
        return call_fail(e, node, "it has more inputs or outputs than the function");
    snprintf(c.prefix, sizeof c.prefix, "%.40s#%lld/", mo_proto_text(p->name), (long long)++e->calls);
    int rc = set_outputs(e, &c);
    f->open = true;
    e->depth++;
    if (!rc) rc = write_nodes(e, &c, p->node, p->n_node, to);
    e->depth--;
    f->open = false;
    for (size_t k = 0; k < p->n_output && !rc; k++) {
        const int first = mo_names_find(f->formals, mo_proto_text(p->output[k]));
        if (first == (int)(p->n_input + k)) continue;
        char *from = renamed(e, &c, p->output[k]);
        if (!from) return no_memory(e);
        if (strcmp(from, c.out[k]) != 0) rc = pass_through(e, from, c.out[k], to);
    }
    return rc;
}

/* A node that is no call: as it is, or in operators of ONNX. */
static int write_node(struct expansion *e, Onnx__NodeProto *node, struct nodes *to) {
    char prefix[64];
    struct mo_contrib contrib = {.region = e->region, .node = node, .prefix = prefix, .opset = e->opset};
    snprintf(prefix, sizeof prefix, "%.40s~%lld/", mo_proto_text(node->op_type), (long long)e->written);
    if (!mo_contrib_write(&contrib)) return no_memory(e);
    if (!contrib.n) return push(e, to, node);
    int rc = MOIRE_OK;
    for (int i = 0; i < contrib.n && !rc; i++)
        rc = push(e, to, contrib.out[i]);
    return rc;
}

static int write_nodes(struct expansion *e, const struct call *c, Onnx__NodeProto *const *nodes, size_t n,
                       struct nodes *to) {
    for (size_t i = 0; i < n; i++) {
        Onnx__NodeProto *node = mo_region_alloc(e->region, sizeof *node);
        if (!node) return no_memory(e);
        *node = *nodes[i];
        int rc = write_attributes(e, c, node);
        if (!rc) rc = rename_all(e, c, &node->input, node->n_input);
        if (!rc) rc = rename_all(e, c, &node->output, node->n_output);
        if (!rc && c && *mo_proto_text(node->name) &&
            !(node->name = joined(e, c->prefix, nodes[i]->name, "")))
            rc = no_memory(e);
        if (rc) return rc;
        const char *overload = mo_node_overload(e->region, node);
        const char *key = overload ? key_of(e, node->domain, node->op_type, overload) : NULL;
        if (!key) return no_memory(e);
        const int called = mo_names_find(e->by_key, key);
        rc = called < 0 ? write_node(e, node, to) : write_call(e, &e->functions[called], node, to);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

/* --- functions ------------------------------------------------------------------------------------------ */

static int read_function(struct expansion *e, size_t at) {
    struct function *f = &e->functions[at];
    const Onnx__FunctionProto *p = f->proto = e->im->model->functions[at];
    if (p->n_input > 1 << 20 || p->n_output > 1 << 20)
        return mo_fail(e->im->err, MOIRE_ELIMIT,
                       "function '%.100s' has more than a million inputs or outputs", mo_proto_text(p->name));
    int rc = mo_read_function_more(e->im, p, &f->more);
    if (rc) return rc;
    e->written += (int64_t)f->more.n_defaults; /* not again in every call, but without an end in one file */
    if (e->written > e->im->env->limits.nodes) return too_many(e);
    f->formals = mo_names_create(e->im->env, e->region, (int64_t)(p->n_input + p->n_output));
    const char *key = key_of(e, p->domain, p->name, f->more.overload);
    if (!f->formals || !key) return no_memory(e);
    for (size_t k = 0; k < p->n_input + p->n_output; k++) {
        const char *name = mo_proto_text(k < p->n_input ? p->input[k] : p->output[k - p->n_input]);
        if (mo_names_add(f->formals, name, (int)k) == MOIRE_ENOMEM) return no_memory(e);
    }
    const int added = mo_names_add(e->by_key, key, (int)at);
    if (added == 1)
        return mo_fail(e->im->err, MOIRE_EFORMAT, "function '%.100s' (domain '%.60s') is defined twice",
                       mo_proto_text(p->name), mo_proto_domain(p->domain));
    return added ? no_memory(e) : MOIRE_OK;
}

int mo_import_functions(struct mo_import *im, const Onnx__GraphProto **graph) {
    const size_t n = im->model->n_functions;
    struct expansion e = {.im = im, .region = im->graph->region, .opset = im->graph->opset};
    Onnx__GraphProto *written;
    e.functions = mo_region_array(e.region, n + 1, sizeof *e.functions);
    e.by_key = mo_names_create(im->env, e.region, (int64_t)n);
    if (!e.functions || !e.by_key) return no_memory(&e);
    for (size_t i = 0; i < n; i++) {
        int rc = read_function(&e, i);
        if (rc) return rc;
    }
    int rc = write_graph(&e, NULL, *graph, &written);
    *graph = written;
    return rc;
}
