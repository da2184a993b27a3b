/* SPDX-License-Identifier: Apache-2.0
 * compiled_plan.c - plans from compiled models; see compiled.h.
 *
 * Whatever is wrong with a compiled model costs time, never service: one line in the log, and the caller
 * makes the plan from ONNX.  While the plan is made the data is checked; nothing runs before that has ended
 * well. */
#include <string.h>
#include "runtime/plan/compiled.h"
#include "variants/store.h"

/* Every shape of the request is that of an input. */
static bool has_shapes(const struct mo_graph *g, const struct mo_compiled_request *r) {
    for (int i = 0; i < r->n_shapes; i++) {
        const moire_shape *want = &r->shapes[i];
        bool same = false;
        for (int k = 0; k < g->n_inputs && !same; k++) {
            const struct mo_tensor *t = g->tensors[g->inputs[k]];
            same = !strcmp(t->name, want->input) && t->shape.rank == want->rank &&
                   !memcmp(t->shape.d, want->shape, (size_t)want->rank * sizeof *want->shape);
        }
        if (!same) return false;
    }
    return true;
}

/* out->graph is NULL where none fits. */
static int open_fitting(const struct mo_compiled_ask *ask, struct mo_compiled *out, moire_error *err) {
    const struct mo_store *store = ask->planning->store;
    struct mo_compiled_request asked = *ask->request;
    int rc = mo_compiled_open(store, ask->env, &asked, ask->helper, out, err);
    if (rc || out->graph || !ask->n_found) return rc;
    asked.n_shapes -= ask->n_found;
    rc = mo_compiled_open(store, ask->env, &asked, ask->helper, out, err);
    if (rc || !out->graph || has_shapes(out->graph, ask->request)) return rc;
    mo_graph_destroy(out->graph);
    out->graph = NULL;
    mo_compiled_close(out);
    return MOIRE_OK;
}

/* Of an opened one, whose graph it takes over. */
static int build(const struct mo_compiled_ask *ask, struct mo_compiled *c, struct mo_plan **plan,
                 moire_error *err) {
    int rc = ask->look ? ask->look(ask->look_ctx, c->graph, err) : MOIRE_OK;
    if (rc)
        mo_graph_destroy(c->graph);
    else
        rc = mo_plan_build(c->graph, ask->planning, plan, err);
    c->graph = NULL;
    if (!rc && (rc = mo_compiled_check(c, err))) {
        mo_plan_destroy(*plan);
        *plan = NULL;
    }
    return rc;
}

void mo_compiled_say_packed(const struct mo_env *env, const char *path, const char *why) {
    mo_log(env, MOIRE_LOG_INFO, "'%.300s': weights are packed now: %s", path, why);
}

int mo_compiled_plan(const struct mo_compiled_ask *ask, struct mo_compiled *out, struct mo_plan **plan,
                     moire_error *err) {
    const char *path = ask->request->path;
    moire_error why;
    *plan = NULL;
    *out = (struct mo_compiled){.env = ask->env};
    if (!ask->planning->store) return MOIRE_OK;
    int rc = open_fitting(ask, out, &why);
    if (!rc && !out->graph) {
        mo_compiled_say_packed(ask->env, path,
                               "the store has no compiled model of this file at its shapes and settings");
        return MOIRE_OK;
    }
    if (!rc) rc = build(ask, out, plan, &why);
    if (!rc) {
        mo_compiled_trim(out, *plan);
        mo_log(ask->env, MOIRE_LOG_INFO,
               "'%.300s': packed weights are mapped from its compiled model, %.1f MB", path,
               (double)out->file.n / 1e6);
        return MOIRE_OK;
    }
    *plan = NULL;
    mo_compiled_close(out);
    if (rc == MOIRE_ENOMEM) return mo_fail(err, rc, "%s", why.message);
    mo_store_note(ask->planning->store, false);
    mo_log(ask->env, MOIRE_LOG_WARN, "compiled model of '%s' skipped, loading ONNX: %s", path, why.message);
    return MOIRE_OK;
}
