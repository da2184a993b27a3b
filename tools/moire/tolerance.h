/* SPDX-License-Identifier: Apache-2.0
 * tolerance.h - `--precision auto` with --tolerance: the precision that a command loads a model with. */
#ifndef MO_TOOLS_TOLERANCE_H
#define MO_TOOLS_TOLERANCE_H
#include "codegen/settle_precision.h"
#include "tools/moire/command_line/options.h"

/* MOIRE_EINVAL: a tolerance beside another precision than auto. */
int mo_settle_check(const struct mo_options *options, moire_error *err);
/* Sets front->precision by measurement where the options ask for it, and says on standard error what was
 * found. */
void mo_settle_precision(const struct mo_env *env, const struct mo_options *options, const char *path,
                         const struct mo_plan_options *planning, struct mo_frontend_options *front);
#endif
