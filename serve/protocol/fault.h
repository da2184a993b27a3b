/* SPDX-License-Identifier: Apache-2.0
 * fault.h - errors of the server: a moire_error, and the statuses of HTTP and gRPC that say the same. */
#ifndef MS_FAULT_H
#define MS_FAULT_H
#include "moire.h"

/* Fills err (unless NULL).  Returns: code. */
int ms_fail(moire_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Codes of the server's own, beside moire's. */
enum { MS_EAUTH = 1001, MS_EDENIED };

/* "there is no model": what is hidden from a client looks like what is not there.  version NULL: any. */
int ms_fail_no_model(moire_error *err, const char *name, const char *version);

/* The status of HTTP for a code of moire; 200 for MOIRE_OK.  Triton's, and beyond it 429 for a tenant's own
 * full queue: that client is too fast, while 503 says that the server cannot. */
int ms_http_status(int code);

/* The status of gRPC for a code of moire. */
enum {
    MS_GRPC_OK = 0,
    MS_GRPC_CANCELLED = 1,
    MS_GRPC_INVALID_ARGUMENT = 3,
    MS_GRPC_DEADLINE_EXCEEDED = 4,
    MS_GRPC_NOT_FOUND = 5,
    MS_GRPC_PERMISSION_DENIED = 7,
    MS_GRPC_RESOURCE_EXHAUSTED = 8,
    MS_GRPC_UNIMPLEMENTED = 12,
    MS_GRPC_INTERNAL = 13,
    MS_GRPC_UNAVAILABLE = 14,
    MS_GRPC_UNAUTHENTICATED = 16
};
int ms_grpc_status(int code);
#endif
