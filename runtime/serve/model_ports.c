/* SPDX-License-Identifier: Apache-2.0
 * model_ports.c - what an ONNX file says of its inputs and outputs, and whether queries may be joined
 * (moire_model_*).
 *
 * The file is imported and nothing more; ports and their names are copied, so that its weights go at once.
 * Whether rows are separate is asked seldom, and reads the file again. */
#include <string.h>
#include "codegen/frontend.h"
#include "codegen/batch_rows.h"
#include "runtime/serve/runtime.h"

struct moire_model {
    struct mo_env env;
    struct mo_region *region;
    char *path;
    int n_inputs, n_outputs;
    moire_port *inputs, *outputs;
};

static char *copy_text(struct mo_region *region, const char *text) {
    const size_t bytes = strlen(text) + 1;
    char *copy = mo_region_alloc(region, bytes);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}

static moire_port *copy_ports(struct mo_region *region, const struct mo_graph *g, int n, const int *ids) {
    moire_port *ports = mo_region_alloc(region, (size_t)(n ? n : 1) * sizeof *ports);
    for (int i = 0; i < n && ports; i++) {
        const struct mo_tensor *t = g->tensors[ids[i]];
        const char *name = copy_text(region, t->name);
        if (!name) return NULL;
        ports[i] = (moire_port){.name = name, .dtype = t->dtype, .rank = t->shape.rank};
        for (int k = 0; k < t->shape.rank; k++)
            ports[i].shape[k] = t->shape.d[k] < 0 ? -1 : t->shape.d[k];
        if (t->shape.rank < 0) ports[i].rank = -1;
    }
    return ports;
}

static moire_model *make(const struct mo_env *env, const char *path, const struct mo_graph *g) {
    moire_model *m = mo_alloc(env, sizeof *m);
    if (!m) return NULL;
    *m = (moire_model){.env = *env, .n_inputs = g->n_inputs, .n_outputs = g->n_outputs};
    m->region = mo_region_create(&m->env);
    if (m->region) {
        m->inputs = copy_ports(m->region, g, g->n_inputs, g->inputs);
        m->outputs = copy_ports(m->region, g, g->n_outputs, g->outputs);
        m->path = copy_text(m->region, path);
    }
    if (m->inputs && m->outputs && m->path) return m;
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
    *out = make(&env, path, g);
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

/* --- rows --- */
static int load_rows(const moire_model *m, const moire_shape *shapes, int n_shapes, int one_at,
                     struct mo_graph **out, moire_error *err) {
    moire_shape *own = mo_alloc(&m->env, (size_t)n_shapes * sizeof *own);
    *out = NULL;
    if (!own) return mo_fail(err, MOIRE_ENOMEM, "out of memory looking for rows of a batch");
    memcpy(own, shapes, (size_t)n_shapes * sizeof *own);
    for (int i = 0; one_at >= 0 && i < n_shapes; i++)
        own[i].shape[one_at] = 1;
    const struct mo_frontend_options options = {.shapes = own, .n_shapes = n_shapes, .no_passes = true};
    const int rc = mo_frontend_load(&m->env, m->path, &options, out, err);
    mo_free(&m->env, own);
    return rc;
}

static int look(const char *call, const moire_model *m, const moire_shape *shapes, int n_shapes, int axis,
                int *output_axis, moire_error *err) {
    struct mo_graph *one = NULL, *many = NULL;
    if (!m || !shapes || n_shapes < 1 || axis < 0 || axis >= MOIRE_MAX_RANK)
        return mo_fail(err, MOIRE_EINVAL, "%s: model, shapes and an axis must be given", call);
    for (int i = 0; i < n_shapes; i++)
        if (!shapes[i].input || shapes[i].rank <= axis || shapes[i].rank > MOIRE_MAX_RANK ||
            shapes[i].shape[axis] != shapes[0].shape[axis] || shapes[0].shape[axis] < 2)
            return mo_fail(err, MOIRE_EINVAL,
                           "%s: every shape needs an input, and one and the same dimension %d, 2 or more",
                           call, axis);
    int rc = load_rows(m, shapes, n_shapes, axis, &one, err);
    if (!rc) rc = load_rows(m, shapes, n_shapes, -1, &many, err);
    if (!rc) rc = mo_rows_are_separate(one, many, shapes[0].shape[axis], axis, output_axis, err);
    mo_graph_destroy(one);
    mo_graph_destroy(many);
    return rc;
}

int moire_model_rows_are_separate(const moire_model *m, const moire_shape *shapes, int n_shapes,
                                  moire_error *err) {
    return look("moire_model_rows_are_separate", m, shapes, n_shapes, 0, NULL, err);
}

int moire_model_positions_are_separate(const moire_model *m, const moire_shape *shapes, int n_shapes,
                                       int axis, int *output_axis, moire_error *err) {
    if (!output_axis)
        return mo_fail(err, MOIRE_EINVAL, "moire_model_positions_are_separate: output_axis must be given");
    return look("moire_model_positions_are_separate", m, shapes, n_shapes, axis, output_axis, err);
}
