/* SPDX-License-Identifier: Apache-2.0
 * infer_wire.h - infer requests off the wire: large tensors stay where they were received. */
#ifndef MS_INFER_WIRE_H
#define MS_INFER_WIRE_H
#include "inference.pb-c.h"
#include "moire.h"

/* Reads a request whose raw_input_contents point into `from`, which has to outlive it; given back by
 * ms_infer_wire_free().
 * Returns: MOIRE_OK; MOIRE_EINVAL: malformed, or more tensors than a request may have; MOIRE_ENOMEM. */
int ms_infer_wire_read(const char *from, size_t n, Inference__ModelInferRequest **out, moire_error *err);
void ms_infer_wire_free(Inference__ModelInferRequest *request);
#endif
