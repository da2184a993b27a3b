/* SPDX-License-Identifier: Apache-2.0
 * estimate.h - how long a layer takes on one core, guessed from its operator, shapes and kernel.
 *
 * For models whose layers nobody has measured: good to a factor of some three, on a core of 3 GHz or so. What
 * it tells reliably is which layers take a model's time: a reference is 10 to 1000 times slower than a
 * kernel, and an elementwise reference on integers may take longer than the convolution beside it. */
#ifndef MO_PLAN_ESTIMATE_H
#define MO_PLAN_ESTIMATE_H
#include "runtime/plan/plan.h"

/* ns; 0 for a layer that does nothing. */
double mo_step_estimate(const struct mo_graph *graph, const struct mo_step *step);
#endif
