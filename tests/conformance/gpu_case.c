/* SPDX-License-Identifier: Apache-2.0
 * gpu_case.c - a case as a program for a GPU: by the plugin on a let of the fake one (tests/cuda/gpu_lets.h),
 * where libraries compute what they take; and, where one had a part, by the generated kernels in its stead on
 * the host (tests/cuda/gpu_host.h).
 *
 * Shapes of a program are fixed, so a model whose shapes come from inputs (Reshape, Tile, TopK, ...) does not
 * lower as the package has it.  Such a model is lowered again with all inputs but the first as constants,
 * which is how real models hold them.  So is one whose convolution or product has weights that are inputs:
 * libraries want them in a form of their own. */
#include <stdlib.h>
#include <string.h>
#include "codegen/prepare.h"
#include "codegen/passes/passes.h"
#include "tests/conformance/conformance.h"
#include "tests/cuda/gpu_host.h"
#include "tests/cuda/gpu_lets.h"

struct case_gpu {
    const char *fakes;
    struct gpu_lets *lets;
};

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

static bool has_library(const struct mo_gpu_program *p) {
    int i = 0;
    while (i < p->n_ops && !mo_gpu_has_library(&p->ops[i]))
        i++;
    return i < p->n_ops;
}

static int compute(const struct mo_graph *g, struct case_gpu *gpu, struct mo_gpu_program *p, bool on_let,
                   const struct mo_dataset *data, const moire_tensor *in, moire_error *err) {
    moire_tensor got[MO_DATASET_PORTS] = {{0}};
    int rc =
        on_let ? gpu_lets_run(gpu->lets, p, in, got, err) : gpu_host_run(g->env, gpu->fakes, p, in, got, err);
    for (int i = 0; !rc && i < p->n_outputs && i < data->n_out; i++)
        rc = case_compare(data, i, &got[i], err);
    for (int i = 0; i < p->n_outputs; i++)
        free(got[i].data);
    return rc ? mo_fail_context(err, rc, on_let ? "on a let" : "by generated kernels alone") : MOIRE_OK;
}

static int run(const struct mo_graph *g, struct case_gpu *gpu, const struct mo_dataset *data, bool *lowered,
               moire_error *err) {
    moire_tensor in[MO_DATASET_PORTS];
    const struct mo_gpu_options options = {.precision = MO_GPU_FP32};
    struct mo_gpu_program *p;
    if (g->n_inputs > MO_DATASET_PORTS || g->n_outputs > MO_DATASET_PORTS)
        return mo_fail(err, MOIRE_ELIMIT, "too many inputs or outputs");
    int rc = mo_gpu_lower(g, &options, &p, err);
    if (rc) return rc;
    *lowered = true;
    rc = pick(p, data, in, err);
    if (!rc) rc = compute(g, gpu, p, true, data, in, err);
    if (!rc && has_library(p)) rc = compute(g, gpu, p, false, data, in, err);
    mo_gpu_program_destroy(p);
    return rc;
}

static bool multiplies(const struct mo_graph *g) {
    static const char *const words[] = {"Conv", "Gemm", "MatMul"};
    for (int i = 0; i < g->n_nodes; i++)
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            if (!g->nodes[i]->dead && strstr(g->nodes[i]->op_type, words[k])) return true;
    return false;
}

/* With inputs as the package has them, or as constants.  *more: constants are to be tried, too. */
static int run_as(const struct mo_env *env, struct case_gpu *gpu, const char *model,
                  const struct mo_dataset *data, bool constants, bool *lowered, bool *more,
                  moire_error *err) {
    struct mo_graph *g;
    int rc = load(env, model, data, constants, &g, err);
    *lowered = *more = false;
    if (rc) return rc;
    rc = run(g, gpu, data, lowered, err);
    if (rc == MOIRE_EUNSUPPORTED && *lowered) rc = mo_fail_context(err, MOIRE_EFAILED, "after lowering");
    *more = data->n_in > 1 && (rc == MOIRE_EUNSUPPORTED || (!rc && multiplies(g)));
    mo_graph_destroy(g);
    return rc;
}

int case_run_gpu(const struct mo_env *env, struct case_gpu *gpu, const char *model,
                 const struct mo_dataset *data, moire_error *err) {
    bool lowered, more, again;
    const int rc = run_as(env, gpu, model, data, false, &lowered, &more, err);
    if (!more) return rc;
    const int second = run_as(env, gpu, model, data, true, &lowered, &again, err);
    return second == MOIRE_EUNSUPPORTED ? rc : second; /* one of them is enough */
}

/* --- the GPU -------------------------------------------------------------------------------------------- */
int case_gpu_open(const struct mo_env *env, const char *fakes, struct case_gpu **out, moire_error *err) {
    struct case_gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    gpu->fakes = fakes;
    const int rc = gpu_lets_open(env, fakes, &gpu->lets, err);
    if (rc) {
        (void)gpu_lets_close(gpu->lets, NULL);
        free(gpu);
        return rc;
    }
    *out = gpu;
    return MOIRE_OK;
}

static void print(const struct gpu_lets_counts *c, FILE *out) {
    const int *conv = c->way[MO_GPU_CONV], *gemm = c->way[MO_GPU_GEMM], *other = c->way[MO_GPU_KERNEL];
    fprintf(out, "%d programs on %d lets of up to %d of the %d SMs:\n", c->programs, c->lets, c->most_sms,
            c->sms);
    fprintf(out, "  convolutions by cuDNN %d, by generated kernels %d\n", conv[MO_GPU_BY_DNN],
            conv[MO_GPU_BY_KERNEL]);
    fprintf(out, "  products by cuBLASLt %d, by generated kernels %d (of one row, which the fake refuses)\n",
            gemm[MO_GPU_BY_BLAS], gemm[MO_GPU_BY_KERNEL]);
    fprintf(out, "  others by generated kernels %d, by cores %d\n", other[MO_GPU_BY_KERNEL],
            c->way[MO_GPU_CORE][MO_GPU_BY_CORE]);
}

int case_gpu_close(struct case_gpu *gpu, FILE *out, moire_error *err) {
    struct gpu_lets_counts c;
    if (!gpu) return MOIRE_OK;
    gpu_lets_counts(gpu->lets, &c);
    print(&c, out);
    const int rc = gpu_lets_close(gpu->lets, err);
    free(gpu);
    if (rc) return rc;
    if (c.most_sms >= c.sms) return mo_fail(err, MOIRE_EFAILED, "a let was the whole GPU");
    return MOIRE_OK;
}
