/* SPDX-License-Identifier: Apache-2.0
 * depthwise_small.h - the depthwise family's kernels of 8-bit numbers. */
#ifndef MO_DEPTHWISE_SMALL_H
#define MO_DEPTHWISE_SMALL_H
#include "codegen/family/walk.h"
#include "codegen/family/wide.h"

bool mo_depthwise_small_takes(const struct mo_problem *p);
int mo_depthwise_small_points(const struct mo_problem *p, struct mo_point *points, int cap);
int mo_depthwise_small_emit(const struct mo_problem *p, const struct mo_point *point, FILE *out,
                            moire_error *err);
#endif
