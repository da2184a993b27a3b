/* SPDX-License-Identifier: Apache-2.0
 * slow_show.h - what commands say of hot layers that run by the slow reference (runtime/plan/slow.h). */
#ifndef MO_TOOL_SLOW_H
#define MO_TOOL_SLOW_H
#include <jansson.h>
#include "runtime/plan/slow.h"

/* One line on stderr: "moire run: 'm.onnx': 20 of 23 layers, 99 % of the work, run by the slow reference: 3-D
 * Conv (20)".  Nothing when there is nothing to say, or slow is NULL. */
void mo_slow_warn(const char *verb, const char *file, const struct mo_slow *slow);
/* {"text", "layers", "of", "share", "measured", "kinds":[{"what", "layers", "share"}]}; null for nothing. */
json_t *mo_slow_json(const struct mo_slow *slow);
#endif
