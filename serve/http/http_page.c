/* SPDX-License-Identifier: Apache-2.0
 * http_page.c - what people and Prometheus look at: the live page, its data, metrics; see http.h. */
#include <stdlib.h>
#include <string.h>
#include "serve/http/http.h"
#include "serve/page/exposition.h"
#include "serve/page/live_data.h"
#include "serve/protocol/fault.h"

void ms_http_page(struct ms_exchange *x) {
    ms_page_write(&x->answer, x->nonce);
    x->status = 200;
    x->type = "text/html; charset=utf-8";
}

/* ?since=BIN: the timeline from there on; "none": without it. */
void ms_http_watch(struct ms_exchange *x) {
    const char *since = ms_http_argument(x, "since");
    char *end = NULL;
    int64_t from = 0;
    if (since && !strcmp(since, "none"))
        from = -1;
    else if (since)
        from = strtoll(since, &end, 10);
    if (end && (end == since || *end || from < 0)) {
        moire_error err = {0};
        ms_fail(&err, MOIRE_EINVAL, "since is the number of a bin of the timeline, or none");
        ms_http_fail(x, &err);
        return;
    }
    ms_live_write(x->http->repository, x->http->runtime, from, &x->answer);
    x->status = 200;
    x->type = "application/json";
}

void ms_http_metrics(struct ms_exchange *x) {
    ms_exposition_write(x->http->repository, x->http->runtime, x->http->nv_metrics, &x->answer);
    x->status = 200;
    x->type = "text/plain; version=0.0.4; charset=utf-8";
}
