/* SPDX-License-Identifier: Apache-2.0
 * compile.h - models to stored variants: load, collect layers, search. */
#ifndef MO_COMPILE_H
#define MO_COMPILE_H
#include "codegen/search/search.h"

struct mo_compile_options {
    const char *const *files; /* ONNX files */
    int n_files;
    const moire_shape *shapes; /* each is given to the models that have an input of its name */
    int n_shapes;
    bool exact;                      /* variants for models that are loaded with moire_tenant_config.exact */
    enum moire_precision precision;  /* likewise */
    struct mo_search_options search; /* families and problem may be NULL: the generator's own */
};

/* Searches the layers of all files at once: what they share is compiled once.  *out receives the search with
 * its results also when it ended early (interrupted, compiler trouble); NULL when nothing was begun. */
int mo_compile_models(const struct mo_env *env, const struct mo_compile_options *options,
                      struct mo_search **out, moire_error *err);

/* The bindings that a model has an input for, into out (room for n_shapes); all of them for the only model.
 */
int mo_compile_shapes(const struct mo_env *env, const struct mo_compile_options *options, const char *file,
                      moire_shape *out, int *n, moire_error *err);

/* Sums over layers as often as they are used. */
struct mo_compile_totals {
    int layers, reused, compiled, generic, failed, pending, rejected;
    double min_ms, generic_ms; /* of layers with both times known, one core */
    double speedup;            /* geometric mean over those layers */
    int timed;                 /* layers with both times known: */
    double timed_flops;        /* of these */
    int64_t flops, source_bytes;
};
struct mo_compile_totals mo_compile_totals(const struct mo_search *search);
const char *mo_layer_state_name(enum mo_layer_state state);
#endif
