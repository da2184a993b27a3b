/* SPDX-License-Identifier: Apache-2.0
 * list_step.c - queries of steps that run for each item of a list; see list_step.h.
 *
 * One thread at a time drives a list: it begins items while there are some to begin and room for them.  An
 * item that ends meanwhile, on whatever thread, leaves that to it; so an item that ends within the call that
 * begins it does not call itself. */
#include "serve/pipeline/list_step.h"

#include <stdlib.h>
#include <string.h>
#include "serve/protocol/fault.h"
#include "serve/query/infer_query.h"

/* One item under way. */
struct item {
    struct ms_items *of;
    struct item *next;
    int index;
    struct ms_query query;
};
struct ms_items {
    struct ms_query *whole;
    struct ms_list list[MS_PORTS / 2];
    const char *wanted[MS_PORTS]; /* ports of the model */
    int n_lists, n_wanted;
    pthread_mutex_t lock;
    int n, begun, running; /* items; who cancels some is counted as running */
    bool is_driven, is_over;
    struct item *items;   /* those under way; after an error those that have ended, too */
    moire_tensor *output; /* that items have answered: [n][n_wanted] */
    char **memory;        /* [n], theirs */
    size_t bytes;
    int n_kept, rank[MS_PORTS]; /* of their outputs */
    int64_t started_ns;
    moire_error error;
};

/* --- what comes in --- */
static const struct ms_input *input_of(const struct ms_request *r, const char *name, size_t n,
                                       const char *end) {
    for (int i = 0; i < r->n_inputs; i++)
        if (!strncmp(r->input[i].name, name, n) && !strcmp(r->input[i].name + n, end)) return &r->input[i];
    return NULL;
}

static int read_lists(struct ms_items *s, moire_error *err) {
    const struct ms_request *r = &s->whole->request;
    int rc = MOIRE_OK, n = -1;
    for (int i = 0; i < r->n_inputs && !rc; i++) {
        if (ms_list_is_shapes(r->input[i].name)) continue;
        const struct ms_input *shapes = input_of(r, r->input[i].name, strlen(r->input[i].name), ":shapes");
        if (!shapes || s->n_lists == MS_PORTS / 2)
            return ms_fail(err, MOIRE_EINVAL, "input '%.60s' has no shapes", r->input[i].name);
        struct ms_list *l = &s->list[s->n_lists++];
        *l = (struct ms_list){r->input[i].name, &r->input[i].tensor, &shapes->tensor, 0};
        rc = ms_list_check(l, n, err);
        n = (int)shapes->tensor.shape[0];
    }
    s->n = rc || n < 0 ? 0 : n;
    return rc || n >= 0 ? rc : ms_fail(err, MOIRE_EINVAL, "a step for each item of a list has no list");
}

/* Of the name of the port of which an output of the step is: without ":shapes". */
static size_t port_length(const char *name) {
    return strlen(name) - (ms_list_is_shapes(name) ? strlen(":shapes") : 0);
}

static int wanted_index(const struct ms_items *s, const char *name) {
    const size_t n = port_length(name);
    for (int i = 0; i < s->n_wanted; i++)
        if (!strncmp(s->wanted[i], name, n) && !s->wanted[i][n]) return i;
    return -1;
}

/* The model's own ports, which live as long as the model. */
static int read_wanted(struct ms_items *s, moire_error *err) {
    const struct ms_request *r = &s->whole->request;
    const struct ms_model *m = s->whole->model;
    for (int i = 0; i < r->n_outputs; i++) {
        const size_t n = port_length(r->output[i].name);
        int k = 0;
        if (wanted_index(s, r->output[i].name) >= 0) continue;
        while (k < m->n_outputs && (strncmp(m->output[k].name, r->output[i].name, n) || m->output[k].name[n]))
            k++;
        if (k == m->n_outputs)
            return ms_fail(err, MOIRE_EINVAL, "model '%.100s' has no output '%.*s'", m->found.name, (int)n,
                           r->output[i].name);
        s->wanted[s->n_wanted++] = m->output[k].name;
    }
    return MOIRE_OK;
}

/* --- what goes out --- */
static void place(const struct ms_items *s, int index, bool shapes, struct ms_output *out, char *at) {
    const int n = s->output ? s->n : 0;
    const moire_tensor *first = n ? &s->output[index] : NULL;
    const int rank = first ? first->rank : 0;
    moire_tensor *t = &out->tensor;
    *t = (moire_tensor){.dtype = shapes ? MOIRE_I64 : first ? first->dtype : MOIRE_NONE, .data = at};
    for (int i = 0; i < n; i++) {
        const moire_tensor *from = &s->output[i * s->n_wanted + index];
        const size_t bytes = shapes ? (size_t)rank * sizeof *from->shape : from->bytes;
        if (bytes) memcpy(at + t->bytes, shapes ? (const void *)from->shape : from->data, bytes);
        t->bytes += bytes;
    }
    t->rank = shapes ? 2 : 1;
    t->shape[0] = shapes ? n : first ? (int64_t)(t->bytes / ms_type_bytes(t->dtype)) : 0;
    t->shape[1] = shapes ? rank : 0;
}

/* Of no items nothing is known but what the model says. */
static void place_none(const struct ms_items *s, const char *port, bool shapes, struct ms_output *out) {
    const struct ms_model *m = s->whole->model;
    for (int k = 0; k < m->n_outputs; k++) {
        if (strcmp(m->output[k].name, port) != 0) continue;
        if (!shapes) out->tensor.dtype = m->output[k].dtype;
        if (shapes) out->tensor.shape[1] = m->output[k].rank < 0 ? 0 : m->output[k].rank;
    }
}

static int answer(struct ms_items *s, moire_error *err) {
    struct ms_query *q = s->whole;
    const size_t shapes = (size_t)s->n * MOIRE_MAX_RANK * sizeof(int64_t);
    char *at = q->memory = malloc(s->bytes + 1 + (size_t)q->request.n_outputs * (shapes + 16));
    if (!at) return ms_fail(err, MOIRE_ENOMEM, "no memory for the answers of %d items", s->n);
    for (int i = 0; i < q->request.n_outputs; i++) {
        const char *name = q->request.output[i].name;
        const int index = wanted_index(s, name);
        struct ms_output *out = &q->output[q->n_outputs++];
        *out = (struct ms_output){.name = name, .binary = true};
        place(s, index, ms_list_is_shapes(name), out, at);
        if (!s->n) place_none(s, s->wanted[index], ms_list_is_shapes(name), out);
        at += ms_aligned(out->tensor.bytes);
    }
    return MOIRE_OK;
}

/* The whole, and s with it, may be gone afterwards. */
static void finish(struct ms_items *s) {
    struct ms_query *q = s->whole;
    if (!s->error.code) answer(s, &s->error);
    q->error = s->error;
    q->queue_ns = s->started_ns ? s->started_ns - q->begun_ns : 0;
    for (int i = 0; i < s->n; i++) {
        free(s->memory[i]);
        s->memory[i] = NULL;
    }
    struct ms_model *m = q->model;
    q->model = NULL;
    ms_repository_give(m);
    q->done(q->user);
}

/* --- on its way --- */
static void item_ended(void *user);

static void free_item(struct item *it) {
    ms_query_close(&it->query);
    free(it);
}

/* Under the lock. */
static struct item *make_item(struct ms_items *s) {
    const struct ms_query *w = s->whole;
    struct item *it = calloc(1, sizeof *it);
    if (!it) return NULL;
    struct ms_query *q = &it->query;
    *it = (struct item){.of = s, .index = s->begun};
    q->model = w->model;
    q->done = item_ended;
    q->user = it;
    q->is_step = true;
    q->own_priority = w->own_priority;
    q->priority = w->priority;
    q->due_ns = w->due_ns;
    for (int i = 0; i < s->n_lists; i++) {
        struct ms_list *l = &s->list[i];
        int64_t bytes;
        moire_tensor t = ms_list_item(l, it->index, &bytes);
        t.data = (char *)l->values->data + l->at;
        t.bytes = (size_t)bytes;
        l->at += t.bytes;
        q->request.input[q->request.n_inputs++] = (struct ms_input){.name = l->port, .tensor = t};
    }
    for (int i = 0; i < s->n_wanted; i++)
        q->request.output[q->request.n_outputs++] = (struct ms_wanted){.name = s->wanted[i], .binary = true};
    return it;
}

/* The next item, if it may begin.  Under the lock. */
static struct item *next_item(struct ms_items *s) {
    if (s->error.code || s->begun == s->n || s->running >= MS_ITEMS_AT_ONCE) return NULL;
    struct item *it = make_item(s);
    if (!it) {
        ms_fail(&s->error, MOIRE_ENOMEM, "no memory for an item of a list"); /* others end by themselves */
        return NULL;
    }
    it->next = s->items;
    s->items = it;
    s->begun++;
    s->running++;
    return it;
}

/* One that was running is not any more, unless this is the start.  s may be gone afterwards. */
static void drive(struct ms_items *s, bool starts) {
    pthread_mutex_lock(&s->lock);
    if (!starts) s->running--;
    if (s->is_driven) {
        pthread_mutex_unlock(&s->lock);
        return;
    }
    s->is_driven = true;
    for (struct item *it; (it = next_item(s));) {
        pthread_mutex_unlock(&s->lock);
        ms_repository_hold(it->query.model);
        ms_query_start(&it->query);
        pthread_mutex_lock(&s->lock);
    }
    s->is_driven = false;
    const bool over = s->is_over = !s->running && (s->error.code || s->begun == s->n);
    pthread_mutex_unlock(&s->lock);
    if (over) finish(s);
}

/* The first error counts, and what runs is cancelled.  The caller is counted as running. */
static void stop(struct ms_items *s, int code, const char *message) {
    struct ms_query *running[MS_ITEMS_AT_ONCE + 1];
    int n = 0;
    pthread_mutex_lock(&s->lock);
    if (!s->error.code) {
        ms_fail(&s->error, code, "%s", message);
        for (struct item *it = s->items; it && n < MS_ITEMS_AT_ONCE; it = it->next)
            running[n++] = &it->query;
    }
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < n; i++)
        ms_query_cancel(running[i]);
}

/* Takes what an item has answered.  Under the lock. */
static void keep(struct ms_items *s, struct item *it) {
    struct ms_query *q = &it->query;
    moire_tensor *out = &s->output[it->index * s->n_wanted];
    s->memory[it->index] = q->memory;
    q->memory = NULL;
    for (int i = 0; i < q->n_outputs; i++) {
        out[i] = q->output[i].tensor;
        s->bytes += ms_aligned(out[i].bytes);
        if (!ms_type_bytes(out[i].dtype) || (s->n_kept && out[i].rank != s->rank[i]))
            ms_fail(&s->error, MOIRE_ESHAPE, "items have answers of different ranks, or that are no numbers");
        s->rank[i] = out[i].rank;
    }
    s->n_kept++;
    if (s->bytes > MS_ITEMS_BYTES)
        ms_fail(&s->error, MOIRE_ELIMIT, "the answers of a list have more than %d bytes", MS_ITEMS_BYTES);
}

static void item_ended(void *user) {
    struct item *it = user;
    struct ms_items *s = it->of;
    const struct ms_query *q = &it->query;
    if (q->error.code) {
        moire_error why = {0};
        ms_fail(&why, q->error.code, "item %d of %d: %.300s", it->index, s->n, q->error.message);
        stop(s, why.code, why.message);
    }
    pthread_mutex_lock(&s->lock);
    const bool goes = !s->error.code;
    if (goes) {
        const int64_t started = q->begun_ns + q->queue_ns;
        if (!s->started_ns || started < s->started_ns) s->started_ns = started;
        s->whole->compute_ns += q->compute_ns;
        struct item **at = &s->items;
        while (*at != it)
            at = &(*at)->next;
        *at = it->next;
        keep(s, it);
    }
    pthread_mutex_unlock(&s->lock);
    if (goes) free_item(it);
    drive(s, false);
}

void ms_items_cancel(struct ms_items *s) {
    pthread_mutex_lock(&s->lock);
    const bool runs = s->running > 0;
    if (runs)
        s->running++;
    else if (!s->error.code && !s->is_over)
        ms_fail(&s->error, MOIRE_ECANCELLED, "cancelled by the client");
    pthread_mutex_unlock(&s->lock);
    if (!runs) return;
    stop(s, MOIRE_ECANCELLED, "cancelled by the client");
    drive(s, false);
}

void ms_items_start(struct ms_query *q) {
    struct ms_items *s = calloc(1, sizeof *s);
    moire_error why = {0};
    q->runtime = q->model->repository->options.runtime;
    q->begun_ns = moire_now(q->runtime);
    memcpy(q->model_name, q->model->found.name, sizeof q->model_name);
    if (!s) {
        struct ms_model *m = q->model;
        ms_fail(&q->error, MOIRE_ENOMEM, "no memory for a list");
        q->model = NULL;
        ms_repository_give(m);
        q->done(q->user);
        return;
    }
    s->whole = q;
    pthread_mutex_init(&s->lock, NULL);
    int rc = read_lists(s, &why);
    if (!rc) rc = read_wanted(s, &why);
    if (!rc && s->n) {
        s->output = calloc((size_t)s->n * (size_t)s->n_wanted, sizeof *s->output);
        s->memory = calloc((size_t)s->n, sizeof *s->memory);
        if (!s->output || !s->memory)
            rc = ms_fail(&why, MOIRE_ENOMEM, "no memory for a list of %d items", s->n);
    }
    if (rc) s->n = 0;
    s->error = why;
    atomic_store(&q->items, s);
    if (atomic_load(&q->cancelled)) ms_items_cancel(s);
    drive(s, true);
}

void ms_items_free(struct ms_items *s) {
    if (!s) return;
    for (struct item *it = s->items, *next; it; it = next) {
        next = it->next;
        free_item(it);
    }
    free(s->output);
    free(s->memory);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
