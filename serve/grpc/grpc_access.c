/* SPDX-License-Identifier: Apache-2.0
 * grpc_access.c - whether a client may do what it asks for; see grpc.h. */
#include <string.h>
#include "serve/grpc/grpc.h"
#include "serve/protocol/fault.h"

int ms_call_allow(const struct ms_call *call, moire_error *err) {
    const struct ms_grpc *door = call->connection->door;
    const enum ms_right right = call->method->right;
    const int rc = ms_access_check(door->access, &call->bearer,
                                   right == MS_RIGHT_MODEL ? MS_RIGHT_TOKEN : right, NULL, NULL, err);
    if (rc || right != MS_RIGHT_CONTROL || !door->control_is_elsewhere) return rc;
    return ms_fail(err, MS_EDENIED, "this is answered over HTTP at --control-port and --control-unix only");
}

static const char *text_at(const struct ms_item *item, size_t at) {
    const char *text = NULL;
    if (at) memcpy(&text, (const char *)item->request + at, sizeof text);
    return text && *text ? text : NULL;
}

int ms_item_allow(const struct ms_item *item, moire_error *err) {
    const struct ms_method *m = item->call->method;
    const char *model = text_at(item, m->model_at);
    if (m->right == MS_RIGHT_CONTROL) return MOIRE_OK;         /* the call may, whatever it names */
    if (!model && m->right != MS_RIGHT_MODEL) return MOIRE_OK; /* it is of the whole server */
    return ms_access_check(item->call->connection->door->access, &item->call->bearer, MS_RIGHT_MODEL,
                           model ? model : "", text_at(item, m->version_at), err);
}
