/* SPDX-License-Identifier: Apache-2.0
 * http_regions.c - shared memory of clients is registered; see http.h and regions.h. */
#include <string.h>
#include "serve/http/http.h"
#include "serve/protocol/fault.h"
#include "serve/query/regions.h"

static struct ms_regions *regions_of(const struct ms_exchange *x) {
    return x->http->repository->options.regions;
}

void ms_http_regions(struct ms_exchange *x) {
    moire_error err = {0};
    json_t *list;
    if (ms_regions_status(regions_of(x), x->model, &list, &err))
        ms_http_fail(x, &err);
    else
        ms_http_answer(x, list);
}

static int register_region(const struct ms_exchange *x, const json_t *document, moire_error *err) {
    const json_t *key = json_object_get(document, "key"), *offset = json_object_get(document, "offset"),
                 *bytes = json_object_get(document, "byte_size");
    if (!json_is_string(key) || !json_is_integer(bytes) || (offset && !json_is_integer(offset)))
        return ms_fail(err, MOIRE_EINVAL,
                       "a region needs \"key\", a string, and \"byte_size\", a whole number; "
                       "\"offset\" is a whole number");
    return ms_regions_register(regions_of(x), x->model, json_string_value(key), json_integer_value(offset),
                               json_integer_value(bytes), err);
}

void ms_http_register(struct ms_exchange *x) {
    moire_error err = {0};
    json_t *document = json_loadb(x->body.at ? x->body.at : "", x->body.n, JSON_REJECT_DUPLICATES, NULL);
    if (register_region(x, document, &err))
        ms_http_fail(x, &err);
    else
        x->status = 200;
    json_decref(document);
}

void ms_http_unregister(struct ms_exchange *x) {
    ms_regions_unregister(regions_of(x), x->model);
    x->status = 200;
}

/* --- memory of GPUs: none is ever registered --- */
void ms_http_no_regions(struct ms_exchange *x) {
    moire_error err = {0};
    ms_fail(&err, MOIRE_ESTALE, "there is no CUDA shared memory region '%.100s'", x->model);
    if (*x->model)
        ms_http_fail(x, &err);
    else
        ms_http_answer(x, json_array());
}
void ms_http_no_register(struct ms_exchange *x) {
    moire_error err = {0};
    ms_fail(&err, MOIRE_EUNSUPPORTED, "CUDA shared memory is not served; system shared memory is");
    ms_http_fail(x, &err);
}
void ms_http_no_unregister(struct ms_exchange *x) {
    x->status = 200;
}
