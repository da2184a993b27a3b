/* SPDX-License-Identifier: Apache-2.0
 * inss_curves.h - the learning curves of `moire train inss` (the paper's figures 8 and 9). */
#ifndef MO_INSS_CURVES_H
#define MO_INSS_CURVES_H
#include "bench/learn/inss_train.h"

/* POLICY.csv, a row an episode, and POLICY.svg with their means over MO_INSS_SMOOTH episodes.  Nothing for n
 * 0. */
enum { MO_INSS_SMOOTH = 20 };
int mo_inss_curves_write(const struct mo_env *env, const char *policy, const struct mo_inss_point *points,
                         int n, moire_error *err);
#endif
