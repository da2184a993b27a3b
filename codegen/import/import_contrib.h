/* SPDX-License-Identifier: Apache-2.0
 * import_contrib.h - operators of ONNX Runtime's own domain that models have when that runtime has optimized
 * and saved them, written as operators of ONNX. */
#ifndef MO_IMPORT_CONTRIB_H
#define MO_IMPORT_CONTRIB_H
#include "codegen/import/import.h"

enum { MO_CONTRIB_NODES = 4 };

/* In the place of one node.  Operands of the nodes that are made are the node's, and names with the prefix.
 */
struct mo_contrib {
    struct mo_region *region;
    const Onnx__NodeProto *node;
    const char *prefix;
    int opset; /* of ONNX's own operators in the model */
    int n;     /* 0: the node is for nobody here */
    Onnx__NodeProto *out[MO_CONTRIB_NODES];
    bool no_memory;
};

/* Fills `out`; false: no_memory. */
bool mo_contrib_write(struct mo_contrib *contrib);
/* The domain of what is made, compared by address: such nodes are of the newest version of ONNX's operators,
 * whatever the model imports. */
extern const char mo_contrib_domain[];
#endif
