/* SPDX-License-Identifier: Apache-2.0
 * http_documents.c - what the server tells of itself and of its models; see http.h. */
#include "serve/http/http.h"
#include "serve/protocol/fault.h"
#include "serve/repository/documents.h"

void ms_http_server(struct ms_exchange *x) {
    ms_http_answer(x, ms_document_server(x->http->repository));
}

typedef int (*of_model)(struct ms_repository *repository, const char *name, const char *version, json_t **out,
                        moire_error *err);
static void answer(struct ms_exchange *x, of_model document) {
    json_t *made = NULL;
    moire_error err = {0};
    if (document(x->http->repository, x->model, *x->version ? x->version : NULL, &made, &err))
        ms_http_fail(x, &err);
    else
        ms_http_answer(x, made);
}
void ms_http_model(struct ms_exchange *x) {
    answer(x, ms_document_model);
}
void ms_http_config(struct ms_exchange *x) {
    answer(x, ms_document_config);
}
void ms_http_stats(struct ms_exchange *x) {
    answer(x, ms_document_stats);
}
/* Those of all models that the client has a right on. */
void ms_http_all_stats(struct ms_exchange *x) {
    json_t *made = NULL;
    moire_error err = {0};
    if (ms_document_stats(x->http->repository, "", NULL, &made, &err)) {
        ms_http_fail(x, &err);
        return;
    }
    ms_access_filter(x->http->access, &x->bearer, json_object_get(made, "model_stats"));
    ms_http_answer(x, made);
}

void ms_http_index(struct ms_exchange *x) {
    json_t *request = x->body.n ? json_loadb(x->body.at, x->body.n, 0, NULL) : json_object();
    const json_t *ready = json_object_get(request, "ready");
    if (json_is_object(request) && (!ready || json_is_boolean(ready))) {
        json_t *index = ms_document_index(x->http->repository, json_is_true(ready));
        ms_access_filter(x->http->access, &x->bearer, index);
        ms_http_answer(x, index);
    } else {
        moire_error err = {0};
        ms_fail(&err, MOIRE_EINVAL, "the request must be an object, its \"ready\" true or false");
        ms_http_fail(x, &err);
    }
    json_decref(request);
}
