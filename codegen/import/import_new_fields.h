/* SPDX-License-Identifier: Apache-2.0
 * import_new_fields.h - fields of functions and their calls that are younger than the ONNX whose messages
 * this library is built with: default values of attributes (IR version 9) and overloads (IR version 10). */
#ifndef MO_IMPORT_NEW_FIELDS_H
#define MO_IMPORT_NEW_FIELDS_H
#include "codegen/import/import.h"

struct mo_function_more {
    const char *overload; /* "" of most */
    size_t n_defaults;
    Onnx__AttributeProto **defaults;
};

/* Into the graph's region. */
int mo_read_function_more(const struct mo_import *im, const Onnx__FunctionProto *function,
                          struct mo_function_more *out);
/* Which of several functions of its name a node calls; NULL: out of memory. */
const char *mo_node_overload(struct mo_region *region, const Onnx__NodeProto *node);
#endif
