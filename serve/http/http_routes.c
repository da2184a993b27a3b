/* SPDX-License-Identifier: Apache-2.0
 * http_routes.c - the paths that are served; see http.h. */
#include <string.h>
#include "serve/http/http.h"

/* The first that fits counts. */
static const struct ms_route routes[] = {
    {"GET", "/v2/health/live", MS_RIGHT_NONE, ms_http_live, NULL},
    {"GET", "/v2/health/ready", MS_RIGHT_NONE, ms_http_ready, NULL},
    {"GET", "/v2", MS_RIGHT_TOKEN, ms_http_server, NULL},
    {"GET", "/v2/models/stats", MS_RIGHT_TOKEN, ms_http_all_stats, NULL},
    {"GET", "/v2/models/*", MS_RIGHT_MODEL, ms_http_model, NULL},
    {"GET", "/v2/models/*/versions/*", MS_RIGHT_MODEL, ms_http_model, NULL},
    {"GET", "/v2/models/*/ready", MS_RIGHT_MODEL, ms_http_model_ready, NULL},
    {"GET", "/v2/models/*/versions/*/ready", MS_RIGHT_MODEL, ms_http_model_ready, NULL},
    {"GET", "/v2/models/*/config", MS_RIGHT_MODEL, ms_http_config, NULL},
    {"GET", "/v2/models/*/versions/*/config", MS_RIGHT_MODEL, ms_http_config, NULL},
    {"GET", "/v2/models/*/stats", MS_RIGHT_MODEL, ms_http_stats, NULL},
    {"GET", "/v2/models/*/versions/*/stats", MS_RIGHT_MODEL, ms_http_stats, NULL},
    {"POST", "/v2/models/*/infer", MS_RIGHT_MODEL, ms_http_infer, ms_http_inferred},
    {"POST", "/v2/models/*/versions/*/infer", MS_RIGHT_MODEL, ms_http_infer, ms_http_inferred},
    {"POST", "/v2/repository/index", MS_RIGHT_TOKEN, ms_http_index, NULL},
    {"POST", "/v2/repository/models/*/load", MS_RIGHT_CONTROL, ms_http_load, ms_http_job_done},
    {"POST", "/v2/repository/models/*/unload", MS_RIGHT_CONTROL, ms_http_unload, ms_http_job_done},
    {"GET", "/v2/trace/setting", MS_RIGHT_TOKEN, ms_http_trace, NULL},
    {"POST", "/v2/trace/setting", MS_RIGHT_CONTROL, ms_http_set_trace, NULL},
    {"GET", "/v2/models/*/trace/setting", MS_RIGHT_MODEL, ms_http_trace, NULL},
    {"POST", "/v2/models/*/trace/setting", MS_RIGHT_CONTROL, ms_http_set_trace, NULL},
    {"GET", "/v2/logging", MS_RIGHT_TOKEN, ms_http_log, NULL},
    {"POST", "/v2/logging", MS_RIGHT_CONTROL, ms_http_set_log, NULL},
    {"GET", "/v2/systemsharedmemory/status", MS_RIGHT_TOKEN, ms_http_regions, NULL},
    {"GET", "/v2/systemsharedmemory/region/*/status", MS_RIGHT_TOKEN, ms_http_regions, NULL},
    {"POST", "/v2/systemsharedmemory/region/*/register", MS_RIGHT_TOKEN, ms_http_register, NULL},
    {"POST", "/v2/systemsharedmemory/region/*/unregister", MS_RIGHT_TOKEN, ms_http_unregister, NULL},
    {"POST", "/v2/systemsharedmemory/unregister", MS_RIGHT_TOKEN, ms_http_unregister, NULL},
    {"GET", "/v2/cudasharedmemory/status", MS_RIGHT_TOKEN, ms_http_no_regions, NULL},
    {"GET", "/v2/cudasharedmemory/region/*/status", MS_RIGHT_TOKEN, ms_http_no_regions, NULL},
    {"POST", "/v2/cudasharedmemory/region/*/register", MS_RIGHT_TOKEN, ms_http_no_register, NULL},
    {"POST", "/v2/cudasharedmemory/region/*/unregister", MS_RIGHT_TOKEN, ms_http_no_unregister, NULL},
    {"POST", "/v2/cudasharedmemory/unregister", MS_RIGHT_TOKEN, ms_http_no_unregister, NULL},
    {"GET", "/metrics", MS_RIGHT_METRICS, ms_http_metrics, NULL},
    {"GET", "/v2/moire/live", MS_RIGHT_METRICS, ms_http_watch, NULL},
    {"GET", "/", MS_RIGHT_NONE, ms_http_page, NULL}, /* it shows nothing before it has asked for data */
};

/* A word of the path into its room; false: too long. */
static bool keep(char *to, size_t room, const char *word, size_t n) {
    if (!n || n >= room) return false;
    memcpy(to, word, n);
    to[n] = 0;
    return true;
}

static bool fits(struct ms_exchange *x, const char *pattern, const char *path) {
    x->model[0] = x->version[0] = 0;
    while (*pattern) {
        if (*pattern != '*') {
            if (*pattern++ != *path++) return false;
            continue;
        }
        const size_t n = strcspn(path, "/");
        if (x->model[0] && strspn(path, "0123456789") != n) return false; /* a version is a number */
        if (!(x->model[0] ? keep(x->version, sizeof x->version, path, n)
                          : keep(x->model, sizeof x->model, path, n)))
            return false;
        path += n;
        pattern++;
    }
    return !*path;
}

const struct ms_route *ms_http_route(struct ms_exchange *x, const char *method, const char *path,
                                     int *status) {
    if (!strcmp(method, "HEAD")) method = "GET";
    *status = 404;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (!fits(x, routes[i].path, path)) continue;
        if (!strcmp(routes[i].method, method)) return &routes[i];
        *status = 405;
    }
    return NULL;
}
