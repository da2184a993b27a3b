/* SPDX-License-Identifier: Apache-2.0
 * frontend.h - from an ONNX file to a graph of layers: import, bind shapes, infer, fold, passes. */
#ifndef MO_FRONTEND_H
#define MO_FRONTEND_H
#include "runtime/graph/graph.h"

/* Plans of one model at several shapes share its constants (codegen/imported.h). */
struct mo_imported;
struct mo_weights;
struct mo_frontend_share {
    struct mo_imported *imported; /* of this model; NULL: it is made, and the caller's, also on failure */
    struct mo_weights *weights;   /* packed ones */
};

struct mo_frontend_options {
    const moire_shape *shapes; /* bindings of symbolic or unknown input shapes */
    int n_shapes;
    int64_t batch; /* value of an otherwise unbound first dimension; 0 = 1 */
    bool bundles;  /* inputs and outputs may be sequences and optionals, as runtime/ops/control/bundle.h has
                      them */
    bool only_import; /* inputs and outputs as the file declares them; nothing is bound or inferred */
    bool no_passes;   /* only import, inference and folding (what `inspect` shows as "before") */
    bool no_layout;   /* all passes but those of this machine's kernels: layouts, small integers */
    enum moire_precision precision;
    bool any_unit; /* layers of bfloat16 where they are asked for, on machines that are not fast at it, too */
    bool exact;    /* of the graph: see moire_tenant_config.exact */
    struct mo_frontend_share *share; /* NULL: the graph has all that it needs itself */
};

/* "auto", "fp32", "int8", "bf16", "fp16"; of NULL or anything else, AUTO. */
enum moire_precision mo_precision_of(const char *name);
const char *mo_precision_name(enum moire_precision precision);
/* "int8" where layers of a prepared graph compute with 8-bit numbers, "bf16" where they may with bfloat16,
 * "fp16" where weights are rounded to float16, else "fp32". */
const char *mo_precision_used(const struct mo_graph *g);

/* What multiplies bfloat16 where layers of the graph compute with it, its halves widened; NULL: none does.
 * Options as the model is loaded with. */
struct mo_matrix_unit;
const struct mo_matrix_unit *mo_halves_unit(const struct mo_frontend_options *options,
                                            const struct mo_graph *graph);

/* Whether constants become float16 in a graph that is loaded with that precision. */
enum mo_float16 mo_float16_of(enum moire_precision precision, const struct mo_graph *graph);

/* Reads and prepares `path`.  Errors name file, node, operator and what to do. */
int mo_frontend_load(const struct mo_env *env, const char *path, const struct mo_frontend_options *options,
                     struct mo_graph **out, moire_error *err);
/* The same from memory (fuzzing, tests); `folder` is where external data is looked up, NULL = refuse it. */
int mo_frontend_parse(const struct mo_env *env, const void *bytes, size_t n, const char *folder,
                      const struct mo_frontend_options *options, struct mo_graph **out, moire_error *err);
#endif
