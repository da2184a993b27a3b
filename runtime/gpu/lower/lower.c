/* SPDX-License-Identifier: Apache-2.0
 * lower.c - from a graph of layers to a program: the table of operators, inputs and outputs, segments. */
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/core_layer.h"
#include "runtime/gpu/lower/lower.h"

static const struct {
    const char *name, *domain;
    void (*lower)(struct mo_lower *l);
} table[] = {
    {"Conv", "", mo_lower_conv},
    {"MaxPool", "", mo_lower_pool},
    {"AveragePool", "", mo_lower_pool},
    {"GlobalAveragePool", "", mo_lower_global_pool},
    {"GlobalMaxPool", "", mo_lower_global_pool},
    {"MatMul", "moire", mo_lower_product},
    {"MatMul", "", mo_lower_product},
    {"Gemm", "", mo_lower_product},
    {"Attention", "moire", mo_lower_attention},
    {"Fused", "moire", mo_lower_fused},
    {"Sum", "", mo_lower_variadic},
    {"Mean", "", mo_lower_variadic},
    {"BatchNormalization", "", mo_lower_batch_norm},
    {"Cast", "", mo_lower_cast},
    {"Reshape", "", mo_lower_view},
    {"Flatten", "", mo_lower_view},
    {"Squeeze", "", mo_lower_view},
    {"Unsqueeze", "", mo_lower_view},
    {"Identity", "", mo_lower_view},
    {"Dropout", "", mo_lower_view},
    {"Reorder", "moire", mo_lower_view},
    {"Transpose", "", mo_lower_transpose},
    {"Concat", "", mo_lower_concat},
    {"Split", "", mo_lower_split},
    {"Slice", "", mo_lower_slice},
    {"Expand", "", mo_lower_expand},
    {"Pad", "", mo_lower_pad},
    {"Gather", "", mo_lower_gather},
    {"GatherElements", "", mo_lower_gather},
    {"Softmax", "", mo_lower_softmax},
    {"LogSoftmax", "", mo_lower_softmax},
    {"LayerNormalization", "", mo_lower_norm},
    {"RMSNormalization", "", mo_lower_norm},
    {"InstanceNormalization", "", mo_lower_norm},
    {"ConvTranspose", "", mo_lower_conv_transpose},
    {"QuantizeLinear", "", mo_lower_quantize},
    {"DequantizeLinear", "", mo_lower_quantize},
    {"CastLike", "", mo_lower_cast},
    {"Resize", "", mo_lower_resize},
    {"Upsample", "", mo_lower_resize},
    {"LRN", "", mo_lower_lrn},
    {"RNN", "", mo_lower_recurrent},
    {"GRU", "", mo_lower_recurrent},
    {"LSTM", "", mo_lower_recurrent},
};

static void (*find(const struct mo_node *node))(struct mo_lower *) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, node->op_type) && !strcmp(table[i].domain, node->domain))
            return table[i].lower;
    if (!*node->domain && !strncmp(node->op_type, "Reduce", 6)) return mo_lower_reduction;
    return mo_gpu_is_step(node) ? mo_lower_step : NULL;
}

bool mo_gpu_lowers(const char *op, const char *domain) {
    const struct mo_node node = {.op_type = op, .domain = domain, .n_attrs = 0};
    return find(&node) || mo_core_layer_takes(mo_op_find(op, domain));
}

/* What has no lowering, or is refused by it for types or attributes, is a core's. */
static void lower_or_leave(struct mo_lower *l) {
    void (*lower)(struct mo_lower *) = find(l->node);
    const int n_ops = l->program->n_ops;
    if (l->rc) return;
    if (lower)
        lower(l);
    else
        mo_lower_fail(l, MOIRE_EUNSUPPORTED,
                      "this operator is not supported on a GPU; run the model on cores");
    if (l->rc != MOIRE_EUNSUPPORTED) return;
    l->program->n_ops = n_ops; /* what it had begun */
    l->rc = MOIRE_OK;
    if (!mo_lower_core(l)) l->rc = MOIRE_EUNSUPPORTED;
}

static void lower_node(struct mo_lower *l, const struct mo_node *node) {
    char label[400];
    snprintf(label, sizeof label, "node '%.200s' (%.100s)", node->name, node->op_type);
    l->node = node;
    l->label = mo_region_string(l->program->region, label, strlen(label));
    if (!l->label) l->rc = mo_fail(l->err, MOIRE_ENOMEM, "out of memory");
    for (int k = 0; k < node->n_out && !l->rc; k++)
        if (node->out[k] >= 0 &&
            (l->graph->tensors[node->out[k]]->dynamic || l->graph->tensors[node->out[k]]->shape.rank < 0))
            mo_lower_fail(l, MOIRE_EUNSUPPORTED, "a shape that depends on data is not supported on a GPU");
    lower_or_leave(l);
    l->node = NULL;
}

/* --- inputs and outputs --------------------------------------------------------------------------------- */

static void fill_port(struct mo_lower *l, struct mo_gpu_port *port, const struct mo_tensor *t,
                      const struct mo_gpu_view *v) {
    *port = (struct mo_gpu_port){.dtype = t->dtype, .rank = t->shape.rank, .offset = v->place.index};
    port->name = mo_region_string(l->program->region, t->name, strlen(t->name));
    memcpy(port->shape, t->shape.d, sizeof port->shape);
    port->bytes = mo_gpu_count(v) * (int64_t)mo_dtype_bytes(t->dtype);
    if (!port->name) mo_lower_fail(l, MOIRE_ENOMEM, "out of memory");
}

static void lower_inputs(struct mo_lower *l) {
    for (int i = 0; i < l->graph->n_inputs && !l->rc; i++) {
        const struct mo_tensor *t = l->graph->tensors[l->graph->inputs[i]];
        if (t->dynamic || t->shape.rank < 0 || !mo_gpu_memory_type(t->dtype)) {
            mo_lower_fail(l, MOIRE_EUNSUPPORTED, "input '%.100s' of type %s is not supported on a GPU",
                          t->name, mo_dtype_name(t->dtype));
            return;
        }
        struct mo_gpu_view v = mo_lower_new(l, t->dtype, t->shape.rank, t->shape.d, NULL);
        if (l->rc) return;
        l->buffers[v.place.index].first = l->buffers[v.place.index].last = -1;
        l->views[t->id] = v;
        fill_port(l, &l->program->inputs[i], t, &v);
    }
}

/* Outputs in the model's own form, whole buffers that live to the end. */
static void lower_outputs(struct mo_lower *l) {
    for (int i = 0; i < l->graph->n_outputs && !l->rc; i++) {
        const struct mo_tensor *t = l->graph->tensors[l->graph->outputs[i]];
        struct mo_gpu_view v = t->data ? mo_lower_weight(l, t->id, MO_FORM_AS_IS, t->dtype) : l->views[t->id];
        if (l->rc) return;
        bool own = v.place.space == MO_GPU_ARENA && v.place.offset == 0 && v.dtype == t->dtype &&
                   mo_gpu_lies_in(&v, NULL) && l->buffers[v.place.index].first >= 0;
        if (!own) {
            struct mo_gpu_view copy = mo_lower_new(l, t->dtype, t->shape.rank, t->shape.d, NULL);
            mo_lower_copy(l, &v, &copy);
            v = copy;
        }
        if (l->rc) return;
        l->buffers[v.place.index].last = INT32_MAX;
        fill_port(l, &l->program->outputs[i], t, &v);
    }
}

static void place_ports(struct mo_lower *l) {
    struct mo_gpu_program *p = l->program;
    for (int i = 0; i < p->n_inputs; i++)
        p->inputs[i].offset = l->buffers[p->inputs[i].offset].offset;
    for (int i = 0; i < p->n_outputs; i++)
        p->outputs[i].offset = l->buffers[p->outputs[i].offset].offset;
}

/* --- segments ------------------------------------------------------------------------------------------- */

static int64_t bytes_of(const struct mo_lower *l, struct mo_gpu_place place) {
    if (place.space == MO_GPU_WEIGHT) return l->program->weights[place.index].bytes;
    return place.space == MO_GPU_ARENA ? l->buffers[place.index].bytes : 0;
}

/* Bytes that operations move at most: whole buffers. */
static void count_moved(struct mo_lower *l) {
    for (int i = 0; i < l->program->n_ops; i++) {
        struct mo_gpu_op *op = &l->program->ops[i];
        for (int k = 0; k < op->launch.n_args; k++)
            op->moved += bytes_of(l, op->launch.args[k]);
    }
}

/* Relative time of an operation on a GPU that does 50 flops in the time of a byte; a launch is 2 us at 1
 * TB/s.
 */
static double cost_of(const struct mo_gpu_op *op) {
    double compute = (double)op->flops / 50, memory = (double)op->moved;
    return (compute > memory ? compute : memory) + 2e6;
}

/* Where the next share of the whole cost is reached, or where the like program is cut. */
static bool share_ends(const struct mo_lower *l, double sum, double total, int most, int end_layer) {
    const struct mo_gpu_program *p = l->program, *like = l->options->like;
    if (p->n_segments >= most) return false;
    return like ? end_layer >= like->segments[p->n_segments - 1].end_layer
                : sum >= total * p->n_segments / most;
}

/* Cuts where a layer ends. */
static void cut_segments(struct mo_lower *l) {
    struct mo_gpu_program *p = l->program;
    int most = l->options->max_segments > 1 ? l->options->max_segments : 1;
    if (l->options->like) most = l->options->like->n_segments;
    double total = 0, sum = 0;
    for (int i = 0; i < p->n_ops; i++)
        total += cost_of(&p->ops[i]);
    p->segments = mo_region_array(p->region, (size_t)most, sizeof *p->segments);
    if (!p->segments) {
        mo_lower_fail(l, MOIRE_ENOMEM, "out of memory");
        return;
    }
    struct mo_gpu_segment *s = &p->segments[p->n_segments++];
    *s = (struct mo_gpu_segment){.begin = 0};
    for (int i = 0; i < p->n_ops; i++) {
        sum += cost_of(&p->ops[i]);
        s->flops += p->ops[i].flops;
        s->moved += p->ops[i].moved;
        s->end = i + 1;
        s->end_layer = p->ops[i].layer + 1;
        bool ends = i + 1 < p->n_ops && p->ops[i + 1].layer != p->ops[i].layer;
        if (!ends || !share_ends(l, sum, total, most, s->end_layer)) continue;
        s = &p->segments[p->n_segments++];
        *s = (struct mo_gpu_segment){.begin = i + 1, .first_layer = p->ops[i].layer + 1};
    }
    s->end_layer = p->n_layers;
}

/* --- the whole ------------------------------------------------------------------------------------------ */

static bool prepare(struct mo_lower *l) {
    const struct mo_graph *g = l->graph;
    struct mo_gpu_program *p = l->program;
    p->n_inputs = g->n_inputs;
    p->n_outputs = g->n_outputs;
    p->n_layers = g->n_nodes;
    p->inputs = mo_region_array(p->region, (size_t)g->n_inputs + 1, sizeof *p->inputs);
    p->outputs = mo_region_array(p->region, (size_t)g->n_outputs + 1, sizeof *p->outputs);
    l->views = mo_region_array(p->region, (size_t)g->n_tensors + 1, sizeof *l->views);
    if (!p->inputs || !p->outputs || !l->views) {
        mo_lower_fail(l, MOIRE_ENOMEM, "out of memory");
        return false;
    }
    for (int i = 0; i < g->n_tensors; i++)
        l->views[i].rank = -1;
    p->batch =
        g->n_inputs && g->tensors[g->inputs[0]]->shape.rank > 0 ? g->tensors[g->inputs[0]]->shape.d[0] : 1;
    mo_gpu_printf(&l->source, "%s", mo_gpu_prelude());
    return !l->rc;
}

static void lower_all(struct mo_lower *l) {
    if (!prepare(l)) return;
    lower_inputs(l);
    for (int i = 0; i < l->graph->n_nodes && !l->rc; i++)
        if (!l->graph->nodes[i]->dead) lower_node(l, l->graph->nodes[i]);
    l->label = NULL;
    if (l->rc) return;
    /* copies of outputs belong to the last layer */
    struct mo_node last = {.id = l->graph->n_nodes ? l->graph->n_nodes - 1 : 0, .fuse = {.residual = -1}};
    l->node = &last;
    l->label = "outputs";
    lower_outputs(l);
    if (l->rc) return;
    count_moved(l);
    if (mo_lower_arena(l)) return;
    place_ports(l);
    cut_segments(l);
    l->program->source = mo_region_string(l->program->region, l->source.at, l->source.n);
    if (!l->program->source) mo_lower_fail(l, MOIRE_ENOMEM, "out of memory");
}

static moire_dtype storage_of(enum mo_gpu_precision precision) {
    return precision == MO_GPU_FP16 ? MOIRE_F16 : precision == MO_GPU_BF16 ? MOIRE_BF16 : MOIRE_F32;
}

int mo_gpu_lower(const struct mo_graph *graph, const struct mo_gpu_options *options,
                 struct mo_gpu_program **out, moire_error *err) {
    struct mo_region *region = mo_region_create(graph->env);
    struct mo_lower l = {.env = graph->env,
                         .graph = graph,
                         .options = options,
                         .err = err,
                         .storage = storage_of(options->precision),
                         .source = {.env = graph->env}};
    *out = NULL;
    l.program = region ? mo_region_alloc(region, sizeof *l.program) : NULL;
    if (!l.program) {
        mo_region_destroy(region);
        return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    }
    l.program->region = region;
    l.program->model = options->model;
    l.program->precision = options->precision;
    lower_all(&l);
    mo_gpu_text_free(&l.source);
    if (l.rc)
        mo_region_destroy(region);
    else
        *out = l.program;
    return l.rc;
}

void mo_gpu_program_destroy(struct mo_gpu_program *program) {
    if (program) mo_region_destroy(program->region);
}
