/* SPDX-License-Identifier: Apache-2.0
 * limits.h - every bound of the system in one table: name, default, what it bounds.
 * A breach is MOIRE_ELIMIT (or MOIRE_EBUSY for queues) and names the limit. */
#ifndef MO_LIMITS_H
#define MO_LIMITS_H
#include <stdint.h>

/* X(name, default, "what it bounds") */
#define MO_LIMITS(X)                                                                                         \
    X(model_bytes, 8LL << 30, "size of an ONNX file or one external data file")                              \
    X(nodes, 200000, "nodes of a graph")                                                                     \
    X(tensors, 500000, "tensors of a graph")                                                                 \
    X(message_depth, 32, "nesting of an ONNX message")                                                       \
    X(name_bytes, 4096, "length of a name in a model")                                                       \
    X(tensor_bytes, 4LL << 30, "size of one tensor")                                                         \
    X(arena_bytes, 64LL << 30, "activation memory of one query")                                             \
    X(fold_bytes, 256LL << 20, "size of a constant made by folding")                                         \
    X(json_bytes, 64LL << 20, "size of a JSON file")                                                         \
    X(image_bytes, 768LL << 20, "size of an image file")                                                     \
    X(trace_bytes, 2LL << 30, "size of a recorded run")                                                      \
    X(variant_bytes, 8LL << 20, "size of a compiled variant in the store")                                   \
    X(model_image_bytes, 64LL << 30, "size of a compiled model in the store")                                \
    X(variant_json_bytes, 256LL << 10, "size of a description in the store")                                 \
    X(tenants, 256, "loaded models")                                                                         \
    X(queue, 1024, "accepted and waiting queries of one tenant")                                             \
    X(queries, 4096, "accepted and unanswered queries of the runtime")                                       \
    X(arenas, 64, "activation arenas of one tenant")                                                         \
    X(cores, 1024, "cores of one runtime")                                                                   \
    X(layers, 200000, "layers of a plan")

struct mo_limits {
#define MO_LIMIT_FIELD(name, value, text) int64_t name;
    MO_LIMITS(MO_LIMIT_FIELD)
#undef MO_LIMIT_FIELD
};

struct mo_limit_row {
    const char *name, *text;
    int64_t value;
};

struct mo_limits mo_limits_default(void);
/* The table itself, for --help, docs and tests; *n rows. */
const struct mo_limit_row *mo_limits_table(int *n);
#endif
