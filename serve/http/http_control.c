/* SPDX-License-Identifier: Apache-2.0
 * http_control.c - health, and loading and unloading by clients; see http.h. */
#include <string.h>
#include "serve/http/http.h"
#include "serve/protocol/fault.h"
#include "serve/repository/stuck_models.h"

void ms_http_live(struct ms_exchange *x) {
    x->status = 200;
}

/* 200 or 400; a body says why where a worker does not come back, or the server ends. */
static void answer_ready(struct ms_exchange *x, bool ready, const char *why) {
    const bool leaves = ms_repository_leaves(x->http->repository) || atomic_load(&x->http->draining);
    if (leaves && !*why) why = "the server is about to end";
    if (*why) ms_http_answer(x, json_pack("{s:s}", "error", why));
    x->status = ready && !*why ? 200 : 400;
}

void ms_http_ready(struct ms_exchange *x) {
    char why[MS_STUCK_WHY];
    ms_stuck_server(x->http->repository, why);
    answer_ready(x, ms_repository_is_ready(x->http->repository), why);
}

void ms_http_model_ready(struct ms_exchange *x) {
    struct ms_model *m;
    moire_error err = {0};
    if (ms_repository_take(x->http->repository, x->model, *x->version ? x->version : NULL, &m, &err)) {
        ms_http_fail(x, &err);
        return;
    }
    char why[MS_STUCK_WHY];
    ms_stuck_model(m, why);
    answer_ready(x, ms_model_state(m) == MS_READY, why);
    ms_repository_give(m);
}

static void ended(void *user, int code, const char *message) {
    struct ms_exchange *x = user;
    if (code) ms_fail(&x->error, code, "%s", message);
    ms_http_resume(x);
}

/* Parameters that would change what is loaded are refused, not passed over. */
static int check_parameters(const struct ms_exchange *x, bool *dependents, moire_error *err) {
    json_error_t why;
    if (!x->body.n) return MOIRE_OK;
    json_t *document = json_loadb(x->body.at, x->body.n, JSON_REJECT_DUPLICATES, &why);
    if (!document)
        return ms_fail(err, MOIRE_EINVAL, "the request is no JSON: line %d: %.200s", why.line, why.text);
    const json_t *parameters = json_object_get(document, "parameters");
    const char *key;
    const json_t *value;
    int rc = MOIRE_OK;
    json_object_foreach((json_t *)(uintptr_t)parameters, key, value) {
        if (!strcmp(key, "unload_dependents")) {
            *dependents = json_is_true(value);
            continue;
        }
        rc = ms_fail(err, MOIRE_EUNSUPPORTED,
                     "the parameter '%.60s' is not served; models come from the repository", key);
    }
    json_decref(document);
    return rc;
}

static void start(struct ms_exchange *x, ms_job_start starts, ms_job_start with_dependents) {
    moire_error err = {0};
    bool dependents = false;
    if (check_parameters(x, &dependents, &err)) {
        ms_http_fail(x, &err);
        return;
    }
    ms_http_suspend(x);
    if (dependents) starts = with_dependents;
    if (starts(x->http->repository, x->model, ended, x, &err)) ended(x, err.code, err.message);
}

void ms_http_load(struct ms_exchange *x) {
    start(x, ms_repository_load, ms_repository_load);
}
void ms_http_unload(struct ms_exchange *x) {
    start(x, ms_repository_unload, ms_repository_unload_all);
}
void ms_http_job_done(struct ms_exchange *x) {
    if (x->error.code)
        ms_http_fail(x, &x->error);
    else
        x->status = 200;
}
