/* SPDX-License-Identifier: Apache-2.0
 * compile.c - models to stored variants; see compile.h.  Only shapes and attributes of a model are kept while
 * its layers are searched, so any number of models fits in memory. */
#include "codegen/compile/compile.h"

#include <math.h>
#include <string.h>
#include "codegen/frontend.h"

int mo_compile_shapes(const struct mo_env *env, const struct mo_compile_options *o, const char *file,
                      moire_shape *out, int *n, moire_error *err) {
    struct mo_frontend_options plain = {.no_passes = true};
    struct mo_graph *graph;
    *n = 0;
    if (!o->n_shapes) return MOIRE_OK;
    if (o->n_files == 1) { /* the only model: it must know them all */
        for (; *n < o->n_shapes; ++*n)
            out[*n] = o->shapes[*n];
        return MOIRE_OK;
    }
    int rc = mo_frontend_load(env, file, &plain, &graph, err);
    if (rc) return rc;
    for (int i = 0; i < o->n_shapes; i++)
        for (int k = 0; k < graph->n_inputs; k++)
            if (!strcmp(graph->tensors[graph->inputs[k]]->name, o->shapes[i].input))
                out[(*n)++] = o->shapes[i];
    mo_graph_destroy(graph);
    return MOIRE_OK;
}

/* What verifying and publishing models takes, of the time in which they are loaded and of that in which they
 * run: they are loaded some five times, packed, written, read again, and run some forty times. */
static const double LOADS = 12, RUNS = 40;

static int add_model(const struct mo_env *env, const struct mo_compile_options *o, const char *file,
                     moire_shape *shapes, struct mo_search *search, moire_error *err) {
    struct mo_frontend_options front = {.shapes = shapes, .exact = o->exact, .precision = o->precision};
    if (!shapes) return mo_fail(err, MOIRE_ENOMEM, "out of memory binding shapes");
    struct mo_graph *graph;
    int rc = mo_compile_shapes(env, o, file, shapes, &front.n_shapes, err);
    if (!rc) rc = mo_frontend_load(env, file, &front, &graph, err);
    if (rc) return rc;
    rc = mo_search_add(search, graph, err);
    mo_graph_destroy(graph);
    return rc;
}

int mo_compile_models(const struct mo_env *env, const struct mo_compile_options *o, struct mo_search **out,
                      moire_error *err) {
    struct mo_search_options search = o->search;
    if (!search.families) search.families = mo_emit_families();
    if (!search.problem) search.problem = mo_problem_from_node;
    moire_shape *shapes = mo_alloc(env, ((size_t)o->n_shapes + 1) * sizeof *shapes);
    *out = NULL;
    int rc = mo_search_create(env, &search, out, err);
    const int64_t start = mo_now(env);
    for (int i = 0; i < o->n_files && !rc; i++)
        rc = add_model(env, o, o->files[i], shapes, *out, err);
    mo_free(env, shapes);
    if (rc) {
        mo_search_destroy(*out);
        *out = NULL;
        return rc;
    }
    mo_search_reserve(*out, LOADS * (double)(mo_now(env) - start) * 1e-9, RUNS);
    return mo_search_run(*out, err);
}

struct mo_compile_totals mo_compile_totals(const struct mo_search *search) {
    struct mo_compile_totals t = {.layers = mo_search_count(search)};
    double logs = 0;
    for (int i = 0; i < t.layers; i++) {
        const struct mo_layer_result *r = mo_search_result(search, i);
        t.reused += r->state == MO_LAYER_REUSED;
        t.compiled += r->state == MO_LAYER_COMPILED;
        t.generic += r->state == MO_LAYER_GENERIC;
        t.failed += r->state == MO_LAYER_FAILED;
        t.pending += r->state == MO_LAYER_PENDING;
        t.rejected += r->rejected;
        t.flops += r->flops * r->uses;
        t.source_bytes += r->source_bytes;
        if (r->min_ns <= 0 || r->generic_ns <= 0) continue;
        double best = fmin(r->min_ns, r->generic_ns);
        t.min_ms += best * r->uses * 1e-6;
        t.generic_ms += r->generic_ns * r->uses * 1e-6;
        logs += log(r->generic_ns / best);
        t.timed_flops += (double)r->flops * r->uses;
        t.timed++;
    }
    t.speedup = t.timed ? exp(logs / t.timed) : 0;
    return t;
}

const char *mo_layer_state_name(enum mo_layer_state state) {
    static const char *const names[] = {[MO_LAYER_PENDING] = "pending",
                                        [MO_LAYER_REUSED] = "reused",
                                        [MO_LAYER_COMPILED] = "compiled",
                                        [MO_LAYER_GENERIC] = "generic",
                                        [MO_LAYER_FAILED] = "failed"};
    return names[state];
}
