/* SPDX-License-Identifier: Apache-2.0
 * import_model.c - what a model says besides its graph: versions of operator sets, functions, metadata. */
#include <string.h>
#include "codegen/import/import.h"

static int version_in(Onnx__OperatorSetIdProto *const *sets, size_t n, const char *domain) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(mo_proto_domain(sets[i]->domain), domain))
            return sets[i]->version > 0 && sets[i]->version < 10000 ? (int)sets[i]->version : 0;
    return -1;
}

/* ONNX requires versions of functions to mean what the model's do; a model may leave it to them alone. */
int mo_import_opset(const struct mo_import *im, const char *domain) {
    const Onnx__ModelProto *m = im->model;
    int version = version_in(m->opset_import, m->n_opset_import, domain);
    for (size_t i = 0; i < m->n_functions && version < 0; i++)
        version = version_in(m->functions[i]->opset_import, m->functions[i]->n_opset_import, domain);
    return version;
}

static int read_opsets(struct mo_import *im) {
    int version = mo_import_opset(im, "");
    if (version < 0 && im->model->n_opset_import == 0) version = 1;
    if (version >= 0 && (version < MO_OPSET_MIN || version > MO_OPSET_MAX))
        return mo_fail(
            im->err, MOIRE_EUNSUPPORTED,
            "opset %d is not supported (known: %d to %d); convert the model with ONNX's version converter",
            version, MO_OPSET_MIN, MO_OPSET_MAX);
    im->graph->opset = version < 0 ? MO_OPSET_MAX : version;
    return MOIRE_OK;
}

static int read_meta(struct mo_import *im) {
    size_t n = im->model->n_metadata_props;
    struct mo_region *region = im->graph->region;
    im->graph->meta_key = mo_region_array(region, n, sizeof(char *));
    im->graph->meta_value = mo_region_array(region, n, sizeof(char *));
    if (!im->graph->meta_key || !im->graph->meta_value)
        return mo_fail(im->err, MOIRE_ENOMEM, "out of memory importing the model");
    for (size_t i = 0; i < n; i++) {
        /* the messages live in the graph's region */
        im->graph->meta_key[i] = mo_proto_text(im->model->metadata_props[i]->key);
        im->graph->meta_value[i] = mo_proto_text(im->model->metadata_props[i]->value);
    }
    im->graph->n_meta = (int)n;
    return MOIRE_OK;
}

int mo_import_model(struct mo_import *im) {
    const Onnx__GraphProto *graph = im->model->graph;
    if (!graph) return mo_fail(im->err, MOIRE_EFORMAT, "the file holds no graph; is it an ONNX model?");
    int rc = read_opsets(im);
    if (!rc) rc = read_meta(im);
    const bool expands = im->model->n_functions || mo_import_opset(im, "com.microsoft") >= 0;
    if (!rc && expands) rc = mo_import_functions(im, &graph);
    return rc ? rc : mo_import_graph(im, graph);
}
