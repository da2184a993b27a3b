/* SPDX-License-Identifier: Apache-2.0
 * verify_whole.h - two plans of a model from inputs to outputs. */
#ifndef MO_VERIFY_WHOLE_H
#define MO_VERIFY_WHOLE_H
#include "tools/moire/verify/verify_steps.h"

/* Runs both plans on the same random inputs and compares the outputs: out->whole, error and allowed.  The
 * tolerance follows the depth (the root of the number of compiled layers) and how much the model makes of
 * small differences: the built-in plan runs once more with the output of every layer that is compiled in the
 * other 2^-20 of its scale off.  Outputs of a model that fails on random inputs or that gives no floats are
 * not compared. */
int mo_verify_whole(const struct mo_step_verifier *verifier, struct mo_step_findings *out, moire_error *err);
#endif
