/* SPDX-License-Identifier: Apache-2.0
 *
 * moire_research.h - for studies of scheduling, not for service.  It is not installed: rows of the policy
 * table that it opens come and go with the study that they are for, and no promise of moire.h holds for them.
 *
 * Rows for research are `moire` less one part each ("moire-no-..."), and variants of planners on GPUs that
 * only show what a part of one is worth ("moire-gpu-own", "ideal", ...): docs/simulator.md and
 * docs/gpu-lets.md have them.  The simulator and the bench may use every row.
 */
#ifndef MOIRE_RESEARCH_H
#define MOIRE_RESEARCH_H
#include "moire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As moire_runtime_create(), where `policy` and `device_policy` may name rows for research too. */
MOIRE_API int moire_research_create(const moire_config *config, moire_runtime **out, moire_error *err);

#ifdef __cplusplus
}
#endif
#endif
