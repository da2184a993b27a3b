/* SPDX-License-Identifier: Apache-2.0
 * inspect_json.c - the report of `moire inspect` as JSON. */
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "runtime/ops/op.h"
#include "runtime/plan/versions.h"
#include "tools/moire/inspect/inspect.h"

/* Text of a model may be no UTF-8; then every byte beyond ASCII is shown as '?'. */
static json_t *safe_string(const char *s) {
    json_t *text = json_string(s);
    char copy[512];
    if (text) return text;
    size_t n = 0;
    for (; s[n] && n + 1 < sizeof copy; n++)
        copy[n] = (unsigned char)s[n] < 128 ? s[n] : '?';
    copy[n] = 0;
    return json_string(copy);
}

static json_t *shape_of(const struct mo_shape *shape) {
    if (shape->rank < 0) return json_null();
    json_t *list = json_array();
    for (int i = 0; i < shape->rank; i++)
        json_array_append_new(list, json_integer(shape->d[i]));
    return list;
}

static json_t *ports(const struct mo_graph *g, const int *ids, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        const struct mo_tensor *t = g->tensors[ids[i]];
        json_array_append_new(list, json_pack("{s:o, s:s, s:o}", "name", safe_string(t->name), "type",
                                              mo_dtype_name(t->dtype), "shape", shape_of(&t->shape)));
    }
    return list;
}

static json_t *census(const struct mo_op_count *rows, int n) {
    json_t *object = json_object();
    for (int i = 0; i < n; i++)
        json_object_set_new(object, rows[i].op, json_integer(rows[i].n));
    return object;
}

/* "winograd direct" as a list. */
static json_t *words(const char *text) {
    json_t *list = json_array();
    while (*text) {
        size_t n = strcspn(text, " ");
        json_array_append_new(list, json_stringn(text, n));
        text += n + (text[n] == ' ');
    }
    return list;
}

static json_t *layer(const struct mo_inspection *in, int i) {
    const struct mo_plan *plan = in->plan;
    const struct mo_step *step = &plan->steps[i];
    const struct mo_node *node = step->node;
    char text[80];
    mo_layer_text(plan->graph, node, text, sizeof text);
    json_t *inputs = json_array(), *outputs = json_array();
    const char *layout = "plain";
    for (int k = 0; k < node->n_in; k++)
        if (node->in[k] >= 0 && !mo_plan_is_constant(plan->graph, node->in[k]))
            json_array_append_new(inputs, shape_of(&plan->graph->tensors[node->in[k]]->shape));
    for (int k = 0; k < node->n_out; k++) {
        if (node->out[k] < 0) continue;
        json_array_append_new(outputs, shape_of(&plan->graph->tensors[node->out[k]]->shape));
        if (plan->graph->tensors[node->out[k]]->layout != MO_PLAIN) layout = "c16";
    }
    return json_pack("{s:i, s:s, s:o, s:s, s:s, s:b, s:o, s:o, s:s, s:I, s:I, s:I, s:i, s:s, s:s, s:o}",
                     "index", i, "op", node->op->name, "node", safe_string(node->name), "layer", text,
                     "activation", mo_act_text(node->fuse.act), "residual", node->fuse.residual >= 0,
                     "inputs", inputs, "outputs", outputs, "layout", layout, "macs",
                     (json_int_t)mo_step_macs(step), "bytes", (json_int_t)step->bytes, "units",
                     (json_int_t)step->units, "workers",
                     mo_step_workers(step, in->cores > 0 ? in->cores : INT_MAX), "kernel", step->kernel,
                     "kind", step->kind, "families", words(in->families[i]));
}

/* What `moire compile` found in this model; null: nothing. */
static json_t *verified(const struct mo_inspection *in) {
    const struct mo_store_stamp *s = &in->stamp;
    if (!s->model[0]) return json_null();
    return json_pack("{s:b, s:i, s:i, s:f, s:s}", "current", in->stamp_current, "layers", s->verified,
                     "unverified", s->unverified, "error", s->error, "error_layer", s->error_layer);
}

static json_t *report(const struct mo_inspection *in) {
    const struct mo_plan *plan = in->plan;
    const struct mo_graph *g = in->before;
    json_t *layers = json_array();
    for (int i = 0; i < plan->n_steps; i++)
        json_array_append_new(layers, layer(in, i));
    return json_pack("{s:o, s:i, s:o, s:o, s:{s:i, s:o}, s:{s:i, s:o}, s:o, s:I, s:I, s:I, s:{s:I, s:I, s:I, "
                     "s:I, s:I, s:I}, s:o}",
                     "file", safe_string(in->file), "opset", g->opset, "inputs",
                     ports(g, g->inputs, g->n_inputs), "outputs", ports(g, g->outputs, g->n_outputs),
                     "before", "nodes", g->n_nodes, "operators", census(in->ops_before, in->n_before),
                     "after", "layers", plan->n_steps, "operators", census(in->ops_after, in->n_after),
                     "layers", layers, "parameters", (json_int_t)in->parameters, "parameter_bytes",
                     (json_int_t)in->parameter_bytes, "macs", (json_int_t)in->macs, "memory", "arena_bytes",
                     (json_int_t)plan->arena_bytes, "arena_lower_bytes", (json_int_t)plan->arena_lower,
                     "weight_bytes", (json_int_t)plan->weight_bytes, "packed_bytes",
                     (json_int_t)plan->packed_bytes, "version_bytes", (json_int_t)mo_plan_version_bytes(plan),
                     "scratch_bytes", (json_int_t)plan->scratch_bytes, "verified", verified(in));
}

int mo_inspect_json(const struct mo_inspection *in, moire_error *err) {
    json_t *root = report(in);
    if (!root) return mo_fail(err, MOIRE_ENOMEM, "out of memory writing JSON");
    int failed = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(root);
    return failed || fflush(stdout) ? mo_fail(err, MOIRE_EIO, "cannot write the report") : MOIRE_OK;
}
