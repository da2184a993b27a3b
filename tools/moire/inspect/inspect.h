/* SPDX-License-Identifier: Apache-2.0
 * inspect.h - what `moire inspect` knows about a model, and two of the ways it is shown (the third is
 * graph_svg.h). */
#ifndef MO_INSPECT_H
#define MO_INSPECT_H
#include "runtime/plan/describe.h"
#include "variants/store_format.h"

/* Operators of a graph by how often they occur, most frequent first. */
struct mo_op_count {
    const char *op; /* untrusted text */
    int n;
};

enum { MO_INSPECT_FAMILIES = 96 };

struct mo_inspection {
    const struct mo_env *env;
    struct mo_region *region; /* of the census and texts */
    const char *file;
    const struct mo_graph *before;         /* imported, inferred and folded, no passes */
    const struct mo_plan *plan;            /* after the passes, with kernels and memory */
    char (*families)[MO_INSPECT_FAMILIES]; /* by layer: generated families that take it, "winograd direct" */
    struct mo_op_count *ops_before, *ops_after;
    int n_before, n_after;
    int64_t parameters, parameter_bytes, macs;
    /* Of the compiled model, with what its verification found; stamp.model is "" when there is none. */
    struct mo_store_stamp stamp;
    bool stamp_current; /* that model has these kernels */
    int cores;          /* of a team that the layers are held against; 0 = none */
};

/* "float32 [1,3,224,224]" of a tensor. */
void mo_tensor_text(const struct mo_tensor *t, char *out, size_t n);

void mo_inspect_text(const struct mo_inspection *in);
int mo_inspect_json(const struct mo_inspection *in, moire_error *err); /* inspect_json.c, to stdout */
#endif
