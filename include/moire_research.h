/* SPDX-License-Identifier: Apache-2.0
 *
 * moire_research.h - for studies of scheduling, not for service.  It is not installed: policies for research
 * come and go with the study that they are for, and no promise of moire.h holds for them.  docs/policies.md
 * lists them.
 */
#ifndef MOIRE_RESEARCH_H
#define MOIRE_RESEARCH_H
#include "moire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As moire_runtime_create(), but `policy` and `device_policy` may name policies for research too.
 * Returns: as moire_runtime_create(). */
MOIRE_API int moire_research_create(const moire_config *config, moire_runtime **out, moire_error *err);

#ifdef __cplusplus
}
#endif
#endif
