/* SPDX-License-Identifier: Apache-2.0
 * bindings.c - a model's tenants, one for each set of input shapes; see repository.h.
 *
 * All tenants of a model share its weights, so that one of them costs little beside the first: a plan and
 * what its queries hold.  Those bytes, of all models together, are bounded by the option shape_memory: the
 * tenants least lately used that no query is using go, but for the last of a model, without which its weights
 * would go too. */
#include <stdlib.h>
#include <string.h>
#include "serve/protocol/fault.h"
#include "serve/query/padding.h"
#include "serve/repository/repository_impl.h"

static bool is_for(const struct ms_model *m, const struct ms_binding *b, const moire_shape *shapes) {
    for (int i = 0; i < m->n_inputs; i++)
        if (b->shape[i].rank != shapes[i].rank ||
            memcmp(b->shape[i].shape, shapes[i].shape, (size_t)shapes[i].rank * sizeof *shapes[i].shape) != 0)
            return false;
    return true;
}

struct ms_binding *ms_binding_find(struct ms_model *m, const moire_shape *shapes) {
    struct ms_binding *b = m->bindings;
    while (b && !is_for(m, b, shapes))
        b = b->next;
    if (!b) return NULL;
    b->users++;
    b->used = ++m->repository->uses;
    return b;
}

/* --- making room ---------------------------------------------------------------------------------------- */

/* Of all models the binding least lately used that may go, out of its list; NULL: there is none. */
static struct ms_binding *take_oldest(struct ms_repository *r) {
    struct ms_binding **best = NULL;
    struct ms_model *of = NULL;
    for (int i = 0; i < r->n; i++) {
        struct ms_model *m = r->model[i];
        for (struct ms_binding **at = &m->bindings; *at && m->n_bindings > 1; at = &(*at)->next)
            if (!(*at)->users && (!best || (*at)->used < (*best)->used)) {
                best = at;
                of = m;
            }
    }
    if (!best) return NULL;
    struct ms_binding *b = *best;
    *best = b->next;
    of->n_bindings--;
    r->n_bindings--;
    r->shape_bytes -= b->bytes;
    return b;
}

static void destroy(struct ms_binding *b) {
    moire_unload(b->tenant, NULL);
    free(b);
}

/* Until there is room for so many more; false: their number allows no more. */
static bool make_room(struct ms_repository *r, int more) {
    for (;;) {
        pthread_mutex_lock(&r->lock);
        const bool many = r->n_bindings + more > MS_BINDINGS;
        const bool full = many || r->shape_bytes > r->options.shape_memory;
        struct ms_binding *b = full ? take_oldest(r) : NULL;
        pthread_mutex_unlock(&r->lock);
        if (!b) return !many;
        destroy(b);
    }
}

void ms_bindings_trim(struct ms_repository *r) {
    make_room(r, 0);
}

void ms_bindings_close(struct ms_model *m) {
    while (m->bindings) {
        struct ms_binding *b = m->bindings;
        pthread_mutex_lock(&m->repository->lock);
        m->bindings = b->next;
        m->n_bindings--;
        m->repository->n_bindings--;
        m->repository->shape_bytes -= b->bytes;
        pthread_mutex_unlock(&m->repository->lock);
        destroy(b);
    }
}

/* --- making one ----------------------------------------------------------------------------------------- */

static int load(const struct ms_model *m, const moire_shape *shapes, bool quick, moire_tenant **out,
                moire_error *err) {
    moire_tenant_config c;
    moire_tenant_config_init(&c);
    c.name = m->found.name;
    c.qos_ns = m->settings.qos_ns;
    c.cls = m->settings.cls;
    c.priority = m->settings.priority;
    c.cores = m->settings.cores;
    c.weight = m->settings.weight;
    c.precision = m->settings.precision;
    c.tolerance = m->settings.tolerance;
    c.shed_late = m->settings.is_predicted;
    c.shapes = shapes;
    c.n_shapes = m->n_inputs;
    c.at_once = quick ? 2 : 1;
    return moire_load(m->repository->options.runtime, m->found.path, &c, out, err);
}

/* What goes when the tenant does. */
static int64_t own_bytes(moire_tenant *tenant) {
    moire_tenant_stats s = {.size = sizeof s};
    if (moire_tenant_get_stats(tenant, &s, NULL)) return 0;
    return s.memory.plans + s.memory.inputs + s.memory.weights - s.shared_weights;
}

/* Puts it into the list, unless somebody else has made the same meanwhile, which is then *b. */
static void add(struct ms_model *m, struct ms_binding **b) {
    struct ms_repository *r = m->repository;
    struct ms_binding *made = *b;
    pthread_mutex_lock(&r->lock);
    struct ms_binding *there = ms_binding_find(m, made->shape);
    if (!there) {
        made->users = 1;
        made->used = ++r->uses;
        made->next = m->bindings;
        m->bindings = made;
        m->n_bindings++;
        r->n_bindings++;
        r->shape_bytes += made->bytes;
    }
    pthread_mutex_unlock(&r->lock);
    if (!there) return;
    destroy(made);
    *b = there;
}

void ms_binding_give(struct ms_model *m, struct ms_binding *b) {
    pthread_mutex_lock(&m->repository->lock);
    b->users--;
    pthread_mutex_unlock(&m->repository->lock);
}

int ms_binding_make(struct ms_model *m, const moire_shape *shapes, bool quick, struct ms_binding **out,
                    moire_error *err) {
    struct ms_repository *r = m->repository;
    pthread_mutex_lock(&r->lock);
    *out = ms_binding_find(m, shapes);
    pthread_mutex_unlock(&r->lock);
    if (*out) return MOIRE_OK;
    if (quick && m->settings.n_buckets)
        return ms_fail(err, MOIRE_ESTORE, "the graph is looked at"); /* which takes its time */
    if (!make_room(r, 1))
        return ms_fail(err, MOIRE_EBUSY,
                       "queries of %d sets of shapes are under way; a further one must wait", MS_BINDINGS);
    struct ms_binding *b = calloc(1, sizeof *b + (size_t)m->n_inputs * sizeof *shapes);
    if (!b) return ms_fail(err, MOIRE_ENOMEM, "no memory for a shape of model '%.100s'", m->found.name);
    memcpy(b->shape, shapes, (size_t)m->n_inputs * sizeof *shapes);
    int rc = ms_binding_prove(m, b, err);
    if (!rc) rc = load(m, shapes, quick, &b->tenant, err);
    if (rc) {
        free(b);
        return rc;
    }
    b->bytes = own_bytes(b->tenant);
    add(m, &b);
    *out = b;
    return MOIRE_OK;
}
