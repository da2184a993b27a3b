/* SPDX-License-Identifier: Apache-2.0
 * timing.h - a plan run several times on one or several cores, timed as a whole or layer by layer. */
#ifndef MO_BENCH_TIMING_H
#define MO_BENCH_TIMING_H
#include "runtime/plan/plan.h"

enum { MO_TIMING_SAMPLES = 512 }; /* of a layer that its median is taken over: the last ones */

struct mo_timing {
    int threads, n_layers;
    int n;           /* repetitions */
    int64_t *run_ns; /* of every repetition, sorted */
    /* by layer; NULL without a profile */
    int64_t *min_ns, *median_ns;
    /* of the fastest repetition, [worker * n_layers + layer], ns from its start: when the worker began its
     * first piece of the layer, and when its last was done (0: it had none) */
    int64_t *begin_ns, *end_ns;
};

struct mo_timing_options {
    int threads;
    int repeat; /* repetitions; 0 = as many as fit into `budget_ns`, 3 at least, after one that does not
                   count */
    int64_t budget_ns;
    bool by_layer;
};

/* The instance has its inputs.  Free with mo_timing_free(), also after an error. */
int mo_timing_run(const struct mo_env *env, const struct mo_plan *plan, struct mo_instance *instance,
                  const struct mo_timing_options *options, struct mo_timing *out, moire_error *err);
/* One layer again and again for about budget_ns, as its plan runs it, barrier included; *best and *median of
 * one run, ns.  Everything it touches is as warm as its size allows. */
int mo_timing_layer(const struct mo_env *env, const struct mo_plan *plan, struct mo_instance *instance,
                    int layer, int threads, int64_t budget_ns, double *best, double *median,
                    moire_error *err);
void mo_timing_free(const struct mo_env *env, struct mo_timing *timing);
#endif
