/* SPDX-License-Identifier: Apache-2.0
 * gpu_case.c - a case as a program for a GPU, whose generated kernels run on the host
 * (tests/cuda/gpu_host.h).
 *
 * Shapes of a program are fixed, so a model whose shapes come from inputs (Reshape, Tile, TopK, ...) does not
 * lower as the package has it.  Such a model is lowered again with all inputs but the first as constants,
 * which is how real models hold them. */
#include <stdlib.h>
#include <string.h>
#include "codegen/prepare.h"
#include "codegen/passes/passes.h"
#include "tests/conformance/conformance.h"
#include "tests/cuda/gpu_host.h"

/* Every input but the first becomes a constant with the case's contents. */
static void make_constant(struct mo_graph *g, const struct mo_dataset *data) {
    for (int i = 1; i < g->n_inputs; i++) {
        struct mo_tensor *t = g->tensors[g->inputs[i]];
        if (data->in[i].dtype == MOIRE_NONE || t->dtype != data->in[i].dtype) continue;
        t->data = mo_region_alloc(g->region, data->in[i].bytes + 1);
        if (!t->data) continue;
        memcpy(t->data, data->in[i].data, data->in[i].bytes);
        t->is_input = false;
    }
    int kept = 0;
    for (int i = 0; i < g->n_inputs; i++)
        if (!g->tensors[g->inputs[i]]->data) g->inputs[kept++] = g->inputs[i];
    g->n_inputs = kept;
}

static int load(const struct mo_env *env, const char *model, const struct mo_dataset *data, bool constants,
                struct mo_graph **out, moire_error *err) {
    struct mo_frontend_options options = {
        .shapes = data->shape, .n_shapes = data->n_in, .no_layout = true, .no_passes = constants};
    int rc = mo_frontend_load(env, model, &options, out, err);
    if (rc || !constants) return rc;
    make_constant(*out, data);
    rc = mo_infer_and_fold(*out, err);
    if (!rc) rc = mo_run_passes(*out, &options, err);
    if (rc) {
        mo_graph_destroy(*out);
        *out = NULL;
    }
    return rc;
}

/* Inputs that the program still has, by name. */
static int pick(const struct mo_gpu_program *p, const struct mo_dataset *data, moire_tensor *in,
                moire_error *err) {
    for (int i = 0; i < p->n_inputs; i++) {
        int k = 0;
        while (k < data->n_in && strcmp(data->in_name[k], p->inputs[i].name) != 0)
            k++;
        if (k == data->n_in) return mo_fail(err, MOIRE_EFAILED, "no data of input %d", i);
        in[i] = data->in[k];
    }
    return MOIRE_OK;
}

static int run(const struct mo_graph *g, const char *fakes, const struct mo_dataset *data, bool *lowered,
               moire_error *err) {
    moire_tensor in[MO_DATASET_PORTS], got[MO_DATASET_PORTS] = {{0}};
    const struct mo_gpu_options options = {.precision = MO_GPU_FP32};
    struct mo_gpu_program *p;
    if (g->n_inputs > MO_DATASET_PORTS || g->n_outputs > MO_DATASET_PORTS)
        return mo_fail(err, MOIRE_ELIMIT, "too many inputs or outputs");
    int rc = mo_gpu_lower(g, &options, &p, err);
    if (rc) return rc;
    *lowered = true;
    rc = pick(p, data, in, err);
    if (!rc) rc = gpu_host_run(g->env, fakes, p, in, got, err);
    for (int i = 0; !rc && i < p->n_outputs && i < data->n_out; i++)
        rc = case_compare(data, i, &got[i], err);
    for (int i = 0; i < p->n_outputs; i++)
        free(got[i].data);
    mo_gpu_program_destroy(p);
    return rc;
}

int case_run_gpu(const struct mo_env *env, const char *fakes, const char *model,
                 const struct mo_dataset *data, moire_error *err) {
    int rc = MOIRE_EUNSUPPORTED;
    bool lowered = false;
    for (int constants = 0; constants < 2 && rc == MOIRE_EUNSUPPORTED && !lowered; constants++) {
        struct mo_graph *g;
        if (constants && data->n_in < 2) break;
        rc = load(env, model, data, constants != 0, &g, err);
        if (rc) return rc;
        rc = run(g, fakes, data, &lowered, err);
        mo_graph_destroy(g);
    }
    return rc == MOIRE_EUNSUPPORTED && lowered ? mo_fail_context(err, MOIRE_EFAILED, "after lowering") : rc;
}
