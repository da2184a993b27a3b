/* SPDX-License-Identifier: Apache-2.0
 * settle_precision.h - `auto` with a tolerance: which precision a model is to be loaded with on this machine,
 * by measurement.
 *
 * Float32 and each other precision that a model could have run side by side, in turns, on one core and on the
 * same generated inputs; precision_choice.h judges times and outputs.  At most two plans are in memory at a
 * time, and none is left.  Of a model of floats bfloat16 (where the processor multiplies it fast) and weights
 * in float16 are tried; of a model with conversions to 8 bits, 8-bit numbers. */
#ifndef MO_SETTLE_PRECISION_H
#define MO_SETTLE_PRECISION_H
#include "codegen/frontend.h"
#include "runtime/plan/plan.h"

struct mo_precision_ask {
    const struct mo_env *env;
    const char *path;
    const struct mo_frontend_options *front; /* as the model would be loaded without */
    const struct mo_plan_options *planning;
    double tolerance; /* 0: nothing is measured */
};

enum { MO_PRECISION_TEXT = 300 };
struct mo_precision_settled {
    enum moire_precision precision; /* as asked for where that is not AUTO or nothing could be measured */
    char said[MO_PRECISION_TEXT];   /* what was chosen and why; "" where nothing was to be chosen */
};
/* Never fails: a model that cannot be loaded or run on generated inputs keeps its rule, and `said` tells. */
struct mo_precision_settled mo_precision_settle(const struct mo_precision_ask *ask);
#endif
