/* SPDX-License-Identifier: Apache-2.0
 * op_table.c - the operator table: all families in one list. */
#include "runtime/ops/util.h"

#include <string.h>

#define FAMILY(file) mo_ops_##file,
static const struct mo_op *const families[] = {MO_OP_FAMILIES(FAMILY)};
#undef FAMILY

const struct mo_op *mo_op_find(const char *name, const char *domain) {
    if (!strcmp(domain, "ai.onnx")) domain = "";
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (const struct mo_op *op = families[f]; op->name; op++)
            if (!strcmp(op->name, name) && !strcmp(op->domain, domain)) return op;
    return NULL;
}

const struct mo_op *mo_op_at(int index) {
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (const struct mo_op *op = families[f]; op->name; op++)
            if (index-- == 0) return op;
    return NULL;
}
