/* SPDX-License-Identifier: Apache-2.0
 * image_write.c - a plan to an image; see image.h.  The data is produced twice, first for the sums. */
#include <string.h>
#include "runtime/base/numbers.h"
#include "runtime/plan/image.h"
#include "runtime/plan/versions.h"
#include "variants/packed.h"

enum { ALIGN = 64, PAGE = 4096 };

/* A piece of the data part. */
struct piece {
    const void *data;
    int64_t bytes, offset;
};

struct writer {
    const struct mo_plan *plan;
    const struct mo_env *env;
    char *meta;
    size_t n, cap;
    struct piece *piece;
    int n_pieces, cap_pieces;
    int64_t data_bytes;
    bool failed; /* out of memory */
};

static bool grow(struct writer *w, void *array, size_t used, size_t cap, size_t size, void **out) {
    *out = mo_alloc(w->env, cap * size);
    if (!*out) w->failed = true;
    if (*out && used) memcpy(*out, array, used * size);
    if (*out) mo_free(w->env, array);
    return *out != NULL;
}

/* --- meta --- */
static void put(struct writer *w, const void *bytes, size_t n) {
    if (w->failed) return;
    if (w->cap - w->n < n) {
        size_t cap = 2 * w->cap + n + PAGE;
        void *wider;
        if (!grow(w, w->meta, w->n, cap, 1, &wider)) return;
        w->meta = wider;
        w->cap = cap;
    }
    if (n) memcpy(w->meta + w->n, bytes, n);
    w->n += n;
}

static void put_int(struct writer *w, int64_t value) {
    put(w, &value, sizeof value);
}

static void put_ints(struct writer *w, const int64_t *values, int n) {
    put_int(w, n);
    put(w, values, (size_t)n * sizeof *values);
}

static void put_ids(struct writer *w, const int *ids, int n) {
    put_int(w, n);
    for (int i = 0; i < n; i++)
        put_int(w, ids[i]);
}

static void put_float(struct writer *w, float value) {
    put(w, &value, sizeof value);
}

static void put_bytes(struct writer *w, const char *s, size_t n) {
    put_int(w, (int64_t)n);
    put(w, s, n);
}

static void put_text(struct writer *w, const char *s) {
    put_bytes(w, s, s ? strlen(s) : 0);
}

static void put_shape(struct writer *w, const struct mo_shape *s) {
    put_int(w, s->rank);
    put(w, s->d, s->rank > 0 ? (size_t)s->rank * sizeof *s->d : 0);
}

/* --- data --- */
static int64_t place_data(struct writer *w, const void *data, int64_t bytes) {
    for (int i = 0; i < w->n_pieces; i++)
        if (w->piece[i].data == data && w->piece[i].bytes == bytes) return w->piece[i].offset;
    if (w->n_pieces == w->cap_pieces) {
        int cap = 2 * w->cap_pieces + 64;
        void *wider;
        if (!grow(w, w->piece, (size_t)w->n_pieces, (size_t)cap, sizeof *w->piece, &wider)) return 0;
        w->piece = wider;
        w->cap_pieces = cap;
    }
    struct piece *p = &w->piece[w->n_pieces++];
    *p = (struct piece){data, bytes, w->data_bytes};
    w->data_bytes += mo_round_up(bytes, ALIGN);
    return p->offset;
}

/* Offset and size, or -1 and 0 for what is not there, or -2 and the size for elided weights. */
static void put_data(struct writer *w, const void *data, int64_t bytes, bool elided) {
    put_int(w, data ? place_data(w, data, bytes) : elided ? -2 : -1);
    put_int(w, data || elided ? bytes : 0);
}

/* --- the graph --- */
/* Passes leave tensors behind that nobody reads. */
static bool is_wanted(const struct mo_graph *g, const struct mo_tensor *t) {
    if (t->n_uses) return true;
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i]->alias == t->id) return true;
    return false;
}

static void put_tensor(struct writer *w, const struct mo_graph *g, const struct mo_tensor *t) {
    put_text(w, t->name);
    put_int(w, t->dtype);
    put_shape(w, &t->shape);
    put_int(w, t->layout);
    put_int(w, t->is_input | t->is_output << 1 | t->dynamic << 2 | t->alias_run << 3);
    put_int(w, t->alias);
    put_int(w, t->alias_offset);
    bool wanted = is_wanted(g, t), elided = wanted && !t->data && mo_plan_is_constant(g, t->id);
    put_data(w, wanted ? t->data : NULL, mo_tensor_bytes(t), elided && t->dtype != MOIRE_STRING);
}

static void put_body(struct writer *w, const struct mo_graph *g);

static void put_attr(struct writer *w, const struct mo_attr *a) {
    put_text(w, a->name);
    put_int(w, a->type);
    put_int(w, a->i);
    put_float(w, a->f);
    put_bytes(w, a->s, a->s ? a->s_len : 0);
    put_int(w, a->tensor.dtype);
    put_shape(w, &a->tensor.shape);
    int64_t count = a->type == MO_ATTR_TENSOR ? mo_shape_count(&a->tensor.shape) : 0;
    put_data(w, a->type == MO_ATTR_TENSOR ? a->tensor.data : NULL,
             count * (int64_t)mo_dtype_bytes(a->tensor.dtype), false);
    int n = a->type == MO_ATTR_INTS || a->type == MO_ATTR_FLOATS || a->type == MO_ATTR_STRINGS ? a->n : 0;
    put_int(w, n);
    for (int i = 0; i < n; i++) {
        if (a->type == MO_ATTR_INTS) put_int(w, a->ints[i]);
        if (a->type == MO_ATTR_FLOATS) put_float(w, a->floats[i]);
        if (a->type == MO_ATTR_STRINGS) put_text(w, a->strings[i]);
    }
    put_int(w, a->graph != NULL);
    if (a->graph) put_body(w, a->graph);
}

static void put_node(struct writer *w, const struct mo_node *node) {
    put_text(w, node->name);
    put_text(w, node->op_type);
    put_text(w, node->domain);
    put_int(w, node->opset);
    put_ids(w, node->in, node->n_in);
    put_ids(w, node->out, node->n_out);
    put_int(w, node->fuse.act);
    put_float(w, node->fuse.a);
    put_float(w, node->fuse.b);
    put_int(w, node->fuse.residual);
    put_int(w, node->fuse.residual_last);
    put_int(w, node->fuse.gated);
    put_int(w, node->n_attrs);
    for (int i = 0; i < node->n_attrs; i++)
        put_attr(w, &node->attrs[i]);
}

static void put_body(struct writer *w, const struct mo_graph *g) {
    put_text(w, g->name);
    put_int(w, g->opset);
    put_int(w, g->exact);
    put_int(w, g->halves);
    put_int(w, g->terms);
    put_int(w, g->halves_by_vectors);
    put_int(w, (int)g->float16);
    put_int(w, g->n_tensors);
    for (int i = 0; i < g->n_tensors; i++)
        put_tensor(w, g, g->tensors[i]);
    put_int(w, g->n_nodes);
    for (int i = 0; i < g->n_nodes; i++)
        put_node(w, g->nodes[i]);
    put_ids(w, g->inputs, g->n_inputs);
    put_ids(w, g->outputs, g->n_outputs);
    put_int(w, g->n_captured);
}

static void put_graph(struct writer *w, const struct mo_graph *g) {
    put_body(w, g);
    put_int(w, g->n_meta);
    for (int i = 0; i < g->n_meta; i++) {
        put_text(w, g->meta_key[i]);
        put_text(w, g->meta_value[i]);
    }
    put_int(w, g->n_outside);
    for (int i = 0; i < g->n_outside; i++)
        put_text(w, g->outside[i]);
}

/* A place of packed weights; returns how many. */
static int put_place(struct writer *w, const void *weights, bool write) {
    const struct mo_packed_place *p = mo_packed_find(w->plan->graph->packed, weights);
    if (!p) return 0;
    if (!write) return 1;
    put_int(w, p->node);
    put_int(w, p->turn);
    put_int(w, p->packing);
    put_int(w, p->bytes);
    put_data(w, p->data, p->bytes, false);
    return 1;
}

/* Whether an earlier version of the step has the same weights. */
static bool is_shared(const struct mo_step *step, int version) {
    for (int i = 0; i < version; i++)
        if (step->version[i].weights == step->version[version].weights) return true;
    return false;
}

/* The places that steps and their versions use; others were made by binders that withdrew or were replaced.
 * Those of versions come last: what nobody runs lies together. */
static int put_places(struct writer *w, bool write) {
    int n = 0;
    for (int k = 0; k < w->plan->n_steps; k++)
        n += put_place(w, w->plan->steps[k].weights, write);
    for (int k = 0; k < w->plan->n_steps; k++)
        for (int i = 1; i < w->plan->steps[k].n_versions; i++)
            if (!is_shared(&w->plan->steps[k], i))
                n += put_place(w, w->plan->steps[k].version[i].weights, write);
    return n;
}

static void put_packed(struct writer *w) {
    put_int(w, put_places(w, false));
    put_places(w, true);
}

static void put_times(struct writer *w, const struct mo_image_times *times) {
    put_ints(w, times->cores, times->n);
    put_ints(w, times->ns, times->n * times->n_layers);
}

/* --- the whole --- */
struct sink {
    int (*put)(void *ctx, const void *bytes, size_t n);
    void *ctx;
};

static int pad_to(const struct sink *s, size_t from, size_t to) {
    static const char zeros[PAGE];
    int rc = 0;
    for (size_t at = from; !rc && at < to; at += sizeof zeros)
        rc = s->put(s->ctx, zeros, to - at < sizeof zeros ? to - at : sizeof zeros);
    return rc;
}

static int put_pieces(const struct writer *w, const struct sink *s) {
    int rc = 0;
    for (int i = 0; !rc && i < w->n_pieces; i++) {
        size_t bytes = (size_t)w->piece[i].bytes;
        if (bytes) rc = s->put(s->ctx, w->piece[i].data, bytes);
        if (!rc) rc = pad_to(s, bytes, mo_round_up_bytes(bytes, ALIGN));
    }
    return rc;
}

/* Sums the parts of what is put in any portions. */
struct summing {
    struct mo_sum *part; /* [mo_image_parts(all)] */
    uint64_t at;         /* a multiple of MO_SUM_STRIPE */
    char stripe[MO_SUM_STRIPE];
    size_t used;
};

/* Whole stripes. */
static void sum_stripes(struct summing *s, const char *p, size_t n) {
    while (n) {
        const uint64_t inside = s->at % MO_IMAGE_PART, left = MO_IMAGE_PART - inside;
        struct mo_sum *part = &s->part[s->at / MO_IMAGE_PART];
        size_t take = n < left ? n : (size_t)left;
        if (!inside) mo_sum_init(part);
        mo_sum_add(part, p, take);
        p += take, n -= take, s->at += take;
    }
}

static int put_sum(void *ctx, const void *bytes, size_t n) {
    struct summing *s = ctx;
    const char *p = bytes;
    while (n) {
        size_t whole = s->used ? 0 : n / MO_SUM_STRIPE * MO_SUM_STRIPE;
        if (whole) {
            sum_stripes(s, p, whole);
            p += whole;
            n -= whole;
            continue;
        }
        size_t part = MO_SUM_STRIPE - s->used < n ? MO_SUM_STRIPE - s->used : n;
        memcpy(s->stripe + s->used, p, part);
        s->used = (s->used + part) % MO_SUM_STRIPE;
        if (!s->used) sum_stripes(s, s->stripe, MO_SUM_STRIPE);
        p += part;
        n -= part;
    }
    return 0;
}

static void put_zeros(struct writer *w, size_t n) {
    static const char zeros[PAGE];
    for (size_t part; n; n -= part)
        put(w, zeros, part = n < sizeof zeros ? n : sizeof zeros);
}

/* The sums of the data behind the meta, so that they end with a page; the head, whose key is there. */
static void put_sums(struct writer *w, struct mo_image_head *head) {
    const size_t parts = (size_t)mo_image_parts((uint64_t)w->data_bytes);
    struct mo_sum *sum = mo_alloc(w->env, (parts + 1) * sizeof *sum);
    struct summing summing = {.part = sum};
    const struct sink sink = {put_sum, &summing};
    if (!sum) w->failed = true;
    if (w->failed) {
        mo_free(w->env, sum);
        return;
    }
    put_pieces(w, &sink);
    head->meta_bytes = w->n;
    const size_t end = sizeof *head + w->n + parts * sizeof *sum;
    put_zeros(w, (PAGE - end % PAGE) % PAGE);
    put(w, sum, parts * sizeof *sum);
    head->data_offset = sizeof *head + w->n;
    head->bytes = head->data_offset + (uint64_t)w->data_bytes;
    mo_free(w->env, sum);
    if (w->failed) return;
    head->sum = mo_image_sum(head, w->meta, w->n);
}

int mo_image_write(const struct mo_plan *plan, const char key[MO_IMAGE_KEY],
                   const struct mo_image_times *times, int (*put_out)(void *ctx, const void *bytes, size_t n),
                   void *ctx, moire_error *err) {
    struct writer w = {.plan = plan, .env = plan->env};
    struct mo_image_head head = {.magic = "MOIREIMG", .format = MO_IMAGE_FORMAT, .endian = 0x01020304};
    const struct sink out = {put_out, ctx};
    memcpy(head.key, key, MO_IMAGE_KEY);
    put_graph(&w, plan->graph);
    put_packed(&w);
    put_times(&w, times);
    put_sums(&w, &head);
    int rc = w.failed ? mo_fail(err, MOIRE_ENOMEM, "out of memory writing a compiled model") : MOIRE_OK;
    if (!rc) rc = put_out(ctx, &head, sizeof head);
    if (!rc) rc = put_out(ctx, w.meta, w.n);
    if (!rc) rc = put_pieces(&w, &out);
    mo_free(w.env, w.meta);
    mo_free(w.env, w.piece);
    return rc;
}

bool mo_image_record(struct mo_graph *graph) {
    graph->packed = mo_region_alloc(graph->region, sizeof *graph->packed);
    if (graph->packed) graph->packed->node = -1;
    return graph->packed != NULL;
}
