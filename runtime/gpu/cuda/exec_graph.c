/* SPDX-License-Identifier: Apache-2.0
 * exec_graph.c - CUDA graphs of segments: captured once for each place and instance, then launched.  A run of
 * the whole program is one launch too, however many segments it has for the sake of being cut. */
#include "runtime/gpu/cuda/exec_impl.h"

static struct mo_exec_graphs *find(struct mo_cuda_loaded *l, uint32_t place, int instance) {
    const struct mo_sys *sys = l->exec->env->sys;
    mo_lock_take(sys, &l->listing);
    struct mo_exec_graphs *g = l->graphs;
    while (g && (g->place != place || g->instance != instance))
        g = g->next;
    mo_lock_drop(sys, &l->listing);
    return g;
}

bool mo_cuda_exec_ready(struct mo_cuda_loaded *l, int instance, uint32_t place) {
    return find(l, place, instance) != NULL;
}

/* Everything between begin and end goes into the graph; end is called in every case, for a stream that stays
 * in capture is of no use any more. */
static int capture(struct mo_cuda_loaded *l, const struct mo_exec_choices *choices, int segment, int instance,
                   mo_cu_stream stream, mo_cu_graph_exec *out, moire_error *err) {
    const struct mo_cuda_driver *cu = l->exec->cu;
    const struct mo_gpu_segment whole = {.begin = 0, .end = l->program.n_ops};
    const struct mo_gpu_segment *s = segment < l->program.n_segments ? &l->program.segments[segment] : &whole;
    mo_cu_graph graph = NULL;
    unsigned r = cu->capture_begin(stream, MO_CU_CAPTURE_THREAD_LOCAL);
    if (r) return mo_cuda_error(cu, r, err, "begin to capture segment %d", segment);
    int rc = MOIRE_OK;
    for (int i = s->begin; i < s->end && !rc; i++)
        rc = mo_exec_enqueue(l, &choices->of[i], i, l->arenas[instance], stream, err);
    r = cu->capture_end(stream, &graph);
    if (!rc && r) rc = mo_cuda_error(cu, r, err, "capture segment %d", segment);
    if (!rc && (r = cu->graph_instantiate(out, graph, 0)))
        rc = mo_cuda_error(cu, r, err, "make a graph of segment %d", segment);
    if (graph) cu->graph_destroy(graph);
    if (!rc && (r = cu->graph_upload(*out, stream)))
        rc = mo_cuda_error(cu, r, err, "bring segment %d to the GPU", segment);
    return rc;
}

static int capture_instance(struct mo_cuda_loaded *l, const struct mo_exec_choices *choices,
                            const struct mo_cuda_target *target, int instance, moire_error *err) {
    const struct mo_env *env = l->exec->env;
    const int n = mo_exec_graph_count(&l->program);
    struct mo_exec_graphs *g = mo_alloc(env, sizeof *g + (size_t)n * sizeof g->segment[0]);
    if (!g) return mo_fail(err, MOIRE_ENOMEM, "no host memory for graphs");
    g->place = target->place;
    g->instance = instance;
    int rc = MOIRE_OK;
    for (int i = 0; i < n && !rc; i++)
        rc = capture(l, choices, i, instance, target->stream, &g->segment[i], err);
    if (rc) {
        for (int i = 0; i < n; i++)
            if (g->segment[i] && mo_exec_usable(l->exec)) l->exec->cu->graph_exec_destroy(g->segment[i]);
        mo_free(env, g);
        return rc;
    }
    mo_lock_take(env->sys, &l->listing);
    g->next = l->graphs;
    l->graphs = g;
    mo_lock_drop(env->sys, &l->listing);
    return MOIRE_OK;
}

static int prepare(struct mo_cuda_loaded *l, const struct mo_cuda_target *target, int first, int end,
                   moire_error *err) {
    struct mo_exec_choices *choices;
    int rc = mo_exec_choose(l, target->sms, target->stream, &choices, err);
    for (int i = first; i < end && !rc; i++)
        if (!find(l, target->place, i)) rc = capture_instance(l, choices, target, i, err);
    if (!rc) {
        unsigned r = mo_exec_wait(l->exec, target->stream);
        if (r) rc = mo_cuda_error(l->exec->cu, r, err, "prepare a program");
    }
    return rc;
}

int mo_cuda_exec_prepare(struct mo_cuda_loaded *l, const struct mo_cuda_target *target, moire_error *err) {
    const struct mo_sys *sys = l->exec->env->sys;
    moire_error own;
    mo_lock_take(sys, &l->exec->lock);
    int rc = prepare(l, target, 0, l->instances, err ? err : &own);
    mo_lock_drop(sys, &l->exec->lock);
    return rc;
}

int mo_cuda_exec_queue(struct mo_cuda_loaded *l, int instance, const struct mo_cuda_target *target, int begin,
                       int end, moire_error *err) {
    const struct mo_sys *sys = l->exec->env->sys;
    const struct mo_cuda_driver *cu = l->exec->cu;
    moire_error own;
    int rc = MOIRE_OK;
    struct mo_exec_graphs *g = find(l, target->place, instance);
    if (!g) {
        mo_lock_take(sys, &l->exec->lock);
        rc = prepare(l, target, instance, instance + 1, err ? err : &own);
        mo_lock_drop(sys, &l->exec->lock);
        g = find(l, target->place, instance);
    }
    const int n = l->program.n_segments;
    if (begin == 0 && end == n && n > 1) begin = end++;
    for (int i = begin; i < end && !rc; i++) {
        unsigned r = cu->graph_launch(g->segment[i], target->stream);
        if (r) rc = mo_cuda_error(cu, r, err, "start segment %d of a program", i);
    }
    return rc;
}
