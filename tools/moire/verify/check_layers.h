/* SPDX-License-Identifier: Apache-2.0
 * check_layers.h - every layer of a model on its own, its kernels against its reference, on random and on
 * adversarial inputs.  What a whole network would smooth over shows here. */
#ifndef MO_CHECK_LAYERS_H
#define MO_CHECK_LAYERS_H
#include "tools/moire/verify/ways.h"

enum mo_layer_data {
    MO_LAYER_RANDOM,  /* uniform in [-1, 1) */
    MO_LAYER_EDGES,   /* zeros of both signs, denormals, 1e-30, +-1, +-1e4 */
    MO_LAYER_SPECIAL, /* random with some NaN, infinities and +-1e30 */
    MO_LAYER_DATA
};

/* One kernel of one layer.  A result that the reference has finite must be finite and near; one that is NaN
 * or infinite there must not be finite.  Winograd and Strassen kernels may spread NaN, infinities and 1e30 to
 * the pixels of a tile (moire_tenant_config.exact); maximum pools may take a NaN for absent, as ONNX does not
 * say what it means there. */
struct mo_layer_check {
    int layer;
    const char *text;   /* "Conv 3x3 +relu [1,64,56,56]" */
    const char *kernel; /* "conv direct avx512" */
    struct mo_way_target target;
    double error[MO_LAYER_DATA]; /* largest, relative to the largest finite value: of the output, of EDGES
                                    also the input, as sums of large numbers cancel */
    int64_t wrong;               /* elements that break the rule above */
    enum mo_layer_data data;     /* where the first of them was */
    bool good;                   /* no element is wrong and no error above the tolerance */
};

struct mo_layer_checker {
    const struct mo_graph *graph; /* after the passes; keeps its weights */
    const struct mo_way_target *targets;
    int n_targets;
    uint64_t seed;
    double tolerance;
    void (*report)(void *ctx, const struct mo_layer_check *check);
    void *ctx;
};
/* Reports each distinct layer and target in turn; layers whose shapes are known at run time only are left
 * out.  Fails when a layer cannot be run at all. */
int mo_check_layers(const struct mo_layer_checker *checker, moire_error *err);
#endif
