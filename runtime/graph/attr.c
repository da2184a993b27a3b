/* SPDX-License-Identifier: Apache-2.0
 * attr.c - reading node attributes. */
#include <string.h>
#include "runtime/graph/graph.h"

const struct mo_attr *mo_attr_find(const struct mo_node *node, const char *name) {
    for (int i = 0; i < node->n_attrs; i++)
        if (!strcmp(node->attrs[i].name, name)) return &node->attrs[i];
    return NULL;
}

static const struct mo_attr *find_typed(const struct mo_node *node, const char *name,
                                        enum mo_attr_type type) {
    const struct mo_attr *attr = mo_attr_find(node, name);
    return attr && attr->type == type ? attr : NULL;
}

int64_t mo_attr_int(const struct mo_node *node, const char *name, int64_t fallback) {
    const struct mo_attr *attr = find_typed(node, name, MO_ATTR_INT);
    return attr ? attr->i : fallback;
}

float mo_attr_float(const struct mo_node *node, const char *name, float fallback) {
    const struct mo_attr *attr = find_typed(node, name, MO_ATTR_FLOAT);
    return attr ? attr->f : fallback;
}

const char *mo_attr_string(const struct mo_node *node, const char *name, const char *fallback) {
    const struct mo_attr *attr = find_typed(node, name, MO_ATTR_STRING);
    return attr ? attr->s : fallback;
}

int mo_attr_ints(const struct mo_node *node, const char *name, int64_t *out, int cap) {
    const struct mo_attr *attr = find_typed(node, name, MO_ATTR_INTS);
    if (!attr) return -1;
    for (int i = 0; i < attr->n && i < cap; i++)
        out[i] = attr->ints[i];
    return attr->n;
}

bool mo_node_is(const struct mo_node *node, const char *op_type) {
    return !*node->domain && !strcmp(node->op_type, op_type);
}

bool mo_node_is_ours(const struct mo_node *node, const char *op_type) {
    return !strcmp(node->domain, "moire") && !strcmp(node->op_type, op_type);
}

struct mo_graph *mo_node_body(const struct mo_node *node, const char *name) {
    const struct mo_attr *a = mo_attr_find(node, name);
    return a && a->type == MO_ATTR_GRAPH ? a->graph : NULL;
}

struct mo_graph *mo_node_next_body(const struct mo_node *node, int *at) {
    while (*at < node->n_attrs) {
        const struct mo_attr *a = &node->attrs[(*at)++];
        if (a->type == MO_ATTR_GRAPH && a->graph) return a->graph;
    }
    return NULL;
}
