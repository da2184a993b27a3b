/* SPDX-License-Identifier: Apache-2.0
 * http_infer.c - POST .../infer; see http.h. */
#include <stdlib.h>
#include <string.h>
#include "serve/http/http.h"
#include "serve/protocol/fault.h"

/* A shorter answer goes as it is. */
enum { WORTH_BYTES = 1024 };

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

static int parse(struct ms_exchange *x, const struct ms_model *m, struct ms_request *out, moire_error *err) {
    const char *length = ms_http_header(x, "Inference-Header-Content-Length"),
               *sent = ms_http_header(x, "Content-Encoding");
    const enum ms_coding coding = ms_coding_of(sent);
    char *end = NULL;
    if (coding == MS_CODING_UNKNOWN)
        return ms_fail(err, MOIRE_EUNSUPPORTED, "Content-Encoding '%.40s' is not served", sent);
    if (coding) {
        const int rc = ms_coding_expand(&x->http->zlib, &x->body, x->http->body_bytes, err);
        if (rc) return rc;
    }
    const unsigned long long n = length ? strtoull(length, &end, 10) : x->body.n;
    if (length && (end == length || *end || length[0] == '-'))
        return ms_fail(err, MOIRE_EINVAL, "Inference-Header-Content-Length '%.40s' is no number", length);
    if (length && !n) return raw_request(x, m, out, err);
    return ms_request_parse(x->body.at, x->body.n, (size_t)n, out, err);
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
    if (!rc && q) rc = parse(x, m, &q->request, &err);
    if (rc || !q) {
        if (m) ms_repository_give(m);
        ms_http_fail(x, &err);
        return;
    }
    q->model = m;
    q->done = ms_http_resume;
    q->user = x;
    ms_http_suspend(x);
    ms_query_start(q);
}

void ms_http_inferred(struct ms_exchange *x) {
    struct ms_query *q = x->query;
    moire_error err = q->error;
    if (!err.code) {
        struct ms_response r = {.model = q->model_name,
                                .version = q->model_version,
                                .id = q->request.id,
                                .n_outputs = q->n_outputs};
        memcpy(r.output, q->output, (size_t)q->n_outputs * sizeof *r.output);
        ms_response_write(&r, &x->answer, &x->json_bytes, &err);
    }
    if (err.code) {
        x->json_bytes = 0;
        ms_http_fail(x, &err);
        return;
    }
    x->status = 200;
    const enum ms_coding coding = ms_coding_accepted(ms_http_header(x, "Accept-Encoding"));
    if (coding && x->answer.n >= WORTH_BYTES && ms_coding_compress(&x->http->zlib, coding, &x->answer))
        x->coding = coding;
    x->type = x->json_bytes ? "application/octet-stream" : "application/json";
}
