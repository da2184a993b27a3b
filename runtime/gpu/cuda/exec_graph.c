/* SPDX-License-Identifier: Apache-2.0
 * exec_graph.c - CUDA graphs, captured once for each place and instance, then launched.
 *
 * A run of the whole program is one graph, however many segments it has for the sake of being cut; it is made
 * for every instance when a program is prepared.  Graphs of single segments are made when a run is cut there
 * for the first time: most programs never are, and a program may have 64 segments. */
#include "runtime/gpu/cuda/exec.h"

/* Graphs of a run: [first, end) of mo_exec_graphs.segment. */
struct range {
    int first, end;
};

static struct range range_of(const struct mo_gpu_program *p, int begin, int end) {
    const bool whole = begin == 0 && end == p->n_segments && end > 1;
    return whole ? (struct range){end, end + 1} : (struct range){begin, end};
}

static struct mo_exec_graphs *find(struct mo_gpu_loaded *l, uint32_t place, int instance) {
    struct mo_exec_graphs *g = l->graphs;
    while (g && (g->place != place || g->instance != instance))
        g = g->next;
    return g;
}

/* NULL: not captured yet. */
static mo_cu_graph_exec graph_of(struct mo_gpu_loaded *l, uint32_t place, int instance, int at) {
    const struct mo_sys *sys = l->exec->env->sys;
    mo_lock_take(sys, &l->listing);
    const struct mo_exec_graphs *g = find(l, place, instance);
    const mo_cu_graph_exec graph = g ? g->segment[at] : NULL;
    mo_lock_drop(sys, &l->listing);
    return graph;
}

bool mo_cuda_exec_ready(struct mo_gpu_loaded *l, int instance, uint32_t place, int begin, int end) {
    const struct range r = range_of(&l->program, begin, end);
    for (int i = r.first; i < r.end; i++)
        if (!graph_of(l, place, instance, i)) return false;
    return true;
}

/* Everything between begin and end goes into the graph; end is called in every case, for a stream that stays
 * in capture is of no use any more. */
static int capture(struct mo_gpu_loaded *l, const struct mo_exec_choices *choices, int segment, int instance,
                   mo_cu_stream stream, mo_cu_graph_exec *out, moire_error *err) {
    const struct mo_cuda_driver *cu = l->exec->cu;
    const struct mo_gpu_segment whole = {.begin = 0, .end = l->program.n_ops};
    const struct mo_gpu_segment *s = segment < l->program.n_segments ? &l->program.segments[segment] : &whole;
    mo_cu_graph graph = NULL;
    unsigned r = cu->capture_begin(stream, MO_CU_CAPTURE_RELAXED);
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

static int keep(struct mo_gpu_loaded *l, uint32_t place, int instance, int at, mo_cu_graph_exec graph,
                moire_error *err) {
    const struct mo_env *env = l->exec->env;
    const size_t n = (size_t)mo_exec_graph_count(&l->program);
    mo_lock_take(env->sys, &l->listing);
    struct mo_exec_graphs *g = find(l, place, instance);
    if (!g && (g = mo_alloc(env, sizeof *g + n * sizeof g->segment[0]))) {
        g->place = place;
        g->instance = instance;
        g->next = l->graphs;
        l->graphs = g;
    }
    if (g) g->segment[at] = graph;
    mo_lock_drop(env->sys, &l->listing);
    return g ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "no host memory for graphs");
}

static int capture_range(struct mo_gpu_loaded *l, const struct mo_exec_choices *choices,
                         const struct mo_cuda_target *target, int instance, struct range r,
                         moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = r.first; i < r.end && !rc; i++) {
        mo_cu_graph_exec graph = NULL;
        if (graph_of(l, target->place, instance, i)) continue;
        rc = capture(l, choices, i, instance, target->stream, &graph, err);
        if (!rc) rc = keep(l, target->place, instance, i, graph, err);
        if (rc && graph && mo_exec_usable(l->exec)) l->exec->cu->graph_exec_destroy(graph);
    }
    return rc;
}

int mo_cuda_exec_prepare(struct mo_gpu_loaded *l, int instance, const struct mo_cuda_target *target,
                         int begin, int end, moire_error *err) {
    const struct range r = range_of(&l->program, begin, end);
    const int first = instance < 0 ? 0 : instance, last = instance < 0 ? l->instances - 1 : instance;
    struct mo_exec_choices *choices;
    const struct mo_exec_choices *const known = l->choices; /* a new one becomes the first */
    const int64_t started = mo_now(l->exec->env);
    int rc = mo_exec_choose(l, target, &choices, err);
    const int64_t chosen = mo_now(l->exec->env);
    for (int i = first; i <= last && !rc; i++)
        rc = capture_range(l, choices, target, i, r, err);
    if (!rc) {
        unsigned result = mo_exec_wait(l->exec, target->stream);
        if (result) rc = mo_cuda_error(l->exec->cu, result, err, "prepare a program");
    }
    if (!rc) mo_exec_tell(l, choices, l->choices != known, chosen - started, mo_now(l->exec->env) - chosen);
    return rc;
}

int mo_cuda_exec_queue(struct mo_gpu_loaded *l, int instance, const struct mo_cuda_target *target, int begin,
                       int end, moire_error *err) {
    const struct mo_cuda_driver *cu = l->exec->cu;
    const struct range r = range_of(&l->program, begin, end);
    int rc = MOIRE_OK;
    for (int i = r.first; i < r.end && !rc; i++) {
        unsigned result = cu->graph_launch(graph_of(l, target->place, instance, i), target->stream);
        if (result) rc = mo_cuda_error(cu, result, err, "start segment %d of a program", i);
    }
    return rc;
}
