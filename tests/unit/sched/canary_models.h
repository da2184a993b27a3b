/* SPDX-License-Identifier: Apache-2.0
 * canary_models.h - the small models of the canary: number 0 is the marked one. */
#ifndef CANARY_MODELS_H
#define CANARY_MODELS_H
#include <stdint.h>
#include "moire.h"

enum { CANARY_MODELS = 9, CANARY_INPUTS = 2 };

/* The number: a float with four different bytes, which no model computes. */
static const uint32_t CANARY_MARK = 0x4bad5ec7;

/* Writes the model to a file; false: it cannot be written. */
int canary_model_write(int model, const char *path);
/* Its inputs, whose data are freed by the caller; how many. */
int canary_model_inputs(int model, uint64_t seed, moire_tensor in[CANARY_INPUTS]);
#endif
