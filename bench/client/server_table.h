/* SPDX-License-Identifier: Apache-2.0
 * server_table.h - the model servers that are measured beside moire's. */
#ifndef MO_SERVER_TABLE_H
#define MO_SERVER_TABLE_H
#include "bench/load/session.h"

struct mo_server_family {
    const char *name;
    const char *environment; /* of bench/serve-peers */
    const char *script;      /* in bench/peers */
    const char *engine;      /* the family of peers that runs its models, for times alone */
    const char *only_over;   /* NULL: http and grpc */
    bool json;               /* over HTTP its tensors are JSON: it knows nothing else */
};
/* NULL: no family of model servers. */
const struct mo_server_family *mo_server_family(const char *name);
/* The rows of mo_bench_servers() are systems of these families. */
bool mo_server_is(const struct mo_bench_system *system);
#endif
