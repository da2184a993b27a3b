/* SPDX-License-Identifier: Apache-2.0
 * batch_sizes.c - of which sizes runs can be, and what they are predicted to take; see batcher.h. */
#include <stdlib.h>
#include <string.h>
#include "moire_predict.h"
#include "serve/protocol/fault.h"
#include "serve/query/infer_query.h"
#include "serve/repository/repository_impl.h"

/* Predictions change slowly. */
static const int64_t LOOK_NS = 100000000;
/* A size should save this part of the time a row against all before it.  One that does not may be a slip of
 * the profile; after the second, larger ones are not prepared. */
static const double SAVES = 0.03;
enum { MISSES = 2 };

/* --- classes --- */
static bool is_of(const struct ms_model *m, const moire_shape *shape, const struct ms_query *q) {
    for (int i = 0; i < m->n_inputs; i++) {
        const moire_shape *s = &q->shapes[i];
        if (s->rank != shape[i].rank || s->shape[0] != q->rows ||
            memcmp(s->shape + 1, shape[i].shape + 1, (size_t)(s->rank - 1) * sizeof *s->shape) != 0)
            return false;
    }
    return true;
}

/* Every input has the rows of the query as its first dimension. */
static bool has_rows(const struct ms_model *m, const struct ms_query *q) {
    for (int i = 0; i < m->n_inputs; i++)
        if (q->shapes[i].rank < 1 || q->shapes[i].shape[0] != q->rows) return false;
    return m->n_inputs > 0 && q->rows >= 1;
}

static void add_size(struct ms_batch_class *c, int64_t rows, bool preferred) {
    int at = 0;
    while (at < c->n && c->size[at].rows < rows)
        at++;
    if (at < c->n && c->size[at].rows == rows) {
        c->size[at].preferred |= preferred;
        return;
    }
    if (c->n == MS_BATCH_SIZES) return;
    memmove(&c->size[at + 1], &c->size[at], (size_t)(c->n - at) * sizeof *c->size);
    c->size[at] = (struct ms_size){.rows = rows, .preferred = preferred};
    c->n++;
}

static bool begin(struct ms_batch_class *c, const struct ms_model *m, const struct ms_query *q) {
    const struct ms_batching *b = &m->settings.batching;
    const int64_t most = m->settings.max_batch < MS_BATCH_ROWS ? m->settings.max_batch : MS_BATCH_ROWS;
    free(c->shape);
    *c = (struct ms_batch_class){.shape = malloc((size_t)m->n_inputs * sizeof *c->shape)};
    if (!c->shape) return false;
    memcpy(c->shape, q->shapes, (size_t)m->n_inputs * sizeof *c->shape);
    for (int64_t rows = 2; rows <= most; rows *= 2)
        add_size(c, rows, false);
    for (int i = 0; i < b->n_preferred; i++)
        if (b->preferred[i] <= most) add_size(c, b->preferred[i], true);
    return true;
}

struct ms_batch_class *ms_batch_class_of(struct ms_batcher *b, const struct ms_query *q) {
    const struct ms_model *m = b->model;
    struct ms_batch_class *oldest = NULL;
    if (!has_rows(m, q)) return NULL;
    for (int i = 0; i < MS_BATCH_CLASSES; i++) {
        struct ms_batch_class *c = &b->cls[i];
        if (c->shape && is_of(m, c->shape, q)) {
            c->used = ++b->uses;
            return c;
        }
        const bool is_free = !c->waiting && !c->is_made;
        if (is_free && (!oldest || !c->shape || (oldest->shape && c->used < oldest->used))) oldest = c;
    }
    if (!oldest || !begin(oldest, m, q)) return NULL;
    oldest->used = ++b->uses;
    return oldest;
}

/* --- tenants of sizes, and their predictions --- */
static void shapes_of(const struct ms_model *m, const struct ms_batch_class *c, int64_t rows,
                      moire_shape *out) {
    memcpy(out, c->shape, (size_t)m->n_inputs * sizeof *out);
    for (int i = 0; i < m->n_inputs; i++)
        out[i].shape[0] = rows;
}

struct ms_binding *ms_batch_binding(struct ms_batcher *b, const struct ms_batch_class *c, int64_t rows) {
    moire_shape shape[MS_PORTS];
    shapes_of(b->model, c, rows, shape);
    pthread_mutex_lock(&b->model->repository->lock);
    struct ms_binding *binding = ms_binding_find(b->model, shape);
    pthread_mutex_unlock(&b->model->repository->lock);
    return binding;
}

static void predict(moire_tenant *tenant, struct ms_size *out) {
    if (moire_tenant_predict(tenant, 1, &out->one_ns, NULL) ||
        moire_tenant_predict(tenant, 0, &out->least_ns, NULL))
        out->one_ns = out->least_ns = 0;
}

void ms_batch_predict(struct ms_model *m, const moire_shape *shapes, int64_t *one_ns, int64_t *least_ns) {
    struct ms_repository *r = m->repository;
    struct ms_size size = {0};
    pthread_mutex_lock(&r->lock);
    struct ms_binding *binding = ms_binding_find(m, shapes);
    pthread_mutex_unlock(&r->lock);
    if (binding) {
        predict(binding->tenant, &size);
        ms_binding_give(m, binding);
    }
    *one_ns = size.one_ns;
    *least_ns = size.least_ns;
}

/* False: there is no tenant of that size any more. */
static bool look(struct ms_batcher *b, const struct ms_batch_class *c, struct ms_size *size) {
    struct ms_binding *binding = ms_batch_binding(b, c, size->rows);
    if (!binding) return false;
    predict(binding->tenant, size);
    ms_binding_give(b->model, binding);
    return true;
}

void ms_batch_look(struct ms_batcher *b, struct ms_batch_class *c, const struct ms_query *first) {
    const int64_t now = moire_now(b->model->repository->options.runtime);
    const bool is_fresh = now - c->looked_ns < LOOK_NS;
    if (!is_fresh || c->alone.rows != first->rows || !c->alone.one_ns) {
        c->alone = (struct ms_size){.rows = first->rows};
        look(b, c, &c->alone);
    }
    if (is_fresh) return;
    for (int i = 0; i < c->n; i++)
        if (c->ready[i] && !look(b, c, &c->size[i])) {
            c->ready[i] = false;
            if (i < c->next) c->next = i;
        }
    c->looked_ns = now;
}

/* --- preparing them --- */
struct preparing {
    struct ms_batcher *batcher; /* held, and its model */
    struct ms_batch_class *cls;
    int index;
    struct ms_size size;
    moire_shape shape[];
};

static double a_row(const struct ms_size *s) {
    return s->rows ? (double)s->one_ns / (double)s->rows : 0;
}

/* Whether larger sizes can be expected to save more. */
static bool has_saved(const struct ms_batch_class *c, int index) {
    const struct ms_size *size = &c->size[index];
    double best = c->alone.rows < size->rows ? a_row(&c->alone) : 0;
    for (int i = 0; i < index; i++)
        if (c->ready[i] && (!(best > 0) || a_row(&c->size[i]) < best)) best = a_row(&c->size[i]);
    return size->preferred || !(best > 0) || a_row(size) < (1 - SAVES) * best;
}

static int prepare(struct preparing *p, moire_error *err) {
    struct ms_model *m = p->batcher->model;
    struct ms_binding *binding;
    int rc = moire_model_rows_are_separate(m->file, p->shape, m->n_inputs, err);
    if (!rc) rc = ms_binding_make(m, p->shape, false, &binding, err);
    if (rc) return rc;
    predict(binding->tenant, &p->size);
    ms_binding_give(p->batcher->model, binding);
    return MOIRE_OK;
}

/* On the loader's thread. */
static void prepare_size(void *user) {
    struct preparing *p = user;
    struct ms_batcher *b = p->batcher;
    struct ms_model *m = b->model;
    struct ms_batch_class *c = p->cls;
    moire_error err = {0};
    const int rc = prepare(p, &err);
    pthread_mutex_lock(&b->lock);
    c->is_made = false;
    c->ready[p->index] = !rc;
    if (!rc) c->size[p->index] = p->size;
    c->misses += !rc && !has_saved(c, p->index);
    c->next = rc || c->misses == MISSES ? c->n : p->index + 1;
    while (c->next < c->n && c->ready[c->next])
        c->next++;
    const double part = c->alone.one_ns ? a_row(&p->size) / a_row(&c->alone) : 1;
    pthread_mutex_unlock(&b->lock);
    if (rc)
        ms_say(m->repository, MOIRE_LOG_INFO, "model '%.100s': queries are not joined to %lld rows: %.300s",
               m->found.name, (long long)p->size.rows, err.message);
    else
        ms_say(m->repository, MOIRE_LOG_DEBUG,
               "model '%.100s': %lld rows together take %.2f of the time a row", m->found.name,
               (long long)p->size.rows, part);
    ms_repository_give(m);
    ms_batcher_drop(b);
    free(p);
}

void ms_batch_grow(struct ms_batcher *b, struct ms_batch_class *c) {
    struct ms_model *m = b->model;
    if (c->is_made || c->next >= c->n || !c->alone.one_ns) return;
    struct preparing *p = malloc(sizeof *p + (size_t)m->n_inputs * sizeof *p->shape);
    if (!p) return;
    *p = (struct preparing){.batcher = b, .cls = c, .index = c->next, .size = c->size[c->next]};
    shapes_of(m, c, p->size.rows, p->shape);
    atomic_fetch_add(&b->holders, 1);
    ms_repository_hold(m);
    c->is_made = true;
    if (!ms_repository_call(m->repository, prepare_size, p)) return;
    c->is_made = false;
    ms_repository_give(m);
    ms_batcher_drop(b);
    free(p);
}
