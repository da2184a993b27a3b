/* SPDX-License-Identifier: Apache-2.0
 * http_infer.c - POST .../infer; see http.h. */
#include <stdlib.h>
#include <string.h>
#include "serve/http/http.h"
#include "serve/protocol/fault.h"

/* A shorter answer goes as it is.  JSON from LARGE_JSON on, numbers that become JSON from LARGE_NUMBERS on,
 * and what is (to be) compressed from LARGE_CODED on take too long for the thread of all clients. */
enum { WORTH_BYTES = 1024, LARGE_JSON = 64 << 10, LARGE_NUMBERS = 16 << 10, LARGE_CODED = 8 << 10 };

/* A body without JSON: the one input, whole.  At most one dimension may be open; the size says it. */
static int raw_request(struct ms_exchange *x, const struct ms_model *m, struct ms_request *r,
                       moire_error *err) {
    const moire_port *p = &m->input[0];
    if (m->n_inputs != 1 || p->rank < 0)
        return ms_fail(err, MOIRE_EINVAL, "a raw body is for a model with one input of known rank");
    struct ms_input *in = &r->input[r->n_inputs++];
    in->name = p->name;
    in->tensor = (moire_tensor){.dtype = p->dtype, .rank = p->rank, .data = x->body.at, .bytes = x->body.n};
    size_t known = ms_type_bytes(p->dtype);
    int open = -1, n_open = 0;
    for (int i = 0; i < p->rank; i++) {
        in->tensor.shape[i] = p->shape[i];
        if (p->shape[i] < 0)
            open = i, n_open++;
        else
            known *= (size_t)p->shape[i];
    }
    if (n_open > 1 || !known || x->body.n % known || (!n_open && x->body.n != known))
        return ms_fail(err, MOIRE_EINVAL, "a raw body of %zu bytes does not say the shape of input '%.100s'",
                       x->body.n, p->name);
    if (n_open) in->tensor.shape[open] = (int64_t)(x->body.n / known);
    r->binary = true;
    return MOIRE_OK;
}

/* Bytes of the body that are JSON; NULL: the header's value is no number. */
static const char *json_part(const struct ms_exchange *x, unsigned long long *n) {
    const char *length = ms_http_header(x, "Inference-Header-Content-Length");
    char *end = NULL;
    *n = length ? strtoull(length, &end, 10) : x->body.n;
    if (length && (end == length || *end || length[0] == '-')) return NULL;
    return length ? length : "";
}

static int parse(struct ms_exchange *x, const struct ms_model *m, struct ms_request *out, moire_error *err) {
    const char *sent = ms_http_header(x, "Content-Encoding");
    const enum ms_coding coding = ms_coding_of(sent);
    if (coding == MS_CODING_UNKNOWN)
        return ms_fail(err, MOIRE_EUNSUPPORTED, "Content-Encoding '%.40s' is not served", sent);
    if (coding) {
        const int rc = ms_coding_expand(&x->http->zlib, &x->body, x->http->body_bytes, err);
        if (rc) return rc;
    }
    unsigned long long n;
    const char *length = json_part(x, &n);
    if (!length)
        return ms_fail(err, MOIRE_EINVAL, "Inference-Header-Content-Length '%.40s' is no number",
                       ms_http_header(x, "Inference-Header-Content-Length"));
    if (*length && !n) return raw_request(x, m, out, err);
    return ms_request_parse(x->body.at, x->body.n, (size_t)n, out, err);
}

/* --- on the way ----------------------------------------------------------------------------------------- */
/* Reads the body and starts the query.  The exchange is suspended. */
static void start(void *exchange) {
    struct ms_exchange *x = exchange;
    struct ms_query *q = x->query;
    if (!parse(x, q->model, &q->request, &q->error)) {
        ms_query_start(q);
        return;
    }
    ms_repository_give(q->model);
    q->model = NULL;
    ms_watch_remove(&x->http->watch, &x->watched);
    ms_http_resume(x);
}

static void write_answer(struct ms_exchange *x) {
    struct ms_query *q = x->query;
    struct ms_response r = {
        .model = q->model_name, .version = q->model_version, .id = q->request.id, .n_outputs = q->n_outputs};
    x->is_written = true;
    memcpy(r.output, q->output, (size_t)q->n_outputs * sizeof *r.output);
    if (ms_response_write(&r, &x->answer, &x->json_bytes, &q->error)) return;
    if (x->accepts && x->answer.n >= WORTH_BYTES &&
        ms_coding_compress(&x->http->zlib, x->accepts, &x->answer))
        x->coding = x->accepts;
}

static void write_and_resume(void *exchange) {
    write_answer(exchange);
    ms_http_resume(exchange);
}

/* The pool does it; the exchange is suspended. */
static void put(struct ms_exchange *x, void (*run)(void *exchange)) {
    x->task = (struct ms_task){.run = run, .user = x};
    ms_pool_put(&x->http->pool, &x->task);
}

/* The query has ended, on any thread. */
static void answered(void *exchange) {
    struct ms_exchange *x = exchange;
    const struct ms_query *q = x->query;
    size_t numbers = 0, all = 0;
    ms_watch_remove(&x->http->watch, &x->watched);
    for (int i = 0; i < q->n_outputs && !q->error.code; i++) {
        all += q->output[i].tensor.bytes;
        numbers += q->output[i].binary ? 0 : q->output[i].tensor.bytes;
    }
    if (numbers >= LARGE_NUMBERS || (x->accepts && all >= LARGE_CODED))
        put(x, write_and_resume);
    else
        ms_http_resume(x);
}

static bool is_large(const struct ms_exchange *x) {
    unsigned long long json;
    if (ms_http_header(x, "Content-Encoding") && x->body.n >= LARGE_CODED) return true;
    return json_part(x, &json) && json >= LARGE_JSON;
}

void ms_http_infer(struct ms_exchange *x) {
    moire_error err = {0};
    struct ms_model *m = NULL;
    struct ms_query *q = NULL;
    int rc = MOIRE_OK;
    if (atomic_load(&x->http->draining)) rc = ms_fail(&err, MOIRE_ESHUTDOWN, "the server is shutting down");
    if (!rc)
        rc = ms_repository_take(x->http->repository, x->model, *x->version ? x->version : NULL, &m, &err);
    if (!rc && !(q = x->query = calloc(1, sizeof *q)))
        rc = ms_fail(&err, MOIRE_ENOMEM, "no memory for the request");
    if (rc || !q) {
        if (m) ms_repository_give(m);
        ms_http_fail(x, &err);
        return;
    }
    q->model = m;
    q->done = answered;
    q->user = x;
    x->accepts = ms_coding_accepted(ms_http_header(x, "Accept-Encoding"));
    const bool large = is_large(x);
    const union MHD_ConnectionInfo *socket =
        x->http->mhd.get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (socket) ms_watch_add(&x->http->watch, &x->watched, socket->connect_fd, q);
    ms_http_suspend(x); /* from here on it is what goes on with it that may touch it */
    if (large)
        put(x, start);
    else
        start(x);
}

void ms_http_inferred(struct ms_exchange *x) {
    const struct ms_query *q = x->query;
    if (!q->error.code && !x->is_written) write_answer(x);
    if (q->error.code) {
        x->json_bytes = 0;
        ms_http_fail(x, &q->error);
        return;
    }
    x->status = 200;
    x->type = x->json_bytes ? "application/octet-stream" : "application/json";
}
