/* SPDX-License-Identifier: Apache-2.0
 * harness.c - layers out of models, and their buffers; see harness.h. */
#include "codegen/search/harness.h"

#include <math.h>
#include <string.h>
#include "codegen/search/small_layer.h"
#include "variants/conv_geometry.h"
#include "variants/matmul_rows.h"
#include "variants/matrix/matrix.h"

enum { CACHE_BYTES = 40 << 20, IMAGE_GAP = 3 * 64 };

/* Makes t a slice: its images lie `stride` bytes apart in a larger tensor. */
static bool slice(struct mo_graph *graph, struct mo_tensor *t, int64_t stride) {
    struct mo_shape whole = {.rank = 2, .d = {t->shape.d[0], stride / (int64_t)mo_dtype_bytes(t->dtype)}};
    const struct mo_tensor *around = mo_graph_add_tensor(graph, "around", t->dtype, &whole);
    if (around) t->alias = around->id;
    return around != NULL;
}

/* A tensor of the copy: zeroed constant, activation, or a slice where the model has one. */
static struct mo_tensor *clone_tensor(const struct mo_graph *from, const struct mo_tensor *t, bool constant,
                                      struct mo_graph *graph) {
    struct mo_tensor *c = constant ? mo_graph_add_const(graph, "t", t->dtype, &t->shape)
                                   : mo_graph_add_tensor(graph, "t", t->dtype, &t->shape);
    if (!c) return NULL;
    c->layout = t->layout;
    if (constant || mo_dense(from, t)) return c;
    return slice(graph, c, mo_alias_stride(from, t->id)) ? c : NULL;
}

/* Copies one node and its tensors; constants get zeroed storage when with_data. */
static int clone(const struct mo_env *env, const struct mo_graph *from, const struct mo_node *node,
                 const bool *constant, bool with_data, struct mo_graph **graph, struct mo_node **copy) {
    *graph = mo_graph_create(env);
    *copy = *graph ? mo_graph_add_node(*graph, "layer", node->op_type, node->domain, node->n_in, node->n_out)
                   : NULL;
    if (!*copy) return MOIRE_ENOMEM;
    (*graph)->exact = from->exact;
    (*graph)->terms = from->terms;
    struct mo_node *n = *copy;
    n->op = node->op;
    n->opset = node->opset;
    n->fuse = node->fuse;
    for (int i = 0; i < node->n_attrs; i++) {
        struct mo_attr *a = mo_node_add_attr(*graph, n, node->attrs[i].name, node->attrs[i].type);
        if (!a) return MOIRE_ENOMEM;
        const char *name = a->name;
        *a = node->attrs[i]; /* the contents stay in the older graph, which lives longer */
        a->name = name;
    }
    for (int i = 0; i < node->n_in + node->n_out; i++) {
        bool in = i < node->n_in;
        int id = in ? node->in[i] : node->out[i - node->n_in];
        int *slot = in ? &n->in[i] : &n->out[i - node->n_in];
        *slot = -1;
        if (id < 0) continue;
        const struct mo_tensor *t = from->tensors[id];
        const struct mo_tensor *c = clone_tensor(from, t, in && constant[i] && with_data, *graph);
        if (!c) return MOIRE_ENOMEM;
        *slot = c->id;
    }
    mo_graph_index(*graph);
    return MOIRE_OK;
}

/* Copies what attributes point to, so that the layer outlives its model. */
static bool own_attributes(struct mo_graph *graph, struct mo_node *node) {
    for (int i = 0; i < node->n_attrs; i++) {
        struct mo_attr *a = &node->attrs[i];
        if (a->s && !(a->s = mo_region_string(graph->region, a->s, a->s_len))) return false;
        if (a->ints) {
            int64_t *copy = mo_region_array(graph->region, (size_t)a->n, sizeof *copy);
            if (!copy) return false;
            memcpy(copy, a->ints, (size_t)a->n * sizeof *copy);
            a->ints = copy;
        }
        a->floats = NULL;
        a->strings = NULL;
        a->tensor = (struct mo_value){0};
    }
    return true;
}

int mo_layer_create(const struct mo_graph *graph, const struct mo_node *node,
                    const struct mo_problem *problem, struct mo_layer *out, moire_error *err) {
    *out = (struct mo_layer){.problem = *problem};
    if (node->n_in > MO_KERNEL_IN || node->n_out != 1)
        return mo_fail(err, MOIRE_EUNSUPPORTED, "layer with %d inputs and %d outputs", node->n_in,
                       node->n_out);
    for (int i = 0; i < node->n_in; i++)
        out->constant[i] = node->in[i] >= 0 && graph->tensors[node->in[i]]->data;
    int rc = clone(graph->env, graph, node, out->constant, false, &out->graph, &out->node);
    if (rc || !own_attributes(out->graph, out->node)) {
        mo_layer_destroy(out);
        return mo_fail(err, MOIRE_ENOMEM, "out of memory copying a layer");
    }
    const struct mo_problem *p = problem;
    out->flops = 2 * p->n * p->o * p->oh * p->ow * (p->c / (p->groups > 0 ? p->groups : 1)) * p->kh * p->kw;
    return MOIRE_OK;
}

void mo_layer_destroy(struct mo_layer *layer) {
    if (layer->graph) mo_graph_destroy(layer->graph);
    layer->graph = NULL;
}

/* --- data --- */

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1dULL;
}

/* Uniform in [-1, 1). */
static float uniform(uint64_t *state) {
    return (float)(int32_t)(next_random(state) >> 32) * 0x1p-31f;
}

static void fill_random(float *to, int64_t n, uint64_t seed, float scale) {
    uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
    for (int64_t i = 0; i < n; i++)
        to[i] = uniform(&state) * scale;
}

/* Mostly zeros, among them signed ones, large, small and negative values. */
static void fill_edges(float *to, int64_t n, uint64_t seed) {
    static const float values[8] = {0, -0.0f, 1e4f, -1e4f, 1e-30f, -1, 1, 0};
    uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 7;
    for (int64_t i = 0; i < n; i++)
        to[i] = values[next_random(&state) >> 61];
}

/* Bytes from the first to the last of a tensor's images. */
static size_t extent(const struct mo_harness *h, const struct mo_tensor *t) {
    if (mo_dense(h->graph, t)) return (size_t)mo_tensor_bytes(t);
    return (size_t)((t->shape.d[0] - 1) * mo_alias_stride(h->graph, t->id) + mo_tensor_image_bytes(t));
}

/* NaN between the images of a slice: a kernel that reads what is not its own shows it. */
static void fill_gaps(const struct mo_harness *h, const struct mo_tensor *t, float *to) {
    if (mo_dense(h->graph, t)) return;
    int64_t image = mo_tensor_image_bytes(t), stride = mo_alias_stride(h->graph, t->id);
    for (int64_t n = 0; n + 1 < t->shape.d[0]; n++)
        memset((char *)to + n * stride + image, 0xff, (size_t)(stride - image));
}

void mo_harness_fill(struct mo_harness *h, enum mo_trial_data dataset) {
    for (int i = 0; i < h->node->n_in; i++) {
        if (!h->input[i]) continue;
        const struct mo_tensor *t = h->graph->tensors[h->node->in[i]];
        int64_t n = (int64_t)(extent(h, t) / mo_dtype_bytes(t->dtype));
        if (t->dtype == MOIRE_U8)
            mo_small_fill(h, dataset, (uint64_t)i + 1, h->input[i], n);
        else if (dataset == MO_DATA_EDGES)
            fill_edges(h->input[i], n, (uint64_t)i + 1);
        else
            fill_random(h->input[i], n, (uint64_t)i + 1, 1);
        fill_gaps(h, t, h->input[i]);
    }
}

/* --- harness --- */

static void make_constants(struct mo_harness *h) {
    if (mo_is_qconv(h->node)) {
        mo_small_constants(h);
        return;
    }
    for (int i = 0; i < h->node->n_in; i++) {
        if (h->node->in[i] < 0) continue;
        const struct mo_tensor *t = h->graph->tensors[h->node->in[i]];
        int64_t n = mo_shape_count(&t->shape);
        if (!t->data || t->dtype != MOIRE_F32) continue;
        int64_t fan_in = t->shape.rank == 4 ? n / t->shape.d[0] : t->shape.rank == 2 ? t->shape.d[0] : 1;
        fill_random(t->data, n, 100 + (uint64_t)i, t->shape.rank > 1 ? sqrtf(6.0f / (float)fan_in) : 0.5f);
    }
}

/* Convolutions get their strides between images at run time: here images always lie apart. */
static bool spread(struct mo_harness *h) {
    const struct mo_node *node = h->node;
    if (strcmp(node->op_type, "Conv") && strcmp(node->op_type, "QConv")) return true;
    for (int i = 0; i < node->n_in + node->n_out; i++) {
        int id = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
        struct mo_tensor *t = id < 0 ? NULL : h->graph->tensors[id];
        if (!t || t->data || t->alias >= 0 || t->shape.d[0] < 2) continue;
        if (!slice(h->graph, t, mo_tensor_image_bytes(t) + IMAGE_GAP)) return false;
    }
    return true;
}

/* In pages as large as a model's arena and scratch have: kernels must be ranked as they will run. */
static bool make_buffers(struct mo_harness *h) {
    const struct mo_env *env = h->env;
    for (int i = 0; i < h->node->n_in; i++) {
        if (h->node->in[i] < 0) continue;
        const struct mo_tensor *t = h->graph->tensors[h->node->in[i]];
        h->args.in[i] = t->data;
        h->args.in_image[i] = mo_alias_stride(h->graph, t->id);
        if (t->data) continue;
        h->input[i] = mo_alloc_scratch(env, extent(h, t));
        if (!h->input[i]) return false;
        h->args.in[i] = h->input[i];
    }
    h->output_bytes = extent(h, h->out);
    h->output = mo_alloc_scratch(env, h->output_bytes + 2 * MO_GUARD_BYTES);
    if (!h->output) return false;
    h->args.out[0] = h->output + MO_GUARD_BYTES;
    h->args.out_image[0] = mo_alias_stride(h->graph, h->out->id);
    int residual = h->node->fuse.residual;
    if (residual >= 0) {
        h->args.residual = h->args.in[residual];
        h->args.residual_image = h->args.in_image[residual];
    }
    return true;
}

/* A bias for kernels when binding a generic kernel made none. */
static bool make_bias(struct mo_harness *h) {
    bool conv = !strcmp(h->node->op_type, "Conv") || !strcmp(h->node->op_type, "QConv");
    int channels = h->out->shape.rank == 4 && conv ? 1 : h->out->shape.rank - 1;
    int64_t n = h->out->shape.d[channels];
    h->bias = mo_alloc(h->env, ((size_t)n + 64) * sizeof *h->bias);
    if (!h->bias) return false;
    int b = h->node->n_in > 2 && !mo_is_qconv(h->node) && h->node->fuse.residual != 2 ? h->node->in[2] : -1;
    if (b >= 0 && h->graph->tensors[b]->data)
        memcpy(h->bias, h->graph->tensors[b]->data, (size_t)n * sizeof *h->bias);
    h->args.bias = h->step.bias ? h->step.bias : h->bias;
    h->args.weights = h->step.weights;
    return true;
}

/* Copies enough to fill a shared cache; one is enough for weights larger than that. */
static bool replicate(struct mo_harness *h, const void *first, int64_t bytes, struct mo_packed *p) {
    p->copy[p->n++] = first;
    while (bytes > 0 && bytes <= CACHE_BYTES && p->n < MO_WEIGHT_COPIES &&
           p->n * bytes < CACHE_BYTES + bytes) {
        void *copy = mo_region_alloc(h->region, (size_t)bytes);
        if (!copy) return false;
        memcpy(copy, first, (size_t)bytes);
        p->copy[p->n++] = copy;
    }
    return true;
}

int mo_harness_pack(struct mo_harness *h, int32_t packing, moire_error *err) {
    if (packing < MO_PACK_NONE || packing >= MO_PACK_COUNT)
        return mo_fail(err, MOIRE_EUNSUPPORTED, "weights have no packing %d", (int)packing);
    if (packing == MO_PACK_NONE || h->packed[packing].n) return MOIRE_OK;
    const float *bias;
    const void *first;
    int rc = mo_pack_weights((enum mo_packing)packing, h->graph, h->node, h->region, &first, &bias, err);
    if (rc) return rc;
    int64_t bytes = mo_pack_bytes((enum mo_packing)packing, h->graph, h->node);
    h->packed[packing].bias = bias;
    return replicate(h, first, bytes, &h->packed[packing])
               ? MOIRE_OK
               : mo_fail(err, MOIRE_ENOMEM, "out of memory: copies of the packed weights");
}

/* Copies of what the generic kernel packed. */
static bool copy_weights(struct mo_harness *h) {
    if (!h->step.weights) return true;
    return replicate(h, h->step.weights, mo_pack_bytes(h->step.packing, h->graph, h->node),
                     &h->packed[h->step.packing]);
}

/* For layers of bytes vectors behind a matrix unit's interface: those on a true one are not searched.  Floats
 * have the true one to win against. */
static void set_units(const struct mo_problem *p, struct mo_binder *binder) {
    const enum mo_matrix_type type = p->dot ? MO_MATRIX_BYTES : MO_MATRIX_FLOATS;
    const struct mo_matrix_unit *unit = mo_matrix_of(p->isa, type);
    if (unit && (unit->vectors || !p->dot)) binder->unit[type] = unit;
}

int mo_harness_create(const struct mo_env *env, const struct mo_layer *layer, struct mo_harness *h,
                      moire_error *err) {
    *h = (struct mo_harness){.env = env};
    int rc = clone(env, layer->graph, layer->node, layer->constant, true, &h->graph, &h->node);
    h->region = mo_region_create(env);
    if (!rc && !spread(h)) rc = MOIRE_ENOMEM;
    if (!rc && h->region) {
        h->out = h->graph->tensors[h->node->out[0]];
        make_constants(h);
        struct mo_binder binder = {
            .env = env, .region = h->region, .isa = layer->problem.isa, .graph = h->graph};
        set_units(&layer->problem, &binder);
        h->step = (struct mo_step){.node = h->node, .units = 1};
        rc = mo_bind_generic(&binder, h->node, &h->step, err);
        if (rc == MOIRE_EUNSUPPORTED) rc = MOIRE_OK;
        if (!rc && (!make_buffers(h) || !make_bias(h) || !copy_weights(h))) rc = MOIRE_ENOMEM;
    }
    if (!rc && !h->region) rc = MOIRE_ENOMEM;
    if (!rc) return MOIRE_OK;
    mo_harness_destroy(h);
    return rc == MOIRE_ENOMEM ? mo_fail(err, rc, "out of memory preparing layer %s", layer->problem.signature)
                              : rc;
}

void mo_harness_destroy(struct mo_harness *h) {
    if (h->graph) mo_graph_destroy(h->graph);
    mo_region_destroy(h->region);
    for (int i = 0; i < MO_KERNEL_IN; i++)
        mo_free(h->env, h->input[i]);
    mo_free(h->env, h->output);
    mo_free(h->env, h->scratch);
    mo_free(h->env, h->bias);
    mo_free(h->env, h->golden);
    *h = (struct mo_harness){.env = h->env};
}

struct mo_runnable mo_harness_generic(const struct mo_harness *h) {
    return (struct mo_runnable){h->step.run,
                                h->step.params,
                                h->step.units,
                                h->step.scratch_bytes,
                                h->step.weights ? h->step.packing : MO_PACK_NONE,
                                h->step.mixes};
}

int mo_harness_reserve(struct mo_harness *h, size_t bytes, moire_error *err) {
    if (h->scratch && bytes == h->scratch_bytes) return MOIRE_OK;
    mo_free(h->env, h->scratch);
    h->scratch = mo_alloc_scratch(h->env, bytes + MO_GUARD_BYTES);
    h->scratch_bytes = h->scratch ? bytes : 0;
    return h->scratch ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory: scratch of %zu bytes", bytes);
}

struct mo_kargs mo_harness_args(struct mo_harness *h, const struct mo_runnable *r) {
    struct mo_kargs args = h->args;
    args.params = r->params ? r->params : h->step.compiled_params;
    const struct mo_packed *packed = &h->packed[r->packing];
    if (packed->bias) args.bias = packed->bias;
    if (packed->n) args.weights = packed->copy[h->turn++ % packed->n];
    return args;
}

void mo_harness_run(struct mo_harness *h, const struct mo_runnable *r, int pieces) {
    struct mo_kargs args = mo_harness_args(h, r);
    for (int i = pieces; i-- > 0;) {
        /* uneven: the square of i spreads the ends */
        int64_t begin = r->units * i * i / ((int64_t)pieces * pieces);
        int64_t end = r->units * (i + 1) * (i + 1) / ((int64_t)pieces * pieces);
        if (begin < end) r->run(&args, begin, end, h->scratch);
    }
}

enum { POISON = 0xa5 };

void mo_harness_poison(struct mo_harness *h) {
    memset(h->output, POISON, h->output_bytes + 2 * MO_GUARD_BYTES);
    if (h->scratch) memset(h->scratch, POISON, h->scratch_bytes + MO_GUARD_BYTES);
}

static bool poisoned(const char *p, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if ((unsigned char)p[i] != POISON) return false;
    return true;
}

static bool gaps_hold(const struct mo_harness *h) {
    int64_t image = mo_tensor_image_bytes(h->out), stride = h->args.out_image[0];
    for (int64_t n = 0; n + 1 < h->out->shape.d[0] && stride > image; n++)
        if (!poisoned(h->output + MO_GUARD_BYTES + n * stride + image, stride - image)) return false;
    return true;
}

bool mo_harness_guards(const struct mo_harness *h) {
    return poisoned(h->output, MO_GUARD_BYTES) &&
           poisoned(h->output + MO_GUARD_BYTES + h->output_bytes, MO_GUARD_BYTES) && gaps_hold(h) &&
           (!h->scratch || poisoned(h->scratch + h->scratch_bytes, MO_GUARD_BYTES));
}
