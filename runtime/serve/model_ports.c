/* SPDX-License-Identifier: Apache-2.0
 * model_ports.c - what an ONNX file says of its inputs and outputs (moire_model_*).
 *
 * The file is imported and nothing more; ports and their names are copied, so that its weights go at once. */
#include <string.h>
#include "codegen/frontend.h"
#include "runtime/serve/runtime.h"

struct moire_model {
    struct mo_env env;
    struct mo_region *region;
    int n_inputs, n_outputs;
    moire_port *inputs, *outputs;
};

static moire_port *copy_ports(struct mo_region *region, const struct mo_graph *g, int n, const int *ids) {
    moire_port *ports = mo_region_alloc(region, (size_t)(n ? n : 1) * sizeof *ports);
    for (int i = 0; i < n && ports; i++) {
        const struct mo_tensor *t = g->tensors[ids[i]];
        const size_t bytes = strlen(t->name) + 1;
        char *name = mo_region_alloc(region, bytes);
        if (!name) return NULL;
        memcpy(name, t->name, bytes);
        ports[i] = (moire_port){.name = name, .dtype = t->dtype, .rank = t->shape.rank};
        for (int k = 0; k < t->shape.rank; k++)
            ports[i].shape[k] = t->shape.d[k] < 0 ? -1 : t->shape.d[k];
        if (t->shape.rank < 0) ports[i].rank = -1;
    }
    return ports;
}

static moire_model *make(const struct mo_env *env, const struct mo_graph *g) {
    moire_model *m = mo_alloc(env, sizeof *m);
    if (!m) return NULL;
    *m = (moire_model){.env = *env, .n_inputs = g->n_inputs, .n_outputs = g->n_outputs};
    m->region = mo_region_create(&m->env);
    if (m->region) {
        m->inputs = copy_ports(m->region, g, g->n_inputs, g->inputs);
        m->outputs = copy_ports(m->region, g, g->n_outputs, g->outputs);
    }
    if (m->inputs && m->outputs) return m;
    moire_model_close(m);
    return NULL;
}

int moire_model_open(const char *path, moire_model **out, moire_error *err) {
    static const struct mo_frontend_options only_import = {.only_import = true};
    const struct mo_env env = mo_env_default();
    struct mo_graph *g;
    if (!path || !out) return mo_fail(err, MOIRE_EINVAL, "moire_model_open: path and out must be given");
    *out = NULL;
    const int rc = mo_frontend_load(&env, path, &only_import, &g, err);
    if (rc) return rc;
    *out = make(&env, g);
    mo_graph_destroy(g);
    return *out ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory describing %.300s", path);
}

void moire_model_close(moire_model *model) {
    if (!model) return;
    const struct mo_env env = model->env;
    if (model->region) mo_region_destroy(model->region);
    mo_free(&env, model);
}

static int describe(const moire_port *ports, int n, int index, moire_port *out) {
    if (index < 0 || index >= n || !out) return MOIRE_EINVAL;
    *out = ports[index];
    return MOIRE_OK;
}

int moire_model_n_inputs(const moire_model *m) {
    return m ? m->n_inputs : 0;
}
int moire_model_n_outputs(const moire_model *m) {
    return m ? m->n_outputs : 0;
}
int moire_model_input(const moire_model *m, int index, moire_port *out) {
    return m ? describe(m->inputs, m->n_inputs, index, out) : MOIRE_EINVAL;
}
int moire_model_output(const moire_model *m, int index, moire_port *out) {
    return m ? describe(m->outputs, m->n_outputs, index, out) : MOIRE_EINVAL;
}
