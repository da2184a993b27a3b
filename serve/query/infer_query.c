/* SPDX-License-Identifier: Apache-2.0
 * infer_query.c - infer requests on their way through the runtime; see infer_query.h. */
#define _GNU_SOURCE
#include "serve/pipeline/pipeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "serve/pipeline/list_step.h"
#include "serve/protocol/fault.h"
#include "serve/protocol/log.h"
#include "serve/query/classification.h"
#include "serve/query/padding.h"
#include "serve/query/query_impl.h"
#include "serve/query/query_trace.h"
#include "serve/repository/repository_impl.h"

static int64_t now(const struct ms_query *q) {
    return moire_now(q->model->repository->options.runtime);
}

/* To the trace, where somebody wants it. */
static void tell(const struct ms_query *q, const struct ms_model *m, int64_t ended) {
    const struct ms_repository_options *o = &m->repository->options;
    const struct ms_traced t = {.model = q->model_name,
                                .version = q->model_version,
                                .id = q->request.id,
                                .request_start = q->begun_ns,
                                .queue_start = q->submitted_ns,
                                .compute_start = q->error.code ? 0 : q->begun_ns + q->queue_ns,
                                .output_start = q->error.code ? 0 : ended - q->copied_ns,
                                .request_end = ended};
    ms_trace_query(o->trace, &t);
}

/* The last step, whatever happened: counted, the model given back, the caller told. */
static void end(struct ms_query *q) {
    struct ms_model *m = q->model;
    struct ms_tally *t = m->tally;
    const int64_t ended = now(q);
    const int code = -q->error.code;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    pthread_mutex_lock(&m->repository->lock);
    t->pending--;
    ms_tally_end(t, q->error.code, q->in_time, ended);
    if (code) {
        t->fail_ns += ended - q->begun_ns;
    } else {
        t->last_ms = (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000;
        t->input_ns += q->submitted_ns - q->begun_ns;
        t->output_ns += q->copied_ns;
        ms_times_add(&t->request, ended - q->begun_ns);
        ms_times_add(&t->queue, q->queue_ns);
        ms_times_add(&t->compute, q->compute_ns);
    }
    if (!code && (q->binding || m->fn))
        ms_tally_run(t, q->rows, q->submitted_ns - q->begun_ns, q->compute_ns);
    ms_admission_leave(q, ended);
    if (q->binding) q->binding->users--;
    pthread_mutex_unlock(&m->repository->lock);
    tell(q, m, ended);
    ms_query_give_regions(q);
    struct ms_batcher *b = atomic_load(&q->batcher);
    const bool in_order = b && m->settings.batching.keeps_order;
    if (b) ms_batcher_left(b, q);
    q->model = NULL;
    ms_repository_give(m);
    if (in_order)
        ms_batcher_deliver(b, q);
    else
        q->done(q->user);
}

/* --- what the model takes --- */
static int input_index(const struct ms_model *m, const char *name) {
    for (int i = 0; i < m->n_inputs; i++)
        if (!strcmp(m->input[i].name, name)) return i;
    return -1;
}

static void shape_text(int rank, const int64_t *shape, char *text, size_t room) {
    size_t n = 0;
    text[n++] = '[';
    for (int i = 0; i < rank && n + 24 < room; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%" PRId64, i ? "," : "", shape[i]);
    snprintf(text + n, room - n, "]");
}

static int check_shape(struct ms_query *q, const moire_port *port, const moire_tensor *t) {
    bool fits = port->rank < 0 || port->rank == t->rank;
    for (int i = 0; i < t->rank && fits && port->rank >= 0; i++)
        fits = port->shape[i] < 0 || port->shape[i] == t->shape[i];
    if (fits && q->model->settings.max_batch && t->rank && !t->shape[0])
        return ms_fail(&q->error, MOIRE_ESHAPE, "input '%.100s': a batch of none", port->name);
    if (fits && q->model->settings.max_batch && t->rank && t->shape[0] > q->model->settings.max_batch)
        return ms_fail(&q->error, MOIRE_ESHAPE,
                       "input '%.100s': a batch of %" PRId64 " is more than max_batch_size %" PRId64,
                       port->name, t->shape[0], q->model->settings.max_batch);
    if (fits) return MOIRE_OK;
    char has[200], wants[200];
    shape_text(t->rank, t->shape, has, sizeof has);
    shape_text(port->rank < 0 ? 0 : port->rank, port->shape, wants, sizeof wants);
    return ms_fail(&q->error, MOIRE_ESHAPE,
                   "input '%.100s' of model '%.100s' has shape %s, the model takes %s (-1: any)", port->name,
                   q->model->found.name, has, wants);
}

/* Inputs come by name, in any order; the model takes them in its own. */
static int order_inputs(struct ms_query *q) {
    bool given[MS_PORTS] = {false};
    const struct ms_model *m = q->model;
    for (int i = 0; i < q->request.n_inputs; i++) {
        const struct ms_input *in = &q->request.input[i];
        const int at = input_index(m, in->name);
        if (at < 0)
            return ms_fail(&q->error, MOIRE_EINVAL, "model '%.100s' has no input '%.100s'", m->found.name,
                           in->name);
        if (given[at]) return ms_fail(&q->error, MOIRE_EINVAL, "input '%.100s' is given twice", in->name);
        if (in->tensor.dtype != m->input[at].dtype)
            return ms_fail(&q->error, MOIRE_ESHAPE, "input '%.100s' is %s, model '%.100s' takes %s", in->name,
                           ms_type_name(in->tensor.dtype), m->found.name, ms_type_name(m->input[at].dtype));
        const int rc = check_shape(q, &m->input[at], &in->tensor);
        if (rc) return rc;
        given[at] = true;
        q->ordered[at] = in->tensor;
        q->shapes[at] = (moire_shape){.input = m->input[at].name, .rank = in->tensor.rank};
        memcpy(q->shapes[at].shape, in->tensor.shape, sizeof in->tensor.shape);
    }
    for (int i = 0; i < m->n_inputs; i++)
        if (!given[i])
            return ms_fail(&q->error, MOIRE_EINVAL, "input '%.100s' of model '%.100s' is missing",
                           m->input[i].name, m->found.name);
    return MOIRE_OK;
}

static bool is_wanted_before(const struct ms_request *r, int index) {
    for (int i = 0; i < index; i++)
        if (!strcmp(r->output[i].name, r->output[index].name)) return true;
    return false;
}

/* Every output exists; one that is asked for again is answered once. */
static int check_outputs(struct ms_query *q) {
    int n = 0;
    for (int i = 0; i < q->request.n_outputs; i++)
        if (!is_wanted_before(&q->request, i)) q->request.output[n++] = q->request.output[i];
    q->request.n_outputs = n;
    for (int i = 0; i < q->request.n_outputs; i++) {
        int k = 0;
        while (k < q->model->n_outputs && strcmp(q->model->output[k].name, q->request.output[i].name) != 0)
            k++;
        if (k == q->model->n_outputs)
            return ms_fail(&q->error, MOIRE_EINVAL, "model '%.100s' has no output '%.100s'",
                           q->model->found.name, q->request.output[i].name);
    }
    return MOIRE_OK;
}

/* --- the answer --- */
/* A copy of output `index`, at `*at` of the query's memory. */
static void copy_output(struct ms_query *q, const moire_tensor *outputs, int index, bool binary, char **at) {
    const char *name = q->model->output[index].name;
    struct ms_output *out = &q->output[q->n_outputs++];
    *out = (struct ms_output){.tensor = outputs[index], .binary = binary};
    out->tensor.data = *at;
    if (out->tensor.bytes) memcpy(*at, outputs[index].data, out->tensor.bytes);
    *at += ms_aligned(out->tensor.bytes);
    out->name = *at;
    memcpy(*at, name, strlen(name) + 1);
    *at += ms_aligned(strlen(name) + 1);
}

static int wanted_index(const struct ms_query *q, const char *name) {
    int k = 0;
    while (strcmp(q->model->output[k].name, name) != 0) /* check_outputs() has found it */
        k++;
    return k;
}

/* Outputs of which the classes are wanted become these. */
static void classify(struct ms_query *q) {
    const struct ms_model *m = q->model;
    size_t begin[MS_PORTS];
    for (int i = 0; i < q->request.n_outputs && !q->error.code; i++) {
        const int64_t top = q->request.output[i].classes;
        struct ms_output *out = &q->output[i];
        begin[i] = q->classes.n;
        if (top)
            ms_classes_write(&out->tensor, out->name, top, m->settings.max_batch > 0,
                             &m->labels[wanted_index(q, out->name)], &q->classes, &out->tensor, &q->error);
    }
    for (int i = 0; i < q->request.n_outputs && !q->error.code; i++)
        if (q->request.output[i].classes) q->output[i].tensor.data = q->classes.at + begin[i];
}

static void copy_answer(struct ms_query *q, const moire_tensor *outputs) {
    const int n = q->request.n_outputs ? q->request.n_outputs : q->model->n_outputs;
    size_t bytes = 1;
    for (int i = 0; i < n; i++) {
        const int k = q->request.n_outputs ? wanted_index(q, q->request.output[i].name) : i;
        bytes += ms_aligned(outputs[k].bytes) + ms_aligned(strlen(q->model->output[k].name) + 1);
    }
    char *at = q->memory = malloc(bytes);
    if (!at) {
        ms_fail(&q->error, MOIRE_ENOMEM, "no memory for the answer");
        return;
    }
    for (int i = 0; i < n; i++)
        if (q->request.n_outputs)
            copy_output(q, outputs, wanted_index(q, q->request.output[i].name), q->request.output[i].binary,
                        &at);
        else
            copy_output(q, outputs, i, q->request.binary, &at);
    classify(q);
    ms_query_store_regions(q);
}

static void copy_cut_answer(struct ms_query *q, const moire_tensor *outputs) {
    moire_tensor cut[MS_PORTS];
    void *memory = NULL;
    if (!q->padded_to)
        copy_answer(q, outputs);
    else if (!ms_query_cut(q, outputs, cut, &memory, &q->error))
        copy_answer(q, cut);
    free(memory);
}

/* The call that submits looks at the query after it was answered, perhaps, and so does whoever reads its
 * inputs: the last of all ends it. */
static void leave(void *query) {
    struct ms_query *q = query;
    if (atomic_fetch_sub(&q->parts, 1) == 1) end(q);
}

/* On a thread of the runtime. */
static void answered(void *user, const moire_answer *a) {
    struct ms_query *q = user;
    if (a->code) {
        ms_fail(&q->error, a->code, "model '%.100s': %s", q->model->found.name,
                a->message ? a->message : moire_code_text(a->code));
    } else {
        const int64_t began = now(q);
        copy_cut_answer(q, a->outputs);
        q->copied_ns = now(q) - began;
        q->queue_ns = a->start_ns - a->arrival_ns;
        q->compute_ns = a->compute_ns;
    }
    q->in_time = !a->deadline_ns || a->deadline_ns == MOIRE_NO_DEADLINE || a->end_ns <= a->deadline_ns;
    leave(q);
}

void ms_query_settle(struct ms_query *q, const moire_tensor *outputs) {
    const int64_t began = now(q);
    if (outputs) copy_answer(q, outputs);
    q->copied_ns = now(q) - began;
    end(q);
}

/* --- on its way --- */
static void set_options(const struct ms_query *q, moire_query_options *o) {
    const struct ms_settings *s = &q->model->settings;
    moire_query_options_init(o);
    o->returned = leave;
    o->arrival_ns = q->begun_ns;
    if (q->is_step) {
        o->deadline_ns = q->due_ns;
        o->late_goes_on = 1;
        o->own_priority = q->own_priority;
        o->priority = q->priority;
        return;
    }
    if (q->expires_ns != MS_NEVER) o->deadline_ns = q->expires_ns;
    o->own_priority = s->levels > 0;
    o->priority = s->priority + (int)(s->level - q->level); /* Triton's 1 is the highest */
}

static void submit(struct ms_query *q) {
    moire_query_options options;
    moire_query handle = 0;
    set_options(q, &options);
    q->submitted_ns = now(q);
    atomic_store(&q->parts, 3);
    int rc = atomic_load(&q->cancelled) ? ms_fail(&q->error, MOIRE_ECANCELLED, "cancelled by the client")
                                        : MOIRE_OK;
    if (!rc)
        rc = moire_submit_with(q->binding->tenant, q->ordered, q->model->n_inputs, &options, answered, q,
                               &handle, &q->error);
    atomic_store(&q->handle, handle);
    if (rc)
        atomic_store(&q->parts, 1);
    else if (atomic_load(&q->cancelled))
        moire_cancel(q->runtime, handle);
    leave(q);
}

void ms_query_cancel(struct ms_query *q) {
    atomic_store(&q->cancelled, true);
    const moire_query handle = atomic_load(&q->handle);
    if (handle) moire_cancel(q->runtime, handle);
    struct ms_batcher *b = atomic_load(&q->batcher);
    if (b) ms_batcher_cancel(b, q);
    struct ms_pipeline *pipeline = atomic_load(&q->pipeline);
    if (pipeline) ms_pipeline_cancel(pipeline);
    struct ms_items *items = atomic_load(&q->items);
    if (items) ms_items_cancel(items);
    struct ms_function_threads *threads = atomic_load(&q->function_threads);
    if (threads) ms_function_threads_cancel(threads, q);
}

void ms_query_bound(struct ms_query *q, struct ms_binding *binding) {
    q->binding = binding;
    if (binding)
        submit(q);
    else
        end(q);
}

void ms_query_run(struct ms_query *q) {
    struct ms_model *m = q->model;
    if (ms_query_pad(q)) {
        end(q);
        return;
    }
    pthread_mutex_lock(&m->repository->lock);
    q->binding = ms_binding_find(m, q->shapes);
    pthread_mutex_unlock(&m->repository->lock);
    if (q->binding)
        submit(q);
    else if (ms_repository_bind(m->repository, q))
        end(q);
}

void ms_query_start(struct ms_query *q) {
    struct ms_model *m = q->model;
    q->runtime = m->repository->options.runtime;
    q->begun_ns = now(q);
    memcpy(q->model_name, m->found.name, sizeof q->model_name);
    memcpy(q->model_version, m->found.version, sizeof q->model_version);
    pthread_mutex_lock(&m->repository->lock);
    m->tally->pending++;
    const enum ms_state state = m->state;
    pthread_mutex_unlock(&m->repository->lock);
    int rc = MOIRE_OK;
    if (state != MS_READY && !q->is_step)
        rc = ms_fail(&q->error, MOIRE_EUNLOADED, "model '%.100s' is not ready: %.300s", m->found.name,
                     m->reason);
    if (!rc) rc = ms_query_load_regions(q);
    if (!rc) rc = order_inputs(q);
    if (!rc) rc = check_outputs(q);
    if (!rc) rc = ms_query_take_regions(q);
    if (!rc) rc = ms_admission_take(q);
    if (!rc && m->ensemble) {
        q->submitted_ns = q->begun_ns;
        if (ms_pipeline_start(q, &q->error)) end(q);
    } else if (rc) {
        end(q);
    } else if (m->fn) {
        q->submitted_ns = q->begun_ns;
        atomic_store(&q->function_threads, m->repository->function_threads);
        ms_function_threads_put(m->repository->function_threads, q);
    } else if (m->batcher) {
        ms_batcher_put(m->batcher, q);
    } else {
        ms_query_run(q);
    }
}

void ms_query_close(struct ms_query *q) {
    free(q->memory);
    q->memory = NULL;
    free(q->padding);
    q->padding = NULL;
    ms_bytes_free(&q->classes);
    ms_batcher_drop(atomic_exchange(&q->batcher, NULL));
    ms_pipeline_free(atomic_exchange(&q->pipeline, NULL));
    ms_items_free(atomic_exchange(&q->items, NULL));
}
