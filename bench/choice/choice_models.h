/* SPDX-License-Identifier: Apache-2.0
 * choice_models.h - what a runtime chose in its last run, with the models it chose among: their layers'
 * times, and how many versions each has. */
#ifndef MO_BENCH_CHOICE_MODELS_H
#define MO_BENCH_CHOICE_MODELS_H
#include <jansson.h>
#include "runtime/serve/parts.h"

/* mo_choices_json() of the blocks decided on cores in [from, to]; NULL: no events, or out of memory.  The
 * runtime is drained. */
json_t *mo_bench_choices(moire_runtime *runtime, int64_t from, int64_t to);
#endif
