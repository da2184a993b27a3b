/* SPDX-License-Identifier: Apache-2.0
 * request.c - a query between submit and answer: its copied inputs, its callback.
 *
 * At submit inputs are copied into a pooled request, as a waiting query has no arena; from there small ones
 * go into the arena that the worker takes which starts it (spill.h), and large ones are read where they are.
 * Those that the caller lends are copied into the arena.  There are as many requests as queries were open at
 * once within the last seconds, bounded by the queue limit; in steady state nothing is allocated. */
#include <stddef.h>
#include "runtime/serve/runtime.h"

static size_t align64(size_t n) {
    return (n + 63) / 64 * 64;
}

static size_t head_bytes(const struct mo_graph *graph) {
    return align64(sizeof(struct mo_request) + (size_t)graph->n_inputs * sizeof(char *));
}

size_t mo_request_size(const struct mo_graph *graph) {
    size_t total = head_bytes(graph);
    for (int i = 0; i < graph->n_inputs; i++) {
        int64_t bytes = mo_tensor_bytes(graph->tensors[graph->inputs[i]]);
        if (bytes < 0 || __builtin_add_overflow(total, align64((size_t)bytes), &total)) return 0;
    }
    return total;
}

struct mo_request *mo_request_take(moire_tenant *tenant, bool lent) {
    const struct mo_graph *graph = tenant->ports;
    const size_t bytes = lent ? head_bytes(graph) : tenant->request_bytes;
    struct mo_arena *self = mo_arenas_take(tenant->requests, bytes, tenant->number);
    if (!self) return NULL;
    struct mo_request *r = (struct mo_request *)(void *)self->at;
    char *at = (char *)r + head_bytes(graph);
    *r = (struct mo_request){.self = self};
    for (int i = 0; i < graph->n_inputs && !lent; i++) {
        r->input[i] = at;
        at += align64((size_t)mo_tensor_bytes(graph->tensors[graph->inputs[i]]));
    }
    return r;
}

void mo_request_give(moire_tenant *tenant, struct mo_request *request) {
    mo_arenas_give(tenant->requests, request->self);
}

static int check_input(const struct mo_tensor *want, int i, const moire_tensor *got, moire_error *err) {
    char have[160], need[160];
    struct mo_shape shape = {.rank = got->rank};
    if (got->rank < 0 || got->rank > MOIRE_MAX_RANK)
        return mo_fail(err, MOIRE_ESHAPE, "input %d '%s': rank %d is outside 0..%d", i, want->name, got->rank,
                       MOIRE_MAX_RANK);
    for (int k = 0; k < got->rank; k++)
        shape.d[k] = got->shape[k];
    if (got->dtype != want->dtype)
        return mo_fail(err, MOIRE_ESHAPE, "input %d '%s' is %s, the model wants %s", i, want->name,
                       mo_dtype_name(got->dtype), mo_dtype_name(want->dtype));
    if (!mo_shape_equal(&shape, &want->shape))
        return mo_fail(err, MOIRE_ESHAPE, "input %d '%s' has shape %s, the model was loaded for %s", i,
                       want->name, mo_shape_text(&shape, have, sizeof have),
                       mo_shape_text(&want->shape, need, sizeof need));
    int64_t bytes = mo_tensor_bytes(want);
    if (got->bytes != (size_t)bytes || (bytes && !got->data))
        return mo_fail(err, MOIRE_ESHAPE, "input %d '%s' has %zu bytes, shape %s needs %lld", i, want->name,
                       got->data ? got->bytes : 0, mo_shape_text(&want->shape, need, sizeof need),
                       (long long)bytes);
    return MOIRE_OK;
}

int mo_request_check(const moire_tenant *tenant, const moire_tensor *inputs, int n_inputs, moire_error *err) {
    const struct mo_graph *graph = tenant->ports;
    if (n_inputs != graph->n_inputs || (n_inputs && !inputs))
        return mo_fail(err, MOIRE_EINVAL, "'%s' has %d inputs, %d were given", tenant->name, graph->n_inputs,
                       inputs ? n_inputs : 0);
    for (int i = 0; i < n_inputs; i++) {
        int rc = check_input(graph->tensors[graph->inputs[i]], i, &inputs[i], err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

/* --- a place for queries --- */
static struct mo_request_head *take(void *self, bool lent) {
    struct mo_request *request = mo_request_take(self, lent);
    return request ? &request->head : NULL;
}

static void give(void *self, struct mo_request_head *request) {
    mo_request_give(self, (struct mo_request *)(void *)request);
}

static void *input(void *self, struct mo_request_head *request, int i) {
    (void)self;
    return (char *)(uintptr_t)((struct mo_request *)(void *)request)
        ->input[i]; /* a copy, nobody's but ours */
}

static void lend(void *self, struct mo_request_head *request, int i, const void *data) {
    (void)self;
    ((struct mo_request *)(void *)request)->input[i] = data;
}

const struct mo_place_calls mo_place_on_cores = {take, give, input, lend};

/* --- the engine's view of a tenant --- */
static int copy_inputs(const moire_tenant *t, struct mo_instance *instance,
                       const struct mo_request *request) {
    const struct mo_graph *graph = t->ports;
    int rc = MOIRE_OK;
    for (int i = 0; i < graph->n_inputs && !rc; i++) {
        const struct mo_tensor *in = graph->tensors[graph->inputs[i]];
        moire_tensor tensor = {.dtype = in->dtype,
                               .rank = in->shape.rank,
                               .data = (char *)(uintptr_t)request->input[i], /* is only read */
                               .bytes = (size_t)mo_tensor_bytes(in)};
        for (int k = 0; k < in->shape.rank; k++)
            tensor.shape[k] = in->shape.d[k];
        rc = mo_instance_set_input(instance, i, &tensor, NULL);
    }
    return rc;
}

static int model_begin(void *model, int instance, void *user) {
    moire_tenant *t = model;
    struct mo_request *request = user;
    struct mo_instance *self = t->instances[instance];
    const bool lent = request->head.loan.returned;
    if (!request->begun) mo_instance_reset(self);
    int rc = mo_spill_begin(&t->spiller, &request->spill);
    if (rc) return rc;
    mo_instance_bind(self, request->spill.arena->at);
    mo_instance_heed(self, &request->unwanted);
    /* The request's own copies stay as long as the query runs: large ones are not copied again. */
    if (!lent) mo_instance_read_inputs(self, request->input);
    if (request->begun) return MOIRE_OK;
    if (!mo_loan_read(&request->head)) return MOIRE_ECANCELLED; /* it has been answered */
    if (lent) rc = copy_inputs(t, self, request);
    mo_loan_end(&request->head);
    request->begun = !rc;
    return rc;
}

static bool model_hold(void *model, void *user) {
    moire_tenant *t = model;
    struct mo_request *request = user;
    return mo_spill_hold(&t->spiller, &request->spill);
}

static void model_rest(void *model, void *user, int next) {
    moire_tenant *t = model;
    struct mo_request *request = user;
    if (next < t->plan->n_steps) mo_spill_rest(&t->spiller, &request->spill, next);
}

static int model_step(void *model, int instance, int layer, int width, void *scratch) {
    const moire_tenant *t = model;
    return mo_instance_step(t->instances[instance], layer, width, scratch);
}

static void model_pieces(void *model, int instance, int layer, int from, int to, int of, void *scratch) {
    const moire_tenant *t = model;
    mo_instance_pieces(t->instances[instance], layer, from, to, of, scratch);
}

static int model_again(void *model, int instance, int layer, int width) {
    const moire_tenant *t = model;
    return mo_instance_again(t->instances[instance], layer, width);
}

static const char *reason(const moire_tenant *t, const struct mo_answer *a) {
    if (a->code == MOIRE_EFAILED && a->instance >= 0) {
        const char *message = mo_instance_message(t->instances[a->instance]);
        if (message && *message) return message;
    }
    return moire_code_text(a->code);
}

static void model_answer(void *model, const struct mo_answer *a) {
    moire_tenant *t = model;
    struct mo_request *request = a->user;
    int n = t->ports->n_outputs, code = a->code;
    moire_tensor *outputs = NULL;
    atomic_store_explicit(&request->unwanted, true, memory_order_relaxed);
    if (code == MOIRE_OK && a->instance >= 0) {
        outputs = &t->outputs[(size_t)a->instance * (size_t)n];
        for (int i = 0; i < n && code == MOIRE_OK; i++)
            code = mo_instance_output(t->instances[a->instance], i, &outputs[i]);
    }
    moire_answer answer = {.query = a->query,
                           .code = code,
                           .message = reason(t, a),
                           .outputs = code == MOIRE_OK ? outputs : NULL,
                           .n_outputs = code == MOIRE_OK ? n : 0,
                           .arrival_ns = a->arrival,
                           .start_ns = a->start,
                           .end_ns = a->end,
                           .deadline_ns = a->deadline,
                           .compute_ns = a->ran};
    mo_loan_forgo(&request->head);
    mo_account_answer(t->runtime->env.sys, &t->accounting, &request->head.caller, &answer);
}

/* Not at the answer: a cancelled query is answered while a block of it may still run. */
static void model_release(void *model, void *user) {
    moire_tenant *t = model;
    struct mo_request *request = user;
    if (mo_spill_release(&t->spiller, &request->spill)) mo_request_give(t, request);
}

void mo_request_left(void *tenant, struct mo_spill *spill) {
    char *request = (char *)spill - offsetof(struct mo_request, spill);
    mo_request_give(tenant, (struct mo_request *)(void *)request);
}

static void model_select_versions(void *model, int instance, int begin, int end, double pressure, int cores) {
    moire_tenant *t = model;
    mo_instance_select_versions(t->instances[instance], begin, end, pressure, cores);
    for (int k = begin; k < end; k++)
        if (t->plan->steps[k].n_versions > 1)
            atomic_fetch_add_explicit(&t->version_runs[mo_instance_picked(t->instances[instance], k)], 1,
                                      memory_order_relaxed);
}

static int model_version(void *model, int instance, int layer) {
    const moire_tenant *t = model;
    return mo_instance_picked(t->instances[instance], layer);
}

static const char *model_name(const void *model) {
    return ((const moire_tenant *)model)->name;
}

const struct mo_model_ops mo_serve_model = {
    .answer = model_answer,
    .name = model_name,
    .release = model_release,
    .begin = model_begin,
    .hold = model_hold,
    .rest = model_rest,
    .step = model_step,
    .pieces = model_pieces,
    .again = model_again,
    .select_versions = model_select_versions,
    .version = model_version,
};
