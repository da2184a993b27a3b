/* SPDX-License-Identifier: Apache-2.0
 * gpu_programs.c - a model lowered once for every batch; see gpu.h.
 *
 * The file is read again for each batch: shapes run through every pass, so a graph for another batch is
 * another graph.  A larger batch counts only when every input and output has grown with it. */
#include <string.h>
#include "codegen/frontend.h"
#include "runtime/serve/gpu.h"

enum { MAX_SHAPES = 16 };

/* `like`: the program of another batch, NULL for the first. */
static int lower(const struct mo_env *env, const struct mo_gpu_programs_request *r, int batch,
                 const struct mo_gpu_program *like, struct mo_gpu_program **out, moire_error *err) {
    struct mo_gpu_options options = r->options;
    moire_shape shapes[MAX_SHAPES];
    options.like = like;
    struct mo_graph *graph;
    if (r->n_shapes > MAX_SHAPES)
        return mo_fail(err, MOIRE_ELIMIT, "more than %d shapes for '%s'", MAX_SHAPES, r->path);
    for (int i = 0; i < r->n_shapes; i++) {
        shapes[i] = r->shapes[i];
        if (shapes[i].rank) shapes[i].shape[0] *= batch;
    }
    struct mo_frontend_options front = {
        .shapes = shapes, .n_shapes = r->n_shapes, .batch = batch, .no_layout = true, .exact = r->exact};
    int code = mo_frontend_load(env, r->path, &front, &graph, err);
    if (code) return code;
    code = mo_gpu_lower(graph, &options, out, err);
    mo_graph_destroy(graph);
    return code;
}

static bool grew(const struct mo_gpu_port *one, const struct mo_gpu_port *more, int n, int batch) {
    for (int i = 0; i < n; i++)
        if (more[i].bytes != batch * one[i].bytes) return false;
    return true;
}

/* Why a program does not do for that batch what the first does for one query; NULL: it does. */
static const char *differs(const struct mo_gpu_program *one, const struct mo_gpu_program *more, int batch) {
    if (one->n_inputs != more->n_inputs || one->n_outputs != more->n_outputs ||
        !grew(one->inputs, more->inputs, one->n_inputs, batch) ||
        !grew(one->outputs, more->outputs, one->n_outputs, batch))
        return "its tensors do not grow with the batch";
    return one->n_segments == more->n_segments ? NULL : "its layers are others in larger batches";
}

/* A layer on a core is slow, so it is never silent; said here, for a plugin in a child has no log. */
static void tell_cores(const struct mo_env *env, const char *path, const struct mo_gpu_program *p) {
    int n = 0, first = 0;
    for (int i = p->n_ops - 1; i >= 0; i--) {
        if (p->ops[i].kind != MO_GPU_CORE) continue;
        first = i;
        n++;
    }
    if (n)
        mo_log(
            env, MOIRE_LOG_WARN,
            "'%s' on GPUs: %d of its %d operations run on a core, to which their tensors go and come back, "
            "the first is %.160s",
            path, n, p->n_ops, p->ops[first].label);
}

int mo_gpu_programs_make(const struct mo_env *env, const struct mo_gpu_programs_request *r,
                         struct mo_gpu_programs *out, moire_error *err) {
    *out = (struct mo_gpu_programs){0};
    int code = lower(env, r, 1, NULL, &out->program[0], err);
    if (code) return code;
    tell_cores(env, r->path, out->program[0]);
    out->n = out->batch[0] = 1;
    for (int batch = 2; batch <= r->max_batch && out->n < MO_ENGINE_BUCKETS; batch *= 2) {
        struct mo_gpu_program *p;
        moire_error why;
        code = lower(env, r, batch, out->program[0], &p, &why);
        if (code == MOIRE_ENOMEM) {
            mo_gpu_programs_free(out);
            return mo_fail(err, code, "%s", why.message);
        }
        const char *reason = code ? why.message : differs(out->program[0], p, batch);
        if (reason) {
            if (!code) mo_gpu_program_destroy(p);
            mo_log(env, MOIRE_LOG_INFO, "'%s' runs in batches of at most %d: %s", r->path, batch / 2, reason);
            break;
        }
        out->batch[out->n] = batch;
        out->program[out->n++] = p;
    }
    return MOIRE_OK;
}

void mo_gpu_programs_free(struct mo_gpu_programs *p) {
    for (int i = 0; i < p->n; i++)
        mo_gpu_program_destroy(p->program[i]);
    *p = (struct mo_gpu_programs){0};
}
