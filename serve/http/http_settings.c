/* SPDX-License-Identifier: Apache-2.0
 * http_settings.c - settings of traces and of the log; see http.h. */
#include "serve/http/http.h"
#include "serve/protocol/fault.h"
#include "serve/protocol/log.h"
#include "serve/query/query_trace.h"

/* What a request with a body asks to change. */
static int read_change(const struct ms_exchange *x, json_t **out, moire_error *err) {
    json_error_t why;
    *out = json_loadb(x->body.at ? x->body.at : "", x->body.n, JSON_REJECT_DUPLICATES, &why);
    return *out ? MOIRE_OK
                : ms_fail(err, MOIRE_EINVAL, "the request is no JSON: line %d: %.200s", why.line, why.text);
}

static int trace(const struct ms_exchange *x, const json_t *change, json_t **out, moire_error *err) {
    struct ms_repository *r = x->http->repository;
    struct ms_model *m;
    if (*x->model) {
        const int rc = ms_repository_take(r, x->model, NULL, &m, err);
        if (rc) return rc;
        ms_repository_give(m);
    }
    return ms_trace_settings(r->options.trace, x->model, change, out, err);
}

static int logging(const struct ms_exchange *x, const json_t *change, json_t **out, moire_error *err) {
    return ms_log_settings(x->http->repository->options.logger, change, out, err);
}

typedef int (*of_settings)(const struct ms_exchange *x, const json_t *change, json_t **out, moire_error *err);
static void answer(struct ms_exchange *x, of_settings settings, bool changes) {
    moire_error err = {0};
    json_t *change = NULL, *out = NULL;
    int rc = changes ? read_change(x, &change, &err) : MOIRE_OK;
    if (!rc) rc = settings(x, change, &out, &err);
    if (rc)
        ms_http_fail(x, &err);
    else
        ms_http_answer(x, out);
    json_decref(change);
}

void ms_http_trace(struct ms_exchange *x) {
    answer(x, trace, false);
}
void ms_http_set_trace(struct ms_exchange *x) {
    answer(x, trace, true);
}
void ms_http_log(struct ms_exchange *x) {
    answer(x, logging, false);
}
void ms_http_set_log(struct ms_exchange *x) {
    answer(x, logging, true);
}
