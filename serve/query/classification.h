/* SPDX-License-Identifier: Apache-2.0
 * classification.h - Triton's classification extension: an output's highest values as text,
 * VALUE:INDEX[:LABEL]. */
#ifndef MS_CLASSIFICATION_H
#define MS_CLASSIFICATION_H
#include <stdbool.h>
#include "serve/protocol/bytes.h"
#include "serve/query/class_labels.h"

/* Appends to `text` the `top` highest of `scores`, or all where they are fewer: of each row where the first
 * dimension is a batch, highest first, equals by index, NaN last.  out: the tensor of BYTES that they are;
 * where its data begin in `text` is the caller's to know, as that moves. Returns: MOIRE_OK; MOIRE_EINVAL: of
 * a type that has no order; MOIRE_ENOMEM. */
int ms_classes_write(const moire_tensor *scores, const char *name, int64_t top, bool is_batch,
                     const struct ms_labels *labels, struct ms_bytes *text, moire_tensor *out,
                     moire_error *err);
#endif
