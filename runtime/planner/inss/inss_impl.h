/* SPDX-License-Identifier: Apache-2.0
 * inss_impl.h - between the files of InSS's latency model (inss_latency.h). */
#ifndef MO_INSS_IMPL_H
#define MO_INSS_IMPL_H
#include "runtime/planner/inss/inss_latency.h"

enum { MO_INSS_COLUMNS = 4 }; /* most terms of a small least-squares problem */

/* Symmetric normal equations A x = b of n unknowns, which are destroyed.  False: they say the same twice. */
bool mo_inss_solve(int n, double a[MO_INSS_COLUMNS][MO_INSS_COLUMNS], double b[MO_INSS_COLUMNS],
                   double x[MO_INSS_COLUMNS]);

/* The share as the plane of these terms has it: s as a fraction, or 1/s. */
double mo_inss_share_term(enum mo_inss_terms terms, double share);

/* mo_inss_alone_ms() by all points but one (-1: by all). */
double mo_inss_alone_without(const struct mo_inss_model *model, int batch, int share, int without);
#endif
