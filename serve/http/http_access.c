/* SPDX-License-Identifier: Apache-2.0
 * http_access.c - whether a client may do what it asks for; see http.h. */
#include <string.h>
#include "serve/http/http.h"
#include "serve/protocol/fault.h"

int ms_http_allow(struct ms_exchange *x, moire_error *err) {
    const enum ms_right right = x->route->right;
    const char *said = ms_http_header(x, "Authorization");
    ms_bearer_read(said, said ? strlen(said) : 0, &x->bearer);
    const int rc =
        ms_access_check(x->http->access, &x->bearer, right, x->model, *x->version ? x->version : NULL, err);
    if (rc || right != MS_RIGHT_CONTROL || !x->http->control_is_elsewhere || x->listener->is_control)
        return rc;
    return ms_fail(err, MS_EDENIED, "this is answered at --control-port and --control-unix only");
}
