/* SPDX-License-Identifier: Apache-2.0
 * core_layer.c - see core_layer.h.  Structures are packed as they are, for both sides are of one build; what
 * they point to follows them, in the order in which it is read. */
#include "runtime/gpu/core_layer.h"
#include <string.h>
#include "runtime/base/numbers.h"
#include "runtime/ops/control/body.h"

enum { ALIGN = 64 };

/* at NULL: only counts. */
struct cursor {
    char *at;
    size_t n;
    bool failed; /* something cannot be packed */
};

struct head {
    int opset, n_in, n_out, n_attrs;
    struct mo_fuse fuse;
};

bool mo_core_layer_takes(const struct mo_op *op) {
    return op && op->run && !(op->flags & (MO_OP_BODIES | MO_OP_BUNDLES | MO_OP_MAKES));
}

/* --- packing -------------------------------------------------------------------------------------------- */
static void put(struct cursor *c, const void *data, size_t bytes) {
    if (c->at && bytes) memcpy(c->at + c->n, data, bytes);
    c->n += mo_round_up_bytes(bytes, ALIGN);
}

static void put_text(struct cursor *c, const char *text) {
    put(c, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* A value, with its contents where it has some. */
static void put_value(struct cursor *c, const struct mo_value *v) {
    const int64_t bytes = v->dtype == MOIRE_NONE ? 0 : mo_value_bytes(v);
    c->failed |= bytes < 0 || v->dtype == MOIRE_STRING;
    put(c, v, sizeof *v);
    if (v->data && !c->failed) put(c, v->data, (size_t)bytes);
}

static void put_attr(struct cursor *c, const struct mo_attr *a) {
    put(c, a, sizeof *a);
    put_text(c, a->name);
    if (a->type == MO_ATTR_STRING) put(c, a->s, a->s_len + 1);
    if (a->type == MO_ATTR_TENSOR) put_value(c, &a->tensor);
    if (a->type == MO_ATTR_INTS) put(c, a->ints, (size_t)a->n * sizeof *a->ints);
    if (a->type == MO_ATTR_FLOATS) put(c, a->floats, (size_t)a->n * sizeof *a->floats);
    for (int i = 0; a->type == MO_ATTR_STRINGS && i < a->n; i++)
        put_text(c, a->strings[i]);
    c->failed |= a->type == MO_ATTR_GRAPH || a->type == MO_ATTR_OTHER;
}

static void put_operands(struct cursor *c, const struct mo_graph *g, const int *ids, int n, bool contents) {
    for (int i = 0; i < n; i++) {
        struct mo_value v = {.dtype = MOIRE_NONE};
        if (ids[i] >= 0) v = mo_tensor_value(g->tensors[ids[i]]);
        if (!contents) v.data = NULL;
        put_value(c, &v);
    }
}

static void put_layer(struct cursor *c, const struct mo_graph *g, const struct mo_node *node) {
    const struct head head = {node->opset, node->n_in, node->n_out, node->n_attrs, node->fuse};
    put(c, &head, sizeof head);
    put_text(c, node->name);
    put_text(c, node->op_type);
    put_text(c, node->domain);
    put_operands(c, g, node->in, node->n_in, true);
    put_operands(c, g, node->out, node->n_out, false);
    for (int i = 0; i < node->n_attrs; i++)
        put_attr(c, &node->attrs[i]);
}

void *mo_core_layer_pack(const struct mo_graph *graph, const struct mo_node *node, struct mo_region *region,
                         size_t *bytes) {
    struct cursor c = {0};
    put_layer(&c, graph, node);
    *bytes = c.n;
    if (c.failed || !(c.at = mo_region_alloc(region, c.n))) return NULL;
    c.n = 0;
    put_layer(&c, graph, node);
    return c.at;
}

/* --- running -------------------------------------------------------------------------------------------- */
static void *take(struct cursor *c, size_t bytes) {
    void *at = c->at + c->n;
    c->n += mo_round_up_bytes(bytes, ALIGN);
    return at;
}

static const char *take_text(struct cursor *c) {
    return take(c, strlen(c->at + c->n) + 1);
}

static struct mo_value take_value(struct cursor *c) {
    struct mo_value v = *(const struct mo_value *)take(c, sizeof v);
    if (v.data) v.data = take(c, (size_t)mo_value_bytes(&v));
    return v;
}

/* False: out of memory. */
static bool take_attr(struct cursor *c, struct mo_region *region, struct mo_attr *a) {
    *a = *(const struct mo_attr *)take(c, sizeof *a);
    a->name = take_text(c);
    if (a->type == MO_ATTR_STRING) a->s = take(c, a->s_len + 1);
    if (a->type == MO_ATTR_TENSOR) a->tensor = take_value(c);
    if (a->type == MO_ATTR_INTS) a->ints = take(c, (size_t)a->n * sizeof *a->ints);
    if (a->type == MO_ATTR_FLOATS) a->floats = take(c, (size_t)a->n * sizeof *a->floats);
    if (a->type != MO_ATTR_STRINGS) return true;
    const char **strings = mo_region_array(region, (size_t)a->n + 1, sizeof *strings);
    for (int i = 0; strings && i < a->n; i++)
        strings[i] = take_text(c);
    a->strings = strings;
    return strings != NULL;
}

static int run(const struct mo_env *env, struct mo_region *region, struct cursor *c, void *const *operands,
               moire_error *err) {
    const struct head *head = take(c, sizeof *head);
    struct mo_node node = {.opset = head->opset, .fuse = head->fuse};
    const size_t n_in = (size_t)head->n_in, n = n_in + (size_t)head->n_out;
    node.name = take_text(c);
    node.op_type = take_text(c);
    node.domain = take_text(c);
    node.op = mo_op_find(node.op_type, node.domain);
    node.n_in = head->n_in;
    node.n_out = head->n_out;
    node.n_attrs = head->n_attrs;
    node.attrs = mo_region_array(region, (size_t)node.n_attrs + 1, sizeof *node.attrs);
    struct mo_value *value = mo_region_array(region, n + 1, sizeof *value);
    bool ok = node.attrs && value;
    for (size_t i = 0; ok && i < n; i++) {
        value[i] = take_value(c);
        if (!value[i].data && value[i].dtype != MOIRE_NONE) value[i].data = *operands++;
    }
    for (int i = 0; ok && i < node.n_attrs; i++)
        ok = take_attr(c, region, &node.attrs[i]);
    if (!ok) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a layer on cores");
    const struct mo_op_ctx ctx = {.node = &node,
                                  .env = env,
                                  .n_in = node.n_in,
                                  .n_out = node.n_out,
                                  .in = value,
                                  .out = value + n_in,
                                  .err = err};
    return node.op->run(&ctx);
}

int mo_core_layer_run(const struct mo_env *env, const void *layer, void *const *operands, moire_error *err) {
    struct mo_region *region = mo_region_create(env);
    struct cursor c = {.at = (char *)(uintptr_t)layer};
    if (!region) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a layer on cores");
    const int rc = run(env, region, &c, operands, err);
    mo_region_destroy(region);
    return rc;
}
