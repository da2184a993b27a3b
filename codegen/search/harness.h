/* SPDX-License-Identifier: Apache-2.0
 * harness.h - one layer taken out of its model, with synthetic weights and data, to run kernels on.
 *
 * A layer keeps shapes and attributes only, so many models can be searched without holding their weights.
 * A harness is a layer made runnable: random constants (never the model's: a model of zeros would prove
 * nothing), buffers with guard zones, the generic kernel bound beside.
 *
 * A layer's tensors are slices where the model's are, and those of convolutions always: their kernels take
 * the strides between images from mo_kargs.  What lies between images is NaN to read and guarded. */
#ifndef MO_HARNESS_H
#define MO_HARNESS_H
#include "codegen/family/family.h"

/* A distinct layer problem; owns its graph of one node. */
struct mo_layer {
    struct mo_graph *graph;
    struct mo_node *node;
    bool constant[MO_KERNEL_IN];
    struct mo_problem problem;
    int64_t flops;
};
/* Copies a node out of a graph whose layouts are final. */
int mo_layer_create(const struct mo_graph *graph, const struct mo_node *node,
                    const struct mo_problem *problem, struct mo_layer *out, moire_error *err);
void mo_layer_destroy(struct mo_layer *layer);

enum mo_trial_data { MO_DATA_RANDOM, MO_DATA_EDGES, MO_DATA_COUNT };
enum { MO_GUARD_BYTES = 4096, MO_WEIGHT_COPIES = 24 };

struct mo_harness {
    const struct mo_env *env;
    struct mo_region *region; /* what binding prepared */
    struct mo_graph *graph;   /* with constants */
    struct mo_node *node;
    const struct mo_tensor *out;
    struct mo_step step; /* the generic kernel; step.run NULL: there is none for this layer */
    struct mo_kargs args;
    /* By packing: equal copies of the weights, used in turn.  In a network other layers have pushed a layer's
     * weights out of the private cache by the time it runs again, and kernels must be ranked as they will
     * run. */
    struct mo_packed {
        const void *copy[MO_WEIGHT_COPIES];
        const float *bias; /* that was made with them; NULL: args.bias */
        int n;
    } packed[MO_PACK_COUNT];
    int turn;
    float *bias; /* zeros or the layer's, padded; used when binding gave none */
    void *input[MO_KERNEL_IN];
    char *output; /* guard, tensor with the gaps between its images, guard */
    size_t output_bytes;
    char *golden;  /* the generic kernel's output on random data, once it is verified */
    char *scratch; /* scratch, guard */
    size_t scratch_bytes;
};
int mo_harness_create(const struct mo_env *env, const struct mo_layer *layer, struct mo_harness *out,
                      moire_error *err);
void mo_harness_destroy(struct mo_harness *h);
void mo_harness_fill(struct mo_harness *h, enum mo_trial_data dataset);

/* A kernel as the harness runs it. */
struct mo_runnable {
    mo_kernel *run;
    const void *params;
    int64_t units, scratch_bytes;
    enum mo_packing packing; /* mo_harness_pack() must have been called with it */
    bool mixes;              /* as of a step */
};
struct mo_runnable mo_harness_generic(const struct mo_harness *h);
/* Packs the weights so (once); MOIRE_EUNSUPPORTED: this layer's cannot be, MOIRE_ENOMEM. */
int mo_harness_pack(struct mo_harness *h, int32_t packing, moire_error *err);
/* Makes scratch memory of exactly this size. */
int mo_harness_reserve(struct mo_harness *h, size_t bytes, moire_error *err);
/* Runs all units in `pieces` uneven ranges, last first, as several workers might. */
void mo_harness_run(struct mo_harness *h, const struct mo_runnable *r, int pieces);
/* Arguments of the next run, with the next copy of the weights; for callers that run units themselves, with
 * h->scratch. */
struct mo_kargs mo_harness_args(struct mo_harness *h, const struct mo_runnable *r);
/* Poisons output and guards before a run; false afterwards when a guard or a gap was touched. */
void mo_harness_poison(struct mo_harness *h);
bool mo_harness_guards(const struct mo_harness *h);

/* Expected value at flat logical index of the output, and the magnitude its tolerance scales with. */
bool mo_oracle(const struct mo_harness *h, int64_t at, double *want, double *magnitude);
/* Remembers the output of the run before as what every other kernel must give on random data. */
int mo_harness_keep_golden(struct mo_harness *h, moire_error *err);
/* Compares with the oracle at sampled points and with the golden output everywhere, for two data sets, whole
 * and split; false and the reason when anything is off.  Leaves the random data set in place. */
bool mo_verify(struct mo_harness *h, const struct mo_runnable *r, moire_error *why);
#endif
