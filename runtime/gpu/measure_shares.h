/* SPDX-License-Identifier: Apache-2.0
 * measure_shares.h - what a model takes on lets of a GPU, measured: its share profile (runtime/profile/
 * share_profile.h) by batch and units, alone; and two models side by side.
 *
 * A time is the median, over repetitions, of the GPU's own clock around the kernels of a batch; copies are
 * timed apart.  Use of L2 and memory is estimated from the program: of L2, all bytes that operations name; of
 * memory, those that L2 cannot hold (weights of a model that is larger, and what operations touch beyond its
 * size); both over the time and the GPU's nominal rates. */
#ifndef MO_GPU_MEASURE_H
#define MO_GPU_MEASURE_H
#include "runtime/gpu/loader.h"
#include "runtime/gpu/program.h"

enum { MO_MEASURE_BUCKETS = 12 };

/* Nominal rates of a GPU, bytes a ns; 0 = not known, use is not estimated. */
struct mo_measure_rates {
    double l2, dram;
};

/* A model on one GPU. */
struct mo_measured {
    const struct mo_gpu_device *device;
    int gpu, n_buckets;
    int batch[MO_MEASURE_BUCKETS]; /* rising */
    /* bytes of a batch: that operations name, and of these what comes from memory */
    int64_t moved[MO_MEASURE_BUCKETS], missed[MO_MEASURE_BUCKETS];
    struct mo_measure_rates rates;
    struct mo_gpu_loaded *loaded[MO_MEASURE_BUCKETS];
    int n_inputs, n_outputs, n_segments;
    int64_t in_bytes, out_bytes; /* of a query */
    void *staging;
    const void **inputs; /* [largest batch][n_inputs] */
    void **outputs;
    void *pointers;
};
/* Loads programs that are equal but for their batches; they may be freed afterwards. */
int mo_measured_open(const struct mo_gpu_device *device, int gpu, int n_buckets,
                     struct mo_gpu_program *const *program, struct mo_measured *out, moire_error *err);
void mo_measured_close(struct mo_measured *model); /* zeroes are fine */

struct mo_measure_options {
    const struct mo_plan_kind *kind; /* units, and sizes of lets */
    int repetitions;                 /* of a cell, at least 3; */
    int64_t cell_ns;                 /* no more begin after this long, but 3; 0 = 100 ms */
    const struct mo_share_profile
        *have; /* cells of it that hold a time are not measured again; may be NULL */
    /* After every cell, measured or taken over; true: stop (MOIRE_EINTERRUPTED, *out holds what there is).
     * May be NULL. */
    bool (*progress)(void *ctx, int done, int all, int batch, int units, int64_t ns);
    void *ctx;
};
/* *out: a profile, not finished when interrupted; *link_bytes_ns: what copies in moved a ns, 0 = unknown. */
int mo_measure_shares(const struct mo_measured *model, const struct mo_measure_options *options,
                      struct mo_share_profile **out, double *link_bytes_ns, moire_error *err);

/* One of two models side by side: where it runs, and its median time while the other runs without a pause. */
struct mo_measure_side {
    const struct mo_measured *model;
    int bucket, first, units;
    int64_t ns;
};
/* Fills ns of both sides; at least `repetitions` of the slower one. */
int mo_measure_pair(struct mo_measure_side side[2], int repetitions, moire_error *err);
#endif
