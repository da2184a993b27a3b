/* SPDX-License-Identifier: Apache-2.0
 * bindings.c - a model's tenants, one for each set of input shapes; see repository.h. */
#include <string.h>
#include "serve/protocol/fault.h"
#include "serve/repository/repository.h"

static bool is_for(const struct ms_model *m, const struct ms_binding *b, const moire_shape *shapes) {
    if (!b->tenant) return false;
    for (int i = 0; i < m->n_inputs; i++)
        if (b->shape[i].rank != shapes[i].rank ||
            memcmp(b->shape[i].shape, shapes[i].shape, (size_t)shapes[i].rank * sizeof *shapes[i].shape) != 0)
            return false;
    return true;
}

struct ms_binding *ms_binding_find(struct ms_model *m, const moire_shape *shapes) {
    for (int i = 0; i < MS_BINDINGS; i++) {
        struct ms_binding *b = &m->binding[i];
        if (!is_for(m, b, shapes)) continue;
        b->users++;
        b->used = ++m->repository->uses;
        return b;
    }
    return NULL;
}

/* A free place, or that of the tenant least lately used, which is returned in *old; NULL: all are in use. */
static struct ms_binding *make_room(struct ms_model *m, moire_tenant **old) {
    struct ms_binding *best = NULL;
    for (int i = 0; i < MS_BINDINGS; i++) {
        struct ms_binding *b = &m->binding[i];
        if (b->users) continue;
        if (!best || !b->tenant || (best->tenant && b->used < best->used)) best = b;
        if (!b->tenant) break;
    }
    *old = best ? best->tenant : NULL;
    if (best) best->tenant = NULL;
    return best;
}

static int load(struct ms_model *m, const moire_shape *shapes, moire_tenant **out, moire_error *err) {
    moire_tenant_config c;
    moire_tenant_config_init(&c);
    c.name = m->found.name;
    c.qos_ns = m->settings.qos_ns;
    c.cls = m->settings.cls;
    c.priority = m->settings.priority;
    c.shed_late = m->settings.is_predicted;
    c.shapes = shapes;
    c.n_shapes = m->n_inputs;
    return moire_load(m->repository->options.runtime, m->found.path, &c, out, err);
}

int ms_binding_make(struct ms_model *m, const moire_shape *shapes, struct ms_binding **out,
                    moire_error *err) {
    moire_tenant *old = NULL, *made = NULL;
    pthread_mutex_lock(&m->repository->lock);
    *out = ms_binding_find(m, shapes);
    struct ms_binding *b = *out ? NULL : make_room(m, &old);
    pthread_mutex_unlock(&m->repository->lock);
    if (*out) return MOIRE_OK;
    if (!b)
        return ms_fail(err, MOIRE_EBUSY,
                       "model '%.100s' has queries of %d shapes under way; a further one must wait",
                       m->found.name, MS_BINDINGS);
    if (old) moire_unload(old, NULL);
    const int rc = load(m, shapes, &made, err);
    if (rc) return rc;
    pthread_mutex_lock(&m->repository->lock);
    memcpy(b->shape, shapes, (size_t)m->n_inputs * sizeof *shapes);
    b->tenant = made;
    b->users = 1;
    b->used = ++m->repository->uses;
    pthread_mutex_unlock(&m->repository->lock);
    *out = b;
    return MOIRE_OK;
}
