/* SPDX-License-Identifier: Apache-2.0
 * common.c - what tenants of one file share; see common.h. */
#include "runtime/serve/common.h"

#include <string.h>
#include "runtime/plan/compiled.h"

static void destroy(struct mo_common *c) {
    const struct mo_env *env = &c->runtime->env;
    mo_imported_destroy(c->share.imported);
    mo_weights_destroy(c->share.weights);
    mo_layer_rates_destroy(c->rates);
    mo_free(env, c);
}

static struct mo_common *create(moire_runtime *rt, const char *state) {
    struct mo_common *c = mo_alloc(&rt->env, sizeof *c);
    if (!c) return NULL;
    *c = (struct mo_common){.runtime = rt, .users = 1};
    memcpy(c->state, state, sizeof c->state);
    c->share.weights = mo_weights_create(&rt->env);
    if (c->share.weights) return c;
    destroy(c);
    return NULL;
}

/* Of what a file is; the shapes do not count here. */
static int state_of(const moire_runtime *rt, const char *path, char state[MO_SHA256_HEX], moire_error *err) {
    const struct mo_compiled_request request = {.path = path, .isa = rt->isa};
    return mo_compiled_stamp(&rt->env, &request, state, err);
}

/* A user more; NULL: there is none that `passed` is not. */
static struct mo_common *find(moire_runtime *rt, const char *state, const struct mo_common *passed) {
    mo_lock_take(rt->env.sys, &rt->listing);
    struct mo_common *c = passed ? passed->next : rt->commons;
    while (c && strcmp(c->state, state) != 0)
        c = c->next;
    if (c) c->users++;
    mo_lock_drop(rt->env.sys, &rt->listing);
    return c;
}

/* Whether the files with external data are those that were imported. */
static bool is_current(struct mo_common *c, const char *path) {
    const struct mo_env *env = &c->runtime->env;
    char outside[MO_SHA256_HEX] = "";
    mo_lock_take(env->sys, &c->building);
    const struct mo_graph *g = c->share.imported ? mo_imported_graph(c->share.imported) : NULL;
    const int rc = g ? mo_compiled_outside(env, path, g, outside, NULL) : MOIRE_OK;
    const bool same = !rc && (!g || !strcmp(outside, c->outside));
    mo_lock_drop(env->sys, &c->building);
    return same;
}

int mo_common_take(moire_runtime *rt, const char *path, struct mo_common **out, moire_error *err) {
    char state[MO_SHA256_HEX];
    struct mo_common *c = NULL, *next;
    *out = NULL;
    int rc = state_of(rt, path, state, err);
    if (rc) return rc;
    while ((next = find(rt, state, c)) && !is_current(next, path)) {
        if (c) mo_common_give(c);
        c = next; /* kept, so that its place in the list is */
    }
    if (c) mo_common_give(c);
    if ((*out = next)) return MOIRE_OK;
    c = create(rt, state);
    if (!c) return mo_fail(err, MOIRE_ENOMEM, "out of memory for '%.300s'", path);
    mo_lock_take(rt->env.sys, &rt->listing);
    c->next = rt->commons;
    rt->commons = c;
    mo_lock_drop(rt->env.sys, &rt->listing);
    *out = c;
    return MOIRE_OK;
}

void mo_common_give(struct mo_common *c) {
    if (!c) return;
    moire_runtime *rt = c->runtime;
    mo_lock_take(rt->env.sys, &rt->listing);
    const bool last = --c->users == 0;
    struct mo_common **at = &rt->commons;
    while (last && *at != c)
        at = &(*at)->next;
    if (last) *at = c->next;
    mo_lock_drop(rt->env.sys, &rt->listing);
    if (last) destroy(c);
}

bool mo_common_is_ready(struct mo_common *c) {
    const struct mo_sys *sys = c->runtime->env.sys;
    mo_lock_take(sys, &c->building);
    const bool ready = c->share.imported && c->rates;
    mo_lock_drop(sys, &c->building);
    return ready;
}

/* The file may be written to while it is read: then nobody else is to find what came of it. */
static int load(struct mo_common *c, const char *path, const struct mo_frontend_options *options,
                struct mo_graph **out, moire_error *err) {
    const struct mo_env *env = &c->runtime->env;
    const bool first = !c->share.imported;
    char state[MO_SHA256_HEX];
    int rc = mo_frontend_load(env, path, options, out, err);
    if (rc) return rc;
    rc = state_of(c->runtime, path, state, err);
    if (!rc && first) rc = mo_compiled_outside(env, path, *out, c->outside, err);
    if (!rc && first) atomic_store(&c->constants, mo_imported_bytes(c->share.imported));
    if (!rc && strcmp(state, c->state) != 0)
        rc = mo_fail(err, MOIRE_EIO, "'%.300s' was written to while it was read; load it again", path);
    if (!rc) return MOIRE_OK;
    mo_graph_destroy(*out);
    *out = NULL;
    return rc;
}

int mo_common_graph(struct mo_common *c, const char *path, const struct mo_frontend_options *options,
                    bool from_file, struct mo_graph **out, moire_error *err) {
    struct mo_frontend_options o = *options;
    o.share = &c->share;
    if (c->share.imported && !from_file)
        return mo_imported_bind(c->share.imported, c->share.weights, &o, out, err);
    const bool first = !c->share.imported;
    const int rc = load(c, path, &o, out, err);
    if (rc && first) { /* what a failed load has left is of no use */
        mo_imported_destroy(c->share.imported);
        c->share.imported = NULL;
    }
    return rc;
}

void mo_common_add(const moire_runtime *rt, moire_memory *sum) {
    for (const struct mo_common *c = rt->commons; c; c = c->next) {
        sum->weights += mo_weights_bytes(c->share.weights);
        sum->plans += atomic_load(&c->constants);
    }
}
