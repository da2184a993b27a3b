/* SPDX-License-Identifier: Apache-2.0
 * limits.h - every bound of the system in one table: name, default, unit, what it can be set to, what it
 * bounds (the sizes of tables that policies have bound some of these).  A breach is MOIRE_ELIMIT (or
 * MOIRE_EBUSY for queues) and names the limit. */
#ifndef MO_LIMITS_H
#define MO_LIMITS_H
#include "moire.h"

/* X(name, default, "unit", most that it can be set to, code of a breach, "what it bounds") */
#define MO_LIMITS(X)                                                                                         \
    X(model_bytes, 8LL << 30, "bytes", 1LL << 40, ELIMIT, "size of an ONNX file or one external data file")  \
    X(nodes, 200000, "nodes", 10000000, ELIMIT, "nodes of a graph")                                          \
    X(tensors, 500000, "tensors", 10000000, ELIMIT, "tensors of a graph")                                    \
    X(message_depth, 32, "levels", 100, ELIMIT, "nesting of an ONNX message")                                \
    X(name_bytes, 4096, "bytes", 1LL << 40, ELIMIT, "length of a name in a model")                           \
    X(tensor_bytes, 4LL << 30, "bytes", 1LL << 40, ELIMIT, "size of one tensor")                             \
    X(arena_bytes, 64LL << 30, "bytes", 1LL << 40, ELIMIT, "activation memory of one query")                 \
    X(fold_bytes, 256LL << 20, "bytes", 1LL << 40, ELIMIT,                                                   \
      "size of a constant made by folding, but for fills")                                                   \
    X(folded_bytes, 2LL << 30, "bytes", 1LL << 40, OK,                                                       \
      "size of all constants made by folding; what is left runs in queries")                                 \
    X(fold_steps, 4LL << 30, "steps", 1LL << 50, OK,                                                         \
      "work of computing constants; what is left runs in queries")                                           \
    X(loop_trips, 1000000, "trips", 1LL << 40, ELIMIT,                                                       \
      "runs of bodies by one layer of control flow, nested ones included")                                   \
    X(json_bytes, 64LL << 20, "bytes", 1LL << 40, ELIMIT, "size of a JSON file")                             \
    X(image_bytes, 768LL << 20, "bytes", 1LL << 40, ELIMIT, "size of an image file")                         \
    X(trace_bytes, 2LL << 30, "bytes", 1LL << 40, ELIMIT, "size of a recorded run")                          \
    X(variant_bytes, 8LL << 20, "bytes", 1LL << 40, ELIMIT, "size of a compiled variant in the store")       \
    X(model_image_bytes, 64LL << 30, "bytes", 1LL << 40, ELIMIT, "size of a compiled model in the store")    \
    X(learned_bytes, 1LL << 30, "bytes", 1LL << 40, ELIMIT, "size of a trained policy or a checkpoint")      \
    X(variant_json_bytes, 256LL << 10, "bytes", 1LL << 40, ELIMIT, "size of a description in the store")     \
    X(tenants, 256, "models", 256, ELIMIT, "loaded models")                                                  \
    X(queue, 1024, "queries", 1 << 14, EBUSY, "accepted and waiting queries of one tenant")                  \
    X(queries, 4096, "queries", 1 << 16, EBUSY, "accepted and unanswered queries of the runtime")            \
    X(arenas, 64, "queries", 1 << 10, OK, "queries of one tenant that have begun at once")                   \
    X(cores, 1024, "cores", 1024, ELIMIT, "cores of one runtime")                                            \
    X(layers, 200000, "layers", 10000000, ELIMIT, "layers of a plan")

struct mo_limits {
#define MO_LIMIT_FIELD(name, value, unit, most, code, text) int64_t name;
    MO_LIMITS(MO_LIMIT_FIELD)
#undef MO_LIMIT_FIELD
};

struct mo_limits mo_limits_default(void);
/* The whole table with the values of `limits`, *n rows of MO_LIMIT_ROWS at most. */
enum { MO_LIMIT_ROWS = 32 };
void mo_limits_table(const struct mo_limits *limits, moire_limit_row rows[MO_LIMIT_ROWS], int *n);
/* Gives the limit of that name another value.  MOIRE_EINVAL: there is none, or not that value. */
int mo_limits_set(struct mo_limits *limits, const char *name, int64_t value, moire_error *err);
#endif
