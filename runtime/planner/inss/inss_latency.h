/* SPDX-License-Identifier: Apache-2.0
 * inss_latency.h - the latency model of InSS (Han et al., "InSS: An Intelligent Scheduling Orchestrator for
 * Multi-GPU Inference with Spatio-Temporal Sharing", section 4): what a batch takes on a share of a GPU,
 * alone and beside others, and what a query then waits, from 16 solo runs and 3 runs beside others a model.
 *
 *   t_inf = upload + t_alone (1 + a_cache sum l_j + a_dram sum e_j + a_beside) + download
 *
 * upload, download  linear in the batch.
 * t_alone           locally weighted regression over (batch, share): at every question a small plane is
 *                   fitted to the 16 measured points, near ones counting more.
 * l_j, e_j          use of L2 and memory bandwidth of the neighbour j alone, linear in its throughput.
 * a_beside          not in the paper: what any neighbour costs.  0 unless the fit asked for it.
 *
 * What was left open by the paper and is chosen here, by leaving out each fitted point in turn (never by
 * points that a test uses): the terms of the plane, the width of the weights (struct mo_inss_shape), and how
 * far the coefficients of a model are drawn to those of all (struct mo_inss_pull).
 *
 * A share is in permille as everywhere (share_profile.h); times are ms on the GPU; rates are queries a
 * second.  Models are plain values: copy them freely.  No function here allocates, reads a clock or keeps
 * state, so any number of threads may ask at once; those below the fits are total. */
#ifndef MO_INSS_LATENCY_H
#define MO_INSS_LATENCY_H
#include "runtime/profile/share_profile.h"

enum {
    MO_INSS_SIDE = 4,    /* batches and shares of the grid that is measured alone */
    MO_INSS_POINTS = 16, /* MO_INSS_SIDE squared */
    MO_INSS_BESIDE = 4,  /* most neighbours of a measured run: the paper tests 2 to 5 models on a GPU */
    MO_INSS_MODELS = 64  /* most models fitted together */
};

/* What is measured alone; both rise.  mo_inss_grid(): batches 1, 4, 16, 32 on 20, 40, 60, 80 %. */
struct mo_inss_grid {
    int batch[MO_INSS_SIDE], share[MO_INSS_SIDE];
};
struct mo_inss_grid mo_inss_grid(void);

/* The local plane, with b the batch and s the share. */
enum mo_inss_terms {
    MO_INSS_LINEAR,  /* 1, b, s: the regression as the paper names it */
    MO_INSS_INVERSE, /* 1, b, 1/s */
    MO_INSS_AMDAHL,  /* 1, b, 1/s, b/s: each query has a part that the share divides and a part that it does
                        not */
    MO_INSS_TERMS    /* how many forms there are */
};
struct mo_inss_shape {
    enum mo_inss_terms terms;
    double width; /* of the Gaussian weights, in deviations of the grid's log b and log s */
};

/* Fractions of what the whole GPU has. */
struct mo_inss_use {
    double l2, dram;
};

struct mo_inss_model {
    /* ms = per_query * batch + fixed, in and out of the GPU's memory */
    struct {
        double per_query, fixed;
    } upload, download;
    struct mo_inss_shape shape;
    double shape_error; /* mean relative error of the 16 points, each left out of its own prediction */
    struct mo_inss_grid grid;
    double ms[MO_INSS_POINTS]; /* by batch, then by share */
    /* for quick answers: of each batch and share its logarithm in deviations of the four, and the share as
     * the plane has it; the deviations; half of the shortest time, below which nothing is predicted */
    double log_b[MO_INSS_SIDE], log_s[MO_INSS_SIDE], u[MO_INSS_SIDE];
    double per_log_b, per_log_s, floor_ms;
    /* use = slope * (queries a ms) + base */
    struct mo_inss_use slope, base;
    /* how well that fits the 16 points: share of their variance, 1 = all */
    struct mo_inss_use use_explained;
    int use_filled; /* points of the 16 whose use was not measured but follows from another share's */
    struct {
        double cache, dram, beside;
    } alpha; /* >= 0 */
};

/* --- fitting -------------------------------------------------------------------------------------------- */
/* Transfers, time alone and use from the grid's points of a profile.  A time must have been measured at each
 * point; use may have been measured at any share of the batch (share_profile.h says how it is carried over).
 * shape NULL: chosen among all forms and widths of 0.3 to 3 by leaving out each point in turn; a shape of
 * width 0: the width only.  alpha is 0.  Transfers take profile->copy_bytes_ns; a profile has no fixed part.
 * MOIRE_EINVAL names what is missing: a batch or a share that the profile does not have, a point without a
 * time, a batch without use of L2 or of memory; a grid or a shape that is none. */
int mo_inss_fit_alone(const struct mo_share_profile *profile, const struct mo_inss_grid *grid,
                      const struct mo_inss_shape *shape, struct mo_inss_model *out, moire_error *err);

/* One model as it was measured beside others: ms on the GPU, without copies. */
struct mo_inss_run {
    struct mo_inss_load {
        int model, batch, share;
    } self, other[MO_INSS_BESIDE];
    int n_others;
    double ms;
};

/* How alpha is found: least squares of relative errors, coefficients >= 0, each model by its own runs plus
 * `weight` times the squared distance to the coefficients fitted to the runs of all models.
 * {false, 0} is the paper's: each model by itself, no constant. */
struct mo_inss_pull {
    bool beside; /* with a constant */
    double weight;
    double error; /* set by the choice: mean relative error of the runs, each left out of its own fit */
};

/* Fits alpha of n models (1..MO_INSS_MODELS) to runs between them.  pull NULL: chosen by leaving out each run
 * in turn; *chosen (NULL = not wanted) says what was taken.  A model without runs gets the coefficients of
 * all.  MOIRE_EINVAL: a run that names a model out of range, has no neighbour, or has no time. */
int mo_inss_fit_beside(struct mo_inss_model *models, int n, const struct mo_inss_run *runs, int n_runs,
                       const struct mo_inss_pull *pull, struct mo_inss_pull *chosen, moire_error *err);

/* --- predicting ----------------------------------------------------------------------------------------- */
/* ms on the GPU alone, without copies: > 0.  Batches below 1 are 1; shares are clamped to 1..1000. */
double mo_inss_alone_ms(const struct mo_inss_model *model, int batch, int share);
/* Use of L2 and memory at that batch when it takes alone_ms alone; 0 to 1 each. */
struct mo_inss_use mo_inss_use_of(const struct mo_inss_model *model, int batch, double alone_ms);
/* >= 1; exactly 1 without neighbours.  `others` are the uses of the neighbours alone (n of them, any order);
 * what the model itself uses has no part in the paper's formula. */
double mo_inss_slowdown(const struct mo_inss_model *model, const struct mo_inss_use *others, int n);
/* Both transfers of a batch, ms. */
double mo_inss_copy_ms(const struct mo_inss_model *model, int batch);
/* t_inf, the paper's GPU execution latency: transfers, and time alone times slowdown.  The throughput is
 * batch / t_inf queries a ms. */
double mo_inss_batch_ms(const struct mo_inss_model *model, int batch, int share,
                        const struct mo_inss_use *others, int n);

/* The paper's equation 3: latency of a query that, itself included, makes `waiting` queries in the buffer,
 * while the batch before still runs for left_ms, and `rate` more come a second.  INFINITY when it waits for
 * queries that never come (rate 0, batch not full). */
double mo_inss_task_ms(int batch, double waiting, double rate, double left_ms, double batch_ms);
/* The mean of equation 3 over the queries of a steady Poisson stream, full batches only: a query waits for
 * the rest of its batch, (batch - 1) / 2 arrivals in the mean, and for batches before it, of which equation 3
 * takes the number as given; here it is Kingman's approximation of arrivals in bunches of `batch`.  INFINITY
 * when the stream is faster than the batches. */
double mo_inss_mean_ms(int batch, double rate, double batch_ms);
/* The share of such queries, 0 to 1, that are answered later than limit_ms.  The wait for batches before is
 * taken to be none or distributed exponentially, with the chance and the mean of the same approximation. */
double mo_inss_late(int batch, double rate, double batch_ms, double limit_ms);
#endif
