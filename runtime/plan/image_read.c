/* SPDX-License-Identifier: Apache-2.0
 * image_read.c - an image to a graph that uses it where it lies; see image.h.
 *
 * Numbers come through a cursor that notices the end; every count, index and range is checked before use. */
#include <stdlib.h>
#include <string.h>
#include "runtime/ops/op.h"
#include "runtime/plan/image.h"
#include "variants/packed.h"

enum { ELIDED_BYTES = 128 << 10, MOST_CORE_COUNTS = 1024, MOST_DEPTH = 64 };

struct reader {
    const char *at, *end;
    const char *data; /* the data part */
    int64_t data_bytes;
    struct mo_graph *g;
    int64_t elided_bytes; /* of the largest elided tensor */
    int depth;            /* of bodies within bodies */
    bool bad, no_memory;
};

static void get(struct reader *r, void *out, size_t n) {
    if (r->bad || (size_t)(r->end - r->at) < n) {
        r->bad = true;
        memset(out, 0, n);
        return;
    }
    memcpy(out, r->at, n);
    r->at += n;
}

static int64_t get_int(struct reader *r) {
    int64_t value;
    get(r, &value, sizeof value);
    return value;
}

/* A number in [least, most]; `least` when it is not. */
static int64_t get_between(struct reader *r, int64_t least, int64_t most) {
    int64_t value = get_int(r);
    if (value >= least && value <= most) return value;
    r->bad = true;
    return least;
}

static float get_float(struct reader *r) {
    float value;
    get(r, &value, sizeof value);
    return value;
}

/* A count of things of which each takes at least `size` bytes of what is left. */
static int get_count(struct reader *r, size_t size) {
    int64_t left = (int64_t)((size_t)(r->end - r->at) / size);
    return (int)get_between(r, 0, left < INT32_MAX ? left : INT32_MAX);
}

static void *room(struct reader *r, size_t n, size_t size) {
    void *p = r->bad ? NULL : mo_region_array(r->g->region, n + 1, size);
    if (!p) r->no_memory = r->no_memory || !r->bad;
    if (!p) r->bad = true;
    return p;
}

/* Never NULL. */
static const char *get_bytes(struct reader *r, size_t *n) {
    *n = (size_t)get_count(r, 1);
    char *s = room(r, *n, 1);
    if (!s) return "";
    get(r, s, *n);
    return s;
}

static const char *get_text(struct reader *r) {
    size_t n;
    const char *s = get_bytes(r, &n);
    if (strlen(s) != n) r->bad = true;
    return s;
}

static struct mo_shape get_shape(struct reader *r) {
    struct mo_shape s = {.rank = (int)get_between(r, -1, MOIRE_MAX_RANK)};
    for (int i = 0; i < s.rank; i++)
        s.d[i] = get_int(r);
    return s;
}

static const int64_t *get_ints(struct reader *r, int *n) {
    *n = get_count(r, sizeof(int64_t));
    int64_t *list = room(r, (size_t)*n, sizeof *list);
    if (list) get(r, list, (size_t)*n * sizeof *list);
    return list;
}

/* `n` ids in [least, limit). */
static void get_ids(struct reader *r, int *out, int n, int least, int limit) {
    for (int i = 0; i < n; i++)
        out[i] = (int)get_between(r, least, limit - 1);
}

/* Contents of `bytes` bytes; NULL: none, or *elided. */
static void *get_data(struct reader *r, int64_t bytes, bool *elided) {
    int64_t offset = get_int(r), size = get_int(r);
    *elided = offset == -2;
    if (offset < 0) return NULL;
    if (size != bytes || size < 0 || offset > r->data_bytes || size > r->data_bytes - offset) {
        r->bad = true;
        return NULL;
    }
    return (void *)(uintptr_t)(r->data + offset);
}

static void get_tensor(struct reader *r, bool *elided, int n_tensors) {
    const char *name = get_text(r);
    moire_dtype dtype = (moire_dtype)get_between(r, 0, 255);
    struct mo_shape shape = get_shape(r);
    struct mo_tensor *t = r->bad ? NULL : mo_graph_add_tensor(r->g, name, dtype, &shape);
    if (!t) {
        r->no_memory = r->no_memory || !r->bad;
        r->bad = true;
        return;
    }
    t->layout = (enum mo_layout)get_between(r, MO_PLAIN, MO_C16_HALVES);
    int64_t flags = get_between(r, 0, 15);
    t->is_input = flags & 1, t->is_output = flags >> 1 & 1, t->dynamic = flags >> 2 & 1;
    t->alias_run = flags >> 3 & 1;
    t->alias = (int)get_between(r, -1, n_tensors - 1);
    t->alias_offset = get_int(r);
    int64_t bytes = mo_tensor_bytes(t);
    t->data = get_data(r, bytes, elided);
    if (*elided && bytes > r->elided_bytes) r->elided_bytes = bytes;
}

static void get_list(struct reader *r, struct mo_attr *a) {
    int64_t *ints = a->type == MO_ATTR_INTS ? room(r, (size_t)a->n, sizeof *ints) : NULL;
    float *floats = a->type == MO_ATTR_FLOATS ? room(r, (size_t)a->n, sizeof *floats) : NULL;
    const char **strings = a->type == MO_ATTR_STRINGS ? room(r, (size_t)a->n, sizeof *strings) : NULL;
    for (int i = 0; i < a->n && !r->bad; i++) {
        if (ints) ints[i] = get_int(r);
        if (floats) floats[i] = get_float(r);
        if (strings) strings[i] = get_text(r);
    }
    a->ints = ints, a->floats = floats, a->strings = strings;
}

static bool *get_body(struct reader *r);

/* The graph in an attribute, into memory of the graph around it. */
static struct mo_graph *get_attr_graph(struct reader *r) {
    struct reader inner = *r;
    inner.g = r->depth < MOST_DEPTH ? mo_graph_add_body(r->g) : NULL;
    inner.depth++;
    inner.elided_bytes = -1;
    if (!inner.g) {
        r->bad = true;
        return NULL;
    }
    (void)get_body(&inner);
    /* bodies hold all that they read */
    inner.bad = inner.bad || inner.elided_bytes >= 0 || inner.g->n_captured > inner.g->n_inputs;
    if (!inner.bad) mo_graph_index(inner.g);
    if (!inner.bad && mo_graph_check(inner.g, NULL)) inner.bad = true;
    r->at = inner.at;
    r->bad = inner.bad;
    r->no_memory = inner.no_memory;
    return inner.g;
}

static void get_attr(struct reader *r, struct mo_node *node) {
    bool elided;
    const char *name = get_text(r);
    enum mo_attr_type type = (enum mo_attr_type)get_between(r, MO_ATTR_INT, MO_ATTR_OTHER);
    struct mo_attr *a = r->bad ? NULL : mo_node_add_attr(r->g, node, name, type);
    if (!a) {
        r->no_memory = r->no_memory || !r->bad;
        r->bad = true;
        return;
    }
    a->i = get_int(r);
    a->f = get_float(r);
    a->s = get_bytes(r, &a->s_len);
    a->tensor.dtype = (moire_dtype)get_between(r, 0, 255);
    a->tensor.shape = get_shape(r);
    int64_t count = type == MO_ATTR_TENSOR ? mo_shape_count(&a->tensor.shape) : 0;
    a->tensor.data = get_data(r, count * (int64_t)mo_dtype_bytes(a->tensor.dtype), &elided);
    a->n = get_count(r, sizeof(float));
    get_list(r, a);
    if (get_between(r, 0, 1)) a->graph = get_attr_graph(r);
}

static void get_node(struct reader *r) {
    struct mo_graph *g = r->g;
    const char *name = get_text(r), *op_type = get_text(r), *domain = get_text(r);
    int opset = (int)get_between(r, 0, INT32_MAX), n_in = get_count(r, sizeof(int64_t));
    int *in = room(r, (size_t)n_in, sizeof *in);
    if (in) get_ids(r, in, n_in, -1, g->n_tensors);
    int n_out = get_count(r, sizeof(int64_t));
    struct mo_node *node = r->bad ? NULL : mo_graph_add_node(g, name, op_type, domain, n_in, n_out);
    if (!node) {
        r->no_memory = r->no_memory || !r->bad;
        r->bad = true;
        return;
    }
    memcpy(node->in, in, (size_t)n_in * sizeof *in);
    get_ids(r, node->out, n_out, -1, g->n_tensors);
    node->opset = opset;
    node->op = mo_op_find(op_type, domain);
    node->fuse.act = (enum mo_act)get_between(r, 0, MO_ACT_COUNT - 1);
    node->fuse.a = get_float(r);
    node->fuse.b = get_float(r);
    node->fuse.residual = (int)get_between(r, -1, n_in - 1);
    node->fuse.residual_last = get_between(r, 0, 1);
    node->fuse.gated = get_between(r, 0, n_in > MO_GATE_IN);
    char problem[200];
    if (!r->bad && node->op && !mo_op_has_operands(node, problem, sizeof problem)) r->bad = true;
    int n = get_count(r, sizeof(int64_t));
    for (int i = 0; i < n && !r->bad; i++)
        get_attr(r, node);
}

static int *get_ports(struct reader *r, int *n) {
    *n = get_count(r, sizeof(int64_t));
    int *ids = room(r, (size_t)*n, sizeof *ids);
    if (ids) get_ids(r, ids, *n, 0, r->g->n_tensors);
    return ids;
}

static const char **get_texts(struct reader *r, int n) {
    const char **texts = room(r, (size_t)n, sizeof *texts);
    for (int i = 0; i < n && !r->bad; i++)
        texts[i] = get_text(r);
    return texts;
}

/* Hollow tensors get an address that looks like contents: nobody may read it, and pages that nobody touches
 * take no memory. */
static void fill_elided(struct reader *r, const bool *elided) {
    struct mo_graph *g = r->g;
    size_t bytes = r->elided_bytes > ELIDED_BYTES ? (size_t)r->elided_bytes : ELIDED_BYTES;
    void *nothing = r->bad ? NULL : mo_region_reserve(g->region, bytes);
    if (!nothing) {
        r->no_memory = r->no_memory || !r->bad;
        r->bad = true;
        return;
    }
    g->packed->elided = nothing;
    for (int i = 0; i < g->n_tensors; i++)
        if (elided[i]) g->tensors[i]->data = nothing;
}

/* A graph but for what belongs to a whole model; which tensors are elided. */
static bool *get_body(struct reader *r) {
    struct mo_graph *g = r->g;
    g->name = get_text(r);
    g->opset = (int)get_between(r, 0, INT32_MAX);
    g->exact = get_between(r, 0, 1);
    g->halves = get_between(r, 0, 1);
    g->terms = (enum mo_terms)get_between(r, MO_TERMS_NEVER, MO_TERMS_ALWAYS);
    g->halves_by_vectors = get_between(r, 0, 1);
    g->float16 = (enum mo_float16)get_between(r, MO_FLOAT16_NONE, MO_FLOAT16_ROUNDED);
    int n = get_count(r, sizeof(int64_t));
    bool *elided = room(r, (size_t)n, sizeof *elided);
    for (int i = 0; i < n && !r->bad; i++)
        get_tensor(r, &elided[i], n);
    n = get_count(r, sizeof(int64_t));
    for (int i = 0; i < n && !r->bad; i++)
        get_node(r);
    g->inputs = get_ports(r, &g->n_inputs);
    g->outputs = get_ports(r, &g->n_outputs);
    g->n_captured = get_count(r, 1);
    return elided;
}

static void get_graph(struct reader *r) {
    struct mo_graph *g = r->g;
    bool *elided = get_body(r);
    g->n_meta = get_count(r, 2 * sizeof(int64_t));
    g->meta_key = room(r, (size_t)g->n_meta, sizeof *g->meta_key);
    g->meta_value = room(r, (size_t)g->n_meta, sizeof *g->meta_value);
    for (int i = 0; i < g->n_meta && !r->bad; i++) {
        g->meta_key[i] = get_text(r);
        g->meta_value[i] = get_text(r);
    }
    g->n_outside = get_count(r, sizeof(int64_t));
    g->outside = get_texts(r, g->n_outside);
    fill_elided(r, elided);
}

static void get_packed(struct reader *r) {
    struct mo_packed_places *p = r->g->packed;
    p->n = p->cap = get_count(r, 5 * sizeof(int64_t));
    p->place = room(r, (size_t)p->n, sizeof *p->place);
    for (int i = 0; i < p->n && !r->bad; i++) {
        bool elided;
        struct mo_packed_place *place = &p->place[i];
        place->node = (int)get_between(r, 0, r->g->n_nodes - 1);
        place->turn = (int)get_between(r, 0, INT32_MAX);
        place->packing = (int)get_between(r, 0, INT32_MAX);
        place->bytes = get_int(r);
        place->data = get_data(r, place->bytes, &elided);
        if (!place->data) r->bad = true;
    }
}

static void get_times(struct reader *r, struct mo_image_times *times) {
    int cells;
    times->cores = get_ints(r, &times->n);
    times->ns = get_ints(r, &cells);
    times->n_layers = r->g->n_nodes;
    if (times->n > MOST_CORE_COUNTS || cells != times->n * times->n_layers) r->bad = true;
}

int mo_image_load(const struct mo_env *env, const void *image, size_t n, const char key[MO_IMAGE_KEY],
                  struct mo_graph **out, struct mo_image_times *times, moire_error *err) {
    *out = NULL;
    int rc = mo_image_check_head(image, n, key, err);
    if (rc) return rc;
    const struct mo_image_head *head = image;
    struct mo_graph *g = mo_graph_create(env);
    if (!g || !mo_image_record(g)) {
        mo_graph_destroy(g);
        return mo_fail(err, MOIRE_ENOMEM, "out of memory reading a compiled model");
    }
    g->packed->ready = true;
    struct reader r = {.g = g,
                       .at = (const char *)(head + 1),
                       .end = (const char *)(head + 1) + head->meta_bytes,
                       .data = (const char *)image + head->data_offset,
                       .data_bytes = (int64_t)(n - head->data_offset)};
    get_graph(&r);
    get_packed(&r);
    get_times(&r, times);
    if (!r.bad) mo_graph_index(g);
    if (!r.bad && !mo_graph_check(g, err)) {
        *out = g;
        return MOIRE_OK;
    }
    mo_graph_destroy(g);
    return r.no_memory ? mo_fail(err, MOIRE_ENOMEM, "out of memory reading a compiled model")
                       : mo_fail(err, MOIRE_ESTORE, "malformed compiled model");
}
