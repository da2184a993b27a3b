/* SPDX-License-Identifier: Apache-2.0
 * fault.c - errors of the server; see fault.h. */
#include "serve/protocol/fault.h"

#include <stdarg.h>
#include <stdio.h>

int ms_fail(moire_error *err, int code, const char *format, ...) {
    if (!err) return code;
    err->code = code;
    va_list values;
    va_start(values, format);
    vsnprintf(err->message, sizeof err->message, format, values);
    va_end(values);
    return code;
}

int ms_fail_no_model(moire_error *err, const char *name, const char *version) {
    return ms_fail(err, MOIRE_ESTALE, "there is no model '%.100s'%s%.20s", name,
                   version ? " of version " : "", version ? version : "");
}

int ms_grpc_status(int code) {
    switch (code) {
    case MS_EAUTH:
        return MS_GRPC_UNAUTHENTICATED;
    case MS_EDENIED:
        return MS_GRPC_PERMISSION_DENIED;
    case MOIRE_OK:
        return MS_GRPC_OK;
    case MOIRE_ECANCELLED:
        return MS_GRPC_CANCELLED;
    case MOIRE_EINVAL:
    case MOIRE_ESHAPE:
    case MOIRE_EFORMAT:
        return MS_GRPC_INVALID_ARGUMENT;
    case MOIRE_EEXPIRED:
        return MS_GRPC_DEADLINE_EXCEEDED;
    case MOIRE_ESTALE:
        return MS_GRPC_NOT_FOUND;
    case MOIRE_EBUSY:
    case MOIRE_ELIMIT:
    case MOIRE_ENOMEM:
        return MS_GRPC_RESOURCE_EXHAUSTED;
    case MOIRE_EUNSUPPORTED:
        return MS_GRPC_UNIMPLEMENTED;
    case MOIRE_ESHED:
    case MOIRE_EUNLOADED:
    case MOIRE_ESHUTDOWN:
    case MOIRE_EDEVICE:
        return MS_GRPC_UNAVAILABLE;
    default:
        return MS_GRPC_INTERNAL;
    }
}

int ms_http_status(int code) {
    switch (code) {
    case MS_EAUTH:
        return 401;
    case MS_EDENIED:
        return 403;
    case MOIRE_OK:
        return 200;
    case MOIRE_EINVAL:
    case MOIRE_ESHAPE:
    case MOIRE_EFORMAT:
    case MOIRE_ELIMIT:
        return 400;
    case MOIRE_ESTALE:
        return 404; /* what is asked for is not there */
    case MOIRE_EBUSY:
        return 429;
    case MOIRE_ECANCELLED:
        return 499;
    case MOIRE_EUNSUPPORTED:
        return 501;
    case MOIRE_EEXPIRED:
    case MOIRE_ESHED:
    case MOIRE_EUNLOADED:
    case MOIRE_ESHUTDOWN:
    case MOIRE_EDEVICE:
        return 503;
    default:
        return 500;
    }
}
