/* SPDX-License-Identifier: Apache-2.0
 * census.c - counts the operators of a model. */
#include "tools/moire/census.h"

#include <stdlib.h>
#include <string.h>
#include "codegen/import/import.h"
#include "runtime/ops/op.h"

static int by_name(const void *a, const void *b) {
    const struct mo_census_row *x = a, *y = b;
    int order = strcmp(x->domain, y->domain);
    return order ? order : strcmp(x->op, y->op);
}

static const char *keep(struct mo_census *c, const char *s) {
    const char *copy = mo_region_string(c->region, s ? s : "", s ? strlen(s) : 0);
    return copy ? copy : "";
}

static int version_of(const Onnx__ModelProto *model, const char *domain) {
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const char *d = model->opset_import[i]->domain;
        d = !d || !strcmp(d, "ai.onnx") ? "" : d;
        int64_t v = model->opset_import[i]->version;
        if (!strcmp(d, domain)) return v > 0 && v < 10000 ? (int)v : 0;
    }
    return *domain || model->n_opset_import ? 0 : 1;
}

/* Constant is read by the importer itself and needs no row. */
static void judge(struct mo_census_row *row) {
    const struct mo_op *op = mo_op_find(row->op, row->domain);
    row->since = op ? (op->min_opset ? op->min_opset : 1) : 0;
    row->supported = op && row->version >= row->since;
}

static void count_node(struct mo_census *c, const Onnx__ModelProto *model, const Onnx__NodeProto *node) {
    const char *op = node->op_type ? node->op_type : "", *domain = node->domain ? node->domain : "";
    if (!strcmp(domain, "ai.onnx")) domain = "";
    struct mo_census_row *row = NULL;
    for (int i = 0; i < c->n_rows && !row; i++)
        if (!strcmp(c->rows[i].op, op) && !strcmp(c->rows[i].domain, domain)) row = &c->rows[i];
    if (!row) {
        row = &c->rows[c->n_rows++];
        *row = (struct mo_census_row){
            .op = keep(c, op), .domain = keep(c, domain), .first = keep(c, node->name)};
        row->version = version_of(model, domain);
        judge(row);
    }
    row->count++;
    c->n_nodes++;
    c->n_unsupported += !row->supported;
}

static int take(const Onnx__ModelProto *model, struct mo_census *c, moire_error *err) {
    const Onnx__GraphProto *graph = model->graph;
    c->rows = mo_region_array(c->region, graph->n_node + 1, sizeof *c->rows);
    if (!c->rows) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    c->opset = version_of(model, "");
    c->producer = keep(c, model->producer_name);
    c->graph = keep(c, graph->name);
    c->ir_version = model->ir_version;
    for (size_t i = 0; i < graph->n_node; i++)
        count_node(c, model, graph->node[i]);
    for (size_t i = 0; i < graph->n_initializer; i++)
        c->n_strings += !mo_dtype_bytes((moire_dtype)graph->initializer[i]->data_type);
    for (size_t i = 0; i < graph->n_input; i++) {
        const Onnx__TypeProto *type = graph->input[i]->type;
        bool dense = type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && type->tensor_type &&
                     mo_dtype_bytes((moire_dtype)type->tensor_type->elem_type);
        c->n_strings += !dense;
    }
    qsort(c->rows, (size_t)c->n_rows, sizeof *c->rows, by_name);
    return MOIRE_OK;
}

int mo_census_take(const struct mo_env *env, const char *path, struct mo_census *c, moire_error *err) {
    uint8_t *bytes = NULL;
    size_t n = 0;
    *c = (struct mo_census){.region = mo_region_create(env)};
    if (!c->region) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    int rc = mo_read_file(env, path, &bytes, &n, err);
    if (rc) return rc;
    rc = mo_wire_check(&env->limits, &onnx__model_proto__descriptor, bytes, n, err);
    Onnx__ModelProto *model = rc ? NULL : onnx__model_proto__unpack(NULL, n, bytes);
    mo_free(env, bytes);
    if (!rc)
        rc = model && model->graph
                 ? take(model, c, err)
                 : mo_fail(err, MOIRE_EFORMAT, "the file holds no graph; is it an ONNX model?");
    if (model) onnx__model_proto__free_unpacked(model, NULL);
    return rc ? mo_fail_context(err, rc, "%.150s", path) : MOIRE_OK;
}

void mo_census_free(struct mo_census *c) {
    mo_region_destroy(c->region);
    c->region = NULL;
}
